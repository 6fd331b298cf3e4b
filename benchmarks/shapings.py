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
    """The Fair metrics and the minutes of every run."""
    table = Table("run", "T", "minutes", "learner, generation, sandbox, coach", "measures before -> after")
    for shaping, runs in found.items():
        for run in runs:
            assert run.summary is not None
            shares = ", ".join(
                f"{run.summary.fractions[kind]:.1%}" for kind in ("learner", "generation", "sandbox", "coach")
            )
            for arm in run.summary.arms.values():
                fair = ", ".join(
                    f"{name} {m.before.mean:.3f} -> {m.after.mean:.3f} ({m.delta.mean:+.3f})"
                    for name, m in arm.measures.items()
                )
                minutes = f"{run.summary.wall_seconds / 60:.1f}"
                table.add_row(
                    f"{shaping}, seed {run.seed}", f"{arm.temperature:g}", minutes, shares, fair or "-"
                )
    console.print(table)


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
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
