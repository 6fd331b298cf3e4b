"""One problem instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FAMILIES = {
    "exact_match": "math",
    "accuracy": "classification",
    "f1": "classification",
    "macro_f1": "classification",
    "roc_auc": "classification",
    "log_loss": "classification",
    "qwk": "classification",
    "rmse": "regression",
    "rmsle": "regression",
    "mse": "regression",
    "mae": "regression",
    "median_ae": "regression",
    "r2": "regression",
    "smape": "regression",
}


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
    def family(self) -> str:
        """Task family, derived from the metric (never from a label in the data)."""
        return _FAMILIES.get(self.metric, self.metric)
