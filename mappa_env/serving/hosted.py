"""The open episodes of a server: made, called one call at a time, closed when nobody calls them."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mappa_env.envs.gym_env import SelfPlayEnv
from mappa_env.errors import EpisodeError, OptionError, UnknownTaskError
from mappa_env.serving.limits import Limits
from mappa_env.serving.refusal import Refusal


@dataclass(slots=True)
class _Open:
    """``busy`` is held by the call under way, and by whoever closes the episode, for good."""

    env: SelfPlayEnv
    used: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Hosted:
    """Episodes by id. Thread-safe. An id is a secret of 128 bits: who does not know it cannot call it."""

    def __init__(self, make: Callable[[], SelfPlayEnv], limits: Limits) -> None:
        """``make`` returns a new environment."""
        self._make, self._limits = make, limits
        self._open: dict[str, _Open] = {}
        self._making = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def create(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        """A new episode: its ``id``, ``observation`` and ``info``. Raises Refusal."""
        most = self._limits.episodes
        with self._lock:
            if len(self._open) + self._making >= most:
                raise Refusal(
                    429,
                    f"{most} episodes are open, and no more are allowed: close one with DELETE "
                    f"/episodes/<id>, or wait until one is idle for {self._limits.idle_s:g} s.",
                )
            self._making += 1
        try:
            env = self._make()
            try:
                begun = _reset(env, seed, options)
            except BaseException:
                env.close()
                raise
            name = secrets.token_hex(16)
            with self._lock:
                self._open[name] = _Open(env, time.monotonic())
        finally:
            with self._lock:
                self._making -= 1
        return {"id": name, **begun}

    def reset(self, name: str, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        """Start the episode over: ``observation`` and ``info``. Raises Refusal."""
        return self._call(name, lambda env: _reset(env, seed, options))

    def step(self, name: str, action: str) -> dict[str, Any]:
        """``observation``, ``reward``, ``terminated``, ``truncated``, ``info``. Raises Refusal."""
        return self._call(name, lambda env: _step(env, action))

    def close(self, name: str) -> None:
        """Close an episode. Raises Refusal if it is unknown or busy."""
        found = self._taken(name)
        self._forget(name)
        found.env.close()

    def close_idle(self) -> int:
        """Close the episodes that nobody has called for ``idle_s``; returns how many."""
        now = time.monotonic()
        with self._lock:
            idle = [
                (name, each)
                for name, each in self._open.items()
                if now - each.used > self._limits.idle_s and each.busy.acquire(blocking=False)
            ]
            for name, _ in idle:
                del self._open[name]
        for _, each in idle:
            each.env.close()
        return len(idle)

    def close_all(self) -> None:
        """Close every episode, also those with a call under way, which the server has waited for."""
        with self._lock:
            episodes, self._open = list(self._open.values()), {}
        for each in episodes:
            each.busy.acquire(blocking=False)
            each.env.close()

    def _call(self, name: str, call: Callable[[SelfPlayEnv], dict[str, Any]]) -> dict[str, Any]:
        found = self._taken(name)
        try:
            result = call(found.env)
        except Refusal:
            found.used = time.monotonic()
            found.busy.release()
            raise
        except BaseException:  # its state is unknown now
            self._forget(name)
            found.env.close()
            raise
        found.used = time.monotonic()
        found.busy.release()
        return result

    def _taken(self, name: str) -> _Open:
        with self._lock:
            found = self._open.get(name)
            if found is None:
                raise Refusal(
                    404,
                    f"no episode has this id: it was closed, or idle for {self._limits.idle_s:g} s, or never "
                    "existed. Create one with POST /episodes.",
                )
            if not found.busy.acquire(blocking=False):
                raise Refusal(409, "another call on this episode is under way: wait for its answer.")
            return found

    def _forget(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)


def _reset(env: SelfPlayEnv, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
    try:
        observation, info = env.reset(seed=seed, options=options)
    except (OptionError, UnknownTaskError) as error:
        raise Refusal(400, str(error)) from None
    return {"observation": observation, "info": plain(info)}


def _step(env: SelfPlayEnv, action: str) -> dict[str, Any]:
    try:
        observation, reward, terminated, truncated, info = env.step(action)
    except EpisodeError as error:
        raise Refusal(409, f"{error} Here: POST /episodes/<id>/reset.") from None
    return {
        "observation": observation,
        "reward": float(reward),
        "terminated": terminated,
        "truncated": truncated,
        "info": plain(info),
    }


def plain(value: Any) -> Any:
    """``value`` with null for numbers that are not finite, which JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
