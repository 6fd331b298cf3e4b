"""An MCP server behind an address (streamable HTTP), with a bound on what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mappa_env.tools.mcp.traffic import Traffic


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], wait_s: float, traffic: Traffic
) -> AsyncIterator[Any]:
    """Connect and yield the streams that the SDK wants. ``wait_s``: seconds to connect, and between bytes."""
    client = httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(wait_s),
        transport=_Counting(traffic),
    )
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams


class _Counting(httpx2.AsyncHTTPTransport):
    """Counts the bytes of bodies as they arrive, before anything unpacks them."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.headers.pop("content-encoding", None)  # we asked for none: an archive could be a bomb
        response.stream = _Counted(response.stream, self._traffic)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._traffic.add(len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
