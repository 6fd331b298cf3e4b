"""Many episodes in flight: while one group of episodes generates, the others run code and ask the coach.

Episodes are dealt into fixed groups and each group moves in step, so which requests share a batch, and with
it every sampled token, depends on the seeds alone and not on the timing of sandboxes and coaches.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium as gym

from mappa_env.types import Message, Trajectory
from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import ContextError, EngineError
from mappa_rl.policies import Policies
from mappa_rl.stopwatch import WAIT, Stopwatch
from mappa_rl.stratify import families
from mappa_rl.types import Rollout, Turn


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play: ``task_id`` None draws a task with ``seed``."""

    seed: int
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """``temperature`` 0 is greedy; ``max_new_tokens`` bounds an action, ``max_context`` both together."""

    temperature: float = 1.0
    max_new_tokens: int = 64
    max_context: int = 512


@dataclass(slots=True)
class Collected:
    """Finished episodes in the order of their jobs, and what they cost."""

    rollouts: list[Rollout]
    trajectories: list[Trajectory]
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"generate": 0.0, "wait": 0.0, "total": 0.0})


@dataclass(slots=True)
class _Slot:
    """One environment while it plays one job."""

    index: int
    job: Job
    env: gym.Env[Any, str]
    turns: list[Turn] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    future: Future[bool] | None = None


