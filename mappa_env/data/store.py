"""The store of added data: ``$MAPPA_DATA``, or ``~/.local/share/mappa``; one folder per loader."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from mappa_env.errors import DataMissingError, OptionError, nearest
from mappa_env.places import data_root

SPLITS = ("train", "eval")


@dataclass(frozen=True, slots=True)
class Added:
    """The result of ``add``: the number of ``tasks`` at ``path``, and of ``dropped`` held-out problems."""

    path: Path
    tasks: int
    dropped: int = 0


def is_split(split_or_path: str) -> bool:
    """Whether the argument is a split name, not a path. Raises OptionError if it is neither."""
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
    """The file of a stored split. Raises DataMissingError that names the command to add it."""
    path = data_root() / name / f"{split}.json"
    if path.is_file():
        return path
    if missing_ok:
        return None
    flag = "" if split == "train" else f" --split {split}"
    raise DataMissingError(
        f"{name} ({split}) is missing: its texts may not be redistributed. "
        f"Add your copy with: mappa-env data add {name} PATH{flag}"
    )
