"""The competitions of DSBench: name, metric, and the metric of DSBench's published tables."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Competition:
    """One of the 74. ``metric``: what its text asks for; ``published``: what DSBench's script computes."""

    name: str
    metric: str
    published: str
    split: str


@functools.cache
def competitions() -> Mapping[str, Competition]:
    """Name -> competition, by metric; see ``competitions.yaml`` for the sources."""
    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {
        name: Competition(
            name,
            metric,
            table["published"].get(name, metric),
            "eval" if name in table["held_out"] else "train",
        )
        for metric, names in table["metrics"].items()
        for name in names
    }
