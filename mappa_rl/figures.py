"""Figures of a report as inline SVG: curves over training steps, and before/after by topic."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float]]
"""(step, value) of one run."""
Panels = Mapping[str, Mapping[str, Sequence[Curve]]]
"""Panel title -> line label -> one curve per seed."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette: told apart with every kind of colour vision."""
BEFORE, AFTER = "#9a9a9a", "#0072B2"
INK, FAINT = "#333333", "#d9d9d9"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.titlesize": 9.5,
    "axes.edgecolor": FAINT, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#eeeeee",
    "axes.axisbelow": True, "legend.frameon": False, "lines.solid_capstyle": "round",
}  # fmt: skip


@rc_context(STYLE)
def curves(panels: Panels, *, columns: int = 3, share: tuple[float, float] | None = None) -> Figure:
    """Small multiples over training steps: thin lines are seeds, thick ones their running mean.

    ``share`` is the y range of all panels; None lets each find its own.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = 8.6 if columns > 1 else 6.4
    figure = Figure(figsize=(width, (2.1 if columns > 1 else 2.9) * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for axis, (title, lines) in zip(axes, panels.items(), strict=False):
        axis.set_title(title, loc="left")
        for label, runs in lines.items():
            _line(axis, runs, COLOURS[labels.index(label) % len(COLOURS)], label)
        axis.margins(x=0.01)
        if share is not None:
            axis.set_ylim(*share)
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis in axes[max(len(panels) - columns, 0) : len(panels)]:
        axis.set_xlabel("training step")
    if len(labels) > 1:
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", ncols=min(len(labels), 6))
    return figure


@rc_context(STYLE)
def before_after(rates: Mapping[str, tuple[float, float, int]]) -> Figure:
    """Held-out success by topic, before and after: (before, after, episodes) by topic."""
    topics = sorted(rates, key=lambda topic: rates[topic][0])
    figure = Figure(figsize=(6.8, 0.3 * len(topics) + 1.1), layout="constrained")
    axis = figure.subplots()
    for row, topic in enumerate(topics):
        old, new, _ = rates[topic]
        axis.plot([old, new], [row, row], color=FAINT, linewidth=3, zorder=1)
    for name, colour, which in (("before", BEFORE, 0), ("after", AFTER, 1)):
        values = [rates[topic][which] for topic in topics]
        axis.scatter(values, range(len(topics)), color=colour, s=42, zorder=2, label=name)
    axis.set_yticks(range(len(topics)), [f"{_plain(topic)}  (n={rates[topic][2]})" for topic in topics])
    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.6, len(topics) - 0.4)
    axis.set_xlabel("held-out success")
    axis.grid(axis="y", visible=False)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def svg(figure: Figure, name: str) -> str:
    """The figure as markup to put into an HTML page: no prolog, no metadata, no address of anything outside.

    ``name`` keeps the ids of several figures on one page apart; the same figure gives the same markup.
    """
    buffer = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", text)
    return text.replace("xlink:href", "href")


def _line(axis: Axes, runs: Sequence[Curve], colour: str, label: str) -> None:
    clean = [[(x, y) for x, y in run if math.isfinite(y)] for run in runs]
    for run in clean:
        axis.plot(*_columns(run), color=colour, linewidth=0.7, alpha=0.3)
    points: dict[int, list[float]] = {}
    for run in clean:
        for x, y in run:
            points.setdefault(x, []).append(y)
    mean = [(x, sum(ys) / len(ys)) for x, ys in sorted(points.items())]
    axis.plot(*_columns(smooth(mean)), color=colour, linewidth=1.9, label=_plain(label))


def smooth(curve: Curve) -> list[tuple[int, float]]:
    """Centred running mean over about an eighth of the curve (nothing for short ones)."""
    half = len(curve) // 16
    values = [y for _, y in curve]
    windows = [values[max(i - half, 0) : i + half + 1] for i in range(len(values))]
    return [(x, sum(w) / len(w)) for (x, _), w in zip(curve, windows, strict=True)]


def _columns(curve: Curve) -> tuple[list[int], list[float]]:
    return [x for x, _ in curve], [y for _, y in curve]


def _plain(label: str) -> str:
    """A label that matplotlib takes literally: no mathematics, and no leading underscore, which hides it."""
    return label.replace("$", r"\$").lstrip("_") or "-"
