"""Does the bias monitor see what is there, and nothing else? A SIMULATION of coaches, with the real monitor.

Trajectories of three agents with three actions each, of two families, half of them successful. A score is
5 + 3 * (success - 1/2) + trajectory + action noise, standard deviation 2 in all, clustered within
trajectories (intraclass correlation ICC), kept within 0-10. Injected into one family: an offset of so many points, or a
compression of the scores towards 5.

Reported: the share of looks with a false alarm; the share that finds an injected offset at the number of
trajectories that the monitor itself names, and which of the two tests finds what; how much of an offset and
of a compression each correction takes away.

    python benchmarks/coach_bias.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mappa_env.coach.bias import BiasMonitor, Correction, trajectories_needed
from mappa_env.types import ActionRecord, Outcome, Task, Trajectory, Verdict

SD, GAIN, ICC = 2.0, 3.0, 0.3
AGENTS, TURNS = ("engineer_0", "modeler_0", "analyst_0"), 3
METRICS = ("accuracy", "rmse")
Inject = Callable[[float], float]
NONE: Inject = lambda score: score  # noqa: E731


def trajectory(rng: np.random.Generator, number: int, icc: float, inject: Inject) -> Trajectory:
    """Of the second family the scores pass through ``inject``."""
    family, success = number % 2, bool(rng.random() < 0.5)
    task = Task(f"t{number}", "", METRICS[family])
    common = rng.normal(0.0, SD * math.sqrt(icc))
    actions = []
    for agent in AGENTS:
        for turn in range(TURNS):
            score = 5 + GAIN * (success - 0.5) + common + rng.normal(0.0, SD * math.sqrt(1 - icc))
            if family:
                score = inject(score)
            verdict = Verdict("ok", float(np.clip(score, 0.0, 10.0)))
            stratum = (task.family, agent.rsplit("_", 1)[0], turn)
            actions.append(
                ActionRecord(
                    len(actions),
                    agent,
                    turn,
                    (),
                    "",
                    "",
                    "",
                    None,
                    None,
                    verdict,
                    0.0,
                    True,
                    stratum,
                    0,
                    False,
                )
            )
    return Trajectory("bias", task, number, tuple(actions), Outcome(float(success), success, "ok", ""))


def look(rng: np.random.Generator, count: int, icc: float, inject: Inject) -> set[tuple[str, bool]]:
    """The kinds of alarm after ``count`` trajectories, each with whether the effect is positive."""
    monitor = BiasMonitor()
    for number in range(count):
        monitor.add(trajectory(rng, number, icc, inject))
    return {(f.kind, f.effect > 0) for f in monitor.findings() if f.alarm and f.family == "regression"}


def corrected(rng: np.random.Generator, count: int, inject: Inject, *, spread: bool) -> tuple[float, float]:
    """(offset, slope) of the second family that is left after correction, in points; batches of 32."""
    correction = Correction(spread=spread)
    left: list[tuple[int, bool, float]] = []
    for start in range(0, count, 32):
        batch = [trajectory(rng, start + i, ICC, inject) for i in range(32)]
        scores = [(a.stratum, float(a.verdict.score or 0.0)) for each in batch for a in each.actions]
        fixed = correction(scores)
        per = len(AGENTS) * TURNS
        if start >= count // 2:  # by then the strata are known
            for i, each in enumerate(batch):
                score = float(np.mean(fixed[i * per : (i + 1) * per]))
                left.append((each.seed % 2, bool(each.outcome and each.outcome.success), score))
    mean = {
        (f, s): np.mean([score for family, success, score in left if (family, success) == (f, s)])
        for f in (0, 1)
        for s in (False, True)
    }
    offset = (mean[1, True] + mean[1, False] - mean[0, True] - mean[0, False]) / 2
    slope = (mean[1, True] - mean[1, False]) / (mean[0, True] - mean[0, False])
    return float(offset), float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats: under a minute")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    repeats = 100 if args.quick else 1000
    rng = np.random.default_rng(0)
    # at equal outcome: the common part, and nine actions' own parts averaged
    sd = SD * math.sqrt(ICC + (1 - ICC) / (len(AGENTS) * TURNS))
    needed = trajectories_needed(0.5, sd)
    figures: dict[str, float] = {"needed": needed}

    table = Table(title=f"simulated looks, {repeats} each; {needed} trajectories are named for 0.5 points")
    for column in ("injected", "ICC", "trajectories", "offset alarm", "slope alarm", "any alarm"):
        table.add_column(column, justify="left" if column == "injected" else "right")
    cases: list[tuple[str, float, int, Inject]] = [
        *(("nothing", icc, count, NONE) for icc in (0.0, ICC, 0.6) for count in (32, needed)),
        ("offset +0.5", ICC, needed, lambda score: score + 0.5),
        ("offset +1.0", ICC, needed, lambda score: score + 1.0),
        ("compression to half", ICC, needed, lambda score: 5 + (score - 5) / 2),
    ]
    for name, icc, count, inject in cases:
        looks = [look(rng, count, icc, inject) for _ in range(repeats)]
        shares = {
            "offset": sum(("offset", True) in found for found in looks) / repeats,
            "slope": sum(("slope", False) in found for found in looks) / repeats,
            "any": sum(bool(found) for found in looks) / repeats,
        }
        table.add_row(name, f"{icc:g}", str(count), *(f"{share:.1%}" for share in shares.values()))
        figures |= {f"{name}/{icc:g}/{count}/{kind}": share for kind, share in shares.items()}
    console = Console()
    console.print(table)

    table = Table(
        title="what is left after correction: offset in points, slope as a share of the other family's"
    )
    for column in ("injected", "correction", "offset", "slope"):
        table.add_column(column, justify="left" if column in ("injected", "correction") else "right")
    for name, inject in (("offset +1.0", cases[-2][3]), ("compression to half", cases[-1][3])):
        for label, spread in (("mean", False), ("mean and spread", True)):
            offset, slope = corrected(rng, 512 if args.quick else 4096, inject, spread=spread)
            table.add_row(name, label, f"{offset:+.2f}", f"{slope:.2f}")
            figures |= {f"{name}/{label}/offset": offset, f"{name}/{label}/slope": slope}
    console.print(table)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
