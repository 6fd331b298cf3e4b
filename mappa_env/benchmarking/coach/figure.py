"""A figure of the benchmark: accuracy of blame, and how scores relate to outcomes."""

from __future__ import annotations

from pathlib import Path

from mappa_env.benchmarking.coach.blamed import METHODS
from mappa_env.benchmarking.coach.summary import Summary
from mappa_env.benchmarking.sandbox.figure import COLOURS


def draw(title: str, figures: Summary, path: Path) -> None:
    """Draw accuracies of agent and action with 95 % intervals, and a reliability diagram, to ``path``."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9.5, 4.0), layout="constrained", dpi=150)
    picture.suptitle(f"{title}: {figures.counted} confirmed faults", fontsize=10)
    left, right = picture.subplots(1, 2, width_ratios=(3, 2))
    for shift, what in ((-0.2, "agent"), (0.2, "turn")):
        found = [getattr(figures.accuracy["all"][method], what) for method in METHODS]
        values = [each.value for each in found]
        low = [each.value - each.low for each in found]
        high = [each.high - each.value for each in found]
        low[-1] = high[-1] = 0.0  # chance is known
        places = [place + shift for place in range(len(METHODS))]
        colour = COLOURS[0] if what == "agent" else COLOURS[1]
        left.bar(places, values, 0.38, color=colour, label=what, yerr=(low, high), capsize=2)
    left.set_xticks(range(len(METHODS)), [name.replace(" ", "\n") for name in METHODS])
    left.set_ylim(0, 1.05)
    left.set_ylabel("culprit named")
    left.legend(frameon=False)
    bins = figures.calibration.bins
    right.plot((0, 1), (0, 1), color="0.7", linewidth=1)
    right.plot([row.score for row in bins], [row.success for row in bins], "o-", color=COLOURS[2])
    for row in bins:
        right.annotate(str(row.n), (row.score, row.success), (4, 4), textcoords="offset points")
    right.set_xlabel("mean score / 10")
    right.set_ylabel("success rate")
    picture.savefig(path)
