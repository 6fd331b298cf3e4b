"""Verifies the corrected actions that a coach proposes.

A verdict may propose a better action. This module runs it in a copy of the workspace from before the agent's
action, and the card's rubric judges both. It keeps the proposal if its code ran without error and the rubric
scores it at least MARGIN points higher. It is then a demonstration for exactly the agent's context.
"""

from __future__ import annotations

from mappa_env.cards import Card
from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.episode.execution import ActionContext, Execution
from mappa_env.errors import OptionError
from mappa_env.types import CorrectedAction, Evidence, Verdict
from mappa_env.workspace.workspace import Workspace

MARGIN = 1.0
"""Points (0-10) that exclude differences between equally good actions."""


class Correcting:
    """``labels``: whether the rubric may use the hidden truth.

    Raises OptionError for a card without a rubric, which could not confirm a correction, and for one with
    tools besides Python: a call has effects outside of the workspace.
    """

    def __init__(self, card: Card, execution: Execution, *, labels: bool) -> None:
        if card.rubric is None:
            raise OptionError(
                f"the coach proposes corrections, but the card {card.id} has no rubric that could confirm "
                "them; switch them off in coach=."
            )
        if card.tools:
            raise OptionError(
                f"the coach proposes corrections, but the card {card.id} has tools, whose calls cannot be "
                "tried in a copy; switch them off in coach=."
            )
        self._execution, self._rubric = execution, RubricCoach(card, labels=labels)

    def verify(
        self, at: ActionContext, evidence: Evidence, verdict: Verdict, before: Workspace | None
    ) -> CorrectedAction | None:
        """Try the action that ``verdict`` proposes; None if it proposes none.

        ``before`` is a copy of the workspace from before the action, or None if there was none yet. This
        method removes it.
        """
        if verdict.corrected_action is None:
            return None
        scratch = before

        def workspace() -> Workspace:
            nonlocal scratch
            scratch = scratch or self._execution.open_workspace(at.task, at.stamps)
            return scratch

        try:
            draft = self._execution.run(at, verdict.corrected_action, workspace)
            outcome = self._execution.outcome(at, draft, scratch)
            judged = self._rubric.judge(self._execution.evidence(at, draft, scratch, outcome))
        finally:
            if scratch is not None:
                scratch.remove()
        was = self._rubric.judge(evidence)
        tool = draft.tool
        if tool is not None and tool.status != "ok":
            reason = f"its code ended with {tool.status}"
        elif judged.score is None or was.score is None:
            reason = (
                f"the rubric cannot compare: {judged.reasoning if judged.score is None else was.reasoning}"
            )
        elif judged.score - was.score < MARGIN:
            reason = f"the rubric scores it {judged.score:.2f}, and the agent's action {was.score:.2f}"
        else:
            reason = ""
        return CorrectedAction(draft.action, draft.code, tool, judged, was.score, not reason, reason)
