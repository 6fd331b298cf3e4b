"""An engine's processes end when the run that started them is gone, however it ended.

vLLM's own do not notice that a run was killed: they would keep a GPU's memory, which the resumed run needs.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil

OWNER = "MAPPA_ENGINE_OWNER"
"""Variable with the process id of the run, which its engines inherit."""
_EVERY_S = 1.0


def watch_owner() -> None:
    """Start a thread that ends this process, and vLLM's above it, once the owner is gone.

    Does nothing in the owner itself, nor where there is none.
    """
    owner = int(os.environ.get(OWNER, "0"))
    if owner and owner != os.getpid():
        threading.Thread(target=_watch, args=(owner, os.getppid()), name="owner", daemon=True).start()


def _watch(owner: int, parent: int) -> None:
    while is_running(owner):
        time.sleep(_EVERY_S)
    if parent != owner and os.getppid() == parent:  # a worker's parent is the engine's core
        os.kill(parent, signal.SIGKILL)
    os._exit(1)


def is_running(pid: int) -> bool:
    """Whether a process is there. One that is dead, but that its parent has not asked for, is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
