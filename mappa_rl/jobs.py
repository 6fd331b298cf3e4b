"""Which episodes belong to which training step."""

from __future__ import annotations

import hashlib

from mappa_rl.config import Config
from mappa_rl.held_out import training_tasks
from mappa_rl.rollout import Job, Player
from mappa_rl.stratify import stratified


def jobs_of(config: Config, player: Player, step: int) -> list[Job]:
    """A step's episodes; with ``samples_per_task``, so many of each task in a row.

    Tasks for validation are not among them.
    """
    rollout, run = config.rollout, config.run.seed
    each = rollout.samples_per_task
    seeds = [_seed(run, step, i) for i in range(rollout.episodes_per_step)]
    if rollout.stratify == "off" and each == 1 and not config.eval.validation:
        return [Job(seed) for seed in seeds]
    ids = training_tasks(config, player.task_ids)
    if rollout.stratify == "off":
        drawn = [ids[_seed(run, step, "task", i // each) % len(ids)] for i in range(len(seeds))]
        return [Job(seed, task_id) for seed, task_id in zip(seeds, drawn, strict=True)]
    kept = set(ids)
    pools = {name: [i for i in members if i in kept] for name, members in player.families.items()}
    count = rollout.episodes_per_step // each
    tasks = stratified(
        {name: members for name, members in pools.items() if members}, count, rollout.stratify,
        _seed(run, step, "strata"),
    )  # fmt: skip
    return [Job(seed, tasks[i // each]) for i, seed in enumerate(seeds)]


def _seed(*parts: object) -> int:
    """63 bits that follow from ``parts``."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
