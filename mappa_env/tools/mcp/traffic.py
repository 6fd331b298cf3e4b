"""How much a server says: the bytes that arrive while the host waits for one answer."""

from __future__ import annotations


class Flooded(Exception):
    """A server said more than one answer may have."""


class Traffic:
    """Counts what arrives. ``cap``: the most bytes between two calls of ``reset``."""

    def __init__(self, cap: int) -> None:
        self.cap, self.flooded = cap, False
        self._bytes = 0

    def reset(self, cap: int) -> None:
        """Count from zero."""
        self.cap, self._bytes = cap, 0

    def add(self, count: int) -> None:
        """Count ``count`` bytes more. Raises Flooded, and remembers it."""
        self._bytes += count
        if self._bytes > self.cap:
            self.flooded = True
            raise Flooded
