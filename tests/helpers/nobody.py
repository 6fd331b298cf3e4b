"""Workspaces of an ordinary user, in tests that run as root."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to drop its privileges")
_BECOME_NOBODY = """
import os, tempfile
from mappa_env.workspace.workspace import Workspace
import _posixsubprocess  # nobody may be unable to read this interpreter's files
tempfile.tempdir = "/tmp"
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
"""


def run_as_nobody(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that knows ``os`` and ``Workspace`` as the user nobody."""
    return subprocess.run(
        [sys.executable, "-c", _BECOME_NOBODY + program],
        capture_output=True,
        text=True,
        env={"TMPDIR": "/tmp"},
        cwd=os.getcwd(),
    )
