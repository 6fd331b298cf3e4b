"""One action as the host sees it: hand it over, drain its output, hear how it ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local.cgroup import Leaf
from mappa_env.sandbox.local.inside import wire
from mappa_env.sandbox.local.link import Link
from mappa_env.sandbox.output import Capture
from mappa_env.types import RunStatus

GRACE_S = 0.2
"""How long the host waits for the end of a pipe after the action's death."""
_LOST_S = 60.0
"""How long after its wall limit an action may go unanswered before its zygote is given up."""
_CHUNK = 65536


class Lost(Exception):
    """The zygote died, or does not answer. ``begun``: the action has run, if only for a moment."""

    def __init__(self, begun: bool) -> None:
        super().__init__(begun)
        self.begun = begun


class Unborn(Exception):
    """The child died before the action began: not by a limit, and not by its own doing."""


class Exchange:
    """``out`` and ``err`` hold the output; ``struck`` is the limit that the host itself saw exceeded."""

    def __init__(self, limits: Limits, look: Callable[[], RunStatus | None], look_s: float) -> None:
        """``look`` is called every ``look_s`` seconds; the action ends when it names a limit."""
        self.out = Capture(limits.output_kb * 1024)
        self.err = Capture(limits.output_kb * 1024)
        self.struck: RunStatus | None = None
        self._limits = limits
        self._look = look
        self._look_s = look_s
        self._end: dict[str, Any] | None = None

    def run(
        self, link: Link, request: dict[str, Any], code: str, leaf: Leaf | None, started: Callable[[], None]
    ) -> dict[str, Any]:
        """Returns the zygote's report. ``started`` is called once the action has had time to get going.

        Raises Lost, Unborn, and OSError when the host is out of descriptors or memory.
        """
        opened: list[int] = []
        try:
            given = _memory_file(code, opened)
            (out, out_end), (err, err_end) = _pipe(opened), _pipe(opened)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                passed = [given, out_end, err_end]
                if leaf is not None:
                    passed.append(leaf.entrance())
                    opened.append(passed[-1])
                request["entrance"] = leaf is not None
                sent = link.send(request, [theirs.fileno(), *passed])
                for fd in passed:
                    opened.remove(fd)
                    os.close(fd)
                theirs.close()
                if not sent:
                    raise Lost(begun=False)
                ours.settimeout(_LOST_S)
                return self._follow(ours, out, err, started)
        finally:
            for fd in opened:
                os.close(fd)

    def _follow(
        self, reply: socket.socket, out: int, err: int, started: Callable[[], None]
    ) -> dict[str, Any]:
        begun = False
        report: dict[str, Any] | None = None
        failed = ""
        now = time.monotonic()
        deadline, look = now + self._limits.wall_s + _LOST_S, now + self._look_s
        with selectors.PollSelector() as selector:
            selector.register(reply, selectors.EVENT_READ)
            for fd, capture in ((out, self.out), (err, self.err)):
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ, capture)
            while report is None:
                now = time.monotonic()
                if now >= deadline:
                    raise Lost(begun)
                if now >= look:
                    started()
                    look = now + self._look_s
                    self._strike(reply, self._look())
                for key, _ in selector.select(min(deadline, look) - now):
                    if key.data is not None:
                        _drain(selector, key)
                        continue
                    try:
                        message, _ = wire.receive(reply)
                    except (EOFError, OSError):
                        raise Lost(begun) from None
                    begun = begun or "begun" in message
                    failed = failed or message.get("failed", "")
                    report = (
                        message if "code" in message or ("failed" in message and not _more(reply)) else None
                    )
                if max(self.out.total, self.err.total) > self._limits.output_cap_mb << 20:
                    self._strike(reply, "output_limit")
            started()
            end = time.monotonic() + GRACE_S
            selector.unregister(reply)
            while selector.get_map() and (left := end - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    _drain(selector, key)
        if not (begun or failed or report["struck"]):
            raise Unborn
        return {**report, "failed": failed}

    def _strike(self, reply: socket.socket, status: RunStatus | None) -> None:
        if status is not None and self.struck is None:
            self.struck = status
            with contextlib.suppress(OSError):  # it is ending already: its last message, or its end, is next
                reply.send(b"end")


def _more(reply: socket.socket) -> bool:
    """Whether another message will come: false once the other side has closed its end."""
    return bool(reply.recv(1, socket.MSG_PEEK))


def _drain(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    try:
        data = os.read(key.fd, _CHUNK)
    except BlockingIOError:
        return
    if data:
        key.data.feed(data)
    else:
        selector.unregister(key.fd)


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    opened += ends
    return ends


def _memory_file(code: str, opened: list[int]) -> int:
    """The code as a descriptor: never on a disk or a command line that others see."""
    file = os.memfd_create("action")
    opened.append(file)
    view = memoryview(code.encode("utf-8", "replace"))
    while view:
        view = view[os.write(file, view) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
