"""The Gymnasium faces: the self-play view (all seats) and the seat view (one seat, scripted partners)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mappa_env.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.face import METADATA, Face
from mappa_env.partners import Partners
from mappa_env.types import Trajectory

Step = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]


class SelfPlayEnv(gym.Env[dict[str, Any], str]):
    """The caller acts for every agent in turn.

    ``step`` returns the *next* agent's observation and the *acting* agent's reward; ``info["agent"]`` says
    who acts next, ``info["acted"]`` who acted. After the closing action the prompt is empty.
    """

    metadata = METADATA

    def __init__(self, card: str, **options: Any) -> None:
        self._face = Face(card, **options)
        self.render_mode = self._face.render_mode
        self.observation_space = self._face.observation_space
        self.action_space = self._face.action_space

    @property
    def episode(self) -> Episode:
        return self._face.episode

    @property
    def trajectory(self) -> Trajectory:
        """The full record of the running or last episode."""
        return self._face.trajectory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """``options={"task_id": ...}`` chooses the task. Raises UnknownTaskError."""
        super().reset(seed=seed)
        self._face.reset(self.np_random, options)
        return self._face.observation(), self._face.info(None, False)

    def step(self, action: str) -> Step:
        face = self._face
        record = face.act(action)
        info = face.info(record, record.reward_valid)
        return face.observation(), record.reward, face.episode.over, False, info

    def render(self) -> str | None:
        return self._face.render()

    def close(self) -> None:
        self._face.close()


class SeatEnv(SelfPlayEnv):
    """The caller plays one seat; scripted partners play the others.

    The reward of a step is the seat's own. When the episode ends with the step it is the action's final
    share, so that a reward known only at the end (``shaping="outcome"``) reaches the seat too.
    """

    def __init__(
        self, card: str, *, seat: str, partners: str | Mapping[str, Any] = "expert", **options: Any
    ) -> None:
        super().__init__(card, **options)
        self.seat = seat
        self._partners = Partners(
            self._face.card, partners, seat=seat, prompts=options.get("prompts", "full")
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._partners.reset(self.episode)
        self._play_partners()
        return self._face.observation(self.seat), self._face.info(None, False)

    def step(self, action: str) -> Step:
        face = self._face
        handed_out = face.act(action).reward
        self._play_partners()
        earned = face.earned(self.seat)
        assert earned is not None  # the seat has just acted
        info = face.info(earned.record, earned.valid)
        reward = handed_out + face.late(self.seat) if earned.valid else 0.0
        return face.observation(self.seat), reward, face.episode.over, False, info

    def _play_partners(self) -> None:
        """Until it is the seat's turn, or the end."""
        while self.episode.agent not in (None, self.seat):
            self._face.act(self._partners.act(self.episode))


def make_env(
    card: str,
    *,
    seat: str | None = None,
    partners: str | Mapping[str, Any] | None = None,
    **options: Any,
) -> SelfPlayEnv:
    """The entry point of ``gym.make``: the seat view when ``seat`` is given, else the self-play view."""
    if seat is None:
        if partners is not None:
            raise OptionError(f"partners={partners!r} needs a seat= to be the partners of.")
        return SelfPlayEnv(card, **options)
    return SeatEnv(card, seat=seat, partners="expert" if partners is None else partners, **options)


make_env.metadata = METADATA  # type: ignore[attr-defined]  # gym.make reads the render modes here
