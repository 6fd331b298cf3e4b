"""What limits a step first, and how much of it would remove the limit."""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.planning.setup import Setup
from mappa_rl.planning.step import Step, predict

MOST = 1024.0
"""The largest factor that is tried: what does not help then is a matter of latency, not of number."""
ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """``name``: the stage; ``fraction``: of the step's seconds.

    ``factor``: times of it until another one takes more of the step, ``then``, and the step is ``speedup``
    times as fast. None and empty: no number of it changes that, since an action's own seconds take that long.
    """

    name: str
    fraction: float
    factor: float | None
    then: str
    speedup: float


def first_bottleneck(setup: Setup) -> Bottleneck:
    """The stage that takes most of the step, and what removes it as the first one."""
    step = predict(setup)
    name, fraction = step.bottleneck, step.parts[step.bottleneck] / step.seconds

    def with_more(factor: float) -> Step:
        return predict(setup.with_more(name, factor))

    most = with_more(MOST)
    if most.bottleneck == name:
        return Bottleneck(name, fraction, None, "", step.seconds / most.seconds)
    low, high = 1.0, MOST
    for _ in range(ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if with_more(middle).bottleneck == name else (low, middle)
    found = with_more(high)
    return Bottleneck(name, fraction, high, found.bottleneck, step.seconds / found.seconds)
