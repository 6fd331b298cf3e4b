"""What is compared: any sandbox by its name, and the floor."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mappa_env.benchmarking.floor import warm_floor
from mappa_env.sandbox import make_sandbox
from mappa_env.sandbox.base import Limits, Result, Sandbox
from mappa_env.workspace import Workspace

FLOOR = "floor"
LIMITS = Limits(wall_s=600, cpu_s=600)
"""Generous: with 64 fresh interpreters in flight each of them takes minutes."""
_WITH_PYTHON = ("local", "process", "bwrap")


class Seat(Protocol):
    """One caller with a folder of its own, used by one thread."""

    def run(self, code: str, seed: int) -> Result: ...
    def close(self) -> None: ...


class Contender(Protocol):
    name: str

    def seat(self) -> Seat: ...
    def close(self) -> None: ...


class Boxed:
    """A sandbox as a contender; every seat has a workspace, as an episode has."""

    def __init__(self, name: str, sandbox: Sandbox) -> None:
        self.name = name
        self.sandbox = sandbox

    def seat(self) -> Seat:
        return _Seat(self.sandbox, self.sandbox.open_workspace())

    def close(self) -> None:
        self.sandbox.close()


class _Seat:
    def __init__(self, sandbox: Sandbox, workspace: Workspace) -> None:
        self._sandbox = sandbox
        self._workspace = workspace

    def run(self, code: str, seed: int) -> Result:
        return self._sandbox.run(self._workspace, code, LIMITS, seed=seed)

    def close(self) -> None:
        self._workspace.remove()


def usual() -> tuple[str, ...]:
    """The backends that need nothing but this machine."""
    return ("local", *(["bwrap"] if shutil.which("bwrap") else []), "process", FLOOR)


def option(name: str, python: str | None) -> str | dict[str, Any]:
    """What ``sandbox=`` is given for ``name``."""
    return {"name": name, "python": python} if python and name in _WITH_PYTHON else name


def labels(names: Iterable[str]) -> dict[str, str]:
    """Short name -> name as given. An address stays out of figures: it may hold a password."""
    found: dict[str, str] = {}
    for name in names:
        label = name.rpartition(":")[2] if ".py:" in name else name.partition(":")[0]
        while label in found:
            label += "'"
        found[label] = name
    return found


def contend(backends: Mapping[str, str], python: str | None) -> list[Contender]:
    """For every label; raises what a backend raises that cannot work here, and closes those already open."""
    made: list[Contender] = []
    try:
        for label, name in backends.items():
            floor = name == FLOOR
            made.append(warm_floor(python) if floor else Boxed(label, make_sandbox(option(name, python))))
    except BaseException:
        for contender in made:
            contender.close()
        raise
    return made
