"""The coach protocol: evidence in, verdict out; a missing score is never a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mappa_env.types import Evidence, Verdict


class Coach(Protocol):
    """``name`` goes into every verdict; ``deterministic`` coaches give equal verdicts for equal evidence."""

    name: str
    deterministic: bool

    def judge(self, evidence: Evidence) -> Verdict: ...

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]: ...

    def close(self) -> None: ...


class OffCoach:
    """``coach="off"``: abstains always, so that process rewards are absent rather than invented."""

    name = "off"
    deterministic = True
    _verdict = Verdict("abstain", None, "the coach is off", coach="off")

    def judge(self, evidence: Evidence) -> Verdict:
        return self._verdict

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        return [self._verdict] * len(batch)

    def close(self) -> None:
        return None
