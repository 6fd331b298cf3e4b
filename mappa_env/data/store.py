"""Where added data lives: ``$MAPPA_DATA``, or ``~/.local/share/mappa``; one folder a loader."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from mappa_env.errors import DataMissingError, OptionError, nearest

SPLITS = ("train", "eval")
CONTESTS = ("aime", "amc")


@dataclass(frozen=True, slots=True)
class Added:
    """What ``add`` has stored: ``tasks`` of them at ``path``; ``dropped`` were held-out problems."""

    path: Path
    tasks: int
    dropped: int = 0


def data_root() -> Path:
    """The folder of added data; it need not exist."""
    chosen = os.environ.get("MAPPA_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path.home() / ".local" / "share" / "mappa"


def is_split(split_or_path: str) -> bool:
    """True for a split name; False for what can only be a path. Raises OptionError for neither."""
    if split_or_path in SPLITS:
        return True
    if os.sep in split_or_path or "." in split_or_path:
        return False
    raise OptionError(
        f"tasks={split_or_path!r} is neither a split ({', '.join(SPLITS)}) nor a path."
        + nearest(split_or_path, SPLITS)
    )


@overload
def stored(name: str, split: str, *, missing_ok: Literal[False] = ...) -> Path: ...
@overload
def stored(name: str, split: str, *, missing_ok: bool) -> Path | None: ...
def stored(name: str, split: str, *, missing_ok: bool = False) -> Path | None:
    """The file of a stored split. Raises DataMissingError that names the command which adds it."""
    path = data_root() / name / f"{split}.json"
    if path.is_file():
        return path
    if missing_ok:
        return None
    flag = "" if split == "train" else f" --split {split}"
    raise DataMissingError(
        f"{name} ({split}) is not there yet: its texts may not be shipped. "
        f"Add your copy with: mappa-env data add {name} PATH{flag}"
    )


def add(name: str, path: str | Path, *, split: str = "train", drop_overlap: bool = False) -> Added:
    """Check the problems of a file and store them as ``split`` of ``aime`` or ``amc``.

    Other loaders store what their module's own ``add(path)`` makes of it. ``drop_overlap`` leaves out what
    the other split holds; without it, shared problems are refused. Raises DataError, OptionError,
    DataMissingError.
    """
    if name not in CONTESTS:
        return _add_by_module(name, Path(path))
    if split not in SPLITS:
        raise OptionError(f"split={split!r} is not offered; use one of {SPLITS}." + nearest(split, SPLITS))
    from mappa_env.data.contest import read_contest, without
    from mappa_env.data.leaks import check_disjoint

    tasks = read_contest(name, Path(path), split)
    other = next(s for s in SPLITS if s != split)
    other_file = stored(name, other, missing_ok=True)
    others = read_contest(name, other_file, other) if other_file else []
    kept = without(tasks, others) if drop_overlap else tasks
    train, held_out = (kept, others) if split == "train" else (others, kept)
    check_disjoint(train, held_out, "Leave them out with --drop-overlap.")
    rows = [
        {
            "id": task.id.removeprefix(f"{name}-"),
            "prompt": task.prompt,
            "answer": task.truth["answer"],
            **_contest_fields(task.meta),
        }
        for task in kept
    ]
    target = data_root() / name / f"{split}.json"
    _write(target, json.dumps(rows, ensure_ascii=False, indent=1))
    return Added(target, len(kept), len(tasks) - len(kept))


def _add_by_module(name: str, path: Path) -> Added:
    from mappa_env.data import LOADERS

    module: Any = importlib.import_module(f"mappa_env.data.{name}") if name in LOADERS else None
    if not hasattr(module, "add"):
        known = (*CONTESTS, "dsbench")
        raise OptionError(f"no data can be added for {name!r}; known: {known}." + nearest(name, known))
    result: Added = module.add(path)
    return result


def _contest_fields(meta: Mapping[str, Any]) -> dict[str, Any]:
    if not meta:
        return {}
    return {"year": meta["year"], "part": meta["part"], "problem_number": meta["number"]}


def _write(target: Path, text: str) -> None:
    """All or nothing: a reader never sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
    ) as part:
        part.write(text)
    os.replace(part.name, target)
