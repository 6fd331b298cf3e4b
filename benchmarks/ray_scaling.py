"""Do environments on more nodes play more episodes, and what does a killed node cost?

Up to four Ray nodes by Ray's own utility on ONE machine: they share its processors, and nothing crosses a
network. Each has one worker with --slots environments. The episodes are real MathChat episodes (prompts,
records, rubric, calls over Ray). Latencies are SIMULATED, waits drawn from recorded ones (``GENERATION``,
``CODE``). ``work``: the code also runs in an interpreter, real work on the shared processors.

Efficiency of n nodes: seconds with one node / (n x seconds with n nodes), for the same episodes. Perfect: the
seconds and the efficiency if the episodes took as long as on one node and a free place always began the next
one; the more places, the more of them are idle while the last episodes end. CPU: the share of the machine's
processors that all processes used meanwhile; near 100 %, it is the machine that limits, not the nodes.

Killed: the same episodes, and one of the nodes is killed half-way. It costs at most the time of its own
episodes if the wall time grows by no more than the node's share of the rest, and the longest episode.

Exits 1 if episodes differ, or a target is missed: TARGET with the most nodes, unless the machine limits, and
what a killed node may cost. --quick has too few episodes for targets.

    python benchmarks/ray_scaling.py [--quick] [--episodes N] [--slots N] [--json PATH]
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fakes
import psutil
from rich.console import Console
from rich.table import Table
from waiting_sandbox import drawn

from mappa_rl.cluster.session import connect, disconnect
from mappa_rl.config import Cluster
from mappa_rl.environments.remote import RemoteEnv
from mappa_rl.environments.workers import EnvWorkers
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job

ID = "mappa/MathChat-v0"
SAMPLING = Sampling(1.0, 8, 512, 1.0, {})
SANDBOX = f"{Path(__file__).with_name('waiting_sandbox.py')}:Waiting"
GENERATION = (0.019, 0.073, 0.096, 0.117, 0.14, 0.169, 0.208, 0.252, 0.338, 0.837, 4.092)
"""Seconds that an action waited for SmolLM2 in steps 41 to 60 of a run of smollm2_lora on two busy
cores, a twentieth of it: the quantiles 0, 0.1, ... 1."""
CODE = (0.011, 0.019, 0.021, 0.024, 0.025, 0.026, 0.028, 0.029, 0.044, 0.116, 0.629)
"""Seconds of the code of 120 actions of DSBenchSprint's faulty team: the same quantiles."""
TARGET = 0.9
"""Least efficiency with the most nodes."""
BUSY = 0.9
"""From this share of the processors on, it is the machine that limits."""
simulated, ray_cluster = fakes.load("simulated"), fakes.load("ray_cluster")


@contextmanager
def rollout(nodes: Any, count: int, slots: int, works: bool) -> Iterator[AsyncRollout]:
    """Episodes on ``count`` workers, one on each node, with ``slots`` environments each."""
    cluster = Cluster(
        name="ray", address=nodes.address, env_workers=count, envs_per_worker=slots, env_cpus=1.0
    )
    connect(cluster)
    workers = EnvWorkers(cluster, in_flight=count * slots, most=count)
    options = {
        "sandbox": {"name": SANDBOX, "waits": CODE, "works": works},
        "coach": "rubric",
        "prompts": "compact",
    }
    engine = simulated.SimulatedEngine(lambda seed: drawn(GENERATION, seed))
    policies = simulated.policies(engine, ID)
    make = lambda: RemoteEnv(workers, ID, options, moves=3)  # noqa: E731
    try:
        with AsyncRollout(make, policies, in_flight=count * slots, max_episode_s=0.0, retries=0) as worker:
            worker.collect([Job(10**6 + i) for i in range(count * slots)], SAMPLING)  # environments are made
            yield worker
    finally:
        disconnect()


def timed(worker: AsyncRollout, episodes: int) -> tuple[float, float, Collected]:
    """Wall seconds, the share of the processors, and the episodes."""
    psutil.cpu_percent()
    started = time.perf_counter()
    played = worker.collect([Job(i) for i in range(episodes)], SAMPLING)
    return time.perf_counter() - started, psutil.cpu_percent() / 100, played


def lengths_s(played: Collected) -> list[float]:
    """Seconds of each episode, as its actions waited and took."""
    return [sum(timing.waited_s + timing.took_s for timing in each.timings) for each in played.trajectories]


