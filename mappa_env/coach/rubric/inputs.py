"""The inputs of an agent as the host observed them when its segment began: there and sound, or whose doing.

What lies in the way of its own files counts, too, and what others have done to them since it wrote them. Only
the order, the file history and the probe count; what anybody wrote in words has no part, except whom a
manager called.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.coach.program import Program
from mappa_env.coach.rubric.artifacts import (
    OTHER_LOADER,
    PATHS,
    Defect,
    defects,
    defects_of,
    facts_after,
    facts_of,
    looks_of,
    other_format,
    section,
    unknown_files,
)
from mappa_env.coach.rubric.case import Case, deleted_by, start_of
from mappa_env.coach.rubric.changed_models import changed_model
from mappa_env.coach.rubric.helper_failures import failed_over
from mappa_env.coach.rubric.helper_files import LIBRARIES, STANDS_IN, Damage, damages, module_of, runs_of
from mappa_env.coach.rubric.kinds import FRAMES, failed_over_kind, is_bare
from mappa_env.coach.rubric.obstacles import damaged, filled, obstacles
from mappa_env.order import Order
from mappa_env.types import ActionRecord, FileChange, Task, Team
from mappa_env.workspace.changes import apply

TEST = PATHS["X_test"]


def unsound_inputs(case: Case, writer: FileChange | None = None) -> tuple[Defect, ...]:
    """The ``reads`` of an agent that were missing or unusable, and obstacles to its own files.

    ``writer``: not of the acting agent, but of the one that made this change. Each defect names the agent at
    the root: if the writer's own inputs were unsound, that is who broke those; if it used one that nobody can
    look into, or what is wrong is unclear, nobody.
    """
    order, task = case.order, case.evidence.task
    if writer is not None:
        return _unsound(order, task, _until(case.before, writer.agent, writer.path), writer.agent)
    found = _unsound(order, task, case.before, case.me)
    unwritten = [path for path in case.evidence.agent.requires if not case.mine(path)]
    harmed = damaged(unwritten, case.before, case.me)
    filler = filled(case.me, case.programs)
    helpers = broken_helpers(case.team, task, case.before, case.me, case.programs)
    others = (filler, foreign_input(case), changed_model(case))
    return (
        *found,
        *harmed,
        *helpers,
        *(each for each in others if each is not None and each.writer != case.me),
    )


def unknown_input(case: Case) -> str | None:
    """The first input that another agent wrote, that a program used, and that nobody can look into."""
    return _unknown(_files(case.team, case.evidence.task, case.before), case.before, case.me, case.programs)


def foreign_input(case: Case) -> Defect | None:
    """The file of another format than pickle, or without a frame, over which the last program failed."""
    return _foreign(case.team, case.evidence.task, case.before, case.me, case.programs)


def made_unusable(case: Case) -> set[str]:
    """The files that were sound when this segment began, and that this agent has made unusable."""
    bad = {defect.path for defect in defects(case) if defect.writer == case.me and not defect.unclear}
    bad |= {TEST} if _scrambled(case) else set()
    return bad and bad & _sound(case.team, case.evidence.task, case.before)


def _scrambled(case: Case) -> bool:
    """Whether this agent brought the rows of X_test into another order than X_test and X_train had before.

    That counts where nobody can compare them with test.csv. A column of the same name that keeps its order
    clears X_test, and so does an X_train none of whose columns does: then both were transformed.
    """
    before, now = facts_after(case.before) or {}, facts_of(case) or {}
    follow = section(now, "checks").get("test_rows_follow")
    if follow is not None or not case.mine(TEST) or TEST not in files_before(case):
        return False
    kept = [_keeps_order(section(before, name), section(now, name)) for name in ("X_train", "X_test")]
    return kept == [True, False]


def _keeps_order(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool | None:
    """Whether a column has its first values in the same order as before; None: none has the same name."""
    one, other = section(before, "order"), section(now, "order")
    shared = one.keys() & other.keys()
    return any(one[name] == other[name] for name in shared) if shared else None


def broken_before(case: Case) -> set[str]:
    """The files of other agents that were unusable when this segment began, also those it need not read."""
    found = defects_of(facts_after(case.before), files_before(case), looks_of(case.before))
    return {defect.path for defect in found if defect.writer not in ("", case.me)}


def files_before(case: Case) -> dict[str, FileChange]:
    """The last change of every file that existed when this segment began."""
    return _files(case.team, case.evidence.task, case.before)


def _unsound(order: Order, task: Task, before: Sequence[ActionRecord], agent: str) -> tuple[Defect, ...]:
    team = order.team
    present = _files(team, task, before)
    facts = facts_after(before)
    found: dict[str, Defect] = {}
    for path in team[agent].reads:
        change = present.get(path)
        if change is None:
            owner = _owner(order, before, agent, path)
            if owner is not None:
                found[path] = Defect(path, owner, "it is missing", True)
        elif change.agent and change.kind != "file":
            found[path] = Defect(path, change.agent, f"it is a {change.kind}, not a file", True)
        elif change.agent and path not in {name for spec in team for name in spec.requires}:
            found[path] = Defect(path, change.agent, "it was overwritten", True)
    for defect in defects_of(facts, present, looks_of(before)):
        if defect.path in team[agent].reads and defect.writer:
            found.setdefault(defect.path, defect)
    causes = (*found.values(), *obstacles(team[agent].requires, before, agent))
    rooted = (
        cause._replace(writer=_root(order, task, before, cause)) for cause in causes if cause.writer != agent
    )
    return tuple(
        cause._replace(writer="") if cause.unclear else cause for cause in rooted if cause.writer != agent
    )


def _root(order: Order, task: Task, before: Sequence[ActionRecord], cause: Defect) -> str:
    """The agent at the root of ``cause``; empty: nobody is known."""
    writer, team = cause.writer, order.team
    earlier = _until(before, writer, cause.path)
    if len(earlier) == len(before) or _harmed(team, task, before, earlier, cause):
        return writer
    if deeper := _unsound(order, task, earlier, writer):
        return deeper[0].writer
    segment = itertools.takewhile(lambda record: record.agent == writer, before[len(earlier) :])
    runs = [Program(record.code or "", record.tool) for record in segment if record.tool is not None]
    if (filler := filled(writer, runs)) is not None:
        return filler.writer
    if helpers := broken_helpers(team, task, earlier, writer, runs):
        return helpers[0].writer
    if (foreign := _foreign(team, task, earlier, writer, runs)) is not None:
        return foreign.writer
    return "" if _unknown(_files(team, task, earlier), earlier, writer, runs) is not None else writer


def _harmed(
    team: Team, task: Task, before: Sequence[ActionRecord], earlier: Sequence[ActionRecord], cause: Defect
) -> bool:
    """Whether the writer of ``cause`` damaged what was none of its work, which nothing that it met excuses.

    ``earlier``: the actions before the segment in which it did.
    """
    if cause.path in team[cause.writer].requires:
        return False
    return bool(obstacles([cause.path], before, "")) or cause.path in _sound(team, task, earlier)


def _sound(team: Team, task: Task, before: Sequence[ActionRecord]) -> set[str]:
    """The files that were there after the actions ``before``, without a known defect."""
    present = _files(team, task, before)
    bad = {defect.path for defect in defects_of(facts_after(before), present, looks_of(before))}
    return {path for path, change in present.items() if change.kind == "file"} - bad


def _unknown(
    present: Mapping[str, FileChange], before: Sequence[ActionRecord], agent: str, programs: Sequence[Program]
) -> str | None:
    for path in unknown_files(facts_after(before)):
        change = present.get(path)
        if change is not None and change.agent not in ("", agent) and any(run.uses(path) for run in programs):
            return path
    return None


def _foreign(
    team: Team, task: Task, before: Sequence[ActionRecord], agent: str, programs: Sequence[Program]
) -> Defect | None:
    """The file of another format than pickle, or with no frame of pandas, over which the last program failed.

    Or a model that predicts only with another file. A reader that copes with it is not harmed by it.
    """
    if not programs or not programs[-1].failed:
        return None
    facts, present, last = facts_after(before) or {}, _files(team, task, before), programs[-1]
    for name, path in PATHS.items():
        writer, part = present[path].agent if path in present else "", section(facts, name)
        if path not in team[agent].reads or writer in ("", agent):
            continue
        unobserved = last.tool.opened is None  # that excuses its agent, and blames nobody
        if (beside := section(part, "beside")).get("needed") and last.uses(path):
            return Defect(path, "", f"it predicts only with {beside['file']}, which lies beside it")
        if other_format(part) and last.failed_reading(path):
            return Defect(path, "" if unobserved else writer, OTHER_LOADER)
        if is_bare(part) and (sure := failed_over_kind(last, path, str(part["type"]))) is not False:
            said = f"it holds a {part['type']}, which has not all that a {FRAMES[name == 'y_train']} has"
            return Defect(path, writer if sure and not unobserved else "", said)
    return None


def broken_helpers(
    team: Team, task: Task, before: Sequence[ActionRecord], agent: str, programs: Sequence[Program]
) -> list[Defect]:
    """The files that no card names, that others damaged or put there, and that programs failed over."""
    runs = [run for run in programs if run.tool.status == "error"]
    if not runs:
        return []
    others = {
        change.path: Damage(change.path, "", record.agent, record.step, STANDS_IN)
        for record in before
        for change in _changes(record)
        if module_of(change.path) in LIBRARIES
    }
    return [
        Defect(each.path, each.agent, f"it was {each.how}", observed=True, helper=each)
        for each in (*damages(runs_of(before), task, team), *others.values())
        if each.agent != agent and any(failed_over(run, each) for run in runs)
    ]


def _until(before: Sequence[ActionRecord], agent: str, path: str) -> Sequence[ActionRecord]:
    """The actions before the segment in which ``agent`` changed ``path`` last, else before its last one.

    All of them if it has not acted.
    """
    mine = [at for at, record in enumerate(before) if record.agent == agent]
    wrote = [at for at in mine if any(change.path == path for change in _changes(before[at]))]
    return before[: start_of(before[: (wrote or mine)[-1]], agent)] if mine else before


def _files(team: Team, task: Task, before: Sequence[ActionRecord]) -> dict[str, FileChange]:
    """Replays the file history. Traces lack the task's files: those that no agent has to write count."""
    made = {path for spec in team for path in spec.requires}
    given = {*task.files, *(path for spec in team for path in spec.reads if path not in made)}
    changed = {change.path for record in before if record.tool is not None for change in record.tool.files}
    present = {
        path: FileChange(path, "created", 0, _digest(task, path) if path in changed else "") for path in given
    }
    for record in before:
        for change in _changes(record):
            apply(change, present)
    return present


def _changes(record: ActionRecord) -> tuple[FileChange, ...]:
    return record.tool.files if record.tool is not None else ()


def _digest(task: Task, path: str) -> str:
    content = task.files.get(path, b"")
    return hashlib.sha256(content if isinstance(content, bytes) else content.read_bytes()).hexdigest()


def _owner(order: Order, before: Sequence[ActionRecord], agent: str, path: str) -> str | None:
    """Whose doing it is that ``path`` is missing; empty: the order's. None: ``agent`` has to cope with that.

    It is the agent that deleted it last, else the first that has acted of those that have to write it. If
    none of them has acted, it is the manager that called ``agent`` and could have called one of them.
    """
    for record in reversed(before):
        if path in deleted_by(record.tool):
            return record.agent
    makers = {spec.name for spec in order.team if path in spec.requires}
    acted = next((record.agent for record in before if record.agent in makers - {agent}), None)
    if acted is not None or agent in makers or not makers:
        return acted
    call = order.chosen_by(before)
    return call.agent if call is not None and makers.intersection(order.offered(before[: call.step])) else ""
