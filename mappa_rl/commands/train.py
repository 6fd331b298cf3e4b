"""``mappa-rl train``: train a recipe, or resume a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.commands.console import REFUSED, Interrupted, finish, say_unread
from mappa_rl.commands.fleet import plan_seeds, run_all, run_processes, unfinished
from mappa_rl.commands.options import RECIPE_HELP, add_fleet, add_model, add_overrides, check_parallel
from mappa_rl.config import Config, load_config, recipe_names
from mappa_rl.config.resumable import check_resumable
from mappa_rl.config.run_folder import CONFIG, new_folder
from mappa_rl.errors import ConfigError
from mappa_rl.report.combine import combine
from mappa_rl.report.runs import find_runs, read_run
from mappa_rl.stopping import LIMIT_S, Stopping, signal_of
from mappa_rl.training.exhausted import resumable
from mappa_rl.training.preflight import Problem, find_problems, refuse, require

HELP = "train a recipe, or resume a run"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("recipe", nargs="?", help=RECIPE_HELP)
    add_overrides(parser)
    add_model(parser)
    parser.add_argument("--resume", type=Path, metavar="DIR", help="resume the run or runs in this folder")
    parser.add_argument("--checked", action="store_true", help=argparse.SUPPRESS)
    add_fleet(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    if args.resume is not None:
        return _resume(args, console)
    if args.checked:
        raise ConfigError("--checked needs --resume: a new run is always checked.")
    if args.recipe is None:
        raise ConfigError(f"name a recipe ({', '.join(recipe_names())}) or a YAML file.")
    config = load_config(args.recipe, args.overrides)
    out = new_folder(config, args.recipe)
    seeds = args.seeds or [config.run.seed]
    check_parallel(args.parallel, len(seeds))
    if args.dry_run:
        return dry_run(args, config, out, console)
    say_unread(config, args.overrides, console)
    if len(seeds) == 1:
        config = config.with_overrides([f"run.seed={seeds[0]}"])
        return _one(config, out, False, console)
    refuse(find_problems(config, out, runs=len(seeds), parallel=args.parallel))
    return run_several(plan_seeds(config, out, seeds), out, args.parallel, console)


def run_several(folders: Sequence[Path], out: Path, parallel: int, console: Console) -> int:
    """Finish the runs in ``folders``, each in a process of its own, and report them together."""
    try:
        with Stopping():
            run_all(folders, console, parallel)
    except KeyboardInterrupt as stop:
        raise Interrupted(out, signal_of(stop)) from None
    runs = [read_run(folder) for folder in folders]
    combine(runs).write(out)
    return finish(folders, out, console)


def _resume(args: argparse.Namespace, console: Console) -> int:
    overrides = [text for text in (args.recipe, *args.overrides) if text]
    check_resumable([*overrides, *(["--seeds"] if args.seeds else [])])
    folders = find_runs([args.resume])
    if folders != [args.resume]:
        if overrides:
            raise ConfigError(
                f"{args.resume} holds {len(folders)} runs: resume one of them to change {overrides}."
            )
        if args.dry_run:
            from mappa_rl.commands.dry_run import preview_rest

            problems = problems_of_rest(folders, args.resume, args.parallel)
            return 0 if preview_rest(unfinished(folders), args.resume, problems, console) else REFUSED
        if not args.checked:
            refuse(problems_of_rest(folders, args.resume, args.parallel))
        return run_several(folders, args.resume, args.parallel, console)
    check_parallel(args.parallel, 1)
    before, config = load_config(args.resume / CONFIG), load_config(args.resume / CONFIG, overrides)
    if args.dry_run:
        return dry_run(args, config, args.resume, console)
    say_unread(config, overrides, console)
    _check_progress(before, config, args.resume)
    return _one(config, args.resume, True, console, args.checked)


def _check_progress(before: Config, config: Config, run: Path) -> None:
    """Raise ConfigError for a new length or number of processes that the newest checkpoint does not allow."""
    newest = newest_step(run)
    if config.run.steps < newest:
        raise ConfigError(
            f"run.steps={config.run.steps}, but {run} has a checkpoint of step {newest}: choose {newest} or "
            "more."
        )
    if newest and config.run.processes != before.run.processes and config.optim.zero_stage:
        raise ConfigError(
            f"run.processes={config.run.processes}, but {run} was saved by {before.run.processes}, each with "
            f"a part of the optimizer (optim.zero_stage={config.optim.zero_stage}): use the same number."
        )


def problems_of_rest(folders: Sequence[Path], out: Path, parallel: int) -> list[Problem]:
    """The problems of the unfinished runs in ``folders``, which differ in seed, shaping and warm start.

    One that makes its own warm start stands for all, since the others begin with it.
    """
    rest = [load_config(folder / CONFIG) for folder in unfinished(folders)]
    if not rest:
        return []
    first = next((config for config in rest if not config.warmstart.path), rest[0])
    shapings = {config.env.shaping for config in rest if isinstance(config.env.shaping, str)}
    return find_problems(first, out, shapings=sorted(shapings), runs=len(rest), parallel=parallel)


def train_one(
    config: Config,
    out: Path,
    resume: bool = False,
    checked: bool = False,
    stopping: Stopping | None = None,
) -> None:
    """Train, or resume, the run in ``out`` in as many processes as it asks for.

    ``checked``: the preflight has passed.
    """
    from mappa_rl.training.trainer import train

    crews = config.cluster.name == "ray" and config.placement.crews != "together"
    if config.run.processes > 1 or crews:  # then this process outlives the others, and starts them again
        if not checked:
            require(config, out)
        run_processes(config, out)  # a refused run leaves no folder
    else:
        train(config, out, resume, checked, stopping)


def _one(config: Config, out: Path, resume: bool, console: Console, checked: bool = False) -> int:
    try:
        with Stopping(limit_s=LIMIT_S) as stopping, resumable(out):
            train_one(config, out, resume, checked, stopping)
    except KeyboardInterrupt as stop:
        if (out / CONFIG).is_file():
            raise Interrupted(out, signal_of(stop)) from None
        raise  # during the preflight: there is nothing to resume
    return finish([out], out, console)


def dry_run(
    args: argparse.Namespace, config: Config, out: Path, console: Console, shapings: Sequence[str] = ()
) -> int:
    """Print what the command would do; returns 0 if it could start, else the exit status of its refusal."""
    from mappa_rl.commands.dry_run import Plan, preview

    plan = Plan(
        config,
        out,
        seeds=args.seeds or [config.run.seed],
        overrides=args.overrides,
        shapings=shapings,
        parallel=args.parallel,
        verbose=args.verbose,
        rehearses=not args.no_rehearsal,
    )
    return 0 if preview(plan, console) else REFUSED
