"""The base seeds of a run's episodes. They never change: recorded results depend on them."""

from __future__ import annotations

WARM_START, CALIBRATION, VALIDATION, EVALUATION, ANCHORS = 6_001, 7_001, 8_001, 9_001, 11_001
"""Base seeds of episodes outside of training, equal in all runs, so that runs can be compared."""


def numbered(base: int, index: int) -> int:
    """The seed of the ``index``-th episode of a series with the seed ``base``; ``index`` below 1,000,003."""
    return base * 1_000_003 + index
