"""The application: what comes in over HTTP, which wire it is, and how the answer goes back byte for byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from orihon.errors import InvalidInput, OrihonError
from orihon.proxy import upstream as upstreams
from orihon.proxy.events import EventReader
from orihon.proxy.service import Exchange, ProxyService, refusal
from orihon.proxy.upstream import (
    BodyTooLarge,
    ProxyAddress,
    UnreadableBody,
    Upstream,
    decoded,
    decoder,
    plain,
    request_headers,
    response_headers,
)
from orihon.proxy.windows import is_overflow
from orihon.proxy.wire import Answer, Wire
from orihon.proxy.wires import BY_NAME, WIRES
from orihon.system import jsonio
from orihon.tasks import door
from orihon.texts import text

logger = logging.getLogger("orihon.proxy")

HEALTH = "/orihon/health"
_TOKEN_HEADER = "x-orihon-token"  # noqa: S105 - its name
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_COUNTING = {"/v1/messages/count_tokens": "messages", "/v1/responses/compact": "responses"}
_TRIES_TO_CONNECT = 3
_NAP = 0.2
_MOST_ERROR_BYTES = 1 << 20
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_LARGE = 200, 400, 401, 403, 404, 413
_UPGRADE_REQUIRED, _BAD_GATEWAY, _UNAVAILABLE = 426, 502, 503
_FAILURES = (httpx.HTTPError, httpx.InvalidURL)


class ProxyApp:
    """The proxy of one base over HTTP."""

    def __init__(
        self,
        service: ProxyService,
        upstreams: dict[str, str],
        *,
        token: str | None = None,
        names: frozenset[str] = frozenset(),
        health: Callable[[], dict[str, Any]] = dict,
        touched: Callable[[str, str], object] = lambda wrap, uuid: None,
        word: str | None = None,
    ) -> None:
        """``upstreams``: by provider; ``names``: by which clients may call this server; empty: any.

        ``touched`` is told once of each task that a wrap's requests become; ``word`` opens the door for changes.
        """
        self._word = word
        self._service = service
        self._upstreams = upstreams
        self._token = token
        self._names = names
        self._health = health
        self._tell_touched = touched
        self._touched: set[tuple[str, str]] = set()
        self._upstream = Upstream()
        self._by_path: dict[str, Wire] = {wire.path: wire for wire in WIRES}
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=_METHODS)])

    async def close(self) -> None:
        await self._upstream.close()

    async def _answer(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path", b"").decode("latin-1") or request.url.path
        headers = plain(request.headers.raw)
        if self._is_strange(headers):
            return _refusal(_spoken(raw_path, headers), _FORBIDDEN, text("proxy.from_a_page"))
        if request.url.path == HEALTH:
            return self._state(headers)
        if request.url.path == door.PATH:
            return await self._change(request, headers)
        try:
            address = ProxyAddress.of(raw_path)
        except InvalidInput as error:
            return _refusal(_spoken(raw_path, headers), _BAD_REQUEST, str(error))
        if (refused := self._refused(address, headers)) is not None:
            return refused
        wire = self._by_path.get(address.wire_path) if request.method == "POST" else None
        counting = BY_NAME.get(_COUNTING.get(address.wire_path, "")) if request.method == "POST" else None
        upstream = address.upstream or self._upstreams[_spoken(address.wire_path, headers).provider]
        target = upstream + address.path + (f"?{request.url.query}" if request.url.query else "")
        if wire is None and counting is None:
            return await self._relay(request, target)
        try:
            raw = await _body_of(request)
            body = await run_in_threadpool(decoded, raw, headers.get("content-encoding", ""))
        except ClientDisconnect:
            return Response(status_code=_BAD_REQUEST)
        except BodyTooLarge:
            said = text("proxy.too_large", most=upstreams.MOST_BODY >> 20)
            return _refusal(_spoken(address.wire_path, headers), _TOO_LARGE, said)
        except UnreadableBody:  # the upstream says what is wrong with it
            body = b""
        if counting is not None:
            return await self._count(request, counting, upstream, target, body, raw, address)
        assert wire is not None
        try:
            exchange = await run_in_threadpool(self._service.take, wire, upstream, body, headers, address.session)
        except Exception as error:
            if not isinstance(error, OrihonError):
                logger.exception("a request failed")
            is_theirs = isinstance(error, InvalidInput) and error.reason == "proxy_unreadable"
            return _own(wire, error, _BAD_REQUEST if is_theirs else _UNAVAILABLE)
        if exchange is None:
            return await self._relay(request, target, raw, view="degraded")
        if address.wrap and exchange.uuid and (address.wrap, exchange.uuid) not in self._touched:
            self._touched.add((address.wrap, exchange.uuid))
            self._tell_touched(address.wrap, exchange.uuid)
        return await self._exchange(request, exchange, target, raw)

    def _refused(self, address: ProxyAddress, headers: Mapping[str, str]) -> Response | None:
        """Whoever has no token, and what is no HTTP request."""
        wire = _spoken(address.wire_path, headers)
        if not self._has_token(headers.get(_TOKEN_HEADER) or address.token):
            return _refusal(wire, _UNAUTHORIZED, text("proxy.token"))
        if headers.get("upgrade", "").lower() == "websocket":  # by this status Codex knows to go on over HTTP, at once
            return _refusal(wire, _UPGRADE_REQUIRED, text("proxy.websocket"))
        return None

    def _is_strange(self, headers: Mapping[str, str]) -> bool:
        """Is it from a page of another site, or by another name for this machine?"""
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        is_page = headers.get("sec-fetch-site", "none") not in ("none", "same-origin") or "origin" in headers
        return is_page or bool(self._names and host.lower() not in self._names)

    def _has_token(self, given: str | None) -> bool:
        return self._token is None or self._service.conversations.digests.same(given or "", self._token)

    def _state(self, headers: Mapping[str, str]) -> Response:
        """How it does; whoever has no token is told no more than whether it does."""
        state = self._health()
        status = _OK if state.get("healthy", True) else _UNAVAILABLE
        if not self._has_token(headers.get(_TOKEN_HEADER)):
            state = {"healthy": state.get("healthy", True)}
        return JSONResponse(state, status)

    async def _change(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Somebody of this base, who knows the word, wants a view changed that is open here."""
        word = headers.get(door.WORD_HEADER, "")
        if self._word is None or not self._service.conversations.digests.same(word, self._word):
            return JSONResponse({}, _UNAUTHORIZED)
        try:
            asked = jsonio.decode(await _body_of(request))
            given = (str(asked["task"]), str(asked["act"]), list(asked["values"]), str(asked["made_by"]))
        except (ValueError, KeyError, TypeError, ClientDisconnect, BodyTooLarge):
            return JSONResponse({}, _BAD_REQUEST)
        try:
            made = await run_in_threadpool(self._service.change, *given)
        except OrihonError as error:
            return JSONResponse({"refused": str(error)}, _BAD_REQUEST)
        return JSONResponse({}, _NOT_FOUND) if made is None else JSONResponse(made)

    # ---- what passes as it is --------------------------------------------------------------------------------------

    async def _relay(
        self, request: Request, target: str, raw: bytes | None = None, *, view: str | None = None
    ) -> Response:
        headers = request_headers(request.headers.raw, is_changed=False)
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        content: Any = raw if raw is not None else request.stream() if has_body else None
        if content is not None and raw is None and "content-length" in request.headers:
            headers.append(("Content-Length", request.headers["content-length"]))
        try:
            response = await self._upstream.send(request.method, target, headers, content)
        except _FAILURES as error:
            return _own(_spoken(request.url.path, request.headers), error, _BAD_GATEWAY)
        return _streamed(response, _passed(response), view=view)

    async def _count(
        self, request: Request, wire: Wire, upstream: str, target: str, body: bytes, raw: bytes, address: ProxyAddress
    ) -> Response:
        headers = plain(request.headers.raw)
        changed, view = None, "whole"
        try:
            understood = await run_in_threadpool(self._service.request, wire, upstream, body, headers, address.session)
            if understood is not None:
                changed = await run_in_threadpool(self._service.counted, understood)
        except OrihonError as error:
            logger.warning("a count is about what the client has sent: %s", error)
            view = "degraded"
        if changed is None:
            return await self._relay(request, target, raw, view=view)
        sent = request_headers(request.headers.raw, is_changed=True)
        try:
            response = await self._upstream.send("POST", target, sent, changed)
        except _FAILURES as error:
            return _own(wire, error, _BAD_GATEWAY)
        return _streamed(response, _passed(response), view="folded")

    # ---- a request and its answer ------------------------------------------------------------------------------------

    async def _exchange(self, request: Request, exchange: Exchange, target: str, raw: bytes) -> Response:
        wire = exchange.request.wire
        try:
            response = await _unless_gone(request, self._sent(request, exchange, target, raw))
        except BaseException as error:
            await _in_thread(self._service.release, exchange)
            if isinstance(error, ClientDisconnect):
                return Response(status_code=_BAD_REQUEST)  # that nobody reads
            if isinstance(error, _FAILURES):
                return _own(wire, error, _BAD_GATEWAY, view=exchange.view, uuid=exchange.uuid)
            raise
        if response.status_code != _OK:
            await _in_thread(self._service.release, exchange)
            return _streamed(response, _passed(response), view=exchange.view, uuid=exchange.uuid)
        is_stream = "event-stream" in response.headers.get("content-type", "")
        body = self._events(response, exchange) if is_stream else self._whole(response, exchange)
        return _streamed(response, body, view=exchange.view, uuid=exchange.uuid)

    async def _sent(self, request: Request, exchange: Exchange, target: str, raw: bytes) -> httpx.Response:
        """The answer's head; of a request that was too long, the answer to a shorter one."""
        response = await self._try(request, exchange, target, raw)
        if response.status_code in (_OK, _UNAUTHORIZED, _FORBIDDEN) or exchange.taken is None:
            return response
        said = await _error_text(response)
        if not is_overflow(response.status_code, said):
            return response
        if not await run_in_threadpool(self._service.overflowed, exchange, response.status_code, said):
            return response
        await response.aclose()
        return await self._try(request, exchange, target, raw)

    async def _try(self, request: Request, exchange: Exchange, target: str, raw: bytes) -> httpx.Response:
        headers = request_headers(request.headers.raw, is_changed=exchange.is_changed)
        content = exchange.body if exchange.is_changed else raw
        for attempt in range(_TRIES_TO_CONNECT):
            try:
                return await self._upstream.send("POST", target, headers, content)
            except httpx.ConnectError:  # nothing was sent
                if attempt == _TRIES_TO_CONNECT - 1:
                    raise
                await asyncio.sleep(_NAP * (attempt + 1))
        raise AssertionError

    async def _events(self, response: httpx.Response, exchange: Exchange) -> AsyncIterator[bytes]:
        """The stream as it comes. Its end goes on when the answer is kept."""
        reader = exchange.request.wire.reader()
        events = EventReader(reader)
        read = decoder(response.headers.get("content-encoding", ""))
        is_whole = False
        try:
            async for piece in response.aiter_raw():
                try:
                    events.feed(read(piece))
                except (BodyTooLarge, UnreadableBody) as error:  # the client may make more of it than we do
                    logger.warning("an answer cannot be read along: %s", type(error).__name__)
                    read = _nothing
                if events.is_over and not exchange.is_over:
                    await _in_thread(self._service.finish, exchange, reader.built())
                yield piece
            events.end()
            is_whole = True
        finally:
            await _in_thread(self._service.end, exchange, reader.built(), is_whole)
            await response.aclose()

    async def _whole(self, response: httpx.Response, exchange: Exchange) -> AsyncIterator[bytes]:
        """An answer in one piece, kept before it goes on."""
        pieces: list[bytes] = []
        answer: Answer | None = None
        is_whole = False
        coming = response.aiter_raw()
        try:
            size = 0
            async for piece in coming:
                pieces.append(piece)
                size += len(piece)
                if size > upstreams.MOST_BODY:
                    break
            try:
                body = decoded(b"".join(pieces), response.headers.get("content-encoding", ""))
                value = jsonio.decode(body)
                answer = exchange.request.wire.whole(value) if isinstance(value, dict) else None
            except (ValueError, BodyTooLarge, UnreadableBody):
                logger.warning("an answer was no JSON")
            await _in_thread(self._service.finish, exchange, answer)
            for piece in pieces:
                yield piece
            async for piece in coming:  # of one that is too large to be kept
                yield piece
            is_whole = True
        finally:
            await _in_thread(self._service.end, exchange, answer, is_whole)
            await response.aclose()


