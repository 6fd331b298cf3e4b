"""The files that a card names: in its folder, unless the user trusts it, since anyone may have written it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import envs_registry
from mappa_env import plugins
from mappa_env.errors import CardError

_LONGEST = 1000
"""Characters of a path that a card names; systems take a few thousand."""


def find_file(folders: Sequence[Path], name: str, where: Path, key: str) -> Path:
    """The file ``name`` in the first of the card's folders that has it; ``key`` in ``where`` names it.

    Raises CardError for one that is missing, or outside of the folder: an absolute path, ``..``, a link.
    """
    if usable(name) and not Path(name).is_absolute() and ".." not in Path(name).parts:
        for folder in folders:
            if (folder / name).is_file():
                return inside(folder, folder / name, where, key)
    raise CardError(f"{where}: {key} needs the file {name!r:.200}, which is not in {folders[0]}.")


def inside(folder: Path, path: Path, where: Path, key: str) -> Path:
    """``path``, if it leads to something in ``folder``. Raises CardError that names the permission."""
    shipped = folder.resolve().is_relative_to(envs_registry.ROOT.resolve())  # some installers link every file
    if not shipped and not path.resolve().is_relative_to(folder.resolve()):
        permitted(where, folder, f"{key} leads to {path.resolve()}, outside of the card")
    return path


def permitted(where: Path, folder: Path, what: str) -> None:
    """Raise CardError about ``what`` unless the user trusts the card in ``folder``."""
    if not plugins.trusted(folder):
        raise CardError(
            f"{where}: {what}. Anyone may have written the card, so read it first; to allow it, list its "
            f"folder in the environment variable: {plugins.TRUST}={os.fspath(folder.resolve())}"
        )


def usable(name: str) -> bool:
    """Whether a system could have a file of that name."""
    return "\x00" not in name and len(name) <= _LONGEST and max(map(len, Path(name).parts), default=0) < 256
