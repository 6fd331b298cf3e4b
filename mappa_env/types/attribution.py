"""Which actions caused the end of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mappa_env.types.verdict import CallInfo


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the causal chain from the end of an episode back to the cause.

    ``action`` is the step of the action; ``reason`` says how it relates to the previous link.
    """

    action: int
    reason: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which actions caused the end of an episode.

    ``failed``: whether the fractions are blame for a failure or credit for a success. ``fractions``: one per
    action, with sum 1; empty if unknown. ``decided``: by backward ``tracing`` alone, by the episode's
    ``verdicts``, by one more call to the ``coach``, or by ``nobody``. ``walk`` leads from the end back to the
    cause. ``suspects`` are the actions that could have caused it. ``asked``: provenance of the coach's
    answer, if it was called.
    """

    failed: bool
    fractions: tuple[float, ...]
    decided: Literal["tracing", "verdicts", "coach", "nobody"]
    walk: tuple[Link, ...] = ()
    suspects: tuple[int, ...] = ()
    asked: CallInfo | None = None

    @property
    def culprit(self) -> int | None:
        """The first action with the largest blame; None for a success or if unknown."""
        return self.fractions.index(max(self.fractions)) if self.failed and self.fractions else None
