"""Is the coach equally strict everywhere? A monitor, and a correction that can be switched on.

Per stratum (task family, role, turn) running statistics of the scores. The *tests* work on whole
trajectories: scores within one depend on each other, and tests over single actions raise false alarms. Per
trajectory, scores are centred within (role, turn) and averaged; then, for every family f,

    score = a + b * outcome + c * [f] + d * [f] * (outcome - mean outcome) + e

by least squares with errors robust to unequal variances (HC3; MacKinnon and White 1985). ``c`` is an
*offset*: how much higher f is scored at equal outcome. ``d`` is a *slope*: how much better or worse the score
tells success from failure in f. An offset is a baseline and moves no gradient; a lost slope scales it, and
makes agents specialise. All tests of one look are corrected together (Holm 1979).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mappa_env.types import Trajectory

Stratum = tuple[str, str, int]
Kind = Literal["offset", "slope"]
Floats = NDArray[np.float64]
MIN_TRAJECTORIES = 12
"""Of a family, and of all others together, before it is tested."""


class Finding(NamedTuple):
    """``effect`` in points (0-10): of the score at equal outcome, or of the score's rise from outcome 0 to 1.

    ``p`` is corrected for all tests of the look; ``low``, ``high`` bound the effect at 95 %, uncorrected.
    """

    family: str
    kind: Kind
    effect: float
    low: float
    high: float
    p: float
    trajectories: int

    @property
    def alarm(self) -> bool:
        return self.p < 0.05


@dataclass(slots=True)
class Running:
    """Count, mean and sum of squared deviations, one value at a time (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    @property
    def variance(self) -> float:
        return self.squares / self.count if self.count else 0.0


class _Row(NamedTuple):
    """One trajectory: its family, its outcome in 0-1, and its scores by (role, turn)."""

    family: str
    outcome: float
    scores: dict[tuple[str, int], float]


class BiasMonitor:
    """Keeps what it was shown. ``state`` and ``load`` carry it through a checkpoint as JSON."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self.strata: defaultdict[Stratum, Running] = defaultdict(Running)

    def add(self, trajectory: Trajectory) -> None:
        """Only scores that are ok count. An episode without an outcome or without any is left out."""
        outcome = trajectory.outcome
        if outcome is None or outcome.status == "unavailable":
            return
        scores = {}
        for action in trajectory.actions:
            verdict = action.verdict
            if verdict.status == "ok" and verdict.score is not None:
                self.strata[action.stratum].add(verdict.score)
                scores[action.role, action.turn] = verdict.score
        if scores:
            self._rows.append(_Row(trajectory.task.family, float(outcome.score), scores))

    def findings(self) -> list[Finding]:
        """Both tests of every family that has enough trajectories; the strongest first.

        Of two families only the second is tested, against the first: the other way round says the same.
        """
        family = np.array([row.family for row in self._rows])
        outcome = np.array([row.outcome for row in self._rows])
        score = self._centred()
        found: list[Finding] = []
        names = sorted(set(family))
        for name in names[1:] if len(names) == 2 else names:
            mine = family == name
            if min(mine.sum(), (~mine).sum()) >= MIN_TRAJECTORIES:
                found += _fit(str(name), mine, outcome, score)
        return sorted(_holm(found), key=lambda finding: finding.p)

    def state(self) -> dict[str, Any]:
        return {
            "rows": [
                [row.family, row.outcome, [[*cell, score] for cell, score in row.scores.items()]]
                for row in self._rows
            ],
            "strata": [
                [*stratum, each.count, each.mean, each.squares] for stratum, each in self.strata.items()
            ],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._rows = [
            _Row(family, outcome, {(role, turn): score for role, turn, score in cells})
            for family, outcome, cells in state["rows"]
        ]
        self.strata.clear()
        for family, role, turn, count, mean, squares in state["strata"]:
            self.strata[family, role, turn] = Running(count, mean, squares)

    def _centred(self) -> Floats:
        """Mean of each trajectory's scores, each minus the mean of its (role, turn) over all families."""
        cells: defaultdict[tuple[str, int], Running] = defaultdict(Running)
        for row in self._rows:
            for cell, score in row.scores.items():
                cells[cell].add(score)
        return np.array([
            math.fsum(score - cells[cell].mean for cell, score in row.scores.items()) / len(row.scores)
            for row in self._rows
        ])  # fmt: skip


def _fit(family: str, mine: NDArray[np.bool_], outcome: Floats, score: Floats) -> Iterable[Finding]:
    """Offset and slope of one family against all others, with uncorrected p."""
    centre = outcome - outcome.mean()
    columns = [np.ones_like(outcome), centre, mine.astype(float), mine * centre]
    kinds: list[tuple[Kind, int]] = [("offset", 2), ("slope", 3)]
    if any(np.ptp(outcome[part]) == 0 for part in (mine, ~mine)):  # no slope to be seen
        columns, kinds = columns[:3], kinds[:1]
        if np.ptp(outcome) == 0:
            columns, kinds = [columns[0], columns[2]], [("offset", 1)]
    x = np.stack(columns, axis=1)
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ x.T @ score
    leverage = np.einsum("ij,jk,ik->i", x, inverse, x)
    weighted = x * ((score - x @ beta) / np.maximum(1 - leverage, 1e-6))[:, None]
    errors = np.sqrt(np.diag(inverse @ (weighted.T @ weighted) @ inverse))
    free = len(score) - x.shape[1]
    width = float(stats.t.ppf(0.975, free))
    for kind, at in kinds:
        effect, error = float(beta[at]), float(errors[at])
        p = float(2 * stats.t.sf(abs(effect) / error, free)) if error > 0 else float(effect == 0)
        yield Finding(
            family, kind, effect, effect - width * error, effect + width * error, p, int(mine.sum())
        )


def _holm(found: Sequence[Finding]) -> list[Finding]:
    """Holm's step-down correction."""
    ordered = sorted(found, key=lambda finding: finding.p)
    corrected, highest = [], 0.0
    for rank, finding in enumerate(ordered):
        highest = max(highest, min(finding.p * (len(ordered) - rank), 1.0))
        corrected.append(finding._replace(p=highest))
    return corrected


def trajectories_needed(
    offset: float, sd: float, share: float = 0.5, *, tests: int = 4, power: float = 0.8, level: float = 0.05
) -> int:
    """How many trajectories show an offset of so many points with that power, by the normal approximation.

    ``sd``: of a trajectory's mean score at equal outcome, in points. ``share``: of the family among them.
    ``tests``: how many share the level (two a family); Holm is taken for Bonferroni, which is cautious.
    """
    quantiles = stats.norm.isf(level / tests / 2) + stats.norm.ppf(power)
    return math.ceil((quantiles * sd / offset) ** 2 / (share * (1 - share)))


class Correction:
    """Scores brought to one mean, and with ``spread`` one standard deviation, over strata.

    With n, mu, sigma of a stratum so far, mu_all, sigma_all of all, and shrinkage kappa,

        mu~ = (n mu + kappa mu_all) / (n + kappa),  sigma~^2 = (n sigma^2 + kappa sigma_all^2) / (n + kappa),
        r~ = (r - mu~) / max(sigma~, 0.1 sigma_all) * sigma_all + mu_all,  kept within 0-10.

    It takes away real differences between strata too: right for relative methods, wrong for absolute scores.
    """

    def __init__(self, *, spread: bool, kappa: float = 32.0) -> None:
        self._spread, self._kappa = spread, kappa
        self._strata: defaultdict[Stratum, Running] = defaultdict(Running)
        self._all = Running()

    def __call__(self, scores: Sequence[tuple[Stratum, float]]) -> list[float]:
        """Correct a batch by what came before it, then learn from it."""
        corrected = [self._one(stratum, score) for stratum, score in scores]
        for stratum, score in scores:
            self._strata[stratum].add(score)
            self._all.add(score)
        return corrected

    def state(self) -> dict[str, Any]:
        return {
            "all": [self._all.count, self._all.mean, self._all.squares],
            "strata": [[*s, each.count, each.mean, each.squares] for s, each in self._strata.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._all = Running(*state["all"])
        self._strata.clear()
        for family, role, turn, count, mean, squares in state["strata"]:
            self._strata[family, role, turn] = Running(count, mean, squares)

    def _one(self, stratum: Stratum, score: float) -> float:
        if not self._all.count:
            return score
        own, kappa, sigma = self._strata[stratum], self._kappa, math.sqrt(self._all.variance)
        weight = own.count / (own.count + kappa)
        mean = weight * own.mean + (1 - weight) * self._all.mean
        if not self._spread or sigma == 0:
            return min(max(score - mean + self._all.mean, 0.0), 10.0)
        deviation = math.sqrt(weight * own.variance + (1 - weight) * self._all.variance)
        return min(max((score - mean) / max(deviation, 0.1 * sigma) * sigma + self._all.mean, 0.0), 10.0)
