"""Bounded capture of a stream: keeps head and tail, and counts the bytes between them."""

from __future__ import annotations


class Capture:
    """Holds at most ``limit`` bytes: half from the head, half from the tail."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def dropped(self) -> int:
        """Number of bytes that are not in ``text()``."""
        return max(self.total - 2 * self._half, 0)

    def text(self) -> str:
        """The kept bytes decoded as UTF-8, with invalid bytes replaced and a mark for dropped ones."""
        tail = bytes(self._tail[-self._half :])
        if not self.dropped:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        mark = f"\n[... {self.dropped} bytes dropped ...]\n"
        return self._head.decode("utf-8", "replace") + mark + tail.decode("utf-8", "replace")