def _spoken(path: str, headers: Mapping[str, str]) -> Wire:
    """The wire whose clients would ask for this, whether it is one of its paths or not."""
    is_anthropic = "/v1/messages" in path or "anthropic-version" in headers
    return BY_NAME["messages" if is_anthropic else "chat"]


async def _body_of(request: Request) -> bytes:
    """What the client sends, as far as there is room for it."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > upstreams.MOST_BODY:
            raise BodyTooLarge
        pieces.append(piece)
    return b"".join(pieces)


def _nothing(_piece: bytes) -> bytes:
    return b""


async def _unless_gone(request: Request, work: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
    """What the work comes to; ``ClientDisconnect`` as soon as nobody waits for it any more."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, httpx.HTTPError):
                await (await working).aclose()


async def _in_thread(act: Callable[..., object], *given: Any) -> None:
    """Done to its end, also when whoever waits for it is gone."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, partial(act, *given)))


async def _error_text(response: httpx.Response) -> str:
    """What an error says; it is kept, to be passed on."""
    pieces: list[bytes] = []
    coming = response.aiter_raw()
    async for piece in coming:
        pieces.append(piece)
        if sum(map(len, pieces)) > _MOST_ERROR_BYTES:
            break
    response.extensions["orihon_body"] = pieces, coming
    whole = b"".join(pieces)
    try:
        return decoded(whole, response.headers.get("content-encoding", "")).decode("utf-8", "replace")
    except (BodyTooLarge, UnreadableBody):
        return ""


async def _passed(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        read = response.extensions.get("orihon_body")
        pieces, coming = ([], response.aiter_raw()) if read is None else read
        for piece in pieces:
            yield piece
        async for piece in coming:
            yield piece
    finally:
        await response.aclose()


def _streamed(
    response: httpx.Response, body: AsyncIterator[bytes], *, view: str | None = None, uuid: str | None = None
) -> Response:
    answer = StreamingResponse(body, response.status_code)
    answer.raw_headers = [*response_headers(response.headers), *_own_headers(view, uuid)]
    return answer


def _own_headers(view: str | None, uuid: str | None) -> list[tuple[bytes, bytes]]:
    given = {"x-orihon-view": view, "x-orihon-task": uuid}
    return [(name.encode(), value.encode()) for name, value in given.items() if value is not None]


def _refusal(wire: Wire, status: int, said: str) -> Response:
    """Why a request is not passed on at all."""
    return JSONResponse(wire.error(status, "orihon_error", said), status)


def _own(
    wire: Wire, error: Exception, status: int = _UNAVAILABLE, *, view: str | None = None, uuid: str | None = None
) -> Response:
    """An error of ours, in the shape of the wire."""
    body = refusal(wire, error)
    if isinstance(error, _FAILURES):
        body = wire.error(status, "upstream_error", text("proxy.upstream", error=str(error) or type(error).__name__))
    answer = JSONResponse(body, status)
    answer.raw_headers += _own_headers(view or "degraded", uuid)
    return answer
