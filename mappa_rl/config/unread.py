"""Settings that another setting makes useless: a run carries them, and nothing reads them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from mappa_rl.config.schema import ALIASES, Config
from mappa_rl.config.sections import Sections

UNREAD: tuple[tuple[str, str, object], ...] = (
    ("algo.gamma", "algo.mode", "per_action"),
    ("algo.kl", "algo.kl_coef", 0),
    ("algo.overlong_buffer", "algo.overlong_penalty", 0),
    ("algo.importance_bounds", "algo.importance_sampling", "none"),
    ("algo.dual_clip", "algo.loss", "gspo"),
    ("algo.dual_clip", "algo.loss", "cispo"),
    ("rollout.tasks_seed", "rollout.tasks", 0),
    ("rollout.update_between_turns", "rollout.staleness", 0),
    ("rollout.lockstep_groups", "rollout.schedule", "async"),
    ("lora", "policies.map", "separate"),
    ("lora", "policies.map", "shared"),
    ("bias.anchors_every", "bias.anchors", 0),
    ("warmstart.check_every", "warmstart.until", 0),
    ("warmstart.check_episodes", "warmstart.until", 0),
    ("eval.calibration_episodes", "eval.calibration_temperatures", []),
)
"""Rows ``(key or section, other, value)``: nothing reads the first while ``other`` has this value."""


def unread(config: Config, overrides: Sequence[str]) -> list[str]:
    """A sentence for each of ``overrides`` (``key=value``) that nothing reads in ``config``."""
    sections: Sections = config.model_copy(update={"rollout": _scheduled(config)})
    found = []
    for text in overrides:
        key = text.partition("=")[0]
        key = ALIASES.get(key, key)
        for name, other, value in UNREAD:
            if (key == name or key.startswith(f"{name}.")) and attrgetter(other)(sections) == value:
                found.append(f"{text} has no effect with {other}={_shown(value)}")
    return found


def _scheduled(config: Config) -> object:
    """The ``rollout`` section with the schedule that ``auto`` stands for."""
    return config.rollout.model_copy(update={"schedule": "async" if config.is_async else "lockstep"})


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
