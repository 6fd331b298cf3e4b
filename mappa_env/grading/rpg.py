"""Relative performance gap (RPG): DSBench's measure over competitions with different metrics.

For each competition ``max(0, (p - b) / (g - b))`` with the score ``p``, that of the baseline ``b`` (the
sample submission) and that of the answers themselves ``g``; 0 without a score. RPG is the mean over all
competitions (https://github.com/LiqiangJing/DSBench, ``data_modeling/show_result.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean


def gain(score: float | None, baseline: float, best: float) -> float:
    """The gap of one competition, at least 0 and without an upper bound; 0 for no score or NaN.

    Where the baseline is as good as the answers, the formula is undefined: 1 for the best score, else 0.
    """
    if score is None or math.isnan(score):
        return 0.0
    if best == baseline:
        return float(score == best)
    return max(0.0, (score - baseline) / (best - baseline))


def rpg(gains: Sequence[float], *, capped: bool = False) -> float:
    """The mean gap. ``capped``: no competition counts more than 1, so that one cannot make up for others."""
    return fmean(min(each, 1.0) if capped else each for each in gains) if gains else 0.0
