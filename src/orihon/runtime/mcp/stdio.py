"""An MCP server as a child process: JSON-RPC lines over its standard input and output.

A transport for the SDK's client that bounds what a server can do to us: one line has a limit, rubbish between the lines
is skipped and has one too, and a server that goes beyond either is killed. The child leads its own process group and
sees ``PATH``, ``HOME``, ``LANG`` and what is configured, nothing else of our environment: our keys are not its
business. Promises that nothing of it is alive after ``__aexit__``, nor after this process has died (see
``system.processes``).
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from orihon.runtime.mcp.config import McpServerConfig
from orihon.system.processes import GuardPipe, guard_pipe, guarded
from orihon.texts import text

logger = logging.getLogger("orihon.runtime.mcp")

INHERITED = ("PATH", "HOME", "LANG")
MOST_MESSAGE_BYTES = 16 << 20
MOST_RUBBISH_BYTES = 1 << 20  # between two messages
GRACE = 2.0  # seconds to end after the input has ended, and again after SIGTERM
_BLOCK = 1 << 16
_LAST_WORDS = 2000  # bytes of standard error that an error may quote
_LAST_LINES = 5
_POLL = 0.2
_MESSAGE_START = b'{"jsonrpc"'

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class StdioTransport(AbstractAsyncContextManager[Streams]):
    """One run of a server's program."""

    def __init__(self, config: McpServerConfig) -> None:
        self._config = config
        self._process: asyncio.subprocess.Process | None = None  # the server's guard
        self._pipe: GuardPipe | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._errors = bytearray()
        self._rubbish = 0
        self._failure = ""
        self.ended = asyncio.Event()

    async def __aenter__(self) -> Streams:
        self._process = await self._started()
        self._inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sending, self._outward = anyio.create_memory_object_stream[SessionMessage](0)
        work = (self._read(), self._write(), self._read_stderr(), self._await_exit())
        self._tasks = [asyncio.create_task(one) for one in work]
        self._ends = (received, sending)
        return received, sending

    async def _started(self) -> asyncio.subprocess.Process:
        options: dict[str, Any] = {"env": child_environment(self._config), "cwd": self._config.cwd}
        options |= dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        with guard_pipe() as (self._pipe, end):
            line = guarded(self._config.command, end, options, at_terminal=False)
            return await asyncio.create_subprocess_exec(*line, **options, start_new_session=True, pass_fds=(end,))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._stop()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for stream in (self._inward, self._outward, *self._ends):
                await stream.aclose()

    def last_words(self) -> str:
        """Why it ended, as far as anybody knows: what we found, its status, and what it wrote to standard error."""
        code = self._process.returncode if self._process is not None else None
        status = "" if code is None else text("tools.exit_status", status=code)
        spoken = " ".join(bytes(self._errors).decode(errors="replace").strip().splitlines()[-_LAST_LINES:])
        return " ".join(filter(None, (self._failure, status, spoken)))

    def kill(self) -> None:
        """The server and all that it has started, at once."""
        if self._pipe is not None:
            self._pipe.close()

    # ---- from the server -----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        buffer = bytearray()
        try:
            while block := await self._process.stdout.read(_BLOCK):
                searched = len(buffer)
                buffer += block
                while (end := buffer.find(b"\n", searched)) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    searched = 0
                    await self._take(line)
                if len(buffer) > MOST_MESSAGE_BYTES:
                    self._give_up(text("tools.message_too_long", most=MOST_MESSAGE_BYTES))
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more
        finally:
            self._inward.close()
            self.ended.set()

    async def _take(self, line: bytes) -> None:
        message = _parsed(line)
        if message is not None:
            self._rubbish = 0
            await self._inward.send(message)
            return
        if line.strip():
            if not self._rubbish:
                logger.warning("MCP server %s wrote something else to its output: %r", self._config.name, line[:100])
            self._rubbish += len(line) + 1
            if self._rubbish > MOST_RUBBISH_BYTES:
                self._give_up(text("tools.too_much_rubbish", most=MOST_RUBBISH_BYTES))
                raise anyio.ClosedResourceError

    async def _read_stderr(self) -> None:
        """Standard error is read for ever, or the server would stop at a full pipe; its end is kept."""
        assert self._process is not None
        assert self._process.stderr is not None
        while block := await self._process.stderr.read(_BLOCK):
            self._errors += block
            del self._errors[:-_LAST_WORDS]

    async def _await_exit(self) -> None:
        """A child of the server may hold its output open: the end of the server alone counts."""
        assert self._process is not None
        while self._process.returncode is None:
            await asyncio.sleep(_POLL)
        self.kill()
        self._inward.close()
        self.ended.set()

    # ---- to the server -------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            async for message in self._outward:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
        except OSError:
            self._inward.close()
            self.ended.set()

    # ---- its end -------------------------------------------------------------------------------------------------

    def _give_up(self, why: str) -> None:
        self._failure = why
        logger.warning("MCP server %s is killed: %s", self._config.name, why)
        self.kill()

    async def _stop(self) -> None:
        """End of input, SIGTERM, SIGKILL, with time between them."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._pipe is not None
        self._process.stdin.close()
        for step in (self._pipe.ask_to_end, self.kill):
            if await self._has_ended(GRACE):
                break
            step()
        self.kill()
        if not await self._has_ended(5 * GRACE):
            self._process.kill()
        _close_pipes(self._process)

    async def _has_ended(self, seconds: float) -> bool:
        # Process.wait() would also wait for whoever has inherited the pipes.
        assert self._process is not None
        until = asyncio.get_running_loop().time() + seconds
        while self._process.returncode is None and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
        return self._process.returncode is not None


def child_environment(config: McpServerConfig) -> dict[str, str]:
    """What a server's program sees of the environment."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(config.env)


def _parsed(line: bytes) -> SessionMessage | None:
    """The message in a line, also behind something that was printed without a line end."""
    start = line.find(_MESSAGE_START)
    for piece in (line, line[start:]) if start > 0 else (line,):
        with suppress(ValueError):
            return SessionMessage(jsonrpc_message_adapter.validate_json(piece, by_name=False))
    return None


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Nothing public closes the pipes of a process whose child still holds their other ends."""
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
