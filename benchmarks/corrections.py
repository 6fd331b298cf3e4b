"""Do corrected actions save episodes? The tabular demo with and without them, from the same warm starts.

The recipes are otherwise equal. Held-out tasks are played (T = 1) during training. The figure is the number
of training episodes that the hybrid needs to reach the final success of reinforcement learning alone. The
corrections come from the scripted expert, a STAND-IN for a coach that corrects: this measures the machinery,
not a language model.

    python benchmarks/corrections.py [--seeds 0,1,2] [--quick] [--out FOLDER] [--json PATH] [--figure PATH]

An interrupted benchmark continues where it stopped: finished runs in --out are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from runs import begins, finished

from mappa_env.statistics.intervals import Interval, paired_delta, wilson
from mappa_rl.config import load_config
from mappa_rl.evaluation.results import Result, load_results

ARMS = {"reinforcement": "demo_dsbench", "hybrid": "demo_dsbench_hybrid"}
TEMPERATURE = 1.0
QUICK = [
    "env.task_options={variants: 1}",
    "warmstart.episodes=10",
    "warmstart.steps=5",
    "warmstart.warmup_steps=1",
    "warmstart.renamed=1",
    "model.layers=1",
    "run.steps=2",
    "eval.episodes=3",
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=32",
    "run.tensorboard=false",
]


def curve(folder: Path) -> dict[int, list[Result]]:
    """Training episodes so far -> held-out episodes."""
    config = load_config(folder / "config.yaml")
    steps = {"before": 0, "after": config.run.steps}
    found = {}
    for (phase, temperature), rows in load_results(folder).items():
        if temperature == TEMPERATURE:
            step = steps.get(phase, int(phase.rpartition("-")[2]) if "-" in phase else 0)
            found[step * config.rollout.episodes_per_step] = rows
    return dict(sorted(found.items()))


def corrected(folder: Path) -> list[Mapping[str, float]]:
    """Per training step: how many corrections were proposed and kept, and the points they gained."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    names = ("proposed", "kept", "kept_gain")
    return [{name: json.loads(line).get(f"corrections/{name}", 0.0) for name in names} for line in lines]


def pooled(curves: Sequence[dict[int, list[Result]]]) -> dict[int, list[Result]]:
    """The rows of all seeds by training episodes, in one order."""
    return {at: [row for each in curves for row in each[at]] for at in curves[0]}


def rate(rows: Sequence[Result]) -> Interval:
    return wilson(sum(row.success for row in rows), len(rows))


def reached(curve: Mapping[int, list[Result]], level: float) -> tuple[int | None, int | None]:
    """Training episodes at the first test with a success of ``level``, and at the test after which success
    stays at or above it."""
    above = [at for at, rows in sorted(curve.items()) if rate(rows).mean >= level]
    below = max((at for at in curve if at not in above), default=-1)
    return min(above, default=None), min((at for at in above if at > below), default=None)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0,1,2", help="default: %(default)s")
    parser.add_argument(
        "--out", type=Path, help="default: runs/corrections, with --quick a folder next to it"
    )
    parser.add_argument(
        "--starts",
        type=Path,
        metavar="FOLDER",
        help="runs of demo_dsbench in seed-<n>/, whose warm starts are taken instead of making new ones",
    )
    parser.add_argument("--quick", action="store_true", help="a tiny version that only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--figure", type=Path, metavar="PATH", help="write the curves here (svg or png)")
    args = parser.parse_args(argv)
    out = args.out or Path("runs/corrections-quick" if args.quick else "runs/corrections")
    seeds = [int(seed) for seed in args.seeds.split(",")][: 1 if args.quick else None]
    extra = ["eval.every=2", "eval.calibration_temperatures=[]", *(QUICK if args.quick else [])]
    folders: dict[str, list[Path]] = {arm: [] for arm in ARMS}
    for seed in seeds:
        start = args.starts and args.starts / f"seed-{seed}" / "warmstart"
        for arm in ARMS:
            settings = [*begins(out, arm, seed, "reinforcement", start), *extra]
            folders[arm].append(finished(out, arm, seed, ARMS[arm], settings))
    figures = report({arm: [curve(each) for each in mine] for arm, mine in folders.items()})
    rows = [row for each in folders["hybrid"] for row in corrected(each)]
    figures["corrections"] = totals = {
        "proposed": sum(row["proposed"] for row in rows),
        "kept": sum(row["kept"] for row in rows),
        "gain": sum(row["kept"] * row["kept_gain"] for row in rows) / max(sum(r["kept"] for r in rows), 1),
    }
    Console().print(
        f"corrections: {totals['proposed']:.0f} proposed, {totals['kept']:.0f} kept; the rubric scored "
        f"the kept ones {totals['gain']:.1f} points higher than what they replace"
    )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if args.figure:
        draw(figures, args.figure)
    return 0


def report(found: dict[str, list[dict[int, list[Result]]]]) -> dict[str, Any]:
    """The table, and its figures: the success of both arms by training episodes, seeds pooled."""
    both = {arm: pooled(curves) for arm, curves in found.items()}
    alone, hybrid = both["reinforcement"], both["hybrid"]
    final = rate(alone[max(alone)])
    table = Table(
        "training episodes", *both, "difference, 95 %", title=f"held-out success, T={TEMPERATURE:g}"
    )
    rows = []
    for at in alone:
        problems = [row.task_id for row in alone[at]]
        delta = paired_delta(
            [row.success for row in alone[at]], [row.success for row in hybrid[at]], problems=problems
        )
        first, second = rate(alone[at]), rate(hybrid[at])
        table.add_row(
            str(at),
            *(f"{r.mean:.1%} [{r.low:.1%}, {r.high:.1%}]" for r in (first, second)),
            f"{delta.mean:+.1%} [{delta.low:+.1%}, {delta.high:+.1%}]",
        )
        compared = {"reinforcement": first, "hybrid": second, "difference": delta}
        rows.append({"episodes": at, **{name: each._asdict() for name, each in compared.items()}})
    console = Console(width=110)
    console.print(table)
    when = {arm: reached(curve, final.mean) for arm, curve in both.items()}
    by_seed = [
        reached(mine, rate(other[max(other)]).mean)
        for mine, other in zip(found["hybrid"], found["reinforcement"], strict=True)
    ]
    console.print(
        f"reinforcement alone ends at {final.mean:.1%}. Training episodes until a test first reaches that, "
        f"and until all later tests do: hybrid {when['hybrid']}, reinforcement {when['reinforcement']}; the "
        f"hybrid by seed, against its own baseline: {by_seed}."
    )
    return {"curve": rows, "final": final.mean, "reached": when, "reached_by_seed": by_seed}


def draw(figures: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    at = [row["episodes"] for row in figures["curve"]]
    for arm, colour in zip(ARMS, ("#0072B2", "#D55E00"), strict=True):
        line = [row[arm] for row in figures["curve"]]
        axes.plot(at, [r["mean"] for r in line], color=colour, label=arm, marker="o", markersize=3)
        axes.fill_between(
            at, [r["low"] for r in line], [r["high"] for r in line], color=colour, alpha=0.15, lw=0
        )
    axes.axhline(figures["final"], color="#999999", linestyle=":")
    axes.set(xlabel="training episodes", ylabel="held-out success", ylim=(0, 1))
    axes.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
