"""When an action came, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one action: ``at`` is when it came, in seconds since 1970; the others are durations.

    ``waited_s``: from the prompt to the action, which is the policy's time; ``took_s``: the environment's,
    with code, coach and grading. Both in seconds.
    """

    at: float
    waited_s: float
    took_s: float
