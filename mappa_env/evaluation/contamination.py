"""Whether a model does better on contests that its training data may hold than on later ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mappa_env.errors import EvaluationError, StatsError
from mappa_env.evaluation.episodes import Played
from mappa_env.evaluation.figures import over_tasks
from mappa_env.evaluation.years import number_of, year_of
from mappa_env.statistics.intervals import Interval, mean_ci, share_ci
from mappa_env.statistics.permutation import association_p

RESAMPLES = 4000
LIMITS = (
    "A low p says that older problems are solved more often than chance would have it, not why: contests "
    "became harder over the years. Problem numbers are held equal where ids name them; --reference compares "
    "with a model whose training ended earlier, which takes the years' difficulty out.",
    "A high p does not show that nothing leaked: with few tasks only a large gap is seen, and a problem may "
    "be published before its contest's year ends, or reworded in training data.",
)
"""What the figures cannot say."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Before against after the cut-off. ``difference``: before minus after.

    Intervals are over tasks; one task has none, and a difference has none with one task on a side.
    ``untested``: why ``p`` is None.
    """

    cutoff: int
    before: Interval
    after: Interval
    difference: Interval
    p: float | None
    untested: str = ""


@dataclass(frozen=True, slots=True)
class Contamination:
    """What an evaluation in one environment says by year.

    ``what``: the measure, a rate by task, or a difference of two rates. ``years``: year -> its mean over
    tasks. ``p``: of the hypothesis that older years are no easier; None if it cannot be tested, and
    ``untested`` says why. ``gap``: None without a cut-off, and where one side of it has no task. ``strata``:
    whether problem numbers were held equal. ``unknown``: tasks without a known year, which are left out.
    """

    env: str
    what: str
    tasks: int
    unknown: int
    years: Mapping[int, Interval]
    p: float | None
    gap: Gap | None
    strata: bool
    untested: str = ""


def success_by_task(played: Iterable[Played], env: str) -> dict[str, float]:
    """Task id -> its rate of success."""
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for each in played:
        if each.env == env:
            found[each.task_id].append(each.success)
    return {task: sum(wins) / len(wins) for task, wins in found.items()}


def contamination(
    env: str,
    what: str,
    values: Mapping[str, float],
    known: Mapping[str, int],
    cutoff: int | None,
    draws: int | None = None,
) -> Contamination:
    """The report on ``values``, one per task id. ``known``: years that ids do not tell.

    ``draws``: episodes of each task, where values are shares of them; None: values are something else.
    ``cutoff``: the last year whose contests the model may have been trained on. Raises EvaluationError if no
    task has a year.
    """
    dated = {task: year for task in sorted(values) if (year := year_of(task, known)) is not None}
    if not dated:
        raise EvaluationError(
            f"no task of {env} has a known year, like aime-2024-II-15 has: give a file with --years."
        )
    numbers = [number_of(task) for task in dated]
    strata = numbers if None not in numbers else None
    data, years = [values[task] for task in dated], list(dated.values())
    p, untested = _p(data, [-year for year in years], strata)
    return Contamination(
        env=env,
        what=what,
        tasks=len(dated),
        unknown=len(values) - len(dated),
        years={
            year: over_tasks(_interval([v for v, y in zip(data, years, strict=True) if y == year], draws))
            for year in sorted(set(years))
        },
        p=p,
        gap=None if cutoff is None else _gap(data, years, cutoff, strata, draws),
        strata=strata is not None,
        untested=untested,
    )


def _gap(
    data: Sequence[float],
    years: Sequence[int],
    cutoff: int,
    strata: Sequence[int | None] | None,
    draws: int | None,
) -> Gap | None:
    old = [year <= cutoff for year in years]
    before = [v for v, is_old in zip(data, old, strict=True) if is_old]
    after = [v for v, is_old in zip(data, old, strict=True) if not is_old]
    if not before or not after:
        return None
    one, two = _interval(before, draws), _interval(after, draws)
    difference = _difference(before, after) if draws is None else _between(one, two)
    if min(one.n, two.n) < 2:
        difference = difference.unbounded
    one, two = over_tasks(one), over_tasks(two)
    return Gap(cutoff, one, two, difference, *_p(data, [float(is_old) for is_old in old], strata))


def _interval(data: Sequence[float], draws: int | None) -> Interval:
    return mean_ci(data) if draws is None else share_ci(data, draws)


def _between(one: Interval, two: Interval) -> Interval:
    """The difference of two independent shares, from their intervals (Newcombe 1998, Stat. Med. 17, 873)."""
    gap = one.mean - two.mean
    below = ((one.mean - one.low) ** 2 + (two.high - two.mean) ** 2) ** 0.5
    above = ((one.high - one.mean) ** 2 + (two.mean - two.low) ** 2) ** 0.5
    return Interval(gap, gap - below, gap + above, one.n + two.n)


def _difference(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Of two independent means, by a bootstrap that redraws the tasks of each side."""
    rng, one, two = np.random.default_rng(0), np.asarray(before), np.asarray(after)
    drawn = [rng.choice(one, len(one)).mean() - rng.choice(two, len(two)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(float(one.mean() - two.mean()), float(low), float(high), len(one) + len(two))


def _p(
    data: Sequence[float], against: Sequence[float], strata: Sequence[int | None] | None
) -> tuple[float | None, str]:
    """p, or None and why there is nothing to test."""
    try:
        return association_p(data, against, strata=strata), ""
    except StatsError:
        if len(set(data)) == 1:
            return None, "all tasks did equally well"
        if len(set(against)) == 1:
            return None, "all tasks are of one year"
        return None, "among tasks of one problem number, all did equally well or are equally old"
