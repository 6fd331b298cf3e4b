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


class Sender:
    """Sends messages through ``link``, a socket of type SOCK_SEQPACKET."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._number = link, 0

    def send(self, message: bytes) -> None:
        """Send a message; waits while the other side is busy. Raises OSError.

        One that an exception interrupts, such as KeyboardInterrupt, is dropped by the other side.
        """
        self._number = (self._number + 1) % (1 << 32)
        if len(message) <= PART:
            self._link.send(_HEAD.pack(self._number, True) + message)
            return
        for start in range(0, len(message), PART):
            last = start + PART >= len(message)
            self._link.send(_HEAD.pack(self._number, last) + message[start : start + PART])


class Receiver:
    """Receives messages from ``link``, a socket of type SOCK_SEQPACKET.

    Between messages it naps rather than wait: to wake a process that waits costs the sender more than all
    else that it does. After a while without messages it waits.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link, self._number = link, 0
        self._parts: list[bytes] = []

    def next(self, *, wait: bool = True) -> bytes | None:
        """The next message; None at the end, and, unless ``wait``, if there is none yet."""
        idle = time.monotonic()
        while True:
            try:
                part = self._link.recv(PART + _HEAD.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not wait:
                    return None
                if time.monotonic() - idle < _AWAKE_S:
                    time.sleep(_NAP_S)
                    continue
                part = self._link.recv(PART + _HEAD.size)
            except ConnectionResetError:  # it ended with an answer unread; what it sent is still to come
                continue
            if not part:
                return None
            number, last = _HEAD.unpack_from(part)
            if number != self._number:
                self._number, self._parts = number, []
            self._parts.append(part[_HEAD.size :])
            if last:
                message, self._parts = b"".join(self._parts), []
                return message
