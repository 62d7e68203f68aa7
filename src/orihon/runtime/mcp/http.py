"""An MCP server at an address: the SDK's streamable HTTP, with a bound on what one answer may weigh."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client.streamable_http import streamable_http_client

from orihon.errors import ToolServerError
from orihon.runtime.mcp.config import McpServerConfig
from orihon.runtime.mcp.stdio import MOST_MESSAGE_BYTES

_CONNECT_SECONDS = 30.0
_EVENTS = "text/event-stream"  # has its own limit, per event, in the SDK


@asynccontextmanager
async def http_transport(config: McpServerConfig) -> AsyncIterator[object]:
    """A transport for the SDK's client."""

    async def bound(response: httpx2.Response) -> None:
        if not response.headers.get("content-type", "").startswith(_EVENTS):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream, config.name)

    client = httpx2.AsyncClient(
        headers=dict(config.headers),
        # Each call has its own time-out; the stream of changes is silent for as long as nothing changes.
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        event_hooks={"response": [bound]},
    )
    async with client, streamable_http_client(config.url, http_client=client) as streams:
        yield streams


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, server: str) -> None:
        self._stream = stream
        self._server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for block in self._stream:
            size += len(block)
            if size > MOST_MESSAGE_BYTES:
                raise ToolServerError("too_long", server=self._server, most=MOST_MESSAGE_BYTES)
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()
