"""A coach that asks the run's coach service on the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.base import BaseCoach
from mappa_env.errors import CoachError
from mappa_env.types import Attribution, Evidence, Trajectory, Verdict
from mappa_rl.cluster.actors import answer
from mappa_rl.cluster.session import import_ray
from mappa_rl.coach.service import NAME
from mappa_rl.errors import ClusterError


class ServedCoach(BaseCoach):
    """``coach="served"``: the coach that ``mappa_rl.coach.service`` holds. Only within a run on a cluster."""

    def __init__(self, card: Card) -> None:
        super().__init__(card)
        ray = import_ray()
        try:
            self._actor = ray.get_actor(NAME)
        except (ValueError, RuntimeError) as error:
            raise CoachError(f"coach='served' exists only within a run with cluster=ray: {error}") from error
        found = self._ask("describe")
        self.name, self.deterministic = str(found["name"]), bool(found["deterministic"])
        self.corrects, self.labels = bool(found["corrects"]), bool(found["labels"])

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """See ``Coach.judge``. Raises CoachError if the service is lost, and what the coach raises."""
        verdict: Verdict = self._ask("judge", evidence, fresh)
        return verdict

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        """See ``Coach.judge_many``."""
        verdicts: list[Verdict] = self._ask("judge_many", list(batch))
        return verdicts

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """See ``Coach.judge_later``."""
        asked = self._actor.judge.remote(evidence, False)
        done: Future[Verdict] = Future()

        def on_answer(_: Any) -> None:
            try:
                done.set_result(self._answer(asked))
            except Exception as error:  # noqa: BLE001  (the future raises it in ``result()``)
                done.set_exception(error)

        asked.future().add_done_callback(on_answer)
        return done

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """See ``Coach.blame``."""
        found: Attribution = self._ask("blame", trajectory, traced)
        return found

    def wait(self) -> None:
        """See ``Coach.wait``."""
        self._ask("wait")

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self._answer(getattr(self._actor, method).remote(*arguments))

    def _answer(self, asked: Any) -> Any:
        try:
            return answer(asked, "the coach service")
        except ClusterError as error:
            raise CoachError(str(error)) from error
