"""How an episode ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended. ``score`` is in [0, 1]; ``status`` is ``ok`` or names the problem."""

    score: float
    success: bool
    status: str
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)
