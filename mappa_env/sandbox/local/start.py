"""Starting a template: its environment, its libraries, and the trial action that shows that it works."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mappa_env.errors import SandboxError
from mappa_env.homes import FolderHome
from mappa_env.sandbox.local.inside import wire

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "HOME": "/", "USER": "agent", "LOGNAME": "agent",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:replace", "MPLBACKEND": "Agg",
    "PYTHONHASHSEED": "0",  # one interpreter serves all: string hashes are the same in every action
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1", "JOBLIB_MULTIPROCESSING": "0",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a thread would not survive the fork
    "PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # large pages make a fork cheap
}  # fmt: skip
"""All that template, zygotes and actions see of an environment: no key, no token, no path of ours."""

PRELOAD = (
    "collections", "csv", "datetime", "decimal", "fractions", "functools", "glob", "itertools", "json",
    "math", "multiprocessing.pool", "pickle", "pathlib", "re", "shutil", "sqlite3", "statistics", "string",
    "subprocess", "tempfile", "typing", "numpy", "numpy.random", "pandas", "scipy.optimize", "scipy.stats",
    "scipy.sparse", "sklearn.cluster", "sklearn.compose", "sklearn.datasets", "sklearn.decomposition",
    "sklearn.dummy", "sklearn.ensemble", "sklearn.feature_extraction.text", "sklearn.feature_selection",
    "sklearn.gaussian_process", "sklearn.impute", "sklearn.linear_model", "sklearn.metrics",
    "sklearn.model_selection", "sklearn.naive_bayes", "sklearn.neighbors", "sklearn.neural_network",
    "sklearn.pipeline", "sklearn.preprocessing", "sklearn.svm", "sklearn.tree", "sympy", "joblib",
    "matplotlib.pyplot", "lightgbm", "xgboost", "pyarrow.parquet",
)  # fmt: skip
"""What a template imports where it is installed."""

USER = 61000
"""Whom actions run as where the host is root: a number that no system gives to anybody."""
START_S = 120.0
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from inside.main import run; del sys.path[0]; "
    "run(*sys.argv[2:])"
)


class Template:
    """The process that forks zygotes. One request at a time: the caller holds a lock."""

    def __init__(self, python: str, level: str) -> None:
        """Raises SandboxError with the step that failed."""
        self.level = level
        self.folder = tempfile.gettempdir()
        cache = _cache()
        self._scratch = None if cache else FolderHome()
        if self._scratch is not None:
            cache = str(self._scratch.path)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [python, "-s", "-P", "-S", "-c", _BOOT, str(Path(__file__).parent), "launch"]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*arguments, str(theirs.fileno()), level], pass_fds=[theirs.fileno()], cwd="/",
                    env={**ENVIRONMENT, "MPLCONFIGDIR": cache}, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise SandboxError(f"python={python!r} is not a Python that runs: {error}") from None
        self._socket = ours
        ours.settimeout(START_S)
        user = USER if os.geteuid() == 0 else None
        try:
            ready, _ = self.ask(preload=list(PRELOAD), host=self.folder, user=user)
        except BaseException:
            self.close()
            raise
        self.skipped: dict[str, str] = ready["skipped"]
        self.user: int | None = ready["user"]

    def ask(self, **message: Any) -> tuple[dict[str, Any], list[int]]:
        """One question and its answer. Raises SandboxError when refused, or when the template is gone."""
        try:
            wire.send(self._socket, message)
            answer, fds = wire.receive(self._socket)
        except (OSError, EOFError) as error:
            raise SandboxError(
                f"the sandbox's template process is gone: {self._last_words() or error!r}"
            ) from None
        except BaseException:  # between question and answer: no later answer could be told from this one's
            self.close()
            raise
        if "failed" in answer:
            raise SandboxError(f"{self.level}: {answer['failed']}")
        return answer, fds

    @property
    def alive(self) -> bool:
        return self._socket.fileno() >= 0 and self._process.poll() is None

    def close(self) -> None:
        """Everything below it dies. May be called twice."""
        self._socket.close()
        if self._scratch is not None:
            self._scratch.remove()
        if self._process.returncode is None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()  # the template goes with its launcher
                self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _last_words(self) -> str:
        """What the dead interpreter wrote, if it did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            if self._process.stderr is not None and not self._process.stderr.closed:
                return self._process.stderr.read(4096).decode("utf-8", "replace").strip()[-500:]
        return ""


def _cache() -> str:
    """Where matplotlib keeps its list of fonts, which takes a second to make; empty if there is no place."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(base, "mappa", "matplotlib")
    with contextlib.suppress(OSError):  # no home, or one that cannot be written
        os.makedirs(folder, exist_ok=True)
    return folder if os.access(folder, os.W_OK) else ""
