"""The figures of a benchmark as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich.table import Table

from mappa_env.benchmarking.coach.blamed import METHODS, Accuracy
from mappa_env.benchmarking.coach.controls import Earned
from mappa_env.benchmarking.coach.measures import Mean, Proportion
from mappa_env.benchmarking.coach.summary import KEPT, Summary

FOUND = ("coach", "tracing")
"""Methods shown with their intervals; --json has those of the baselines."""
SHOWN = 12
"""Number of missed faults to list."""


def tables(title: str, figures: Summary) -> Iterator[Table | str]:
    """The summary as rich tables and lines of text."""
    discarded = ", ".join(f"{n} {why}" for why, n in figures.discarded.items()) or "none"
    yield (
        f"{title}: {figures.counted} of {figures.tried} faults are valid (discarded: {discarded}); "
        f"culprits {_pairs(figures.culprits)}; {_pairs(figures.layouts)}"
    )
    if not figures.counted:
        return
    yield accuracy_table(figures.accuracy)
    scores, calibration = figures.scores, figures.calibration
    table = Table("scores 0-10", "", title="Scores", title_justify="left")
    table.add_row("clean - faulty, the culprit's action", interval(scores.gap))
    table.add_row("lowest other agent - the culprit's action", interval(scores.margin))
    table.add_row("  median", number(scores.margin_median))
    table.add_row("the culprit's action is strictly the lowest in", percent(scores.strictly_lowest))
    for name, found in figures.lowest.items():
        if name != "all":
            table.add_row(f"  {name}", percent(found))
    table.add_row("later agents' part of their clean score", interval(scores.victims_ratio))
    table.add_row(f"  at least {KEPT:.0%} in", percent(scores.victims_kept))
    table.add_row("clean episodes with a culprit (false alarms)", percent(scores.false_alarm))
    table.add_row("mean score: AUC, ended well or not", number(calibration.auc, 3))
    table.add_row("  Spearman with the score of the outcome", number(calibration.spearman, 3))
    table.add_row("  expected calibration error", number(calibration.ece, 3))
    yield table
    bins = Table(
        "mean score / 10", "episodes", "mean", "ended well", title="Reliability", title_justify="left"
    )
    for row in calibration.bins:
        where = f"{row.low:.1f} to {row.high:.1f}"
        bins.add_row(where, str(row.n), number(row.score), number(row.success))
    yield bins
    if figures.controls:
        yield controls_table(figures.controls)
    yield from _costs(figures)
    for line, times in list(figures.missed.items())[:SHOWN]:
        yield f"missed {times}x: {line}"
    if (more := len(figures.missed) - SHOWN) > 0:
        yield f"... and {more} more kinds of misses (--json has all)"


def accuracy_table(accuracy: Mapping[str, Mapping[str, Accuracy]]) -> Table:
    """A table with two lines per group of faults: accuracy of the agent, and of the turn."""
    table = Table(
        "faults",
        "cases",
        "named",
        *METHODS,
        title="Culprit named, agents weighted alike (95 %)",
        title_justify="left",
    )
    for group, methods in accuracy.items():
        for what in ("agent", "turn"):
            n = methods["coach"].agent.n
            cells = [percent(getattr(methods[name], what), plain=name not in FOUND) for name in METHODS]
            table.add_row(group if what == "agent" else "", str(n) if what == "agent" else "", what, *cells)
    return table


def controls_table(controls: Mapping[str, Earned]) -> Table:
    """A table with what each kind of control earns."""
    table = Table(
        "after another agent's fault",
        "episodes",
        "least",
        "mean",
        "most",
        "least part of its clean score",
        title="What coasting earns (scores of single actions)",
        title_justify="left",
    )
    for kind, found in controls.items():
        cells = (number(value) for value in (found.least, found.mean, found.most))
        table.add_row(kind, str(found.episodes), *cells, f"{found.kept:.0%}")
    return table


def _costs(figures: Summary) -> Iterator[str]:
    cost, stability = figures.cost, figures.stability
    states = ", ".join(f"{name} {part:.1%}" for name, part in cost.status.items())
    yield f"{cost.verdicts} verdicts: {states}"
    if cost.calls:
        dollars = "price not known" if cost.dollars is None else f"${cost.dollars:.4f}"
        yield (
            f"{cost.calls} calls, {cost.prompt} tokens in ({cost.cached} cached), {cost.output} "
            f"out, {cost.thoughts} thought, {dollars}; latency p50 {cost.latency_p50_s:.2f} s, "
            f"p95 {cost.latency_p95_s:.2f} s"
        )
    if stability.actions:
        yield (
            f"repeated verdicts on {stability.actions} actions: SD within an action {number(stability.sd)} "
            f"points, all scores equal for {percent(stability.equal)}"
        )


def percent(found: Proportion, *, plain: bool = False) -> str:
    """``found`` in percent, with its interval unless ``plain``; "-" for NaN."""
    if math.isnan(found.value):
        return "-"
    text = f"{100 * found.value:.1f} %"
    return text if plain else f"{text} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def interval(found: Mean) -> str:
    """``found`` with its interval; "-" for NaN."""
    if math.isnan(found.value):
        return "-"
    return f"{found.value:.2f} [{number(found.low)}, {number(found.high)}]"


def number(value: float, digits: int = 2) -> str:
    """``value`` with ``digits`` decimal places; "-" for NaN."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _pairs(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.items())
