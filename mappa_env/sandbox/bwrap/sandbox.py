"""The ``bwrap`` backend: a fresh interpreter per action inside bubblewrap.

For machines where bubblewrap is installed and trusted, or has permissions that ``local`` lacks. ``command``
lists everything the action gets: a read-only runtime, its workspace and private folders, but no network and
no other process. Limits and statuses are those of the ``process`` backend: ``init`` reports from inside, and
``BwrapWatch`` watches from outside.
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
from mappa_env.sandbox.action_file import ActionFile
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.bwrap.command import (
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
from mappa_env.sandbox.bwrap.watch import BwrapWatch
from mappa_env.sandbox.launch import command, environment, exit_code, exit_status
from mappa_env.sandbox.linux import require_linux
from mappa_env.workspace.storage import FolderStorage
from mappa_env.workspace.workspace import Workspace

_MIB = 2**20
_MORE = 64
"""Short-lived threads and processes allowed on top of an action's limit before the kernel refuses."""
_KILLED = -9


class _Started(NamedTuple):
    """bubblewrap's process, the pid of the first process inside (0: none), and the report's descriptor."""

    process: subprocess.Popen[bytes]
    init: int
    report: int


class BwrapSandbox:
    """Runs actions in bubblewrap. ``python``: interpreter for the agents' code. Thread-safe."""

    name = "bwrap"
    isolation = "bwrap"

    def __init__(self, python: str = sys.executable) -> None:
        """Start nothing yet. Raises SandboxError unless this is Linux."""
        require_linux(self.name)
        self._python = python
        self._user = user_of_actions()

    def open_workspace(self) -> Workspace:
        """A plain folder, owned by the user that actions run as."""
        return Workspace(functools.partial(FolderStorage, self._user))

    def close(self) -> None:
        """Do nothing: no process outlives its action."""
        return None

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: the code did not start because the host failed."""
        began = time.monotonic()
        quota = limits.disk_mb * _MIB + workspace.given_bytes
        try:
            storage = workspace.storage
            if not isinstance(storage, FolderStorage):
                raise SandboxError(
                    f"bwrap cannot run in a {type(storage).__name__}: use its open_workspace()."
                )
            storage.ready()
            if storage.give(self._user):
                workspace.scan()
            before = workspace.snapshot
            with ActionFile(code) as file, self._start(workspace, file, limits, seed) as started:
                watch = BwrapWatch(started.process, limits, started.init, storage.root, quota)
                exceeded = watch.wait()
                report, opened = _read(started.report), file.opened()
            if not exceeded and "started" not in report:
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
        status = exceeded or exit_status(ended, cpu, limits)
        if status in ("ok", "error") and after.over(quota):
            status = "disk_limit"
        return Result(
            status=status,
            exit_code=exit_code(ended),
            stdout=watch.out.text(),
            stderr=watch.err.text() + after.note(),
            truncated=watch.out.dropped + watch.err.dropped,
            wall_s=wall,
            cpu_s=cpu,
            peak_rss=report.get("peak_rss", 0),
            files=workspace.changes(before, after),
            isolation=self.isolation,
            opened=opened,
        )

    @contextlib.contextmanager
    def _start(self, workspace: Workspace, file: ActionFile, limits: Limits, seed: int) -> Iterator[_Started]:
        bwrap, needed = find_bwrap(os.environ.get("PATH", os.defpath)), runtime(self._python)
        opened: list[int] = []
        try:
            files = {path: _memory_file(content, opened) for path, content in FILES.items()}
            (info, info_end), (report, report_end) = _pipe(opened), _pipe(opened)
            job = {
                "report": report_end,
                "code": file.fd,
                "user": self._user,
                "processes": 2 * limits.processes + _MORE,
                "command": command(needed.python, RUNNER_INSIDE, file.fd, limits, seed, needed.libraries),
            }
            process = subprocess.Popen(  # it dies with this thread, which waits for it
                [
                    bwrap,
                    *arguments(self._user, needed, files, str(workspace.path)),
                    "--info-fd",
                    str(info_end),
                    "--",
                    needed.python,
                    "-I",
                    "-S",
                    INIT,
                    json.dumps(job),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(file.fd, *files.values(), info_end, report_end),
                cwd="/",
                start_new_session=True,
                env=environment(WORK, SCRATCH),
            )
            for end in (info_end, report_end):
                opened.remove(end)
                os.close(end)
            yield _Started(process, _first(info), report)
        finally:
            for fd in opened:
                os.close(fd)


def _first(info: int) -> int:
    """The pid in bubblewrap's answer; 0 if it ended without one."""
    said = b""
    while not said.endswith(b"}\n") and (data := os.read(info, 4096)):
        said += data
    return int(json.loads(said)["child-pid"]) if said else 0


def _read(report: int) -> dict[str, Any]:
    """All lines of the report of ``init`` in one dict. Its only writer has ended."""
    os.set_blocking(report, False)
    found: dict[str, Any] = {}
    with contextlib.suppress(BlockingIOError):
        for line in os.read(report, 65536).splitlines():
            found |= json.loads(line)
    return found


def _memory_file(text: str, opened: list[int]) -> int:
    """A descriptor that holds ``text``, which bubblewrap shows as a file."""
    file = os.memfd_create("made_up")
    opened.append(file)
    with open(file, "wb", closefd=False) as stream:
        stream.write(text.encode("utf-8", "replace"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened += ends
    return ends
