"""Futures: calls that wait long, on threads that do not keep an interrupted program from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


def failed(error: Exception) -> Future[Any]:
    """A future that raises ``error``."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def in_background(call: Callable[[], _T]) -> Future[_T]:
    """Run ``call`` on a thread of its own."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # the caller of `result` gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
