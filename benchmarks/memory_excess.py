"""By how much do several processes together exceed the memory limit of an action before it is ended?

Six processes fill memory as fast as they can, each up to the whole limit. They write down in a file of the
workspace how many MiB they have filled, so the figure does not rest on what the sandbox measured. It leaves
out what the interpreters themselves take. ``--load`` processes compute beside it.

    python benchmarks/memory_excess.py [--quick] [--runs N] [--load N] [--sandbox NAME] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import struct
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from mappa_env.errors import SandboxWarning
from mappa_env.sandbox import Limits, Sandbox, make_sandbox

TARGET = 0.10
LIMITS_MB = (256, 1000)
PROCESSES = 6
CODE = f"""
import os, struct, time
counts = os.open('filled', os.O_RDWR | os.O_CREAT)
os.pwrite(counts, bytes(8 * {PROCESSES}), 0)
for number in range({PROCESSES}):
    if os.fork() == 0:
        held = []
        try:
            while True:
                held.append(b'1' * (1 << 20))
                os.pwrite(counts, struct.pack('<q', len(held)), 8 * number)
        except MemoryError:
            time.sleep(60)
for _ in range({PROCESSES}):
    os.wait()
"""


def filled(sandbox: Sandbox, memory_mb: int) -> tuple[int, str]:
    """MiB that the processes held at most, and how the action ended."""
    limits = Limits(wall_s=60, memory_mb=memory_mb, disk_mb=16, output_cap_mb=1)
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, CODE, limits)
        counts = workspace.read("filled")
    return sum(struct.unpack(f"<{PROCESSES}q", counts)), result.status


def compute() -> None:
    while True:
        pass


def measure(spec: str, memory_mb: int, runs: int) -> dict[str, Any]:
    """Excess over the limit as a fraction of it, one per run; negative: the action was ended below it."""
    sandbox = make_sandbox(spec)
    try:
        filled(sandbox, memory_mb)  # starts what the sandbox keeps warm
        found = [filled(sandbox, memory_mb) for _ in track(range(runs), f"{memory_mb} MiB", transient=True)]
    finally:
        sandbox.close()
    excess = [megabytes / memory_mb - 1 for megabytes, _ in found]
    return {
        "memory_mb": memory_mb,
        "median": statistics.median(excess),
        "most": max(excess),
        "statuses": dict(Counter(status for _, status in found)),
        "runs": excess,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="5 runs instead of 60")
    parser.add_argument("--runs", type=int, metavar="N", help="runs at each limit")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute beside it")
    parser.add_argument("--sandbox", default="local", metavar="NAME", help="default: local")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", SandboxWarning)
    runs = args.runs or (5 if args.quick else 60)
    # Not forks: the sandbox's threads would not survive in them.
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=compute, daemon=True) for _ in range(args.load)]
    for other in others:
        other.start()
    try:
        rows = [measure(args.sandbox, memory_mb, runs) for memory_mb in LIMITS_MB]
    finally:
        for other in others:
            other.kill()
    table = Table("limit", "excess, median", "at most", "statuses")
    for row in rows:
        ended = ", ".join(f"{status} {count}" for status, count in row["statuses"].items())
        table.add_row(f"{row['memory_mb']} MiB", f"{row['median']:+.1%}", f"{row['most']:+.1%}", ended)
    console = Console()
    console.print(f"{PROCESSES} processes, {runs} runs, a load of {args.load} beside them")
    console.print(table)
    met = all(row["most"] <= TARGET for row in rows)
    console.print(f"target: at most {TARGET:.0%} over the limit: {'met' if met else 'MISSED'}")
    if args.json:
        args.json.write_text(json.dumps({"load": args.load, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
