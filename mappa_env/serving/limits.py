"""What clients of a served environment may use."""

from __future__ import annotations

from dataclasses import dataclass

SEED_BOUND = 2**63
"""Seeds are in [0, ``SEED_BOUND``)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``episodes``: open at once. ``idle_s``: seconds without a call after which an episode is closed.

    ``body_bytes``: of a request. ``read_s``: seconds in which a request's body must be here. ``stop_s``:
    seconds that calls under way have when the server ends.
    """

    episodes: int = 64
    idle_s: float = 600.0
    body_bytes: int = 1_000_000
    read_s: float = 30.0
    stop_s: float = 2.0
