"""Success of runs that benchmarks compare: pooled over seeds, paired by seed and held-out task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.statistics.intervals import Interval, paired_delta, wilson
from mappa_rl.evaluation.results import Result
from mappa_rl.report.runs import RunData

WINDOW = 5
"""Steps whose mean success is followed in training."""


def ends(runs: Sequence[RunData]) -> dict[str, dict[str, list[Result]]]:
    """``T = 1`` and ``best T`` -> ``before`` and ``after`` -> the episodes of all seeds, in one order."""
    found: dict[str, dict[str, list[Result]]] = {}
    for run in runs:
        for arm, temperature in (("T = 1", 1.0), ("best T", run.best)):
            if temperature is not None and ("after", temperature) in run.results:
                for phase in ("before", "after"):
                    found.setdefault(arm, {}).setdefault(phase, []).extend(run.results[phase, temperature])
    return found


def kept(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Any]:
    """What records keep of held-out episodes: a digit for each, 1 if it succeeded, in one order.

    ``tasks``: the number of each one's task, if a task has several.
    """
    same = [[(row.run_seed, row.task_id) for row in rows] for rows in (before, after)]
    assert same[0] == same[1], "other seeds or tasks"
    named = {"before": before, "after": after}
    digits = {phase: "".join(str(int(row.success)) for row in rows) for phase, rows in named.items()}
    known: dict[Any, int] = {}
    tasks = [known.setdefault(each, len(known)) for each in same[0]]
    return digits if len(known) == len(tasks) else {**digits, "tasks": tasks}


def successes(records: Sequence[Mapping[str, Any]], phase: str) -> list[Result]:
    """The episodes whose digits the records keep under ``phase``, with ``temperature`` and ``seed``."""
    return [
        Result(phase, each["temperature"], each["seed"], i, str(task), "", digit == "1", 0.0, {})
        for each in records
        for i, (digit, task) in enumerate(
            zip(each[phase], each.get("tasks", range(len(each[phase]))), strict=True)
        )
    ]


def success(rows: Sequence[Result]) -> Interval:
    return wilson(sum(row.success for row in rows), len(rows))


def difference(first: Sequence[Result], second: Sequence[Result]) -> Interval:
    pairs = zip(first, second, strict=True)
    assert all((a.run_seed, a.task_id) == (b.run_seed, b.task_id) for a, b in pairs), "other seeds or tasks"
    return paired_delta(
        [row.success for row in first],
        [row.success for row in second],
        problems=[(row.run_seed, row.task_id) for row in first],
    )


def reached(run: RunData, level: float) -> int | None:
    """The first step at which the mean success of the last ``WINDOW`` training steps is ``level``."""
    curve = run.curve("success")
    for end in range(WINDOW, len(curve) + 1):
        if sum(value for _, value in curve[end - WINDOW : end]) / WINDOW >= level:
            return curve[end - 1][0]
    return None


def rate(value: Interval) -> str:
    return f"{100 * value.mean:.1f} % [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def signed(value: Interval) -> str:
    return f"{100 * value.mean:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"
