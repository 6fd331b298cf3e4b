"""Checks for agents that work through files: did the code run, are the files there, is what is said true."""

from __future__ import annotations

from typing import NamedTuple

from mappa_env.coach.artifacts import defects
from mappa_env.coach.case import Case, Finding, deleted_by, exception_of
from mappa_env.coach.evidence import claims_to_save
from mappa_env.types import ToolResult

BLUNDERS = {"SyntaxError", "IndentationError", "TabError", "NameError", "ImportError", "ModuleNotFoundError"}
"""Exceptions that no input file can cause."""


class Run(NamedTuple):
    """The run that an action rests on: its own, else the last one of its stay."""

    tool: ToolResult
    code: str
    missing: tuple[str, ...]


def ran(case: Case, *, failed: float = 0.3, blundered: float = 0.15, excused: float = 0.45) -> Finding:
    """Whether and how the code ran. ``excused``: it failed only because of what an upstream agent left."""
    run = run_of(case)
    if run is None:
        return Finding(0.0, "no code was run, although this work needs it", case.me)
    if run.tool.status == "ok":
        return Finding(1.0, "the code ran")
    name, line = exception_of(run.tool)
    how = line or run.tool.status
    excuse = excuse_of(case)
    if excuse is not None:
        return Finding(excused, f"{excuse[1]} ({how})", excuse[0])
    mark = blundered if run.tool.status != "error" or name in BLUNDERS else failed
    return Finding(mark, f"the code failed: {how}", case.me)


def files(case: Case, *, unfinished: float = 0.25) -> Finding | None:
    """The share of the required files that this agent wrote in this stay.

    ``unfinished``: the least for code that ran while turns are left (looking at the data first is no fault).
    """
    needed = case.evidence.agent.requires
    if not needed or excuse_of(case) is not None:
        return None
    lacking = [path for path in needed if not case.mine(path)]
    if not lacking:
        return Finding(1.0, f"{', '.join(needed)} written")
    share = 1 - len(lacking) / len(needed)
    tool = case.evidence.tool
    if tool is not None and tool.status == "ok" and not case.evidence.last_turn:
        return Finding(max(share, unfinished), f"not written so far: {', '.join(lacking)}", case.me)
    return Finding(share, f"not written: {', '.join(lacking)}", case.me)


def claims(case: Case, *, harmless: float = 0.5) -> Finding | None:
    """Whether what is said to be saved was saved.

    ``harmless``: the false claim is not about a required file.
    """
    evidence = case.evidence
    false = [name for name in evidence.claims if name not in evidence.present]
    lacking = [path for path in evidence.agent.requires if not case.mine(path)]
    if any(name in evidence.agent.requires for name in false):
        return Finding(0.0, f"claimed to be saved, but not written: {', '.join(false)}", case.me)
    stdout = evidence.tool.stdout if evidence.tool is not None else ""
    if lacking and not case.wrote and not evidence.claims and claims_to_save(case.answer, stdout):
        return Finding(0.0, "claimed to have saved, but wrote no file", case.me)
    if false:
        return Finding(harmless, f"claimed to be saved, but not written: {', '.join(false)}", case.me)
    return Finding(1.0, "nothing untrue is claimed")


def intact(case: Case) -> Finding:
    """Whether this stay left the files of the task and of the other agents where they were."""
    runs = [*(record.tool for record in case.own), case.evidence.tool]
    others = {path for spec in case.team if spec.name != case.me for path in spec.requires}
    gone = {path for run in runs for path in deleted_by(run)} - set(case.evidence.present)
    taken = sorted(gone & (others | set(case.evidence.task.files)))
    if taken:
        return Finding(0.0, f"deleted what others need: {', '.join(taken)}", case.me)
    return Finding(1.0, "nothing that others need was deleted")


def run_of(case: Case) -> Run | None:
    evidence = case.evidence
    if evidence.tool is not None:
        return Run(evidence.tool, evidence.code or "", evidence.missing)
    for record in reversed(case.own):
        if record.tool is not None:
            return Run(record.tool, record.code or "", record.missing)
    return None


def excuse_of(case: Case) -> tuple[str, str] | None:
    """(agent, reason) of the upstream fault that made this run fail; None: it is this agent's own failure.

    Only code that really tried to use the missing or broken file is excused.
    """
    run = run_of(case)
    if run is None or run.tool.status != "error":
        return None
    name, line = exception_of(run.tool)
    if name == "FileNotFoundError":
        for path in run.missing:
            owner = case.owner(path)
            if owner is not None and path in run.code and path in line:
                return _root(case, owner), f"{path} is missing, which {owner} had to write"
        return None
    if name in BLUNDERS:
        return None
    for defect in defects(case):
        if defect.writer not in ("", case.me) and defect.path in run.code:
            return defect.writer, f"{defect.path} by {defect.writer} cannot be used: {defect.reason}"
    return None


def _root(case: Case, agent: str) -> str:
    """``agent``, or whom its own last verdict held responsible: it may have been blocked itself."""
    verdicts = [record.verdict for record in case.evidence.history if record.agent == agent]
    return (verdicts[-1].blame if verdicts else None) or agent
