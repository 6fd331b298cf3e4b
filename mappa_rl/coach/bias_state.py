"""What a checkpoint keeps of the tests and corrections of the coach's bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mappa_env.coach.bias.monitor import MonitorState
from mappa_env.coach.bias.strata import StrataState


@dataclass(frozen=True, slots=True)
class BiasState:
    """``correction``: None without a correction; ``anchor_tests``: tests of the anchors so far."""

    monitor: MonitorState
    correction: StrataState | None
    anchor_tests: int

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave. Raises OptionError for the state of another version."""
        correction = state["correction"]
        return cls(
            MonitorState.from_dict(state["monitor"]),
            None if correction is None else StrataState.from_dict(correction),
            state["anchor_tests"],
        )

    def to_dict(self) -> dict[str, Any]:
        """The stored form, as JSON."""
        return {
            "monitor": self.monitor.to_dict(),
            "correction": None if self.correction is None else self.correction.to_dict(),
            "anchor_tests": self.anchor_tests,
        }
