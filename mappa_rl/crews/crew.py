"""A crew, as the process that plays sees it: called and ended from there."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mappa_rl.errors import CrewLost


class Crew(ABC):
    """``run.processes`` processes that train ``policies``. Its first process answers calls, one at a time."""

    def __init__(self, number: int, policies: Sequence[str]) -> None:
        self.number, self.policies = number, list(policies)
        self.idle = True
        """Whether no call is under way."""
        self._one = threading.Lock()

    @abstractmethod
    def ready(self) -> None:
        """Wait until the crew can be called. Raises what kept it from starting."""

    def call(self, member: str, method: str, **options: Any) -> Any:
        """What ``method`` of a policy's learner, or of a reference, returns there.

        Raises what it raises, after which the crew is of no use, and CrewLost if the crew has ended.
        """
        with self._one:
            self.idle = False
            found = self._answer(member, method, options)
            self.idle = True
            return found

    @abstractmethod
    def close(self) -> None:
        """Release the crew and wait until it has ended; after a call that was left early, end it."""

    @abstractmethod
    def _answer(self, member: str, method: str, options: dict[str, Any]) -> Any: ...

    def _lost(self, why: str = "the lines above may say why") -> CrewLost:
        names = ", ".join(self.policies)
        return CrewLost(
            f"crew {self.number}, which trains {names}, has ended; {why}. Resume the run from its last "
            "checkpoint with --resume."
        )
