"""MCP servers as a synchronous program sees them: started when needed, started again when they die.

The SDK is asynchronous, Orihon's core is not: one thread with an event loop serves all MCP servers of a tool box. A
server that ends is started again for the next call, after a pause that grows, and is given up when it has died too
often without answering once, until it has been left alone for a while; the call under way when it dies, or when the
tool box is closed, is answered with an error and not made again by itself. Needs the ``mcp`` package.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orihon.errors import InvalidMessage, ToolServerError
from orihon.runtime.mcp.config import Approvals, McpServerConfig, definition_digest, whole_digest
from orihon.runtime.tool import ServerAnswer, ServerCall, ServerTool

if TYPE_CHECKING:
    import mcp_types

    from orihon.runtime.mcp.connection import McpConnection

logger = logging.getLogger("orihon.runtime.mcp")

T = TypeVar("T")

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 8.0
_COOL_OFF = 300.0  # seconds until a server that was given up gets another chance


def mcp_servers(
    configured: Sequence[McpServerConfig], base_dir: Path | None, *, start_timeout: float = 30.0, max_restarts: int = 5
) -> list[McpServer]:
    """The servers, none of them started yet."""
    _require_package()
    loop = LoopThread(users=len(configured))
    approvals = Approvals(base_dir)
    limits = ServerLimits(start_timeout, max_restarts)
    return [McpServer(config, loop, approvals, limits) for config in configured]


def _require_package() -> None:
    try:
        import mcp_types  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ToolServerError("no_package") from error


class LoopThread:
    """A thread with an event loop, from its first use until all its users have left."""

    def __init__(self, users: int) -> None:
        self._users = users
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do it, and wait."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whoever waited is gone
            raise

    def leave(self) -> None:
        """One user less; the last one ends the thread."""
        with self._lock:
            self._users -= 1
            loop, thread = self._loop, self._thread
            if self._users > 0 or loop is None or thread is None:
                return
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="orihon-mcp", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        waiting = asyncio.all_tasks(loop)
        for task in waiting:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*waiting, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a server gets of our patience."""

    start_timeout: float
    max_restarts: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers, and what of it is not as it was approved."""

    tools: tuple[ServerTool, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)  # as they were made when they covered less
    refused: frozenset[str] = frozenset()

    def usable(self) -> tuple[ServerTool, ...]:
        return tuple(tool for tool in self.tools if tool.name not in self.refused)


class McpServer:
    """One configured server; what it does with its connection happens in the loop's thread."""

    def __init__(self, config: McpServerConfig, loop: LoopThread, approvals: Approvals, limits: ServerLimits) -> None:
        self.config = config
        self._loop = loop
        self._approvals = approvals
        self._limits = limits
        self._connecting = asyncio.Lock()
        self._connection: McpConnection | None = None
        self._listing: Listing | None = None
        self._deaths = 0  # since the last call that was answered
        self._last_death = 0.0  # on the monotonic clock
        self._last_words = ""
        self._is_closed = False
        self._closing = threading.Lock()

    @property
    def name(self) -> str:
        return self.config.name

    def tools(self) -> Sequence[ServerTool]:
        """The approved tools. A server that died is not started for this: what it had is still what it has."""
        connection = self._connection
        if self._listing is None or (connection is not None and connection.tools_have_changed):
            try:
                self._run(self._start())
            except CancelledError as error:
                raise ToolServerError("closed", server=self.name) from error
        assert self._listing is not None
        return self._listing.usable()

    def refused_tools(self) -> frozenset[str]:
        """Tools whose definition is not the approved one."""
        self.tools()
        assert self._listing is not None
        return self._listing.refused

    def approve(self) -> list[str]:
        """Approve the tools as they are now; returns those that were refused."""
        refused = sorted(self.refused_tools())
        assert self._listing is not None
        self._approvals.approve(self.name, self._listing.digests)
        self._listing = replace(self._listing, refused=frozenset())
        return refused

    def call(self, call: ServerCall) -> ServerAnswer:
        try:
            return self._run(self._call(call))
        except CancelledError as error:  # by close, when the call may have been on its way for long
            raise ToolServerError("ended", server=self.name, tool=call.tool, detail="closed") from error

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise ToolServerError("closed", server=self.name)
        return self._loop.run(work)

    def close(self) -> None:
        """End the server in good order; a call under way is answered with an error."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            if self._connection is not None:
                self._loop.run(self._connection.close())
            self._loop.leave()

    # ---- in the loop's thread --------------------------------------------------------------------------------------

    async def _start(self) -> None:
        try:
            await self._connected()
        except ToolServerError as error:
            if self.config.required or self._listing is not None:
                raise
            logger.warning("MCP server %s is left out: %s", self.name, error)
            self._listing = Listing()

    async def _call(self, call: ServerCall) -> ServerAnswer:
        connection = await self._connected()
        assert self._listing is not None
        if call.tool in self._listing.refused:
            self._listing = await self._judged(self._listing)  # another process may have approved it
            if call.tool in self._listing.refused:
                raise ToolServerError("changed", server=self.name, tool=call.tool)
        timeout = self.config.timeout or call.timeout
        try:
            answer = await connection.call(call.tool, dict(call.arguments), call.id, timeout)
        except ToolServerError as error:
            if error.reason == "refused":
                self._deaths = 0
            raise
        self._deaths = 0
        return answer

    async def _connected(self) -> McpConnection:
        """The connection, made again if need be, with its tools known."""
        async with self._connecting:
            if self._is_closed:
                raise ToolServerError("closed", server=self.name)
            if self._connection is not None and self._connection.has_ended:
                await self._bury(self._connection)
            connection = self._connection or await self._reconnect()
            if self._listing is None or connection.tools_have_changed:
                connection.tools_have_changed = False
                await self._list(connection)
            return connection

    async def _bury(self, connection: McpConnection) -> None:
        self._connection = None
        self._count_death()
        await connection.close()
        self._last_words = connection.last_words()
        logger.warning("MCP server %s has ended (%s)", self.name, self._last_words or "-")

    def _count_death(self) -> None:
        self._deaths += 1
        self._last_death = time.monotonic()

    async def _reconnect(self) -> McpConnection:
        from orihon.runtime.mcp.connection import McpConnection

        if self._deaths > self._limits.max_restarts and time.monotonic() - self._last_death >= _COOL_OFF:
            self._deaths = 0
        if self._deaths > self._limits.max_restarts:
            raise ToolServerError("given_up", server=self.name, times=self._deaths, detail=self._last_words or "-")
        if self._deaths:
            await asyncio.sleep(min(_FIRST_PAUSE * 2 ** (self._deaths - 1), _LONGEST_PAUSE))
        try:
            connection = await McpConnection.open(self.config, self._limits.start_timeout)
            await self._list(connection)
        except ToolServerError as error:
            self._count_death()
            self._last_words = error.cause
            raise
        if self._is_closed:
            await connection.close()
            raise ToolServerError("closed", server=self.name)
        self._connection = connection
        return connection

    async def _list(self, connection: McpConnection) -> None:
        try:
            found = await connection.list_tools(self._limits.start_timeout)
            server = {**self.config.definition(), **connection.introduction()}
            digests = {tool.name: whole_digest(_whole(tool), server) for tool in found}
            former = {tool.name: definition_digest(_former(tool)) for tool in found}
            listing = await self._judged(Listing(tuple(self._tool(tool) for tool in found), digests, former))
        except InvalidMessage as error:  # a number that JSON has not
            await connection.close()
            raise ToolServerError("no_list", server=self.name, detail=error.cause) from error
        except BaseException:
            await connection.close()
            raise
        if listing.refused:
            logger.warning("MCP server %s: not as approved: %s", self.name, ", ".join(sorted(listing.refused)))
        self._listing = listing

    async def _judged(self, listing: Listing) -> Listing:
        refused = await asyncio.to_thread(self._approvals.refused, self.name, listing.digests, listing.former)
        return replace(listing, refused=refused)

    def _tool(self, tool: mcp_types.Tool) -> ServerTool:
        # Not its hints (readOnlyHint …): what happens after a crash is the operator's to say, not the server's.
        is_repeatable = tool.name in self.config.repeatable
        return ServerTool(self.name, tool.name, tool.description or "", tool.input_schema, is_repeatable)


def _whole(tool: mcp_types.Tool) -> dict[str, Any]:
    """All that a server says of a tool. ``_meta`` is for the connection, and may be another each time."""
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})


def _former(tool: mcp_types.Tool) -> dict[str, Any]:
    hints = tool.annotations
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema,
        "hints": hints.model_dump(exclude_none=True) if hints is not None else {},
    }
