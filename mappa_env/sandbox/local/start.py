"""Starts a template: its environment, the libraries that it imports, and the connection to it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mappa_env.errors import SandboxError, SandboxTimeout
from mappa_env.sandbox import launch
from mappa_env.sandbox.local.inside import wire
from mappa_env.sandbox.local.own import own_paths
from mappa_env.workspace.storage import FolderStorage

ENVIRONMENT = {
    **launch.ENVIRONMENT,
    "HOME": "/",
    "USER": "agent",
    "LOGNAME": "agent",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a thread would not survive the fork
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # large pages make a fork cheap
}
"""The environment of template, zygotes and actions; nothing of the host's own environment is in it."""

PRELOAD = (
    "collections",
    "csv",
    "datetime",
    "decimal",
    "fractions",
    "functools",
    "glob",
    "itertools",
    "json",
    "math",
    "multiprocessing.pool",
    "pickle",
    "pathlib",
    "re",
    "shutil",
    "sqlite3",
    "statistics",
    "string",
    "subprocess",
    "tempfile",
    "typing",
    "numpy",
    "numpy.random",
    "pandas",
    "scipy.optimize",
    "scipy.stats",
    "scipy.sparse",
    "sklearn.cluster",
    "sklearn.compose",
    "sklearn.datasets",
    "sklearn.decomposition",
    "sklearn.dummy",
    "sklearn.ensemble",
    "sklearn.feature_extraction.text",
    "sklearn.feature_selection",
    "sklearn.gaussian_process",
    "sklearn.impute",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.naive_bayes",
    "sklearn.neighbors",
    "sklearn.neural_network",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "sklearn.svm",
    "sklearn.tree",
    "sympy",
    "joblib",
    "matplotlib.pyplot",
    "lightgbm",
    "xgboost",
    "pyarrow.parquet",
)
"""Modules that a template imports if they are installed."""

USER = 61000
"""The user id of actions when the host is root; no system assigns this number."""
START_S = 120.0
"""Seconds that the template may take for one answer; the first one comes when its libraries are imported."""
_BOOT = (
    "import sys; sys.path.insert(0, f'/proc/self/fd/{sys.argv[1]}/local'); from inside.main import run; "
    "del sys.path[0]; run(*sys.argv[1:])"
)
"""By a descriptor, so that nothing in the interpreter's memory says where this project lies."""


class Template:
    """The process that forks zygotes. Takes one request at a time, so the caller must hold a lock."""

    def __init__(self, python: str, level: str) -> None:
        """Start the process. Raises SandboxError with the step that failed, SandboxTimeout if it is slow."""
        self.level = level
        self.folder = tempfile.gettempdir()
        cache = _cache()
        self._scratch = None if cache else FolderStorage()
        if self._scratch is not None:
            cache = str(self._scratch.path)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(Path(__file__).parents[1], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        arguments = [str(folder), "launch", str(theirs.fileno()), level]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [python, "-s", "-P", "-S", "-c", _BOOT, *arguments],
                    pass_fds=[folder, theirs.fileno()],
                    cwd="/",
                    env=ENVIRONMENT,
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
            except OSError as error:
                ours.close()
                raise SandboxError(
                    f"python={python!r} does not run as a Python interpreter: {error}"
                ) from None
            finally:
                os.close(folder)
        self._socket = ours
        ours.settimeout(START_S)
        user = USER if os.geteuid() == 0 else None
        try:
            ready, _ = self.ask(
                preload=list(PRELOAD), cache=cache, host=self.folder, user=user, own=own_paths()
            )
        except BaseException:
            self.close()
            raise
        self.skipped: dict[str, str] = ready["skipped"]
        self.user: int | None = ready["user"]
        self.unnamed: bool = ready["unnamed"]
        """Whether actions lack even the names of this project's files (``docs/sandbox.md``)."""

    def ask(self, **message: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return its answer.

        Raises SandboxError if the request fails or the template is dead, and SandboxTimeout without an answer
        in time. The template is then closed: its late answer would be taken for the next request's.
        """
        try:
            wire.send(self._socket, message)
            answer, fds = wire.receive(self._socket)
        except TimeoutError:
            self.close()
            raise SandboxTimeout(
                f"the sandbox's template process at level {self.level!r} did not answer within {START_S:.0f} "
                "s. The machine is overloaded, or importing the libraries takes that long: try again when "
                "the machine is less busy."
            ) from None
        except (OSError, EOFError) as error:
            raise SandboxError(
                f"the sandbox's template process has ended: {self._last_words() or error!r}"
            ) from None
        except BaseException:  # interrupted: the next request would receive this one's answer
            self.close()
            raise
        if "failed" in answer:
            raise SandboxError(f"{self.level}: {answer['failed']}")
        return answer, fds

    @property
    def alive(self) -> bool:
        """Whether the template still answers."""
        return self._socket.fileno() >= 0 and self._process.poll() is None

    def close(self) -> None:
        """End the template and all processes below it. May be called twice."""
        self._socket.close()
        if self._scratch is not None:
            self._scratch.remove()
        if self._process.returncode is None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()  # the template dies with its launcher
                self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _last_words(self) -> str:
        """The last output of the dead interpreter; may be empty."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            if self._process.stderr is not None and not self._process.stderr.closed:
                return self._process.stderr.read(4096).decode("utf-8", "replace").strip()[-500:]
        return ""


def _cache() -> str:
    """The folder for matplotlib's list of fonts, which takes a second to build; empty if none is writable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(base, "mappa", "matplotlib")
    with contextlib.suppress(OSError):  # no home, or one that cannot be written
        os.makedirs(folder, exist_ok=True)
    return folder if os.access(folder, os.W_OK) else ""
