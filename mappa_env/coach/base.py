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
    """``name`` goes into every verdict; ``deterministic`` coaches give equal verdicts for equal evidence.

    ``corrects``: its verdicts may carry corrected actions, which are then tried (``mappa_env.correcting``).
    ``labels``: the hidden truth may have a part in its verdicts, where the card allows it.
    """

    name: str
    deterministic: bool

    @property
    def corrects(self) -> bool: ...

    @property
    def labels(self) -> bool: ...

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """``fresh``: ask anew, past any cache, to see whether the same question gets the same answer. Raises
        CoachStopped where nobody can be asked: a recording. Means nothing to a deterministic coach."""
        ...

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]: ...

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """Begin to judge. A coach that is quick may have done it when this returns."""
        ...

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """Decide an attribution that the trail left open, among its suspects; without shares where that
        cannot be done. Raises CoachStopped as ``judge`` does."""
        ...

    def wait(self) -> None:
        """Return when verdicts can be had: rollouts pause while a server is down."""
        ...

    def close(self) -> None: ...


class BaseCoach:
    """All of a quick coach but ``judge``, which is to be written. Called with the card, then the options.

    A slow coach overrides ``judge_later``, so that it judges beside the team.
    """

    name = "own"
    deterministic = False
    corrects = False
    labels = True

    def __init__(self, card: Card) -> None:
        self.card = card

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """See ``Coach.judge``. Raises CoachError where there is no score, CoachStopped to end the run."""
        raise NotImplementedError(f"{type(self).__name__} has to say what actions are worth: write judge().")

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        return [self.judge(evidence) for evidence in batch]

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        return at_once(self.judge, evidence)

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """By the verdicts of the episode (``by_verdicts``)."""
        return by_verdicts(trajectory.actions, traced, self.card.team)

    def wait(self) -> None:
        return None

    def close(self) -> None:
        return None


def at_once(judge: Callable[[Evidence], Verdict], evidence: Evidence) -> Future[Verdict]:
    """``judge_later`` of a coach that is quick."""
    done: Future[Verdict] = Future()
    try:
        done.set_result(judge(evidence))
    except Exception as error:  # noqa: BLE001  (the future raises it where its result is asked for)
        done.set_exception(error)
    return done


def checked(verdict: Verdict, coach: Coach) -> Verdict:
    """``verdict``, if it is one that may be paid. Raises CoachStopped: a coach that errs so errs always."""
    if not isinstance(verdict, Verdict):
        raise CoachStopped(f"the coach {coach.name!r} answered {verdict!r:.80}, which is no Verdict.")
    if (verdict.score is not None) != (verdict.status in ("ok", "suspect")):
        raise CoachStopped(
            f"the coach {coach.name!r} gave status {verdict.status!r} with score {verdict.score!r}: a score "
            "goes with 'ok' and 'suspect', and with nothing else."
        )
    if verdict.score is not None and not 0 <= verdict.score <= 10:
        raise CoachStopped(f"the coach {coach.name!r} gave the score {verdict.score!r}; scores are 0-10.")
    return verdict


class OffCoach(BaseCoach):
    """``coach="off"``: abstains always, so that process rewards are absent rather than invented."""

    name = "off"
    deterministic = True
    _verdict = Verdict("abstain", None, "the coach is off", coach="off")

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        return self._verdict
