"""Figures of a report: small panels over training steps, and success before and after by topic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mappa_env.statistics.intervals import student
from mappa_rl.report.style import AFTER, BEFORE, FAINT, STYLE, colour_of, literal

PANEL_INCHES = (3.3, 2.1)
WIDE_INCHES = (4.7, 2.5)
"""Size of an only panel. The page draws all panels to about the same scale."""
_BESIDE = 0.012
"""How far marks of several lines at one step stand beside each other, as a fraction of the steps."""
Curve = Sequence[tuple[int, float]]
"""(step, value) of one run."""
Panels = Mapping[str, Mapping[str, Sequence[Curve]]]
"""Panel title -> line label -> one curve per seed."""


@dataclass(frozen=True, slots=True)
class Point:
    """An estimate at a training step with the ends of its interval."""

    step: int
    mean: float
    low: float
    high: float


Marks = Mapping[str, Sequence[Point]]
"""Line label -> evaluations to mark in a panel with curves."""
Bands = Mapping[str, Mapping[str, Sequence[Sequence[Point]]]]
"""Panel title -> line label -> the estimates of each run."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels that share a legend and, where they compare, the range of their y axes."""

    figures: Sequence[Figure]
    labels: Sequence[str] = ()
    """Labels of the lines in the order of their colours; the legend is the page's."""


@dataclass(frozen=True, slots=True)
class TopicRate:
    """Held-out success on the tasks of one topic."""

    topic: str
    before: float
    after: float
    episodes: int


@rc_context(STYLE)
def curves(
    panels: Panels,
    *,
    limits: tuple[float, float] | None = None,
    marks: Marks | None = None,
    banded: bool = False,
) -> Chart:
    """One figure per panel: thin lines are seeds, thick lines their running mean.

    ``banded``: instead of thin lines, the 95 % interval of the mean over seeds, where there are several.
    ``marks`` adds evaluations as diamonds. ``limits`` is the y range of all panels; with None each finds its
    own.
    """
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    figures = []
    for title, lines in panels.items():
        figure, axis = _panel(title, WIDE_INCHES if len(panels) == 1 else PANEL_INCHES)
        for place, (label, runs) in enumerate(lines.items()):
            colour = colour_of(labels.index(label))
            _line(axis, runs, colour, banded)
            aside = (
                _BESIDE * (place - (len(lines) - 1) / 2) * max((x for run in runs for x, _ in run), default=1)
            )
            for point in (marks or {}).get(label, ()):
                size = [[point.mean - point.low], [point.high - point.mean]]
                axis.errorbar(
                    [point.step + aside],
                    [point.mean],
                    size,
                    fmt="D",
                    markersize=5.5,
                    color=colour,
                    capsize=3,
                    zorder=4,
                )
        axis.margins(x=0.03)
        if limits is not None:
            axis.set_ylim(*limits)
        figures.append(figure)
    return Chart(figures, labels)


@rc_context(STYLE)
def bands(panels: Bands) -> Chart:
    """Estimates over training steps with their intervals, around zero, on one y range."""
    labels = sorted({label for lines in panels.values() for label in lines})
    points = [p for lines in panels.values() for runs in lines.values() for run in runs for p in run]
    low, high = min(p.low for p in points), max(p.high for p in points)
    room = 0.05 * (high - low) or 0.1
    figures = []
    for title, lines in panels.items():
        figure, axis = _panel(title, WIDE_INCHES if len(panels) == 1 else PANEL_INCHES)
        axis.axhline(0, color=FAINT, linewidth=1)
        for label, runs in sorted(lines.items()):
            colour = colour_of(labels.index(label))
            for run in runs:
                steps = [p.step for p in run]
                axis.fill_between(
                    steps, [p.low for p in run], [p.high for p in run], color=colour, alpha=0.15, linewidth=0
                )
                axis.plot(steps, [p.mean for p in run], color=colour, marker=".")
        axis.set_ylim(min(low, 0) - room, max(high, 0) + room)
        figures.append(figure)
    return Chart(figures, labels)


@rc_context(STYLE)
def before_after(rates: Sequence[TopicRate]) -> Figure:
    """Held-out success by topic, before and after training."""
    rates = sorted(rates, key=lambda rate: rate.before)
    figure = Figure(figsize=(WIDE_INCHES[0], 0.28 * len(rates) + 0.9), layout="constrained")
    axis = figure.subplots()
    for row, rate in enumerate(rates):
        axis.plot([rate.before, rate.after], [row, row], color=FAINT, linewidth=3, zorder=1)
    rows = range(len(rates))
    axis.scatter([rate.before for rate in rates], rows, color=BEFORE, s=42, zorder=2)
    axis.scatter([rate.after for rate in rates], rows, color=AFTER, s=42, zorder=2)
    axis.set_yticks(rows, [f"{literal(rate.topic)}  (n={rate.episodes})" for rate in rates])
    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.6, len(rates) - 0.4)
    axis.set_xlabel("held-out success")
    axis.grid(axis="y", visible=False)
    return figure


def smooth(curve: Curve) -> list[tuple[int, float]]:
    """Centred running mean over about an eighth of the curve (nothing for short ones)."""
    half = len(curve) // 16
    values = [y for _, y in curve]
    windows = [values[max(i - half, 0) : i + half + 1] for i in range(len(values))]
    return [(x, sum(w) / len(w)) for (x, _), w in zip(curve, windows, strict=True)]


def _panel(title: str, inches: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=inches, layout="constrained")
    axis = figure.subplots()
    axis.set_title(literal(title), loc="left")
    axis.set_xlabel("training step")
    axis.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, min_n_ticks=1))
    return figure, axis


def _line(axis: Axes, runs: Sequence[Curve], colour: str, banded: bool) -> None:
    clean = [[(x, y) for x, y in run if math.isfinite(y)] for run in runs]
    if banded:  # the interval belongs to the smoothed curves that are drawn
        clean = [smooth(run) for run in clean]
    points: dict[int, list[float]] = {}
    for run in clean:
        for x, y in run:
            points.setdefault(x, []).append(y)
    mean = [(x, sum(ys) / len(ys)) for x, ys in sorted(points.items())]
    if not banded:
        for run in clean:
            axis.plot(*_columns(run), color=colour, linewidth=0.7, alpha=0.35)
    elif len(runs) > 1:
        spread = [(x, student(ys)) for x, ys in sorted(points.items()) if len(ys) > 1]
        lows, highs = [found.low for _, found in spread], [found.high for _, found in spread]
        axis.fill_between([x for x, _ in spread], lows, highs, color=colour, alpha=0.15, linewidth=0)
    alone = "o" if len(mean) == 1 else None  # a line through one point cannot be seen
    axis.plot(
        *_columns(mean if banded else smooth(mean)), color=colour, linewidth=1.9, marker=alone, markersize=4
    )


def _columns(curve: Curve) -> tuple[list[int], list[float]]:
    return [x for x, _ in curve], [y for _, y in curve]
