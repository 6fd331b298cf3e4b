"""A deterministic coach that even a random policy can learn from: points for how long an action is."""

from __future__ import annotations

from mappa_env.coach import BaseCoach
from mappa_env.types import Evidence, Verdict


class LengthCoach(BaseCoach):
    name = "length"
    deterministic = True

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        return Verdict("ok", float(len(evidence.action) % 11), "", coach=self.name)


class PatchyCoach(LengthCoach):
    """Abstains on every action whose length is a multiple of 4."""

    name = "patchy"

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        if len(evidence.action) % 4 == 0:
            return Verdict("abstain", None, "", coach=self.name)
        return super().judge(evidence, fresh=fresh)
