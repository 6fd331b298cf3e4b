"""An environment in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import gymnasium as gym

from mappa_env import team_env
from mappa_env.types import Trajectory
from mappa_rl.environments.base import PlayedEnv, Stepped, TaskSet, Timer


def played(env: gym.Env[Any, str] | PlayedEnv) -> PlayedEnv:
    """``env`` itself, or around a Gymnasium environment."""
    return LocalEnv(env) if isinstance(env, gym.Env) else env


class LocalEnv:
    """A Gymnasium environment of ``mappa_env``, with or without wrappers. See ``PlayedEnv``."""

    def __init__(self, env: gym.Env[Any, str]) -> None:
        self.env = env
        self._team = team_env(env)

    def attach(self, timer: Timer) -> None:
        """See ``PlayedEnv.attach``."""
        self._team.timer = timer

    def task_set(self) -> TaskSet:
        """See ``PlayedEnv.task_set``."""
        return self._task_set

    @cached_property
    def _task_set(self) -> TaskSet:
        return TaskSet(self._team.task_ids, self._team.families, self._team.scripted_team)

    def task_ids(self) -> Sequence[str]:
        """See ``PlayedEnv.task_ids``."""
        return self._team.task_ids

    def reset(self, seed: int, task_id: str | None) -> dict[str, Any]:
        """See ``PlayedEnv.reset``."""
        _, info = self.env.reset(seed=seed, options={} if task_id is None else {"task_id": task_id})
        return info

    def step(self, action: str) -> Stepped:
        """See ``PlayedEnv.step``."""
        _, _, terminated, truncated, info = self.env.step(action)
        return Stepped(info, self._team.episode.actions[-1], terminated or truncated)

    @property
    def trajectory(self) -> Trajectory:
        """See ``PlayedEnv.trajectory``."""
        return self._team.trajectory

    @property
    def answer(self) -> str | None:
        """See ``PlayedEnv.answer``."""
        return self._team.answer

    def release(self) -> None:
        """See ``PlayedEnv.release``."""
        self._team.coach.close()

    def close(self) -> None:
        """See ``PlayedEnv.close``."""
        self.env.close()
