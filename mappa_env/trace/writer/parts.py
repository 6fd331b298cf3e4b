"""Messages in parts through a socket that keeps the parts whole, so that none is ever torn."""

from __future__ import annotations

import socket
import struct
import time

PART = 1 << 16
"""Bytes of a part: what any socket takes at once."""
_HEAD = struct.Struct("<I?")
"""The number of the message, and whether this is its last part."""
_NAP_S = 0.003
_AWAKE_S = 0.1
_UNFINISHED = 4
"""Messages of which parts may wait for the rest: a signal may interrupt one by another."""


class Sender:
    """Sends messages through ``link``, a socket of type SOCK_SEQPACKET."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._number = link, 0

    def send(self, message: bytes) -> None:
        """Send a message; waits while the other side is busy. Raises OSError.

        What a signal's handler sends meanwhile arrives first. A message that an exception interrupts, such as
        KeyboardInterrupt, is dropped by the other side.
        """
        number = self._number = (self._number + 1) % (1 << 32)
        if len(message) <= PART:
            self._link.send(_HEAD.pack(number, True) + message)
            return
        for start in range(0, len(message), PART):
            last = start + PART >= len(message)
            self._link.send(_HEAD.pack(number, last) + message[start : start + PART])


class Receiver:
    """Receives messages from ``link``, a socket of type SOCK_SEQPACKET.

    Between messages it naps rather than wait: to wake a process that waits costs the sender more than all
    else that it does. After a while without messages it waits.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._parts: dict[int, list[bytes]] = {}
        self.ended = False
        """Whether the other side has, and nothing more is to come."""

    def next(self, seconds: float | None = None) -> bytes | None:
        """The next message; None at the end, and after ``seconds`` without one (None: it waits)."""
        start = time.monotonic()
        flags: int = socket.MSG_DONTWAIT
        while True:
            try:
                part = self._link.recv(PART + _HEAD.size, flags)
            except BlockingIOError:
                idle = time.monotonic() - start
                if seconds is not None and idle >= seconds:
                    return None
                if seconds is None and idle >= _AWAKE_S:
                    flags = 0
                else:
                    time.sleep(_NAP_S)
                continue
            except ConnectionResetError:  # it ended with an answer unread; what it sent is still to come
                continue
            flags = socket.MSG_DONTWAIT
            if not part:
                self.ended = True
                return None
            number, last = _HEAD.unpack_from(part)
            parts = self._parts.setdefault(number, [])
            parts.append(part[_HEAD.size :])
            if last:
                return b"".join(self._parts.pop(number))
            if len(self._parts) > _UNFINISHED:
                del self._parts[next(iter(self._parts))]
