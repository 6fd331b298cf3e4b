"""Calls of an environment, which block, beside an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """What ``work`` returns or raises, from a thread of its own.

    A daemon: threads of asyncio's or anyio's pools would keep the process alive until an agent's code ends.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(how: Callable[[], None]) -> None:
        if not future.cancelled():
            how()

    def run() -> None:
        try:
            how = partial(future.set_result, work())
        except BaseException as error:  # noqa: BLE001  (raised where the call is awaited)
            how = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(settle, how)

    threading.Thread(target=run, daemon=True).start()
    return await future
