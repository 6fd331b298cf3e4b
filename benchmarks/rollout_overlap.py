"""How close do rollouts come to the limit of their latencies, and what does training in parallel save?

The episodes are real (prompts, actions, workspaces, shaping); generation, sandbox and coach are SIMULATED:
they only wait, lognormal (sigma 0.5) with means of 0.5, 0.2 and 2 s, drawn for each (episode, action) and so
equal for all rows of a table. Verdicts are deferred: asked in the background, due at the end.

Critical path = what the slowest episode would take alone, with unlimited concurrency and no overhead: the
maximum over episodes of max(end of the last sandbox run, over actions i: end of action i's + its verdict's
latency), where an action ends its generation and its sandbox run (if it has one) after the action before.

Rows: ``async`` and ``lockstep`` are the project's AsyncRollout and LockstepRollout (groups of episodes that
move in lockstep). The PATTERN of the reference is rebuilt from a description, without any work of its own, so
its times are lower bounds: 16 trajectories in flight on one event loop, generation awaited, sandbox and coach
called blocking after every action. ``frozen``: such a call stops the whole loop, as HTTP without await does
(timed at a 20th of the latencies, times 20). ``kinder``: a call stops only its own trajectory.

Training: the project's batches with a learner that is SIMULATED by a pause; wall time of all steps, on policy
and with staleness 1 (new weights at once, or when the episodes under way are over).

    python benchmarks/rollout_overlap.py [--quick] [--json PATH] [--repeats N] [--scale X] [--only PART]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fakes
from rich.console import Console
from rich.table import Table

import mappa_env
from mappa_env.seeds import derived_seed
from mappa_rl.config.rollout import Rollout as RolloutSection
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.batches import AsyncBatches
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job

MEANS_S = {"generation": 0.5, "sandbox": 0.2, "coach": 2.0}
SIGMA = 0.5
IN_FLIGHT = 16
SAMPLING = Sampling(1.0, 8, 512, 1.0, {})
simulated = fakes.load("simulated")

Waits = list[list[tuple[float, float, float]]]
"""Per episode and action: seconds of generation, sandbox (0: no code) and coach."""


def latency_s(kind: str, *key: object) -> float:
    mean = MEANS_S[kind]
    drawn: float = simulated.unit(kind, *key).lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA)
    return drawn


class World:
    """Policies and environments whose latencies are those of ``latency_s``, times ``scale``."""

    def __init__(self, env_id: str, scale: float) -> None:
        self.env_id, self.scale = env_id, scale
        engine = simulated.SimulatedEngine(lambda seed: scale * latency_s("generation", seed))
        self.policies = simulated.policies(engine, env_id)

    def env(self) -> Any:
        return simulated.SimulatedEnv(
            self.env_id, judging="deferred", latency_s=lambda *key: self.scale * latency_s(*key)
        )


def waits(collected: Collected, scale: float) -> Waits:
    """The latencies that the episodes met."""
    return [
        [
            (
                scale * latency_s("generation", derived_seed(trajectory_seed, action.step)),
                scale * latency_s("sandbox", trajectory_seed, action.step) if action.tool else 0.0,
                scale * latency_s("coach", trajectory_seed, action.step),
            )
            for action in trajectory.actions
        ]
        for trajectory_seed, trajectory in zip(
            [rollout.seed for rollout in collected.rollouts], collected.trajectories, strict=True
        )
    ]


def critical_path_s(episodes: Waits) -> float:
    ends = []
    for actions in episodes:
        now, end = 0.0, 0.0
        for generation, sandbox, coach in actions:
            now += generation + sandbox
            end = max(end, now + coach)
        ends.append(end)
    return max(ends)


def pattern_s(episodes: Waits, *, frozen: bool) -> float:
    """Wall seconds of the reference's pattern."""
    scale = 0.05 if frozen else 1.0

    async def call(seconds: float) -> None:
        if frozen:
            time.sleep(scale * seconds)  # a blocking call, as in the pattern
        else:
            await asyncio.sleep(scale * seconds)

    async def play(actions: list[tuple[float, float, float]], slots: asyncio.Semaphore) -> None:
        async with slots:
            for generation, sandbox, coach in actions:
                await asyncio.sleep(scale * generation)
                await call(sandbox)
                await call(coach)

    async def all_of_them() -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)
        await asyncio.gather(*(play(actions, slots) for actions in episodes))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    return (time.perf_counter() - started) / scale


