"""The backends of the benchmark: any sandbox by its name, and the floor."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mappa_env.benchmarking.sandbox.warm_fork import warm_floor
from mappa_env.sandbox import make_sandbox
from mappa_env.sandbox.base import Limits, Result, Sandbox
from mappa_env.workspace.workspace import Workspace

FLOOR = "floor"
LIMITS = Limits(wall_s=600, cpu_s=600)
"""Generous, because each of 64 fresh interpreters in flight takes minutes."""
_WITH_PYTHON = ("local", "process", "bwrap")


class Caller(Protocol):
    """A caller with its own folder, used by one thread."""

    def run(self, code: str, seed: int) -> Result:
        """Run ``code`` in the caller's folder and wait for the result."""
        ...

    def close(self) -> None:
        """Remove the folder."""
        ...


class Backend(Protocol):
    """Something that runs actions: a sandbox, or the floor to compare it with."""

    name: str

    def caller(self) -> Caller:
        """Open a new caller with its own folder."""
        ...

    def close(self) -> None:
        """End the backend's processes. Close its callers first."""
        ...


class SandboxBackend:
    """A sandbox as a backend of the benchmark; every caller has a workspace, as an episode has."""

    def __init__(self, name: str, sandbox: Sandbox) -> None:
        self.name = name
        self.sandbox = sandbox

    def caller(self) -> Caller:
        """See ``Backend.caller``."""
        return _Caller(self.sandbox, self.sandbox.open_workspace())

    def close(self) -> None:
        """See ``Backend.close``."""
        self.sandbox.close()


class _Caller:
    def __init__(self, sandbox: Sandbox, workspace: Workspace) -> None:
        self._sandbox = sandbox
        self._workspace = workspace

    def run(self, code: str, seed: int) -> Result:
        return self._sandbox.run(self._workspace, code, LIMITS, seed=seed)

    def close(self) -> None:
        self._workspace.remove()


def default_backends() -> tuple[str, ...]:
    """The backends that this machine can run without a server."""
    return ("local", *(["bwrap"] if shutil.which("bwrap") else []), "process", FLOOR)


def option(name: str, python: str | None) -> str | dict[str, Any]:
    """The value of ``sandbox=`` for ``name``."""
    return {"name": name, "python": python} if python and name in _WITH_PYTHON else name


def labels(names: Iterable[str]) -> dict[str, str]:
    """Short name -> name as given. Figures must not show an address, which may hold a password."""
    found: dict[str, str] = {}
    for name in names:
        label = name.rpartition(":")[2] if ".py:" in name else name.partition(":")[0]
        while label in found:
            label += "'"
        found[label] = name
    return found


def open_backends(backends: Mapping[str, str], python: str | None) -> list[Backend]:
    """Open a backend for every label. If one raises, close those already open and raise its error."""
    made: list[Backend] = []
    try:
        for label, name in backends.items():
            floor = name == FLOOR
            made.append(
                warm_floor(python) if floor else SandboxBackend(label, make_sandbox(option(name, python)))
            )
    except BaseException:
        for target in made:
            target.close()
        raise
    return made
