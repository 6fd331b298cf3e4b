"""The environments of one task set: made when needed, lent to one episode at a time, used again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import gymnasium as gym

from mappa_env import team_env
from mappa_rl.telemetry.stopwatch import Stopwatch


class EnvPool:
    """Environments to lend. Thread-safe."""

    def __init__(self, make: Callable[[], gym.Env[Any, str]], watch: Stopwatch) -> None:
        """``make`` returns a new environment; ``watch`` times its sandbox and coach."""
        self._make, self._watch = make, watch
        self._all: list[gym.Env[Any, str]] = []
        self._free: list[gym.Env[Any, str]] = []
        self._lock, self._making = threading.Lock(), threading.Lock()

    @property
    def any(self) -> gym.Env[Any, str]:
        """One of the environments, to ask about the task set; made if there is none yet."""
        with self._lock:
            if self._all:
                return self._all[0]
        self.give_back(self.lend())
        return self.any

    def lend(self) -> gym.Env[Any, str]:
        """An environment for one episode: a free one, else a new one."""
        with self._lock:
            if self._free:
                return self._free.pop()
        with self._making:  # one at a time: what they share is loaded once
            env = self._make()
        self._watch.attach(env)
        with self._lock:
            self._all.append(env)
        return env

    def give_back(self, env: gym.Env[Any, str]) -> None:
        """Return an environment whose episode is over."""
        with self._lock:
            self._free.append(env)

    def discard(self, env: gym.Env[Any, str]) -> None:
        """Close an environment that an episode has left in an unknown state."""
        with self._lock:
            self._all.remove(env)
        env.close()

    def release(self) -> None:
        """Close the coaches, so that no thread keeps waiting for a verdict."""
        with self._lock:
            envs = list(self._all)
        for env in envs:
            team_env(env).coach.close()

    def close(self) -> None:
        """Close all environments. None may be in use any more."""
        with self._lock:
            envs, self._all, self._free = self._all, [], []
        for env in envs:
            env.close()


class PooledWorker:
    """Base of rollout workers: what they know about their environments, and that they are closed."""

    _envs: EnvPool

    @property
    def task_ids(self) -> Sequence[str]:
        """See ``RolloutWorker.task_ids``."""
        return team_env(self._envs.any).task_ids

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """See ``RolloutWorker.families``."""
        return team_env(self._envs.any).families

    @property
    def script(self) -> str | None:
        """See ``RolloutWorker.script``."""
        return team_env(self._envs.any).scripted_team

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
