"""Corrected actions, believed only when they are seen to be better.

A verdict may carry an action that would have been better. It is carried out in a scratch copy of the
workspace as it was before the action, and the card's rubric judges both. It is kept where its code ran
without error and the rubric scores it higher by at least MARGIN points: then it is a demonstration of what to
do in exactly the context that the agent was in.
"""

from __future__ import annotations

from mappa_env.cards import Card
from mappa_env.coach.rubric import RubricCoach
from mappa_env.errors import OptionError
from mappa_env.execution import Execution, Place
from mappa_env.types import Correction, Evidence, Verdict
from mappa_env.workspace import Workspace

MARGIN = 1.0
"""Points (0-10): what two equally good models differ by does not make one a correction of the other."""


class Correcting:
    """``labels`` False: the hidden truth has no part in it.

    Raises OptionError for a card without a rubric: nothing could confirm a correction.
    """

    def __init__(self, card: Card, execution: Execution, *, labels: bool) -> None:
        if card.rubric is None:
            raise OptionError(
                f"the coach proposes corrections, but the card {card.id} has no rubric that could confirm "
                "them; switch them off in coach=."
            )
        self._execution, self._rubric = execution, RubricCoach(card, labels=labels)

    def verify(
        self, at: Place, evidence: Evidence, verdict: Verdict, before: Workspace | None
    ) -> Correction | None:
        """Try what ``verdict`` proposes; None: it proposes nothing. ``before``: the workspace before the
        action, None where there was none yet. It is used up."""
        if verdict.corrected_action is None:
            return None
        scratch = before

        def workspace() -> Workspace:
            nonlocal scratch
            scratch = scratch or self._execution.open_workspace(at.task)
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
            reason = f"the rubric gives {judged.score:.2f}, and gave {was.score:.2f} to the action itself"
        else:
            reason = ""
        return Correction(draft.action, draft.code, tool, judged, was.score, not reason, reason)
