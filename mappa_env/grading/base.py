"""The grader protocol: computes the outcome of an episode on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mappa_env.types import ActionRecord, FreshRun, Outcome, Task

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


class FreshSandbox(Protocol):
    """Runs a grader's programs next to agents' code, in the sandbox and with the limits of the episode."""

    def run(
        self,
        program: str,
        files: Mapping[str, bytes],
        *,
        reads: Sequence[str] = (),
        max_bytes: int = 2**20,
    ) -> FreshRun:
        """Run ``program`` in a new workspace that holds ``files``, and read the files ``reads`` afterwards.

        The workspace has nothing of the episode's and is removed at once. A file of ``reads`` that is
        missing, not regular or larger than ``max_bytes`` is left out. Agents' code may read all of ``files``,
        so never put an expected answer there. Raises SandboxError if the sandbox is unavailable: do not catch
        it, and the episode is masked.
        """
        ...


class RunningGrader(Protocol):
    """A grader that runs what the agents made: ``grade`` takes a ``FreshSandbox``, too."""

    def grade(
        self,
        task: Task,
        actions: Sequence[ActionRecord],
        workspace: Workspace | None,
        sandbox: FreshSandbox,
    ) -> Outcome:
        """See ``Grader.grade``."""
        ...


@runtime_checkable
class Answers(Protocol):
    """A grader whose episodes end with an answer that can be compared with another's (for majorities)."""

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The final answer, right or wrong, in a canonical spelling; None if there is none."""
        ...
