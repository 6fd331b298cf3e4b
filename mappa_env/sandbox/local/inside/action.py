"""The last step in the child: run the agent's code as ``__main__``, then exit as an interpreter would."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import importlib.util
import io
import linecache
import os
import random
import resource
import shutil
import sys
import threading
import traceback
from typing import Any, NoReturn

from .kernel import prctl
from .syscall_policy import CLAIM, CLAIMS

NAME = "<action>"
_RUNNER = importlib.util.spec_from_file_location(
    "runner", os.path.join(os.path.dirname(__file__), "..", "..", "runner.py")
)
_runner: Any = importlib.util.module_from_spec(_RUNNER)  # type: ignore[arg-type]
_RUNNER.loader.exec_module(_runner)  # type: ignore[union-attr]
"""The program of a fresh interpreter, a single file: by its path, for there is no package here."""
read = _runner.received


def run(code: bytes, notes: Any, seed: int, environment: dict[str, str], *, chmod: bool) -> NoReturn:
    """Run ``code`` and exit. ``seed`` seeds ``random`` and legacy numpy. ``notes``: what ``read`` gave.

    ``chmod``: whether the action may change modes and times of files.
    """
    os.environ.update(environment)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    text = code.decode("utf-8")
    linecache.cache[NAME] = (len(text), None, text.splitlines(True), NAME)
    sys.argv = [NAME]
    _runner.LibrariesFirst(os.getcwd()).install()
    random.seed(seed)
    if not chmod:
        shutil.copymode = shutil.copystat = _leave_mode  # as on platforms without file modes
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    scope = type(sys)("__main__")
    scope.__dict__.update(__file__=NAME, __builtins__=builtins)
    sys.modules["__main__"] = scope
    _runner.observe(notes)
    os._exit(_execute(text, scope.__dict__) & 0xFF)


def _execute(text: str, scope: dict[str, Any]) -> int:
    status = 0
    try:
        exec(compile(text, NAME, "exec", dont_inherit=True), scope)  # noqa: S102  (the child's whole job)
    except SystemExit as leave:
        status = _exit_status(leave)
    except BaseException as error:  # noqa: BLE001  (reported as the interpreter would)
        status = 1
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None  # not our frame
        _report(error)
    return _leave(status)


def _leave(status: int) -> int:
    """Shut down as the interpreter does: wait for threads, call the exit handlers, flush."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException as error:  # noqa: BLE001  (the agent's exit handler, or a stream that it closed)
        status = status or (120 if isinstance(error, OSError | ValueError) else 1)
    return status


def _exit_status(leave: SystemExit) -> int:
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code
    with contextlib.suppress(BaseException):  # its __str__ may do anything, and the stream may be closed
        print(leave.code, file=sys.stderr)
    return 1


def _report(error: BaseException) -> None:
    """Print the traceback. If a limit seems to have ended the action, say so: the zygote knows better."""
    limit = ""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))  # release the reserve
        limit = "memory"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        limit = "disk"
    elif isinstance(error, BlockingIOError | RuntimeError):  # a fork or a thread, maybe
        limit = "processes"
    if limit:
        with contextlib.suppress(OSError):  # the zygote is dead; nobody will hear of the action
            prctl(CLAIM, CLAIMS.index(limit))
    try:
        traceback.print_exception(error)
    except BaseException:  # noqa: BLE001  (the agent's own __str__, or no memory for the text)
        os.write(2, f"{type(error).__name__}\n".encode())


def _leave_mode(*_: object, **__: object) -> None:
    return None


def _stream(fd: int) -> io.TextIOWrapper:
    """An unbuffered stream, so output from before a kill counts."""
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)
