"""One connection to an MCP server, from its start to its end. Async; nothing of it leaves the loop's thread.

The SDK's client speaks the protocol, either revision: stateless (2026-07-28) where the server knows it, else the
handshake of 2025-11-25 and before. Client and transport live in one task, as the SDK wants it, and are closed there.
A server at an address is reached by the SDK's streamable HTTP, with a bound on what one answer may weigh.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from orihon.errors import ToolServerError
from orihon.runtime.mcp.config import McpServerConfig
from orihon.runtime.mcp.stdio import MOST_MESSAGE_BYTES, StdioTransport
from orihon.runtime.tool import ServerAnswer
from orihon.system import jsonio
from orihon.texts import text

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


IDEMPOTENCY_KEY = "orihon/idempotency-key"
MOST_TOOLS = 1000
_CLOSE_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_LISTEN_AGAIN_SECONDS = 5.0
# What a server that is still there says about one request.
_ABOUT_THE_REQUEST = frozenset({mcp_types.INVALID_PARAMS, mcp_types.METHOD_NOT_FOUND, mcp_types.INTERNAL_ERROR})


class McpConnection:
    """A server that runs, or has run."""

    def __init__(self, config: McpServerConfig) -> None:
        self.config = config
        self._stdio = StdioTransport(config) if config.command else None
        transport: Any = self._stdio or http_transport(config)
        self._client = Client(transport, mode=config.protocol, message_handler=self._on_message, cache=None)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._end = ""  # why the client left
        self._life = asyncio.create_task(self._live())
        self.tools_have_changed = False

    @classmethod
    async def open(cls, config: McpServerConfig, timeout: float) -> McpConnection:
        """Start the server and agree on a protocol."""
        connection = cls(config)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(connection._ready)
        except TimeoutError as error:
            connection.kill()
            await connection.close()
            raise ToolServerError("start_timed_out", server=config.name, seconds=timeout) from error
        except Exception as error:
            detail = connection.last_words() or _root(error)
            await connection.close()
            raise ToolServerError("not_started", server=config.name, detail=detail) from error
        return connection

    async def _live(self) -> None:
        try:
            async with self._client:
                self._ready.set_result(None)
                watching = asyncio.create_task(self._subscribe_to_tools())
                try:
                    await self._wait_for_the_end()
                finally:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises, the server is not there
            self._end = _root(error)
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _wait_for_the_end(self) -> None:
        ends = [asyncio.create_task(self._leave.wait())]
        if self._stdio is not None:
            ends.append(asyncio.create_task(self._stdio.ended.wait()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    @property
    def has_ended(self) -> bool:
        """Will no further call be answered?"""
        return self._life.done() or self._leave.is_set() or (self._stdio is not None and self._stdio.ended.is_set())

    def last_words(self) -> str:
        return self._stdio.last_words() if self._stdio is not None else ""

    def kill(self) -> None:
        """End a server that does not answer, with everything that it has started."""
        if self._stdio is not None:
            self._stdio.kill()
        self._leave.set()

    async def close(self) -> None:
        """End the server in good order, in bounded time."""
        self._leave.set()
        if not self._ready.done():
            self._life.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(asyncio.shield(self._life), return_exceptions=True)
        if not self._life.done():
            self.kill()
            self._life.cancel()
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # nobody else asks for it

    def introduction(self) -> dict[str, Any]:
        """What the server says of itself. Not its version: tools that are the same in the next one are the same."""
        info = self._client.server_info
        said = (
            info.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"version", "meta"}) if info else {}
        )
        return {"info": said, "instructions": self._client.instructions or ""}

    # ---- tools -----------------------------------------------------------------------------------------------------

    async def list_tools(self, timeout: float) -> list[mcp_types.Tool]:
        """Every tool that the server names; of two with one name the first."""
        found: dict[str, mcp_types.Tool] = {}
        try:
            with anyio.fail_after(timeout):
                cursor: str | None = None
                while True:
                    page = await self._client.list_tools(cursor=cursor)
                    for tool in page.tools:
                        found.setdefault(tool.name, tool)
                    cursor = page.next_cursor
                    if cursor is None or not page.tools or len(found) > MOST_TOOLS:
                        break
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND:
                return []
            raise ToolServerError("no_list", server=self.config.name, detail=self._why(error)) from error
        except TimeoutError as error:
            self.kill()
            raise ToolServerError("start_timed_out", server=self.config.name, seconds=timeout) from error
        except Exception as error:
            raise ToolServerError("no_list", server=self.config.name, detail=self._why(error)) from error
        if len(found) > MOST_TOOLS:
            raise ToolServerError("too_many_tools", server=self.config.name, most=MOST_TOOLS)
        return list(found.values())

    async def call(self, tool: str, arguments: dict[str, Any], call_id: str, timeout: float) -> ServerAnswer:
        """Run a tool. One that takes too long is ended with its server: it shall not go on behind our back."""
        meta: Any = {IDEMPOTENCY_KEY: call_id} if call_id else None
        name = self.config.name
        try:
            with anyio.fail_after(timeout):
                result = await self._client.call_tool(tool, arguments, meta=meta)
        except TimeoutError as error:
            if self._stdio is None:  # somebody else's server, and other calls may be on their way
                raise ToolServerError("no_answer", server=name, tool=tool, seconds=timeout) from error
            self.kill()
            raise ToolServerError("timed_out", server=name, tool=tool, seconds=timeout) from error
        except Exception as error:
            if isinstance(error, MCPError) and self._is_about_the_request(error):
                raise ToolServerError("refused", server=name, tool=tool, detail=error.message) from error
            self._leave.set()
            await asyncio.wait({self._life}, timeout=_LAST_WORDS_SECONDS)
            raise ToolServerError("ended", server=name, tool=tool, detail=self._why(error)) from error
        return ServerAnswer("\n".join(_texts(result)), is_error=result.is_error)

    def _is_about_the_request(self, error: MCPError) -> bool:
        if self._stdio is not None:
            return not self._stdio.ended.is_set() and error.code != mcp_types.CONNECTION_CLOSED
        return error.code in _ABOUT_THE_REQUEST

    def _why(self, error: BaseException) -> str:
        return self.last_words() or self._end or _root(error)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.tools_have_changed = True

    async def _subscribe_to_tools(self) -> None:
        """Stateless servers tell of changed tools only to those who listen."""
        if self._client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        with suppress(Exception):  # it need not offer that; a restart lists the tools again in any case
            while True:
                try:
                    async with self._client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self.tools_have_changed = True
                    return
                except SubscriptionLost:
                    await asyncio.sleep(_LISTEN_AGAIN_SECONDS)
                    self.tools_have_changed = True  # nobody was listening meanwhile


def _texts(result: mcp_types.CallToolResult) -> Iterator[str]:
    """The answer as text; what is not text is named."""
    for block in result.content:
        match block:
            case mcp_types.TextContent():
                yield block.text
            case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
                yield resource.text
            case mcp_types.EmbeddedResource():
                yield text("tools.not_text", kind=block.resource.mime_type or "?", name=block.resource.uri)
            case mcp_types.ResourceLink():
                yield text("tools.not_text", kind=block.mime_type or "?", name=block.uri)
            case _:
                yield text("tools.not_text", kind=block.mime_type, name=block.type)
    if not result.content and result.structured_content is not None:
        yield jsonio.encode(result.structured_content).decode()


def _root(error: BaseException) -> str:
    """What went wrong at the bottom of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
