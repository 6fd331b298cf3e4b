"""The full record of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mappa_env.types.action import ActionRecord
from mappa_env.types.attribution import Attribution
from mappa_env.types.outcome import Outcome
from mappa_env.types.task import Task
from mappa_env.types.timing import Timing


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The full record of an episode.

    ``outcome`` is None until the episode is over; ``attribution`` is None unless the shaping needs it.
    ``timings``: one per action, empty if nobody measured; they take no part in comparisons.
    """

    env_id: str
    task: Task
    seed: int
    actions: tuple[ActionRecord, ...]
    outcome: Outcome | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    attribution: Attribution | None = None
    timings: tuple[Timing, ...] = field(default=(), compare=False)
