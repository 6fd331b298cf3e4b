"""The interpreter that has loaded the libraries; zygotes are forked from it in milliseconds."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from . import confine, kernel, landlock, root, runtime, seccomp, store, wire, zygote
from .confine import Level


class Template:
    """Answers the host until it closes ``control``."""

    def __init__(self, control: socket.socket, level: Level, config: dict[str, Any]) -> None:
        abi = landlock.version()
        folders = runtime.folders()
        user = config["user"]
        if user is not None and not (_is_mapped(user) if level == "full" else _readable_by(user, folders)):
            user = None
        self.user: int | None = user
        clean = root.build(folders, config["host"], confine.INSIDE) if level == "full" else -1
        self._control = control
        self._zygotes: dict[int, int] = {}  # pidfd -> pid
        self._poll = select.poll()
        if level != "full":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        gc.collect()
        gc.freeze()
        if (threads := len(os.listdir("/proc/self/task"))) != 1:
            raise RuntimeError(
                f"{threads - 1} threads were started by the libraries; a fork would break them"
            )
        with open("/proc/self/statm") as file:
            space = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        self._plan = confine.Plan(level, folders, user, clean, seccomp.build(level, abi=abi), space)

    def serve(self) -> NoReturn:
        self._poll.register(self._control, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._zygotes:
                    self._bury(fd)
                else:
                    self._answer()

    def _answer(self) -> None:
        try:
            request, _ = wire.receive(self._control)
        except EOFError:
            self._leave()
        try:
            reply, fds = getattr(self, f"_do_{request.pop('do')}")(**request)
        except OSError as error:
            reply, fds = {"failed": str(error)}, []
        wire.send(self._control, reply, fds)
        for fd in fds:
            os.close(fd)

    def _do_zygote(self) -> tuple[dict[str, Any], list[int]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._control.close()
            for fd in self._zygotes:
                os.close(fd)
            zygote.serve(theirs, self._plan)
        theirs.close()
        handle = os.pidfd_open(pid)
        self._zygotes[handle] = pid
        self._poll.register(handle, select.POLLIN)
        return {"pid": pid}, [ours.detach()]

    def _do_open(self, number: int, size: int, inodes: int) -> tuple[dict[str, Any], list[int]]:
        return {}, [store.open_place(number, size, inodes, self.user or 0)]

    def _do_resize(self, number: int, size: int, inodes: int) -> tuple[dict[str, Any], list[int]]:
        store.resize(number, size, inodes)
        return {}, []

    def _do_drop(self, number: int) -> tuple[dict[str, Any], list[int]]:
        store.drop(number)
        return {}, []

    def _do_settle(self, pid: int) -> tuple[dict[str, Any], list[int]]:
        """Answer when zygote ``pid`` and every action it had are dead."""
        for handle, each in list(self._zygotes.items()):
            if each == pid:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                self._bury(handle)
        self._end_orphans()
        return {}, []

    def _bury(self, handle: int) -> None:
        """Reap a zygote and end the actions that it leaves behind, which have come to us."""
        self._poll.unregister(handle)
        os.waitpid(self._zygotes.pop(handle), 0)
        os.close(handle)
        self._end_orphans()

    def _end_orphans(self) -> None:
        known = set(self._zygotes.values())
        while orphans := [pid for pid in _children() if pid not in known]:
            for pid in orphans:
                for kill in (os.killpg, os.kill):
                    try:
                        kill(pid, signal.SIGKILL)
                    except (ProcessLookupError, PermissionError):
                        continue
            for pid in orphans:
                os.waitpid(pid, 0)

    def _leave(self) -> NoReturn:
        """The host has gone: nothing of ours may stay."""
        for handle in list(self._zygotes):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            self._bury(handle)
        os._exit(0)


def _is_mapped(user: int) -> bool:
    """Whether our namespace of users knows ``user``: not where root is root in name only."""
    with open("/proc/self/uid_map") as file:
        ranges = [list(map(int, line.split())) for line in file]
    return any(first <= user < first + count for first, _, count in ranges)


def _readable_by(user: int, folders: list[str]) -> bool:
    """Whether ``user`` could use this interpreter where it lies: tried in a child."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            paths = [*folders, sys.executable, os.__file__]
            os._exit(0 if all(os.access(path, os.R_OK) for path in paths) else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
