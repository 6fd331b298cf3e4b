"""The host's connection to one zygote."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from mappa_env.sandbox.local.inside import wire

PATIENCE_S = 1.0
"""Seconds that a request may take to be sent to a zygote that is given up."""


class Retired(Exception):
    """Another thread has closed the connection; nothing was sent."""


class Link:
    """Sends requests to a zygote. Thread-safe: each request is one packet with its own reply socket."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        """The zygote's pid in the template's pid namespace."""
        self.served = 0
        self.busy = 0
        self.usable = True
        self._socket = socket.socket(fileno=fd)
        self._sending = threading.Lock()
        """Held while the socket is used: a closed descriptor's number may already be another's."""

    def send(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Send a request; returns False if the zygote is dead. Raises Retired."""
        with self._sending:
            if not self.usable:
                raise Retired
            try:
                wire.send(self._socket, request, fds)
            except (BrokenPipeError, ConnectionResetError, ConnectionRefusedError):
                return False
        return True

    def close(self) -> None:
        """Close the connection; the zygote ends after its last action. May be called twice."""
        with self._sending:
            self.usable = False
            self._socket.close()

    def give_up(self) -> None:
        """Close the connection to a zygote that may not read any more; ends a ``send`` that waits for it."""
        if not self._sending.acquire(timeout=PATIENCE_S):
            with contextlib.suppress(OSError):  # its other end is closed
                self._socket.shutdown(socket.SHUT_RDWR)  # whoever sends holds the lock, so nobody closes it
            self._sending.acquire()
        self._sending.release()
        self.close()