def perfect_s(lengths: Sequence[float], places: int) -> float:
    """Seconds until all episodes are over if each begins, in order, as soon as a place is free."""
    free = [0.0] * places
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def scaling(counts: tuple[int, ...], episodes: int, slots: int, works: bool) -> list[dict[str, Any]]:
    """A row for each number of nodes."""
    rows: list[dict[str, Any]] = []
    lengths: list[float] = []
    for count in counts:
        with ray_cluster.nodes(count, cpus=1) as nodes, rollout(nodes, count, slots, works) as worker:
            seconds, cpu, played = timed(worker, episodes)
        lengths = lengths or lengths_s(played)
        perfect = perfect_s(lengths, count * slots)
        first = rows[0]["seconds"] if rows else seconds
        rows.append(
            {
                "nodes": count,
                "work": works,
                "seconds": seconds,
                "cpu": cpu,
                "efficiency": first / (count * seconds),
                "perfect_s": perfect,
                "perfect_efficiency": perfect_s(lengths, slots) / (count * perfect),
                "episodes_per_s": episodes / seconds,
            }
        )
    return rows


def killed(count: int, episodes: int, slots: int) -> dict[str, Any]:
    """What the death of a node costs, half-way through the episodes."""
    with ray_cluster.nodes(count, cpus=2) as nodes, rollout(nodes, count, slots, False) as worker:
        undisturbed, _, before = timed(worker, episodes)
        killer = threading.Timer(
            undisturbed / 2, lambda: nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)
        )
        killer.start()
        seconds, _, after = timed(worker, episodes)
        killer.join()
    same = [each.success for each in before.rollouts] == [each.success for each in after.rollouts]
    allowed = undisturbed / 2 * (count / (count - 1) - 1) + max(lengths_s(before))
    return {
        "nodes": count,
        "undisturbed_s": undisturbed,
        "killed_s": seconds,
        "allowed_s": undisturbed + allowed,
        "same": same and len(after.rollouts) == episodes,
    }


def missed(rows: Sequence[dict[str, Any]], death: dict[str, Any]) -> list[str]:
    """The targets that these figures miss, in words."""
    slow = [row for row in rows if row["nodes"] == death["nodes"] and row["efficiency"] < TARGET]
    found = [
        f"efficiency {row['efficiency']:.2f}{' with CPU work' if row['work'] else ''}, target {TARGET}"
        for row in slow
        if row["cpu"] < BUSY
    ]
    if death["killed_s"] > death["allowed_s"]:
        found.append(f"a killed node cost {death['killed_s'] - death['allowed_s']:.1f} s more than allowed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="60 episodes on one and two nodes: no figures")
    parser.add_argument("--episodes", type=int, default=1000, metavar="N")
    parser.add_argument("--slots", type=int, default=8, metavar="N", help="of a node (default: 8)")
    parser.add_argument("--json", type=Path, metavar="PATH")
    args = parser.parse_args()
    counts, episodes = ((1, 2), 60) if args.quick else ((1, 2, 4), args.episodes)
    console = Console(width=110)
    rows = [row for works in (False, True) for row in scaling(counts, episodes, args.slots, works)]
    table = Table(title=f"{episodes:,} episodes, {args.slots} environments a node", title_justify="left")
    for column in ("work", "nodes", "seconds", "episodes/s", "efficiency", "perfect", "CPU"):
        table.add_column(column, justify="right")
    for row in rows:
        cells = (
            f"{row['seconds']:.1f}",
            f"{row['episodes_per_s']:.1f}",
            f"{row['efficiency']:.2f}",
            f"{row['perfect_s']:.1f} s, {row['perfect_efficiency']:.2f}",
            f"{row['cpu']:.0%}",
        )
        table.add_row("yes" if row["work"] else "no", str(row["nodes"]), *cells)
    console.print(table)
    death = killed(counts[-1], episodes, args.slots)
    console.print(
        f"a node of {death['nodes']} killed half-way: {death['killed_s']:.1f} s instead of "
        f"{death['undisturbed_s']:.1f} s, at most {death['allowed_s']:.1f} s allowed; "
        f"{'the same' if death['same'] else 'OTHER'} episodes"
    )
    if args.json is not None:
        args.json.write_text(json.dumps({"rows": rows, "killed": death}, indent=1) + "\n")
    failed = [] if args.quick else missed(rows, death)
    if not args.quick:
        console.print(f"targets: {'MISSED: ' + '; '.join(failed) if failed else 'met'}", highlight=False)
    return 0 if death["same"] and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
