"""Shapings by name: how verdicts and the outcome become rewards. One idea per file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mappa_env.errors import OptionError, nearest
from mappa_env.types import Outcome, Trajectory, Verdict

__all__ = ["SHAPINGS", "Shaping", "make_shaping"]

SHAPINGS = ("process", "outcome", "mixed", "backward")


class Shaping(Protocol):
    """Rewards are on the scale 0-10; the second item says whether there is one (else it is 0.0)."""

    name: str

    @property
    def traces(self) -> bool:
        """Whether ``credit`` needs the trajectory's attribution."""
        ...

    def step(self, verdict: Verdict, outcome: Outcome | None) -> tuple[float, bool]:
        """What ``step()`` hands out at once. ``outcome`` is None before the closing action."""
        ...

    def credit(self, trajectory: Trajectory) -> list[tuple[float, bool]]:
        """The reward of every action for a learner, once the episode is over."""
        ...


def make_shaping(spec: str | Mapping[str, Any]) -> Shaping:
    """A name of ``SHAPINGS`` or ``{"name": ..., **options}``. Raises OptionError."""
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    kind: Any
    if name == "process":
        from mappa_env.shaping.process import Process as kind
    elif name == "outcome":
        from mappa_env.shaping.outcome import OutcomeOnly as kind
    elif name == "mixed":
        from mappa_env.shaping.mixed import Mixed as kind
    elif name == "backward":
        from mappa_env.shaping.backward import Backward as kind
    else:
        raise OptionError(f"no shaping {name!r}; there are {SHAPINGS}." + nearest(str(name), SHAPINGS))
    try:
        shaping: Shaping = kind(**options)
    except TypeError as error:
        raise OptionError(f"the shaping {name!r} does not take these options: {error}") from None
    return shaping
