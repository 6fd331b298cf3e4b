"""A warm interpreter that forks once per action, enforces its limits, and reports how it ended."""

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

from . import child, confine, kernel, pages, wire
from .confine import Plan
from .members import Members
from .root import HOST
from .store import place
from .supervisor import Bounds, Supervisor

_LOOK_S, _LOOK_LATER_S, _LOOK_LATEST_S = 0.05, 0.2, 0.5
"""Seconds between checks of an action: in its first second, later, and at most."""
_LOOK_SOONEST_S = 0.002
"""Seconds between checks of an action that could soon exceed its memory limit."""
_TURN_S = 0.0005
"""Seconds that held processes run at least before they are held again."""
_FINE_S = 0.003
"""Pauses so short, near the memory limit, are slept: a poll has whole milliseconds."""
_RARELY = 10
"""The pause after a check is at least this many times as long as the check kept us busy, up to the longest
pause; if the memory limit is near, as long."""
_SLICE_S = 0.0001
"""Seconds of processor time that a zygote asks for at once: the least there is, so that checks come early,
however many processes its actions start."""
_GROWTH = 1.5
"""A zygote that has grown by this factor asks to be replaced."""


@dataclass
class Running:
    """A running action. ``began`` and ``look`` (the next check) are monotonic seconds.

    ``hurried``: the next check comes so soon because of the memory limit.
    """

    pid: int
    line: socket.socket
    reply: socket.socket
    members: Members
    bounds: Bounds
    limits: dict[str, Any]
    began: float
    look: float
    exceeded: str = ""
    supervisor: Supervisor | None = None
    """None until the action's system call filter is installed."""
    hurried: bool = False

    def look_in(self, seconds: float) -> None:
        """Check the action in so many seconds."""
        self.look, self.hurried = time.monotonic() + seconds, seconds <= _FINE_S


def _due(one: Running) -> float:
    """When to look after an action next: monotonic seconds."""
    return min(one.look, one.began + float(one.limits["wall"]))


def serve(control: socket.socket, plan: Plan) -> NoReturn:
    """Serve until the host has closed ``control`` and the last action has ended; then exit."""
    try:
        Zygote(control, plan).serve()
    finally:
        os._exit(0)


@dataclass
class Spare:
    """A prepared child without an action."""

    pid: int
    line: socket.socket


