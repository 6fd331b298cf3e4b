"""Several episodes of each task: pass@k, and what a majority of them would have answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mappa_env.errors import StatsError
from mappa_env.grading.votes import pooled
from mappa_env.statistics.repeats import majority, pass_at_k
from mappa_rl.errors import ConfigError
from mappa_rl.evaluation.results import Result

Problem = tuple[int, str]
"""(run seed, task id)"""


def check_repeats(samples: int, key: str, total: int, tasks: int) -> None:
    """Raise ConfigError where ``total`` episodes, ``samples`` per task, need more than ``tasks`` tasks.

    ``key`` is the setting that asks for ``total``.
    """
    if samples > 1 and total > samples * tasks:
        raise ConfigError(
            f"{key}={total} with eval.group_size={samples} needs {total // samples} tasks, but "
            f"there are {tasks}; use {key}={samples * tasks}."
        )


def by_problem(rows: Sequence[Result]) -> dict[Problem, list[Result]]:
    """The rows of every task, in order of (run seed, task id). Raises StatsError where some have more."""
    found: defaultdict[Problem, list[Result]] = defaultdict(list)
    for row in rows:
        found[row.run_seed, row.task_id].append(row)
    sizes = {len(mine) for mine in found.values()}
    if len(sizes) > 1:
        raise StatsError(
            f"tasks have between {min(sizes)} and {max(sizes)} episodes: pass@k and majorities compare tasks "
            "with equally many. Evaluate all again with one eval.group_size."
        )
    return dict(sorted(found.items()))


def repeated(rows: Sequence[Result]) -> dict[str, list[float]]:
    """Name -> one value per task, in the order of ``by_problem``.

    ``pass@k`` for k = 1, 2, 4, ... and n: the chance that one of k drawn episodes succeeds (unbiased).
    Where episodes have answers, also ``maj@n``: whether the most common answer is right. A tie has ``ties@n``
    of 1, and its ``maj@n`` is the fraction of the tied answers that are right. An episode without an answer
    does not vote. A task without votes counts as unsolved.
    """
    problems = by_problem(rows)
    n = len(next(iter(problems.values())))
    values: dict[str, list[float]] = {}
    for k in sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}):
        values[f"pass@{k}"] = [pass_at_k(n, sum(r.success for r in mine), k) for mine in problems.values()]
    if any(row.answer is not None for row in rows):
        votes = [_majority(mine) for mine in problems.values()]
        values[f"maj@{n}"] = [right for right, _ in votes]
        values[f"ties@{n}"] = [float(tied) for _, tied in votes]
    return values


def _majority(rows: Sequence[Result]) -> tuple[float, bool]:
    """Of one task: whether the most common answer is right, and whether it tied."""
    votes = pooled([row.answer for row in rows])
    return majority(list(zip(votes, [row.success for row in rows], strict=True)))
