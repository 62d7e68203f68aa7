"""Files that are sent while they are written: no larger in memory than a few pieces, and never on the server's disk.

What fails before the first byte is an error like any other. What fails later breaks the transfer off, so that no
browser takes the half of a file for the whole.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Any, BinaryIO, cast

from anyio import BrokenResourceError, EndOfStream, create_memory_object_stream, from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from orihon.web.call import Download

_PIECE_BYTES = 64 << 10
_PIECES_AHEAD = 4


class _Sending(io.RawIOBase):
    """Where the writer's thread writes; it waits while the reader is slow."""

    def __init__(self, stream: MemoryObjectSendStream[bytes]) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        from_thread.run(self._stream.send, piece)
        return len(piece)


async def download(
    made: Download, around: Callable[[], AbstractContextManager[None]], share: AbstractAsyncContextManager[None]
) -> Response:
    """The answer that sends a file; the thread that writes it enters ``around``, and has a ``share``."""
    send, receive = create_memory_object_stream[bytes](_PIECES_AHEAD)

    def write() -> None:
        with around(), io.BufferedWriter(_Sending(send), _PIECE_BYTES) as file:
            made.write(cast("BinaryIO", file))

    async def write_all() -> None:
        with send:
            async with share:
                await run_in_threadpool(write)

    writing = asyncio.create_task(write_all())
    try:
        first = await receive.receive()
    except EndOfStream:
        first = b""
        receive.close()
        await writing  # which says why there is nothing

    async def pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in receive:
            yield piece
        await writing  # what failed in the middle breaks the transfer off

    return _Downloaded(pieces() if first else _nothing(), receive, writing, made)


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


class _Downloaded(StreamingResponse):
    """Lets the writer go when the reader has gone."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        receive: MemoryObjectReceiveStream[bytes],
        writing: asyncio.Task[None],
        made: Download,
    ) -> None:
        headers = {
            "content-disposition": f'attachment; filename="{made.name}"',
            # Whoever opens the file inside the browser all the same: it may do nothing there.
            "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        }
        super().__init__(pieces, media_type=made.media_type, headers=headers)
        self._receive = receive
        self._writing = writing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._receive.close()
            with suppress(BrokenResourceError):  # the writer hears that nobody reads any more
                await self._writing
