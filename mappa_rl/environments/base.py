"""What rollouts need of an environment, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym

from mappa_env.types import ActionRecord, Trajectory

Timer = Callable[[str], AbstractContextManager[None]]
"""``timer(kind)`` is the context manager around work of that kind (``mappa_rl.telemetry.stopwatch``)."""


@dataclass(frozen=True, slots=True)
class TaskSet:
    """What an environment plays: ids in order, task family -> ids, and the name of its scripted team."""

    ids: Sequence[str]
    families: Mapping[str, list[str]]
    script: str | None


@dataclass(frozen=True, slots=True)
class Stepped:
    """What one action has led to: the environment's ``info``, the action's record, whether that was all."""

    info: dict[str, Any]
    record: ActionRecord
    over: bool


class PlayedEnv(Protocol):
    """An environment that plays one episode after another.

    Called from one thread at a time, except for ``trajectory`` and ``release``.
    """

    def attach(self, timer: Timer) -> None:
        """Time the work of this environment from now on."""
        ...

    def task_set(self) -> TaskSet:
        """Its tasks. The first call may take long: it reads every task."""
        ...

    def task_ids(self) -> Sequence[str]:
        """The ids of its tasks, in order."""
        ...

    def reset(self, seed: int, task_id: str | None) -> dict[str, Any]:
        """Start an episode, on a task drawn with the seed if ``task_id`` is None; returns ``info``."""
        ...

    def step(self, action: str) -> Stepped:
        """Carry out the acting agent's action."""
        ...

    @property
    def trajectory(self) -> Trajectory:
        """The running or last episode. While a step is under way, with or without its action."""
        ...

    @property
    def answer(self) -> str | None:
        """The final answer of a finished episode; None if the environment has no discrete answers."""
        ...

    def release(self) -> None:
        """Close the coach, so that no thread keeps waiting for a verdict."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


MakeEnv = Callable[[], gym.Env[Any, str] | PlayedEnv]
"""Makes an environment: a Gymnasium environment of ``mappa_env``, or a ``PlayedEnv``."""
