"""Drift of a coach: the same evidence judged twice, compared in pairs.

The evidence is a frozen anchor set: episodes recorded once, whose scores should never change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from mappa_env.coach.bias.monitor import ALPHA
from mappa_env.coach.bias.strata import Stratum

TOLERANCE = 0.25
"""Points that a coach may drift without an alarm."""
MIN_EPISODES = 8
"""Fewest episodes with two scores for an alarm: a few coarse grades may change together by chance."""

Pair = tuple[Stratum, float, float]
"""An action's stratum, its first score and its score now."""


class Drift(NamedTuple):
    """Mean of the paired differences, now minus first, of ``stratum`` (None: of all actions), in points.

    ``low`` and ``high`` are its 95 % interval over episodes, uncorrected. ``alarm``: it exceeds TOLERANCE
    even with an interval that is corrected for all strata and all tests of a run.
    """

    stratum: Stratum | None
    mean: float
    low: float
    high: float
    episodes: int
    alarm: bool


def drifts(episodes: Sequence[Sequence[Pair]], test: int) -> list[Drift]:
    """The drift of all actions, then of every stratum with at least two episodes.

    ``test``: number of the test in the run, from 1. Differences are averaged within each episode, because
    they are dependent.
    """
    groups: defaultdict[Stratum | None, list[float]] = defaultdict(list)
    for pairs in episodes:
        own: defaultdict[Stratum | None, list[float]] = defaultdict(list)
        for stratum, first, now in pairs:
            own[stratum].append(now - first)
            own[None].append(now - first)
        for key, differences in own.items():
            groups[key].append(math.fsum(differences) / len(differences))
    tested = {stratum: values for stratum, values in groups.items() if len(values) > 1}
    level = ALPHA / (test * (test + 1)) / max(len(tested), 1)
    order = sorted(tested, key=lambda stratum: stratum or ("", "", -1))
    return [_drift(stratum, tested[stratum], level) for stratum in order]


def _drift(stratum: Stratum | None, values: Sequence[float], level: float) -> Drift:
    count, mean = len(values), float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    width, wide = (-float(special.stdtrit(count - 1, tail)) * error for tail in (0.025, level / 2))
    alarm = count >= MIN_EPISODES and abs(mean) - wide > TOLERANCE
    return Drift(stratum, mean, mean - width, mean + width, count, alarm)
