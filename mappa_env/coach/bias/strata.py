"""Running statistics of scores by stratum (task family, role, turn), and scores corrected by them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Stratum = tuple[str, str, int]
LEAST_SPREAD = 0.1
"""A stratum's standard deviation is taken for at least this share of the overall one: no score explodes."""


@dataclass(slots=True)
class Running:
    """Count, mean and sum of squared deviations, one value at a time (Welford 1962).

    With a ``memory`` of so many values, older ones fade exponentially once there are more.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float, memory: int | None = None) -> None:
        if memory is not None and self.count >= memory:
            self.squares *= (memory - 1) / self.count
            self.count = memory - 1
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    @property
    def variance(self) -> float:
        """Divided by the count; 0 where there is nothing."""
        return self.squares / self.count if self.count else 0.0


class Strata:
    """``Running`` of every stratum, with a ``memory`` of so many scores each, and of all scores.

    ``state`` and ``load``: as JSON.
    """

    def __init__(self, memory: int | None = None) -> None:
        self._memory = memory
        self.all = Running()
        self._by: defaultdict[Stratum, Running] = defaultdict(Running)

    def add(self, stratum: Stratum, score: float) -> None:
        self._by[stratum].add(score, self._memory)
        self.all.add(score, self._memory and self._memory * len(self._by))

    def __getitem__(self, stratum: Stratum) -> Running:
        return self._by.get(stratum, Running())

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self._by)

    def state(self) -> dict[str, Any]:
        rows = [[*stratum, each.count, each.mean, each.squares] for stratum, each in self._by.items()]
        return {"all": [self.all.count, self.all.mean, self.all.squares], "strata": rows}

    def load(self, state: Mapping[str, Any]) -> None:
        self.all = Running(*state["all"])
        self._by.clear()
        for family, role, turn, count, mean, squares in state["strata"]:
            self._by[family, role, turn] = Running(count, mean, squares)


class Correction:
    """Scores brought to one mean, and with ``spread`` to one standard deviation, over all strata.

    With n, mu, sigma of a stratum so far, mu_all, sigma_all of all, and shrinkage kappa (in scores),

        mu~ = (n mu + kappa mu_all) / (n + kappa),  sigma~^2 = (n sigma^2 + kappa sigma_all^2) / (n + kappa),
        r~ = (r - mu~) / max(sigma~, 0.1 sigma_all) * sigma_all + mu_all,  kept within 0-10.

    It takes away real differences between strata too: right for methods that compare, wrong for scores that
    are to be read as they are.
    """

    def __init__(self, *, spread: bool, kappa: float = 32.0, memory: int | None = None) -> None:
        """``memory``: scores of a stratum that count, the newest most; None: all alike."""
        self._spread, self._kappa = spread, kappa
        self._strata = Strata(memory)

    def __call__(self, scores: Iterable[tuple[Stratum, float]]) -> list[float]:
        """Correct a batch by what came before it, then learn from it: no score has a say in its own."""
        batch: Sequence[tuple[Stratum, float]] = list(scores)
        corrected = [self._one(stratum, score) for stratum, score in batch]
        for stratum, score in batch:
            self._strata.add(stratum, score)
        return corrected

    def state(self) -> dict[str, Any]:
        return self._strata.state()

    def load(self, state: Mapping[str, Any]) -> None:
        self._strata.load(state)

    def _one(self, stratum: Stratum, score: float) -> float:
        everything, own = self._strata.all, self._strata[stratum]
        if not everything.count:
            return score
        sigma, weight = math.sqrt(everything.variance), own.count / (own.count + self._kappa)
        mean = weight * own.mean + (1 - weight) * everything.mean
        scale = 1.0
        if self._spread and sigma > 0:
            deviation = math.sqrt(weight * own.variance + (1 - weight) * everything.variance)
            scale = sigma / max(deviation, LEAST_SPREAD * sigma)
        return min(max((score - mean) * scale + everything.mean, 0.0), 10.0)
