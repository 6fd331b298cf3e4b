"""``mappa-rl eval``: evaluate the warm start and the trained team of a run again, or on benchmarks."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console

from mappa_rl.coach.files import with_coach_files
from mappa_rl.coach.service import coach_served
from mappa_rl.commands.checkpoint import checkpoint_of
from mappa_rl.commands.console import REFUSED, finish, one_run, say_unread
from mappa_rl.commands.on_benchmarks import FOLDER, Wanted, add_benchmarks, evaluate_on, report
from mappa_rl.commands.options import add_checkpoint, add_dry_run, add_overrides
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG, next_folder, write_config
from mappa_rl.errors import ConfigError
from mappa_rl.evaluation.summarise import summarise
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.telemetry.progress import Progress
from mappa_rl.training.preflight import require

HELP = "evaluate a finished run again, with other settings, or on benchmarks"
ALLOWED = ("env.", "eval.", "rollout.")
"""Sections that an evaluation may change."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    add_checkpoint(parser)
    add_overrides(parser, "env.*, eval.* and rollout.* settings to change, for example eval.episodes=100")
    add_benchmarks(parser)
    add_dry_run(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    folder = one_run(args.folder, "evaluate")
    config = changed(folder, args.overrides)
    wanted = Wanted.of(args)
    if wanted is not None:
        if args.dry_run:
            raise ConfigError("--dry-run does not go with --benchmark: try it with --limit 1.")
        say_unread(config, args.overrides, console)
        benchmarks = args.out or folder / FOLDER
        report(evaluate_on(wanted, config, folder, benchmarks, args.checkpoint), benchmarks, console)
        return 0
    out = next_folder(folder / "again")
    if args.dry_run:
        from mappa_rl.commands.dry_run import preview_play

        well = preview_play(
            config,
            out,
            console,
            "evaluate",
            source=checkpoint_of(config, folder, args.checkpoint),
            overrides=args.overrides,
            verbose=args.verbose,
        )
        return 0 if well else REFUSED
    say_unread(config, args.overrides, console)
    reevaluate(config, folder, out, args.checkpoint)
    return finish([out], out, console)


def changed(run: Path, overrides: list[str]) -> Config:
    """The settings of ``run`` with ``overrides``. Raises ConfigError for what an evaluation cannot change."""
    wrong = [text for text in overrides if not text.startswith(ALLOWED)]
    if wrong:
        raise ConfigError(
            f"eval can change only env.*, eval.* and rollout.* settings, not {', '.join(wrong)}."
        )
    return load_config(run / CONFIG, overrides)


def reevaluate(config: Config, run: Path, out: Path, checkpoint: str = "latest") -> Path:
    """Evaluate the run in ``run`` under ``config`` (its own, changed) and write the result to ``out``.

    ``out`` becomes a run folder without training; ``checkpoint`` is ``latest``, ``best``
    or a step. Raises RunError if the run has no checkpoint, CheckpointError if it does not have this one.
    """
    path = checkpoint_of(config, run, checkpoint)
    from mappa_rl.evaluation.held_out import HeldOut
    from mappa_rl.evaluation.reuse import reuse_stored
    from mappa_rl.training.build import build_policies, make_worker, workers_elsewhere
    from mappa_rl.training.load_weights import load_trained
    from mappa_rl.training.start import starting_model

    require(config, out, "evaluate")
    wanted = config
    with ExitStack() as held, Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        config = held.enter_context(coach_served(with_coach_files(write_config(config, out), out)))
        policies = build_policies(config, starting_model(config, run, progress))
        watch = progress.watch
        with (
            closing(policies),
            make_worker(config, policies, "train", watch, judged=False) as calibrating,
            make_worker(config, policies, "eval", watch) as judged,
            make_worker(config, policies, "eval", watch, judged=False) as plain,
            workers_elsewhere(config, policies, watch) as also,
        ):
            for line in reuse_stored(run, load_config(run / CONFIG), out, wanted):
                progress.note(line)
            evaluation = HeldOut(config, out, progress, judged, plain, also)
            evaluation.calibrate(calibrating)
            evaluation.measure("before", evaluation.temperatures, trace=True)
            load_trained(policies, path)
            evaluation.measure("after", evaluation.temperatures, trace=True)
    trained = read_summary(run)
    summarise(
        out,
        config,
        episodes=0,
        progress=progress,
        calibration=evaluation.calibration,
        faults=trained.faults if trained is not None else (),
    )
    return out