def measure_rollouts(env_id: str, episodes: int, scale: float, repeats: int) -> dict[str, Any]:
    """Seconds of every way to run the same episodes, ``repeats`` times each, in turn."""
    world = World(env_id, scale)
    jobs = [Job(seed) for seed in range(episodes)]
    seconds: dict[str, list[float]] = {"async": [], "lockstep": [], "kinder": [], "frozen": []}
    with (
        AsyncRollout(
            world.env, world.policies, in_flight=episodes, max_episode_s=0.0, retries=0
        ) as asynchronous,
        LockstepRollout(
            world.env, world.policies, in_flight=episodes, lockstep_groups=2, workers=episodes
        ) as lockstep,
    ):
        for worker in (asynchronous, lockstep):  # make their environments before the first measurement
            worker.collect([Job(10**6 + seed) for seed in range(episodes)], SAMPLING)
        for _ in range(repeats):
            played = asynchronous.collect(jobs, SAMPLING)
            seconds["async"].append(played.seconds.total)
            seconds["lockstep"].append(lockstep.collect(jobs, SAMPLING).seconds.total)
            met = waits(played, scale)
            seconds["kinder"].append(pattern_s(met, frozen=False))
            seconds["frozen"].append(pattern_s(met, frozen=True))
    critical = critical_path_s(met)
    median = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "env": env_id,
        "episodes": episodes,
        "actions": sum(map(len, met)),
        "critical_path_s": critical,
        "median_s": median,
        "over_critical_path": {name: s / critical for name, s in median.items()},
        "times_async": {name: s / median["async"] for name, s in median.items()},
        "seconds": seconds,
    }


def measure_training(episodes: int, steps: int, learner_s: float, scale: float, repeats: int) -> Any:
    """Wall seconds of ``steps`` training steps whose learner only waits."""
    ways: dict[str, dict[str, Any]] = {
        "on policy": {"staleness": 0},
        "staleness 1": {"staleness": 1},
        "staleness 1, no update between turns": {"staleness": 1, "update_between_turns": False},
    }
    rows: dict[str, dict[str, Any]] = {name: {"seconds": [], "staleness": []} for name in ways}
    jobs_of: Callable[[int], list[Job]] = lambda step: [Job(step * episodes + i) for i in range(episodes)]  # noqa: E731
    for _ in range(repeats):
        for name, options in ways.items():
            world = World("mappa/MathChat-v0", scale)
            with AsyncRollout(
                world.env,
                world.policies,
                in_flight=episodes * (1 + options["staleness"]),
                max_episode_s=0.0,
                retries=0,
            ) as worker:
                worker.collect([Job(10**6 + i) for i in range(2 * episodes)], SAMPLING)
                section = RolloutSection(episodes_per_step=episodes, **options)
                batches = AsyncBatches(
                    worker, world.policies, jobs_of, SAMPLING, rollout=section, steps=steps
                )
                started = time.perf_counter()
                batches.update(0)
                for step in range(1, steps + 1):
                    taken = batches.take(step)
                    time.sleep(learner_s)
                    batches.update(step)
                    rows[name]["staleness"].append(taken.stats["staleness"])
                    assert taken.stats["staleness_max"] <= options["staleness"]
                rows[name]["seconds"].append(time.perf_counter() - started)
    for row in rows.values():
        row["median_s"] = statistics.median(row["seconds"])
        row["mean_staleness"] = statistics.mean(row.pop("staleness"))
        row["speedup"] = rows["on policy"]["median_s"] / row["median_s"]
    return {"episodes": episodes, "steps": steps, "learner_s": learner_s, "scale": scale, "rows": rows}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer episodes, a fifth of the latencies")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="factor on all latencies (default: 1)"
    )
    parser.add_argument("--only", choices=[*simulated.TEAMS, "training"], help="one part (default: all)")
    args = parser.parse_args(argv)
    repeats, scale, episodes, steps = args.repeats, args.scale, 64, 6
    if args.quick:
        repeats, scale, episodes, steps = 1, 0.2, 24, 3
    plan = [env_id for env_id in simulated.TEAMS if args.only in (None, env_id)]
    if args.quick:
        plan = plan[:1]
    console = Console(width=120)
    table = Table(
        title=f"SIMULATED latencies (times {scale:g}), {episodes} real episodes; medians of {repeats}"
    )
    for column in ("environment", "critical path s", "rollouts", "wall s", "/ critical path", "/ async"):
        table.add_column(column, justify="left" if column in ("environment", "rollouts") else "right")
    rows = [measure_rollouts(env_id, episodes, scale, repeats) for env_id in plan]
    names = {
        "async": "async",
        "lockstep": "lockstep",
        "kinder": "pattern of the reference, kinder",
        "frozen": "pattern of the reference, frozen",
    }
    for row in rows:
        for name, label in names.items():
            table.add_row(
                row["env"],
                f"{row['critical_path_s']:.2f}",
                label,
                f"{row['median_s'][name]:.2f}",
                f"{row['over_critical_path'][name]:.2f}",
                f"{row['times_async'][name]:.1f}",
            )
    if rows:
        console.print(table)
    trained = None
    if args.only in (None, "training"):
        trained = measure_training(episodes, steps, 8.0 * scale, scale, repeats)
        table = Table(
            title=f"{steps} steps of {episodes} episodes, SIMULATED learner: {8 * scale:g} s a step"
        )
        for column in ("way", "wall s", "speedup", "mean staleness"):
            table.add_column(column, justify="left" if column == "way" else "right")
        for name, row in trained["rows"].items():
            cells = (f"{row['median_s']:.2f}", f"{row['speedup']:.2f}", f"{row['mean_staleness']:.2f}")
            table.add_row(name, *cells)
        console.print(table)
    if args.json:
        document = {
            "version": mappa_env.__version__,
            "simulated": True,
            "scale": scale,
            "means_s": MEANS_S,
            "rollouts": rows,
            "training": trained,
        }
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
