"""Rebuilds the cases of an episode from its record: what existed when each action was judged."""

from __future__ import annotations

from mappa_env.coach.rubric.case import Case
from mappa_env.order import Order
from mappa_env.types import Evidence, FileChange, Trajectory
from mappa_env.workspace.changes import apply


def retrace(trajectory: Trajectory, order: Order, answerer: str | None = None) -> tuple[Case, ...]:
    """One case per action, without prompts and without the hidden truth.

    The task's files are those in the record, plus the files that agents read and no agent has to write.
    """
    team = order.team
    made = {path for spec in team for path in spec.requires}
    given = {*trajectory.task.files, *(path for spec in team for path in spec.reads if path not in made)}
    present = {path: FileChange(path, "created", 0, "skipped: not recorded") for path in given}
    cases = []
    for record in trajectory.actions:
        for change in record.tool.files if record.tool is not None else ():
            apply(change, present)
        evidence = Evidence(
            task=trajectory.task,
            agent=team[record.agent],
            turn=record.turn,
            step=record.step,
            prompt="",
            action=record.action,
            code=record.code,
            tool=record.tool,
            last_turn=record.last_turn,
            history=trajectory.actions[: record.step],
            present=dict(present),
            missing=record.missing,
            probe=record.probe,
            calls=record.calls,
        )
        cases.append(Case(evidence, order, answerer))
    return tuple(cases)
