"""Which tasks a run trains on, and which episodes belong to which training step."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

from mappa_env.seeds import derived_seed
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.types import Job, RolloutWorker


def training_tasks(config: Config, ids: Sequence[str]) -> Sequence[str]:
    """The tasks to train on, out of the ``ids`` of the training split. Raises ConfigError for too few."""
    left = ids[: len(ids) - len(validation_tasks(config, ids))]
    wanted = config.rollout.tasks
    if wanted > len(left):
        raise ConfigError(
            f"rollout.tasks={wanted} exceeds the {len(left)} training tasks"
            f"{' that eval.validation_tasks leaves' if config.eval.validation_tasks else ''}: lower it."
        )
    if not wanted:
        return left
    chosen = random.Random(config.rollout.tasks_seed).sample(range(len(left)), wanted)
    return [left[i] for i in sorted(chosen)]


def validation_tasks(config: Config, ids: Sequence[str]) -> Sequence[str]:
    """The last ``eval.validation_tasks`` ids of the training split. Raises ConfigError for all."""
    kept = config.eval.validation_tasks
    if kept >= len(ids):
        raise ConfigError(
            f"eval.validation_tasks={kept} leaves none of the {len(ids)} training tasks; lower it."
        )
    return ids[len(ids) - kept :]


def jobs_of(config: Config, worker: RolloutWorker, step: int, refill: int = 0) -> list[Job]:
    """The episodes of training step ``step`` (from 1), ``group_size`` consecutive ones on each task.

    Validation tasks are excluded. ``refill``: a round above 0 gives other episodes, for the same step.
    """
    rollout = config.rollout
    size = rollout.group_size
    key = (config.run.seed, step, *(("refill", refill) if refill else ()))
    seeds = [derived_seed(*key, i) for i in range(rollout.episodes_per_step)]
    plain = rollout.draw == "replacement" and not (rollout.tasks or config.eval.validation_tasks)
    if rollout.stratify == "off" and size == 1 and plain:
        return [Job(seed) for seed in seeds]
    ids = training_tasks(config, worker.task_ids)
    if rollout.stratify == "off":
        drawn = [ids[derived_seed(*key, "task", i // size) % len(ids)] for i in range(len(seeds))]
        if rollout.draw == "passes" and not refill:  # a refill replaces tasks of the pass by any
            once = in_passes(ids, config.run.seed, (step - 1) * len(seeds) // size, len(seeds) // size)
            drawn = [once[i // size] for i in range(len(seeds))]
        return [Job(seed, task_id) for seed, task_id in zip(seeds, drawn, strict=True)]
    kept = set(ids)
    pools = {family: [i for i in members if i in kept] for family, members in worker.families.items()}
    tasks = stratified(
        {family: members for family, members in pools.items() if members},
        rollout.episodes_per_step // size,
        rollout.stratify,
        derived_seed(*key, "strata"),
    )
    return [Job(seed, tasks[i // size]) for i, seed in enumerate(seeds)]


def in_passes(ids: Sequence[str], seed: int, first: int, count: int) -> list[str]:
    """``count`` draws after the ``first`` ones of a sequence with all ``ids`` before any comes again."""
    orders: dict[int, list[str]] = {}
    drawn = []
    for number in range(first, first + count):
        whole, at = divmod(number, len(ids))
        if whole not in orders:
            orders[whole] = list(ids)
            random.Random(derived_seed(seed, "pass", whole)).shuffle(orders[whole])
        drawn.append(orders[whole][at])
    return drawn


def stratified(
    pools: Mapping[str, Sequence[str]], count: int, how: Literal["proportional", "equal"], seed: int
) -> list[str]:
    """Draw ``count`` task ids from the families in ``pools``, with replacement, in mixed order.

    Systematic sampling: marks ``1 / count`` apart, starting at an offset drawn with ``seed``, over the
    families laid end to end. A family with the fraction f of all tasks (``equal``: 1 / number of families)
    gets f ``count`` of a step's tasks, rounded down or up, and exactly f of all tasks on average.
    """
    draw = random.Random(seed)
    names = sorted(pools)
    ends = list(itertools.accumulate(len(pools[name]) if how == "proportional" else 1 for name in names))
    offset = draw.random()
    marks = ((k + offset) / count * ends[-1] for k in range(count))
    drawn = [draw.choice(pools[names[min(bisect_right(ends, mark), len(names) - 1)]]) for mark in marks]
    draw.shuffle(drawn)
    return drawn
