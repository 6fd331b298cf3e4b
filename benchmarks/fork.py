"""What a fork of a running episode costs, beside a plain copy of its files.

DSBench's workspace with files of --mib in all, written by an action. A fork copies, scans and digests them;
the floor is one read and write of the same bytes.

    python benchmarks/fork.py [--mib 5] [--files 10] [--repeats 50] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mappa_env.episode.episode import Episode
from mappa_env.registration import find_card

TARGET_MS = 20.0
PROGRAM = """```python
import random
for k in range({files}):
    open(f"file_{{k}}.bin", "wb").write(random.randbytes({size}))
```"""


def timed(run: Callable[[], Callable[[], object]], repeats: int) -> list[float]:
    """Milliseconds of each call of ``run``, which returns what cleans up after it."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        clean = run()
        found.append(1e3 * (time.perf_counter() - start))
        clean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=float, default=5.0, help="default: %(default)s")
    parser.add_argument("--files", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    episode = Episode(find_card("dsbench"))
    episode.reset(seed=0)
    size = int(args.mib * 2**20 / args.files)
    record = episode.act(PROGRAM.format(files=args.files, size=size))
    assert record.tool is not None
    assert len(record.tool.written) == args.files, record.tool.stderr

    def fork() -> Callable[[], object]:
        return episode.fork().close

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        for k in range(args.files):
            (source / str(k)).write_bytes(bytes(size))

        def copy() -> Callable[[], object]:
            target = shutil.copytree(source, Path(folder, "copy"))
            return lambda: shutil.rmtree(target)

        figures = {"fork": timed(fork, args.repeats), "files alone": timed(copy, args.repeats)}
    episode.close()
    medians = {name: statistics.median(found) for name, found in figures.items()}
    table = Table("", "median ms", "p95 ms")
    for name, found in figures.items():
        table.add_row(name, f"{medians[name]:.1f}", f"{sorted(found)[int(0.95 * len(found))]:.1f}")
    console = Console()
    console.print(table)
    verdict = "met" if medians["fork"] <= TARGET_MS else "MISSED"
    console.print(f"{args.mib:g} MiB in {args.files} files; target for 5 MiB: {TARGET_MS:g} ms, {verdict}")
    if args.json:
        args.json.write_text(json.dumps({"unit": "ms", "medians": medians, "repeats": figures}) + "\n")


if __name__ == "__main__":
    main()
