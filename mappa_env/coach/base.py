"""The coach protocol: evidence in, verdict out; a missing score is never a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from mappa_env.types import Evidence, Verdict


class Coach(Protocol):
    """``name`` goes into every verdict; ``deterministic`` coaches give equal verdicts for equal evidence."""

    name: str
    deterministic: bool

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """``fresh``: ask anew, past any cache, to see whether the same question gets the same answer. Raises
        CoachStopped where nobody can be asked: a recording. Means nothing to a deterministic coach."""
        ...

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]: ...

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """Begin to judge. A coach that is quick may have done it when this returns."""
        ...

    def wait(self) -> None:
        """Return when verdicts can be had: rollouts pause while a server is down."""
        ...

    def close(self) -> None: ...


def at_once(judge: Callable[[Evidence], Verdict], evidence: Evidence) -> Future[Verdict]:
    """``judge_later`` of a coach that is quick."""
    done: Future[Verdict] = Future()
    try:
        done.set_result(judge(evidence))
    except Exception as error:  # noqa: BLE001  (the future raises it where its result is asked for)
        done.set_exception(error)
    return done


class OffCoach:
    """``coach="off"``: abstains always, so that process rewards are absent rather than invented."""

    name = "off"
    deterministic = True
    _verdict = Verdict("abstain", None, "the coach is off", coach="off")

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        return self._verdict

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        return [self._verdict] * len(batch)

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        return at_once(self.judge, evidence)

    def wait(self) -> None:
        return None

    def close(self) -> None:
        return None
