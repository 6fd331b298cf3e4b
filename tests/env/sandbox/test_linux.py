"""Systems without the calls that local sandboxes need, such as macOS."""

from __future__ import annotations

import os
import subprocess
import sys

import gymnasium as gym
import pytest

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.errors import SandboxError
from mappa_env.sandbox import make_sandbox
from paths import ROOT

NAMES = ("local", "process", "bwrap", "calculator")


@pytest.mark.parametrize("name", NAMES)
def test_without_linux_the_error_names_a_sandbox_that_works(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mappa_env.sandbox.linux.system", lambda: "Darwin")
    with pytest.raises(SandboxError, match=r"needs Linux, and this is Darwin: use sandbox='fusion:<url>'"):
        gym.make("mappa/MathChat-v0", sandbox=name)
    make_sandbox("fusion:http://localhost:1").close()  # needs no local support


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open", "sched_getaffinity"])
def test_a_python_without_a_system_call_is_refused_by_its_name(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, call)
    with pytest.raises(SandboxError, match=rf"this is a Python without os\.{call}"):
        make_sandbox("local")


IMPORTS = """
import importlib, os, select, signal, sys
import urllib.request, sysconfig, mappa_env
for name in ("resource", "fcntl", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, ("memfd_create", "pidfd_open", "sched_getaffinity", "pipe2", "O_PATH", "O_TMPFILE")),
    (select, ("epoll", "EPOLLIN")),
    (signal, ("pidfd_send_signal",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in "workspace.workspace sandbox.local.sandbox sandbox.bwrap.sandbox sandbox.process".split():
    importlib.import_module("mappa_env." + name)
for name in "sandbox.calculator sandbox.fusion.sandbox episode.episode cli".split():
    importlib.import_module("mappa_env." + name)
"""


def test_modules_of_the_host_import_where_linux_calls_are_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
