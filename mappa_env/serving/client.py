"""A served environment as a Gymnasium environment.

>>> env = gym.make("mappa_env.serving.client:mappa-remote/Team-v0", url="http://127.0.0.1:8400")
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import gymnasium as gym
import requests
from requests.auth import AuthBase

from mappa_env.envs.gym_env import Step
from mappa_env.envs.spaces import Unicode, team_space
from mappa_env.errors import RemoteError
from mappa_env.serving.token import token

ID = "mappa-remote/Team-v0"


class RemoteEnv(gym.Env[dict[str, Any], str]):
    """An environment that ``mappa-env serve`` offers; observations, rewards and infos are the server's.

    An episode that the server closed because it was idle raises RemoteError in ``step``; ``reset`` begins
    another. Not thread-safe: an environment for each thread.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(self, url: str, *, timeout_s: float = 600.0) -> None:
        """``url``: what the server printed. ``timeout_s``: seconds that an answer may take.

        Raises RemoteError if there is no such server, or if it wants the token in ``MAPPA_SERVE_TOKEN``.
        """
        self.url, self._timeout_s = url.rstrip("/"), timeout_s
        self._session = requests.Session()
        self._session.auth = _Bearer()
        self._episode: str | None = None
        about = self._call("GET", "/environment")
        try:
            self.agents: tuple[str, ...] = tuple(about["agents"])
            self.observation_space = team_space(len(self.agents), int(about["most_turns"]))
            self.environment = str(about["environment"])
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError(f"{url} is no server of 'mappa-env serve': {error!r} in its answer.") from None
        self.action_space = Unicode()

    @property
    def task_ids(self) -> list[str]:
        """The ids of the server's tasks, for ``reset(options={"task_id": ...})``."""
        return [str(each) for each in self._call("GET", "/tasks")["tasks"]]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As that of the served environment. Raises RemoteError."""
        super().reset(seed=seed)
        # Without a seed, one is drawn here: the server's own stream would end with the episode.
        asked = {
            "seed": int(self.np_random.integers(2**63 - 1)) if seed is None else seed,
            "options": options,
        }
        if self._episode is not None:
            with suppress(_Gone):
                found = self._call("POST", f"/episodes/{self._episode}/reset", asked)
                return found["observation"], _info(found["info"])
            self._episode = None
        found = self._call("POST", "/episodes", asked)
        self._episode = str(found["id"])
        return found["observation"], _info(found["info"])

    def step(self, action: str) -> Step:
        """As that of the served environment. Raises RemoteError."""
        if self._episode is None:
            raise RemoteError("there is no episode: call reset() first.")
        found = self._call("POST", f"/episodes/{self._episode}/step", {"action": action})
        return (
            found["observation"],
            float(found["reward"]),
            bool(found["terminated"]),
            bool(found["truncated"]),
            _info(found["info"]),
        )

    def close(self) -> None:
        """Close the episode on the server."""
        episode, self._episode = self._episode, None
        if episode is not None:
            with suppress(RemoteError):  # a server that cannot be reached closes it when it has been idle
                self._call("DELETE", f"/episodes/{episode}")
        self._session.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answered = self._session.request(
                method, self.url + path, json=body, timeout=self._timeout_s, allow_redirects=False
            )
        except requests.RequestException as error:
            raise RemoteError(
                f"{self.url} gives no answer ({type(error).__name__}): is 'mappa-env serve' running there?"
            ) from None
        if answered.status_code == 204:
            return {}
        try:
            found = answered.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RemoteError(f"{self.url} answered {answered.status_code} without a JSON object to {path}.")
        if answered.status_code not in (200, 201):
            kind = _Gone if answered.status_code == 404 else RemoteError
            raise kind(f"{self.url} answered {answered.status_code}: {str(found.get('error'))[:1000]}")
        return found


class _Gone(RemoteError):
    """The episode does not exist on the server any more."""


class _Bearer(AuthBase):
    """Puts the token into a request. An object that is pickled with an environment holds none."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if found := token():
            request.headers["Authorization"] = f"Bearer {found}"
        return request


def _info(info: dict[str, Any]) -> dict[str, Any]:
    """Metrics that JSON could not hold are NaN again."""
    metrics = info.get("outcome/metrics")
    if metrics is not None:
        info["outcome/metrics"] = {k: math.nan if v is None else float(v) for k, v in metrics.items()}
    return info


gym.register(ID, entry_point=f"{__name__}:RemoteEnv")
