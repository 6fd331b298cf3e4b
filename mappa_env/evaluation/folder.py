"""The folder of an evaluation: what was asked for, every episode, the figures."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env import __version__
from mappa_env.errors import EvaluationError
from mappa_env.evaluation.episodes import Played, load
from mappa_env.evaluation.figures import Figures, figures
from mappa_env.evaluation.plan import Plan

SETTINGS, RESULTS = "settings.json", "evaluation.json"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a folder holds."""

    name: str
    settings: Mapping[str, Any]
    figures: tuple[Figures, ...]
    versions: Mapping[str, tuple[str, ...]]
    """Agent -> the models that answered for it."""


def begin(folder: Path, plan: Plan) -> list[Played]:
    """Make ``folder`` the plan's, or go on with it; returns the episodes that are over.

    Raises EvaluationError if it belongs to another plan: its results would be a mixture.
    """
    path = folder / SETTINGS
    asked = json.loads(json.dumps(plan.settings))
    if path.exists():
        found = _read(path)
        for key in sorted({*asked, *found}):
            if asked.get(key) != found.get(key):
                raise EvaluationError(
                    f"{folder} holds an evaluation with {key}={found.get(key)!r}, and now {key}="
                    f"{asked.get(key)!r}: go on with the old value, or choose another --out."
                )
        return load(folder)
    if folder.exists() and any(folder.iterdir()):
        raise EvaluationError(f"{folder} is not empty and holds no evaluation: choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    _write(path, asked)
    return []


def finish(folder: Path, played: list[Played]) -> Evaluation:
    """Compute the figures and write them to ``evaluation.json``. Raises EvaluationError: see ``figures``."""
    found = _evaluation(folder, played)
    document = {
        "mappa": __version__,
        "settings": found.settings,
        "versions": {agent: list(names) for agent, names in found.versions.items()},
        "environments": [dataclasses.asdict(each) for each in found.figures],
    }
    _write(folder / RESULTS, _named(document))
    return found


def read(folder: Path) -> Evaluation:
    """The evaluation in ``folder``. Raises EvaluationError, DataError."""
    if not (folder / SETTINGS).is_file():
        raise EvaluationError(f"{folder} holds no evaluation: name the --out folder of 'mappa-env eval'.")
    return _evaluation(folder, load(folder))


def _evaluation(folder: Path, played: list[Played]) -> Evaluation:
    versions: dict[str, set[str]] = {}
    for each in played:
        for agent, version in each.versions.items():
            versions.setdefault(agent, set()).add(version)
    return Evaluation(
        folder.resolve().name,
        _read(folder / SETTINGS),
        tuple(figures(played)),
        {agent: tuple(sorted(names)) for agent, names in versions.items()},
    )


def _named(value: Any) -> Any:
    """Intervals as mappings: JSON would make lists of them."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, Mapping):
        return {key: _named(each) for key, each in value.items()}
    return [_named(each) for each in value] if isinstance(value, (list, tuple)) else value


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise EvaluationError(f"{path} must hold a JSON object.")
    return found


def _write(path: Path, document: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)