class Collector:
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
        self._make_env, self._policies = make_env, policies
        self._watch = watch or Stopwatch()
        self._in_flight, self._groups = in_flight, groups
        self._envs: list[gym.Env[Any, str]] = []
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="episode")

    @property
    def task_ids(self) -> Sequence[str]:
        """The ids of the environment's task set, in its order."""
        ids: Sequence[str] = self._env(0).unwrapped.episode.tasks.ids  # type: ignore[attr-defined]
        return ids

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """The ids of the environment's task set by task family; every task is built once for it."""
        return families(self._env(0).unwrapped.episode.tasks)  # type: ignore[attr-defined]

    @property
    def script(self) -> str | None:
        """Name of the scripted team of the environment's card."""
        name: str | None = self._env(0).unwrapped.episode.card.scripted  # type: ignore[attr-defined]
        return name

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for env in self._envs:  # first, so that nobody goes on waiting for a verdict
            env.unwrapped.episode.coach.close()  # type: ignore[attr-defined]
        self._pool.shutdown(wait=True, cancel_futures=True)
        for env in self._envs:
            env.close()
        self._envs.clear()

    def collect(
        self,
        jobs: Sequence[Job],
        sampling: Sampling,
        *,
        on_done: Callable[[int], None] | None = None,
    ) -> Collected:
        """Play every job to its end. An exception of an environment (a defect, not an agent) propagates."""
        started = time.perf_counter()
        result = Collected([], [])
        for first in range(0, len(jobs), self._in_flight):
            wave = jobs[first : first + self._in_flight]
            slots = [_Slot(i, job, self._env(i)) for i, job in enumerate(wave)]
            self._play(slots, sampling, result)
            for slot in slots:
                rollout, trajectory = _finish(slot)
                result.rollouts.append(rollout)
                result.trajectories.append(trajectory)
            if on_done is not None:
                on_done(len(result.rollouts))
        result.seconds["total"] = time.perf_counter() - started
        return result

    def _env(self, index: int) -> gym.Env[Any, str]:
        while len(self._envs) <= index:
            self._envs.append(self._make_env())
            self._watch.attach(self._envs[-1])
        return self._envs[index]

    def _play(self, slots: list[_Slot], sampling: Sampling, result: Collected) -> None:
        size = -(-len(slots) // self._groups)
        queue = deque(slots[i : i + size] for i in range(0, len(slots), size))
        for slot in slots:
            slot.future = self._pool.submit(self._reset, slot)
        while queue:
            group = queue.popleft()
            waited = time.perf_counter()
            with self._watch.at(WAIT):
                alive = [slot for slot in group if not slot.future.result()]  # type: ignore[union-attr]
            result.seconds["wait"] += time.perf_counter() - waited
            if not alive:
                continue
            generating = time.perf_counter()
            with self._watch.at("generation"):
                for slot, generation in self._generate(alive, sampling):
                    result.tokens += len(generation.ids)
                    slot.future = self._pool.submit(self._step, slot, generation)
            result.seconds["generate"] += time.perf_counter() - generating
            queue.append(alive)

    def _generate(self, slots: list[_Slot], sampling: Sampling) -> list[tuple[_Slot, Generation]]:
        by_policy: dict[str, list[_Slot]] = {}
        for slot in slots:
            self._read(slot)
            by_policy.setdefault(self._policies.of(slot.info["agent"]), []).append(slot)
        out: list[tuple[_Slot, Generation]] = []
        for policy, members in sorted(by_policy.items()):
            requests = [self._request(slot, sampling) for slot in members]
            out.extend(zip(members, self._policies[policy].engine.generate(requests), strict=True))
        return out

    def _read(self, slot: _Slot) -> None:
        """Bring the slot's context up to its messages, appending only what is new within a stay."""
        chat = self._policies[self._policies.of(slot.info["agent"])].chat
        messages = slot.info["messages"]
        last = slot.turns[-1] if slot.turns else None
        context = None
        if last is not None and last.agent == slot.info["agent"]:
            context = chat.extend(last.context_ids, last.action_ids, slot.messages, messages)
        slot.context = chat.open(messages) if context is None else context
        slot.messages = messages

    def _request(self, slot: _Slot, sampling: Sampling) -> Request:
        policy = self._policies[self._policies.of(slot.info["agent"])]
        room = min(sampling.max_context, policy.engine.max_len) - len(slot.context)
        if room < 1:
            raise ContextError(
                f"the prompt of {slot.info['agent']} on task {slot.info['task_id']!r} has "
                f"{len(slot.context)} tokens: no room in max_context={sampling.max_context}. Raise "
                "rollout.max_context (and model.max_len), or use shorter prompts."
            )
        return Request(
            ids=slot.context,
            seed=_seed(slot.job.seed, len(slot.turns)),
            max_tokens=min(sampling.max_new_tokens, room),
            temperature=sampling.temperature,
            stop_ids=policy.chat.stop_ids,
        )

    def _step(self, slot: _Slot, generation: Generation) -> bool:
        """On a worker thread: hand the action to the environment and note the turn. True when over."""
        if generation.stopped == "abort":
            raise EngineError(f"The engine was told to stop while {slot.info['agent']} was speaking.")
        agent = slot.info["agent"]
        policy = self._policies.of(agent)
        text = self._policies[policy].chat.decode(generation.ids)
        with self._watch.working("rest"):
            _, _, terminated, truncated, info = slot.env.step(text)
        record = slot.env.unwrapped.trajectory.actions[-1]  # type: ignore[attr-defined]
        slot.turns.append(
            Turn(
                agent=agent,
                policy=policy,
                step=record.step,
                turn=record.turn,
                context_ids=slot.context,
                action_ids=list(generation.ids),
                logprobs=list(generation.logprobs),
                stopped=generation.stopped,
                reward=0.0,
                valid=False,
                stratum=record.stratum,
            )
        )
        slot.info = info
        return terminated or truncated

    def _reset(self, slot: _Slot) -> bool:
        options = {} if slot.job.task_id is None else {"task_id": slot.job.task_id}
        with self._watch.working("rest"):
            _, slot.info = slot.env.reset(seed=slot.job.seed, options=options)
        return False


def _finish(slot: _Slot) -> tuple[Rollout, Trajectory]:
    """Give every turn the reward that the shaping credits it with, now that the episode is over."""
    face: Any = slot.env.unwrapped
    trajectory: Trajectory = face.trajectory
    outcome = trajectory.outcome
    assert outcome is not None
    turns = [
        dataclasses.replace(turn, reward=reward, valid=valid)
        for turn, (reward, valid) in zip(slot.turns, face.episode.credit, strict=True)
    ]
    return Rollout(
        turns=tuple(turns), task_id=trajectory.task.id, topic=trajectory.task.topic, seed=slot.job.seed,
        success=outcome.success, score=outcome.score, metrics=dict(outcome.metrics),
    ), trajectory  # fmt: skip


def _seed(episode: int, action: int) -> int:
    """63 bits from (episode seed, index of the action)."""
    digest = hashlib.blake2b(f"{episode}/{action}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
