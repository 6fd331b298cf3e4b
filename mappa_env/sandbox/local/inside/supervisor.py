"""Answers the system calls that wait for the zygote's word: locks, large requests for memory, and claims.

A listener sees a call before the kernel runs it. Letting it run is safe only if nothing that we looked at can
change meanwhile. The descriptors of a process with several threads can: there we act ourselves, or refuse.
https://docs.kernel.org/userspace-api/seccomp_filter.html#userspace-notification
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass

from . import kernel
from . import syscall_policy as policy
from .syscall_numbers import NUMBERS

_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
_LET = -1
"""The verdict that lets a call run."""
_RUN = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_PIDFD_GETFD = 438
_OFD_SETLK = 37
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CALLS = {number: name for name, number in NUMBERS[platform.machine()].items() if name in policy.ASKED}
_LENGTH = {"mmap": 1, "mremap": 2}
"""The argument of a request for memory that holds its size."""


@dataclass(frozen=True)
class Bounds:
    """``space``: the address space that a process of the action may use, in bytes. ``asked_from``: the
    smallest request for memory that is asked about. ``folders``: where the action's own files lie; None if
    all other files are on read-only mounts."""

    space: int
    asked_from: int
    folders: tuple[str, ...] | None


class Supervisor:
    """Answers the calls of one action. ``fd`` is the listener."""

    def __init__(self, fd: int, bounds: Bounds, full: Callable[[], bool]) -> None:
        """``full``: whether the action has as many processes as it may have."""
        self.fd = fd
        self._bounds = bounds
        self._full = full
        self._refused = False
        self.claimed = ""
        """The limit that the action named when it ended; empty if we know better (not about ``disk``)."""

    def answer(self) -> None:
        """Answer one call. A caller that has died meanwhile is no error."""
        message = ctypes.create_string_buffer(80)
        with contextlib.suppress(FileNotFoundError):  # the caller is dead, or a signal interrupted its call
            fcntl.ioctl(self.fd, _RECEIVE, message)
            number, task, _, call, _, _, *arguments = struct.unpack("=QIIiIQ6Q", message.raw)
            error = self._verdict(_CALLS[call], task, arguments)
            reply = struct.pack("=QqiI", number, 0, -max(error, 0), _RUN if error == _LET else 0)
            fcntl.ioctl(self.fd, _SEND, reply)

    def close(self) -> None:
        """Close the listener; calls that still wait fail."""
        os.close(self.fd)

    def _verdict(self, call: str, task: int, arguments: list[int]) -> int:
        """An error number, 0 if the call is done, or _LET to run it."""
        try:
            if call in _LENGTH:
                return self._memory(task, arguments[_LENGTH[call]])
            if call == "prctl":
                return self._claim(task, arguments[1])
            return self._lock(call, task, arguments[0] & 0xFFFFFFFF, arguments[1] & 0xFFFFFFFF)
        except OSError as error:  # the process is gone, or may not be looked at on this machine
            return error.errno or errno.EPERM

    def _memory(self, task: int, size: int) -> int:
        """Note whether the kernel will refuse the request."""
        with open(f"/proc/{task}/statm") as file:
            used = int(file.read().split()[0]) * _PAGE
        self._refused = self._refused or used + size > self._bounds.space
        return _LET

    def _claim(self, task: int, limit: int) -> int:
        """A smaller request than those asked about can only be refused if most of the space is in use."""
        claimed = policy.CLAIMS[limit] if limit < len(policy.CLAIMS) else ""
        if claimed == "processes" and not self._full():
            claimed = ""
        if claimed == "memory" and not self._refused:
            peak = int(_status(task, "VmPeak").split()[0]) << 10
            claimed = claimed if peak + self._bounds.asked_from > self._bounds.space else ""
        self.claimed = claimed
        return 0

    def _lock(self, call: str, task: int, number: int, what: int) -> int:
        process = int(_status(task, "Tgid"))
        handle = os.pidfd_open(process)
        try:
            file = kernel.syscall("pidfd_getfd", _PIDFD_GETFD, handle, number, 0)
        finally:
            os.close(handle)
        try:
            if not self._owns(file):
                return errno.EPERM
            if int(_status(process, "Threads")) == 1:
                return _LET
            if call != "flock" or not what & (fcntl.LOCK_NB | fcntl.LOCK_UN):
                return errno.ENOLCK
            fcntl.flock(file, what)  # the lock belongs to the open file, which the process and we share
            return 0
        finally:
            os.close(file)

    def _owns(self, file: int) -> bool:
        """Whether no other action can open the file. Nameless files such as eventfds share one inode."""
        mode = os.fstat(file).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return False
        if self._bounds.folders is None:
            return not os.fstatvfs(file).f_flag & os.ST_RDONLY
        path = os.readlink(f"/proc/self/fd/{file}")
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._bounds.folders)


def hold(names: tuple[str, ...]) -> list[int]:
    """Hold read locks on devices and nameless files, so that no action's fcntl locks there ever conflict.

    An action may open these for writing, and a write lock of one would be refused to others. Now it is
    refused to all. The locks last as long as the descriptors that are returned.
    """
    held = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names]
    held.append(os.eventfd(0, os.EFD_CLOEXEC))
    for fd in held:
        fcntl.fcntl(fd, _OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return held


def _status(task: int, name: str) -> str:
    """One line of ``/proc/PID/status``. Raises ProcessLookupError if the process is gone."""
    with open(f"/proc/{task}/status") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return line.partition(":")[2]
    raise ProcessLookupError(errno.ESRCH, f"process {task} has no {name}")
