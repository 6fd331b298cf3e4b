"""The ``process`` backend: a fresh interpreter per action. It bounds and cleans up, but does not isolate."""

from __future__ import annotations

import functools
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.output import Capture
from mappa_env.types import RunStatus
from mappa_env.workspace import Workspace

RUNNER = Path(__file__).with_name("runner.py")
MEMORY_EXIT, DISK_EXIT = 97, 98
"""Exit codes by which the runner reports an uncaught MemoryError or a full disk."""
_GRACE_S = 0.2
_MIB = 2**20
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:replace", "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1", "JOBLIB_MULTIPROCESSING": "0",
}  # fmt: skip
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
        """See ``Sandbox.run``. ``unavailable``: the interpreter could not be started at all."""
        _warn()
        before = workspace.snapshot
        started = time.monotonic()
        try:
            process = self._start(workspace, code, limits, seed)
        except OSError as error:
            return Result("unavailable", None, "", f"the sandbox could not start: {error}",
                          isolation=self.isolation)  # fmt: skip
        run = _Run(process, limits, started + limits.wall_s)
        struck = run.watch()
        usage = run.reap()
        status = struck or _status(process.returncode)
        wall = time.monotonic() - started
        after = workspace.scan()
        if status == "ok" and after.disk_bytes > limits.disk_mb * _MIB:
            status = "disk_limit"
        return Result(
            status=status,
            exit_code=process.returncode,
            stdout=run.out.text(),
            stderr=run.err.text(),
            truncated=run.out.dropped + run.err.dropped,
            wall_s=wall,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_rss=usage.ru_maxrss * 1024,
            files=workspace.changes(before, after),
            isolation=self.isolation,
        )

    def close(self) -> None:
        return None

    def _start(self, workspace: Workspace, code: str, limits: Limits, seed: int) -> subprocess.Popen[bytes]:
        environment = {
            **_ENVIRONMENT,
            "HOME": str(workspace.path),
            "TMPDIR": str(workspace.scratch),
            "PYTHONHASHSEED": str(seed % 2**32),
        }
        file = os.memfd_create("action")
        try:
            with open(file, "wb", closefd=False) as stream:
                stream.write(code.encode("utf-8", "replace"))
            os.lseek(file, 0, os.SEEK_SET)
            numbers = (file, seed % 2**32, limits.cpu_s, limits.memory_mb * _MIB, limits.disk_mb * _MIB,
                       limits.processes)  # fmt: skip
            return subprocess.Popen(  # no preexec_fn: it would forbid the cheap vfork
                [self._python, "-s", "-S", "-P", str(RUNNER), *(str(int(n)) for n in numbers),
                 *_site_packages(self._python)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=(file,), cwd=workspace.path, env=environment, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(file)


@dataclass(slots=True)
class _Run:
    """One running child: drain its output, end it in time, leave nothing behind."""

    process: subprocess.Popen[bytes]
    limits: Limits
    deadline: float
    out: Capture = None  # type: ignore[assignment]
    err: Capture = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.out = Capture(self.limits.output_kb * 1024)
        self.err = Capture(self.limits.output_kb * 1024)

    def watch(self) -> RunStatus | None:
        """Drain both streams until the child is dead; the limit that struck and ended it, if one did."""
        struck: RunStatus | None = None
        cap = self.limits.output_cap_mb * _MIB
        exited = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(exited, selectors.EVENT_READ, None)
                for stream, capture in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
                    assert stream is not None
                    os.set_blocking(stream.fileno(), False)
                    selector.register(stream, selectors.EVENT_READ, capture)
                dead = False
                while not dead or len(selector.get_map()) > 0:
                    wait = self.deadline - time.monotonic()
                    if wait <= 0:
                        if dead:
                            break  # somebody else holds the pipe: do not wait for it
                        struck = struck or "timeout"
                        self._kill()
                        wait = _GRACE_S
                    for key, _ in selector.select(wait):
                        if key.data is None:
                            dead = True
                            selector.unregister(exited)
                            self._kill()  # stragglers of its session; the zombie still holds the group id
                            self.deadline = time.monotonic() + _GRACE_S
                        elif not _drain(key.fileobj, key.data):  # type: ignore[arg-type]
                            selector.unregister(key.fileobj)
                    if struck is None and max(self.out.total, self.err.total) > cap:
                        struck = "output_limit"
                        self._kill()
        finally:
            os.close(exited)
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()
        return struck

    def reap(self):  # type: ignore[no-untyped-def]
        """Collect the child and its resource usage; afterwards no zombie is left."""
        _, code, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(code)
        return usage

    def _kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _status(code: int) -> RunStatus:
    if code == MEMORY_EXIT:
        return "memory"
    if code == DISK_EXIT:
        return "disk_limit"
    if code == -signal.SIGXCPU:
        return "timeout"
    return "ok" if code == 0 else "killed" if code < 0 else "error"


def _drain(stream: IO[bytes], capture: Capture) -> bool:
    try:
        data = os.read(stream.fileno(), 65536)
    except BlockingIOError:
        return True
    capture.feed(data)
    return bool(data)


@functools.cache
def _site_packages(python: str) -> tuple[str, ...]:
    """Library folders of ``python``; asked once. Without them on the command line ``-S`` would hide all."""
    if python == sys.executable:
        import site

        return tuple(dict.fromkeys(site.getsitepackages()))
    ask = "import site; print('\\n'.join(site.getsitepackages()))"
    try:
        out = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"python={python!r} is not a Python that runs: {error}") from None
    return tuple(out.stdout.split("\n"))[:-1]


def _warn() -> None:
    if _warn_once.acquire(blocking=False):  # never released: once per process
        warnings.warn(
            "sandbox with isolation='process': the agents' code runs as this user on this machine. Use it "
            "for scripted teams, tests and models that you trust, on a machine that holds no secrets.",
            SandboxWarning,
            stacklevel=4,
        )
