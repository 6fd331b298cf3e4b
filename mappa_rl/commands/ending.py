"""Ends a process with all that it has started."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress

import psutil

GRACE_S = 22.0
"""Seconds that interrupted runs have to save their work."""


def end_tree(launcher: subprocess.Popen[bytes], number: signal.Signals | None) -> None:
    """Pass the signal on, wait until all have saved their work, then kill the rest; None: at once.

    ``launcher`` may end before its workers, whose sessions are their own, or have no workers and save the
    work itself.
    """
    until = time.monotonic() + (GRACE_S if number else 0.0)
    workers: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        workers = psutil.Process(launcher.pid).children(recursive=True)
    launcher.send_signal(number or signal.SIGKILL)
    _, left = psutil.wait_procs(workers, max(until - time.monotonic(), 0.0))
    for worker in left:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    try:
        launcher.wait(max(until - time.monotonic(), 1.0))
    except subprocess.TimeoutExpired:
        launcher.kill()
