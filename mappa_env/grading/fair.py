"""Fair metrics: means over all runs, where a failed run counts as 0.5 accuracy, 0 F1 and 50 % RMSE.

Each outcome of the submission grader has its own contribution (``accuracy_fair`` and ``f1_fair``, or
``rmse_fair`` in percent of the true target's range, at most 100). Runs without a sandbox (``unavailable``)
are counted separately and excluded from the means.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from mappa_env.types import Outcome

KEYS = ("accuracy_fair", "f1_fair", "rmse_fair")


def fair(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """The Fair metrics over ``outcomes``, and the numbers of runs.

    Returns ``accuracy_fair``, ``f1_fair``, ``rmse_fair`` (each only if some run has it), ``success_rate``,
    ``n``, ``n_classification``, ``n_regression`` and ``n_unavailable``.
    """
    everything = list(outcomes)
    runs = [outcome for outcome in everything if outcome.status != "unavailable"]
    columns = {key: [run.metrics[key] for run in runs if key in run.metrics] for key in KEYS}
    result = {key: fmean(values) for key, values in columns.items() if values}
    if runs:
        result["success_rate"] = fmean(float(run.success) for run in runs)
    return {
        **result,
        "n": float(len(runs)),
        "n_classification": float(len(columns["accuracy_fair"])),
        "n_regression": float(len(columns["rmse_fair"])),
        "n_unavailable": float(len(everything) - len(runs)),
    }
