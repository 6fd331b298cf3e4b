"""Does the rubric coach name who spoiled an episode, and with which action? On MathChat and DSBench.

The same as ``mappa-env coach bench`` for each, with tasks that are held out from training; baselines, which
look only at the order of actions and at whose code failed, are in the same table.

    python benchmarks/coach_bench.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
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
from mappa_env.commands.coach_options import write_json
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
            "rubric", sandbox, tasks="eval", episodes=few if options.quick else many,
            limit=limit if options.quick else None,
        )  # fmt: skip
        found = summary(Bench(card, chosen, RowFile(None, {})).run(), card.team.names)
        for part in tables(f"{card.id}, coach rubric", found):
            console.print(part, highlight=False, markup=False)
        figures[folder] = found
    figures["seconds"] = round(time.perf_counter() - start, 1)
    console.print(f"{figures['seconds']} s")
    if options.json:
        write_json(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
