"""Is the coach equally strict everywhere? Compares its scores between task families.

The monitor keeps running statistics of the scores per stratum (task family, role, turn). The *tests* work on
whole trajectories: scores within one are dependent, so tests over single actions raise false alarms. For
every family f

    score = mean of (role, turn) + b * outcome + c * [f] + d * [f] * (outcome - mean outcome) + e

is fitted by least squares with one row per trajectory: both sides are centred within (role, turn), then
averaged over its actions, so that families may differ in their number of turns. Errors may have unequal
variances. ``c`` is an *offset*: how much higher f is scored at equal outcome. ``d`` is a *slope*: how much
better or worse the score separates success from failure in f. An offset acts as a baseline and does not
change the gradient; a lost slope scales the gradient down, and agents specialise.

The tests of all families at one step are corrected together (Holm 1979). A run is tested repeatedly and
shares one false-alarm budget over all its tests (alpha spending): test k has the level ALPHA / (k (k + 1)).
The levels add up to ALPHA over any number of tests, however dependent they are.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import special

from mappa_env.coach.bias.regression import Floats, estimate, identified
from mappa_env.coach.bias.strata import Strata, StrataState
from mappa_env.errors import OptionError
from mappa_env.types import Trajectory

Kind = Literal["offset", "slope"]
ALPHA = 0.05
"""Upper bound on the probability of any false alarm in a whole run."""
MIN_TRAJECTORIES = 12
"""A family is tested once it, and all others together, have this many trajectories."""
MARGIN = 1.1
"""Factor on sample sizes: scores are clipped to 0-10, and outcomes do not split evenly."""


class BiasFinding(NamedTuple):
    """One test of one family. ``effect``, in points (0-10), compares it with all others.

    An offset is a difference of the score at equal outcome; a slope is a difference of the score's rise from
    outcome 0 to 1. ``low`` and ``high`` are the 95 % interval, uncorrected. ``p`` is corrected for all
    families and, from ``BiasMonitor.test``, for repeated tests.
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
        """Whether ``p`` is below ALPHA."""
        return self.p < ALPHA


class _Row(NamedTuple):
    """One trajectory: its family, its outcome in 0-1, and its scores by (role, turn)."""

    family: str
    outcome: float
    scores: dict[tuple[str, int], float]


