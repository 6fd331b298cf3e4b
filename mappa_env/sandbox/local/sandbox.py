"""``sandbox="local"``: one fork of a warm interpreter per action, confined before it runs a line."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from mappa_env.errors import OptionError, SandboxError, WorkspaceError, nearest
from mappa_env.homes import FolderHome, Home
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.local.cgroup import Usage
from mappa_env.sandbox.local.exchange import Exchange
from mappa_env.sandbox.local.inside.root import WORK
from mappa_env.sandbox.local.ladder import LEVELS, Rung
from mappa_env.sandbox.local.pool import Pool, Pools
from mappa_env.sandbox.local.tmpfs import TmpfsHome
from mappa_env.trail import Root, Snapshot, usage
from mappa_env.types import RunStatus
from mappa_env.workspace import Workspace

_MIB = 2**20
_LOOK_S = 0.05
_LOOK_AT_FILES_S = 0.2
_SCRATCH = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that name the folder for temporary files, so that libraries' caches stay out of the trail."""
_POOLS = Pools()


class LocalSandbox:
    """``python``: the interpreter that agents' code runs in (default: this one), with its own packages.

    ``level``: ``"full"`` or ``"landlock"`` and no other, or None for the best that works here.
    ``concurrency``: actions in flight at once, over all environments of this process that ask for the same.
    """

    name = "local"

    def __init__(self, python: str = sys.executable, level: str | None = None, concurrency: int = 64) -> None:
        """Nothing is started yet. Raises OptionError."""
        if level is not None and level not in LEVELS:
            raise OptionError(
                f"level={level!r} is not offered; use one of {LEVELS}." + nearest(level, LEVELS)
            )
        if concurrency < 1:
            raise OptionError(f"concurrency must be at least 1, found {concurrency!r}.")
        self._python = os.path.abspath(python) if os.path.dirname(python) else python
        self._level = level
        self._concurrency = concurrency

    @property
    def rung(self) -> Rung:
        """The level that this machine allows, and why not a higher one. Raises SandboxError."""
        return self._pool().rung

    @property
    def isolation(self) -> str:
        """``full`` or ``landlock``. Raises SandboxError where neither works."""
        return self.rung.level

    def open_workspace(self) -> Workspace:
        """A tmpfs inside the sandbox, with a hard quota; at ``landlock`` a plain folder."""
        return Workspace(self._make_home)

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. ``unavailable``: the action never began, so the host failed, not the team."""
        asked = time.monotonic()
        try:
            pool = self._pool()
            with pool.slot() as started:
                queued = time.monotonic() - asked
                return self._run(pool, workspace, code, limits, seed, started, queued)
        except (OSError, SandboxError, WorkspaceError) as error:
            reason = f"the sandbox could not work: {error}"
            return Result("unavailable", None, "", reason, queued_s=time.monotonic() - asked)

    def close(self) -> None:
        """The pool stays for the other environments of this process, and ends with it."""

    def _run(
        self, pool: Pool, workspace: Workspace, code: str, limits: Limits, seed: int,
        started: Callable[[], None], queued: float,
    ) -> Result:  # fmt: skip
        quota = limits.disk_mb * _MIB + workspace.given_bytes
        request = self._place(pool, workspace, quota)
        request |= {"limits": _numbers(limits, pool), "seed": seed % 2**32}
        before = workspace.snapshot
        watch = _FolderWatch(workspace.home.root, quota)
        exchange = Exchange(
            limits, watch.look if isinstance(workspace.home, FolderHome) else _nothing, _LOOK_S
        )
        leaf = pool.leaves.new(limits.memory_mb * _MIB, limits.processes) if pool.leaves else None
        try:
            report = pool.run(exchange, request, code, leaf, started)
            used = leaf.usage() if leaf else Usage(None, 0)
        finally:
            if leaf:
                leaf.remove()
        if report.get("failed"):
            raise SandboxError(report["failed"])
        after = workspace.scan()
        return Result(
            status=exchange.struck
            or ("memory" if used.oom_kills else _status(report, limits, workspace.home, after, quota)),
            exit_code=report.get("code"),
            stdout=exchange.out.text(),
            stderr=exchange.err.text(),
            truncated=exchange.out.dropped + exchange.err.dropped,
            wall_s=report.get("wall", 0.0),
            cpu_s=report.get("cpu", 0.0),
            peak_rss=used.peak_bytes or report.get("rss", 0),
            files=workspace.changes(before, after),
            isolation=pool.rung.level,
            queued_s=queued,
        )

    def _pool(self) -> Pool:
        return _POOLS.get(self._python, self._level, self._concurrency)

    def _make_home(self) -> Home:
        pool = self._pool()
        return TmpfsHome(pool) if pool.rung.level == "full" else FolderHome(pool.rung.template.user)

    def _place(self, pool: Pool, workspace: Workspace, quota: int) -> dict[str, Any]:
        """Where the zygote finds the workspace, made ready. Raises SandboxError, WorkspaceError."""
        template = pool.rung.template
        if isinstance(workspace.home, TmpfsHome) and workspace.home.pool is not pool:
            workspace.move(self._make_home)  # its sandbox has ended, or it was another one's
        home = workspace.home
        home.ready()
        if isinstance(home, TmpfsHome):
            home.limit(quota)
            return {"place": home.number, "environment": _environment(WORK, "/tmp")}
        if not isinstance(home, FolderHome):
            raise SandboxError(
                f"sandbox='local' cannot run in a {type(home).__name__}: use its open_workspace()."
            )
        home.give(template.user)
        if template.level == "landlock":
            folder, scratch = str(home.path), str(home.scratch)
            return {"folder": folder, "scratch": scratch, "environment": _environment(folder, scratch)}
        try:
            folder = str(home.path.relative_to(template.folder))
        except ValueError:
            raise SandboxError(
                f"{home.path} is not under {template.folder}, all that the sandbox was shown."
            ) from None
        return {"folder": folder, "environment": _environment(WORK, "/tmp")}


class _FolderWatch:
    """A plain folder has no quota of its own: its size is looked at while the action runs."""

    def __init__(self, root: Root, quota: int) -> None:
        self._root = root
        self._quota = quota
        self._next = time.monotonic() + _LOOK_AT_FILES_S

    def look(self) -> RunStatus | None:
        if time.monotonic() < self._next:
            return None
        used = usage(self._root)
        self._next = time.monotonic() + _LOOK_AT_FILES_S
        return "disk_limit" if used > self._quota else None


def _nothing() -> None:
    return None


def _environment(folder: str, scratch: str) -> dict[str, str]:
    return {"HOME": folder, **dict.fromkeys(_SCRATCH, scratch)}


def _numbers(limits: Limits, pool: Pool) -> dict[str, Any]:
    numbers = {
        "wall": limits.wall_s, "cpu": math.ceil(limits.cpu_s), "memory": limits.memory_mb * _MIB,
        "disk": limits.disk_mb * _MIB, "processes": limits.processes,
    }  # fmt: skip
    if pool.rung.level == "landlock":
        with open("/proc/loadavg") as file:
            numbers["running"] = int(file.read().split()[3].split("/")[1])
    return numbers


def _status(report: dict[str, Any], limits: Limits, home: Home, after: Snapshot, quota: int) -> RunStatus:
    """What ended the action. Its own word about a limit counts only where the facts agree with it."""
    if "lost" in report:
        return "killed"
    if report["struck"]:
        struck: RunStatus = report["struck"]
        return struck
    code, word = report["code"], report["word"]
    if code == 1 and word in ("memory", "processes"):
        return "memory" if word == "memory" else "killed"
    largest = max((entry.size for entry in after.entries.values()), default=0)
    full = home.full if isinstance(home, TmpfsHome) else after.disk_bytes > quota
    if (code, word) in ((1, "disk"), (-signal.SIGXFSZ, "")) and (full or largest >= limits.disk_mb * _MIB):
        return "disk_limit"
    if code >= 0:
        over = isinstance(home, FolderHome) and full
        return "disk_limit" if over else "ok" if code == 0 else "error"
    # The kernel's clock for this limit and the one that reports the sum differ by a tenth and more.
    if code in (-signal.SIGXCPU, -signal.SIGKILL) and report["cpu"] >= limits.cpu_s / 2:
        return "timeout"
    return "killed"
