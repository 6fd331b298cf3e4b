"""What keeps an agent from writing its files: an entry that another agent put in their place, a full disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mappa_env.coach.program import Program
from mappa_env.coach.rubric.artifacts import Defect
from mappa_env.coach.rubric.space import filler_of
from mappa_env.types import ActionRecord, FileChange
from mappa_env.workspace.changes import TOP


def obstacles(paths: Iterable[str], before: Iterable[ActionRecord], agent: str) -> list[Defect]:
    """What other agents left in place of ``paths``, which ``agent`` has to write.

    An ordinary file is no obstacle: it can be written again. A file with several names is one: to write it
    changes another file, too.
    """
    last = {change.path: change for record in before if record.tool for change in record.tool.files}
    found = []
    for path in paths:
        change = last.get(path)
        if change is not None and change.agent not in ("", agent) and in_the_way(change):
            what = f"a {change.kind}" if change.kind != "file" else "another name of a file"
            found.append(Defect(path, change.agent, f"{what} is in its place", observed=True))
    return found


def damaged(paths: Iterable[str], before: Sequence[ActionRecord], agent: str) -> list[Defect]:
    """Those of ``paths`` that ``agent`` has written and another agent has deleted or overwritten since."""
    found = []
    for path in paths:
        last, mine = None, False
        for record in before:
            for change in record.tool.files if record.tool is not None else ():
                if change.path == path:
                    last, mine = change, mine or record.agent == agent
        if mine and last is not None and last.agent != agent and not in_the_way(last):
            what = "deleted" if last.op == "deleted" else "overwritten"
            found.append(Defect(path, last.agent, f"it was {what}", observed=True))
    return found


def in_the_way(change: FileChange) -> bool:
    """Whether a change left something that nobody can write a file over without harm."""
    return change.op != "deleted" and (change.kind != "file" or change.links > 1)


def filled(agent: str, programs: Iterable[Program]) -> Defect | None:
    """Who filled the workspace, if a program of ``agent`` ended for that; None if it did so itself.

    Others filled it if they left less of the quota than they took, in bytes or in entries.
    """
    for run in programs:
        space = run.tool.space if run.out_of_space else None
        filler = None if space is None else filler_of(space.quota, space.before, agent)
        if filler is not None:
            return Defect(TOP, *filler, observed=True, fills=True)
    return None
