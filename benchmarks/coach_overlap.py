"""How much of a slow coach's time stays on the critical path when it judges in the background?

Scripted experts play real episodes; an agent's generation is simulated by a pause before each action. The
coach is FAKE: an OpenAI-compatible server on loopback that answers every request after a fixed latency. The
same episodes (task and seed) are played with the coach off, deferred and blocking, in turn.

Verdicts on the critical path = (episode with the coach - episode with coach="off") / the coach's latency:
all actions of the episode with judging="blocking"; with "deferred" about one, the closing action's own.

    python benchmarks/coach_overlap.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fakes
import gymnasium as gym
from rich.console import Console
from rich.table import Table

import mappa_env
from mappa_env import team_env
from mappa_env.envs.partners import Partners
from mappa_env.errors import SandboxWarning

MODES = ("off", "deferred", "blocking")
SANDBOXES = {"mappa/MathChat-v0": "calculator", "mappa/DSBench-v0": "local"}


def play(env: gym.Env[Any, str], seed: int, generation_s: float) -> tuple[float, int]:
    """Wall seconds of one episode from its first observation on, and its number of actions."""
    env.reset(seed=seed)
    episode = team_env(env).episode
    team = Partners(episode.card, "expert", agent=None, prompts="full")
    team.reset(episode)
    start = time.perf_counter()
    while not episode.over:
        time.sleep(generation_s)
        env.step(team.act(episode))
    seconds = time.perf_counter() - start
    wrong = [a.verdict for a in episode.actions if a.verdict.status != ("abstain" if _off(env) else "ok")]
    if wrong:
        raise SystemExit(f"unexpected verdict: {wrong[0]}")
    return seconds, len(episode.actions)


def _off(env: gym.Env[Any, str]) -> bool:
    return bool(team_env(env).episode.coach.name == "off")


def measure(env_id: str, url: str, latency_s: float, generation_s: float, episodes: int) -> dict[str, Any]:
    """Medians over ``episodes``; verdicts on the critical path are computed per episode."""
    coaches = {mode: f"openai:fake@{url}" if mode != "off" else "off" for mode in MODES}
    envs = {
        mode: gym.make(
            env_id,
            coach=coach,
            sandbox=SANDBOXES[env_id],
            judging="deferred" if mode == "deferred" else "blocking",
        )
        for mode, coach in coaches.items()
    }
    play(envs["deferred"], 0, 0.0)  # the first of everything: imports, the sandbox's start, connections
    walls: dict[str, list[float]] = {mode: [] for mode in MODES}
    actions: list[int] = []
    for seed in range(1, episodes + 1):
        for mode in MODES:
            seconds, count = play(envs[mode], seed, generation_s)
            walls[mode].append(seconds)
        actions.append(count)
    for env in envs.values():
        env.close()
    share = {
        mode: [(seconds - off) / latency_s for seconds, off in zip(walls[mode], walls["off"], strict=True)]
        for mode in MODES[1:]
    }
    return {
        "env": env_id,
        "generation_s": generation_s,
        "actions": statistics.median(actions),
        "wall_s": {mode: statistics.median(rows) for mode, rows in walls.items()},
        "critical_path": {mode: statistics.median(rows) for mode, rows in share.items()},
        "episodes": {"wall_s": walls, "critical_path": share},
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="MathChat and one pause, under a minute")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--latency", type=float, default=2.0, metavar="S", help="of the coach (default: 2)")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", SandboxWarning)
    plan = [(env, pause) for env in SANDBOXES for pause in (2.0, 0.5)]
    episodes = 5
    if args.quick:
        plan, episodes = [("mappa/MathChat-v0", 0.5)], 2
    table = Table(title=f"A fake coach that answers after {args.latency:g} s; medians of {episodes} episodes")
    for column in ("environment", "generation s", "actions", *(f"{mode} s" for mode in MODES)):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for mode in MODES[1:]:
        table.add_column(f"verdicts on the path, {mode}", justify="right")
    rows = []
    with fakes.load().serving("openai", latency_s=args.latency) as server:
        for env_id, pause in plan:
            row = measure(env_id, server.url, args.latency, pause, episodes)
            rows.append(row)
            table.add_row(
                env_id,
                f"{pause:g}",
                f"{row['actions']:g}",
                *(f"{row['wall_s'][mode]:.2f}" for mode in MODES),
                *(f"{row['critical_path'][mode]:.2f}" for mode in MODES[1:]),
            )
    Console(width=130).print(table)
    if args.json:
        document = {"version": mappa_env.__version__, "fake": True, "latency_s": args.latency, "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
