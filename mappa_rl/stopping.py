"""Ctrl-C and SIGTERM: a run stops where it can be resumed without loss."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType

PATIENCE_S = 15.0
"""Seconds that what must not be cut short may take after a signal. Schedulers often kill after 30."""
LIMIT_S = 28.0
"""Seconds after which a command ends although calls, or the writing of a checkpoint, are still under way."""
COPIES_S = 2.0
"""A signal so soon after the first is a copy: schedulers signal every process, launchers pass theirs on."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end."""


def signal_of(stop: KeyboardInterrupt) -> signal.Signals:
    """The signal that ``stop`` was raised for."""
    return signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT


def exit_status(number: int) -> int:
    """The exit status of a command that a signal ended, as shells give it: 130 or 143."""
    return 128 + number


class Stopping:
    """Inside a ``with`` block SIGINT raises KeyboardInterrupt and SIGTERM raises Terminated.

    Between ``hold`` and ``release`` a signal is kept back until ``release``, but at most ``patience_s``
    seconds; a second signal is not kept back, unless it follows the first within ``copies_s``. With
    ``limit_s`` the block ends the process so many seconds after the first signal, whatever its threads are
    waiting for. Signals that are ignored stay ignored. Outside of the main thread, where Python delivers no
    signals, nothing changes.
    """

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        limit_s: float | None = None,
        copies_s: float = COPIES_S,
    ) -> None:
        self._patience_s, self._limit_s, self._copies_s = patience_s, limit_s, copies_s
        self._first_at: float | None = None
        self._guard: threading.Timer | None = None
        self._is_patient = False
        self._held = False
        self._heard: int | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Stopping:
        main, left = threading.current_thread() is threading.main_thread(), (signal.SIG_IGN, None)
        ours = [number for number in SIGNALS if main and signal.getsignal(number) not in left]
        self._before = {number: signal.signal(number, self._hear) for number in ours}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()
        if self._guard is not None:
            self._guard.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self, *, patient: bool = False) -> None:
        """Keep signals back from here on. ``patient``: for as long as it takes."""
        self._held, self._is_patient = True, patient

    def release(self) -> None:
        """Deliver signals again, and the one that was kept back. Raises KeyboardInterrupt or Terminated."""
        self._held = False
        if self._heard is not None:
            self._raise(self._heard)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_at is not None and now - self._first_at < self._copies_s:
            return
        if self._first_at is None:
            self._first_at = now
            if self._limit_s is not None:
                self._guard = _timer(self._limit_s, _end, number)
        if not self._held or self._heard is not None:
            self._raise(number)
        self._heard = number
        if not self._is_patient:
            self._timer = _timer(self._patience_s, self._lose_patience, number)

    def _lose_patience(self, number: int) -> None:
        self._copies_s = 0.0  # what follows is no copy
        os.kill(os.getpid(), number)

    def _raise(self, number: int) -> None:
        self._held = False
        self._forget()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _forget(self) -> None:
        self._heard = None
        if self._timer is not None:
            self._timer.cancel()


def _timer(seconds: float, function: Callable[[int], None], number: int) -> threading.Timer:
    timer = threading.Timer(seconds, function, (number,))
    timer.daemon = True
    timer.start()
    return timer


def _end(number: int) -> None:
    print(
        "mappa-rl: ended although calls, or a checkpoint that was being written, were under way; the "
        "checkpoints before are complete.",
        file=sys.stderr,
    )
    sys.stderr.flush()
    os._exit(exit_status(number))
