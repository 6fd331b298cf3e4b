"""Jobs, finished episodes, and the chain that one episode is: request, answer, step, next request."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import gymnasium as gym

from mappa_env.types import Message, Trajectory
from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import ContextError, EngineError
from mappa_rl.policies import Policies
from mappa_rl.sampling import Sampling
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.types import Rollout, Turn


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play: ``task_id`` None draws a task with ``seed``."""

    seed: int
    task_id: str | None = None


@dataclass(slots=True)
class Collected:
    """Finished episodes in the order of their jobs, and what they cost.

    ``stats`` are further metrics, by name. ``reasons``: why episodes are masked, one for each (empty: it is
    not), or none at all where none is.
    """

    rollouts: list[Rollout]
    trajectories: list[Trajectory]
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"generate": 0.0, "wait": 0.0, "total": 0.0})
    stats: dict[str, float] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class Player(Protocol):
    """Plays jobs on environments of one task set: ``Collector`` in groups, ``Stream`` each on its own."""

    @property
    def task_ids(self) -> Sequence[str]:
        """The ids of the environment's task set, in its order."""
        ...

    @property
    def families(self) -> dict[str, list[str]]:
        """The ids of the environment's task set by task family; every task is built once for it."""
        ...

    @property
    def script(self) -> str | None:
        """Name of the scripted team of the environment's card."""
        ...

    def collect(
        self, jobs: Sequence[Job], sampling: Sampling, *, on_done: Callable[[int], None] | None = None
    ) -> Collected:
        """Play every job to its end. An exception of an environment (a defect, not an agent) propagates."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Chain:
    """One job on one environment. ``reset``; then ``request`` and ``step`` in turn until it is over.

    Used from one thread at a time, except for ``cut``.
    """

    def __init__(
        self, job: Job, env: gym.Env[Any, str], policies: Policies, sampling: Sampling, watch: Stopwatch
    ) -> None:
        self.env = env
        self._job, self._policies, self._sampling, self._watch = job, policies, sampling, watch
        self._face: Any = env.unwrapped
        self._turns: list[Turn] = []
        self._info: dict[str, Any] = {}
        self._messages: list[Message] = []
        self._context: list[int] = []

    @property
    def policy(self) -> str:
        """Name of the policy whose turn it is."""
        return self._policies.of(self._info["agent"])

    @property
    def begun(self) -> bool:
        """Whether there is a task, and a first prompt."""
        return bool(self._info)

    def reset(self) -> None:
        options = {} if self._job.task_id is None else {"task_id": self._job.task_id}
        with self._watch.working("rest"):
            _, self._info = self.env.reset(seed=self._job.seed, options=options)

    def request(self) -> Request:
        """What the policy is to continue. Raises ``ContextError`` where the prompt leaves no room."""
        self._read()
        policy, sampling = self._policies[self.policy], self._sampling.of(self._info["agent"])
        room = min(sampling.max_context, policy.engine.max_len) - len(self._context)
        if room < 1:
            raise ContextError(
                f"the prompt of {self._info['agent']} on task {self._info['task_id']!r} has "
                f"{len(self._context)} tokens: no room in max_context={sampling.max_context}. Raise "
                "rollout.max_context (and model.max_len), or use shorter prompts."
            )
        return Request(
            ids=self._context,
            seed=_seed(self._job.seed, len(self._turns)),
            max_tokens=min(sampling.max_new_tokens, room),
            temperature=sampling.temperature,
            stop_ids=policy.chat.stop_ids,
            top_p=sampling.top_p,
        )

    def step(self, generation: Generation) -> bool:
        """Hand the action to the environment and note the turn. True when the episode is over."""
        agent, policy = self._info["agent"], self.policy
        if generation.stopped == "abort":
            raise EngineError(f"The engine was told to stop while {agent} was speaking.")
        text = self._policies[policy].chat.decode(generation.ids)
        with self._watch.working("rest"):
            _, _, terminated, truncated, info = self.env.step(text)
        record = self._face.trajectory.actions[-1]
        self._turns.append(
            Turn(
                agent=agent,
                policy=policy,
                step=record.step,
                turn=record.turn,
                context_ids=self._context,
                action_ids=list(generation.ids),
                logprobs=list(generation.logprobs),
                stopped=generation.stopped,
                reward=0.0,
                valid=False,
                stratum=record.stratum,
                version=generation.version,
            )
        )
        self._info = info
        return terminated or truncated

    def finish(self) -> tuple[Rollout, Trajectory]:
        """Give every turn the reward that the shaping credits it with, now that the episode is over."""
        trajectory: Trajectory = self._face.trajectory
        outcome = trajectory.outcome
        assert outcome is not None
        turns = [
            dataclasses.replace(turn, reward=reward, valid=valid)
            for turn, (reward, valid) in zip(self._turns, self._face.episode.credit, strict=True)
        ]
        return Rollout(
            turns=tuple(turns), task_id=trajectory.task.id, topic=trajectory.task.topic, seed=self._job.seed,
            success=outcome.success, score=outcome.score, metrics=dict(outcome.metrics),
            answer=self._face.episode.answer,
        ), trajectory  # fmt: skip

    def cut(self, ended: Literal["overdue", "failed"]) -> tuple[Rollout, Trajectory]:
        """What there is of an episode that does not go on, without rewards. From any thread."""
        turns = tuple(self._turns)
        trajectory: Trajectory = self._face.trajectory
        trajectory = dataclasses.replace(trajectory, actions=trajectory.actions[: len(turns)], outcome=None)
        return Rollout(
            turns=turns, task_id=trajectory.task.id, topic=trajectory.task.topic, seed=self._job.seed,
            success=False, score=0.0, ended=ended,
        ), trajectory  # fmt: skip

    def _read(self) -> None:
        """Bring the context up to the messages, appending only what is new within a stay."""
        chat = self._policies[self.policy].chat
        messages = self._info["messages"]
        last = self._turns[-1] if self._turns else None
        context = None
        if last is not None and last.agent == self._info["agent"]:
            context = chat.extend(last.context_ids, last.action_ids, self._messages, messages)
        self._context = chat.open(messages) if context is None else context
        self._messages = messages


def _seed(episode: int, action: int) -> int:
    """63 bits from (episode seed, index of the action)."""
    digest = hashlib.blake2b(f"{episode}/{action}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
