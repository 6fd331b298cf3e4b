"""One coach for all environments of a run on a cluster: one budget, one rate limit, one cache."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach import Coach, make_coach
from mappa_env.types import Attribution, Evidence, Trajectory, Verdict
from mappa_rl.cluster.actors import here, placed
from mappa_rl.cluster.session import connect
from mappa_rl.coach.files import asks_a_model
from mappa_rl.config import Config
from mappa_rl.config.environment import env_card

NAME = "coach"
"""The actor's name."""
AT_ONCE = 64
"""Questions that the service takes at once; how many of them reach the model is the coach's own limit."""


class CoachService:
    """The actor: the coach that ``spec`` names, with its key, its cache and its ledger."""

    def __init__(self, spec: str | Mapping[str, Any], card: Card) -> None:
        self._coach: Coach = make_coach(spec, card)
        self._asked = self._judging = 0
        self._counting = threading.Lock()

    def where(self) -> dict[str, Any]:
        """See ``here``; ``asked`` counts verdicts, and ``waiting`` those under way."""
        return {**here(), "asked": self._asked, "waiting": self._judging}

    def describe(self) -> dict[str, Any]:
        """What a coach says about itself: ``name``, ``deterministic``, ``corrects``, ``labels``."""
        coach = self._coach
        return {
            "name": coach.name,
            "deterministic": coach.deterministic,
            "corrects": coach.corrects,
            "labels": coach.labels,
        }

    def judge(self, evidence: Evidence, fresh: bool) -> Verdict:
        """See ``Coach.judge``."""
        with self._counted(1):
            return self._coach.judge(evidence, fresh=fresh)

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        """See ``Coach.judge_many``."""
        with self._counted(len(batch)):
            return self._coach.judge_many(batch)

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """See ``Coach.blame``."""
        return self._coach.blame(trajectory, traced)

    def wait(self) -> None:
        """See ``Coach.wait``."""
        self._coach.wait()

    @contextmanager
    def _counted(self, verdicts: int) -> Iterator[None]:
        with self._counting:
            self._asked += verdicts
            self._judging += verdicts
        try:
            yield
        finally:
            with self._counting:
                self._judging -= verdicts


@contextmanager
def coach_served(config: Config) -> Iterator[Config]:
    """``config`` with its coach as a service for as long as the block, where a model judges on a cluster.

    The service runs on this process's node, where the coach's key is and its files are, so that neither
    reaches the nodes that run agents' code. Ray restarts it if it dies: its cache answers what it had
    answered, and its ledger keeps what was spent. The yielded config is for use in memory only.
    """
    if config.cluster.name == "local" or not asks_a_model(config):
        yield config
        return
    ray = connect(config.cluster)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    actor = (  # which ends with this reference to it
        ray.remote(CoachService)
        .options(
            name=NAME,
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=AT_ONCE,
        )
        .remote(config.env.coach, env_card(config.env.id))
    )
    placed(actor, NAME, {}, config.cluster.placement_s)
    env = config.env.model_copy(update={"coach": "served"})
    try:
        yield config.model_copy(update={"env": env})
    finally:
        ray.kill(actor)
