"""The environments of one task set: made when needed, lent to one episode at a time, used again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Self

from mappa_rl.environments.base import MakeEnv, PlayedEnv, TaskSet
from mappa_rl.environments.local import played
from mappa_rl.telemetry.stopwatch import Stopwatch


class EnvPool:
    """Environments to lend. Thread-safe."""

    def __init__(self, make: MakeEnv, watch: Stopwatch) -> None:
        """``make`` returns a new environment; ``watch`` times its sandbox and coach."""
        self._make, self._watch = make, watch
        self._all: list[PlayedEnv] = []
        self._free: list[PlayedEnv] = []
        self._lock, self._making = threading.Lock(), threading.Lock()

    @property
    def any(self) -> PlayedEnv:
        """One of the environments, to ask about the task set; made if there is none yet."""
        with self._lock:
            if self._all:
                return self._all[0]
        self.give_back(self.lend())
        return self.any

    def lend(self) -> PlayedEnv:
        """An environment for one episode: a free one, else a new one."""
        with self._lock:
            if self._free:
                return self._free.pop()
        with self._making:  # one at a time: what they share is loaded once
            env = played(self._make())
        env.attach(self._watch.working)
        with self._lock:
            self._all.append(env)
        return env

    def give_back(self, env: PlayedEnv) -> None:
        """Return an environment whose episode is over."""
        with self._lock:
            self._free.append(env)

    def discard(self, env: PlayedEnv) -> None:
        """Close an environment that an episode has left in an unknown state."""
        with self._lock:
            self._all.remove(env)
        env.close()

    def release(self) -> None:
        """Close the coaches, so that no thread keeps waiting for a verdict."""
        with self._lock:
            envs = list(self._all)
        for env in envs:
            env.release()

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
        return self._envs.any.task_ids()

    @property
    def families(self) -> dict[str, list[str]]:
        """See ``RolloutWorker.families``."""
        return dict(self._task_set.families)

    @property
    def script(self) -> str | None:
        """See ``RolloutWorker.script``."""
        return self._task_set.script

    @cached_property
    def _task_set(self) -> TaskSet:
        return self._envs.any.task_set()

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
