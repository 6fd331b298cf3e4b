"""A threaded VectorEnv. Steps mostly wait for subprocesses and coaches, so threads speed them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from mappa_env.envs.gym_env import SelfPlayEnv, make_env
from mappa_env.errors import OptionError

Stepped = tuple[dict[str, Any], float, bool, dict[str, Any], dict[str, Any]]
"""Observation, reward, terminated, info, and SAME_STEP's info on the finished episode."""


class ThreadedVectorEnv(VectorEnv[dict[str, Any], Sequence[str], np.ndarray]):
    """``gym.make_vec(id, num_envs=n)``. Equivalent to ``n`` environments with the seeds ``seed + i``.

    Actions are a sequence of ``n`` texts; ``observations["prompt"]`` is a tuple of ``n`` texts.

    With ``AutoresetMode.SAME_STEP``, ``infos`` of a step that ends an episode describes the reset, and
    ``infos["final_info"]`` the closing step. Mask that step's reward by
    ``infos["final_info"]["reward_valid"]``, not by ``infos["reward_valid"]``, which is False there.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        """``threads``: environments that step at once (default: all). ``options``: see ``gym.make``."""
        if num_envs < 1 or (threads is not None and threads < 1):
            raise OptionError(f"num_envs={num_envs!r} and threads={threads!r} must be at least 1.")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.num_envs = num_envs
        self.envs: list[SelfPlayEnv] = [make_env(**options) for _ in range(num_envs)]
        first = self.envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self._pool = ThreadPoolExecutor(threads or num_envs, thread_name_prefix="mappa-env")
        self._observed: list[Any] = [None] * num_envs
        self._over = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """``options={"reset_mask": bool array}`` resets only some; every environment gets other options."""
        seeds = self._seeds(seed)
        options = dict(options or {})
        mask = self._mask(options.pop("reset_mask", None))

        def reset_one(i: int) -> tuple[Any, dict[str, Any]] | None:
            return self.envs[i].reset(seed=seeds[i], options=options) if mask[i] else None

        infos: dict[str, Any] = {}
        for i, result in enumerate(self._each(reset_one)):
            if result is not None:
                self._observed[i], info = result
                self._over[i] = False
                infos = self._add_info(infos, info, i)
        return self._observations(), infos

    def step(
        self, actions: Sequence[str]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments at once with one text each."""
        if len(actions) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} actions, found {len(actions)}.")
        if self.autoreset_mode == AutoresetMode.DISABLED and self._over.any():
            raise ValueError(
                f"environments {np.flatnonzero(self._over).tolist()} are over and autoreset is disabled: "
                "call reset(options={'reset_mask': terminations}) first."
            )
        infos: dict[str, Any] = {}
        rewards = np.zeros(self.num_envs)
        for i, stepped in enumerate(self._each(lambda i: self._step_one(i, actions[i]))):
            self._observed[i], rewards[i], self._over[i], info, ended = stepped
            infos = self._add_info(infos, {**ended, **info}, i)
        return self._observations(), rewards, self._over.copy(), np.zeros_like(self._over), infos

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute."""
        found = [getattr(env, name) for env in self.envs]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute ``name`` of every environment."""
        return tuple(getattr(env, name) for env in self.envs)

    def render(self) -> tuple[str | None, ...]:  # type: ignore[override]
        """``render()`` of every environment."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads and close every environment."""
        self._pool.shutdown()
        for env in self.envs:
            env.close()

    def _step_one(self, i: int, action: str) -> Stepped:
        env = self.envs[i]
        if self._over[i] and self.autoreset_mode == AutoresetMode.NEXT_STEP:
            observation, info = env.reset()
            return observation, 0.0, False, info, {}
        observation, reward, over, _, info = env.step(action)
        if not over or self.autoreset_mode != AutoresetMode.SAME_STEP:
            return observation, reward, over, info, {}
        ended = {"final_obs": observation, "final_info": info}
        observation, info = env.reset()
        return observation, reward, True, info, ended

    def _each(self, function: Callable[[int], Any]) -> list[Any]:
        """Call ``function(i)`` for all environments concurrently; raise an error after all have finished."""
        futures = [self._pool.submit(function, i) for i in range(self.num_envs)]
        wait(futures)
        return [future.result() for future in futures]

    def _observations(self) -> dict[str, Any]:
        space = self.single_observation_space
        empty: Any = create_empty_array(space, n=self.num_envs)
        batch: Any = concatenate(space, self._observed, empty)
        return dict(batch)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None or isinstance(seed, (int, np.integer)):
            return [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, found {len(seed)}.")
        return seed

    def _mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        found: np.ndarray = np.asarray(mask)
        if found.shape != (self.num_envs,) or found.dtype != np.bool_ or not found.any():
            raise ValueError(
                f"reset_mask must be {self.num_envs} bools with at least one True, found {found!r}."
            )
        return found
