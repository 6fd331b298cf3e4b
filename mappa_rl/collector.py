"""Many episodes in flight: while one group of episodes generates, the others run code and ask the coach.

Episodes are dealt into fixed groups and each group moves in step, so which requests share a batch, and with
it every sampled token, depends on the seeds alone and not on the timing of sandboxes and coaches.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from mappa_rl.engines.base import Generation
from mappa_rl.environments import Environments, OnEnvironments
from mappa_rl.policies import Policies
from mappa_rl.rollout import Chain, Collected, Job
from mappa_rl.sampling import Sampling
from mappa_rl.stopwatch import WAIT, Stopwatch


@dataclass(slots=True)
class _Slot:
    """A chain and the step that is under way: True when the episode is over."""

    chain: Chain
    stepped: Future[bool]


class Collector(OnEnvironments):
    """Plays jobs on a pool of environments. Not thread-safe: one ``collect`` at a time."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, str]],
        policies: Policies,
        *,
        in_flight: int = 128,
        groups: int = 2,
        workers: int = 8,
        watch: Stopwatch | None = None,
    ) -> None:
        self._policies = policies
        self._watch = watch or Stopwatch()
        self._in_flight, self._groups = in_flight, groups
        self._envs = Environments(make_env, self._watch)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="episode")

    def close(self) -> None:
        self._envs.release()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._envs.close()

    def collect(
        self,
        jobs: Sequence[Job],
        sampling: Sampling,
        *,
        on_done: Callable[[int], None] | None = None,
    ) -> Collected:
        """See ``Player.collect``."""
        started = time.perf_counter()
        result = Collected([], [])
        for first in range(0, len(jobs), self._in_flight):
            wave = jobs[first : first + self._in_flight]
            chains = [Chain(job, self._envs.lend(), self._policies, sampling, self._watch) for job in wave]
            self._play(chains, result)
            for chain in chains:
                rollout, trajectory = chain.finish()
                result.rollouts.append(rollout)
                result.trajectories.append(trajectory)
            for chain in reversed(chains):
                self._envs.give_back(chain.env)
            if on_done is not None:
                on_done(len(result.rollouts))
        result.seconds["total"] = time.perf_counter() - started
        return result

    def _play(self, chains: list[Chain], result: Collected) -> None:
        size = -(-len(chains) // self._groups)
        slots = [_Slot(chain, self._pool.submit(_begin, chain)) for chain in chains]
        queue = deque(slots[i : i + size] for i in range(0, len(slots), size))
        while queue:
            group = queue.popleft()
            waited = time.perf_counter()
            with self._watch.at(WAIT):
                alive = [slot for slot in group if not slot.stepped.result()]
            result.seconds["wait"] += time.perf_counter() - waited
            if not alive:
                continue
            generating = time.perf_counter()
            with self._watch.at("generation"):
                for slot, generation in self._generate(alive):
                    result.tokens += len(generation.ids)
                    slot.stepped = self._pool.submit(slot.chain.step, generation)
            result.seconds["generate"] += time.perf_counter() - generating
            queue.append(alive)

    def _generate(self, slots: list[_Slot]) -> list[tuple[_Slot, Generation]]:
        by_policy: dict[str, list[_Slot]] = {}
        for slot in slots:
            by_policy.setdefault(slot.chain.policy, []).append(slot)
        out: list[tuple[_Slot, Generation]] = []
        for policy, members in sorted(by_policy.items()):
            requests = [slot.chain.request() for slot in members]
            out.extend(zip(members, self._policies[policy].engine.generate(requests), strict=True))
        return out


def _begin(chain: Chain) -> bool:
    chain.reset()
    return False
