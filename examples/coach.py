"""mappa-env play mathchat --coach examples/coach.py:Brief"""

from mappa_env.cards import Card
from mappa_env.coach import BaseCoach
from mappa_env.types import Evidence, Verdict


class Brief(BaseCoach):
    """Prefers actions of at most ``limit`` characters."""

    name = "brief"

    def __init__(self, card: Card, limit: int = 400) -> None:
        super().__init__(card)
        self.limit = limit

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        score = 10.0 if len(evidence.action) <= self.limit else 2.0
        return Verdict("ok", score, f"{len(evidence.action)} characters", coach=self.name)
