"""``wrap``: the client of the OpenAI or Anthropic SDK whose conversation is a task.

>>> client = orihon.wrap(OpenAI(), task)

The program goes on as before: it sends its whole list of messages with each call and gets the same answers. What is new
in it is in the log before the call is made, the answer before the program sees its end, and what goes out has folds in
the places of what would not fit. It works where the SDK hands its requests to HTTP, so that every way to call it
(``create``, ``stream``, ``parse``, raw responses) does; other calls pass.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, Protocol, Self, TypeVar

from orihon import aio
from orihon.adapters.common import check_version
from orihon.adapters.wrapped_task import WrappedExchange, WrappedTask
from orihon.errors import BudgetExceeded, InvalidInput, OrihonError, StaleWriter, TaskBusy
from orihon.proxy.events import EventReader
from orihon.proxy.upstream import decoder
from orihon.proxy.windows import is_overflow
from orihon.proxy.wire import Wire
from orihon.proxy.wires import WIRES
from orihon.tasks.task import Task
from orihon.values.task import shortened

#: The versions that were tested, from the first to the one that is none of them any more.
TESTED = {"openai": ("1.60", "4"), "anthropic": ("0.45", "3")}
_OK, _TOO_LONG, _CONFLICT, _UNAVAILABLE = 200, 400, 409, 503
#: Of no use to try again: the SDKs would, three times.
_NO_RETRY = {"x-should-retry": "false"}


class SdkClient(Protocol):
    """A client of one of the SDKs, synchronous or asynchronous."""

    def copy(self, *, http_client: Any = None) -> Self:
        """The same client with another way to HTTP."""


Client = TypeVar("Client", bound=SdkClient)


def wrap(client: Client, task: Task | aio.Task) -> Client:
    """A client like this one whose calls are kept in a task, folded where they would not fit, and answered as before.

    The task has to be open and holds one conversation: that of this client. A call that is refused by us fails with
    the SDK's own error: ``ConflictError`` where another process has taken the task over, ``BadRequestError`` where even
    folding does not make it fit.
    """
    inner = getattr(client, "_client", None)
    package = type(client).__module__.partition(".")[0]
    if inner is None or not callable(getattr(client, "copy", None)) or package not in TESTED:
        raise InvalidInput("wrap_client", actual=shortened(type(client).__name__))
    check_version(package, *TESTED[package])
    opened = task if isinstance(task, Task) else task._of
    recorder = _Recorder(WrappedTask(opened), inner)
    return client.copy(http_client=recorder.as_client())


class _Recorder:
    """Stands between an SDK and its HTTP client."""

    def __init__(self, wrapped: WrappedTask, inner: Any) -> None:
        self._wrapped = wrapped
        self._inner = inner
        self._http = sys.modules[type(inner).__mro__[-3].__module__.partition(".")[0]]

    def as_client(self) -> Any:
        """The HTTP client as the SDK knows it, with another ``send``: the SDKs insist on a client of its kind.

        It holds the one that it stands for, which closes itself when nobody does any more.
        """
        kind: Any = type(self._inner)
        made: Any = object.__new__(_recording(kind))
        made.__dict__.update(self._inner.__dict__, _orihon=self)
        return made

    @property
    def inner(self) -> Any:
        """The HTTP client that requests go out by."""
        return self._inner

    # ---- there -----------------------------------------------------------------------------------------------------

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        wire = _wire_of(request)
        if wire is None:
            return self._inner.send(request, stream=stream, **options)
        exchange, refused = self._begin(wire, request)
        if exchange is None:
            return refused or self._inner.send(request, stream=stream, **options)
        response = self._inner.send(self._changed(request, exchange), stream=stream, **options)
        if response.status_code in (400, 413, 422):
            response.read()
            if is_overflow(response.status_code, response.text) and exchange.shorten(response.text):
                response.close()
                response = self._inner.send(self._changed(request, exchange), stream=stream, **options)
        if response.status_code == _OK:
            self._listen(response, exchange, stream=stream)
        return response

    async def send_async(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        wire = _wire_of(request)
        if wire is None:
            return await self._inner.send(request, stream=stream, **options)
        exchange, refused = await asyncio.to_thread(self._begin, wire, request)
        if exchange is None:
            return refused or await self._inner.send(request, stream=stream, **options)
        response = await self._inner.send(self._changed(request, exchange), stream=stream, **options)
        if response.status_code in (400, 413, 422):
            await response.aread()
            if is_overflow(response.status_code, response.text) and await asyncio.to_thread(
                exchange.shorten, response.text
            ):
                await response.aclose()
                response = await self._inner.send(self._changed(request, exchange), stream=stream, **options)
        if response.status_code == _OK:
            await asyncio.to_thread(self._listen, response, exchange, stream=stream)
        return response

    def _begin(self, wire: Wire, request: Any) -> tuple[WrappedExchange | None, Any]:
        """The request, kept and made to fit; or why it is refused."""
        try:
            return self._wrapped.take(wire, request.content, dict(request.headers)), None
        except OrihonError as error:
            status = _status(error)
            kind = "context_length_exceeded" if status == _TOO_LONG else "orihon_error"
            body = wire.error(status, kind, str(error))
            return None, self._http.Response(status, headers=_NO_RETRY, json=body, request=request)

    def _changed(self, request: Any, exchange: WrappedExchange) -> Any:
        if not exchange.is_changed:
            return request
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "content-length"]
        kind = type(request)
        return kind(request.method, request.url, headers=headers, content=exchange.body, extensions=request.extensions)

    # ---- back ------------------------------------------------------------------------------------------------------

    def _listen(self, response: Any, exchange: WrappedExchange, *, stream: bool) -> None:
        if not stream:
            exchange.finish_whole(response.content)
            return
        is_events = "event-stream" in response.headers.get("content-type", "")
        heard = _Heard(exchange, response.headers.get("content-encoding", ""), is_events=is_events)
        is_async = isinstance(response.stream, self._http.AsyncByteStream)
        kind = self._http.AsyncByteStream if is_async else self._http.SyncByteStream
        response.stream = type("Heard", (_AsyncStream if is_async else _SyncStream, kind), {})(response.stream, heard)


class _Heard:
    """What passes of an answer, read along. Its end goes on when the answer is kept."""

    def __init__(self, exchange: WrappedExchange, encoding: str, *, is_events: bool) -> None:
        self._exchange = exchange
        self._reader = exchange.wire.reader()
        self._events = EventReader(self._reader)
        self._decoded = decoder(encoding)
        self._pieces: list[bytes] | None = None if is_events else []
        self._is_kept = False

    def is_last(self, piece: bytes) -> bool:
        """Take a piece in; is the answer complete with it?"""
        said = self._decoded(piece)
        if self._pieces is not None:
            self._pieces.append(said)
            return False
        self._events.feed(said)
        return self._events.is_over and not self._is_kept

    def keep(self) -> None:
        """Once, at the end of it, wherever that is."""
        if self._is_kept:
            return
        self._is_kept = True
        if self._pieces is not None:
            self._exchange.finish_whole(b"".join(self._pieces))
            return
        self._events.end()
        self._exchange.finish(self._reader.built())


class _SyncStream:
    def __init__(self, stream: Any, heard: _Heard) -> None:
        self._stream = stream
        self._heard = heard

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            if self._heard.is_last(piece):
                self._heard.keep()
            yield piece
        self._heard.keep()

    def close(self) -> None:
        self._heard.keep()
        self._stream.close()


class _AsyncStream:
    def __init__(self, stream: Any, heard: _Heard) -> None:
        self._stream = stream
        self._heard = heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            if self._heard.is_last(piece):
                await asyncio.to_thread(self._heard.keep)
            yield piece
        await asyncio.to_thread(self._heard.keep)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._heard.keep)
        await self._stream.aclose()


@cache
def _recording(kind: type) -> type:
    """A kind of HTTP client that hands everything over to the one that it stands for."""

    def send(client: Any, request: Any, **options: Any) -> Any:
        return client._orihon.send(request, **options)

    def send_async(client: Any, request: Any, **options: Any) -> Any:
        return client._orihon.send_async(request, **options)

    is_async = inspect.iscoroutinefunction(getattr(kind, "send", None))
    told: dict[str, Any] = {
        "send": send_async if is_async else send,
        "close": lambda client: client._orihon.inner.close(),
        "aclose": lambda client: client._orihon.inner.aclose(),
        "is_closed": property(lambda client: client._orihon.inner.is_closed),
        "__del__": lambda client: None,  # the one that it stands for closes itself
    }
    return type("Recording", (kind,), told)


def _wire_of(request: Any) -> Wire | None:
    """The wire that a request speaks; ``None`` for one that is no part of a conversation."""
    if request.method != "POST":
        return None
    return next((wire for wire in WIRES if request.url.path.endswith(wire.path.removeprefix("/v1"))), None)


def _status(error: OrihonError) -> int:
    if isinstance(error, BudgetExceeded):
        return _TOO_LONG
    return _CONFLICT if isinstance(error, StaleWriter | TaskBusy) else _UNAVAILABLE


__all__ = ["wrap"]
