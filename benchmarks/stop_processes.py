"""Does a run of several processes that is told to stop save itself, and resume to the uninterrupted one?

The tiny run of ``kill_resume.py``, here with --processes learner processes, is started by its command once
without interruption. Then it is started again and again, and its command gets SIGTERM and SIGINT in turn, at
moments that are uniform over the time that training and the last evaluation took. Each time

* all its processes must be gone within 30 s,
* its last complete step must be in a checkpoint,
* and the resumed run must end with the metrics, weights and results of the uninterrupted one, byte by byte.

A run that is over before its moment, or ends well at it, is started again with another.

    python benchmarks/stop_processes.py [--processes 2] [--stops 20] [--seed N] [--json PATH] [key=value ...]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fakes
import psutil
from rich.console import Console
from rich.table import Table

LIMIT_S = 30.0
"""Schedulers often kill so long after SIGTERM."""
MOST_S = 120.0
"""After that it does not end at all, and neither would this program."""
NUMBERS = (signal.SIGTERM, signal.SIGINT)
killing: Any = fakes.load("killing")


class Started:
    """A run in ``out``, by its command. ``began``: when its training did, by ``time.monotonic``."""

    def __init__(self, out: Path, overrides: Sequence[str]) -> None:
        command = [sys.executable, "-m", "mappa_rl.cli", "train", killing.DEMO.recipe, f"out={out}"]
        self._shown = out.with_name(f"{out.name}.txt")
        with self._shown.open("w") as shown:
            self.process = subprocess.Popen([*command, *overrides], stdout=shown, stderr=subprocess.STDOUT)
        while not (out / "metrics.jsonl").is_file():
            if self.process.poll() is not None:
                self.fail("ended before it trained")
            time.sleep(0.01)
        self.began = time.monotonic()

    def wait(self) -> int:
        """Its exit status."""
        return self.process.wait()

    def fail(self, what: str) -> None:
        """End the program with what the run printed."""
        sys.exit(f"the run {what}: {self._shown.read_text(errors='replace')[-3000:]}")


def stopped(
    out: Path, overrides: Sequence[str], after_s: float, number: signal.Signals
) -> tuple[float, bool] | None:
    """Seconds from the signal to the end of all processes, and whether they did end.

    None if the run was over before.
    """
    run = Started(out, overrides)
    over = out / "summary.json"
    while time.monotonic() - run.began < after_s and not over.is_file():
        time.sleep(0.005)
    if over.is_file():
        run.wait()
        return None
    tree = psutil.Process(run.process.pid).children(recursive=True)
    sent = time.monotonic()
    run.process.send_signal(number)
    while run.process.poll() is None and time.monotonic() - sent < MOST_S:
        time.sleep(0.05)
    if run.process.poll() is None:
        run.process.kill()
        run.fail(f"did not end in {MOST_S:.0f} s after {number.name} at {after_s:.2f} s")
    status = run.wait()
    _, alive = psutil.wait_procs(tree, timeout=max(0.0, MOST_S - (time.monotonic() - sent)))
    spent = time.monotonic() - sent
    if status not in (0, 128 + number):
        run.fail(f"ended with {status} after {number.name} at {after_s:.2f} s")
    return (spent, not alive) if status == 128 + number else None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings of the run")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--stops", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments (default: 0)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    overrides = [*killing.DEMO.overrides, f"run.processes={args.processes}", *args.overrides]
    rng, rows = random.Random(args.seed), []
    with tempfile.TemporaryDirectory(prefix="mappa-stop-") as folder:
        whole, out = Path(folder) / "whole", Path(folder) / "stopped"
        run = Started(whole, overrides)
        while not (whole / "summary.json").is_file() and run.process.poll() is None:
            time.sleep(0.005)
        length = time.monotonic() - run.began
        if status := run.wait():
            run.fail(f"ended with {status}")
        expected, summary = killing.outcome(whole), killing.result(whole)
        overrides += [f"warmstart.path={whole / 'warmstart'}"]
        while len(rows) < args.stops:
            after, number = rng.random() * length, NUMBERS[len(rows) % 2]
            ended = stopped(out, overrides, after, number)
            if ended is not None:
                logged, newest = killing.saved_steps(out)
                gone, saved = ended[1] and ended[0] < LIMIT_S, newest >= logged
                killing.resume(out)
                found = killing.outcome(out)
                same = {
                    "metrics": found[0] == expected[0],
                    "weights": found[1] == expected[1],
                    "summary": killing.result(out) == summary,
                }
                rows.append(
                    {
                        "signal": number.name,
                        "after_s": round(after, 3),
                        "step": newest,
                        "ended_s": round(ended[0], 2),
                        "gone": gone,
                        "saved": saved,
                        **same,
                    }
                )
                print(f"{len(rows)}/{args.stops} {rows[-1]}", file=sys.stderr, flush=True)
            shutil.rmtree(out)
    return report(rows, args)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> int:
    """Print the table, write the figures; returns the exit status."""
    tests = ("gone", "saved", "metrics", "weights", "summary")
    table = Table(
        "", "runs", "all gone", "last step saved", "metrics equal", "weights equal", "results equal", "s"
    )
    for number in NUMBERS:
        mine = [row for row in rows if row["signal"] == number.name]
        counts = [str(sum(row[name] for row in mine)) for name in tests]
        longest = max((row["ended_s"] for row in mine), default=0.0)
        table.add_row(number.name, str(len(mine)), *counts, f"<= {longest:.1f}")
    Console(width=110).print(table)
    right = sum(all(row[name] for name in tests) for row in rows)
    print(f"{right} of {len(rows)} as the uninterrupted run, with {args.processes} processes")
    if args.json:
        facts = {"processes": args.processes, "seed": args.seed, "right": right, "rows": rows}
        args.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
