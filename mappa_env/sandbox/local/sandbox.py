"""``sandbox="local"``: one fork of a warm interpreter per action, confined before it runs a line."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from mappa_env.errors import OptionError, SandboxError, SandboxWarning, WorkspaceError, nearest
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.linux import require_linux
from mappa_env.sandbox.local.cgroup import Leaf
from mappa_env.sandbox.local.exchange import Exchange
from mappa_env.sandbox.local.inside import wire
from mappa_env.sandbox.local.inside.root import WORK
from mappa_env.sandbox.local.isolation_levels import LEVELS, IsolationLevel
from mappa_env.sandbox.local.pool import Pool, Pools
from mappa_env.sandbox.local.tmpfs import TmpfsStorage
from mappa_env.sandbox.memory import machine_memory
from mappa_env.types import RunStatus
from mappa_env.workspace.nofollow import Root
from mappa_env.workspace.scanning import usage
from mappa_env.workspace.snapshot import Snapshot
from mappa_env.workspace.storage import FolderStorage, Storage
from mappa_env.workspace.workspace import Workspace

_MIB = 2**20
_LOOK_S = 0.05
_LOOK_AT_FILES_S = 0.2
_SCRATCH = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name the folder for temporary files, which keeps caches out of the file history."""
_CROWDED = "the kernel ended the action for want of memory, although it was within its limit: others used it."
_POOLS = Pools()


