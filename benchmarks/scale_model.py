"""Does the model behind ``mappa-rl plan`` predict configurations that it has not seen?

The services are SIMULATED (``scale_world.py``): engines that decode in passes, sandboxes, a coach and a
learner that only wait, on one machine. Episodes, rollouts, batches and the coach's client are the project's
own.

1. Two configurations are measured (``FITTED``). From what their metrics say, not from what the simulation was
   given, come: seconds of a pass, and more for each request in it; tokens and actions of an episode; seconds
   of code, of verdicts, of the environment and of the learner, and how much they vary.
2. All others (``HELD_OUT``) are predicted, and the predictions printed.
3. Only then are they measured. Error: predicted seconds of a step / measured seconds - 1.

Measured is the mean of the steps, with staleness without the first. Steps of one configuration differ by the
episodes' luck, which ``+-`` shows: the standard error of that mean. Exit status 1: an error exceeds 15 %.

    python benchmarks/scale_model.py [--quick] [--steps N] [--json PATH]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from scale_fit import fit, setup_of
from scale_world import Configuration, Measured, measure

from mappa_rl.planning.step import Step, predict

TARGET = 0.15
FITTED = (Configuration("16 episodes", episodes=16), Configuration("64 episodes", episodes=64))
HELD_OUT = (
    Configuration("32 episodes", episodes=32),
    Configuration("128 episodes on 2 replicas", episodes=128, replicas=2),
    Configuration("64 episodes, 8 sandboxes", episodes=64, sandboxes=8),
    Configuration("64 episodes, 32 verdicts at once", episodes=64, coach_calls=32),
    Configuration("coach of 1.5 s, blocking", coach_s=1.5, judging="blocking"),
    Configuration("three policies", episodes=48, policies=3),
    Configuration("actions of twice the tokens", length=2.0),
    Configuration("staleness 1", episodes=32, staleness=1),
    Configuration("staleness 1, 8 sandboxes", episodes=64, staleness=1, sandboxes=8),
    Configuration("lockstep, 2 groups", episodes=32, lockstep_groups=2),
    Configuration("lockstep, 4 groups, 16 workers", episodes=48, lockstep_groups=4, workers=16),
)


def compared(chosen: Configuration, step: Step, run: Measured) -> dict[str, Any]:
    """A row: seconds of a step, predicted and measured, and the error."""
    counted = run.steps[1:] if chosen.staleness else run.steps
    measured = statistics.mean(counted)
    noise = statistics.stdev(counted) / math.sqrt(len(counted)) if len(counted) > 1 else 0.0
    return {
        "configuration": dataclasses.asdict(chosen),
        "predicted_s": step.seconds,
        "measured_s": measured,
        "standard_error_s": noise,
        "error": step.seconds / measured - 1,
        "bottleneck": step.bottleneck,
        "processor": run.cpu_s / sum(run.steps),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few episodes, two configurations: no figures")
    parser.add_argument(
        "--steps", type=int, default=3, metavar="N", help="of each configuration (default: 3)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    fitted, held_out, steps = FITTED, HELD_OUT, args.steps
    if args.quick:
        steps = 1
        fitted = tuple(replace(each, episodes=each.episodes // 8) for each in fitted)
        held_out = tuple(replace(each, episodes=8) for each in held_out[:2])
    load = os.getloadavg()[0]
    console = Console(width=120)
    found = fit([(chosen, measure(chosen, steps)) for chosen in fitted])
    console.print("fitted on " + " and ".join(each.name for each in fitted), highlight=False)
    for name, value in dataclasses.asdict(found).items():
        console.print(f"  {name}: {value:.4g}", highlight=False)
    predicted = [(chosen, predict(setup_of(found, chosen))) for chosen in held_out]
    for chosen, step in predicted:
        console.print(f"predicted: {chosen.name}: {step.seconds:.2f} s", highlight=False)
    rows = []
    for chosen, step in predicted:
        more = 2 if chosen.staleness else 0  # its first step is not like the others
        rows.append(compared(chosen, step, measure(chosen, steps + more)))
        console.print(f"measured: {chosen.name}: {rows[-1]['measured_s']:.2f} s", highlight=False)
    table = Table(
        title="SIMULATED services: seconds of a step, on held-out configurations", title_justify="left"
    )
    for column in ("configuration", "predicted", "measured", "+-", "error", "first bottleneck", "processor"):
        table.add_column(
            column, justify="left" if column in ("configuration", "first bottleneck") else "right"
        )
    for row in rows:
        table.add_row(
            row["configuration"]["name"],
            f"{row['predicted_s']:.2f}",
            f"{row['measured_s']:.2f}",
            f"{row['standard_error_s']:.2f}",
            f"{row['error']:+.1%}",
            row["bottleneck"],
            f"{row['processor']:.0%}",
        )
    console.print(table)
    worst = max(rows, key=lambda row: abs(row["error"]))
    loads = (load, os.getloadavg()[0])
    console.print(
        f"worst error: {worst['error']:+.1%} ({worst['configuration']['name']}); target {TARGET:.0%}. Load "
        f"average {loads[0]:.1f} before, {loads[1]:.1f} after, {os.cpu_count()} processors",
        highlight=False,
    )
    if args.json is not None:
        facts = {"fitted": dataclasses.asdict(found), "rows": rows, "load": loads, "simulated": True}
        args.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 1 if abs(worst["error"]) > TARGET and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
