"""The grader protocol: how an episode ended, decided on the host from facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace import Workspace


class Grader(Protocol):
    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """Never raises for anything an agent wrote: a bad file or answer is a status with a reason.

        ``actions`` holds every action of the episode, the closing one included (its verdict is a
        placeholder). ``workspace`` is None when no code ever ran.
        """
        ...


@runtime_checkable
class Answers(Protocol):
    """A grader whose episodes end with an answer that can be compared with another's (for majorities)."""

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The final answer in a canonical spelling; None where none was given. Right or not: no matter."""
        ...
