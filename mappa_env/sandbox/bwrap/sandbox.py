"""The ``bwrap`` backend: a fresh interpreter per action inside bubblewrap.

For machines where bubblewrap is there and trusted, or may do what ``local`` may not. Everything the action
gets is named in ``bwrap_command``: a read-only runtime, its workspace, private folders, no network, no other
process. Limits and statuses are those of the ``process`` backend: ``bwrap_init`` reports from inside,
``BwrapWatch`` looks on from outside.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from mappa_env.errors import SandboxError
from mappa_env.homes import FolderHome
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.bwrap_command import (
    FILES,
    INIT,
    RUNNER_INSIDE,
    SCRATCH,
    WORK,
    arguments,
    find_bwrap,
    remedy,
    runtime,
    user_of_actions,
)
from mappa_env.sandbox.bwrap_watch import BwrapWatch
from mappa_env.sandbox.launch import command, environment, exit_code, exit_status
from mappa_env.workspace import Workspace

_MIB = 2**20
_MORE = 64
"""What threads and processes of an instant may add to an action's processes before the kernel refuses."""
_KILLED = -9


class _Started(NamedTuple):
    """bubblewrap's process, the first process inside (0: there is none), and where its report is read."""

    process: subprocess.Popen[bytes]
    init: int
    report: int


class BwrapSandbox:
    """``python``: interpreter for the agents' code (default: this one). Safe to use from many threads."""

    name = "bwrap"
    isolation = "bwrap"

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._user = user_of_actions()

    def open_workspace(self) -> Workspace:
        return Workspace(functools.partial(FolderHome, self._user))

    def close(self) -> None:
        return None

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: the code was not started; the host failed, not the team."""
        began = time.monotonic()
        quota = limits.disk_mb * _MIB + workspace.given_bytes
        try:
            home = workspace.home
            if not isinstance(home, FolderHome):
                raise SandboxError(f"bwrap cannot run in a {type(home).__name__}: use its open_workspace().")
            home.ready()
            home.give(self._user)
            before = workspace.snapshot
            with self._start(workspace, code, limits, seed) as started:
                watch = BwrapWatch(started.process, limits, started.init, home.root, quota)
                struck = watch.wait()
                report = _read(started.report)
            if not struck and "started" not in report:
                reason = report.get("failed") or watch.err.text().strip()[-500:]
                raise SandboxError(f"{reason}. {remedy(reason)}")
        except (OSError, SandboxError) as error:
            reason = f"the sandbox could not work: {error}"
            return Result("unavailable", None, "", reason, isolation=self.isolation)
        wall, cpu = time.monotonic() - began, report.get("cpu_s", 0.0)
        ended = os.waitstatus_to_exitcode(report["status"]) if "status" in report else _KILLED
        try:
            after = workspace.scan()
        except OSError as error:
            reason = f"{watch.err.text()}\nthe workspace cannot be read: {error}"
            return Result("killed", ended, watch.out.text(), reason, isolation=self.isolation)
        status = struck or exit_status(ended, cpu >= limits.cpu_s)
        if status in ("ok", "error") and after.disk_bytes > quota:
            status = "disk_limit"
        return Result(
            status=status,
            exit_code=exit_code(ended),
            stdout=watch.out.text(),
            stderr=watch.err.text(),
            truncated=watch.out.dropped + watch.err.dropped,
            wall_s=wall,
            cpu_s=cpu,
            peak_rss=report.get("peak_rss", 0),
            files=workspace.changes(before, after),
            isolation=self.isolation,
        )

    @contextlib.contextmanager
    def _start(self, workspace: Workspace, code: str, limits: Limits, seed: int) -> Iterator[_Started]:
        bwrap, needed = find_bwrap(os.environ.get("PATH", os.defpath)), runtime(self._python)
        opened: list[int] = []
        try:
            text = _memory_file(code, opened)
            files = {path: _memory_file(content, opened) for path, content in FILES.items()}
            (info, info_end), (report, report_end) = _pipe(opened), _pipe(opened)
            job = {
                "report": report_end, "code": text, "user": self._user,
                "processes": 2 * limits.processes + _MORE,
                "command": command(needed.python, RUNNER_INSIDE, text, limits, seed, needed.libraries),
            }  # fmt: skip
            process = subprocess.Popen(  # it dies with this thread, which waits for it
                [
                    bwrap, *arguments(self._user, needed, files, str(workspace.path)),
                    "--info-fd", str(info_end), "--", needed.python, "-I", "-S", INIT, json.dumps(job),
                ],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(text, *files.values(), info_end, report_end), cwd="/", start_new_session=True,
                env=environment(WORK, SCRATCH, seed),
            )  # fmt: skip
            for end in (info_end, report_end):
                opened.remove(end)
                os.close(end)
            yield _Started(process, _first(info), report)
        finally:
            for fd in opened:
                os.close(fd)


def _first(info: int) -> int:
    """The process number in bubblewrap's answer; 0 when it ends without one."""
    said = b""
    while not said.endswith(b"}\n") and (data := os.read(info, 4096)):
        said += data
    return int(json.loads(said)["child-pid"]) if said else 0


def _read(report: int) -> dict[str, Any]:
    """All lines of ``bwrap_init``'s report in one; it has ended, and nobody else can write there."""
    os.set_blocking(report, False)
    told: dict[str, Any] = {}
    with contextlib.suppress(BlockingIOError):
        for line in os.read(report, 65536).splitlines():
            told |= json.loads(line)
    return told


def _memory_file(text: str, opened: list[int]) -> int:
    """``text`` as a descriptor: never on a disk or a command line that others see."""
    file = os.memfd_create("action")
    opened.append(file)
    with open(file, "wb", closefd=False) as stream:
        stream.write(text.encode("utf-8", "replace"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened += ends
    return ends
