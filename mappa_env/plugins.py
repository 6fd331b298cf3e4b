"""Chooses parts by name: a built-in name, an installed entry point, or ``path/file.py:Name``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mappa_env.errors import CardError, MappaError, OptionError, nearest
from mappa_env.pyast import signature

TRUST = "MAPPA_TRUSTED_CARDS"
"""Environment variable that lists the card folders whose Python files may run, separated like ``PATH``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of part that users choose by name, such as a coach or a loss.

    A built-in name wins over an entry point of the same name, so no package can replace a built-in part.
    """

    name: str
    """The kind's name in messages: ``"task loader"``."""
    option: str
    """The option that chooses it, for messages: ``"algo.loss"``."""
    group: str
    """Entry-point group for parts of installed packages: ``"mappa.losses"``."""
    builtin: Mapping[str, str]
    """Name -> ``"module:Name"``, imported on first use. A name may end in ``:<argument>``, for display."""
    methods: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """Methods that ``make`` requires of a custom part: name -> number of positional arguments, keywords."""
    more: Mapping[str, int] = field(default_factory=dict)
    """Methods that may take further positional arguments -> how many."""
    attributes: Mapping[str, type] = field(default_factory=dict)
    """Attributes that it requires: name -> type."""
    takes: str = ""
    """The arguments that ``make`` passes before the options, for messages: ``"the card"``. Empty: none."""
    advice: str = ""
    """How to write such a part; ends the message about an invalid one."""

    def names(self) -> list[str]:
        """The built-in names, then those of installed packages."""
        return [*self.builtin, *(name for name in installed(self.group) if name not in self.builtin)]

    def split(self, spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """``"name"`` or ``{"name": ..., **options}`` as (name, options). Raises OptionError."""
        if isinstance(spec, str):
            return self._named(spec, {}, spec)
        if not isinstance(spec, Mapping):
            raise OptionError(f"{self.option}={spec!r:.200} must be a name, or a mapping with a name.")
        options = {str(key): value for key, value in spec.items()}
        return self._named(options.pop("name", None), options, spec)

    def _named(self, name: Any, options: dict[str, Any], spec: object) -> tuple[str, dict[str, Any]]:
        if not isinstance(name, str) or not name:
            raise OptionError(f"{self.option}={spec!r} needs a name; choose from {', '.join(self.names())}.")
        return name, options

    def is_builtin(self, spec: str) -> bool:
        """Whether ``spec`` is a built-in name, with or without an argument after a colon."""
        return self._target(spec) is not None

    def find(self, spec: str) -> Any:
        """The class or function that ``spec`` names. Raises OptionError."""
        target = self._target(spec)
        if target is not None:
            module, _, name = target.partition(":")
            return getattr(importlib.import_module(module), name)
        if ".py:" in spec:
            return _from_file(self.option, spec)
        found = _from_package(self.option, self.group, spec)
        if found is None:
            known = self.names()
            raise OptionError(
                f"{self.option}={spec!r} is not {self._one}; choose from {', '.join(known)}, or name "
                "your own as 'path/file.py:Name'."
                + nearest(spec.partition(":")[0], [name.partition(":")[0] for name in known])
            )
        return found

    def make(self, spec: str, *arguments: Any, **options: Any) -> Any:
        """Make the part that ``spec`` names.

        Raises OptionError for an unknown name, unknown or missing options, any exception in the part's
        constructor, and missing methods or attributes.
        """
        made = self._construct(spec, *arguments, **options)
        if not self.is_builtin(spec):
            self.check(spec, made)
        return made

    def check(self, spec: str, made: Any) -> None:
        """Raise OptionError unless ``made`` implements this kind."""
        faults = [
            f"{name}()"
            for name, (count, keywords) in self.methods.items()
            if not callable_with(made, name, count, keywords)
            and not callable_with(made, name, count + self.more.get(name, 0), keywords)
        ]
        faults += [
            name for name, of in self.attributes.items() if not isinstance(getattr(made, name, None), of)
        ]
        if faults:
            raise OptionError(
                f"{self.option}={spec!r} is not {self._one}: it needs {', '.join(faults)}, of the right "
                f"signature or type. {self.advice}"
            )

    def _construct(self, spec: str, *arguments: Any, **options: Any) -> Any:
        kind, subject = self.find(spec), f"{self.option}={spec!r}"
        check_options(subject, kind, len(arguments), options, takes=self.takes)
        try:
            return kind(*arguments, **options)
        except MappaError:
            raise
        except ValueError as error:  # a custom class rejects a value
            raise OptionError(f"{subject}: {error}") from error
        except Exception as error:
            raise OptionError(
                f"{subject}: {getattr(kind, '__name__', spec)}() raised {type(error).__name__}: {error}"
            ) from error

    @property
    def _one(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def _target(self, spec: str) -> str | None:
        head, colon, _ = spec.partition(":")
        for name, target in self.builtin.items():
            own, takes_argument, _ = name.partition(":")
            if own == head and (takes_argument or not colon):
                return target
        return None


def installed(group: str) -> list[str]:
    """The names of installed packages' entry points in this group."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=group)})


def check_options(
    subject: str, kind: Any, positional: int, options: Mapping[str, Any], *, takes: str = ""
) -> None:
    """Raise OptionError, starting with ``subject``, unless ``kind`` accepts these arguments.

    ``takes`` describes the positional arguments, for messages.
    """
    try:
        known, any_name = options_of(kind, positional)
    except OptionError as error:
        raise OptionError(f"{subject}: {error}") from None
    if takes and not _takes_positional(kind, positional):
        raise OptionError(f"{subject} must take {takes} first, then its options.")
    listed = f"its options are {', '.join(known)}." if known else "it takes no options."
    for name in options:
        if name not in known and not any_name:
            raise OptionError(f"{subject} has no option {name!r}; {listed}" + nearest(name, known))
    try:
        signature(kind).bind(*[None] * positional, **options)
    except TypeError as error:
        raise OptionError(f"{subject}: {error}; {listed}") from None


def options_of(kind: Any, positional: int) -> tuple[list[str], bool]:
    """The keywords that ``kind`` takes after its positional arguments, and whether it takes any others.

    Raises OptionError unless ``kind`` is a class or a function.
    """
    if not callable(kind):
        raise OptionError(f"{kind!r:.80} is neither a class nor a function.")
    parameters = list(signature(kind).parameters.values())
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    taken = [p for p in named if p.kind is p.POSITIONAL_OR_KEYWORD][:positional]
    return [p.name for p in named if p not in taken], any(p.kind is p.VAR_KEYWORD for p in parameters)


def _takes_positional(kind: Any, count: int) -> bool:
    """Whether ``kind`` accepts ``count`` positional arguments, whatever else it requires."""
    try:
        signature(kind).bind_partial(*[None] * count)
    except TypeError:
        return False
    return True


def callable_with(made: Any, method: str, positional: int, keywords: tuple[str, ...] = ()) -> bool:
    """Whether ``made.<method>`` accepts this number of positional arguments and these keywords."""
    found = getattr(made, method, None)
    if not callable(found):
        return False
    try:
        signature(found).bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


def from_card(where: Path, key: str, spec: str, folders: Sequence[Path]) -> str:
    """The absolute form of ``file.py:Name`` in a card; returns any other ``spec`` unchanged.

    ``where`` is the card's YAML file and ``key`` the key in it, both for messages. Looks the file up in
    ``folders``, the card's own first. Anyone may have written a card, so ``$MAPPA_TRUSTED_CARDS`` must list
    the file's folder. Raises CardError for a missing file or an unlisted folder.
    """
    if ".py:" not in spec:
        return spec
    file, _, name = spec.rpartition(":")
    for folder in (each.resolve() for each in folders):
        path = (folder / file).resolve()
        if path.is_relative_to(folder) and path.is_file():
            break
    else:
        raise CardError(f"{where}: {key}={spec!r}: the file {file!r} does not exist in {folders[0]}.")
    if not trusted(folder):
        raise CardError(
            f"{where}: {key}={spec!r} is the card's Python code, which runs outside the sandbox. Read "
            f"{path}; to allow it, list the folder in the environment variable: {TRUST}={folder}"
        )
    return f"{path}:{name}"


def trusted(folder: Path) -> bool:
    """Whether ``$MAPPA_TRUSTED_CARDS`` lists ``folder`` itself."""
    listed = os.environ.get(TRUST, "").split(os.pathsep)
    return folder.resolve() in [Path(each).expanduser().resolve() for each in listed if each]


def _from_file(option: str, spec: str) -> Any:
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise OptionError(f"{option}={spec!r}: {file!r} does not exist (relative to {Path.cwd()}).")
    try:
        module = _module(path)
    except Exception as error:
        raise OptionError(
            f"{option}={spec!r}: {file} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        names = [
            each for each, value in vars(module).items() if inspect.isroutine(value) or inspect.isclass(value)
        ]
        raise OptionError(f"{option}={spec!r}: {module.__file__} defines no {name!r}." + nearest(name, names))
    return found


def _from_package(option: str, group: str, name: str) -> Any | None:
    """The object behind the entry point of that name; None if no package offers it."""
    points = {point.value: point for point in importlib.metadata.entry_points(group=group, name=name)}
    if len(points) > 1:
        raise OptionError(
            f"{option}={name!r}: several installed packages offer this name ({', '.join(sorted(points))}); "
            "uninstall all but one."
        )
    for point in points.values():
        try:
            return point.load()
        except Exception as error:
            raise OptionError(
                f"{option}={name!r}: {point.value} cannot be imported: {type(error).__name__}: {error}"
            ) from error
    return None


def _module(path: Path) -> Any:
    """Import the file, once until it changes, so that many environments share its classes."""
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
