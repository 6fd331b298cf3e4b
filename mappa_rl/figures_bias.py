"""Figures about a coach's bias: mean scores by role and family, what the monitor finds, how anchors drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from mappa_rl.figures import COLOURS, FAINT, STYLE, Curve, curves
from mappa_rl.runs import RunData

Band = Sequence[tuple[int, float, float, float]]
"""(step, estimate, low, high) of one run."""
Bands = Mapping[str, Mapping[str, Sequence[Band]]]
"""Panel title -> line label -> one band per run."""


def bias_figures(runs: Sequence[RunData]) -> dict[str, Figure]:
    """The figures there is something to draw for, by name."""
    found = {}
    if scores := _scores(runs):
        found["scores"] = curves(scores)
    if findings := _bands(runs, "bias", lambda kind, family: (f"{kind}, points", family)):
        found["bias"] = bands(findings, columns=2)
    if drift := _bands(runs, "anchors", lambda *stratum: ("/".join(stratum), "drift")):
        found["anchors"] = bands(drift, columns=4)
    return found


@rc_context(STYLE)
def bands(panels: Bands, *, columns: int) -> Figure:
    """Estimates over training steps with their intervals, around zero."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(8.6 if columns > 1 else 6.4, 2.1 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    labels = sorted({label for lines in panels.values() for label in lines})
    for axis, (title, lines) in zip(axes, panels.items(), strict=False):
        axis.set_title(title, loc="left")
        axis.axhline(0, color=FAINT, linewidth=1)
        for label, runs in sorted(lines.items()):
            colour = COLOURS[labels.index(label) % len(COLOURS)]
            for number, band in enumerate(runs):
                step, mean, low, high = zip(*band, strict=True)
                axis.fill_between(step, low, high, color=colour, alpha=0.15, linewidth=0)
                axis.plot(step, mean, color=colour, marker=".", label=label if not number else None)
        axis.set_xlabel("training step")
    for axis in axes[len(panels) :]:
        axis.remove()
    if len(labels) > 1:
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", ncols=min(len(labels), 6))
    return figure


def _scores(runs: Sequence[RunData]) -> dict[str, dict[str, list[Curve]]]:
    """Role -> family (as given, and as corrected) -> curves."""
    found: dict[str, dict[str, list[Curve]]] = {}
    for prefix, suffix in (("score", ""), ("score_corrected", ", corrected")):
        for name in _names(runs, prefix):
            _, family, role = name.split("/")
            for run in runs:
                curve = [(row["step"], row[name]) for row in run.metrics if row.get(name) is not None]
                if curve:
                    label = _label(runs, run, family + suffix)
                    found.setdefault(role, {}).setdefault(label, []).append(curve)
    return found


def _bands(runs: Sequence[RunData], prefix: str, place: Any) -> dict[str, dict[str, list[Band]]]:
    """Metrics ``<prefix>/<parts>`` that have ``<prefix>_low`` and ``<prefix>_high`` beside them.

    ``place(*parts)``: title of the panel and label of the line.
    """
    found: dict[str, dict[str, list[Band]]] = {}
    for low in _names(runs, f"{prefix}_low"):
        parts = low.split("/")[1:]
        wanted = ["/".join((start, *parts)) for start in (prefix, f"{prefix}_low", f"{prefix}_high")]
        title, label = place(*parts)
        for run in runs:
            band = [(row["step"], *(row[n] for n in wanted)) for row in run.metrics if wanted[0] in row]
            if band:
                found.setdefault(title, {}).setdefault(_label(runs, run, label), []).append(band)
    return found


def _names(runs: Sequence[RunData], prefix: str) -> list[str]:
    return sorted({n for run in runs for row in run.metrics for n in row if n.startswith(f"{prefix}/")})


def _label(runs: Sequence[RunData], run: RunData, label: str) -> str:
    """Runs that pay for other things train other policies: their lines are kept apart."""
    return label if len({other.variant for other in runs}) == 1 else f"{label}, {run.variant}"
