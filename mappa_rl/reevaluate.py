"""``mappa-rl eval``: the warm start and the trained team of a run, measured once more with other settings."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from mappa_rl.checks import check_sampling
from mappa_rl.coach_files import with_coach_files
from mappa_rl.config import Config
from mappa_rl.errors import RunError
from mappa_rl.launch import write_config
from mappa_rl.progress import Progress
from mappa_rl.summary import read_summary, summarise


def reevaluate(config: Config, run: Path, out: Path, checkpoint: str = "latest") -> Path:
    """Evaluate the run in ``run`` under ``config`` (its own, changed) and write the result to ``out``.

    ``out`` becomes a folder with the form of a run, without training; ``checkpoint`` is ``latest``, ``best``
    or a step. Raises RunError where there is no checkpoint, CheckpointError where there is not this one.
    """
    if not (run / "checkpoints").is_dir():
        raise RunError(f"{run} has no checkpoint yet: go on with `mappa-rl train --resume {run}` first.")
    from mappa_rl.assembly import collector, players
    from mappa_rl.checkpoint import Checkpoints
    from mappa_rl.held_out import HeldOut
    from mappa_rl.trained import load_trained
    from mappa_rl.warmstart import warm_start

    check_sampling(config)
    path = Checkpoints(run / "checkpoints").intact(checkpoint)

    with Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        config = with_coach_files(write_config(config, out), out)
        policies, _ = players(config, warm_start(config, run, progress))
        watch = progress.watch
        with (
            closing(policies),
            collector(config, policies, "train", watch, judged=False) as calibrating,
            collector(config, policies, "eval", watch) as judged,
            collector(config, policies, "eval", watch, judged=False) as plain,
        ):
            evaluation = HeldOut(config, out, progress, judged, plain)
            evaluation.calibrate(calibrating)
            evaluation.measure("before", evaluation.temperatures, trace=True)
            load_trained(policies, path)
            evaluation.measure("after", evaluation.temperatures, trace=True)
    trained = read_summary(run)
    summarise(
        out,
        config,
        episodes=0,
        phases=progress.seconds,
        watch=watch,
        best=evaluation.best,
        calibration=evaluation.calibration,
        faults=trained.faults if trained is not None else (),
    )
    return out
