"""The grader protocol: computes the outcome of an episode on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace


class Grader(Protocol):
    """Computes the outcome of an episode."""

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """Grade an episode. Never raises for an agent's mistake, which becomes a status with a reason.

        ``actions`` has every action of the episode, including the closing one (with a placeholder verdict).
        ``workspace`` is None if no code ran.
        """
        ...


@runtime_checkable
class Answers(Protocol):
    """A grader whose episodes end with an answer that can be compared with another's (for majorities)."""

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The final answer, right or wrong, in a canonical spelling; None if there is none."""
        ...
