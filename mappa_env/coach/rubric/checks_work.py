"""Checks for agents that work through files: did the code run, what was handed on, was anything damaged.

An action is judged on what its agent was responsible for, given the inputs that it found. ``work`` judges a
segment without all of its files, and the checks of contents judge the files.
"""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.artifacts import Defect, defects
from mappa_env.coach.rubric.case import Case, Finding, deleted_by
from mappa_env.coach.rubric.inputs import broken_before, files_before, made_unusable, unsound_inputs
from mappa_env.coach.rubric.obstacles import in_the_way
from mappa_env.coach.rubric.poor_tables import ruined
from mappa_env.coach.rubric.rewritten import kept_as_good
from mappa_env.coach.rubric.usage import explains, tried

BLOCKED = 0.6
"""The score of an agent that tried, and that its inputs kept from more."""
BLUNDERED = 0.4
"""The score of one that tried, and whose last program failed by itself: more than who made the inputs so."""
IDLE = 0.2
"""The score of one that did not try."""


def ran(case: Case, *, failed: float = 0.5, idle: float = 0.3) -> Finding:
    """Check whether the last program of the segment ran. One that unsound inputs can explain did its part.

    An agent that returns need not run anything if its files are there and its program before ran. ``idle``:
    the inputs were unsound, and no program tried to cope with that.
    """
    blocked = unsound_inputs(case)
    if blocked and not _tried(case, blocked) and unwritten(case):
        return Finding(idle, f"no program tried to use or replace it: {why(blocked[0])}", case.me)
    if not case.programs:
        done = [record.tool.status for record in case.earlier if record.tool is not None]
        if done and done[-1] == "ok" and not unwritten(case):
            return Finding(1.0, "the code ran before, and its files are there")
        return Finding(0.0, "no code was run, although this work needs it", case.me)
    last = case.programs[-1]
    if last.tool.status == "ok":
        return Finding(1.0, "the code ran")
    if any(last.failed or explains(cause, last) for cause in blocked):
        return Finding(1.0, f"the code failed ({_how(case)}) on its input: {why(blocked[0])}")
    return Finding(failed, f"the code failed: {_how(case)}", case.me)


def work(
    case: Case,
    *,
    blocked: float = BLOCKED,
    idle: float = IDLE,
    unfinished: float = 0.2,
    partial: float = 0.15,
    failed: float = 0.1,
    empty: float = 0.05,
) -> Finding | None:
    """Check a segment that has not handed on all of its files. None: it has, or it need not write any.

    ``blocked``: inputs were unsound, and a program really tried to use one. ``idle``: they were, and none
    did. Otherwise the inputs were sound. ``unfinished``: turns are left, and the programs so far wrote
    nothing, and neither used nor name a file that this agent must write. ``partial``: turns are left, and
    they did. ``failed``: so does this program, or one that used its inputs. ``empty``: the segment ends. 0:
    no code was run.
    """
    missing = unwritten(case)
    if not missing:
        return None
    here, causes = case.evidence.tool, unsound_inputs(case)
    if causes and not _tried(case, causes):
        return Finding(idle, f"no program tried to use or replace it: {why(causes[0])}", case.me)
    if causes and _blundered(case, causes):
        return Finding(BLUNDERED, f"the code failed by itself: {_how(case)}; {why(causes[0])}", case.me)
    if causes:
        return Finding(blocked, f"nothing more was possible: {why(causes[0])}", causes[0].writer)
    said = f"not written: {', '.join(missing)}"
    if not case.programs:
        return Finding(0.0, f"no code was run, although this work needs it; {said}", case.me)
    spec = case.evidence.agent
    meant = any(run.tool.written or run.aims_at(spec.requires) for run in case.programs)
    if here is not None and here.status != "ok":
        inputs = {*case.evidence.task.files, *spec.reads}
        if meant or case.evidence.last_turn or inputs.intersection(here.opened or ()):
            return Finding(failed, f"the code failed: {_how(case)}; {said}", case.me)
        return Finding(unfinished, f"the code failed: {_how(case)}; {said} so far", case.me)
    if case.evidence.last_turn:
        return Finding(empty, f"the segment ended; {said}", case.me)
    return Finding(partial if meant else unfinished, f"{said} so far", case.me)


def intact(case: Case) -> Finding:
    """Check that this segment neither deleted nor overwrote a file of the task or of another agent.

    Nor may it put something in the way of another agent's file. An agent that found unsound files may write
    other agents' files again: that is a repair, unless it makes a sound one unusable. Files that no card
    names do not count: nobody can tell which of them others need, until a program fails over one.
    """
    tables = set(case.evidence.task.files)
    others = {path for spec in case.team if spec.name != case.me for path in spec.requires}
    present, before = case.evidence.present, files_before(case)
    gone = {path for run in case.programs for path in deleted_by(run.tool)} - set(present)
    # Another name of a file, which another agent gave it: who writes the one cannot help writing the other.
    tied = {path for path, change in before.items() if change.links > 1}
    mine = (path for path, at in present.items() if at.agent == case.me and at.step >= len(case.before))
    overwritten = set(mine) - tied
    if overwritten:
        overwritten -= _repaired(case, overwritten) - tables
    harmed = (gone | overwritten) & (others | tables)
    if taken := sorted(harmed & before.keys() - set(case.evidence.agent.requires)):
        return Finding(0.0, f"deleted or overwrote what others need: {', '.join(taken)}", case.me)
    last = {change.path: change for run in case.programs for change in run.tool.files}
    if blocked := sorted(path for path in (others & last.keys()) - tied if in_the_way(last[path])):
        return Finding(0.0, f"put something in the way of {', '.join(blocked)}", case.me)
    return Finding(1.0, "nothing that others need was deleted or overwritten")


def _repaired(case: Case, overwritten: set[str]) -> set[str]:
    """Those of the files of others that this agent wrote again as whoever meets unsound files may.

    Its own inputs were unsound: all that it made no worse. Others were: these, and all if it left none of
    them as it was, or they are sound now. None were: sound files that are worth as much as before.
    """
    broken = broken_before(case)
    left = (broken & {defect.path for defect in defects(case)}) - overwritten
    if not unsound_inputs(case) and (not broken or left):
        return broken | (kept_as_good(case, overwritten) - made_unusable(case))
    return broken if ruined(case) else overwritten - made_unusable(case)


def unwritten(case: Case) -> list[str]:
    """The files that this agent must write and that it did not write last."""
    return [path for path in case.evidence.agent.requires if not case.mine(path)]


def _tried(case: Case, causes: Sequence[Defect]) -> bool:
    return tried(case.programs, causes, {*case.evidence.task.files, *case.evidence.agent.reads})


def _blundered(case: Case, causes: Sequence[Defect]) -> bool:
    """Whether this action's program failed by itself: its text is wrong, or it exceeded a limit."""
    if case.evidence.tool is None or case.evidence.tool.status == "ok":
        return False
    run = case.programs[-1]
    return not run.failed and not any(explains(cause, run) for cause in causes)


def why(cause: Defect) -> str:
    """The cause in words."""
    return f"{cause.path}: {cause.reason} ({cause.writer or 'it is not known who'} is responsible)"


def _how(case: Case) -> str:
    tool = case.programs[-1].tool
    return exception_of(tool)[1] or tool.status
