"""What recording costs: throughput with and without a trace, bytes per episode, and the time to read them.

MathChat with full prompts and the null sandbox, with its default coach (the rubric) and without one, so that
the environment does as little as it can. Both environments play in turn in one process; a figure is the
median of the ratios of neighbours. Wall time also counts what else runs on the machine: the CPU time of the
thread that plays says what recording costs it. The process that writes has its own CPU time, start included.

    python benchmarks/trace_cost.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.table import Table

import mappa_env
from mappa_env.trace import Traces
from mappa_env.trace.appending import pack

TARGET = 0.05
ACTION = "I check it.\n```python\nprint(6 * 7)\n```\nplan: 6 * 7\nThe answer is \\boxed{42}."
COACHES = ("rubric", "off")
CLOCKS = {"wall": time.perf_counter, "playing thread": time.thread_time}


def play(env: gym.Env[Any, str], episodes: int) -> dict[str, float]:
    """Seconds per episode on every clock."""
    before = {name: clock() for name, clock in CLOCKS.items()}
    for _ in range(episodes):
        env.reset()
        over = False
        while not over:
            _, _, over, _, _ = env.step(ACTION)
    return {name: (clock() - before[name]) / episodes for name, clock in CLOCKS.items()}


def cost(coach: str, path: Path, repeats: int, episodes: int) -> dict[str, Any]:
    """Cost of recording as a fraction of the time without, on every clock."""
    options: dict[str, Any] = {"sandbox": "null", "coach": coach}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plain = gym.make("mappa/MathChat-v0", **options)
    recording = gym.make("mappa/MathChat-v0", record=str(path), **options)
    for env in (plain, recording):
        env.reset(seed=0)
        play(env, episodes)
    rows = [(play(plain, episodes), play(recording, episodes)) for _ in range(repeats)]
    plain.close()
    recording.close()  # ends the process that writes
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found: dict[str, Any] = {"us of the writer": 1e6 * cpu / (episodes * (repeats + 1))}
    for name in CLOCKS:
        ratios = [with_trace[name] / without[name] - 1 for without, with_trace in rows]
        found[name] = {"median": statistics.median(ratios), "repeats": ratios}
    found["us per episode"] = 1e6 * statistics.median(without["wall"] for without, _ in rows)
    return found


def size(path: Path) -> dict[str, float]:
    """Bytes per episode of a plain trace and of a packed one, and the seconds that reading takes."""
    count, plain = len(list(Traces(path).summaries)), path.stat().st_size
    started = time.perf_counter()
    pack(path)
    packing = time.perf_counter() - started
    started = time.perf_counter()
    traces = Traces(path)
    summaries = list(traces.summaries)
    listing = time.perf_counter() - started
    started = time.perf_counter()
    traces.load(summaries[-1])
    return {
        "episodes": count,
        "bytes per episode": plain / count,
        "packed bytes per episode": path.stat().st_size / count,
        "seconds to pack": packing,
        "seconds to list": listing,
        "seconds to load one": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="some seconds instead of a minute")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    repeats, episodes = (9, 60) if args.quick else (101, 100)
    figures: dict[str, Any] = {}
    columns = (*(f"cost, {name}" for name in CLOCKS), "µs of the writer")
    table = Table("coach", "µs per episode without", *columns)
    with tempfile.TemporaryDirectory() as folder:
        for coach in COACHES:
            path = Path(folder, f"{coach}.jsonl")
            found = cost(coach, path, repeats, episodes)
            figures[coach] = {**found, **size(path)}
            costs = (f"{found[name]['median']:+.1%}" for name in CLOCKS)
            writer = f"{found['us of the writer']:,.0f}"
            table.add_row(coach, f"{found['us per episode']:,.0f}", *costs, writer)
    console = Console()
    console.print(table)
    for coach in COACHES:
        one = figures[coach]
        console.print(
            f"{coach}: {one['bytes per episode']:,.0f} bytes per episode, "
            f"{one['packed bytes per episode']:,.0f} packed; {one['episodes']:,} episodes listed in "
            f"{1e3 * one['seconds to list']:.0f} ms, one loaded in {1e3 * one['seconds to load one']:.1f} ms"
        )
    worst = figures["rubric"]["wall"]["median"]
    verdict = "met" if worst <= TARGET else "MISSED"
    console.print(f"default coach: {worst:+.1%}, target {TARGET:.0%}: {verdict}")
    if args.json:
        document = {"version": mappa_env.__version__, "figures": figures}
        args.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
