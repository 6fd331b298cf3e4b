"""Ends an engine's processes when the run that started them has ended, for whatever reason.

vLLM's processes do not notice a killed run: they would keep the GPU memory that the resumed run needs.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil

OWNER = "MAPPA_ENGINE_OWNER"
"""Environment variable with the pid of the run; its engines inherit it."""
_EVERY_S = 1.0


def watch_owner() -> None:
    """Start a thread that ends this process, and vLLM's parent process, once the owner is gone.

    Does nothing in the owner itself, or if there is no owner.
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
    """Whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
