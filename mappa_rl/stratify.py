"""Which tasks a training step draws, so that every step has its share of each task family."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

from mappa_env.data.base import TaskSet


def families(tasks: TaskSet) -> dict[str, list[str]]:
    """Task family -> ids, in the task set's order. Builds every task once: its metric says the family."""
    found: dict[str, list[str]] = {}
    for task_id in tasks.ids:
        found.setdefault(tasks.get(task_id).family, []).append(task_id)
    return found


def stratified(
    pools: Mapping[str, Sequence[str]], count: int, how: Literal["proportional", "equal"], seed: int
) -> list[str]:
    """``count`` ids, with replacement inside a family, in an order that mixes families.

    Systematic sampling: marks a ``count``-th apart, from an offset that ``seed`` draws, over the families
    laid end to end. So a family with a share of s (of all tasks; 1 / families for ``equal``) has s ``count``
    of a step's tasks, rounded down or up, and exactly s of all tasks on average.
    """
    draw = random.Random(seed)
    names = sorted(pools)
    ends = list(itertools.accumulate(len(pools[name]) if how == "proportional" else 1 for name in names))
    offset = draw.random()
    marks = ((k + offset) / count * ends[-1] for k in range(count))
    drawn = [draw.choice(pools[names[min(bisect_right(ends, mark), len(names) - 1)]]) for mark in marks]
    draw.shuffle(drawn)
    return drawn