class Zygote:
    """Forks one child per action and keeps one spare child ready for the next."""

    def __init__(self, control: socket.socket, plan: Plan) -> None:
        self._control = control
        self._plan = plan
        self._poll = select.poll()
        self._running: dict[int, Running] = {}  # by its pidfd, reply socket, line and listener
        self._pidfds: dict[int, int] = {}  # pid -> pidfd
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if plan.level == "full" else -1
        self._spare: Spare | None = None
        self._fresh: set[int] = set()  # descriptors registered since the last poll, maybe with used numbers
        self._open = True
        self._parent = os.pidfd_open(os.getppid())
        if plan.level != "full":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        with contextlib.suppress(OSError):  # a container may refuse it; then checks come later
            kernel.take_short_slices(_SLICE_S)
        pages.fill_holes()
        gc.freeze()
        pages.collapse()
        self._size = _resident()

    def serve(self) -> None:
        """Run until the host has closed its end and the last action has ended."""
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._parent, select.POLLIN)
        while self._open or self._running:
            if self._spare is None and self._open:
                with contextlib.suppress(OSError):  # the process limit; the next action tries again
                    self._spare = self._fork()
            self._fresh.clear()
            for fd, event in self._poll.poll(self._pause()):
                if fd in self._fresh:  # the event was its predecessor's
                    continue
                if fd == self._control.fileno():
                    self._accept()
                elif fd == self._parent:
                    return self._abandon()
                elif one := self._running.get(fd):
                    if fd == one.reply.fileno():  # the host asks to end the action, or is gone
                        self._poll.unregister(fd)
                        # Closing the socket with the request unread would discard our report.
                        with contextlib.suppress(OSError):  # the host is gone
                            one.reply.recv(wire.MAX_MESSAGE)
                        self._end(one, "host")
                    elif fd == one.line.fileno():
                        self._listen(one)
                    elif one.supervisor is not None and fd == one.supervisor.fd:
                        self._consult(one.supervisor, event)
                    else:
                        self._finish(fd, one)
            self._watch()

    def _accept(self) -> None:
        """Hand one request to the spare child without reading the code, which stays in its descriptor."""
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
            wire.tell(reply, {"failed": error.strerror or str(error)})
            reply.close()
            return
        finally:
            for fd in (*given, *([tree] if tree >= 0 else [])):
                os.close(fd)
        now = time.monotonic()
        members = Members(spare.pid, request["limits"]["memory"], own=self._plan.level == "full")
        look = now + min(_LOOK_S, members.soonest())
        bounds = confine.bounds(self._plan, request)
        one = Running(spare.pid, spare.line, reply, members, bounds, request["limits"], now, look)
        for fd in (reply.fileno(), spare.line.fileno(), self._pidfds[spare.pid]):
            self._follow(fd, one)

    def _hand_over(self, request: dict[str, Any], fds: list[int]) -> Spare:
        """Give the action to the spare child, or to a new one if that has died. Raises OSError."""
        words = ""
        for spare in (self._spare, None):
            self._spare = None
            chosen = spare or self._fork()
            try:
                wire.send(chosen.line, request, fds)
                return chosen
            except OSError:
                words = _last_words(chosen.line)
            chosen.line.close()
            os.waitpid(chosen.pid, 0)
            os.close(self._pidfds.pop(chosen.pid))
        raise OSError(words)

    def _listen(self, one: Running) -> None:
        """Take over the listener of the action's filter; without one, the child has reported why."""
        self._forget(one.line.fileno())
        with one.line as line:
            try:
                _, (fd,) = wire.receive(line)
            except (EOFError, ConnectionResetError):  # the latter if it was killed before it read the request
                return
        one.supervisor = Supervisor(fd, one.bounds, lambda: one.members.full(one.limits["processes"]))
        self._follow(fd, one)

    def _consult(self, supervisor: Supervisor, event: int) -> None:
        if event & select.POLLIN:
            supervisor.answer()
        else:  # no process is left that could call
            self._poll.unregister(supervisor.fd)

    def _follow(self, fd: int, one: Running) -> None:
        """Watch a descriptor of an action."""
        self._running[fd] = one
        self._fresh.add(fd)
        self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        """Stop watching a descriptor of an action."""
        del self._running[fd]
        with contextlib.suppress(KeyError):  # already
            self._poll.unregister(fd)

    def _abandon(self) -> None:
        """Kill every action: the template is dead."""
        for one in {id(one): one for one in self._running.values()}.values():
            self._kill(one)
            one.members.end()

    def _tree(self, request: dict[str, Any]) -> int:
        """The workspace as a detached mount; -1 at landlock, which has no mounts."""
        if self._plan.level != "full":
            return -1
        if "place" in request:
            return kernel.clone_tree(place(request["place"]))
        tree = kernel.clone_tree(f"{HOST}/{request['folder']}", recursive=True)
        kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV)
        return tree

    def _fork(self) -> Spare:
        """Fork a child, prepared as far as possible, that waits for its action."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if self._plan.level == "full":
            kernel.unshare(kernel.CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                child.run(theirs, self._plan)
        finally:
            if self._plan.level == "full":
                kernel.setns(self._own, kernel.CLONE_NEWPID)
        theirs.close()
        self._pidfds[pid] = os.pidfd_open(pid)
        return Spare(pid, ours)

    def _pause(self) -> float | None:
        """Milliseconds to wait for events: until the next check or deadline, None if there is none."""
        if not self._running:
            return None
        first = min(self._running.values(), key=_due)
        left = max(_due(first) - time.monotonic(), 0)
        if not first.hurried or left > _FINE_S:
            return left * 1000
        time.sleep(left)
        return 0

    def _watch(self) -> None:
        now = time.monotonic()
        for one in {id(one): one for one in self._running.values()}.values():
            if one.exceeded:
                one.look_in(_LOOK_S)
                self._kill(one)
            elif now >= one.began + one.limits["wall"]:
                self._end(one, "timeout")
            elif now >= one.look and one.members.held:
                one.members.resume()
                one.look_in(min(_LOOK_S, max(one.members.soonest(), _TURN_S)))
            elif now >= one.look:
                limits, began = one.limits, time.process_time()
                self._end(one, one.members.excess(limits["cpu"], limits["processes"]))
                took = time.process_time() - began
                pause = _LOOK_S if now - one.began < 1 else _LOOK_LATER_S
                pause = max(pause, min(_RARELY * took, _LOOK_LATEST_S))
                soonest = 0.0 if one.members.held else one.members.soonest()
                one.look_in(min(pause, max(soonest, took, _LOOK_SOONEST_S)))

    def _end(self, one: Running, reason: str) -> None:
        if reason and not one.exceeded:
            one.exceeded = reason
            one.limits = {**one.limits, "wall": float("inf")}
            self._kill(one)

    def _kill(self, one: Running) -> None:
        if self._plan.level == "full":
            signal.pidfd_send_signal(self._pidfds[one.pid], signal.SIGKILL)
            return
        try:
            os.killpg(one.pid, signal.SIGKILL)
        except ProcessLookupError:  # it does not lead a group yet
            signal.pidfd_send_signal(self._pidfds[one.pid], signal.SIGKILL)

    def _finish(self, fd: int, one: Running) -> None:
        """Kill the remaining processes of an action whose leader is dead, and report."""
        wall = time.monotonic() - one.began
        one.members.end()
        _, status, usage = os.wait4(one.pid, 0)
        del self._pidfds[one.pid]
        for each in [each for each, owner in self._running.items() if owner is one]:
            self._forget(each)
        os.close(fd)
        one.line.close()
        if one.supervisor is not None:
            one.supervisor.close()
        report: wire.Report = {
            "code": os.waitstatus_to_exitcode(status),
            "exceeded": one.exceeded,
            "claimed": one.supervisor.claimed if one.supervisor is not None else "",
            "wall": wall,
            "cpu": max(usage.ru_utime + usage.ru_stime, one.members.cpu),
            "rss": max(usage.ru_maxrss * 1024, one.members.peak),
            "grown": _resident() > _GROWTH * self._size,
        }
        wire.tell(one.reply, report)
        one.reply.close()


def _last_words(line: socket.socket) -> str:
    """Why a spare child died before it got an action."""
    try:
        return str(wire.receive(line)[0]["failed"])
    except (OSError, EOFError) as error:
        return f"a child died while it was being confined ({error!r})"


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
