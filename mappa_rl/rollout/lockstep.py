"""Many episodes in flight: while one lockstep group generates, the others run code and ask the coach.

Episodes are dealt into fixed groups and each group moves in lockstep. Which requests share a batch, and with
it every sampled token, therefore depends on the seeds alone, not on the timing of sandboxes and coaches.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from mappa_rl.engines.base import Generation
from mappa_rl.environments.base import MakeEnv
from mappa_rl.rollout.env_pool import EnvPool, PooledWorker
from mappa_rl.rollout.episode_runner import EpisodeRunner
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job, Seconds
from mappa_rl.telemetry.stopwatch import WAIT, Stopwatch


@dataclass(slots=True)
class _Slot:
    """An episode and its step under way, whose result is True when the episode is over."""

    runner: EpisodeRunner
    stepped: Future[bool]


@dataclass(slots=True)
class _Spent:
    """What a collection has used so far."""

    tokens: int = 0
    generate_s: float = 0.0
    wait_s: float = 0.0


class LockstepRollout(PooledWorker):
    """Runs jobs on a pool of environments. Not thread-safe: one ``collect`` at a time."""

    def __init__(
        self,
        make_env: MakeEnv,
        policies: Policies,
        *,
        in_flight: int,
        lockstep_groups: int,
        workers: int,
        watch: Stopwatch | None = None,
    ) -> None:
        """``in_flight`` episodes at once, in ``lockstep_groups``; ``workers`` threads step environments."""
        self._policies = policies
        self._watch = watch or Stopwatch()
        self._in_flight, self._group_count = in_flight, lockstep_groups
        self._envs = EnvPool(make_env, self._watch)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="episode")

    def close(self) -> None:
        """Close the environments. Steps under way are completed first."""
        self._envs.release()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._envs.close()

    def collect(
        self, jobs: Sequence[Job], sampling: Sampling, *, on_done: Callable[[int], None] | None = None
    ) -> Collected:
        """See ``RolloutWorker.collect``."""
        started, spent = time.perf_counter(), _Spent()
        rollouts, trajectories = [], []
        for first in range(0, len(jobs), self._in_flight):
            wave = jobs[first : first + self._in_flight]
            runners = [
                EpisodeRunner(job, self._envs.lend(), self._policies, sampling, self._watch) for job in wave
            ]
            self._run(runners, spent)
            for runner in runners:
                rollout, trajectory = runner.finish()
                rollouts.append(rollout)
                trajectories.append(trajectory)
            for runner in reversed(runners):
                self._envs.give_back(runner.env)
            if on_done is not None:
                on_done(len(rollouts))
        seconds = Seconds(spent.generate_s, spent.wait_s, time.perf_counter() - started)
        return Collected(rollouts, trajectories, spent.tokens, seconds)

    def _run(self, runners: list[EpisodeRunner], spent: _Spent) -> None:
        """Run the episodes to their ends, and add up what they use."""
        size = -(-len(runners) // self._group_count)
        slots = [_Slot(runner, self._pool.submit(_reset, runner)) for runner in runners]
        queue = deque(slots[i : i + size] for i in range(0, len(slots), size))
        while queue:
            group = queue.popleft()
            waited = time.perf_counter()
            with self._watch.at(WAIT):
                alive = [slot for slot in group if not slot.stepped.result()]
            spent.wait_s += time.perf_counter() - waited
            if not alive:
                continue
            generating = time.perf_counter()
            with self._watch.at("generation"):
                for slot, generation in self._generate(alive):
                    if generation is None:
                        slot.stepped = self._pool.submit(slot.runner.pass_turn)
                        continue
                    spent.tokens += len(generation.ids)
                    slot.stepped = self._pool.submit(slot.runner.step, generation)
            spent.generate_s += time.perf_counter() - generating
            queue.append(alive)

    def _generate(self, slots: list[_Slot]) -> list[tuple[_Slot, Generation | None]]:
        """One generation for every slot, batched by policy; None where a prompt leaves no room for it."""
        by_policy: dict[str, list[_Slot]] = {}
        for slot in slots:
            by_policy.setdefault(slot.runner.policy, []).append(slot)
        generated: list[tuple[_Slot, Generation | None]] = []
        for policy, members in sorted(by_policy.items()):
            requests = [slot.runner.request() for slot in members]
            asked = [request for request in requests if request is not None]
            made = iter(self._policies[policy].engine.generate(asked) if asked else ())
            generated += [
                (slot, None if request is None else next(made))
                for slot, request in zip(members, requests, strict=True)
            ]
        return generated


def _reset(runner: EpisodeRunner) -> bool:
    """Start an episode; it is not over."""
    runner.reset()
    return False
