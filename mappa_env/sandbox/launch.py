"""How the backends with a fresh interpreter per action start it, and what its exit code says.

Standard library only: a part of this runs on servers too.
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
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:replace", "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1", "JOBLIB_MULTIPROCESSING": "0",
}  # fmt: skip
"""All that an action sees of the host's environment: no key, no token, no path of ours."""
_FOLDERS = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name the scratch folder, so that libraries' caches stay out of the trail."""


def environment(home: str, scratch: str, seed: int) -> dict[str, str]:
    """The whole environment of an action whose folder is ``home``."""
    return {
        **_ENVIRONMENT,
        **dict.fromkeys(_FOLDERS, scratch),
        "HOME": home,
        "PYTHONHASHSEED": str(seed % 2**32),
    }


def command(
    python: str, runner: str, file: int, limits: Limits, seed: int, libraries: Sequence[str]
) -> list[str]:
    """The command line that makes ``runner`` run the code of descriptor ``file``.

    Without ``site``, which would be slow: ``libraries`` are the interpreter's library folders. Servers may
    have a Python that does not know ``-P`` yet: there the runner does what it would do.
    """
    safe_path = ["-P"] if sys.version_info >= (3, 11) else []
    numbers = (seed % 2**32, limits.cpu_s, limits.memory_mb * _MIB, limits.disk_mb * _MIB, limits.processes)
    arguments = (file, *(math.ceil(number) for number in numbers), *libraries)
    return [python, "-u", "-s", "-S", *safe_path, runner, *map(str, arguments)]


def exit_status(code: int, spent: bool) -> RunStatus:
    """What an exit code says when the host did not end the action; ``spent``: its processor time is used."""
    if code >= 0:
        return {0: "ok", MEMORY_EXIT: "memory", DISK_EXIT: "disk_limit"}.get(code, "error")  # type: ignore[return-value]
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent):
        return "timeout"
    return "disk_limit" if code == -signal.SIGXFSZ else "killed"


def exit_code(code: int) -> int:
    """The code to report: those that carry a status of ours are the interpreter's ordinary failure."""
    return 1 if code in (MEMORY_EXIT, DISK_EXIT) else code
