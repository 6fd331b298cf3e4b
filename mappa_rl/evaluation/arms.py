"""Two paired evaluations become an arm: success and quality before and after, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mappa_env.grading.fair import KEYS as FAIR
from mappa_env.statistics import intervals as stats
from mappa_rl.errors import RunError
from mappa_rl.evaluation.repeats import by_problem, repeated
from mappa_rl.evaluation.results import Result
from mappa_rl.evaluation.summary import Arm, Interval, Measure


def compare(
    before: Sequence[Result], after: Sequence[Result], *, best: bool = False, samples: int = 1
) -> Arm:
    """The arm of paired rows, of one run or several; the bootstrap of the difference draws within seeds.

    Where tasks are played more than once all intervals are over tasks, each with the same weight. With
    ``samples`` episodes per task pass@k and majorities are measured.
    """
    first = {(row.run_seed, row.index): row for row in before}
    second = {(row.run_seed, row.index): row for row in after}
    if first.keys() != second.keys() or len(first) != len(before) or len(second) != len(after):
        raise RunError(
            f"evaluations do not pair up: {len(before)} episodes before, {len(after)} after, "
            f"{len(first.keys() & second.keys())} in common. Evaluate both with the same tasks and seeds."
        )
    pairs = sorted(first)
    for pair in pairs:
        if first[pair].task_id != second[pair].task_id:
            raise RunError(
                f"evaluations do not pair up: episode {pair[1]} of seed {pair[0]} is on task "
                f"{first[pair].task_id!r} before and {second[pair].task_id!r} after."
            )
    n, old, new = len(pairs), [first[p].success for p in pairs], [second[p].success for p in pairs]
    seeds = [seed for seed, _ in pairs]
    problems = [(seed, first[seed, index].task_id) for seed, index in pairs]
    measures = dict(_measures([(first[pair], second[pair]) for pair in pairs]))
    if samples > 1:
        measures |= _repeated(before, after)
    return Arm(
        temperature=before[0].temperature,
        best=best,
        before=_interval(rate([first[pair] for pair in pairs]), n),
        after=_interval(rate([second[pair] for pair in pairs]), n),
        delta=_interval(stats.paired_delta(old, new, problems=problems, groups=seeds), n),
        measures=measures,
    )


def rate(rows: Sequence[Result]) -> stats.Interval:
    """The success rate with its 95 % interval: over tasks, if any was played more than once."""
    won, problems = [row.success for row in rows], _problems(rows)
    if len(set(problems)) == len(problems):
        return stats.wilson(sum(won), len(won))
    return stats.mean_ci(won, problems=problems, groups=[row.run_seed for row in rows])


def _problems(rows: Sequence[Result]) -> list[tuple[int, str]]:
    return [(row.run_seed, row.task_id) for row in rows]


def _repeated(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Measure]:
    """pass@k and majorities; ``n`` counts episodes, intervals are over tasks."""
    old, new = repeated(before), repeated(after)
    seeds = [seed for seed, _ in by_problem(before)]
    return {
        name: Measure(
            before=_interval(stats.mean_ci(old[name], groups=seeds), len(before)),
            after=_interval(stats.mean_ci(new[name], groups=seeds), len(before)),
            delta=_interval(stats.paired_delta(old[name], new[name], groups=seeds), len(before)),
        )
        for name in old
        if name in new
    }


def _measures(pairs: Sequence[tuple[Result, Result]]) -> Iterator[tuple[str, Measure]]:
    """The Fair metrics of the episodes that have them on both sides: failed runs have them too."""
    for key in FAIR:
        both = [(a, b) for a, b in pairs if key in a.metrics and key in b.metrics]
        if not both:
            continue
        old, new = [a.metrics[key] for a, _ in both], [b.metrics[key] for _, b in both]
        seeds, n = [a.run_seed for a, _ in both], len(both)
        problems = _problems([a for a, _ in both])
        tasks = problems if len(set(problems)) < n else None
        yield (
            key,
            Measure(
                before=_interval(stats.mean_ci(old, groups=seeds, problems=tasks), n),
                after=_interval(stats.mean_ci(new, groups=seeds, problems=tasks), n),
                delta=_interval(stats.paired_delta(old, new, problems=problems, groups=seeds), n),
            ),
        )


def _interval(found: stats.Interval, n: int) -> Interval:
    return Interval(mean=found.mean, low=found.low, high=found.high, n=n)
