"""The actor that plays environments on a node of the cluster; an episode's files never leave it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.types import Trajectory
from mappa_rl.cluster.actors import here
from mappa_rl.config.environment import make_env
from mappa_rl.environments.base import Stepped, TaskSet
from mappa_rl.environments.local import LocalEnv
from mappa_rl.errors import ActorLost


class EnvWorker:
    """Environments by name. Each plays one episode at a time; different ones play side by side."""

    def __init__(self) -> None:
        self._envs: dict[str, LocalEnv] = {}
        self._making = threading.Lock()
        self._busy = set[str]()

    def where(self) -> dict[str, Any]:
        """See ``here``; of its ``environments`` those that are not ``in the sandbox`` wait for an action."""
        busy, count = len(self._busy), len(self._envs)
        return {**here(), "environments": count, "in the sandbox": busy, "waiting": count - busy}

    def open(self, name: str, env_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Make an environment, unless there is one of this name; returns ``here``."""
        with self._making:  # one at a time: what they share is loaded once
            if name not in self._envs:
                self._envs[name] = LocalEnv(make_env(env_id, **options))
        return here()

    def task_set(self, name: str) -> TaskSet:
        """See ``PlayedEnv.task_set``."""
        return self._env(name).task_set()

    def task_ids(self, name: str) -> Sequence[str]:
        """See ``PlayedEnv.task_ids``."""
        return list(self._env(name).task_ids())

    def reset(self, name: str, seed: int, task_id: str | None) -> tuple[dict[str, Any], Trajectory]:
        """Start an episode: its ``info``, and its record without actions."""
        env = self._env(name)
        return env.reset(seed, task_id), env.trajectory

    def step(self, name: str, action: str) -> tuple[Stepped, Trajectory | None, str | None]:
        """What the action has led to; after the last one also the whole record and the answer."""
        env = self._env(name)
        self._busy.add(name)
        try:
            stepped = env.step(action)
        finally:
            self._busy.discard(name)
        return (stepped, env.trajectory, env.answer) if stepped.over else (stepped, None, None)

    def release(self, name: str) -> None:
        """See ``PlayedEnv.release``."""
        if name in self._envs:
            self._envs[name].release()

    def close(self, name: str) -> None:
        """Close an environment and forget it."""
        env = self._envs.pop(name, None)
        if env is not None:
            env.close()

    def _env(self, name: str) -> LocalEnv:
        if name not in self._envs:  # this process replaces one that died
            raise ActorLost(f"the environment {name} was lost with its process.")
        return self._envs[name]
