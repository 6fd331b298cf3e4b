"""The ``process`` backend: a fresh interpreter per action, with limits and cleanup but no isolation."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
import time
import warnings

from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox.action_file import ActionFile
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.launch import RUNNER, command, environment, exit_code, exit_status
from mappa_env.sandbox.linux import require_linux
from mappa_env.sandbox.watch import Watch
from mappa_env.workspace.workspace import Workspace

_MIB = 2**20
_warn_once = threading.Lock()


class ProcessSandbox:
    """Runs actions in a fresh interpreter, ``python`` (default: this one). Thread-safe.

    The code gets a clean environment, limits and its own session. But it runs as this user on this machine
    and can read whatever this user can read.
    """

    name = "process"
    isolation = "process"

    def __init__(self, python: str = sys.executable) -> None:
        """Start nothing yet. Raises SandboxError unless this is Linux."""
        require_linux(self.name)
        self._python = python

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: the host could not start a child.

        Any later failure may be the code's doing and never voids the action: if the workspace cannot be read
        afterwards, the status is ``killed``.
        """
        _warn()
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            try:
                folder = workspace.ready()
                before = workspace.snapshot
                file = stack.enter_context(ActionFile(code))
                process = self._start(workspace, file, limits, seed)
            except (OSError, SandboxError) as error:
                reason = f"the sandbox could not work: {error}"
                return Result("unavailable", None, "", reason, isolation=self.isolation)
            watch = Watch(process, limits, str(folder))
            exceeded = watch.wait()
            opened = file.opened()
        wall = time.monotonic() - started
        cpu = watch.usage.ru_utime + watch.usage.ru_stime
        try:
            after = workspace.scan()
        except OSError as error:
            reason = f"{watch.err.text()}\nthe workspace cannot be read: {error}"
            return Result("killed", process.returncode, watch.out.text(), reason, isolation=self.isolation)
        status = exceeded or exit_status(process.returncode, cpu, limits)
        if status in ("ok", "error") and after.over(limits.disk_mb * _MIB + workspace.given_bytes):
            status = "disk_limit"
        return Result(
            status=status,
            exit_code=exit_code(process.returncode),
            stdout=watch.out.text(),
            stderr=watch.err.text() + after.note(),
            truncated=watch.out.dropped + watch.err.dropped,
            wall_s=wall,
            cpu_s=cpu,
            peak_rss=watch.usage.ru_maxrss * 1024,
            files=workspace.changes(before, after),
            isolation=self.isolation,
            opened=opened,
        )

    def open_workspace(self) -> Workspace:
        """A plain folder."""
        return Workspace()

    def close(self) -> None:
        """Do nothing: no process outlives its action."""
        return None

    def _start(
        self, workspace: Workspace, file: ActionFile, limits: Limits, seed: int
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # no preexec_fn: it would forbid the cheap vfork
            command(self._python, str(RUNNER), file.fd, limits, seed, libraries(self._python)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=(file.fd,),
            cwd=workspace.path,
            start_new_session=True,
            env=environment(str(workspace.path), str(workspace.scratch)),
        )


@functools.cache
def libraries(python: str) -> tuple[str, ...]:
    """Library folders of ``python``, determined once. Raises SandboxError if it does not run."""
    ask = "import os, sys; print(*(p for p in sys.path if p.endswith('-packages')), sep=os.linesep)"
    if python == sys.executable:
        return tuple(path for path in sys.path if path.endswith("-packages"))
    try:
        out = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"python={python!r} does not run as a Python interpreter: {error}") from None
    return tuple(out.stdout.splitlines())


def _warn() -> None:
    if _warn_once.acquire(blocking=False):  # never released: once per process
        warnings.warn(
            "sandbox with isolation='process': the agents' code runs as this user on this machine. Use it "
            "for scripted teams, tests and models that you trust, on a machine that holds no secrets.",
            SandboxWarning,
            stacklevel=3,
        )
