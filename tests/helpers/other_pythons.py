"""Interpreters other than the one that runs the tests; a test that needs a missing one is skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534


def python_for_nobody() -> str:
    """A Python that the user ``nobody`` may run. Skips the test if there is none, or if we are not root."""
    if os.getuid() != 0:
        pytest.skip("only root can start programs as another user")
    for python in (sys.executable, "/usr/bin/python3"):
        if _runs([python, "-c", "import sys; assert sys.version_info >= (3, 10)"], NOBODY):
            return python
    pytest.skip("no Python that the user nobody may run")


def oldest_python() -> str:
    """Python 3.10, the oldest that the wrapper supports. Skips the test if there is none."""
    known = (
        shutil.which("python3.10"),
        *map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python")),
    )
    for python in known:
        if python and _runs([python, "-c", "import sys; assert sys.version_info[:2] == (3, 10)"]):
            return python
    pytest.skip("no Python 3.10")


def _runs(command: list[str], user: int | None = None) -> bool:
    try:
        return not subprocess.run(command, user=user, capture_output=True, cwd="/").returncode
    except OSError:
        return False
