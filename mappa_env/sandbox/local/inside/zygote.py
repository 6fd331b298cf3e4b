"""A warm interpreter that forks once per action, ends each action in time, and reports how it ended."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from . import action, kernel, pages, wire
from .confine import Plan, confine, prepare, seal
from .members import Members
from .root import HOST
from .store import place

_LOOK_S, _LOOK_LATER_S, _LOOK_LATEST_S = 0.05, 0.2, 0.5
"""Between two looks at an action: in its first second, after it, and at most."""
_RARELY = 10
"""Until then, looking takes at most this part of the time: many processes must not cost the neighbours."""
_MOST_FDS = 4096
_GROWTH = 1.5
"""A zygote that has become this much larger than it was asks to be replaced."""


@dataclass
class Running:
    pid: int
    token: str
    reply: socket.socket
    members: Members
    limits: dict[str, Any]
    began: float
    look: float
    struck: str = ""


def serve(control: socket.socket, plan: Plan) -> NoReturn:
    """Until the host closes ``control`` and the last action has ended."""
    try:
        Zygote(control, plan).serve()
    finally:
        os._exit(0)


@dataclass
class Spare:
    """``token`` marks what the child says of itself as its own; it changes with every child."""

    pid: int
    token: str
    line: socket.socket


class Zygote:
    def __init__(self, control: socket.socket, plan: Plan) -> None:
        self._control = control
        self._plan = plan
        self._poll = select.poll()
        self._running: dict[int, Running] = {}  # by the pidfd and by the descriptor of the reply socket
        self._pidfds: dict[int, int] = {}  # pid -> pidfd
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if plan.level == "full" else -1
        self._spare: Spare | None = None
        self._open = True
        self._parent = os.pidfd_open(os.getppid())
        if plan.level != "full":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        pages.fill_holes()
        gc.freeze()
        pages.collapse()
        self._size = _resident()

    def serve(self) -> None:
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._parent, select.POLLIN)
        while self._open or self._running:
            if self._spare is None and self._open:
                with contextlib.suppress(OSError):  # no process to be had now: the next action tries again
                    self._spare = self._fork()
            for fd, _ in self._poll.poll(self._patience()):
                if fd == self._control.fileno():
                    self._accept()
                elif fd == self._parent:
                    return self._abandon()
                elif one := self._running.get(fd):
                    if fd == one.reply.fileno():  # the host asks for the end, or has gone
                        self._poll.unregister(fd)
                        with contextlib.suppress(OSError):  # it has gone
                            one.reply.recv(wire.MAX_MESSAGE)  # unread, it would cut off our report
                        self._end(one, "host")
                    else:
                        self._finish(fd, one)
            self._watch()

    def _accept(self) -> None:
        """Take one request and hand it to the spare child, unseen: the code stays in its descriptor."""
        try:
            request, fds = wire.receive(self._control)
        except EOFError:
            self._poll.unregister(self._control)
            self._open = False
            if self._spare is not None:
                self._spare.line.close()
            return
        back, *given = fds
        reply = socket.socket(fileno=back)
        tree = -1
        try:
            tree = self._tree(request)
            spare = self._hand_over(request, [*fds, *([tree] if tree >= 0 else [])])
        except OSError as error:
            _tell(reply, {"failed": error.strerror or str(error)})
            reply.close()
            return
        finally:
            for fd in (*given, *([tree] if tree >= 0 else [])):
                os.close(fd)
        now = time.monotonic()
        members = Members(spare.pid, own=self._plan.level == "full")
        one = Running(spare.pid, spare.token, reply, members, request["limits"], now, now + _LOOK_S)
        self._running[reply.fileno()] = self._running[self._pidfds[spare.pid]] = one
        self._poll.register(reply, select.POLLIN)
        self._poll.register(self._pidfds[spare.pid], select.POLLIN)

    def _hand_over(self, request: dict[str, Any], fds: list[int]) -> Spare:
        """Give the action to a child; where the spare one has died, to a new one. Raises OSError."""
        words = ""
        for spare in (self._spare, None):
            self._spare = None
            chosen = spare or self._fork()
            with chosen.line as line:
                try:
                    wire.send(line, request, fds)
                    return chosen
                except OSError:
                    words = _last_words(line)
            os.waitpid(chosen.pid, 0)
            os.close(self._pidfds.pop(chosen.pid))
        raise OSError(words)

    def _abandon(self) -> None:
        """The template is dead, and with it the order of things: end every action, and ourselves."""
        for one in {id(one): one for one in self._running.values()}.values():
            self._kill(one)
            one.members.end()

    def _tree(self, request: dict[str, Any]) -> int:
        """The workspace as a detached mount; -1 where there are no mounts."""
        if self._plan.level != "full":
            return -1
        if "place" in request:
            return kernel.clone_tree(place(request["place"]))
        tree = kernel.clone_tree(f"{HOST}/{request['folder']}", recursive=True)
        kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV)
        return tree

    def _fork(self) -> Spare:
        """A child that waits for its action with everything done that can be done before it."""
        token = os.urandom(4).hex()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if self._plan.level == "full":
            kernel.unshare(kernel.CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                _child(theirs, token, self._plan)
        finally:
            if self._plan.level == "full":
                kernel.setns(self._own, kernel.CLONE_NEWPID)
        theirs.close()
        self._pidfds[pid] = os.pidfd_open(pid)
        return Spare(pid, token, ours)

    def _patience(self) -> float | None:
        """Milliseconds until something is due; None: nothing is."""
        if not self._running:
            return None
        due = min(min(one.look, one.began + one.limits["wall"]) for one in self._running.values())
        return max((due - time.monotonic()) * 1000, 0) + 1

    def _watch(self) -> None:
        now = time.monotonic()
        for one in {id(one): one for one in self._running.values()}.values():
            if one.struck:
                one.look = now + _LOOK_S
                self._kill(one)
            elif now >= one.began + one.limits["wall"]:
                self._end(one, "timeout")
            elif now >= one.look:
                limits = one.limits
                self._end(one, one.members.excess(limits["memory"], limits["cpu"], limits["processes"]))
                took = time.monotonic() - now
                pause = _LOOK_S if now - one.began < 1 else _LOOK_LATER_S
                one.look = now + max(pause, min(_RARELY * took, _LOOK_LATEST_S))

    def _end(self, one: Running, reason: str) -> None:
        if reason and not one.struck:
            one.struck = reason
            one.limits = {**one.limits, "wall": float("inf")}
            self._kill(one)

    def _kill(self, one: Running) -> None:
        if self._plan.level == "full":
            signal.pidfd_send_signal(self._pidfds[one.pid], signal.SIGKILL)
            return
        try:
            os.killpg(one.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not come so far as to lead a group
            signal.pidfd_send_signal(self._pidfds[one.pid], signal.SIGKILL)

    def _finish(self, fd: int, one: Running) -> None:
        """The leader is dead, and with it, or now, every process of the action."""
        wall = time.monotonic() - one.began
        one.members.end()
        with open(f"/proc/{one.pid}/comm", "rb") as file:
            name = file.read().strip()
        _, status, usage = os.wait4(one.pid, 0)
        self._poll.unregister(fd)
        if one.struck != "host":
            self._poll.unregister(one.reply)
        del self._running[fd], self._running[one.reply.fileno()], self._pidfds[one.pid]
        os.close(fd)
        _tell(one.reply, {
            "code": os.waitstatus_to_exitcode(status), "struck": one.struck, "wall": wall,
            "word": action.limit_named(name, one.token),
            "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * 1024,
            "grown": _resident() > _GROWTH * self._size,
        })  # fmt: skip
        one.reply.close()


def _child(line: socket.socket, token: str, plan: Plan) -> NoReturn:
    """In the fork: prepare, wait for the action, confine, run it."""
    reply: int | None = None
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _close_all_but(line.fileno(), plan.clean)
        rules = prepare(plan)
        request, fds = wire.receive(line)
        reply, code, out, err, *more = fds
        if request["entrance"]:
            os.write(more.pop(0), b"0")  # into the control group that the host has made for this action
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for fd, standard in ((null, 0), (out, 1), (err, 2)):
            os.dup2(fd, standard)
        confine(plan, rules, more[0] if more else -1, request)
        with open(code, "rb", closefd=False) as file:
            text = file.read()
        os.write(reply, b'{"begun": true}')  # our last word: an action without it can be run again
        line.detach()
        os.closerange(3, _MOST_FDS)
        seal(plan)
    except EOFError:  # the zygote ends: this spare is not needed
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (told to the host, which must not take it for the action's)
        if reply is not None:
            _tell(
                socket.socket(fileno=reply),
                {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"},
            )
        else:
            _tell(line, {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"})
        os._exit(1)
    action.run(text, request["seed"], request["environment"], token, chmod=plan.level == "full")


def _close_all_but(*kept: int) -> None:
    """Other actions' sockets above all: while we hold one, its other end cannot see that its zygote died."""
    first = 3
    for fd in sorted(fd for fd in kept if fd >= first):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _MOST_FDS)


def _tell(reply: socket.socket, message: dict[str, Any]) -> None:
    try:
        wire.send(reply, message)
    except OSError:  # the host has given the action up: nobody is left to be told
        return


def _last_words(line: socket.socket) -> str:
    """Why a spare child died before it got an action."""
    try:
        return str(wire.receive(line)[0]["failed"])
    except (OSError, EOFError) as error:
        return f"a child died while it was being confined ({error!r})"


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
