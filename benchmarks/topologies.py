"""Do teams of every shape learn? The demo's recipe on every topology, with tiny policies from random weights.

Each run imitates the card's faulty scripted team, learns from the rubric's scores per action, and plays
held-out tasks before and after: chain, debate and manager with three seeds, the others with one. ``single,
equal tokens`` trains the single agent until it has sampled as many tokens in training as the teams on maths
did in the median. Runs that are finished are kept: the same command goes on where it was interrupted.
Several machines or days can share the work: ``--json`` keeps each one's runs, and ``--add`` reports them
together; ``single`` comes last then, since it needs the teams' tokens.

    python benchmarks/topologies.py [SETTING ...] [--quick] [--only NAME ...] [--seeds 0,1,2] [--steps N]
                                    [--out FOLDER] [--parallel N] [--json PATH] [--add PATH ...]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compared import difference, ends, kept, rate, signed, success, successes
from rich.console import Console
from rich.table import Table
from runs import begins, finished

from mappa_env.commands.new import SETTINGS
from mappa_rl.report.runs import RunData, read_run

TARGET = 0.10
"""Points of held-out success, as a fraction, that every topology should gain."""
RECIPES = {
    "single": ("demo", "mappa/MathSingle-v0"),
    "chain": ("demo", "mappa/MathChat-v0"),
    "debate": ("demo", "mappa/MathDebate-v0"),
    "mixture": ("demo", "mappa/MathMixture-v0"),
    "manager": ("demo", "mappa/MathManager-v0"),
    "refine": ("demo", "mappa/MathRefine-v0"),
    "data-single": ("demo_dsbench", "mappa/DSBenchSingle-v0"),
    "data-chain": ("demo_dsbench", "mappa/DSBenchSprint-v0"),
    "data-manager": ("demo_dsbench", "mappa/DSBenchManager-v0"),
}
SEEDS = {"chain": (0, 1, 2), "debate": (0, 1, 2), "manager": (0, 1, 2)}
"""Topology -> its seeds; the others have seed 0."""
EQUAL = "single, equal tokens"
Record = Mapping[str, Any]
QUICK = (
    "run.steps=1",
    "eval.episodes=8",
    "eval.calibration_episodes=8",
    "warmstart.episodes=60",
    "warmstart.steps=5",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=8",
)


def record_of(name: str, run: RunData) -> Record:
    """What is kept of a run: enough for the table, without its folder.

    ``before`` and ``after``: a digit for each held-out episode at T = 1, 1 if it succeeded.
    """
    assert run.summary is not None
    return {
        "team": name,
        "seed": run.seed,
        "steps": len(run.curve("success")),
        "tokens": sum(value for _, value in run.curve("tokens")),
        "minutes": round(run.summary.wall_seconds / 60, 2),
        "temperature": 1.0,
        **kept(**ends([run])["T = 1"]),
    }


def read_records(paths: Sequence[Path]) -> list[Record]:
    """Runs that ``--json`` has kept, each once."""
    found: dict[tuple[str, int], Record] = {}
    for path in paths:
        for each in json.loads(path.read_bytes()):
            if found.setdefault((each["team"], each["seed"]), each) != each:
                raise SystemExit(f"{path} holds another run of {each['team']} with seed {each['seed']}.")
    return list(found.values())


def trained(out: Path, name: str, seed: int, settings: Sequence[str]) -> Record:
    recipe, card = RECIPES[name]
    room = SETTINGS.get(name, ())
    return record_of(name, read_run(finished(out, name, seed, recipe, [f"env.id={card}", *room, *settings])))


def further(out: Path, settings: Sequence[str], single: Record, wanted: float) -> Record:
    """The single agent from the same warm start, with ``wanted`` tokens in training."""
    recipe, card = RECIPES["single"]
    seed = single["seed"]
    steps = max(1, round(wanted * single["steps"] / single["tokens"]))
    arm = f"single, {steps} steps"  # with other teams it is another run
    start = begins(out, arm, seed, "single", None)
    mine = [each for each in settings if not each.startswith(("run.steps=", "warmstart."))]
    run = finished(out, arm, seed, recipe, [f"env.id={card}", *mine, *start, f"run.steps={steps}"])
    return record_of(EQUAL, read_run(run))


def trained_all(
    out: Path,
    names: Sequence[str],
    seeds: Sequence[int] | None,
    settings: Sequence[str],
    parallel: int,
    added: Sequence[Record] = (),
) -> list[Record]:
    """``added`` and the other runs of ``names``, ``parallel`` at once. ``seeds``: of all, not ``SEEDS``.

    After Ctrl-C or a run that failed no further one begins.
    """
    known = {(each["team"], each["seed"]) for each in added}
    with ThreadPoolExecutor(parallel) as pool:
        try:
            jobs = [
                pool.submit(trained, out, name, seed, settings)
                for name in names
                for seed in seeds or SEEDS.get(name, (0,))
                if (name, seed) not in known
            ]
            mine = [job.result() for job in jobs]
            teams: dict[str, list[float]] = {}
            for each in (*added, *mine):
                if not each["team"].startswith(("single", "data")):
                    teams.setdefault(each["team"], []).append(each["tokens"])
            if teams:
                wanted = statistics.median(map(statistics.median, teams.values()))
                singles = [each for each in mine if each["team"] == "single"]
                more = [pool.submit(further, out, settings, each, wanted) for each in singles]
                mine += [job.result() for job in more]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [*added, *mine]


def figures(runs: Sequence[Record]) -> dict[str, Any]:
    """Held-out success before and after at T = 1, the change, and what the training cost."""
    before, after = (successes(runs, phase) for phase in ("before", "after"))
    change = difference(before, after)
    return {
        "steps": runs[0]["steps"],
        "before": rate(success(before)),
        "after": rate(success(after)),
        "change": signed(change),
        "by seed": [
            difference(*(successes([run], phase) for phase in ("before", "after"))).mean for run in runs
        ],
        "tokens": statistics.median(run["tokens"] for run in runs),
        "minutes": [run["minutes"] for run in runs],
        "learned": change.mean >= TARGET and change.low > 0,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one step each: only whether it runs")
    parser.add_argument(
        "--only", nargs="+", choices=RECIPES, metavar="NAME", help="default: all; none beside --add"
    )
    parser.add_argument("--seeds", help="default: 0,1,2 of chain, debate and manager, else 0")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps; default: the recipe's")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: runs/topologies, or runs/topologies-quick"
    )
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="runs at once (default: 1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write what is kept of all runs here")
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="PATH", help="runs that --json has kept"
    )
    parser.add_argument("settings", nargs="*", metavar="SETTING", help="of every run, like eval.episodes=200")
    args = parser.parse_args(argv)
    if args.only is None:  # with --add: the table of those; else all
        args.only = [] if args.add else list(RECIPES)
    out = args.out or Path(f"runs/topologies{'-quick' if args.quick else ''}")
    settings = [*args.settings, *(QUICK if args.quick else ())]
    if args.steps:
        settings.append(f"run.steps={args.steps}")
    seeds = [int(seed) for seed in args.seeds.split(",")] if args.seeds else None
    added = read_records(args.add)
    records = trained_all(out, args.only, seeds, settings, args.parallel, added)
    if args.json:
        lines = ",\n".join(json.dumps(each) for each in records)
        args.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    table = Table("team", "steps", "tokens", "before", "after", "change, points", "by seed", "minutes")
    missed = []
    for name in [*RECIPES, EQUAL]:
        runs = sorted((each for each in records if each["team"] == name), key=lambda each: each["seed"])
        if not runs:
            continue
        if len({(run["steps"], len(run["after"])) for run in runs}) > 1 and name != EQUAL:
            parser.error(f"the runs of {name} differ in their steps or held-out episodes.")
        row = figures(runs)
        if not row["learned"]:
            missed.append(name)
        table.add_row(
            name,
            str(row["steps"]),
            f"{row['tokens']:,.0f}",
            *(row[key] for key in ("before", "after", "change")),
            ", ".join(f"{100 * value:+.1f}" for value in row["by seed"]),
            ", ".join(f"{each:.1f}" for each in row["minutes"]),
        )
    Console(width=150).print(table)
    said = ", ".join(missed) or "none"
    print(f"target: {100 * TARGET:+.0f} points, the interval above zero: missed by {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
