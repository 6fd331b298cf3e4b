"""The sandboxes under attack, one per level and test process."""

from __future__ import annotations

import ctypes
import os
import subprocess

import pytest

from mappa_env.sandbox import Limits, Sandbox, make_sandbox

LEVELS = ("full", "landlock")


class Sandboxes:
    """``sandboxes["full"]`` starts on first use. Skips the test if the machine does not support the level.

    Support is checked here, independently of the sandbox, because a broken sandbox must fail the test.
    """

    def __init__(self) -> None:
        self._open: dict[str, Sandbox] = {}
        self._actors: dict[str, int] = {}
        self._broken: dict[str, str] = {}

    def __getitem__(self, level: str) -> Sandbox:
        if level in self._broken:
            pytest.fail(self._broken[level])
        if level not in self._open:
            if not {"full": _namespaces, "landlock": _landlock}[level]():
                pytest.skip(f"this machine does not support {level}")
            sandbox = make_sandbox({"name": "local", "level": level})
            try:
                self._actors[level] = _actor(sandbox)
            except AssertionError as error:
                self._broken[level] = str(error)  # reported by every test, without starting again
                raise
            self._open[level] = sandbox
        return self._open[level]

    def actor(self, level: str) -> int:
        """The host's user id for code at ``level``."""
        return self[level] and self._actors[level]

    def close(self) -> None:
        for sandbox in self._open.values():
            sandbox.close()


def _actor(sandbox: Sandbox) -> int:
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, "open('mine', 'w')", Limits())
        assert result.status == "ok", result
        root = workspace.storage.root
        folder = f"/proc/self/fd/{root}" if isinstance(root, int) else root
        return os.stat(os.path.join(folder, "mine")).st_uid


def _namespaces() -> bool:
    user = () if os.getuid() == 0 else ("--user", "--map-root-user")
    tried = subprocess.run(["unshare", *user, "--mount", "--pid", "--net", "--fork", "true"], check=False)
    return tried.returncode == 0


def _landlock() -> bool:
    """Query Landlock's version; the system call has the same number on every architecture."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1
