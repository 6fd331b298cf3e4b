"""Where added data lives: ``$MAPPA_DATA``, or ``~/.local/share/mappa``; one folder a loader."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from mappa_env.errors import DataMissingError, OptionError, nearest

SPLITS = ("train", "eval")


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
