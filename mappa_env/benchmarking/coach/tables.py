"""The figures of a benchmark, to be read in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from mappa_env.benchmarking.coach.naming import METHODS

FOUND = ("coach", "trail")
"""Methods that look at what was done; the intervals of the baselines are in --json."""
SHOWN = 12
"""Lines of what was missed."""


def tables(title: str, figures: Mapping[str, Any]) -> Iterator[Table | str]:
    """Rich tables and lines."""
    discarded = ", ".join(f"{n} {why}" for why, n in figures["discarded"].items()) or "none"
    yield (
        f"{title}: {figures['counted']} faults count of {figures['tried']} tried (discarded: {discarded}); "
        f"culprits {_pairs(figures['culprits'])}; {_pairs(figures['layouts'])}"
    )
    if not figures["counted"]:
        return
    yield accuracy_table(figures["accuracy"])
    scores, calibration = figures["scores"], figures["calibration"]
    table = Table("scores 0-10", "", title="What the scores say", title_justify="left")
    table.add_row("clean - faulty, the culprit's action", interval(scores["gap"]))
    table.add_row("lowest other agent - the culprit's action", interval(scores["margin"]))
    table.add_row("  above 0 in", percent(scores["margin_positive"]))
    table.add_row("later agents within 1 point of the clean twin", percent(scores["innocence"]))
    table.add_row("clean episodes with a culprit (false alarms)", percent(scores["false_alarm"]))
    table.add_row("mean score: AUC, ended well or not", number(calibration["auc"], 3))
    table.add_row("  Spearman with the score of the outcome", number(calibration["spearman"], 3))
    table.add_row("  expected calibration error", number(calibration["ece"], 3))
    yield table
    bins = Table(
        "mean score / 10", "episodes", "mean", "ended well", title="Reliability", title_justify="left"
    )
    for row in calibration["bins"]:
        where = f"{row['low']:.1f} to {row['high']:.1f}"
        bins.add_row(where, str(row["n"]), number(row["score"]), number(row["success"]))
    yield bins
    yield from _costs(figures)
    for line, times in list(figures["missed"].items())[:SHOWN]:
        yield f"missed {times}x: {line}"
    if (more := len(figures["missed"]) - SHOWN) > 0:
        yield f"... and {more} kinds of misses more (--json has all)"


def accuracy_table(accuracy: Mapping[str, Any]) -> Table:
    table = Table(
        "faults", "cases", "named", *METHODS, title="Culprit named, agents weighted alike (95 %)",
        title_justify="left",
    )  # fmt: skip
    for group, methods in accuracy.items():
        for what in ("agent", "turn"):
            n = methods["coach"][what]["n"]
            cells = [percent(methods[name][what], plain=name not in FOUND) for name in METHODS]
            table.add_row(group if what == "agent" else "", str(n) if what == "agent" else "", what, *cells)
    return table


def _costs(figures: Mapping[str, Any]) -> Iterator[str]:
    cost, stability = figures["cost"], figures["stability"]
    states = ", ".join(f"{name} {part:.1%}" for name, part in cost["status"].items())
    yield f"{cost['verdicts']} verdicts: {states}"
    if cost["calls"]:
        dollars = "price not known" if cost["dollars"] is None else f"${cost['dollars']:.4f}"
        yield (
            f"{cost['calls']} calls, {cost['prompt']} tokens in ({cost['cached']} cached), {cost['output']} "
            f"out, {cost['thoughts']} thought, {dollars}; latency p50 {cost['latency_p50_s']:.2f} s, "
            f"p95 {cost['latency_p95_s']:.2f} s"
        )
    if stability["actions"]:
        yield (
            f"asked anew, {stability['actions']} actions: SD within an action {number(stability['sd'])} "
            f"points, all answers equal for {percent(stability['equal'])}"
        )


def percent(found: Mapping[str, Any], *, plain: bool = False) -> str:
    if math.isnan(found["value"]):
        return "-"
    text = f"{100 * found['value']:.1f} %"
    return text if plain else f"{text} [{100 * found['low']:.0f}, {100 * found['high']:.0f}]"


def interval(found: Mapping[str, Any]) -> str:
    if math.isnan(found["value"]):
        return "-"
    return f"{found['value']:.2f} [{number(found['low'])}, {number(found['high'])}]"


def number(value: float, digits: int = 2) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _pairs(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.items())
