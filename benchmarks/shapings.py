"""What reward shapings come to: the tables of a folder that ``mappa-rl shape`` made.

    mappa-rl shape demo --seeds 0,1,2 run.out=runs/shape
    python benchmarks/shapings.py runs/shape [--width STEPS] [--level 0.75] [--json PATH]

Held-out success before and after, at T = 1 and at the warm start's best temperature, with the Fair metrics
where the environment has them; the difference between shapings after training, paired by seed and task;
success in training; the step that first reaches a level; wall time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compared import difference, ends, rate, reached, signed, success
from rich.console import Console
from rich.table import Table

from mappa_rl.report.combine import combine
from mappa_rl.report.runs import RunData, find_runs, read_run


def held_out(found: Mapping[str, Sequence[RunData]], console: Console) -> dict[str, Any]:
    """Success before and after by shaping and arm, and against the first shaping."""
    table = Table("rewards", "", "before", "after", "change", "against the first", "by seed")
    figures: dict[str, Any] = {}
    first = ends(next(iter(found.values())))
    for shaping, runs in found.items():
        for arm, rows in ends(runs).items():
            values = {phase: success(mine) for phase, mine in rows.items()}
            values["change"] = difference(rows["before"], rows["after"])
            values["against"] = difference(first[arm]["after"], rows["after"])
            by_seed = {
                run.seed: difference(*ends([run])[arm].values()).mean for run in runs if arm in ends([run])
            }
            table.add_row(
                shaping,
                arm,
                rate(values["before"]),
                rate(values["after"]),
                signed(values["change"]),
                signed(values["against"]),
                ", ".join(f"{100 * value:+.1f}" for value in by_seed.values()),
            )
            figures.setdefault(shaping, {})[arm] = {name: each._asdict() for name, each in values.items()}
    console.print(table)
    return figures


def learning(found: Mapping[str, Sequence[RunData]], width: int, level: float, console: Console) -> None:
    """Success in training by ranges of ``width`` steps, and when it reaches ``level``, by seed."""
    last = max(step for runs in found.values() for run in runs for step, _ in run.curve("success"))
    bins = [(begin, min(begin + width - 1, last)) for begin in range(1, last + 1, width)]
    table = Table("rewards", *(f"{a}-{b}" for a, b in bins), f"{level:.0%} at step", title="in training")
    for shaping, runs in found.items():
        means = []
        for low, high in bins:
            values = [value for run in runs for step, value in run.curve("success") if low <= step <= high]
            means.append(f"{sum(values) / len(values):.1%}")
        table.add_row(shaping, *means, ", ".join(str(reached(run, level) or "-") for run in runs))
    console.print(table)


def measures(found: Mapping[str, Sequence[RunData]], console: Console) -> None:
    """The Fair metrics with their 95 % intervals, all seeds together."""
    table = Table("rewards", "", "measure", "before", "after", "change", title="held-out quality")
    for shaping, runs in found.items():
        for name, arm in combine(runs).arms.items():
            for measure, values in arm.measures.items():
                cells = (
                    f"{each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]"
                    for each in (values.before, values.after, values.delta)
                )
                table.add_row(shaping, name, measure, *cells)
    if table.row_count:
        console.print(table)


def times(found: Mapping[str, Sequence[RunData]], console: Console) -> None:
    """Minutes of every run, and what they went to, all runs together."""
    table = Table("rewards", "minutes by seed", title="wall time")
    for shaping, runs in found.items():
        minutes = [run.summary.wall_seconds / 60 for run in runs if run.summary is not None]
        table.add_row(shaping, ", ".join(f"{each:.1f}" for each in minutes))
    console.print(table)
    spent = combine([run for runs in found.values() for run in runs]).fractions
    console.print("of all time: " + ", ".join(f"{kind} {share:.1%}" for kind, share in spent.items()))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=10, help="steps per column; default: %(default)s")
    parser.add_argument("--level", type=float, default=0.75, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    console = Console(width=150)
    found: dict[str, list[RunData]] = {}
    for folder in find_runs([args.folder]):
        run = read_run(folder)
        if run.summary is None:
            parser.error(f"{folder} is unfinished: mappa-rl train --resume {args.folder}")
        found.setdefault(str(run.config.env.shaping), []).append(run)
    order = sorted(found, key=lambda name: (name != "process", name))
    found = {name: found[name] for name in order}
    figures = held_out(found, console)
    learning(found, args.width, args.level, console)
    measures(found, console)
    times(found, console)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
