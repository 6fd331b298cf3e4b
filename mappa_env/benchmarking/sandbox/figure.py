"""Draws the report: latency and throughput over the number of actions in flight."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from mappa_env.benchmarking.sandbox.measurement import Plan, Slice
from mappa_env.benchmarking.sandbox.report import Report, isolations, p50, p95, rate
from mappa_env.errors import OptionError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which is safe for colour-blind readers."""
MARKERS = "osD^vP*"


def need_matplotlib() -> None:
    """Raise OptionError if matplotlib is missing; call this before a long run."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise OptionError("--figure needs matplotlib: pip install matplotlib") from None


def draw(plan: Plan, report: Report, path: Path) -> None:
    """Draw p50 with whiskers up to p95 (top) and actions per second (bottom), on logarithmic scales."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    width = 3.4 * len(plan.actions) + 0.8
    picture = Figure(figsize=(max(width, 5.0), 6.2), layout="constrained", dpi=150)
    axes = picture.subplots(2, len(plan.actions), squeeze=False, sharex=True, sharey="row")
    kinds = isolations(report.slices)
    handles = {}
    for column, action in enumerate(plan.actions):
        upper, lower = axes[:, column]
        for number, backend in enumerate(plan.backends):
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}

            def medians(
                figure: Callable[[Slice], float], backend: str = backend, name: str = action.name
            ) -> dict[int, float]:
                found = {n: report.values((backend, name, n), figure) for n in plan.in_flight}
                return {n: statistics.median(values) for n, values in found.items() if values}

            middle, high, rates = medians(p50), medians(p95), medians(rate)
            if not middle:
                continue
            up = [high[n] - value for n, value in middle.items()]
            handles[backend] = upper.errorbar(
                list(middle), list(middle.values()), yerr=[[0.0] * len(up), up], capsize=3, **look
            )
            lower.plot(list(rates), list(rates.values()), **look)
        upper.set_title(action.title.replace(", ", ",\n", 1), fontsize=9)
        lower.set_xlabel("actions in flight")
        for axis in (upper, lower):
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(plan.in_flight)
            for side in (axis.xaxis, axis.yaxis):
                side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                side.set_minor_formatter(NullFormatter())
            axis.grid(True, which="major", color="#dddddd")
    axes[0, 0].set_ylabel("milliseconds per action\n(p50; whisker: p95)")
    axes[1, 0].set_ylabel("actions per second")
    names = [f"{name} ({kinds[name]})" if kinds[name] not in (name, "none") else name for name in handles]
    picture.legend(list(handles.values()), names, loc="outside upper center", ncols=len(names) or 1)
    picture.savefig(path)
