"""The coach protocol: evidence in, verdict out; a missing score is never a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from mappa_env.cards import Card
from mappa_env.coach.culprit import by_verdicts
from mappa_env.errors import CoachStopped
from mappa_env.types import Attribution, Evidence, Trajectory, Verdict


class Coach(Protocol):
    """Scores actions. ``name`` goes into every verdict.

    A ``deterministic`` coach gives equal verdicts for equal evidence. ``corrects``: its verdicts may carry
    corrected actions, which ``episode.corrections`` tries. ``labels``: its verdicts may depend on the hidden
    truth if the card allows it.
    """

    name: str
    deterministic: bool

    @property
    def corrects(self) -> bool:
        """Whether verdicts may carry corrected actions."""
        ...

    @property
    def labels(self) -> bool:
        """Whether verdicts may depend on the hidden truth."""
        ...

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """Return the verdict on one action.

        ``fresh``: bypass any cache, to test whether the same question gets the same answer. A deterministic
        coach ignores it; a recording raises CoachStopped, because it cannot be asked again.
        """
        ...

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        """Return the verdicts on ``batch``, in its order."""
        ...

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """Start judging. A fast coach may have finished when this returns."""
        ...

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """Decide among the suspects of ``traced``, an attribution that backward tracing left open.

        If the coach cannot decide, the result has no fractions. Raises CoachStopped as ``judge`` does.
        """
        ...

    def wait(self) -> None:
        """Return when the coach is available: rollouts pause while a server is down."""
        ...

    def close(self) -> None:
        """Release connections and threads."""
        ...


class BaseCoach:
    """Base class of fast coaches: subclasses implement ``judge``. Called with the card, then the options.

    A slow coach overrides ``judge_later`` to judge in the background.
    """

    name = "own"
    deterministic = False
    corrects = False
    labels = True

    def __init__(self, card: Card) -> None:
        self.card = card

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """See ``Coach.judge``. Raise CoachError if there is no score, CoachStopped to end the run."""
        raise NotImplementedError(f"{type(self).__name__} must implement judge().")

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        """Judge one after the other."""
        return [self.judge(evidence) for evidence in batch]

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """Judge immediately; the future is done."""
        return at_once(self.judge, evidence)

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """Decide by the verdicts of the episode (``by_verdicts``)."""
        return by_verdicts(trajectory.actions, traced, self.card.team)

    def wait(self) -> None:
        """Return immediately."""
        return None

    def close(self) -> None:
        """Do nothing."""
        return None


def at_once(judge: Callable[[Evidence], Verdict], evidence: Evidence) -> Future[Verdict]:
    """The ``judge_later`` of a fast coach: a future that is already done."""
    done: Future[Verdict] = Future()
    try:
        done.set_result(judge(evidence))
    except Exception as error:  # noqa: BLE001  (the future raises it in ``result()``)
        done.set_exception(error)
    return done


def checked(verdict: Verdict, coach: Coach) -> Verdict:
    """Return ``verdict`` if it is well-formed.

    Raises CoachStopped otherwise: such a bug is permanent, so retrying is useless.
    """
    if not isinstance(verdict, Verdict):
        raise CoachStopped(
            f"the coach {coach.name!r} returned {verdict!r:.80}; judge() must return a Verdict."
        )
    if (verdict.score is not None) != (verdict.status in ("ok", "suspect")):
        raise CoachStopped(
            f"the coach {coach.name!r} returned status {verdict.status!r} with score {verdict.score!r}: "
            "'ok' and 'suspect' need a score, other statuses must have None."
        )
    if verdict.score is not None and not 0 <= verdict.score <= 10:
        raise CoachStopped(f"the coach {coach.name!r} returned the score {verdict.score!r}; it must be 0-10.")
    return verdict


class OffCoach(BaseCoach):
    """``coach="off"``: always abstains, so there are no process rewards."""

    name = "off"
    deterministic = True
    _verdict = Verdict("abstain", None, "the coach is off", coach="off")

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """Abstain."""
        return self._verdict
