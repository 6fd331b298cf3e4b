"""The time that a dry run estimates, beside the time that the run then takes.

    python benchmarks/dry_run_time.py [--recipes demo,demo_dsbench,demo_dsbench_hybrid] [--quick]

The target is a factor of two for the whole run of each recipe, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mappa_rl.commands.duration import durations
from mappa_rl.commands.rehearsal import rehearse
from mappa_rl.commands.train import train_one
from mappa_rl.commands.work import work
from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.telemetry.progress import clock

RECIPES = "demo,demo_dsbench,demo_dsbench_hybrid"
QUICK = [
    "warmstart.episodes=800",
    "warmstart.steps=100",
    "eval.episodes=64",
    "eval.calibration_temperatures=[]",
    "run.steps=6",
]
TARGET = 2.0


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds: what the rehearsal took, what it foretold of one part, and what that part took."""

    recipe: str
    part: str
    estimated_s: float
    real_s: float

    @property
    def ratio(self) -> float:
        return self.estimated_s / self.real_s


def measure(recipe: str, overrides: list[str], out: Path) -> list[Figure]:
    """The parts of one recipe, the whole last."""
    config = load_config(recipe, overrides)
    card = env_card(config.env.id)
    phases = work(config, sum(agent.max_turns for agent in card.team))
    started = time.monotonic()
    estimated = durations(rehearse(config, card), phases)
    print(f"{recipe}: rehearsed in {clock(time.monotonic() - started)}", flush=True)
    started = time.monotonic()
    train_one(config, out)
    whole = time.monotonic() - started
    summary = read_summary(out)
    assert summary is not None
    figures = []
    for phase in phases:
        prefix = phase.phase.removeprefix("evaluation ")
        real = sum(s for name, s in summary.phases.items() if name.split(",")[0] == prefix)
        if real:
            figures.append(Figure(recipe, phase.phase, estimated[phase.phase], real))
    return [*figures, Figure(recipe, "whole run", sum(estimated.values()), whole)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", default=RECIPES, help=f"names, separated by commas (default: {RECIPES})")
    parser.add_argument("--quick", action="store_true", help="much shorter runs")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for recipe in args.recipes.split(","):
            found += measure(recipe, QUICK if args.quick else [], Path(folder) / recipe)
    print(f"\n{'recipe':22}{'part':22}{'estimate':>10}{'real':>10}{'ratio':>8}")
    for figure in found:
        times = f"{clock(figure.estimated_s):>10}{clock(figure.real_s):>10}{figure.ratio:8.2f}"
        print(f"{figure.recipe:22}{figure.part:22}{times}")
    wholes = [figure for figure in found if figure.part == "whole run"]
    missed = [f.recipe for f in wholes if not 1 / TARGET <= f.ratio <= TARGET]
    verdict = f"missed by {', '.join(missed)}" if missed else "met"
    print(f"target (whole runs within a factor of {TARGET:g}): {verdict}")
    return bool(missed)


if __name__ == "__main__":
    raise SystemExit(main())
