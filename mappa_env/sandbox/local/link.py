"""The host's connection to one zygote."""

from __future__ import annotations

import socket
from typing import Any

from mappa_env.sandbox.local.inside import wire


class Link:
    """Sends requests to a zygote. Thread-safe: each request is one packet with its own reply socket."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        """The zygote's pid in the template's pid namespace."""
        self.served = 0
        self.busy = 0
        self.usable = True
        self._socket = socket.socket(fileno=fd)

    def send(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Send a request; returns False if the zygote is dead."""
        try:
            wire.send(self._socket, request, fds)
        except (BrokenPipeError, ConnectionResetError, ConnectionRefusedError):
            return False
        return True

    def close(self) -> None:
        """Close the connection; the zygote ends after its last action."""
        self.usable = False
        self._socket.close()
