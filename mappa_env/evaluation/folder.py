"""The folder of an evaluation: what was asked for, every episode, the figures."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env import __version__
from mappa_env.data.store import write
from mappa_env.errors import EvaluationError, UnfinishedEvaluation
from mappa_env.evaluation.abandoned import load_abandoned
from mappa_env.evaluation.comparison import compared
from mappa_env.evaluation.episodes import Played, load, run_of
from mappa_env.evaluation.extent import check_finished, command, sources_in
from mappa_env.evaluation.figures import Figures, figures
from mappa_env.evaluation.lock import LOCK, locked
from mappa_env.evaluation.plan import Plan
from mappa_env.evaluation.seal import check_sealed
from mappa_env.json_and_yaml import json_text, read_json

SETTINGS, RESULTS = "settings.json", "evaluation.json"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a folder holds."""

    name: str
    settings: Mapping[str, Any]
    figures: tuple[Figures, ...]
    versions: Mapping[str, tuple[str, ...]]
    """Agent -> the models that answered for it."""
    run: str
    """Digest of the episodes with their times, in any order: only a copy has the same."""
    sources: Mapping[str, Mapping[str, str]]
    """Environment -> ``sources_of`` its card; empty if an earlier version played it."""


@contextmanager
def opened(folder: Path, plan: Plan) -> Iterator[list[Played]]:
    """Hold ``folder`` inside the block, as ``begin`` does; no other process can work on it meanwhile.

    Raises EvaluationError if another process holds it, or if it belongs to another plan.
    """
    check_free(folder)
    with locked(folder):
        yield begin(folder, plan)


def begin(folder: Path, plan: Plan) -> list[Played]:
    """Make ``folder`` the plan's, or go on with it; returns the episodes that are over.

    Raises EvaluationError if it belongs to another plan: its results would be a mixture; and if all its
    episodes are there, but not those of its results. Settings that change no result may differ; the new ones
    are written.
    """
    path = folder / SETTINGS
    asked = json.loads(json.dumps(plan.settings))
    if path.exists():
        before = _read(path)
        old, new = compared(before), compared(asked)
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                raise EvaluationError(
                    f"{folder} holds an evaluation with {key}={old.get(key)!r}, and now {key}="
                    f"{new.get(key)!r}: go on with the old value, or choose another --out."
                )
        played = load(folder, repair=True)
        load_abandoned(folder, repair=True)
        if (folder / RESULTS).exists():  # new ones would hide what was changed since
            with suppress(UnfinishedEvaluation):
                _check(folder, _evaluation(folder, played, over=True))
        if before != asked:
            write(path, json_text(asked) + "\n")
        return played
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write(path, json_text(asked) + "\n")
    return []


def check_free(folder: Path) -> None:
    """Raises EvaluationError if ``folder`` cannot be made, or holds something else than an evaluation."""
    if folder.exists() and not folder.is_dir():
        raise EvaluationError(f"{folder} is a file: choose another --out.")
    above = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = "may not be written" if above.is_dir() else "is a file"
        raise EvaluationError(f"{folder} cannot be used, because {above} {what}: choose another --out.")
    if (
        not (folder / SETTINGS).exists()
        and folder.exists()
        and {each.name for each in folder.iterdir()} - {LOCK}
    ):
        raise EvaluationError(f"{folder} is not empty and holds no evaluation: choose another --out.")


def finish(folder: Path, played: list[Played]) -> Evaluation:
    """Compute the figures and write them to ``evaluation.json``. Raises EvaluationError if it is not over."""
    found = _evaluation(folder, played, over=True)
    write(folder / RESULTS, json_text(_document(found)) + "\n")
    return found


def read(folder: Path) -> Evaluation:
    """The finished evaluation in ``folder``, from its episodes.

    Raises EvaluationError if episodes or results are missing, or if settings and episodes are not those of
    the results that were written when it was finished; DataError for lines that are no episodes.
    """
    if not (folder / SETTINGS).is_file():
        raise EvaluationError(f"{folder} holds no evaluation: name the --out folder of 'mappa-env eval'.")
    sealed = (folder / RESULTS).exists()
    found = _evaluation(folder, load(folder), over=sealed)
    if not sealed:
        raise UnfinishedEvaluation(
            f"{folder} is not finished: its episodes are there, and {RESULTS} is missing. Restore that, or "
            f"resume the evaluation with: {command(folder, found.settings)}"
        )
    _check(folder, found)
    return found


def _check(folder: Path, found: Evaluation) -> None:
    written = _read(folder / RESULTS)
    check_sealed(folder / RESULTS, written, json.loads(json_text(_document(found))))


def _document(found: Evaluation) -> dict[str, Any]:
    named: dict[str, Any] = _named(
        {
            "mappa": __version__,
            "settings": found.settings,
            "versions": {agent: list(names) for agent, names in found.versions.items()},
            "environments": [dataclasses.asdict(each) for each in found.figures],
            "run": found.run,
            "sources": found.sources,
        }
    )
    return named


def _evaluation(folder: Path, played: list[Played], *, over: bool) -> Evaluation:
    settings = _settings(folder / SETTINGS)
    check_finished(folder, settings, played, over)
    versions: dict[str, set[str]] = {}
    for each in played:
        for agent, version in each.versions.items():
            versions.setdefault(agent, set()).add(version)
    return Evaluation(
        folder.resolve().name,
        settings,
        tuple(figures(played, load_abandoned(folder))),
        {agent: tuple(sorted(names)) for agent, names in versions.items()},
        run_of(played),
        sources_in(folder),
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
        found = read_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise EvaluationError(f"{path} must hold a JSON object.")
    return found


def _settings(path: Path) -> dict[str, Any]:
    """The settings of an evaluation, whose models have names. Raises EvaluationError."""
    found = _read(path)
    models, options = found.get("models"), found.get("options")
    named = isinstance(models, dict) and all(
        isinstance(spec, dict) and isinstance(spec.get("name"), str) for spec in models.values()
    )
    tasks = found.get("tasks")
    if not (models and named and isinstance(options, dict | None) and isinstance(tasks, str)):
        raise EvaluationError(f"{path} has no settings of an evaluation: it needs models, options, tasks.")
    return found
