"""Which episodes belong to which training step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mappa_rl.config import Config
from mappa_rl.held_out import training_tasks
from mappa_rl.rollout import Job


def jobs_of(config: Config, task_ids: Sequence[str], step: int) -> list[Job]:
    """A step's episodes; with ``samples_per_task``, so many of each task in a row.

    Tasks for validation are not among them.
    """
    each, run = config.rollout.samples_per_task, config.run.seed
    seeds = [_seed(run, step, i) for i in range(config.rollout.episodes_per_step)]
    if each == 1 and not config.eval.validation:
        return [Job(seed) for seed in seeds]
    ids = training_tasks(config, task_ids)
    return [Job(seed, ids[_seed(run, step, "task", i // each) % len(ids)]) for i, seed in enumerate(seeds)]


def _seed(*parts: object) -> int:
    """63 bits that follow from ``parts``."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
