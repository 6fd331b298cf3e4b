"""Messages between host, template, zygotes and actions: one JSON object per packet, with descriptors."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

MAX_MESSAGE = 65536
MAX_FDS = 8


class Report(TypedDict):
    """How an action ended, measured by its zygote: the last message about an action."""

    code: int
    """Exit code; negative for a signal."""
    exceeded: str
    """The limit for which the zygote killed the action; ``host`` if the host asked for it; else empty."""
    claimed: str
    """The limit that the action named when it died, as far as the zygote's own facts agree; else empty."""
    wall: float
    """Seconds since the action was handed over."""
    cpu: float
    """Seconds of CPU time."""
    rss: int
    """Peak memory in bytes."""
    grown: bool
    """Whether the zygote has grown so large that it should be replaced."""


def send(sock: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one packet. Raises OSError if the other side is gone."""
    data = json.dumps(message).encode()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a packet and its descriptors (close-on-exec). Raises EOFError if the other side is gone."""
    data, ancillary, flags, _ = sock.recvmsg(
        MAX_MESSAGE, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    if not data:
        raise EOFError
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for fd in fds:
            os.close(fd)
        raise OSError("a message was truncated: it is too long, or too many descriptors are open")
    return json.loads(data), list(fds)


def tell(reply: socket.socket, message: Mapping[str, Any]) -> None:
    """Send one packet to a host that may have given up on the action, which is no error."""
    try:
        send(reply, message)
    except OSError:  # the host has given up on the action
        return
