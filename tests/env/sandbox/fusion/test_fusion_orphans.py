"""What is left on a server that was killed, or whose wrapper was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_fusion import lay
from mappa_env.sandbox import Limits
from mappa_env.sandbox.fusion import request
from mappa_env.workspace.workspace import Workspace

CODE = """
import os, time
open("pid.tmp", "w").write(str(os.getpid()))
os.rename("pid.tmp", "pid")
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "server"
    made.mkdir()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def wrapper(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A wrapper as a server starts it, whose action sleeps."""
    with Workspace() as workspace:
        body = request.action(workspace, CODE, Limits(wall_s=60), seed=0, nonce="0" * 32, room=2**20)
    with subprocess.Popen(
        [sys.executable, lay(str(folder), body)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(body["stdin"].encode())
        process.stdin.close()
        process.stdin = None
        try:
            yield process
        finally:
            process.kill()


def wait(true: object, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not (met := true()) and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.02)
    return bool(met)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_nothing_is_left_of_a_server_that_was_killed(wrapper: subprocess.Popen[bytes], folder: Path) -> None:
    """Its pipes are closed then, and nobody ends what it started."""
    assert wait((folder / "ws/pid").exists)
    pid = int((folder / "ws/pid").read_text())
    assert wrapper.stdout is not None
    wrapper.stdout.close()
    wrapper.wait(20)
    assert wait(lambda: not alive(pid))
    assert not folder.exists()


def test_an_action_does_not_outlive_a_wrapper_that_was_killed(
    wrapper: subprocess.Popen[bytes], folder: Path
) -> None:
    assert wait((folder / "ws/pid").exists)
    pid = int((folder / "ws/pid").read_text())
    os.kill(wrapper.pid, signal.SIGKILL)
    assert wait(lambda: not alive(pid))
