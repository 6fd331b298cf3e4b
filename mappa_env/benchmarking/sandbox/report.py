"""The figures of a run: medians over repeats, and ratios within each repeat."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mappa_env.benchmarking.sandbox.backends import FLOOR
from mappa_env.benchmarking.sandbox.first_action import FirstAction
from mappa_env.benchmarking.sandbox.measurement import Cell, Slice

BASELINE = "process"


@dataclass(frozen=True)
class Figure:
    """One measured quantity: its value in each repeat, their median, and the actions behind them."""

    unit: str
    median: float
    repeats: list[float]
    actions: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The figure for a JSON file; unknown ``actions`` are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class Report:
    """Everything measured so far; incomplete after an interrupt."""

    slices: list[Slice] = field(default_factory=list)
    firsts: dict[str, list[FirstAction]] = field(default_factory=dict)

    def good(self, cell: Cell) -> list[Slice]:
        """The slices of ``cell`` in which every answer was correct."""
        return [found for found in self.slices if found.cell == cell and not found.failure]

    @property
    def failures(self) -> list[str]:
        """One line per slice with a wrong answer."""
        return [f"{' '.join(map(str, s.cell))} in flight: {s.failure}" for s in self.slices if s.failure]

    def values(self, cell: Cell, figure: Callable[[Slice], float]) -> list[float]:
        """One value per repeat."""
        return [figure(found) for found in self.good(cell)]

    def ratios(self, over: Cell, under: Cell) -> list[float]:
        """Median latency of ``over`` divided by that of ``under``, for each repeat that has both."""
        under_by_repeat = {found.repeat: p50(found) for found in self.good(under)}
        return [
            p50(found) / under_by_repeat[found.repeat]
            for found in self.good(over)
            if found.repeat in under_by_repeat
        ]

    def speed_up(self, cell: Cell) -> list[float]:
        """How many times faster than a fresh interpreter."""
        return self.ratios((BASELINE, *cell[1:]), cell)

    def over_floor(self, cell: Cell) -> list[float]:
        """How many times slower than a bare warm fork."""
        return self.ratios(cell, (FLOOR, *cell[1:]))

    def figures(self, cells: Sequence[Cell]) -> dict[str, Figure]:
        """Figures by name: ``BACKEND/ACTION/IN_FLIGHT/what``."""
        rows: dict[str, Figure] = {}

        def add(name: str, unit: str, repeats: list[float], actions: int | None = None) -> None:
            if repeats:
                rows[name] = Figure(unit, statistics.median(repeats), repeats, actions)

        for cell in cells:
            name = "/".join(map(str, cell))
            actions = sum(len(found.times) for found in self.good(cell))
            add(f"{name}/p50", "ms", self.values(cell, p50), actions=actions)
            add(f"{name}/p95", "ms", self.values(cell, p95), actions=actions)
            add(f"{name}/rate", "actions/s", self.values(cell, rate), actions=actions)
            if cell[0] != BASELINE:
                add(f"{name}/speed_up", f"p50 of {BASELINE} / p50", self.speed_up(cell))
            if cell[0] != FLOOR:
                add(f"{name}/over_floor", f"p50 / p50 of {FLOOR}", self.over_floor(cell))
        for backend, firsts in self.firsts.items():
            for what, values in zip(FirstAction._fields, zip(*firsts, strict=True), strict=True):
                add(f"first/{backend}/{what}", "s", list(values))
        return rows


def p50(found: Slice) -> float:
    """Median latency, in milliseconds."""
    return found.percentile(0.5)


def p95(found: Slice) -> float:
    """95th percentile of the latency, in milliseconds."""
    return found.percentile(0.95)


def rate(found: Slice) -> float:
    """Actions per second."""
    return found.rate


def isolations(slices: Sequence[Slice]) -> dict[str, str]:
    """Backend -> the isolation that its answers reported."""
    seen: dict[str, set[str]] = defaultdict(set)
    for found in slices:
        seen[found.cell[0]].add(found.isolation)
    return {backend: ", ".join(sorted(kinds)) for backend, kinds in seen.items()}
