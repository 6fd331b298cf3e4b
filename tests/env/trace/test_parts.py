"""Messages between the process that records and the one that writes: whole, and none of them torn."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from mappa_env.trace.writer.parts import PART, Receiver, Sender


def test_what_was_sent_arrives_although_the_sender_died_with_answers_unread() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        receiver = Receiver(theirs)
        Sender(theirs).send(b"unread")
        got: list[bytes | None] = []
        thread = threading.Thread(target=lambda: got.extend([receiver.next(), receiver.next()]))
        thread.start()
        time.sleep(0.3)  # it waits, and no longer naps
        Sender(ours).send(b"x")
        ours.close()
        thread.join(20)
    assert got == [b"x", None]
    assert receiver.ended


def test_a_message_within_a_message_arrives_first() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    class Nested:
        count = 0

        def send(self, data: bytes) -> int:
            self.count += 1
            if self.count == 2:  # as the handler of a signal may
                sender.send(b"y")
            return ours.send(data)

    with ours, theirs:
        sender, receiver = Sender(Nested()), Receiver(theirs)  # type: ignore[arg-type]
        sender.send(b"x" * 3 * PART)
        assert [receiver.next(), receiver.next()] == [b"y", b"x" * 3 * PART]


def test_an_interrupted_message_is_dropped() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    class Interrupted:
        count = 0

        def send(self, data: bytes) -> int:
            self.count += 1
            if self.count == 3:
                raise KeyboardInterrupt
            return ours.send(data)

    with ours, theirs:
        sender, receiver = Sender(Interrupted()), Receiver(theirs)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            sender.send(b"x" * 3 * PART)
        sender.send(b"y" * 2 * PART)
        assert receiver.next() == b"y" * 2 * PART
        assert receiver.next(0.0) is None
