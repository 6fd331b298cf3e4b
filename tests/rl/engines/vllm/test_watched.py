"""A call to vLLM ends when its process dies, although vLLM would leave it waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mappa_rl.engines.vllm.watched import unless_dead


class DeadError(Exception):
    pass


class Engine:
    """A FAKE of what is read of vLLM's engine."""

    errored = False
    dead_error = DeadError("dead")


def test_a_call_returns_and_raises_what_it_does() -> None:
    async def fails() -> None:
        raise ValueError("mine")

    async def works() -> int:
        await asyncio.sleep(0.3)
        return 7

    assert asyncio.run(unless_dead(Engine(), works())) == 7
    with pytest.raises(ValueError, match="mine"):
        asyncio.run(unless_dead(Engine(), fails()))


def test_a_call_that_nobody_will_answer_ends_with_the_engine() -> None:
    engine: Any = Engine()
    cancelled = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def dies() -> None:
        asyncio.get_running_loop().call_later(0.1, setattr, engine, "errored", True)
        await unless_dead(engine, waits())

    with pytest.raises(DeadError):
        asyncio.run(asyncio.wait_for(dies(), 10))
    assert cancelled == [True]
