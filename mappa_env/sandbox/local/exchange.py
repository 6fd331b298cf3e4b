"""The host's side of one action: hand it over, drain its output, receive its report."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, cast

from mappa_env.errors import SandboxError
from mappa_env.sandbox.action_file import ActionFile
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local.cgroup import Leaf
from mappa_env.sandbox.local.inside import wire
from mappa_env.sandbox.local.link import Link
from mappa_env.sandbox.output import Capture
from mappa_env.types import RunStatus

GRACE_S = 0.2
"""Seconds to wait for the end of a pipe after the action's end."""
_LOST_S = 60.0
"""Seconds after the wall limit without an answer before the zygote is given up."""
_CHUNK = 65536


class Lost(Exception):
    """The zygote died or, if ``silent``, does not answer. ``begun``: the action has started to run."""

    def __init__(self, begun: bool, *, silent: bool = False) -> None:
        super().__init__(begun)
        self.begun = begun
        self.silent = silent


class Unborn(Exception):
    """The child died before the action began, and no limit was exceeded."""


class Exchange:
    """One action's output (``out``, ``err``), the files that it ``opened``, and the limit that the host found
    ``exceeded``."""

    def __init__(self, limits: Limits, look: Callable[[], RunStatus | None], look_s: float) -> None:
        """``look`` is called every ``look_s`` seconds; the action ends when it names a limit."""
        self.out = Capture(limits.output_kb * 1024)
        self.err = Capture(limits.output_kb * 1024)
        self.exceeded: RunStatus | None = None
        self.opened: tuple[str, ...] | None = None
        self._limits = limits
        self._look = look
        self._look_s = look_s
        self._end: dict[str, Any] | None = None

    def run(
        self, link: Link, request: dict[str, Any], code: str, leaf: Leaf | None, started: Callable[[], None]
    ) -> wire.Report:
        """Run the action and return the zygote's report. Calls ``started`` when the action is under way.

        Raises Lost, Unborn, SandboxError if the action could not be confined, and OSError if the host is out
        of descriptors or memory.
        """
        opened: list[int] = []
        with contextlib.ExitStack() as stack:
            stack.callback(_close, opened)
            file = stack.enter_context(ActionFile(code))
            (out, out_end), (err, err_end) = _stream(opened), _stream(opened)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                passed = [out_end, err_end]
                if leaf is not None:
                    passed.append(leaf.entrance())
                    opened.append(passed[-1])
                request["entrance"] = leaf is not None
                sent = link.send(request, [theirs.fileno(), file.fd, *passed])
                for fd in passed:
                    opened.remove(fd)
                    os.close(fd)
                theirs.close()
                if not sent:
                    raise Lost(begun=False)
                ours.settimeout(_LOST_S)
                try:
                    return self._follow(ours, out, err, started)
                finally:
                    self.opened = file.opened()

    def _follow(self, reply: socket.socket, out: int, err: int, started: Callable[[], None]) -> wire.Report:
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
                    raise Lost(begun, silent=True)
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
        if failed:
            raise SandboxError(failed)
        if not (begun or report["exceeded"]):
            raise Unborn
        return cast("wire.Report", report)

    def _strike(self, reply: socket.socket, status: RunStatus | None) -> None:
        if status is not None and self.exceeded is None:
            self.exceeded = status
            with contextlib.suppress(OSError):  # it is already ending; the loop receives its last message
                reply.send(b"end")


def _more(reply: socket.socket) -> bool:
    """Whether another message will come; False once the other side has closed its end."""
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


def _stream(opened: list[int]) -> tuple[int, int]:
    """A way to us: our end and the action's.

    Not a pipe: the action could open that again for reading, through ``/proc``, and take its output back.
    """
    ours, theirs = socket.socketpair()
    ours.shutdown(socket.SHUT_WR)
    ends = ours.detach(), theirs.detach()
    opened += ends
    return ends


def _close(opened: list[int]) -> None:
    for fd in opened:
        os.close(fd)
