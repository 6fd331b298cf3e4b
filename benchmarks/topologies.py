"""Do teams of every shape learn? The demo's recipe on every topology, with tiny policies from random weights.

Each run imitates the card's faulty scripted team, learns from the rubric's scores per action, and plays
held-out tasks before and after: chain, debate and manager with three seeds, the others with one. ``single,
equal tokens`` trains the single agent until it has sampled as many tokens in training as the teams on maths
did in the median. Runs that are finished are kept: the same command goes on where it was interrupted.

    python benchmarks/topologies.py [SETTING ...] [--quick] [--only NAME ...] [--seeds 0,1,2] [--steps N]
                                    [--out FOLDER] [--parallel N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compared import difference, ends, rate, signed, success
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
QUICK = (
    "run.steps=1",
    "eval.episodes=8",
    "eval.calibration_episodes=8",
    "warmstart.episodes=60",
    "warmstart.steps=5",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=8",
)


def tokens(run: RunData) -> float:
    """Tokens that all policies sampled in training."""
    return sum(value for _, value in run.curve("tokens"))


def trained(out: Path, name: str, seed: int, settings: Sequence[str]) -> RunData:
    recipe, card = RECIPES[name]
    room = SETTINGS.get(name, ())
    return read_run(finished(out, name, seed, recipe, [f"env.id={card}", *room, *settings]))


def further(out: Path, seed: int, settings: Sequence[str], singles: RunData, wanted: float) -> RunData:
    """The single agent from the same warm start, with ``wanted`` tokens in training."""
    recipe, card = RECIPES["single"]
    steps = max(1, round(wanted * len(singles.curve("tokens")) / tokens(singles)))
    arm = f"single, {steps} steps"  # with other teams it is another run
    start = begins(out, arm, seed, "single", None)
    mine = [each for each in settings if not each.startswith(("run.steps=", "warmstart."))]
    return read_run(finished(out, arm, seed, recipe, [f"env.id={card}", *mine, *start, f"run.steps={steps}"]))


def trained_all(
    out: Path, names: Sequence[str], seeds: Sequence[int] | None, settings: Sequence[str], parallel: int
) -> dict[str, list[RunData]]:
    """Topology -> its runs, ``parallel`` at once. ``seeds``: of all of them, instead of ``SEEDS``.

    After Ctrl-C or a run that failed no further one begins.
    """
    found: dict[str, list[RunData]] = {}
    with ThreadPoolExecutor(parallel) as pool:
        try:
            jobs = [
                (name, pool.submit(trained, out, name, seed, settings))
                for name in names
                for seed in seeds or SEEDS.get(name, (0,))
            ]
            for name, job in jobs:
                found.setdefault(name, []).append(job.result())
            teams = [
                statistics.median(map(tokens, runs))
                for name, runs in found.items()
                if name != "single" and "data" not in name
            ]
            if teams and "single" in found:
                wanted = statistics.median(teams)
                more = [pool.submit(further, out, run.seed, settings, run, wanted) for run in found["single"]]
                found[EQUAL] = [job.result() for job in more]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def figures(runs: Sequence[RunData]) -> dict[str, Any]:
    """Held-out success before and after at T = 1, the change, and what the training cost."""
    rows = ends(runs)["T = 1"]
    before, after = success(rows["before"]), success(rows["after"])
    change = difference(rows["before"], rows["after"])
    minutes = [run.summary.wall_seconds / 60 for run in runs if run.summary is not None]
    return {
        "seeds": [run.seed for run in runs],
        "steps": len(runs[0].curve("success")),
        "before": before._asdict(),
        "after": after._asdict(),
        "change": change._asdict(),
        "by seed": [difference(*ends([run])["T = 1"].values()).mean for run in runs],
        "tokens": statistics.median(tokens(run) for run in runs),
        "minutes": minutes,
        "learned": change.mean >= TARGET and change.low > 0,
        "shown": [rate(before), rate(after), signed(change)],
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one step each: only whether it runs")
    parser.add_argument("--only", nargs="+", choices=RECIPES, default=list(RECIPES), metavar="NAME")
    parser.add_argument("--seeds", help="default: 0,1,2 of chain, debate and manager, else 0")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps; default: the recipe's")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: runs/topologies, or runs/topologies-quick"
    )
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="runs at once (default: 1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("settings", nargs="*", metavar="SETTING", help="of every run, like eval.episodes=200")
    args = parser.parse_args(argv)
    out = args.out or Path(f"runs/topologies{'-quick' if args.quick else ''}")
    settings = [*args.settings, *(QUICK if args.quick else ())]
    if args.steps:
        settings.append(f"run.steps={args.steps}")
    seeds = [int(seed) for seed in args.seeds.split(",")] if args.seeds else None
    found = trained_all(out, args.only, seeds, settings, args.parallel)
    table = Table("team", "steps", "tokens", "before", "after", "change, points", "by seed", "minutes")
    document = {}
    for name, runs in found.items():
        row = document[name] = figures(runs)
        table.add_row(
            name,
            str(row["steps"]),
            f"{row['tokens']:,.0f}",
            *row.pop("shown"),
            ", ".join(f"{100 * value:+.1f}" for value in row["by seed"]),
            ", ".join(f"{each:.1f}" for each in row["minutes"]),
        )
    Console(width=150).print(table)
    missed = ", ".join(name for name, row in document.items() if not row["learned"])
    print(f"target: {100 * TARGET:+.0f} points, the interval above zero: missed by {missed or 'none'}")
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
