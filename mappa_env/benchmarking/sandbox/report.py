"""What the slices of a run amount to: medians over repeats, and ratios within each repeat."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mappa_env.benchmarking.contenders import FLOOR
from mappa_env.benchmarking.first import First
from mappa_env.benchmarking.measuring import Cell, Slice

BASELINE = "process"


@dataclass
class Report:
    """Everything measured so far; a run that was interrupted has less of it."""

    slices: list[Slice] = field(default_factory=list)
    firsts: dict[str, list[First]] = field(default_factory=dict)

    def good(self, cell: Cell) -> list[Slice]:
        return [found for found in self.slices if found.cell == cell and not found.failure]

    @property
    def failures(self) -> list[str]:
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

    def figures(self, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
        """Figures by name: ``BACKEND/ACTION/IN_FLIGHT/what``, each with its median and repeats."""
        rows: dict[str, dict[str, Any]] = {}

        def add(name: str, unit: str, repeats: list[float], **more: Any) -> None:
            if repeats:
                rows[name] = {"unit": unit, "median": statistics.median(repeats), "repeats": repeats, **more}

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
            for what, values in zip(First._fields, zip(*firsts, strict=True), strict=True):
                add(f"first/{backend}/{what}", "s", list(values))
        return rows


def p50(found: Slice) -> float:
    return found.percentile(0.5)


def p95(found: Slice) -> float:
    return found.percentile(0.95)


def rate(found: Slice) -> float:
    return found.rate


def isolations(slices: Sequence[Slice]) -> dict[str, str]:
    """Backend -> what its answers said of their isolation."""
    seen: dict[str, set[str]] = defaultdict(set)
    for found in slices:
        seen[found.cell[0]].add(found.isolation)
    return {backend: ", ".join(sorted(kinds)) for backend, kinds in seen.items()}
