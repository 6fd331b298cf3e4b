"""One problem instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FAMILIES = {
    metric: family
    for family, metrics in {
        "math": ("exact_match",),
        "classification": (
            *("accuracy", "f1", "macro_f1", "micro_f1", "weighted_f1", "qwk", "map@3", "hit@3"),
            *("roc_auc", "mean_roc_auc", "normalized_gini", "log_loss", "multiclass_log_loss"),
        ),
        "regression": (
            *("rmse", "mcrmse", "rmsle", "mean_rmsle", "mse", "mae", "mean_mae", "median_ae", "r2"),
            *("smape", "smape_fraction", "pearson", "spearman", "mean_spearman"),
        ),
        "extraction": ("jaccard",),
    }.items()
    for metric in metrics
}

VOID = "void"
"""The metric of a task that cannot be played."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance.

    ``prompt`` is the full problem text, ``compact`` a short form for small vocabularies (empty: use
    ``prompt``). ``files`` are the public files, by workspace-relative name: bytes, or a host path to copy.
    ``truth`` is hidden: only the grader sees it, and the coach if the card allows it; never an agent or a
    sandbox. ``topic`` is a label for reports; statistics use ``family``, which follows from ``metric``.
    ``meta`` holds public extras for prompts and scripted teams, such as numbers and column names.
    """

    id: str
    prompt: str
    metric: str
    compact: str = ""
    topic: str = ""
    split: str = ""
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict, repr=False)
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def paths(self) -> list[Path]:
        """The host files that a workspace copies."""
        return [content for content in self.files.values() if isinstance(content, Path)]

    @property
    def void(self) -> bool:
        """Whether the task's data cannot be read; ``prompt`` says why. Nothing that is done in it counts."""
        return self.metric == VOID

    @property
    def family(self) -> str:
        """Task family, derived from the metric (never from a label in the data)."""
        return _FAMILIES.get(self.metric, self.metric)
