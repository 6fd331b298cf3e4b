"""Runs grouped by their settings: seeds of one group are pooled, groups are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_rl.report.runs import RunData
from mappa_rl.report.settings import SAME_GROUP, flat, text_of

FIRST = ("process",)
"""Labels that come first: what the others are compared with."""
FOLDER = "folder"
"""The key that tells apart runs whose settings and seeds are the same."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ only in their seeds, in the order of these.

    ``values``: config key in which the groups differ -> this group's value as a text; empty for an only
    group. ``label``: the same in a line.
    """

    values: Mapping[str, str]
    label: str
    runs: tuple[RunData, ...]

    @property
    def heading(self) -> str:
        """The column head over the labels: the only key, or ``settings``."""
        return next(iter(self.values)) if len(self.values) == 1 else "settings"


def group_runs(runs: Sequence[RunData], *, apart: bool = False) -> list[Group]:
    """Group runs by the settings that differ, in the order given; process rewards come first.

    Runs with equal settings and the same seed are kept apart by their folders; with ``apart`` also those of
    an only group.
    """
    settings = [_settings(run) for run in runs]
    keys = [key for key in _keys(settings) if len({text_of(own.get(key)) for own in settings}) > 1]
    members: dict[tuple[str, ...], list[RunData]] = {}
    for run, own in zip(runs, settings, strict=True):
        members.setdefault(tuple(text_of(own.get(key)) for key in keys), []).append(run)
    groups = [
        _group(dict(zip(keys, values, strict=True)), sorted(mine, key=lambda run: run.seed))
        for values, mine in members.items()
    ]
    twice = any(len({run.seed for run in group.runs}) < len(group.runs) for group in groups)
    if twice or (apart and len(groups) == 1 and len(runs) > 1):
        groups = _by_folder(groups)
    return sorted(groups, key=lambda group: group.label not in FIRST)


def _group(values: Mapping[str, str], runs: Sequence[RunData]) -> Group:
    """The label is the value alone if the groups differ in one key, else ``key=value, ...``."""
    one = len(values) == 1
    label = ", ".join(value if one or key == FOLDER else f"{key}={value}" for key, value in values.items())
    return Group(values, label, tuple(runs))


def _by_folder(groups: Sequence[Group]) -> list[Group]:
    """Every run on its own, named by its folder as well."""
    names = [run.folder.name for group in groups for run in group.runs]
    unique = len(set(names)) == len(names)
    return [
        _group({**group.values, FOLDER: run.folder.name if unique else str(run.folder)}, [run])
        for group in groups
        for run in group.runs
    ]


def _settings(run: RunData) -> Mapping[str, Any]:
    """Dotted key -> value, without bookkeeping; a run's own folder is spelled ``<run>``."""
    own = str(run.config.run.out or run.folder)
    return {key: _relative(value, own) for key, value in flat(run.config).items() if key not in SAME_GROUP}


def _relative(value: Any, own: str) -> Any:
    if isinstance(value, dict):
        return {key: _relative(inner, own) for key, inner in value.items()}
    if isinstance(value, str) and value.startswith(f"{own}/"):
        return value.replace(own, "<run>", 1)
    return value


def _keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for own in settings for key in own))
