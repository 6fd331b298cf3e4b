"""Choosing a sandbox, and failures of the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mappa_env.errors import OptionError
from mappa_env.sandbox import Limits, Result, make_sandbox
from mappa_env.workspace.workspace import Workspace


def test_a_python_that_does_not_exist(workspace: Workspace) -> None:
    result = make_sandbox({"name": "process", "python": "/no/such/python"}).run(workspace, "", Limits())
    assert result.status == "unavailable"
    assert "python='/no/such/python' does not run as a Python interpreter" in result.stderr


def test_another_python(workspace: Workspace, tmp_path: Path) -> None:
    """The same interpreter under a name that the sandbox does not know."""
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    result = make_sandbox({"name": "process", "python": str(other)}).run(
        workspace, "import numpy\nprint(numpy.arange(3))", Limits()
    )
    assert result.stdout == "[0 1 2]\n", result.stderr


PRELUDE = """
import os, resource, warnings
from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.workspace.workspace import Workspace
"""

FEW_DESCRIPTORS = """
warnings.simplefilter("ignore")
sandbox, workspace = make_sandbox("process"), Workspace()
assert sandbox.run(workspace, "", Limits()).status == "ok"
open_now = len(os.listdir("/proc/self/fd"))
for extra in range(1, 12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + extra, 4096))
    print(sandbox.run(workspace, "", Limits()).status)
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
print(len(os.listdir("/proc/self/fd")) == open_now)
"""

TWO_SANDBOXES = """
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    sandboxes = [make_sandbox("process") for _ in range(2)]
    assert not seen
    for sandbox in sandboxes * 2:
        sandbox.run(Workspace(), "", Limits())
print(len(seen), seen[0].category.__name__, "isolation='process'" in str(seen[0].message))
"""


def in_new_process(source: str) -> list[str]:
    command = [sys.executable, "-c", PRELUDE + source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_full_descriptor_table_is_unavailable_and_leaks_nothing() -> None:
    *statuses, clean = in_new_process(FEW_DESCRIPTORS)
    assert statuses[0] == "unavailable"
    assert statuses[-1] == "ok"
    assert statuses == sorted(statuses, reverse=True)
    assert clean == "True"


def test_the_warning_comes_once_and_at_the_first_run() -> None:
    assert in_new_process(TWO_SANDBOXES) == ["1 SandboxWarning True"]


def test_sandboxes_by_name(workspace: Workspace) -> None:
    assert make_sandbox("null").run(workspace, "1 / 0", Limits()) == Result("ok", 0, "", "", isolation="null")
    assert make_sandbox({"name": "process"}).name == "process"
    with pytest.raises(OptionError, match="Did you mean 'process'"):
        make_sandbox("proces")
    with pytest.raises(OptionError, match="pyton"):
        make_sandbox({"name": "process", "pyton": "x"})
    with pytest.raises(OptionError):
        make_sandbox({})
