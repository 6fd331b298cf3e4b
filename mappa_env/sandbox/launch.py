"""Starts fresh interpreters for actions, and reads their exit codes.

Standard library only: this module also runs on servers.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.runner import DISK_EXIT, MEMORY_EXIT
from mappa_env.types import RunStatus

RUNNER = Path(__file__).with_name("runner.py")
_MIB = 2**20
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8:replace",
    "MPLBACKEND": "Agg",
    "PYTHONHASHSEED": "0",  # not the episode's: forks of one warm interpreter share its string hashes
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1",
    "JOBLIB_MULTIPROCESSING": "0",
}
"""The environment of an action in every sandbox; nothing of the host's own environment is in it."""
_FOLDERS = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name the scratch folder, which keeps caches of libraries out of the file history."""


def environment(home: str, scratch: str) -> dict[str, str]:
    """The whole environment of an action whose folder is ``home``."""
    return {**ENVIRONMENT, **dict.fromkeys(_FOLDERS, scratch), "HOME": home}


def command(
    python: str, runner: str, file: int, limits: Limits, seed: int, libraries: Sequence[str]
) -> list[str]:
    """The command line that makes ``runner`` run the code of descriptor ``file``.

    Skips ``site``, which is slow; ``libraries`` are the interpreter's library folders. A server's Python may
    be too old for ``-P``; the runner then does the same.
    """
    safe_path = ["-P"] if sys.version_info >= (3, 11) else []
    numbers = (seed % 2**32, limits.cpu_s, limits.memory_mb * _MIB, limits.disk_mb * _MIB, limits.processes)
    arguments = (file, *(math.ceil(number) for number in numbers), *libraries)
    return [python, "-u", "-s", "-S", *safe_path, runner, *map(str, arguments)]


def exit_status(code: int, cpu_s: float, limits: Limits) -> RunStatus:
    """The status for an exit code if the host did not end the action, which used ``cpu_s``."""
    if code >= 0:
        return {0: "ok", MEMORY_EXIT: "memory", DISK_EXIT: "disk_limit"}.get(code, "error")  # type: ignore[return-value]
    # The kernel measures its limit and the reported sum differently, by a tenth or more.
    if code in (-signal.SIGXCPU, -signal.SIGKILL) and cpu_s >= limits.cpu_s / 2:
        return "timeout"
    return "disk_limit" if code == -signal.SIGXFSZ else "killed"


def exit_code(code: int) -> int:
    """The exit code to report: our own codes for memory and disk count as an ordinary failure, 1."""
    return 1 if code in (MEMORY_EXIT, DISK_EXIT) else code
