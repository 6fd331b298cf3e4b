"""What installers leave of this project in an interpreter: files in its folders, objects in its memory."""

from __future__ import annotations

import csv
import glob
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

PROJECT = ("mappa_env", "mappa_rl", "envs_registry")
"""This project's packages."""
DISTRIBUTION = "mappa"
"""The name under which they are installed."""
_OWN = ("{}-*.dist-info", "{}-*.egg-info", "{}.egg-info", "{}.egg-link", "__editable__.{}-*")


def files(library: str) -> Iterator[str]:
    """Files and folders of this project in ``library``, and where its installer noted that it put others."""
    for name in PROJECT:
        yield os.path.join(library, name)
    for pattern in _OWN:
        yield from glob.iglob(os.path.join(glob.escape(library), pattern.format(DISTRIBUTION)))
    for record in glob.iglob(os.path.join(glob.escape(library), f"{DISTRIBUTION}-*.dist-info", "RECORD")):
        for path in _recorded(record, library):
            yield path
            folder, name = os.path.split(path)
            if name.endswith(".py"):  # not every installer compiles, or notes that it did
                cache = os.path.join(folder, "__pycache__", name[:-3])
                yield from glob.iglob(f"{glob.escape(cache)}.*.pyc")


def split(paths: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Part ``paths`` into those of this project, by the library or other folder that they lie in and relative
    to it, and the rest."""
    libraries = {path.partition("-packages/")[0] + "-packages" for path in paths if "-packages/" in path}
    project = {path for library in libraries for path in files(library)}
    inside: dict[str, list[str]] = {}
    for path in project.intersection(paths):
        library, mark, name = path.partition("-packages/")
        folder, name = (library + "-packages", name) if mark else os.path.split(path)
        inside.setdefault(folder, []).append(name)
    return inside, [path for path in paths if path not in project]


def _recorded(record: str, library: str) -> Iterator[str]:
    """The files that a ``RECORD`` lists.

    See https://packaging.python.org/specifications/recording-installed-packages
    """
    try:
        with open(record, encoding="utf-8", newline="") as lines:
            for name, *_ in csv.reader(lines):
                yield os.path.normpath(os.path.join(library, name))
    except PermissionError:  # closed to us, and therefore to actions
        return


def forget(unseen: Sequence[str], own: Sequence[str]) -> None:
    """Make this interpreter forget the modules whose files are ``unseen``, and their hooks.

    The finder of an editable install knows where the project lies. ``own``: the project's folders, whose
    parents may be on ``sys.path``.
    """
    names = {os.path.basename(path) for path in unseen}
    paths = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    near = {name: path for name, path in paths.items() if os.path.basename(path) in names}
    hidden = set(map(os.path.realpath, unseen))
    gone = {name for name, path in near.items() if os.path.realpath(path) in hidden}
    marks: set[Any] = {getattr(sys.modules[name], "PATH_PLACEHOLDER", None) for name in gone}
    marks |= {os.path.dirname(path) for path in own if os.path.basename(path) in PROJECT}
    marks = {mark for mark in marks if mark and not mark.endswith("-packages")}
    hooks: tuple[list[Any], ...] = (sys.meta_path, sys.path_hooks)
    for each in hooks:
        each[:] = [hook for hook in each if getattr(hook, "__module__", None) not in gone]
    sys.path[:] = [path for path in sys.path if path not in marks]
    for mark in marks:
        sys.path_importer_cache.pop(mark, None)
    for name in gone:
        del sys.modules[name]
