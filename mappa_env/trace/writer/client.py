"""The one process that writes for all stores of this one, and what these say to it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
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
    LAST,
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

_BOOT = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)  # they are for the process that records
import importlib.util
file, *paths = sys.argv[1:]
sys.path += paths
spec = importlib.util.spec_from_file_location("mappa_env", file)
package = sys.modules["mappa_env"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from mappa_env.trace.writer.main import run
run(0)
"""
"""With this very package, and without the modules of a notebook's folder that hide others."""
_PACKAGE = str(Path(__file__).parents[2] / "__init__.py")
_BUFFER = 1 << 20
"""Bytes that may wait in the socket, as far as the system allows; Linux takes twice as many."""
_LISTEN_S = 0.1


def _module_paths() -> list[str]:
    """Where this process finds modules, whatever becomes of its folder."""
    found = []
    for path in sys.path:
        if isinstance(path, str) and path:
            with suppress(OSError):  # its folder is gone already
                found.append(os.path.abspath(path))
    return found


_PATHS = _module_paths()


class WriterError(OSError):
    """The process that writes has ended by itself, was killed, or cannot be started."""


class TraceWarning(UserWarning):
    """Episodes were lost, and nobody closed their store, which would have said so."""


class Writer:
    """A process that writes. It ends, when all is written, with the last reference to this. Thread-safe.

    A signal's handler may use it while it is in use.
    """

    def __init__(self) -> None:
        self._process, self._link = _started()
        self._sender, self._receiver = Sender(self._link), Receiver(self._link)
        self._lock = threading.RLock()
        self._asks = self._answered = self._stores = 0
        self._failures: dict[int, list[Failed]] = {}
        self._unsettled = False
        self.ended = False
        """Whether its process has, so that it is of no more use."""
        ending = self._process, self._link, self._receiver, self._failures
        weakref.finalize(self, _finish, *ending)
        if multiprocessing.parent_process() is not None:  # such a process runs nothing else when it exits
            multiprocessing.util.Finalize(self, _finish, ending, exitpriority=1)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent to it: this process ends, or is a fork of the one that started it."""
        return self._link.fileno() < 0

    def open(self, path: Path, card: Mapping[str, Any] | None, about: Mapping[str, Any] | None) -> int:
        """Begin a store for the absolute ``path``; returns its number. Raises as ``Appender.open``."""
        environment = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
        with self._lock:
            store = self._stores = self._stores + 1
            texts = to_json(card), to_json(about)
            try:
                self._ask(Open(self._number(), store, os.fsencode(path), *texts, environment))
            except BaseException:
                with suppress(OSError):
                    self._sender.send(encoded(Close(0, store)))
                raise
            self._raise(store)
        return store

    def append(self, store: int, trajectory: Trajectory) -> None:
        """Hand over an episode. Raises OSError, DataError for one that was handed over earlier."""
        message = encoded(episode(store, trajectory))
        with self._lock:
            self._unsettled = True
            self._send(message)
            self._hear(0.0)
            self._raise(store)

    def close(self, store: int) -> None:
        """Wait until a store's episodes are in its file, and close it. Raises as ``append``."""
        with self._lock:
            self._ask(Close(self._number(), store))
            self._raise(store)

    def settle(self, store: int | None = None) -> None:
        """Wait until all episodes are in their files. Raises as ``append`` for those of ``store``."""
        with self._lock:
            if self._unsettled:
                self._ask(Settle(self._number()))
                self._unsettled = False
            if store is not None:
                self._raise(store)

    def leave(self) -> None:
        """Have no part in it any more, since a fork has not started it."""
        self._process.returncode = 0  # nothing to warn of
        self._link.close()

    def _number(self) -> int:
        self._asks += 1
        return self._asks

    def _ask(self, message: Open | Close | Settle) -> None:
        self._send(encoded(message))
        while self._answered < message.ask:
            self._hear(_LISTEN_S)  # a signal's handler may have heard the answer

    def _send(self, message: bytes) -> None:
        try:
            self._sender.send(message)
        except OSError:
            raise self._dead() from None

    def _hear(self, seconds: float) -> None:
        """Take in answers that are there, or come in ``seconds``, up to the first ``Done``."""
        while (data := self._receiver.next(seconds)) is not None:
            said = answer(data)
            if isinstance(said, Done):
                self._answered = max(self._answered, said.ask)
                return
            self._failures.setdefault(said.store, []).append(said)
        if self._receiver.ended:
            raise self._dead()

    def _raise(self, store: int) -> None:
        failures = self._failures.pop(store, None)
        if failures is None:
            return
        first = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        if first.code is None:
            raise DataError(first.reason + more)
        if first.code:
            raise OSError(first.code, first.reason + more, first.path or None)
        raise OSError(first.reason + more)

    def _dead(self) -> WriterError:
        self.ended = True
        code = self._process.wait()
        return WriterError(
            f"The process that writes traces has ended (exit status {code}), and the episodes that it still "
            "had are lost. The next episode starts another one."
        )


def _started() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and the socket to it."""
    import fcntl  # not on every system, and readers do not need it

    if not sys.executable:
        raise WriterError("Recording needs a Python interpreter, and sys.executable names none: set it.")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:  # a program that has closed its standard streams must not get it for one
        link = socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 3))
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, _PACKAGE, *_PATHS],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is for this process
            )
        except BaseException:
            link.close()
            raise
    link.settimeout(None)  # whatever the program's default is
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    return process, link


def _finish(
    process: subprocess.Popen[bytes],
    link: socket.socket,
    receiver: Receiver,
    failures: Mapping[int, list[Failed]],
) -> None:
    """The last of what a writer was sent is done when this returns."""
    if link.fileno() < 0:
        return
    reported = process.returncode is not None  # that it has died
    lost = [failed.reason for found in failures.values() for failed in found]
    with suppress(OSError):
        link.shutdown(socket.SHUT_WR)
    while (data := receiver.next()) is not None:
        said = answer(data)
        if isinstance(said, Failed):
            lost.append(said.reason)
        reported = reported or (isinstance(said, Done) and said.ask == LAST)
    link.close()
    process.wait()
    if not reported:
        lost.append(f"the process that writes traces ended with exit status {process.returncode}")
    if lost:
        warnings.warn(f"{len(lost)} recorded episodes are lost: {lost[0]}", TraceWarning, stacklevel=2)


class _Shared:
    """The writer of this process: many environments need only one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._writer: weakref.ref[Writer] | None = None
        self._minds_forks = False

    def get(self) -> Writer:
        """The writer, which lives as long as somebody holds it."""
        with self._lock:
            found = self.running
            if not self._minds_forks:
                os.register_at_fork(after_in_child=self._after_fork)
                self._minds_forks = True
            if found is None:
                found = Writer()
                self._writer = weakref.ref(found)
            return found

    @property
    def running(self) -> Writer | None:
        """The writer if there is one."""
        found = None if self._writer is None else self._writer()
        return None if found is None or found.ended or found.closed else found

    def _after_fork(self) -> None:
        """A fork has a writer of its own, and must not keep its parent's, nor a lock that a thread held."""
        found, self._writer, self._lock = self.running, None, threading.RLock()
        if found is not None:
            found.leave()


SHARED = _Shared()
"""What the stores of this process write with."""


def settle() -> None:
    """Wait until all that this process has recorded is in its files."""
    writer = SHARED.running
    if writer is not None:
        with suppress(WriterError):  # the stores that lost something say so
            writer.settle()
