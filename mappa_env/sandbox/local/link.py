"""The host's end of one zygote."""

from __future__ import annotations

import os
import socket
from typing import Any

from mappa_env.sandbox.local.inside import wire


class Link:
    """Used by many threads: a request is one packet, and its answers come on a socket of its own."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        """As the template knows it."""
        self.served = 0
        self.busy = 0
        self.usable = True
        self._socket = socket.socket(fileno=fd)

    def send(self, request: dict[str, Any], fds: list[int]) -> bool:
        """False when the zygote is gone."""
        try:
            wire.send(self._socket, request, fds)
        except (BrokenPipeError, ConnectionResetError, ConnectionRefusedError):
            return False
        return True

    def close(self) -> None:
        """The zygote ends when its last action has ended."""
        self.usable = False
        self._socket.close()


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
