"""A connection to an MCP server for callers without an event loop: it runs one in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp.types as types
from mcp import Client, MCPError

from mappa_env.tools.mcp.traffic import Traffic

MOST_FUNCTIONS = 128
"""Functions of a server that are looked at."""
_THREAD = "mappa-mcp"
_LOGGERS = (
    "client",
    "httpx2",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.client.caching",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.dispatcher",
    "mcp.shared.tool_name_validation",
)
_CLOSE_S = 5.0
_PING_S = 5.0
_NO_SESSION = "Session terminated"
"""The SDK's words when a server behind an address has started again since."""

Streams = Callable[[Traffic], AbstractAsyncContextManager[Any]]


class Lost(Exception):
    """The connection ended. ``cause``: its first exception, None if the server just left."""

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__("the connection ended")
        self.cause = cause


class Connection:
    """One connection. Once it is lost it stays lost; make another one."""

    def __init__(self, streams: Streams, cap: int) -> None:
        """``streams`` connects to the server; ``cap``: the most bytes of its greeting and list."""
        self._traffic = Traffic(cap)
        self._streams = streams
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._ready: Future[list[types.Tool]] = Future()
        self._cause: BaseException | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)

    @property
    def flooded(self) -> bool:
        """Whether the server said more than it may."""
        return self._traffic.flooded

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return not self._thread.is_alive() or self._client is None

    def start(self, wait_s: float) -> list[types.Tool]:
        """Connect, and return the server's functions. Raises Lost, TimeoutError, and what the SDK raises."""
        _quiet()
        self._thread.start()
        try:
            return self._ready.result(wait_s)
        except TimeoutError:
            self.close()
            raise TimeoutError from None

    def call(self, name: str, arguments: Mapping[str, Any], wait_s: float, cap: int) -> types.CallToolResult:
        """Call a function. Raises Lost, TimeoutError, MCPError, and ValueError for what is no result."""
        self._traffic.reset(cap)
        work = self._call(name, dict(arguments))
        try:
            assert self._loop is not None, "call start() before call()"
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise Lost(self._cause) from None
        try:
            return asked.result(wait_s)
        except CancelledError:
            raise Lost(self._cause) from None
        except TimeoutError:
            asked.cancel()
            raise TimeoutError from None

    def close(self) -> None:
        """End the connection, and a server that this process started. May be called twice."""
        if self._thread.is_alive() and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._over.set)
            except RuntimeError:
                return  # it has just ended by itself
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._live())

    async def _live(self) -> None:
        """Connect, list, and stay until ``close`` or the connection ends."""
        over = asyncio.ensure_future(self._over.wait())
        work = asyncio.ensure_future(self._serve())
        await asyncio.wait({over, work}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        work.cancel()
        await asyncio.wait({work})
        self._client = None
        error = None if work.cancelled() else work.exception()
        self._cause = error and _first(error)
        if not self._ready.done():
            self._ready.set_exception(self._cause or Lost())

    async def _serve(self) -> None:
        async with Client(self._streams(self._traffic), cache=None) as client:
            found: list[types.Tool] = []
            page = await client.list_tools()
            found += page.tools
            while page.next_cursor and len(found) < MOST_FUNCTIONS:
                page = await client.list_tools(cursor=page.next_cursor)
                found += page.tools
            self._client = client
            self._ready.set_result(found[:MOST_FUNCTIONS])
            await asyncio.Event().wait()

    async def _call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """The bare request: the SDK's ``call_tool`` also runs the server's own schema over the answer."""
        client = self._client
        if client is None:
            raise Lost(self._cause)
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        try:
            return await client.session.send_request(request, types.CallToolResult)
        except MCPError as error:
            if _means_lost(error) and not await self._alive(client):
                raise Lost(self._cause) from None
            raise

    async def _alive(self, client: Client) -> bool:
        """Whether the server still answers, if only with an error of its own."""
        try:
            await asyncio.wait_for(client.session.send_ping(), _PING_S)
        except MCPError as error:
            return not _means_lost(error)
        except Exception:  # noqa: BLE001  (whatever a broken stream raises)
            return False
        return True


def _means_lost(error: MCPError) -> bool:
    """Whether the SDK says so when a connection ends; a server may say the same of an ordinary failure."""
    return error.code == types.CONNECTION_CLOSED or error.message == _NO_SESSION


def _first(error: BaseException) -> BaseException:
    """The first exception of a group: task groups put everything into groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _quiet() -> None:
    """Keep the SDK's records of these threads out of logs: they quote what a server said, and headers."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _outside not in logger.filters:
            logger.addFilter(_outside)


def _outside(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD
