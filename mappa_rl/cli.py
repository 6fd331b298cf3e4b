"""``mappa-rl train | shape | eval | export | generate | replay | report | recipes``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mappa_env.errors import MappaError
from mappa_rl.config import RECIPES, Config, load_config, recipe_names
from mappa_rl.errors import ConfigError, MappaRLError, RunError
from mappa_rl.launch import (
    forget_after,
    new_folder,
    next_folder,
    plan_seeds,
    plan_shapings,
    run_all,
    run_processes,
    write_config,
)
from mappa_rl.overrides import keys
from mappa_rl.runs import CONFIG, combine, find_runs, headline, read_run, versus_first

SHAPINGS = ("process", "outcome", "mixed")
CHECKPOINT_HELP = "default: latest; best: by success on the training tasks of eval.validation"
INTERRUPTED = 130
WIDTH = 130
"""Columns of tables that do not go to a terminal."""


class Interrupted(Exception):
    """Ctrl-C during the run in ``folder``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 (failed), 2 (wrong input), 130 (interrupted)."""
    args = _parse(argv)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        status: int = args.run(args, console)
        return status
    except Interrupted as stop:
        _say(console, f"\nInterrupted. The run so far is in {stop.folder}; go on with:")
        _say(console, f"mappa-rl train --resume {stop.folder}")
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MappaRLError, MappaError) as error:
        print(f"mappa-rl: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mappa-rl", description="Train teams of agents on coach rewards.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a team by a recipe, or go on with a run")
    train.add_argument("recipe", nargs="?", help="a recipe's name, or a YAML file")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="as in algo.kl_coef=0.02")
    train.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run(s) in this folder")
    _many(train)
    train.set_defaults(run=_train)

    shape = commands.add_parser("shape", help="compare reward shapings from the same warm starts")
    shape.add_argument("recipe", help="a recipe's name, or a YAML file")
    shape.add_argument("overrides", nargs="*", metavar="key=value")
    shape.add_argument(
        "--shapings", type=_words, default=list(SHAPINGS), metavar="A,B", help="default: all three"
    )
    _many(shape)
    shape.set_defaults(run=_shape)

    evaluate = commands.add_parser("eval", help="evaluate a finished run once more")
    evaluate.add_argument("folder", type=Path, metavar="RUN")
    evaluate.add_argument("--checkpoint", default="latest", metavar="latest|best|STEP", help=CHECKPOINT_HELP)
    evaluate.add_argument("overrides", nargs="*", metavar="key=value")
    evaluate.set_defaults(run=_eval)

    export = commands.add_parser("export", help="write a run's policies as Hugging Face folders")
    export.add_argument("folder", type=Path, metavar="RUN")
    export.add_argument("--checkpoint", default="latest", metavar="latest|best|STEP", help=CHECKPOINT_HELP)
    export.add_argument("--to", type=Path, metavar="DIR", help="default: RUN/export-<checkpoint>")
    export.add_argument(
        "--adapter", action="store_true", help="with policies.map=lora: in PEFT's format, alone"
    )
    export.set_defaults(run=_export)

    generate = commands.add_parser("generate", help="play and record episodes, without training")
    generate.add_argument("source", metavar="RECIPE|RUN", help="a run: its newest weights play")
    generate.add_argument("overrides", nargs="*", metavar="key=value", help="run.steps says how many")
    generate.set_defaults(run=_generate)

    replay = commands.add_parser("replay", help="train on recorded episodes, without an environment")
    replay.add_argument("folder", type=Path, metavar="RUN", help="made with run.record_rollouts, or generate")
    replay.add_argument("overrides", nargs="*", metavar="key=value", help="as in algo.name=grpo")
    replay.set_defaults(run=_replay)

    report = commands.add_parser("report", help="rebuild report.html of one run, or of several together")
    report.add_argument("folders", type=Path, nargs="+", metavar="RUN")
    report.add_argument("--to", type=Path, metavar="FILE", help="default: report.html in the first folder")
    report.set_defaults(run=_report)

    recipes = commands.add_parser("recipes", help="list the recipes")
    recipes.add_argument("--keys", action="store_true", help="list every key with its default and meaning")
    recipes.set_defaults(run=_recipes)
    return parser


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Overrides may stand before, between and after options, which argparse alone would refuse."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if rest and (not hasattr(args, "overrides") or any(text.startswith("-") for text in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
    return args


def _many(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=_seeds, metavar="0,1,2", help="one run per seed; default: run.seed alone"
    )
    parser.add_argument("--parallel", type=_count, default=1, metavar="N", help="runs at a time; default: 1")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and what is missing")


def _train(args: argparse.Namespace, console: Console) -> int:
    if args.resume is not None:
        return _resume(args, console)
    if args.recipe is None:
        raise ConfigError(f"name a recipe ({', '.join(recipe_names())}) or a YAML file.")
    config = load_config(args.recipe, args.overrides)
    out = new_folder(config, args.recipe)
    seeds = args.seeds or [config.run.seed]
    if args.dry_run:
        return _dry_run(config, out, seeds, console)
    if args.seeds is None or len(seeds) == 1:
        config = config.with_overrides([f"run.seed={seeds[0]}"])
        return _one(write_config(config, out), out, False, console)
    return _several(plan_seeds(config, out, seeds), out, args.parallel, console)


def _resume(args: argparse.Namespace, console: Console) -> int:
    overrides = [text for text in (args.recipe, *args.overrides) if text]
    wrong = [text for text in overrides if not text.startswith("run.")]
    if wrong or args.seeds:
        given = ", ".join([*wrong, *(["--seeds"] if args.seeds else [])])
        raise ConfigError(
            f"a run goes on with its own settings: only run.* can change with --resume, not {given}."
        )
    folders = find_runs([args.resume])
    if folders != [args.resume]:
        if overrides:
            raise ConfigError(
                f"{args.resume} holds {len(folders)} runs: resume one of them to change {overrides}."
            )
        return _several(folders, args.resume, args.parallel, console)
    before, config = load_config(args.resume / CONFIG), load_config(args.resume / CONFIG, overrides)
    if args.dry_run:
        return _dry_run(config, args.resume, [config.run.seed], console)
    if config.run.steps != before.run.steps:
        forget_after(args.resume)
    return _one(write_config(config, args.resume), args.resume, True, console)


def _shape(args: argparse.Namespace, console: Console) -> int:
    config = load_config(args.recipe, args.overrides)
    out = new_folder(config, f"{Path(args.recipe).stem}-shape")
    seeds = args.seeds or [config.run.seed]
    if args.dry_run:
        _say(console, f"shapings: {', '.join(args.shapings)}; each as follows")
        return _dry_run(config, out, seeds, console)
    return _several(plan_shapings(config, out, seeds, args.shapings), out, args.parallel, console)


def _eval(args: argparse.Namespace, console: Console) -> int:
    from mappa_rl.reevaluate import reevaluate

    if find_runs([args.folder]) != [args.folder]:
        raise RunError(f"{args.folder} holds several runs: evaluate one of them at a time.")
    wrong = [text for text in args.overrides if not text.startswith(("env.", "eval.", "rollout."))]
    if wrong:
        raise ConfigError(f"only env.*, eval.* and rollout.* can change here, not {', '.join(wrong)}.")
    config = load_config(args.folder / CONFIG, args.overrides)
    out = next_folder(args.folder / "again")
    reevaluate(config, args.folder, out, args.checkpoint)
    return _finish([out], out, console)


def _export(args: argparse.Namespace, console: Console) -> int:
    from mappa_rl.export import export

    if find_runs([args.folder]) != [args.folder]:
        raise RunError(f"{args.folder} holds several runs: export one of them at a time.")
    default = next_folder(args.folder / f"export-{args.checkpoint}")
    for path in export(args.folder, args.to or default, args.checkpoint, adapter=args.adapter):
        _say(console, str(path))
    return 0


def _generate(args: argparse.Namespace, console: Console) -> int:
    from mappa_rl.generate import generate

    run = Path(args.source) if (Path(args.source) / CONFIG).is_file() else None
    config = load_config(args.source if run is None else run / CONFIG, args.overrides)
    if run is None:
        return _plain(generate(config, new_folder(config, f"{Path(args.source).stem}-episodes")), console)
    if not (run / "checkpoints").is_dir():
        raise RunError(f"{run} has no checkpoint yet: go on with `mappa-rl train --resume {run}` first.")
    config = _elsewhere(config, run)
    out = new_folder(config, run.name) if config.run.out else next_folder(run / "generated")
    return _plain(generate(config, out, run), console)


def _replay(args: argparse.Namespace, console: Console) -> int:
    from mappa_rl.replay import ALLOWED, replay

    if find_runs([args.folder]) != [args.folder]:
        raise RunError(f"{args.folder} holds several runs: replay one of them at a time.")
    wrong = [text for text in args.overrides if not text.startswith((*ALLOWED, "out="))]
    if wrong:
        raise ConfigError(f"episodes are recorded: only {'*, '.join(ALLOWED)}* can change, not {wrong}.")
    config = _elsewhere(load_config(args.folder / CONFIG, args.overrides), args.folder)
    config = config.with_overrides(["run.record_rollouts=false"])
    out = new_folder(config, args.folder.name) if config.run.out else next_folder(args.folder / "replay")
    return _plain(replay(config, args.folder, out), console)


def _elsewhere(config: Config, run: Path) -> Config:
    """Without the folder that ``run``'s own config names as its own."""
    own = load_config(run / CONFIG).run.out
    return config.with_overrides(["run.out=''"]) if config.run.out == own else config


def _plain(out: Path, console: Console) -> int:
    """What ends a command that leaves no evaluations: the folder on the last line."""
    _say(console, str(out))
    return 0


def _report(args: argparse.Namespace, console: Console) -> int:
    from mappa_rl.report import build_report

    path = build_report(args.folders, args.to)
    _tables(find_runs(args.folders), console)
    _say(console, str(path))
    return 0


def _recipes(args: argparse.Namespace, console: Console) -> int:
    if args.keys:
        for key, default, meaning in keys(Config):
            _say(console, f"{key}={default!r}\n    {meaning}")
        return 0
    for name in recipe_names():
        first = (RECIPES / f"{name}.yaml").read_text(encoding="utf-8").split("\n", 1)[0]
        _say(console, f"{name:18} {first.removeprefix('# ')}")
    return 0


def _one(config: Config, out: Path, resume: bool, console: Console) -> int:
    from mappa_rl.trainer import train

    try:
        if config.run.processes > 1:
            run_processes(config, out)
        else:
            train(config, out, resume)
    except KeyboardInterrupt:
        raise Interrupted(out) from None
    return _finish([out], out, console)


def _several(folders: Sequence[Path], out: Path, parallel: int, console: Console) -> int:
    try:
        run_all(folders, console, parallel)
    except KeyboardInterrupt:
        raise Interrupted(out) from None
    runs = [read_run(folder) for folder in folders]
    combine(runs).write(out)
    return _finish(folders, out, console)


def _finish(folders: Sequence[Path], out: Path, console: Console) -> int:
    """What every finished run or set of runs ends with: its report and table, its folder on the last line."""
    from mappa_rl.report import REPORT, build_report
    from mappa_rl.summary import read_summary
    from mappa_rl.tables import work_table

    build_report(list(folders), out / REPORT)
    _tables(folders, console)
    summary = read_summary(out)
    if summary is not None and summary.work:
        console.print(work_table(summary))
    _say(console, f"report: {out / REPORT}")
    _say(console, str(out))
    return 0


def _tables(folders: Sequence[Path], console: Console) -> None:
    from mappa_rl.tables import headline_table, measures_table

    runs = [read_run(folder) for folder in folders]
    rows = headline(runs)
    console.print(headline_table(rows))
    quality = measures_table(rows)
    if quality is not None:
        console.print(quality)
    against = versus_first(runs)
    if against:
        console.print(headline_table(against, title="after training", columns=("second", "first")))


def _dry_run(config: Config, out: Path, seeds: list[int], console: Console) -> int:
    from mappa_rl.preview import preview

    return 0 if preview(config, out, seeds, console) else 1


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or len(set(words)) != len(words):
        raise argparse.ArgumentTypeError(f"{text!r} must be distinct names, as in process,outcome")
    return words


def _seeds(text: str) -> list[int]:
    if not all(word.isdecimal() for word in _words(text)):
        raise argparse.ArgumentTypeError(f"{text!r} must be whole numbers, as in 0,1,2")
    return [int(word) for word in _words(text)]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
