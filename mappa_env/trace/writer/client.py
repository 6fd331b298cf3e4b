"""The one process that writes for all stores of this one, and what these tell it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mappa_env.errors import DataError
from mappa_env.trace.jsonlines import to_json
from mappa_env.trace.writer.messages import (
    Close,
    Done,
    Failed,
    Open,
    Settle,
    answer,
    encoded,
    episode,
)
from mappa_env.trace.writer.parts import Receiver, Sender
from mappa_env.types import Trajectory

_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; from mappa_env.trace.writer.main import run; "
    "run(int(sys.argv[1]))"
)
"""With the paths of this process, so that it imports the same package."""


_BUFFER = 1 << 20
"""Bytes that may wait in the socket, as far as the system allows: what is lost with both processes."""


class WriterError(OSError):
    """The process that writes has ended by itself, or was killed."""


class TraceWarning(UserWarning):
    """Episodes were lost, and nobody closed their store, which would have said so."""


class Writer:
    """A process that writes. It ends, when all is written, with the last reference to this. Thread-safe."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _BOOT, str(theirs.fileno()), *sys.path],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C in a terminal is for this process
                )
            except BaseException:
                ours.close()
                raise
        self._process = process
        self._sender, self._receiver = Sender(ours), Receiver(ours)
        ours.settimeout(None)  # whatever the program's default is
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._lock = threading.Lock()
        self._asks = self._stores = 0
        self._failures: dict[int, list[Failed]] = {}
        self.ended = False
        """Whether its process has, so that it is of no more use."""
        weakref.finalize(self, _finish, process, os.getpid(), ours, self._receiver, self._failures)

    def open(
        self,
        path: Path,
        card: Mapping[str, Any] | None,
        about: Mapping[str, Any] | None,
        packs: bool | None,
    ) -> int:
        """Begin a store; returns its number. Raises OSError, DataError as ``Appender.open``."""
        environment = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
        with self._lock:
            store = self._stores = self._stores + 1
            where = os.fsencode(path.absolute())
            texts = to_json(card), to_json(about)
            self._ask(Open(self._number(), store, where, *texts, packs, environment))
            self._raise(store)
        return store

    def append(self, store: int, trajectory: Trajectory) -> None:
        """Hand over an episode. Raises OSError, DataError for one that was handed over earlier."""
        message = encoded(episode(store, trajectory))
        with self._lock:
            self._send(message)
            self._hear(wait=False)
            self._raise(store)

    def close(self, store: int) -> None:
        """Wait until a store's episodes are in its file, and close it. Raises as ``append``."""
        with self._lock:
            self._ask(Close(self._number(), store))
            self._raise(store)

    def settle(self, store: int | None = None) -> None:
        """Wait until all episodes are in their files. Raises as ``append`` for those of ``store``."""
        with self._lock:
            self._ask(Settle(self._number()))
            if store is not None:
                self._raise(store)

    def _number(self) -> int:
        self._asks += 1
        return self._asks

    def _ask(self, message: Open | Close | Settle) -> None:
        self._send(encoded(message))
        while self._hear(wait=True) != message.ask:
            pass  # the answer to somebody who was interrupted

    def _send(self, message: bytes) -> None:
        try:
            self._sender.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._dead() from None

    def _hear(self, *, wait: bool) -> int:
        """Take in answers, up to the next ``Done``, whose number is returned; 0: there are no more now."""
        while (data := self._receiver.next(wait=wait)) is not None:
            said = answer(data)
            if isinstance(said, Done):
                return said.ask
            self._failures.setdefault(said.store, []).append(said)
        if wait:
            raise self._dead()
        return 0

    def _raise(self, store: int) -> None:
        failures = self._failures.pop(store, None)
        if failures is None:
            return
        first = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        if first.code is None:
            raise DataError(first.reason + more)
        raise OSError(first.code, first.reason + more)

    def _dead(self) -> WriterError:
        self.ended = True
        code = self._process.wait()
        return WriterError(
            f"The process that writes traces has ended (exit status {code}), and the episodes that it still "
            "had are lost. The next episode starts another one."
        )


def _finish(
    process: subprocess.Popen[bytes],
    owner: int,
    link: socket.socket,
    receiver: Receiver,
    failures: Mapping[int, list[Failed]],
) -> None:
    """The last of what a writer was told is done when this returns. A fork has only the socket to close."""
    if os.getpid() != owner:
        process.returncode = 0  # it is another's child: nothing to warn of
        link.close()
        return
    link.shutdown(socket.SHUT_WR)
    lost = [failed.reason for found in failures.values() for failed in found]
    while (data := receiver.next()) is not None:
        if isinstance(said := answer(data), Failed):
            lost.append(said.reason)
    link.close()
    if process.returncode is None and process.wait():  # else somebody has been told
        lost.append(f"the process that writes traces ended with exit status {process.returncode}")
    if lost:
        warnings.warn(f"{len(lost)} recorded episodes are lost: {lost[0]}", TraceWarning, stacklevel=2)


class _Shared:
    """The writer of this process: many environments need only one."""

    def __init__(self) -> None:
        self._process, self._lock = 0, threading.Lock()
        self._writer: weakref.ref[Writer] | None = None

    def get(self) -> Writer:
        """The writer, which lives as long as somebody holds it."""
        self._after_fork()
        with self._lock:
            found = self.running
            if found is None:
                found = Writer()
                self._writer = weakref.ref(found)
            return found

    @property
    def running(self) -> Writer | None:
        """The writer if there is one."""
        self._after_fork()
        found = None if self._writer is None else self._writer()
        return None if found is None or found.ended else found

    def _after_fork(self) -> None:
        """A fork has a writer of its own, and perhaps a lock that another thread held."""
        if self._process != os.getpid():
            self._process, self._lock, self._writer = os.getpid(), threading.Lock(), None


SHARED = _Shared()
"""What the stores of this process write with."""


def settle() -> None:
    """Wait until all that this process has recorded is in its files."""
    writer = SHARED.running
    if writer is not None:
        with suppress(WriterError):  # the stores that lost something say so
            writer.settle()
