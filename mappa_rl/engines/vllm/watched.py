"""Calls to vLLM that end when its process dies: vLLM's own would wait for the answer for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

POLL_S = 0.25
"""Seconds between two looks at an engine that has not answered."""

_T = TypeVar("_T")


async def unless_dead(llm: Any, call: Awaitable[_T]) -> _T:
    """What ``call`` to the engine ``llm`` returns. Raises ``llm.dead_error`` if the engine dies meanwhile."""
    calling = asyncio.ensure_future(call)
    try:
        while not calling.done():
            await asyncio.wait({calling}, timeout=POLL_S)
            if not calling.done() and llm.errored:
                raise llm.dead_error
    finally:
        calling.cancel()  # does nothing to what is done
    return calling.result()
