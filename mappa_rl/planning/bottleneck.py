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
    """``names``: the stage that takes most of the step, and those that tie; ``fraction``: of the first.

    ``factor``: times of all of them until another one takes more of the step, ``then``, and the step is
    ``speedup`` times as fast. None and empty: no number of them changes that, since an action's own seconds
    take that long.
    """

    names: tuple[str, ...]
    fraction: float
    factor: float | None
    then: str
    speedup: float


def first_bottleneck(setup: Setup) -> Bottleneck:
    """The stages that take most of the step, and what removes them as the first ones."""
    step = predict(setup)
    names, fraction = step.bottlenecks, step.parts[step.bottleneck] / step.seconds

    def with_more(factor: float) -> Step:
        more = setup
        for name in names:
            more = more.with_more(name, factor)
        return predict(more)

    most = with_more(MOST)
    if most.bottleneck in names:
        return Bottleneck(names, fraction, None, "", step.seconds / most.seconds)
    low, high = 1.0, MOST
    for _ in range(ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if with_more(middle).bottleneck in names else (low, middle)
    found = with_more(high)
    return Bottleneck(names, fraction, high, found.bottleneck, step.seconds / found.seconds)
