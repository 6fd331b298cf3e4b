"""What looking at an agent's files costs: the time of a step with the rubric coach, beside the coach off.

The scripted experts play the same tasks in both environments, in turns, so that a slow moment of the machine
strikes both. With the coach off nothing is probed, so the difference is the probe and the verdict. A task's
reference model is fitted once, by the first who needs it: the modeler's verdict, or the grade at the end.

    python benchmarks/probe_time.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.table import Table

import mappa_env
from mappa_env.envs.partners import Partners

IDS = ("mappa/DSBench-v0", "mappa/DSBenchSprint-v0")
COACHES = ("off", "rubric")


def steps(env: gym.Env[Any, str], seed: int) -> Iterator[tuple[str, float]]:
    """(agent and turn, seconds) of every step of one episode."""
    env.reset(seed=seed)
    episode = mappa_env.team_env(env).episode
    experts = Partners(episode.card, "expert", agent=None, prompts=str(episode.settings["prompts"]))
    experts.reset(episode)
    over = False
    while not over:
        name, action = f"{episode.agent}, turn {episode.turn}", experts.act(episode)
        start = time.perf_counter()
        _, _, over, _, _ = env.step(action)
        yield name, time.perf_counter() - start


def measure(env_id: str, episodes: int) -> dict[str, dict[str, float]]:
    """Action -> median milliseconds with each coach, and of the difference."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        envs = {coach: stack.enter_context(closing(gym.make(env_id, coach=coach))) for coach in COACHES}
        for seed in range(episodes + 1):
            for coach, env in envs.items():
                found = dict(steps(env, seed))
                if seed:  # the first episode imports what later ones find ready
                    for name, seconds in {**found, "all actions": sum(found.values())}.items():
                        times[name][coach].append(1e3 * seconds)
    return {
        name: {
            **{coach: statistics.median(found[coach]) for coach in COACHES},
            "more": statistics.median(b - a for a, b in zip(*map(found.get, COACHES), strict=True)),
        }
        for name, found in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two episodes instead of thirty")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    figures = {env_id: measure(env_id, 2 if args.quick else 30) for env_id in IDS}
    table = Table("environment", "action", "coach off, ms", "rubric, ms", "more, ms")
    for env_id, rows in figures.items():
        for name, row in rows.items():
            table.add_row(env_id, name, f"{row['off']:.1f}", f"{row['rubric']:.1f}", f"{row['more']:.1f}")
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
