"""Do other layouts learn as well as separate policies? Several layouts from the same warm starts.

    python benchmarks/layouts.py [--recipe demo] [--seeds 0,1,2] [--layouts separate,shared,lora,vllm]
                                 [--quick] [--out FOLDER] [--json PATH]

``separate`` trains a policy per agent, ``shared`` one for all, ``lora`` an adapter per agent on the frozen
warm start, and ``vllm`` is ``separate`` with vLLM as the engine. Every layout is compared with ``separate``
after training, paired by seed and held-out task. An interrupted benchmark continues where it stopped:
finished runs in --out are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compared import difference, ends, signed, success
from rich.console import Console
from rich.table import Table
from runs import begins, finished

from mappa_rl.evaluation.results import Result
from mappa_rl.report.runs import read_run

BASE = "separate"
LAYOUTS = {
    BASE: [],
    "shared": ["policies.map=shared"],
    "lora": ["policies.map=lora", "optim.lr=3e-3"],  # adapters need about ten times the learning rate
    "vllm": ["engine.name=vllm"],
}
QUICK = [
    "warmstart.episodes=30",
    "warmstart.steps=20",
    "warmstart.warmup_steps=2",
    "model.layers=1",
    "run.steps=2",
    "eval.episodes=6",
    "eval.calibration_episodes=4",
    "rollout.episodes_per_step=8",
    "rollout.max_new_tokens=32",
    "run.tensorboard=false",
]


def report(found: dict[str, dict[str, dict[str, list[Result]]]], minutes: dict[str, float]) -> dict[str, Any]:
    """The table, and its figures by layout and arm."""
    table = Table(
        "layout",
        "",
        "before",
        "after",
        "change, 95 %",
        f"against {BASE}",
        "minutes",
        title="held-out success",
    )
    figures: dict[str, Any] = {}
    for layout, arms in found.items():
        for arm, rows in arms.items():
            before, after = (success(rows[p]) for p in ("before", "after"))
            compared = {"before": before, "after": after, "change": difference(rows["before"], rows["after"])}
            against = ""
            if layout != BASE and BASE in found:
                compared["against"] = difference(found[BASE][arm]["after"], rows["after"])
                against = signed(compared["against"])
            table.add_row(
                layout,
                arm,
                f"{before.mean:.1%}",
                f"{after.mean:.1%}",
                signed(compared["change"]),
                against,
                f"{minutes[layout]:.1f}",
            )
            figures.setdefault(layout, {})[arm] = {name: each._asdict() for name, each in compared.items()}
        figures[layout]["minutes"] = minutes[layout]
    console = Console(width=110)
    console.print(table)
    console.print("minutes: training alone, mean of the seeds")
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo", help="default: %(default)s")
    parser.add_argument("--seeds", default="0,1,2", help="default: %(default)s")
    parser.add_argument("--layouts", default="separate,shared,lora", help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="default: runs/layouts, with --quick a folder next to it")
    parser.add_argument(
        "--starts", type=Path, metavar="FOLDER", help="warm starts in seed-<n>/warmstart, instead of new ones"
    )
    parser.add_argument("--quick", action="store_true", help="a tiny version that only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    layouts = args.layouts.split(",")
    if unknown := sorted(set(layouts) - set(LAYOUTS)):
        parser.error(f"unknown layouts {unknown}; there are {', '.join(LAYOUTS)}")
    out = args.out or Path("runs/layouts-quick" if args.quick else "runs/layouts")
    seeds = [int(seed) for seed in args.seeds.split(",")][: 1 if args.quick else None]
    folders: dict[str, list[Path]] = {layout: [] for layout in layouts}
    for seed in seeds:
        start = args.starts and args.starts / f"seed-{seed}" / "warmstart"
        for layout in layouts:
            begin = begins(out, layout, seed, BASE, start)
            settings = [*begin, *(QUICK if args.quick else []), *LAYOUTS[layout]]
            folders[layout].append(finished(out, layout, seed, args.recipe, settings))
    minutes = {}
    for layout, mine in folders.items():
        summaries = [read_run(folder).summary for folder in mine]
        minutes[layout] = sum(s.phases["training"] for s in summaries if s) / len(mine) / 60
    figures = report(
        {layout: ends([read_run(each) for each in mine]) for layout, mine in folders.items()}, minutes
    )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
