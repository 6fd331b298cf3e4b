"""Does the rubric coach blame the agent and the action that caused a failure? On MathChat and DSBench.

Runs ``mappa-env coach bench`` for both, on tasks held out from training. The table includes baselines that
use only the order of actions and which code failed.

    python benchmarks/coach_bench.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mappa_env.benchmarking.coach.rows import RowFile
from mappa_env.benchmarking.coach.running import Bench, Options
from mappa_env.benchmarking.coach.summary import summary
from mappa_env.benchmarking.coach.tables import tables
from mappa_env.commands._shared import write_json
from mappa_env.errors import SandboxWarning
from mappa_env.registration import find_card


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer cases, under a minute")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", SandboxWarning)
    plan = [("mathchat", "calculator", 3, 60, 24), ("dsbench", "local", 1, 24, 6)]
    start, figures = time.perf_counter(), dict[str, object]()
    console = Console(width=140)
    for folder, sandbox, few, limit, many in plan:
        card = find_card(folder)
        chosen = Options(
            "rubric",
            sandbox,
            tasks="eval",
            episodes=few if options.quick else many,
            limit=limit if options.quick else None,
            controls=1 if options.quick else many,
        )
        bench = Bench(card, chosen, RowFile(None, {}))
        found = summary(bench.run(), card.team.names, bench.controlled)
        for part in tables(f"{card.id}, coach rubric", found):
            console.print(part, highlight=False, markup=False)
        figures[folder] = dataclasses.asdict(found)
    figures["seconds"] = round(time.perf_counter() - start, 1)
    console.print(f"{figures['seconds']} s")
    if options.json:
        write_json(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
