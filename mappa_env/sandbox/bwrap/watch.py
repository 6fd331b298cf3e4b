"""Watches one action inside bubblewrap from the host: its pid namespace, its folders and its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.tree import children, members, memory
from mappa_env.sandbox.watch import Watch
from mappa_env.types import RunStatus
from mappa_env.workspace.nofollow import Root
from mappa_env.workspace.scanning import usage

MAX_SCRATCH_FILES = 4096
"""Limit on entries in each private folder; bubblewrap limits only their bytes."""
_PRIVATE = ("/tmp", "/dev/shm")
_GENTLE = 5
"""Attempts to kill only the action, so that ``init`` can still report, before everything is killed."""
_LOOKS_PER_SCAN = 5
_END_MS = 10_000


class BwrapWatch(Watch):
    """Watches bubblewrap (``process``) and the first process inside (``init``; 0: none).

    All processes of the action end with ``init``. ``quota``: bytes that the workspace at ``root`` may occupy.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], limits: Limits, init: int, root: Root, quota: int
    ) -> None:
        super().__init__(process, limits, home="")
        self._init = init
        self._root = root
        self._quota = quota
        self._kills = self._looks = 0
        self._pidfd: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(init) if init else None
        if self._pidfd is not None and init not in children(process.pid):  # it ended; the pid was reused
            os.close(self._pidfd)
            self._pidfd = None

    def _excess(self) -> RunStatus | None:
        pids = members(self._init, self._limits.processes + 2)[1:]
        if not pids:  # before the action begins, these paths may still lead to the host's folders
            return None
        if len(pids) > self._limits.processes:
            return "killed"
        if memory(pids, self._limits.memory_mb << 20):
            return "memory"
        self._looks += 1
        if self._looks % _LOOKS_PER_SCAN == 0:
            with contextlib.suppress(OSError):  # the host fails; the final scan checks the quota too
                if usage(self._root) > self._quota:
                    return "disk_limit"
        return "disk_limit" if any(self._files(folder) > MAX_SCRATCH_FILES for folder in _PRIVATE) else None

    def _files(self, folder: str) -> int:
        try:
            found = os.statvfs(f"/proc/{self._init}/root{folder}")
        except OSError:  # it has just ended
            return 0
        return found.f_files - found.f_ffree

    def _kill(self) -> None:
        self._kills += 1
        action = children(self._init)[:1] if self._pidfd is not None else []
        if action and self._kills <= _GENTLE:
            with contextlib.suppress(ProcessLookupError):
                os.kill(action[0], signal.SIGKILL)
            return
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        super()._kill()

    def _end_rest(self) -> None:
        """Wait for the end of the namespace; usually bubblewrap has already waited for it."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(_END_MS)

    def _reap(self) -> None:
        try:
            super()._reap()
        finally:
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None
