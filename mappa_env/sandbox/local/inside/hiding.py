"""What actions may not read of the runtime: tables that packages ship, and this project's own files.

A task's rows may come from a shipped table, and the project's packages generate tasks: either would help to
find hidden answers.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence

from . import installation

_TABLES = (
    *(".csv", ".tsv", ".arff", ".parquet", ".feather", ".orc", ".xls", ".xlsx", ".ods"),
    *(".dta", ".sav", ".sas7bdat", ".rda", ".rdata", ".svmlight", ".libsvm"),
)
_PACKED = ("", ".gz", ".bz2", ".xz", ".zst", ".zip")
_ENDINGS = tuple(table + packed for table in _TABLES for packed in _PACKED)
_WHOLE = ("lib/R/library", "local/lib/R", "share/R", "share/octave")
"""Folders below ``/usr`` of other languages' packages, which ship the same tables."""
_LIBRARIES = ("", "python3*/", "lib*/python3*/", "local/lib*/python3*/")
_CODE = (".py", ".so", ".pyx", ".pyd")


def hidden(visible: Sequence[str], own: Sequence[str] = ()) -> list[str]:
    """Files and folders below ``visible`` to hide; none lies in another one.

    ``visible``: what actions may read. ``own``: more paths to hide, wherever they are visible.
    """
    found = {path for folder in visible for path in _below(folder, own)}
    tables = {real: list(_tables(real)) for real in {os.path.realpath(path) for path in _libraries(visible)}}
    for library in _libraries(visible):
        found |= {os.path.join(library, name) for name in tables[os.path.realpath(library)]}
        found |= {path for path in installation.files(library) if _within(path, visible)}
    found |= {os.path.join("/usr", name) for name in _WHOLE}
    kept: list[str] = []
    for path in sorted(path for path in found if os.path.lexists(path)):
        if not kept or not path.startswith(kept[-1] + "/"):
            kept.append(path)
    return kept


def around(visible: Iterable[str], unseen: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The paths to allow instead of ``visible`` so that ``unseen`` stays closed.

    Each comes with whether all below it is allowed; otherwise only the names in it are.
    """
    for path in visible:
        if path in unseen:
            continue
        if not any(each.startswith(path + "/") for each in unseen):
            yield path, True
            continue
        yield path, False
        with os.scandir(path) as entries:
            inner = sorted(entry.path for entry in entries if not entry.is_symlink())
        yield from around(inner, unseen)


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _below(folder: str, own: Sequence[str]) -> Iterator[str]:
    """The paths of ``own`` that lie in ``folder``, by the name that they have there."""
    real = os.path.realpath(folder)
    for path in map(os.path.realpath, own):
        if path.startswith(real + "/"):
            yield folder + path[len(real) :]


def _libraries(visible: Sequence[str]) -> set[str]:
    """The library folders of all Pythons below ``visible``, without other names that links give them."""
    found = {folder for folder in visible if folder.endswith("-packages")}
    for folder in visible:
        real = os.path.realpath(folder)
        for part in _LIBRARIES:
            for path in glob.glob(os.path.join(glob.escape(folder), f"{part}*-packages")):
                if os.path.realpath(path) == real + path[len(folder) :]:
                    found.add(path)
    return found


def _tables(library: str) -> list[str]:
    """What holds tables, relative to ``library``: a folder without code, else the table itself."""
    found, _ = _look(library, tests=False)
    return [os.path.relpath(path, library) for path in found]


def _look(folder: str, *, tests: bool) -> tuple[list[str], bool]:
    """What of ``folder`` holds tables, and whether code lies in it or below.

    ``tests``: only tests need this folder, so that it may be hidden with all that is below it.
    """
    tables: list[str] = []
    below: list[str] = []
    code = code_below = False
    try:
        entries = list(os.scandir(folder))
    except OSError:  # closed to us, and therefore to actions
        return [], False
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                found, inner = _look(entry.path, tests=tests or entry.name in ("test", "tests"))
                below += found
                code_below |= inner
        elif entry.name.lower().endswith(_ENDINGS):
            tables.append(entry.path)
        elif entry.name.endswith(_CODE) and entry.name != "__init__.py":
            code = True
    code |= code_below
    if not code and (tables or (below and tests)):
        return [folder], False
    return tables + below, code
