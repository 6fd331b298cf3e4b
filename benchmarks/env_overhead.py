"""What the environment itself costs per step, compared with a trivial Gymnasium environment.

MathChat with full prompts, the null sandbox, the coach off and recording on: every action calls the tool, so
the figure includes prompts, parsing, the episode, its file history, infos, grading and the trace, but not the
agents' own code.

    python benchmarks/env_overhead.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.table import Table

import mappa_env
from mappa_env.envs.spaces import Unicode

TARGET = 10_000
ACTION = "I check it.\n```python\nprint(6 * 7)\n```\nplan: 6 * 7\nThe answer is \\boxed{42}."


class Trivial(gym.Env[str, str]):
    """Answers every text with the same text; four steps an episode."""

    observation_space = Unicode()
    action_space = Unicode()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return "hello", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return "hello", 0.0, self.steps == 4, False, {}


def steps_per_second(env: gym.Env[Any, str], seconds: float) -> tuple[float, float]:
    """Steps of whole episodes, resets included, per second and per second of CPU time.

    The second figure estimates the first on an otherwise idle machine.
    """
    env.reset(seed=0)
    steps, start, cpu = 0, time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - start) < seconds:
        env.reset()
        over = False
        while not over:
            _, _, over, _, _ = env.step(ACTION)
            steps += 1
    return steps / elapsed, steps / (time.process_time() - cpu)


def measure(seconds: float, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Measure environments in turn, so that a slow moment of the machine affects all of them."""
    gym.register("Trivial-v0", entry_point=Trivial)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"sandbox": "null", "coach": "off"}
        envs = {
            "mappa/MathChat-v0, recording": gym.make(
                "mappa/MathChat-v0", record=str(Path(folder, "trace.jsonl")), **options
            ),
            "mappa/MathChat-v0, not recording": gym.make("mappa/MathChat-v0", **options),
            "baseline: trivial gymnasium text environment": gym.make("Trivial-v0"),
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in envs}
        for _ in range(repeats):
            for name, env in envs.items():
                figures[name].append(steps_per_second(env, seconds))
        for env in envs.values():
            env.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of a minute")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    figures = measure(*((0.5, 3) if args.quick else (3.0, 7)))
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in figures.items()
    }
    table = Table("environment", "steps/s", "µs per step", "lowest", "highest", "steps per CPU s")
    for name, (wall, cpu) in medians.items():
        walls = [row[0] for row in figures[name]]
        table.add_row(
            name,
            f"{wall:,.0f}",
            f"{1e6 / wall:.1f}",
            f"{min(walls):,.0f}",
            f"{max(walls):,.0f}",
            f"{cpu:,.0f}",
        )
    console = Console()
    console.print(table)
    (own, own_cpu), _, (trivial, _) = medians.values()
    verdict = "met" if own >= TARGET else "MISSED"
    if own < TARGET <= own_cpu:
        verdict += f" (but {own_cpu:,.0f} per CPU second: the machine is busy with something else)"
    console.print(
        f"recording included: {own:,.0f} steps/s, target {TARGET:,}: {verdict}; "
        f"{1e6 / own - 1e6 / trivial:.0f} µs per step above the baseline"
    )
    if args.json:
        report = {
            name: {"median": wall, "per_cpu_s": cpu, "repeats": [row[0] for row in figures[name]]}
            for name, (wall, cpu) in medians.items()
        }
        document = {"version": mappa_env.__version__, "unit": "steps/s", "figures": report}
        args.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
