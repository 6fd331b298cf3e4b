"""Running statistics of scores by stratum (task family, role, turn), and the bias correction from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

Stratum = tuple[str, str, int]
LEAST_SPREAD = 0.1
"""Lower bound of a stratum's standard deviation, as a fraction of the overall one, to bound the scale."""


@dataclass(slots=True)
class Running:
    """Count, mean and sum of squared deviations, updated one value at a time (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float, memory: int | None = None) -> None:
        """Add one value. After ``memory`` values, older ones decay exponentially."""
        if memory is not None and self.count >= memory:
            self.squares *= (memory - 1) / self.count
            self.count = memory - 1
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    @property
    def variance(self) -> float:
        """The population variance; 0 without values."""
        return self.squares / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class StrataState:
    """The statistics of ``all`` scores and of each stratum, as a checkpoint keeps them."""

    all: Running
    strata: Mapping[Stratum, Running]

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave."""
        rows = state["strata"]
        strata = {(family, role, turn): Running(*numbers) for family, role, turn, *numbers in rows}
        return cls(Running(*state["all"]), strata)

    def to_dict(self) -> dict[str, Any]:
        """The stored form, as JSON."""
        rows = [[*stratum, *astuple(each)] for stratum, each in self.strata.items()]
        return {"all": list(astuple(self.all)), "strata": rows}


class Strata:
    """Running statistics of every stratum and of all scores. ``memory``: of each stratum, in scores."""

    def __init__(self, memory: int | None = None) -> None:
        self._memory = memory
        self.all = Running()
        self._by: defaultdict[Stratum, Running] = defaultdict(Running)

    def add(self, stratum: Stratum, score: float) -> None:
        """Add one score."""
        self._by[stratum].add(score, self._memory)
        self.all.add(score, self._memory and self._memory * len(self._by))

    def __getitem__(self, stratum: Stratum) -> Running:
        return self._by.get(stratum, Running())

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self._by)

    def state(self) -> StrataState:
        """A copy of everything."""
        return StrataState(replace(self.all), {stratum: replace(each) for stratum, each in self._by.items()})

    def load(self, state: StrataState) -> None:
        """Restore what ``state`` returned."""
        self.all = replace(state.all)
        self._by.clear()
        self._by |= {stratum: replace(each) for stratum, each in state.strata.items()}


class BiasCorrection:
    """Shifts the scores of all strata to one mean and, with ``spread``, to one standard deviation.

    With n, mu, sigma of a stratum so far, mu_all, sigma_all of all, and shrinkage kappa (in scores),

        mu~ = (n mu + kappa mu_all) / (n + kappa),  sigma~^2 = (n sigma^2 + kappa sigma_all^2) / (n + kappa),
        r~ = (r - mu~) / max(sigma~, 0.1 sigma_all) * sigma_all + mu_all,  kept within 0-10.

    It also removes real differences between strata: right for advantages, which compare actions, and
    wrong for scores that people read as absolute.
    """

    def __init__(self, *, spread: bool, kappa: float = 32.0, memory: int | None = None) -> None:
        """``spread``: correct the standard deviation too. ``memory``: see ``Running.add``; None: no decay."""
        self._spread, self._kappa = spread, kappa
        self._strata = Strata(memory)

    def __call__(self, scores: Iterable[tuple[Stratum, float]]) -> list[float]:
        """Correct a batch from the scores before it, then add it: no score affects its own correction."""
        batch: Sequence[tuple[Stratum, float]] = list(scores)
        corrected = [self._one(stratum, score) for stratum, score in batch]
        for stratum, score in batch:
            self._strata.add(stratum, score)
        return corrected

    def state(self) -> StrataState:
        """A copy of everything."""
        return self._strata.state()

    def load(self, state: StrataState) -> None:
        """Restore what ``state`` returned."""
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
