"""Settings that another setting makes useless: a run carries them, and nothing reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from mappa_rl.config.schema import ALIASES, Config
from mappa_rl.config.sections import Sections


class Unread(NamedTuple):
    """Nothing reads ``key``, a key or a section, while ``useless`` holds of the value of ``other``."""

    key: str
    other: str
    useless: Callable[[Any], bool]


def _off(value: Any) -> bool:
    """Of a number: 0."""
    return not value


UNREAD = (
    Unread("algo.overlong_buffer", "algo.overlong_penalty", _off),
    Unread("algo.importance_bounds", "algo.importance_sampling", lambda value: value == "none"),
    Unread("rollout.tasks_seed", "rollout.tasks", _off),
    Unread("rollout.update_between_turns", "rollout.staleness", _off),
    Unread("rollout.lockstep_groups", "rollout.schedule", lambda value: value == "async"),
    Unread("lora", "policies.map", lambda value: value != "lora"),
    Unread("bias.anchors_every", "bias.anchors", _off),
    *(Unread(f"warmstart.{key}", "warmstart.until", _off) for key in ("check_every", "check_episodes")),
    *(
        Unread(f"warmstart.{key}", "warmstart.steps", _off)
        for key in ("until", "batch_size", "lr", "warmup_steps", "prompt_weight", "name_weight", "renamed")
    ),
    *(
        Unread(f"model.{key}", "model.kind", lambda value: value != "tiny")
        for key in ("hidden", "layers", "heads", "kv_heads", "mlp", "vocab_size", "tokenizer_style")
    ),
)
"""What holds for every algorithm and loss. Those refuse the keys that they do not take by themselves."""


def unread(config: Config, overrides: Sequence[str]) -> list[str]:
    """A sentence for each of ``overrides`` (``key=value``) that nothing reads in ``config``."""
    sections: Sections = config.model_copy(update={"rollout": _scheduled(config)})
    found = []
    for text in overrides:
        key = text.partition("=")[0].strip()
        key = ALIASES.get(key, key)
        for row in UNREAD:
            value = attrgetter(row.other)(sections)
            if (key == row.key or key.startswith(f"{row.key}.")) and row.useless(value):
                found.append(f"{text} has no effect with {row.other}={value}")
    return found


def _scheduled(config: Config) -> object:
    """The ``rollout`` section with the schedule that ``auto`` stands for."""
    return config.rollout.model_copy(update={"schedule": "async" if config.is_async else "lockstep"})
