"""The ``process`` backend: a fresh interpreter per action. It bounds and cleans up, but does not isolate."""

from __future__ import annotations

import functools
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.runner import DISK_EXIT, MEMORY_EXIT
from mappa_env.sandbox.watch import Watch
from mappa_env.types import RunStatus
from mappa_env.workspace import Workspace

RUNNER = Path(__file__).with_name("runner.py")
_MIB = 2**20
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:replace", "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1", "JOBLIB_MULTIPROCESSING": "0",
}  # fmt: skip
"""All that an action sees of the host's environment: no key, no token, no path of ours."""
_FOLDERS = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name the scratch folder, so that libraries' caches stay out of the trail."""
_warn_once = threading.Lock()


class ProcessSandbox:
    """``python``: interpreter for the agents' code (default: this one). Safe to use from many threads.

    The code gets a scrubbed environment, limits, its own session and nothing of ours; but it runs as this
    user on this machine and can read what this user can read.
    """

    name = "process"
    isolation = "process"

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: no child could be started, so the host failed, not the team.

        Whatever goes wrong after that may be the code's doing, and never voids the action: a workspace that
        cannot be read afterwards is ``killed``.
        """
        _warn()
        started = time.monotonic()
        try:
            folder = workspace.ready()
            before = workspace.snapshot
            process = self._start(workspace, code, limits, seed)
        except (OSError, SandboxError) as error:
            reason = f"the sandbox could not work: {error}"
            return Result("unavailable", None, "", reason, isolation=self.isolation)
        watch = Watch(process, limits, str(folder))
        struck = watch.wait()
        wall = time.monotonic() - started
        cpu = watch.usage.ru_utime + watch.usage.ru_stime
        try:
            after = workspace.scan()
        except OSError as error:
            reason = f"{watch.err.text()}\nthe workspace cannot be read: {error}"
            return Result("killed", process.returncode, watch.out.text(), reason, isolation=self.isolation)
        status = struck or _status(process.returncode, cpu >= limits.cpu_s)
        if status in ("ok", "error") and after.disk_bytes > limits.disk_mb * _MIB + workspace.given_bytes:
            status = "disk_limit"
        return Result(
            status=status,
            exit_code=1 if process.returncode in (MEMORY_EXIT, DISK_EXIT) else process.returncode,
            stdout=watch.out.text(),
            stderr=watch.err.text(),
            truncated=watch.out.dropped + watch.err.dropped,
            wall_s=wall,
            cpu_s=cpu,
            peak_rss=watch.usage.ru_maxrss * 1024,
            files=workspace.changes(before, after),
            isolation=self.isolation,
        )

    def open_workspace(self) -> Workspace:
        return Workspace()

    def close(self) -> None:
        return None

    def _start(self, workspace: Workspace, code: str, limits: Limits, seed: int) -> subprocess.Popen[bytes]:
        environment = {
            **_ENVIRONMENT,
            **dict.fromkeys(_FOLDERS, str(workspace.scratch)),
            "HOME": str(workspace.path),
            "PYTHONHASHSEED": str(seed % 2**32),
        }
        numbers = (seed % 2**32, limits.cpu_s, limits.memory_mb * _MIB, limits.disk_mb * _MIB,
                   limits.processes)  # fmt: skip
        file = os.memfd_create("action")  # never on a disk or a command line that others see
        try:
            with open(file, "wb", closefd=False) as stream:
                stream.write(code.encode("utf-8", "replace"))
            os.lseek(file, 0, os.SEEK_SET)
            arguments = (file, *(math.ceil(number) for number in numbers), *_libraries(self._python))
            return subprocess.Popen(  # no preexec_fn: it would forbid the cheap vfork
                [self._python, "-u", "-s", "-S", "-P", str(RUNNER), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(file,), cwd=workspace.path, env=environment, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(file)


def _status(code: int, spent: bool) -> RunStatus:
    """What an exit code says when the host did not end the action; ``spent``: its processor time is used."""
    if code >= 0:
        return {0: "ok", MEMORY_EXIT: "memory", DISK_EXIT: "disk_limit"}.get(code, "error")  # type: ignore[return-value]
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent):
        return "timeout"
    return "disk_limit" if code == -signal.SIGXFSZ else "killed"


@functools.cache
def _libraries(python: str) -> tuple[str, ...]:
    """Library folders of ``python``; asked once. The child starts without ``site``, which would be slow."""
    ask = "import os, sys; print(*(p for p in sys.path if p.endswith('-packages')), sep=os.linesep)"
    if python == sys.executable:
        return tuple(path for path in sys.path if path.endswith("-packages"))
    try:
        out = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"python={python!r} is not a Python that runs: {error}") from None
    return tuple(out.stdout.splitlines())


def _warn() -> None:
    if _warn_once.acquire(blocking=False):  # never released: once per process
        warnings.warn(
            "sandbox with isolation='process': the agents' code runs as this user on this machine. Use it "
            "for scripted teams, tests and models that you trust, on a machine that holds no secrets.",
            SandboxWarning,
            stacklevel=3,
        )
