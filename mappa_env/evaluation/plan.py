"""What an evaluation plays: environments, tasks, samples. Everything that its results depend on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.data.store import is_split
from mappa_env.errors import OptionError, nearest
from mappa_env.seeds import derived_seed


@dataclass(frozen=True, slots=True)
class Plan:
    """``models``: agent -> specification of its model; ``*`` is who plays every agent that is not named.

    ``limit``: tasks of each environment, drawn with ``seed``; None: all. ``samples``: episodes of each task.
    ``options``: keywords of the environments.
    """

    envs: tuple[str, ...]
    models: Mapping[str, Mapping[str, Any]]
    tasks: str = "eval"
    limit: int | None = None
    samples: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def model(self, agent: str) -> Mapping[str, Any]:
        """The specification of the model that plays ``agent``."""
        return self.models.get(agent, self.models.get("*", {}))

    def check(self, cards: Sequence[Card]) -> None:
        """Raises OptionError for an agent that no team has, or an agent without one; see ``check_tasks``."""
        self.check_tasks(cards)
        names = {name for card in cards for name in card.team.names}
        for agent in self.models:
            if agent != "*" and agent not in names:
                known = ", ".join(sorted(names))
                raise OptionError(
                    f"no team has the agent {agent!r}; there are {known}." + nearest(agent, names)
                )
        if alone := sorted(name for name in names if not self.model(name)):
            raise OptionError(f"{alone[0]} has no model: set --model, or --agent {alone[0]}=<model>.")

    def check_tasks(self, cards: Sequence[Card]) -> None:
        """Raises OptionError if one file would count as the tasks of several benchmarks."""
        loaders = sorted({card.loader for card in cards})
        if len(loaders) > 1 and not is_split(self.tasks) and Path(self.tasks).exists():
            raise OptionError(
                f"--tasks {self.tasks} would be read by the task loaders {', '.join(loaders)}, and count as "
                "tasks of several benchmarks: evaluate each environment alone, or add the files with "
                "`mappa-env data add` and name a split."
            )

    def jobs(self, env: str, task_ids: Sequence[str]) -> list[Job]:
        """The episodes of ``env``, task by task. Its tasks are a sample that depends on ``seed`` alone."""
        chosen = sorted(task_ids)
        if self.limit is not None and self.limit < len(chosen):
            chosen = sorted(random.Random(derived_seed(self.seed, _flat(env))).sample(chosen, self.limit))
        return [Job(env, task, sample) for task in chosen for sample in range(self.samples)]

    @property
    def settings(self) -> dict[str, Any]:
        """What makes one evaluation differ from another, as JSON. Names of variables, never keys."""
        return dataclasses.asdict(self) | {"envs": list(self.envs)}


@dataclass(frozen=True, slots=True)
class Job:
    """One episode."""

    env: str
    task_id: str
    sample: int

    def seed(self, of: int) -> int:
        """The episode's seed, in an evaluation with the seed ``of``."""
        return derived_seed(of, _flat(self.env), _flat(self.task_id), self.sample)


def pending(jobs: Sequence[Job], done: Sequence[Job]) -> Iterator[Job]:
    """The jobs that are not ``done``."""
    known = set(done)
    return (job for job in jobs if job not in known)


def _flat(name: str) -> str:
    """``name`` as a part of a derived seed, which must contain no slash."""
    return name.replace("/", ":")
