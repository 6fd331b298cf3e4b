"""An episode's actions as cases again, from its record alone: what was there when each of them was judged."""

from __future__ import annotations

from mappa_env.coach.case import Case
from mappa_env.types import Evidence, FileChange, Team, Trajectory


def retrace(trajectory: Trajectory, team: Team) -> tuple[Case, ...]:
    """One case per action. Prompts are left out, and so is the hidden truth.

    Files of the task are those that the record still has, and those that agents read and nobody has to write.
    """
    made = {path for spec in team for path in spec.requires}
    given = {*trajectory.task.files, *(path for spec in team for path in spec.reads if path not in made)}
    present = {path: FileChange(path, "created", 0, "skipped: not recorded") for path in given}
    cases = []
    for record in trajectory.actions:
        for change in record.tool.files if record.tool is not None else ():
            if change.op == "deleted" or change.kind == "dir":
                present.pop(change.path, None)
            else:
                present[change.path] = change
        evidence = Evidence(
            task=trajectory.task, agent=team[record.agent], turn=record.turn, step=record.step, prompt="",
            action=record.action, code=record.code, tool=record.tool, last_turn=record.last_turn,
            history=trajectory.actions[: record.step], present=dict(present), missing=record.missing,
            claims=record.claims, probe=record.probe,
        )  # fmt: skip
        cases.append(Case(evidence, team))
    return tuple(cases)
