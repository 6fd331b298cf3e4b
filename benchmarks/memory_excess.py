"""By how much do several processes together exceed the memory limit of an action before it is ended?

Six processes fill memory as fast as they can, in five ways. The kernel counts what they add to the machine's
memory: the benchmark runs in a cgroup of its own, which needs root and the memory controller of cgroup v1.
So the figure does not rest on what the sandbox measured. Pages that actions share with the sandbox's warm
interpreter are not in it; the sandbox counts them, so it ends actions before they reach their limit.
``--load`` processes compute beside it. ``--user`` runs the sandbox as another user, who may make no cgroups.

    python benchmarks/memory_excess.py [--quick] [--runs N] [--load N] [--user NAME]
                                       [--sandbox NAME] [--json PATH]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pwd
import statistics
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from mappa_env.errors import SandboxWarning
from mappa_env.sandbox import Limits, Sandbox, make_sandbox

TARGET = 0.10
LIMITS_MB = (256, 1000)
CODE = """
import mmap, os, time
mib = {share}
kept = bytearray(b'1' * (50 << 20))
reserved = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for _ in range(6):
    if os.fork() == 0:
        {fill}
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
FILLS = {
    "a block": "x = b'1' * (mib << 20)",
    "many blocks": "x = [b'1' * (1 << 20) for _ in range(mib)]",
    "what it shares": "kept[::4096] = kept[::4096]; x = [b'1' * (1 << 20) for _ in range(mib)]",
    "what it reserved": "reserved[::4096] = b'1' * (mib << 8)",
    "huge pages": "reserved.madvise(mmap.MADV_HUGEPAGE); reserved[::4096] = b'1' * (mib << 8)",
}
"""How each process fills ``mib``."""


class Group:
    """A cgroup with this process and all that it starts, which counts their memory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "cgroup.procs").write_text(str(os.getpid()))
        self._usage = (place / "memory.usage_in_bytes").open()
        self._peak = (place / "memory.max_usage_in_bytes").open("r+")  # opened before another user needs it

    def reset(self) -> int:
        """Bytes in use now, from which the peak is counted again."""
        self._peak.seek(0)
        self._peak.write("0")
        self._peak.flush()
        self._usage.seek(0)
        return int(self._usage.read())

    def peak(self) -> int:
        """The most bytes in use since ``reset``."""
        self._peak.seek(0)
        return int(self._peak.read())


@contextlib.contextmanager
def group() -> Iterator[Group]:
    """Raises SystemExit where there can be none."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = next((path for _, controllers, path in lines if "memory" in controllers.split(",")), None)
    home = Path(f"/sys/fs/cgroup/memory{own}")
    try:
        place = Path(tempfile.mkdtemp(prefix="excess-", dir=home))
    except OSError as error:
        raise SystemExit(f"{error}: this needs root and the memory controller of cgroup v1.") from None
    try:
        yield Group(place)
    finally:
        with contextlib.suppress(OSError):  # another user may not leave it
            (home / "cgroup.procs").write_text(str(os.getpid()))
            place.rmdir()


def become(name: str) -> None:
    """Give up root's rights for those of the user ``name``."""
    user = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ["HOME"] = tempfile.mkdtemp()


def excess(sandbox: Sandbox, counted: Group, memory_mb: int, fill: str) -> tuple[float, str]:
    """What the action added to the machine's memory, over its limit as a fraction of it; how it ended."""
    limits = Limits(wall_s=60, memory_mb=memory_mb, disk_mb=16, output_cap_mb=1)
    code = CODE.format(share=memory_mb * 5 // 16, fill=fill)
    with sandbox.open_workspace() as workspace:
        before = counted.reset()
        result = sandbox.run(workspace, code, limits)
        return (counted.peak() - before) / 2**20 / memory_mb - 1, result.status


def compute() -> None:
    while True:
        pass


@contextlib.contextmanager
def loaded(load: int) -> Iterator[None]:
    """``load`` processes that compute meanwhile."""
    # Not forks: the sandbox's threads would not survive in them.
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=compute, daemon=True) for _ in range(load)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def measure(sandbox: Sandbox, counted: Group, memory_mb: int, runs: int) -> dict[str, Any]:
    """The excess of each run; negative: the action was ended below its limit."""
    fills = list(FILLS) * runs
    shown = track(fills, f"{memory_mb} MiB", transient=True)
    found = [excess(sandbox, counted, memory_mb, FILLS[name]) for name in shown]
    return {
        "memory_mb": memory_mb,
        "median": statistics.median(share for share, _ in found),
        "most": max(share for share, _ in found),
        "over the target": sum(share > TARGET for share, _ in found),
        "statuses": dict(Counter(status for _, status in found)),
        "runs": [(name, share) for name, (share, _) in zip(fills, found, strict=True)],
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 run instead of 12")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each of the five ways at each limit")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute beside it")
    parser.add_argument("--user", metavar="NAME", help="run the sandbox as this user")
    parser.add_argument("--sandbox", default="local", metavar="NAME", help="default: local")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", SandboxWarning)
    runs = args.runs or (1 if args.quick else 12)
    out = args.json.open("w") if args.json else None  # another user may not write there
    with group() as counted:
        if args.user:
            become(args.user)
        sandbox = make_sandbox(args.sandbox)
        try:
            with sandbox.open_workspace() as workspace:
                sandbox.run(workspace, "", Limits())  # starts what the sandbox keeps warm
            with loaded(args.load):
                rows = [measure(sandbox, counted, memory_mb, runs) for memory_mb in LIMITS_MB]
        finally:
            sandbox.close()
    table = Table("limit", "excess, median", "at most", f"over {TARGET:+.0%}", "statuses")
    for row in rows:
        ended = ", ".join(f"{status} {count}" for status, count in row["statuses"].items())
        over = f"{row['over the target']} of {len(row['runs'])}"
        table.add_row(f"{row['memory_mb']} MiB", f"{row['median']:+.1%}", f"{row['most']:+.1%}", over, ended)
    console = Console()
    console.print(f"six processes, a load of {args.load} beside them, as {args.user or 'this user'}")
    console.print(table)
    met = all(row["most"] <= TARGET for row in rows)
    console.print(f"target: at most {TARGET:.0%} over the limit: {'met' if met else 'MISSED'}")
    if out:
        with out:
            out.write(json.dumps({"load": args.load, "user": args.user, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
