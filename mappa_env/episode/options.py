"""The options of an episode, and of ``gym.make``: names, defaults and valid combinations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.sandbox import DEFAULT
from mappa_env.sandbox.base import Limits

FEEDBACK = ("off", "agents")
JUDGING = ("blocking", "deferred")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOptions:
    """See ``docs/environments.md`` for what each option does. Raises OptionError."""

    coach: str | Mapping[str, Any] = "rubric"
    sandbox: str | Mapping[str, Any] = DEFAULT
    tasks: str = "train"
    task_options: Mapping[str, Any] | None = None
    prompts: str = "full"
    coach_feedback: str = "off"
    judging: str = "blocking"
    shaping: str | Mapping[str, Any] = "process"
    limits: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("task_options", "limits"):
            found = getattr(self, name)
            if found is not None and not (
                isinstance(found, Mapping) and all(isinstance(k, str) for k in found)
            ):
                raise OptionError(f"{name}={found!r:.200} must be a mapping of names to values.")
        _one_of("coach_feedback", self.coach_feedback, FEEDBACK)
        _one_of("judging", self.judging, JUDGING)
        if self.judging == "deferred" and self.coach_feedback == "agents":
            raise OptionError(
                "judging='deferred' and coach_feedback='agents' cannot be combined: agents would need "
                "verdicts that are still pending."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The options that a trajectory records."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del found["limits"]
        return {**found, "task_options": dict(self.task_options or {})}

    def checked_limits(self) -> dict[str, Any]:
        """The limits that replace the card's, by name. Raises OptionError."""
        return Limits.checked("limits", self.limits or {})


OPTIONS = tuple(field.name for field in dataclasses.fields(EpisodeOptions))
"""The names of all options."""


def _one_of(name: str, value: object, offered: tuple[str, ...]) -> None:
    if value not in offered:
        raise OptionError(
            f"{name}={value!r} is unknown; use one of {offered}." + nearest(str(value), offered)
        )
