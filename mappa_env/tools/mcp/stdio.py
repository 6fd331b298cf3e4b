"""An MCP server as a process: messages on its standard streams, with a bound on what it says.

The SDK has a transport of its own, but that one inherits some of the host's environment, copies the server's
standard error to the host's, and holds any line in memory, however long it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mappa_env.tools.mcp.traffic import Flooded, Traffic

_CHUNK = 1 << 16
_GRACE_S = 1.0
"""Seconds between closing a server's input, asking it to end and killing it."""


@asynccontextmanager
async def process_streams(
    command: Sequence[str], env: Mapping[str, str], cwd: str, traffic: Traffic
) -> AsyncIterator[Any]:
    """Start a server and yield the streams that the SDK wants. Its standard error is thrown away.

    At the end its input is closed, and soon its whole process group is killed. Raises OSError if the program
    cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    heard, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, said = anyio.create_memory_object_stream[Any](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, process, heard, traffic)
            tasks.start_soon(_speak, process, said, heard)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (heard, incoming, outgoing, said):
            stream.close()


async def _listen(process: asyncio.subprocess.Process, heard: Any, traffic: Traffic) -> None:
    """Hand on one message a line. What is no message is left out: a server may print anything."""
    assert process.stdout is not None
    rest = bytearray()
    async with heard:
        while chunk := await process.stdout.read(_CHUNK):
            try:
                traffic.add(len(chunk))
            except Flooded:
                _signal(process, signal.SIGKILL)
                return
            rest += chunk
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue
                try:
                    await heard.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


async def _speak(process: asyncio.subprocess.Process, said: Any, heard: Any) -> None:
    assert process.stdin is not None
    try:
        async for sent in said:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except OSError:
        await heard.aclose()  # the server is gone: its caller must not wait


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _ended(process):
            break
        _signal(process, number)
    _signal(process, signal.SIGKILL)  # for what it left behind
    await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> bool:
    """Whether it ends in time."""
    try:
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
    except TimeoutError:
        return False
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the server's process group, which has its number (it began a session)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
