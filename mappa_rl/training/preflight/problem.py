"""A problem that a check found before a run, and how checks collect them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym

from mappa_env.errors import MappaError
from mappa_rl.errors import MappaRLError


@dataclass(frozen=True, slots=True)
class Problem:
    """``concern``: what it is about, as ``policies``; ``message``: the wrong value, and the remedy."""

    concern: str
    message: str

    def __str__(self) -> str:
        return f"{self.concern}: {self.message}"


def problems_of(concern: str, *checks: Callable[[], object]) -> list[Problem]:
    """One problem for every check that raises an error of the project or of Gymnasium."""
    found = []
    for check in checks:
        try:
            check()
        except (MappaError, MappaRLError, gym.error.Error) as error:
            found.append(Problem(concern, str(error)))
    return found
