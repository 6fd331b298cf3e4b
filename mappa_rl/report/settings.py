"""The settings of a run as flat keys and short texts: what a page or a table shows of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_rl.config import Config
from mappa_rl.config.resumable import BOOKKEEPING
from mappa_rl.config.schema import ALIASES

SAME_GROUP = {"run.seed", "run.out", "warmstart.path", *BOOKKEEPING}
"""Keys in which runs of one group may differ. A shared warm start has a path of its own."""
_OVERRIDE = re.compile(r"(?<![\w.])([a-z][\w.]*)=")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that differs from its default; ``given``: a command line of the run names it."""

    key: str
    value: str
    default: str
    given: bool


def flat(config: Config) -> dict[str, Any]:
    """Dotted key -> value, as JSON has it."""
    found: dict[str, Any] = {}
    for section, values in config.model_dump(mode="json").items():
        if isinstance(values, dict):
            found |= {f"{section}.{key}": value for key, value in values.items()}
        else:
            found[section] = values
    return found


def changed(config: Config, commands: Sequence[str]) -> list[Setting]:
    """The settings that differ from their defaults, by recipe or by override, in the order of the schema."""
    defaults = flat(Config())
    words = {key for line in commands for key in _OVERRIDE.findall(line)}
    given = {ALIASES.get(word, word) for word in words}
    return [
        Setting(key, text_of(value), text_of(defaults.get(key)), key in given)
        for key, value in flat(config).items()
        if value != defaults.get(key)
    ]


def text_of(value: Any) -> str:
    """``grpo``, ``0.02``, ``mixed(process_weight=0.7)``; anything else as JSON."""
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        options = ", ".join(f"{k}={text_of(v)}" for k, v in value.items() if k != "name")
        return f"{value['name']}({options})" if options else str(value["name"])
    return json.dumps(value, sort_keys=True)
