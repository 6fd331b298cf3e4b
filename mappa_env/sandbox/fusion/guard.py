"""Ends what the host cannot end on a server: a wrapper that was stopped, and an action nobody waits for.

Standard library and shipped modules only: this module runs on servers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from functools import cache

from mappa_env.sandbox.tree import members

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_LOOK_S = 0.002
_SIGEV_SIGNAL = 0


class _Event(ctypes.Structure):
    """``struct sigevent``."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    ]


class _Times(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = [
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    ]


def hide() -> None:
    """Keep other processes of the same user out of this one's memory; does not stop root."""
    _library("prctl").prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """End this process when its parent dies. The agent's code can undo that."""
    _library("prctl").prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent dies, so that none can leave."""
    _library("prctl").prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill and reap all descendants of this process, after ``adopt_orphans``; a ``KillTimer`` bounds it."""
    with contextlib.suppress(ChildProcessError):  # there are none left
        while True:
            for pid in members(os.getpid(), sys.maxsize)[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(_LOOK_S)


class KillTimer:
    """Lets the kernel kill this process at a given time, even if it was stopped.

    The agent's code can stop this process, but neither catch SIGKILL for it nor disarm its timer.
    """

    def __init__(self) -> None:
        """Create the timer, unarmed. Raises OSError if there is none."""
        self._library = _library("timer_create")
        self._timer = ctypes.c_void_p()
        event = _Event(signal=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        clock, timer = time.CLOCK_MONOTONIC, ctypes.byref(self._timer)
        _checked(self._library.timer_create(clock, ctypes.byref(event), timer))

    def set(self, seconds: float) -> None:
        """Kill this process after ``seconds``; 0 disarms the timer. Raises OSError."""
        times = _Times(first_s=int(seconds), first_ns=int(seconds % 1 * 1e9))
        _checked(self._library.timer_settime(self._timer, 0, ctypes.byref(times), None))


def end_when_abandoned(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of ``process`` as soon as the server is gone, which nobody else would tell us."""

    def wait() -> None:
        _gone(None)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def abandoned() -> bool:
    """Whether the server that started this process is gone: nobody reads our standard output any more."""
    return _gone(0)


@cache
def _library(function: str) -> ctypes.CDLL:
    """The C library that has ``function``; before glibc 2.34 timers had their own. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, function) else ctypes.CDLL("librt.so.1", use_errno=True)


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "timer")


def _gone(timeout_ms: int | None) -> bool:
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    return bool(poller.poll(timeout_ms))
