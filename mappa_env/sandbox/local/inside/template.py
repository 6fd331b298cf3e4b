"""The interpreter that has loaded the libraries. It forks zygotes in milliseconds."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from . import (
    confine,
    hiding,
    installation,
    kernel,
    landlock,
    root,
    runtime,
    seccomp,
    store,
    supervisor,
    wire,
    zygote,
)
from .confine import Level


class Template:
    """Answers the host's requests until the host closes ``control``."""

    def __init__(self, control: socket.socket, level: Level, config: dict[str, Any]) -> None:
        abi = landlock.version()
        folders = runtime.folders()
        user = config["user"]
        if user is not None and not (_is_mapped(user) if level == "full" else _readable_by(user, folders)):
            user = None
        self.user: int | None = user
        seen = root.visible(folders)
        if level != "full":  # rules hold for a folder, whatever its name
            seen = sorted({os.path.realpath(path) for path in seen})
        own = config.pop("own")  # nor may an action find it in the frames that lead to its own
        unseen = hiding.hidden(seen, own)
        installation.forget(unseen, own)
        self._locks = supervisor.hold(tuple(f"/dev/{name}" for name in runtime.DEVICES))
        clean, self.unnamed = -1, False
        """``unnamed``: whether actions lack even the names of this project's files."""
        if level == "full":
            clean, self.unnamed = root.build(folders, unseen, config["host"], confine.INSIDE)
        readable, shared = ([], None) if level == "full" else _rules(seen, unseen, config["host"])
        self._control = control
        self._zygotes: dict[int, int] = {}  # pidfd -> pid
        self._poll = select.poll()
        if level != "full":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        gc.collect()
        gc.freeze()
        if (threads := len(os.listdir("/proc/self/task"))) != 1:
            raise RuntimeError(f"the libraries started {threads - 1} threads, which would not survive a fork")
        with open("/proc/self/statm") as file:
            space = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        self._plan = confine.Plan(
            level, folders, readable, shared, user, clean, seccomp.build(level, abi=abi, listener=True), space
        )

    def serve(self) -> NoReturn:
        """Answer requests and reap dead zygotes until the host closes its end."""
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
        """Kill zygote ``pid`` and its actions; answer when all of them are dead."""
        for handle, each in list(self._zygotes.items()):
            if each == pid:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                self._bury(handle)
        self._end_orphans()
        return {}, []

    def _bury(self, handle: int) -> None:
        """Reap a zygote and kill its remaining actions, which are now our children."""
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
        """Kill everything and exit: the host is gone."""
        for handle in list(self._zygotes):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            self._bury(handle)
        os._exit(0)


def _rules(
    seen: list[str], unseen: list[str], host: str
) -> tuple[list[tuple[str, bool]], landlock.Ruleset | None]:
    """What an action's own rules let it read, and the shared rules that close ``unseen``.

    The shared rules must allow all of ``host``, where workspaces will lie: if it contains something to hide,
    each action's own rules have to do it.
    """
    fine = list(hiding.around(seen, unseen))
    if any(path.startswith(f"{os.path.realpath(host)}/") for path in unseen):
        return fine, None
    shared = landlock.Ruleset()
    confine.allow_reading(shared, fine)
    shared.allow(host, landlock.WRITE)
    for folder in ("/proc", "/dev"):
        shared.allow(folder, landlock.FILE)
    return [(path, True) for path in seen], shared


def _is_mapped(user: int) -> bool:
    """Whether our user namespace maps ``user``; false in a container that maps only root."""
    with open("/proc/self/uid_map") as file:
        ranges = [list(map(int, line.split())) for line in file]
    return any(first <= user < first + count for first, _, count in ranges)


def _readable_by(user: int, folders: list[str]) -> bool:
    """Whether ``user`` can read this interpreter; tried in a child."""
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
