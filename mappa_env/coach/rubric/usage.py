"""Whether a program used an unsound input, and whether that input explains how the program ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mappa_env.coach.program import BLUNDERS, Program, exception_of
from mappa_env.coach.rubric.artifacts import RUNS_CODE, Defect
from mappa_env.coach.rubric.helper_failures import failed_over


def tried(programs: Sequence[Program], causes: Sequence[Defect], given: Collection[str]) -> bool:
    """Whether a program used one of the unsound inputs, whatever came of it.

    ``given``: the files of the task and what the agent should read. A program that used one of them and
    failed was to do without the unsound one. To list the folder is to look around: it counts only beside the
    use of a file, or if a program then failed, as one does that reports what it did not find.
    """
    used = [run for run in programs if any(run.uses(path) for path in given)]
    if any(run.tool.status == "error" for run in used):
        return True
    looked = bool(used) or any(run.failed for run in programs)
    return any(
        explains(cause, run, listed=looked)
        if run.tool.status not in ("ok", "error") or cause.fills or cause.helper is not None
        else run.uses(cause.path, listed=cause.observed and looked)
        for cause in causes
        for run in programs
    )


def explains(cause: Defect, run: Program, *, listed: bool = True) -> bool:
    """Whether an unsound input explains that a program failed: the program used it.

    Contents explain any end: code in a pickle may hang or exhaust memory. What is missing, or in the way,
    raises an exception; a listing shows it, too. A full workspace explains that nothing can be written.
    A blunder, such as a NameError, is the program's own, unless the probe got the same or loading the input
    runs code of its writer. ``listed``: whether a listing counts.
    """
    if cause.fills:
        return run.out_of_space
    if cause.helper is not None:
        return failed_over(run, cause.helper)
    if run.tool.status == "ok" or not run.uses(cause.path, listed=cause.observed and listed):
        return False
    if run.tool.status != "error":
        return not cause.observed
    name = exception_of(run.tool)[0]
    return name not in BLUNDERS or name in cause.reason or RUNS_CODE in cause.reason
