"""A coach whose verdicts take their time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.registration import find_card
from mappa_env.types import Evidence, Verdict


class SlowCoach(RubricCoach):
    """The rubric in the background: verdicts arrive when ``gate`` opens, or after ``seconds``."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(find_card("mathchat"))
        self.gate = threading.Event()
        self.seconds = seconds
        self.pool = ThreadPoolExecutor(8)
        self.asked = self.waits = 0
        if seconds:
            self.gate.set()

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        self.asked += 1
        return self.pool.submit(self._slowly, evidence)

    def wait(self) -> None:
        self.waits += 1

    def _slowly(self, evidence: Evidence) -> Verdict:
        assert self.gate.wait(60)
        time.sleep(self.seconds)
        return self.judge(evidence)