class LocalSandbox:
    """Runs each action in a confined fork of a warm interpreter. Thread-safe.

    ``python``: the interpreter for the agents' code (default: this one), with its own packages. ``level``:
    ``"full"``, ``"landlock"``, or None for the best that works. ``concurrency``: actions in flight at once,
    over all environments of this process with the same options.
    """

    name = "local"

    def __init__(self, python: str = sys.executable, level: str | None = None, concurrency: int = 64) -> None:
        """Start nothing yet. Raises OptionError, and SandboxError unless this is Linux."""
        require_linux(self.name)
        if level is not None and level not in LEVELS:
            raise OptionError(f"level={level!r} is unknown; use one of {LEVELS}." + nearest(level, LEVELS))
        if concurrency < 1:
            raise OptionError(f"concurrency must be at least 1, found {concurrency!r}.")
        self._python = os.path.abspath(python) if os.path.dirname(python) else python
        self._level = level
        self._concurrency = concurrency

    @property
    def level(self) -> IsolationLevel:
        """The level in use, and the reason why it is not a higher one. Raises SandboxError."""
        return self._pool().level

    @property
    def isolation(self) -> str:
        """``full`` or ``landlock``. Raises SandboxError if neither works."""
        return self.level.name

    def open_workspace(self) -> Workspace:
        """Open a tmpfs inside the sandbox, with a hard quota; at ``landlock`` a plain folder."""
        return Workspace(self._make_storage)

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: the action never began because the host failed, or the kernel
        ended it for memory that others used.

        Emits a SandboxWarning where the cgroup of an action stays behind.
        """
        asked = time.monotonic()
        try:
            pool = self._pool()
            with pool.slot() as started:
                queued = time.monotonic() - asked
                result = self._run(pool, workspace, code, limits, seed, started)
                return replace(result, queued_s=queued)
        except (OSError, SandboxError, WorkspaceError) as error:
            reason = f"the sandbox could not work: {error}"
            return Result("unavailable", None, "", reason, queued_s=time.monotonic() - asked)

    def close(self) -> None:
        """Do nothing: other environments of this process share the pool, which ends with the process."""

    def _run(
        self,
        pool: Pool,
        workspace: Workspace,
        code: str,
        limits: Limits,
        seed: int,
        started: Callable[[], None],
    ) -> Result:
        quota = limits.disk_mb * _MIB + workspace.given_bytes
        request = self._place(pool, workspace, quota)
        request |= {"limits": _numbers(limits, pool), "seed": seed % 2**32}
        before = workspace.snapshot
        folder = workspace.storage.root if isinstance(workspace.storage, FolderStorage) else None
        leaf = pool.leaves.new(limits.memory_mb * _MIB, limits.processes) if pool.leaves else None
        exchange = Exchange(limits, _Watch(leaf, folder, quota).look, _LOOK_S)
        try:
            report = pool.run(exchange, request, code, leaf, started)
            status = exchange.exceeded or _starved(leaf)
        finally:
            _remove(leaf)
        after = workspace.scan()
        return Result(
            status=status or _status(report, limits, workspace.storage, after, quota),
            exit_code=report["code"] if report else None,
            stdout=exchange.out.text(),
            stderr=_CROWDED if status == "unavailable" else exchange.err.text() + after.note(),
            truncated=exchange.out.dropped + exchange.err.dropped,
            wall_s=report["wall"] if report else 0.0,
            cpu_s=report["cpu"] if report else 0.0,
            peak_rss=report["rss"] if report else 0,
            files=workspace.changes(before, after),
            isolation=pool.level.name,
            opened=exchange.opened,
        )

    def _pool(self) -> Pool:
        return _POOLS.get(self._python, self._level, self._concurrency)

    def _make_storage(self) -> Storage:
        pool = self._pool()
        return TmpfsStorage(pool) if pool.level.name == "full" else FolderStorage(pool.level.template.user)

    def _place(self, pool: Pool, workspace: Workspace, quota: int) -> dict[str, Any]:
        """Prepare the workspace; return where the zygote finds it. Raises SandboxError, WorkspaceError."""
        template = pool.level.template
        if isinstance(workspace.storage, TmpfsStorage) and workspace.storage.pool is not pool:
            workspace.move(self._make_storage)  # its sandbox has ended, or it belongs to another one
        storage = workspace.storage
        storage.ready()
        if isinstance(storage, TmpfsStorage):
            storage.limit(quota)
            return {"place": storage.number, "environment": _environment(WORK, "/tmp")}
        if not isinstance(storage, FolderStorage):
            raise SandboxError(
                f"sandbox='local' cannot run in a {type(storage).__name__}: use its open_workspace()."
            )
        if storage.give(template.user):
            workspace.scan()
        try:
            inner = str(storage.path.relative_to(template.folder))
        except ValueError:
            raise SandboxError(
                f"{storage.path} is not under {template.folder}, the only folder visible to the sandbox."
            ) from None
        if template.level == "landlock":
            folder, scratch = str(storage.path), str(storage.scratch)
            return {"folder": folder, "scratch": scratch, "environment": _environment(folder, scratch)}
        return {"folder": inner, "environment": _environment(WORK, "/tmp")}


class _Watch:
    """Polls, while the action runs, what nothing else ends.

    That is a plain ``folder`` over its ``quota``, and an action some of whose processes the kernel has killed
    for want of memory.
    """

    def __init__(self, leaf: Leaf | None, folder: Root | None, quota: int) -> None:
        self._leaf, self._folder, self._quota = leaf, folder, quota
        self._next = time.monotonic() + _LOOK_AT_FILES_S

    def look(self) -> RunStatus | None:
        """The limit that is exceeded; ``unavailable``: see ``_starved``."""
        if starved := _starved(self._leaf):
            return starved
        if self._folder is None or time.monotonic() < self._next:
            return None
        used = usage(self._folder)
        self._next = time.monotonic() + _LOOK_AT_FILES_S
        return "disk_limit" if used > self._quota else None


def _starved(leaf: Leaf | None) -> RunStatus | None:
    """What it makes of an action that the kernel killed a process of it for want of memory.

    If others used the memory, that is nobody's fault. They did if the action was within its limit and had
    less than half of what this process may use: none can void itself, however small the machine is.
    """
    if leaf is None or not leaf.oom_kills():
        return None
    return "memory" if leaf.filled() or 2 * leaf.peak() >= machine_memory() else "unavailable"


def _remove(leaf: Leaf | None) -> None:
    """Remove the leaf of an action that has ended. What it did counts even if the leaf stays behind."""
    try:
        if leaf is not None:
            leaf.remove()
    except OSError as error:
        warnings.warn(f"the cgroup of an action could not be removed: {error}", SandboxWarning, stacklevel=2)


def _environment(folder: str, scratch: str) -> dict[str, str]:
    return {"HOME": folder, **dict.fromkeys(_SCRATCH, scratch)}


def _numbers(limits: Limits, pool: Pool) -> dict[str, Any]:
    numbers = {
        "wall": limits.wall_s,
        "cpu": math.ceil(limits.cpu_s),
        "memory": limits.memory_mb * _MIB,
        "disk": limits.disk_mb * _MIB,
        "processes": limits.processes,
    }
    if pool.level.name == "landlock":
        with open("/proc/loadavg") as file:
            numbers["running"] = int(file.read().split()[3].split("/")[1])
    return numbers


def _status(
    report: wire.Report | None, limits: Limits, storage: Storage, after: Snapshot, quota: int
) -> RunStatus:
    """The status of the action. A limit that the action claims counts only if the facts agree."""
    if report is None:
        return "killed"
    if report["exceeded"]:
        return cast("RunStatus", report["exceeded"])
    code, claimed = report["code"], report["claimed"]
    if code == 1 and claimed in ("memory", "processes"):
        return "memory" if claimed == "memory" else "killed"
    largest = max((entry.size for entry in after.entries.values()), default=0)
    full = storage.full if isinstance(storage, TmpfsStorage) else after.disk_bytes > quota
    if (code, claimed) in ((1, "disk"), (-signal.SIGXFSZ, "")) and (full or largest >= limits.disk_mb * _MIB):
        return "disk_limit"
    if code >= 0:
        if report["cpu"] > limits.cpu_s:  # it caught or ignored the kernel's signal, and ended by itself
            return "timeout"
        over = after.skipped or (isinstance(storage, FolderStorage) and full)
        return "disk_limit" if over else "ok" if code == 0 else "error"
    # The kernel measures this limit and the reported sum differently, by a tenth or more.
    if code in (-signal.SIGXCPU, -signal.SIGKILL) and report["cpu"] >= limits.cpu_s / 2:
        return "timeout"
    return "killed"
