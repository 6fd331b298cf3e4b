"""Who acts in an evaluation: a model behind a server, a scripted team, or a trivial baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mappa_env.cards import Card
from mappa_env.episode.episode import Episode
from mappa_env.evaluation.episodes import Tokens

FREE = Tokens(dollars=0.0)
"""What an action takes that no model wrote."""


@dataclass(frozen=True, slots=True)
class Said:
    """An action. ``version``: its author's own name.

    ``flaw``: ``truncated``, ``refused``, ``too_long`` (its prompt) or empty.
    """

    text: str
    version: str
    spent: Tokens = FREE
    flaw: str = ""


Act = Callable[[int], Said]
"""The action of the agent whose turn it is; the argument is a seed in [0, 2**31)."""


class Participant(Protocol):
    """Plays one agent, or several. Thread-safe: it plays many episodes at once."""

    def check(self, card: Card, agent: str) -> None:
        """Raises OptionError if it cannot play ``agent`` of ``card``."""
        ...

    def sit(self, episode: Episode) -> Act:
        """Take part in an episode that has begun."""
        ...

    def close(self) -> None:
        """Give back what it holds; actions under way end with CoachStopped."""
        ...
