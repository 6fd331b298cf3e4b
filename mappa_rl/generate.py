"""``mappa-rl generate``: episodes alone, played by fixed weights and recorded. Nothing is learned."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from mappa_rl.config import Config
from mappa_rl.launch import write_config
from mappa_rl.progress import Progress
from mappa_rl.records import write_step


def generate(config: Config, out: Path, run: Path | None = None) -> Path:
    """Play ``run.steps`` training steps' episodes into ``out/rollouts``, with metrics beside them.

    The weights are those that a run of this config starts with, or the newest checkpoint of the run in
    ``run``. Step 1 of a recipe is what training by it would learn from in its step 1. Raises RunError.
    """
    import torch

    from mappa_rl.assembly import collector, players
    from mappa_rl.batches import own_batches
    from mappa_rl.bias import CoachBias
    from mappa_rl.checkpoint import Checkpoints
    from mappa_rl.checks import check_run
    from mappa_rl.coach_files import with_coach_files
    from mappa_rl.service_stats import service_stats
    from mappa_rl.sinks import sinks_of
    from mappa_rl.statistics import check_masked, rollout_stats
    from mappa_rl.step import as_recorded
    from mappa_rl.trained import load_trained
    from mappa_rl.warmstart import warm_start

    check_run(config)
    config = with_coach_files(write_config(config, out), out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with Progress(f"episodes of {config.env.id}") as progress:
        policies, _ = players(config, warm_start(config, out if run is None else run, progress))
        if run is not None:
            load_trained(policies, Checkpoints(run / "checkpoints").intact("latest"))
        with (
            closing(policies),
            collector(config, policies, "train", progress.watch) as training,
            CoachBias(config, out, progress) as bias,
            sinks_of(config, out, progress.note) as metrics,
        ):
            batches = own_batches(config, policies, training)
            progress.phase("generating", config.run.steps, "steps")
            for step in range(1, config.run.steps + 1):
                started = time.perf_counter()
                collected = batches.take(step)
                values = rollout_stats(collected) | service_stats(collected.trajectories)
                check_masked(collected, config.rollout.max_masked, step)
                values |= bias.step(step, collected)
                write_step(out, as_recorded(config, policies, step, collected))
                values["time/step"] = time.perf_counter() - started
                metrics.log(step, values)
                progress.update(step, values)
    return out
