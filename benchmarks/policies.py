"""What do N separate policies cost beside one shared policy, at equal tokens?

Three runs of a recipe with the same seed and warm start take turns, --repeats times each: one shared policy,
separate ones, and separate ones that learn in crews of their own (``placement.crews=apart``). The learning
rate is so small that no weight moves: all policies stay equal, and every step of all runs has the same
episodes, token by token, which the benchmark checks. Medians of the steps after the first, which also builds
the environments.

    python benchmarks/policies.py [--recipe NAME] [--steps N] [--repeats N] [--quick] [--json P] [KEY=VALUE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mappa_rl.telemetry.sinks import read_metrics

WAYS = {
    "shared": ["policies.map=shared"],
    "separate": ["policies.map=separate"],
    "apart": ["policies.map=separate", "placement.crews=apart"],
}
PARTS = {"step": "time/step", "generation": "time/generate", "learner": "time/learn", "sync": "time/sync"}
FIXED = (
    "optim.lr=1e-30",
    "optim.schedule=constant",
    "eval.episodes=2",
    "eval.calibration_temperatures=[]",
    "run.tensorboard=false",
    "run.trace_every=0",
)
SMALL = (
    "warmstart.episodes=40",
    "warmstart.steps=4",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=8",
)


def measured(recipe: str, out: Path, start: Path | None, overrides: list[str]) -> list[dict[str, float]]:
    """The metrics of a run's steps after the first."""
    begin = [f"warmstart.path={start}"] if start is not None else []
    words = [recipe, *FIXED, *begin, *overrides, f"out={out}"]
    subprocess.run(
        [sys.executable, "-m", "mappa_rl.cli", "train", *words], check=True, stdout=subprocess.DEVNULL
    )
    return read_metrics(out)[1:]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--steps", type=int, default=6, metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--quick", action="store_true", help="two small steps: no figures")
    parser.add_argument("--json", type=Path, metavar="PATH")
    args = parser.parse_args()
    steps, repeats = (2, 1) if args.quick else (args.steps, args.repeats)
    own = [f"run.steps={steps}", *(SMALL if args.quick else ()), *args.overrides]
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory(prefix="mappa-policies-") as folder:
        first = Path(folder) / "start"
        measured(args.recipe, first, None, [*own, "run.steps=1", "policies.map=shared"])
        for repeat in range(repeats):
            for name, way in WAYS.items():
                out = Path(folder) / f"{name}-{repeat}"
                rows[name] += measured(args.recipe, out, first / "warmstart", [*own, *way])
    tokens = {name: [row["tokens"] for row in found] for name, found in rows.items()}
    if any(found != tokens["shared"] for found in tokens.values()):
        raise SystemExit(f"the runs sampled other tokens: {tokens}")
    medians: dict[str, dict[str, float]] = {
        name: {part: statistics.median(row[key] for row in found) for part, key in PARTS.items()}
        for name, found in rows.items()
    }
    table = Table(
        title=f"{args.recipe}: seconds of a step, {len(rows['shared'])} steps each", title_justify="left"
    )
    ratios = {
        name: {part: medians[name][part] / medians["shared"][part] for part in PARTS}
        for name in list(WAYS)[1:]
    }
    for column in ("", *WAYS, *(f"{name} / shared" for name in ratios)):
        table.add_column(column, justify="right")
    for part in PARTS:
        cells = [f"{found[part]:.3f}" for found in medians.values()]
        table.add_row(part, *cells, *(f"{found[part]:.2f}" for found in ratios.values()))
    Console(width=110).print(table)
    found: dict[str, Any] = {"medians": medians, "ratios": ratios, "overrides": args.overrides}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
