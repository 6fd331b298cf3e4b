"""Shapings by name. A shaping turns verdicts and the outcome into rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mappa_env import plugins
from mappa_env.types import Trajectory

__all__ = ["SHAPINGS", "Shaping", "make_shaping"]

SHAPINGS = plugins.Kind(
    name="shaping",
    option="shaping",
    group="mappa.shapings",
    builtin={
        "process": "mappa_env.shaping.process:Process",
        "outcome": "mappa_env.shaping.outcome:OutcomeOnly",
        "mixed": "mappa_env.shaping.mixed:Mixed",
        "backward": "mappa_env.shaping.backward:Backward",
    },
    methods={"rewards": (1, ())},
    attributes={"name": str, "immediate": bool, "traces": bool},
    advice="Write a class with name, immediate, traces and rewards(self, trajectory).",
)


class Shaping(Protocol):
    """Turns verdicts (and the outcome) into rewards."""

    name: str

    @property
    def immediate(self) -> bool:
        """Whether an action's own verdict decides its reward.

        Then ``rewards`` is also called after each action, on the trajectory so far, and its last item is the
        reward of that action. Otherwise every reward is pending until the episode is over.
        """
        ...

    @property
    def traces(self) -> bool:
        """Whether ``rewards`` needs the trajectory's attribution."""
        ...

    def rewards(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """(reward in 0-10, valid) of every action, in order; invalid rewards are 0.0."""
        ...


def make_shaping(spec: str | Mapping[str, Any]) -> Shaping:
    """Create a shaping from a name or ``{"name": ..., **options}``; see ``SHAPINGS``. Raises OptionError."""
    name, options = SHAPINGS.split(spec)
    shaping: Shaping = SHAPINGS.make(name, **options)
    return shaping
