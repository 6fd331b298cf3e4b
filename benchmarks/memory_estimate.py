"""Is the memory that a dry run shows what a run takes? Estimates against measurements, on a CPU.

Six layouts of a team of three, each in processes of its own: the policies start, and each learns twice from
two full micro-batches. Measured: the growth of the largest resident size (VmHWM) of the process that takes
most, over its size after a tiny team has gone through the same. Estimated:
`mappa_rl.training.preflight.memory`. Each layout runs with two models of different proportions. `SCRATCH` and
`HOLES` of `mappa_rl.training.preflight.measured` are fitted to this and to larger models.
`benchmarks/run_memory.py` measures a whole run.

    python benchmarks/memory_estimate.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import fakes
from rich.console import Console
from rich.table import Table

MODELS = {
    "8 layers of width 512, 512 tokens": [],
    "4 layers of width 640, 1,024 tokens": [
        "model.layers=4",
        "model.hidden=640",
        "model.mlp=2560",
        "optim.tokens_per_micro_batch=1024",
        "model.max_len=1024",
    ],
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one model and one layout")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    layouts = fakes.load("memory_layouts")
    table, rows = Table(), []
    for column in ("model", "layout", "start MB", "peak MB", "estimate MB", "estimate / peak"):
        table.add_column(column, justify="left" if column in ("model", "layout") else "right")
    for model, sizes in list(MODELS.items())[: 1 if args.quick else None]:
        with tempfile.TemporaryDirectory(prefix="mappa-memory-") as folder:
            models = layouts.save_models(Path(folder), [*layouts.SIZES, *sizes])
            for layout in ["shared"] if args.quick else layouts.LAYOUTS:
                config = layouts.config_of(layout, sizes)
                found = layouts.measure(layout, models, sizes)
                wanted = layouts.estimated(config).peak
                rows.append(
                    {"model": model, "layout": layout, "start": found.start, "peak": found.peak}
                    | {"estimate": wanted, "ratio": wanted / found.peak}
                )
                figures = [f"{size / 1e6:,.0f}" for size in (found.start, found.peak, wanted)]
                table.add_row(model, layout, *figures, f"{wanted / found.peak:.2f}")
                print(rows[-1], file=sys.stderr, flush=True)
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
