"""A SIMULATED cluster for ``scale_model.py``: engines, sandboxes, a coach and a learner that only wait.

The episodes, the rollouts, the batches and the coach's client are the project's own; so is what spreads the
requests over replicas. An engine decodes like vLLM: in passes that give one token to each request under way,
and that take longer the more there are. The coach is a server on loopback, in a process of its own.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fakes

from mappa_rl.config.environment import make_env
from mappa_rl.config.rollout import Rollout as RolloutSection
from mappa_rl.engines.base import Generation, Request
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.batches import AsyncBatches, OnPolicyBatches
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job

ID = "mappa/MathChat-v0"
SAMPLING = Sampling(1.0, 8, 10**5, 1.0, {})
SANDBOX = f"{Path(__file__).with_name('waiting_sandbox.py')}:Waiting"
simulated = fakes.load("simulated")

PASS_S, REQUEST_S = 0.010, 0.0003
"""An engine's pass takes the first, and the second more for each request in it."""
MOST_REQUESTS = 64
"""In a pass of an engine; further ones wait."""
TOKENS, SIGMA = 30, 0.4
"""Mean tokens of an action, lognormal; sigma also of the sandbox's seconds."""
CODE_S, COACH_S = 0.3, 1.0
"""Mean seconds of an action's code, and of a verdict."""
LEARN_S, TOKEN_S = 0.3, 0.0003
"""A step of the learner takes the first, and the second more for each token."""
SYNC_S = 0.1
"""Seconds until one engine has new weights."""


@dataclass(frozen=True)
class Configuration:
    """What a user of the real project would choose.

    ``sandboxes``, ``coach_calls``: how many run at once. ``replicas``: engines of each policy. ``length``:
    factor on the tokens of an action. ``coach_s``: seconds of a verdict.
    """

    name: str
    episodes: int = 32
    staleness: int = 0
    lockstep_groups: int = 0
    workers: int = 64
    sandboxes: int = 512
    coach_calls: int = 512
    coach_s: float = COACH_S
    replicas: int = 1
    policies: int = 1
    length: float = 1.0
    judging: str = "deferred"

    @property
    def engines(self) -> int:
        return self.replicas * self.policies


@dataclass(frozen=True)
class Measured:
    """``steps``: seconds of each; ``learn_s``, ``sync_s``: means of a step. ``cpu_s``: of the process."""

    steps: list[float]
    learn_s: float
    sync_s: float
    cpu_s: float
    played: list[Collected]


