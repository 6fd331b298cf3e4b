"""The figure of ``real_model.py``: success in training, and on held-out tasks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compared import WINDOW, success, successes
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mappa_rl.report.style import BEFORE, COLOURS, STYLE


def draw(records: Sequence[Mapping[str, Any]], base: str, path: Path) -> None:
    """Write the figure of the runs in ``records``; ``base``: the arm that has several seeds."""
    with rc_context({**STYLE, "figure.facecolor": "white", "savefig.facecolor": "white"}):
        controls = [each for each in records if each["arm"] != base and each["curve"]]
        figure = Figure(figsize=(11 if controls else 8, 3.4), layout="constrained")
        seeds, *arms, held = figure.subplots(1, 3 if controls else 2)
        mine = sorted((each for each in records if each["arm"] == base), key=lambda each: each["seed"])
        _curves(seeds, {f"seed {each['seed']}": each["curve"] for each in mine})
        seeds.set_title(f"{base}: success in training")
        beside = [each for each in mine if each["seed"] in {other["seed"] for other in controls}]
        for axes in arms:
            shown = {f"{each['arm']}, seed {each['seed']}": each["curve"] for each in [*beside, *controls]}
            _curves(axes, shown)
            axes.set_title("other arms, same seed")
        _held_out(held, records)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _curves(axes: Axes, curves: Mapping[str, Sequence[float]]) -> None:
    for colour, (label, values) in zip(COLOURS, curves.items(), strict=False):
        means = [statistics.fmean(values[max(0, k - WINDOW + 1) : k + 1]) for k in range(len(values))]
        axes.plot(range(1, len(values) + 1), means, color=colour, label=label)
    axes.set(xlabel=f"step (mean of the last {WINDOW})", ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(loc="lower right")


def _held_out(axes: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    for row, record in enumerate(records):
        for phase, colour in (("before", BEFORE), ("after", COLOURS[0])):
            found = success(successes([record], phase))
            spread = [[found.mean - found.low], [found.high - found.mean]]
            label = None if row else phase
            axes.errorbar(found.mean, row, xerr=spread, fmt="o", color=colour, label=label)
    names = [f"{each['arm']}, seed {each['seed']}" for each in records]
    axes.set_yticks(range(len(records)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), title="held-out success, 95 % intervals")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(loc="best")
