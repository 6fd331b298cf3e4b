"""Is the coach equally strict everywhere? A monitor of its scores, family against family.

Per stratum (task family, role, turn) running statistics of the scores. The *tests* work on whole
trajectories: scores within one depend on each other, and tests over single actions raise false alarms. For
every family f

    score = mean of (role, turn) + b * outcome + c * [f] + d * [f] * (outcome - mean outcome) + e

is fitted with one row a trajectory: both sides are centred within (role, turn), then averaged over its
actions, so that families may differ in how many turns they take. Least squares; errors may have unequal
variances. ``c`` is an *offset*: how much higher f is scored at equal
outcome. ``d`` is a *slope*: how much better or worse the score tells success from failure in f. An offset is
a baseline and moves no gradient; a lost slope scales it, and makes agents specialise.

All tests of one look are corrected together (Holm 1979). A run is looked at again and again: look k may spend
ALPHA / (k (k + 1)), which adds up to ALPHA over any number of looks, however much they have in common.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from mappa_env.coach.robust import Floats, estimate, identified
from mappa_env.coach.strata import Strata
from mappa_env.types import Trajectory

Kind = Literal["offset", "slope"]
ALPHA = 0.05
"""Probability of any false alarm in a whole run, at most."""
MIN_TRAJECTORIES = 12
"""Of a family, and of all others together, before it is tested."""
WINDOW = 2048
MARGIN = 1.1
"""On sample sizes: scores are cut off at 0 and 10, and outcomes do not split evenly."""


class Finding(NamedTuple):
    """``effect`` in points (0-10): of the score at equal outcome, or of the score's rise from outcome 0 to 1.

    ``low``, ``high`` bound the effect at 95 %, uncorrected. ``p`` is corrected for all tests of the look, and
    from ``look`` for all looks too.
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
        return self.p < ALPHA


class _Row(NamedTuple):
    """One trajectory: its family, its outcome in 0-1, and its scores by (role, turn)."""

    family: str
    outcome: float
    scores: dict[tuple[str, int], float]


class BiasMonitor:
    """Tests the last ``window`` trajectories: policies change, and their state has to stay small.

    ``strata`` describes all that were shown. ``state`` and ``load`` carry everything through a checkpoint.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._rows: deque[_Row] = deque(maxlen=window)
        self._looks = 0
        self.strata = Strata()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, trajectory: Trajectory) -> None:
        """Only scores that are ok count. An episode without an outcome or without any is left out."""
        outcome = trajectory.outcome
        if outcome is None or outcome.status == "unavailable":
            return
        scores = {}
        for action in trajectory.actions:
            verdict = action.verdict
            if verdict.status == "ok" and verdict.score is not None:
                self.strata.add(action.stratum, verdict.score)
                scores[action.role, action.turn] = verdict.score
        if scores:
            self._rows.append(_Row(trajectory.task.family, float(outcome.score), scores))

    def look(self) -> list[Finding]:
        """The ``findings``, with p corrected for this being one of many looks; counts as one."""
        found = self.findings()
        self._looks += bool(found)
        share = self._looks * (self._looks + 1)
        return [finding._replace(p=min(finding.p * share, 1.0)) for finding in found]

    def findings(self) -> list[Finding]:
        """Both tests of every family that has enough trajectories; the strongest first.

        Of two families only the second is tested, against the first: the other way round says the same.
        """
        if len(self._rows) < 2 * MIN_TRAJECTORIES:
            return []
        design = _Design(self._rows)
        found: list[Finding] = []
        names = sorted(set(design.family.tolist()))
        for name in names[1:] if len(names) == 2 else names:
            mine = int(np.sum(design.family == name))
            if min(mine, len(self._rows) - mine) >= MIN_TRAJECTORIES:
                found += design.tests(name)
        return _holm(found)

    def state(self) -> dict[str, Any]:
        rows = [
            [row.family, row.outcome, [[*cell, score] for cell, score in row.scores.items()]]
            for row in self._rows
        ]
        return {"rows": rows, "looks": self._looks, "strata": self.strata.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self._rows.clear()
        for family, outcome, cells in state["rows"]:
            self._rows.append(_Row(family, outcome, {(role, turn): score for role, turn, score in cells}))
        self._looks = state["looks"]
        self.strata.load(state["strata"])


class _Design:
    """The rows as arrays, one entry a trajectory; and which (role, turn) each action belongs to."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.family = np.array([row.family for row in rows])
        self._outcome = np.array([row.outcome for row in rows])
        cells: dict[tuple[str, int], int] = {}
        self._row = np.repeat(np.arange(len(rows)), [len(row.scores) for row in rows])
        self._cell = np.array([cells.setdefault(c, len(cells)) for row in rows for c in row.scores], np.int64)
        self._score = self._averaged(np.array([score for row in rows for score in row.scores.values()]))

    def tests(self, family: str) -> list[Finding]:
        """Offset and slope of ``family`` against all others, uncorrected; as far as they are identified."""
        flag, outcome = (self.family == family).astype(float), self._outcome
        columns = [np.ones_like(flag)]
        columns += [self._averaged(v[self._row]) for v in (flag, outcome, flag * (outcome - outcome.mean()))]
        kinds: dict[Kind, int] = {"offset": 1, "slope": 3}
        for terms in (2,) if np.ptp(outcome) == 0 else (4, 3):
            x = np.stack(columns[:terms], axis=1)
            if identified(x):
                return [
                    Finding(family, kind, *estimate(x, self._score, column), int(flag.sum()))
                    for kind, column in kinds.items()
                    if column < terms
                ]
        return []

    def _averaged(self, values: Floats) -> Floats:
        """Values of the actions, centred within (role, turn) and averaged over each trajectory."""
        means = np.bincount(self._cell, values) / np.bincount(self._cell)
        found: Floats = np.bincount(self._row, values - means[self._cell]) / np.bincount(self._row)
        return found


def _holm(found: Sequence[Finding]) -> list[Finding]:
    """Holm's step-down correction; the smallest p first."""
    ordered = sorted(found, key=lambda finding: finding.p)
    corrected, highest = [], 0.0
    for rank, finding in enumerate(ordered):
        highest = max(highest, min(finding.p * (len(ordered) - rank), 1.0))
        corrected.append(finding._replace(p=highest))
    return corrected


def trajectories_needed(
    offset: float, sd: float, share: float = 0.5, *, families: int = 2, power: float = 0.8, look: int = 0
) -> int:
    """How many trajectories show an offset of so many points with that power, by the normal approximation.

    ``sd``: of a trajectory's mean score at equal outcome, in points. ``share``: of the family among them.
    ``look``: at the how manyeth look of a run; 0: at the only one. Holm is taken for Bonferroni (cautious).
    """
    tests = 2 if families == 2 else 2 * families
    level = ALPHA / (look * (look + 1) if look else 1) / tests
    quantiles = special.ndtri(power) - special.ndtri(level / 2)
    return math.ceil(MARGIN * (quantiles * sd / offset) ** 2 / (share * (1 - share)))