@dataclass(frozen=True, slots=True)
class MonitorState:
    """What a checkpoint keeps of a ``BiasMonitor``."""

    rows: tuple[_Row, ...]
    tests: int
    strata: StrataState

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave. Raises OptionError for the state of another version."""
        expected = {"rows", "tests", "strata"}
        if set(state) != expected:
            raise OptionError(
                f"the bias monitor's state has the keys {sorted(state)} instead of {sorted(expected)}: "
                "another version of mappa wrote it; resume the run with that version."
            )
        rows = tuple(
            _Row(family, outcome, {(role, turn): score for role, turn, score in cells})
            for family, outcome, cells in state["rows"]
        )
        return cls(rows, state["tests"], StrataState.from_dict(state["strata"]))

    def to_dict(self) -> dict[str, Any]:
        """The stored form, as JSON."""
        rows = [
            [row.family, row.outcome, [[*cell, score] for cell, score in row.scores.items()]]
            for row in self.rows
        ]
        return {"rows": rows, "tests": self.tests, "strata": self.strata.to_dict()}


class BiasMonitor:
    """Tests the last ``window`` trajectories: policies change, and the state must be small.

    ``strata`` describes all trajectories that were added.
    """

    def __init__(self, window: int) -> None:
        self._rows: deque[_Row] = deque(maxlen=window)
        self._tests = 0
        self.strata = Strata()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, trajectory: Trajectory) -> None:
        """Add the scores of ok verdicts; skip an episode without an outcome or without such a score."""
        outcome = trajectory.outcome
        if outcome is None or outcome.status == "unavailable":
            return
        scores = defaultdict[tuple[str, int], list[float]](list)  # several agents may have one role
        for action in trajectory.actions:
            score = action.verdict.valid_score
            if score is not None:
                self.strata.add(action.stratum, score)
                scores[action.role, action.turn].append(score)
        if scores:
            means = {cell: sum(each) / len(each) for cell, each in scores.items()}
            self._rows.append(_Row(trajectory.task.family, float(outcome.score), means))

    def test(self) -> list[BiasFinding]:
        """The ``findings`` with p corrected for repeated tests. A call counts as one test of the run."""
        found = self.findings()
        self._tests += bool(found)
        spending = self._tests * (self._tests + 1)
        return [finding._replace(p=min(finding.p * spending, 1.0)) for finding in found]

    def findings(self) -> list[BiasFinding]:
        """Both tests of every family with enough trajectories, the smallest p first.

        With two families, only the second is tested against the first: the reverse is the same test.
        """
        if len(self._rows) < 2 * MIN_TRAJECTORIES:
            return []
        design = _Design(self._rows)
        found: list[BiasFinding] = []
        names = sorted(set(design.family.tolist()))
        for name in names[1:] if len(names) == 2 else names:
            mine = int(np.sum(design.family == name))
            if min(mine, len(self._rows) - mine) >= MIN_TRAJECTORIES:
                found += design.tests(name)
        return _holm(found)

    def state(self) -> MonitorState:
        """A copy of everything."""
        return MonitorState(tuple(self._rows), self._tests, self.strata.state())

    def load(self, state: MonitorState) -> None:
        """Restore what ``state`` returned."""
        self._rows.clear()
        self._rows.extend(state.rows)
        self._tests = state.tests
        self.strata.load(state.strata)


class _Design:
    """The rows as arrays, one entry per trajectory, and the (role, turn) of each action."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.family = np.array([row.family for row in rows])
        self._outcome = np.array([row.outcome for row in rows])
        cells: dict[tuple[str, int], int] = {}
        self._row = np.repeat(np.arange(len(rows)), [len(row.scores) for row in rows])
        self._cell = np.array([cells.setdefault(c, len(cells)) for row in rows for c in row.scores], np.int64)
        self._score = self._averaged(np.array([score for row in rows for score in row.scores.values()]))

    def tests(self, family: str) -> list[BiasFinding]:
        """Offset and slope of ``family`` against all others, uncorrected; those that are identified."""
        flag, outcome = (self.family == family).astype(float), self._outcome
        columns = [np.ones_like(flag)]
        columns += [self._averaged(v[self._row]) for v in (flag, outcome, flag * (outcome - outcome.mean()))]
        kinds: dict[Kind, int] = {"offset": 1, "slope": 3}
        for terms in (2,) if np.ptp(outcome) == 0 else (4, 3):
            x = np.stack(columns[:terms], axis=1)
            if identified(x):
                return [
                    BiasFinding(family, kind, *estimate(x, self._score, column), int(flag.sum()))
                    for kind, column in kinds.items()
                    if column < terms
                ]
        return []

    def _averaged(self, values: Floats) -> Floats:
        """Values of the actions, centred within (role, turn) and averaged over each trajectory."""
        means = np.bincount(self._cell, values) / np.bincount(self._cell)
        found: Floats = np.bincount(self._row, values - means[self._cell]) / np.bincount(self._row)
        return found


def _holm(found: Sequence[BiasFinding]) -> list[BiasFinding]:
    """Holm's step-down correction; the smallest p first."""
    ordered = sorted(found, key=lambda finding: finding.p)
    corrected, highest = [], 0.0
    for rank, finding in enumerate(ordered):
        highest = max(highest, min(finding.p * (len(ordered) - rank), 1.0))
        corrected.append(finding._replace(p=highest))
    return corrected


def trajectories_needed(
    offset: float, sd: float, fraction: float = 0.5, *, families: int = 2, power: float = 0.8, test: int = 0
) -> int:
    """The number of trajectories that detect ``offset`` (points) with ``power``, by the normal approximation.

    ``sd``: standard deviation of a trajectory's mean score at equal outcome, in points. ``fraction``: of the
    trajectories that belong to the family. ``test``: number of the test in the run, from 1; 0: the run has
    only one. Holm's correction is approximated by Bonferroni's, which is conservative.
    """
    tests = 2 if families == 2 else 2 * families
    level = ALPHA / (test * (test + 1) if test else 1) / tests
    quantiles = special.ndtri(power) - special.ndtri(level / 2)
    needed: int = math.ceil(MARGIN * (quantiles * sd / offset) ** 2 / (fraction * (1 - fraction)))
    return needed
