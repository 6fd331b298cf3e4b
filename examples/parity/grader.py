"""A grader: ``grader: {name: "grader.py:LastLine"}`` in card.yaml."""

from collections.abc import Sequence

from mappa_env.types import ActionRecord, Outcome, Task
from mappa_env.workspace.workspace import Workspace


class LastLine:
    """The last line of the closing action must be the answer."""

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        lines = actions[-1].answer.strip().splitlines() if actions else []
        right = bool(lines) and lines[-1].strip().lower() == task.truth["answer"]
        return Outcome(float(right), right, "ok", "right" if right else "wrong", {"accuracy": float(right)})
