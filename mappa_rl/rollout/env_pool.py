"""The environments of one task set: made when needed, lent to one episode at a time, used again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import gymnasium as gym

from mappa_rl.stopwatch import Stopwatch
from mappa_rl.stratify import families


class Environments:
    """Methods may be called from any thread."""

    def __init__(self, make: Callable[[], gym.Env[Any, str]], watch: Stopwatch) -> None:
        self._make, self._watch = make, watch
        self._all: list[gym.Env[Any, str]] = []
        self._free: list[gym.Env[Any, str]] = []
        self._lock, self._making = threading.Lock(), threading.Lock()

    @property
    def task_ids(self) -> Sequence[str]:
        """See ``Player.task_ids``."""
        ids: Sequence[str] = self._any().unwrapped.episode.tasks.ids  # type: ignore[attr-defined]
        return ids

    @property
    def script(self) -> str | None:
        """See ``Player.script``."""
        name: str | None = self._any().unwrapped.episode.card.scripted  # type: ignore[attr-defined]
        return name

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """See ``Player.families``."""
        return families(self._any().unwrapped.episode.tasks)  # type: ignore[attr-defined]

    def lend(self) -> gym.Env[Any, str]:
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
        with self._lock:
            self._free.append(env)

    def discard(self, env: gym.Env[Any, str]) -> None:
        """Close one that an episode has left in an unknown state."""
        with self._lock:
            self._all.remove(env)
        env.close()

    def release(self) -> None:
        """Let the coaches go, so that nobody goes on waiting for a verdict."""
        with self._lock:
            envs = list(self._all)
        for env in envs:
            env.unwrapped.episode.coach.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        """None may be in use any more."""
        with self._lock:
            envs, self._all, self._free = self._all, [], []
        for env in envs:
            env.close()

    def _any(self) -> gym.Env[Any, str]:
        with self._lock:
            if self._all:
                return self._all[0]
        self.give_back(self.lend())
        return self._any()


class OnEnvironments:
    """Base of players: what they know of their environments, and that they are closed in the end."""

    _envs: Environments

    @property
    def task_ids(self) -> Sequence[str]:
        return self._envs.task_ids

    @property
    def families(self) -> dict[str, list[str]]:
        return self._envs.families

    @property
    def script(self) -> str | None:
        return self._envs.script

    def close(self) -> None:
        self._envs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