class DecodingEngine(simulated.SimulatedEngine):  # type: ignore[misc,name-defined]
    """Gives one token to every request under way in each pass."""

    def __init__(self, length: float) -> None:
        super().__init__()
        self._length = length
        self._running: list[list[Any]] = []  # tokens that are left, tokens in all, future
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._decode, name="engine", daemon=True).start()

    def submit(self, request: Request) -> Future[Generation]:
        """See ``Engine.submit``."""
        mean = TOKENS * self._length
        drawn = simulated.unit("tokens", request.seed).lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA)
        tokens, future = max(2, round(drawn)), Future[Generation]()
        future.set_running_or_notify_cancel()
        with self._changed:
            self._running.append([tokens, tokens, future])
            self._changed.notify()
        return future

    def load_weights(self, source: Any, version: int | None = None) -> None:
        """See ``Engine.load_weights``."""
        time.sleep(SYNC_S)
        super().load_weights(source, version)

    def close(self) -> None:
        """See ``Engine.close``."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _decode(self) -> None:
        due = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._running or self._closed)
                if self._closed:
                    return
                batch = self._running[:MOST_REQUESTS]
            due = max(due, time.monotonic()) + PASS_S + REQUEST_S * len(batch)
            time.sleep(max(due - time.monotonic(), 0.0))
            for each in batch:
                each[0] -= 1
            done = [each for each in batch if not each[0]]
            with self._changed:
                self._running = [each for each in self._running if each[0]]
            for _, tokens, future in done:
                future.set_result(Generation((*[1] * (tokens - 1), 0), (-0.5,) * tokens, "eos", self.version))


def quantiles(mean: float) -> list[float]:
    """Of a lognormal distribution, at equal distances; its ends are those of 1 % and 99 %."""
    normal = statistics.NormalDist(math.log(mean) - SIGMA**2 / 2, SIGMA)
    return [math.exp(normal.inv_cdf(min(max(i / 20, 0.01), 0.99))) for i in range(21)]


@contextmanager
def coach_server(latency_s: float) -> Iterator[str]:
    """The address of a server that answers each call after ``latency_s``."""
    spawned = multiprocessing.get_context("spawn")
    here, there = spawned.Pipe()
    process = spawned.Process(target=_serve, args=(latency_s, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join()


def _serve(latency_s: float, pipe: Connection) -> None:
    with fakes.load().serving("openai", latency_s=latency_s) as server:
        pipe.send(server.url)
        pipe.recv()


def team(chosen: Configuration) -> Policies:
    """The policies with their engines."""
    agents = simulated.TEAMS[ID]
    members = PolicyMap.from_spec("shared" if chosen.policies == 1 else "separate", agents)
    chat: Any = simulated.SimulatedChat()

    def engine() -> Any:
        replicas = [DecodingEngine(chosen.length) for _ in range(chosen.replicas)]
        return replicas[0] if chosen.replicas == 1 else ReplicatedEngine(replicas)

    weights: Any = {}
    return Policies(members, [Policy(name, weights, chat, engine()) for name in members.names])


def measure(chosen: Configuration, steps: int) -> Measured:
    """Train ``steps`` steps, after one that makes the environments. Engines and learner only wait."""
    policies = team(chosen)
    in_flight = chosen.episodes * (1 + chosen.staleness)
    with coach_server(chosen.coach_s) as url:
        options = {
            "sandbox": {"name": SANDBOX, "waits": quantiles(CODE_S), "slots": chosen.sandboxes},
            "coach": {"name": f"openai:fake@{url}", "concurrency": chosen.coach_calls},
            "judging": chosen.judging,
            "prompts": "compact",
        }
        make: Any = lambda: make_env(ID, **options)  # noqa: E731
        worker: LockstepRollout | AsyncRollout
        if chosen.lockstep_groups:
            worker = LockstepRollout(
                make,
                policies,
                in_flight=in_flight,
                lockstep_groups=chosen.lockstep_groups,
                workers=chosen.workers,
            )
        else:
            worker = AsyncRollout(make, policies, in_flight=in_flight, max_episode_s=0.0, retries=0)
        with worker:
            worker.collect([Job(10**6 + i) for i in range(in_flight)], SAMPLING)
            return _trained(chosen, steps, worker, policies)


def _trained(
    chosen: Configuration, steps: int, worker: LockstepRollout | AsyncRollout, policies: Policies
) -> Measured:
    def jobs_of(step: int) -> Sequence[Job]:
        return [Job(step * chosen.episodes + i) for i in range(chosen.episodes)]

    batches: AsyncBatches | OnPolicyBatches
    if isinstance(worker, AsyncRollout):
        section = RolloutSection(episodes_per_step=chosen.episodes, staleness=chosen.staleness)
        batches = AsyncBatches(worker, policies, jobs_of, SAMPLING, rollout=section, steps=steps)
    else:
        batches = OnPolicyBatches(worker, policies, jobs_of, SAMPLING)
    batches.update(0)
    seconds, learned, synced, played, cpu = [], [], [], [], time.process_time()
    for step in range(1, steps + 1):
        began = time.perf_counter()
        played.append(batches.take(step))
        taken = time.perf_counter()
        time.sleep(LEARN_S + TOKEN_S * played[-1].tokens)
        ready = time.perf_counter()
        batches.update(step)
        ended = time.perf_counter()
        seconds.append(ended - began)
        learned.append(ready - taken)
        synced.append(ended - ready)
    for policy in policies.values():
        policy.engine.close()
    return Measured(
        seconds, statistics.mean(learned), statistics.mean(synced), time.process_time() - cpu, played
    )
