"""The learning rate as a pure function of the number of updates done."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mappa_rl.config import Optim
from mappa_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rises linearly over ``warmup`` updates to ``peak``, then follows ``kind``.

    ``constant`` ignores ``total`` and ``floor``; ``linear`` and ``cosine`` decay to ``floor`` times ``peak``
    at ``total`` updates and stay there.
    """

    peak: float
    kind: Literal["constant", "linear", "cosine"]
    warmup: int
    total: int
    floor: float

    @classmethod
    def of(cls, optim: Optim, lr: float, updates: int) -> Schedule:
        """The schedule of the ``optim`` section over ``updates`` updates, with the peak ``lr``."""
        return cls(lr, optim.schedule, optim.warmup(updates), updates, optim.min_lr_ratio)

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "linear", "cosine"):
            raise ConfigError(f"Schedule {self.kind!r} does not exist; choose constant, linear or cosine.")
        if not 0 <= self.floor <= 1:
            raise ConfigError(f"A schedule's floor={self.floor} is a fraction of its peak: use 0 to 1.")
        if self.kind != "constant" and self.total <= self.warmup:
            raise ConfigError(
                f"A {self.kind} schedule needs total={self.total} updates above warmup={self.warmup}."
            )

    def __call__(self, update: int) -> float:
        """The learning rate of update number ``update`` (from 0)."""
        if update < self.warmup:
            return self.peak * (update + 1) / self.warmup
        if self.kind == "constant":
            return self.peak
        left = max(0.0, 1.0 - (update - self.warmup) / (self.total - self.warmup))
        height = left if self.kind == "linear" else 0.5 * (1.0 - math.cos(math.pi * left))
        return self.peak * (self.floor + (1.0 - self.floor) * height)
