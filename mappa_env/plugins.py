"""Classes of the user's own: ``path/mine.py:Class``, or a name that an installed package offers."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.errors import OptionError, nearest


def from_file(option: str, spec: str) -> Any:
    """The class of ``path/mine.py:Class``. ``option`` is for messages: ``coach``. Raises OptionError."""
    file, _, kind = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise OptionError(f"{option}={spec!r}: there is no Python file {file!r} (seen from {Path.cwd()}).")
    return _named(option, spec, _module(path), kind)


def installed(group: str) -> list[str]:
    """The names that installed packages offer in this entry-point group."""
    return sorted(point.name for point in importlib.metadata.entry_points(group=group))


def from_package(option: str, group: str, name: str) -> Any | None:
    """What the entry point of that name stands for; None: there is none. Raises OptionError where its
    package cannot be imported."""
    for point in importlib.metadata.entry_points(group=group, name=name):
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise OptionError(f"{option}={name!r}: {point.value} cannot be imported: {error}") from error
    return None


def construct(option: str, spec: str, kind: Any, *arguments: Any, **options: Any) -> Any:
    """``kind(*arguments, **options)``. Raises OptionError for options that it does not take."""
    if not callable(kind):
        raise OptionError(f"{option}={spec!r} is no class, but {kind!r:.80}.")
    try:
        inspect.signature(kind).bind(*arguments, **options)
    except TypeError as error:
        raise OptionError(f"{option}={spec!r} with options {sorted(options)}: {error}.") from None
    return kind(*arguments, **options)


def missing(made: Any, methods: Mapping[str, tuple[int, tuple[str, ...]]]) -> list[str]:
    """Which of ``methods`` (name -> positional arguments, keywords) ``made`` lacks or cannot be called so."""
    return [name for name, how in methods.items() if not _takes(getattr(made, name, None), *how)]


def _takes(method: Any, positional: int, keywords: tuple[str, ...]) -> bool:
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


def _module(path: Path) -> Any:
    """Read once for as long as the file does not change: many environments share its classes."""
    stamp = f"{path.resolve()} {path.stat().st_mtime_ns}"
    name = f"mappa_plugin_{path.stem}_{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _named(option: str, spec: str, module: Any, kind: str) -> Any:
    found = getattr(module, kind, None)
    if found is None:
        names = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise OptionError(f"{option}={spec!r}: {module.__file__} defines no {kind!r}." + nearest(kind, names))
    return found
