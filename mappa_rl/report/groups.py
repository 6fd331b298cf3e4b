"""Runs grouped by their settings: seeds of one group are pooled, groups are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_rl.report.runs import RunData

BOOKKEEPING = {
    "run.seed",
    "run.out",
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.torch_threads",
    "run.tensorboard",
    "run.wandb",
    "run.weave",
    "run.record_rollouts",
    "warmstart.path",
}
"""Keys that say where and how a run is kept, not what it does. A shared warm start has a path of its own."""
FIRST = ("process",)
"""Labels that come first: what the others are compared with."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ only in their seeds.

    ``keys`` are the config keys in which the groups differ, ``label`` this group's values of them (empty for
    an only group).
    """

    keys: tuple[str, ...]
    label: str
    runs: tuple[RunData, ...]

    @property
    def heading(self) -> str:
        """The column head over the labels: the only key, or ``settings``."""
        return self.keys[0] if len(self.keys) == 1 else "settings"


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """Group runs by the settings that differ, in the order given; process rewards come first.

    Runs with equal settings and the same seed are kept apart by their folders.
    """
    settings = [_settings(run) for run in runs]
    keys = tuple(key for key in _keys(settings) if len({_text(own.get(key)) for own in settings}) > 1)
    members: dict[str, list[RunData]] = {}
    for run, own in zip(runs, settings, strict=True):
        members.setdefault(_label(keys, own), []).append(run)
    groups = [Group(keys, label, tuple(mine)) for label, mine in members.items()]
    if any(len({run.seed for run in group.runs}) < len(group.runs) for group in groups):
        groups = _by_folder(keys, groups)
    return sorted(groups, key=lambda group: group.label not in FIRST)


def _by_folder(keys: tuple[str, ...], groups: Sequence[Group]) -> list[Group]:
    """Every run on its own, named by its folder as well."""
    names = [run.folder.name for group in groups for run in group.runs]
    unique = len(set(names)) == len(names)
    return [
        Group(
            (*keys, "folder"),
            ", ".join(part for part in (group.label, run.folder.name if unique else str(run.folder)) if part),
            (run,),
        )
        for group in groups
        for run in group.runs
    ]


def _settings(run: RunData) -> Mapping[str, Any]:
    """Dotted key -> value, without bookkeeping; a run's own folder is spelled ``<run>``."""
    sections = run.config.model_dump(mode="json")
    flat: dict[str, Any] = {}
    for section, values in sections.items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": value for key, value in values.items()}
        else:
            flat[section] = values
    own = str(run.config.run.out or run.folder)
    return {key: _relative(value, own) for key, value in flat.items() if key not in BOOKKEEPING}


def _relative(value: Any, own: str) -> Any:
    if isinstance(value, dict):
        return {key: _relative(inner, own) for key, inner in value.items()}
    if isinstance(value, str) and value.startswith(f"{own}/"):
        return value.replace(own, "<run>", 1)
    return value


def _keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for own in settings for key in own))


def _label(keys: Sequence[str], own: Mapping[str, Any]) -> str:
    """The value alone if the groups differ in one key, else ``key=value, ...``."""
    if len(keys) == 1:
        return _text(own.get(keys[0]))
    return ", ".join(f"{key}={_text(own.get(key))}" for key in keys)


def _text(value: Any) -> str:
    """``grpo``, ``0.02``, ``mixed(process_weight=0.7)``; anything else as JSON."""
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = ", ".join(f"{k}={_text(v)}" for k, v in value.items() if k != "name")
        return f"{value['name']}({options})" if options else str(value["name"])
    return json.dumps(value, sort_keys=True)
