"""The application: every route, and how a request becomes a ``Call`` and its answer a page or JSON.

The library is synchronous: each call runs in a thread of its own. A change is refused in read-only mode, and to those
whose role does not reach that far.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from orihon.audit import acting_as
from orihon.errors import InvalidInput, OrihonError, StorageError
from orihon.system import jsonio
from orihon.texts import text
from orihon.web.access import SESSION_SECONDS, Access, Visitor
from orihon.web.call import Call, Download, Endpoint, PageRoute
from orihon.web.downloads import download
from orihon.web.fields import PATH_FIELDS, Field, from_body, from_texts
from orihon.web.gate import LOGIN, Gate, Names, no_grants, peer_in, too_many
from orihon.web.refusal import Refusal, explained, failed, json_answer, refusal
from orihon.web.renderer import render, spoken_to, static_file
from orihon.web.routes import ENDPOINTS, PAGES, STREAMS
from orihon.web.site import Site

#: More than any text that somebody writes into a page.
MOST_BODY_BYTES = 4 << 20
_MOST_LOGIN_BYTES = 4096
_NOT_FOUND = 404


def build_app(site: Site, access: Access, names: Names) -> ASGIApp:
    """The application for one base folder. The gate is outside of everything, also of what answers to faults."""
    routes = [
        Route(LOGIN, _login(access, names), methods=["GET", "POST"]),
        Route("/logout", _logout(access), methods=["POST"]),
        Route("/static/{name:path}", static_file, methods=["GET"]),
        *(Route(path, _stream(stream), methods=["GET"]) for path, stream in STREAMS.items()),
        *(Route(page.path, _page(page), methods=["GET"]) for page in PAGES),
        *_api_routes(),
    ]
    app = Starlette(
        routes=routes, exception_handlers={HTTPException: _on_http_error, OrihonError: _on_error, Exception: _on_fault}
    )
    app.router.redirect_slashes = False  # it would name a scheme, which behind a proxy is another one
    app.state.site = site
    return Gate(app, access, names)


def _page(page: PageRoute) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        refused = _not_allowed(request, page.role)
        if refused is not None:
            return refused
        given = _from_address(request, page.query)

        def act() -> Response | Download:
            with _spoken_for(request):
                made = page.act(_call(request, given))
                if isinstance(made, Download):
                    return made
                return render(request.scope, made.template, made.shows, made.status, page.place)

        async with _share(request):
            made = await run_in_threadpool(act)
        if not isinstance(made, Download):
            return made
        share = request.app.state.site.downloads.of(request.state.visitor.user)
        return await download(made, partial(_spoken_for, request), share)

    return answer


def _stream(stream: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        # Whoever asks for the head alone would wait for the end of what has none.
        return Response(media_type="text/event-stream") if request.method == "HEAD" else await stream(request)

    return answer


def _api_routes() -> list[Route]:
    """One route for each address, so that a wrong method is told all of those that it takes."""
    by_path: dict[str, dict[str, Callable[[Request], Any]]] = {}
    for one in ENDPOINTS:
        by_path.setdefault(one.path, {})[one.method] = _endpoint(one)

    def by_method(answers: dict[str, Callable[[Request], Any]]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            found: Response = await answers["GET" if request.method == "HEAD" else request.method](request)
            return found

        return answer

    return [Route(path, by_method(answers), methods=list(answers)) for path, answers in by_path.items()]


def _endpoint(endpoint: Endpoint) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        refused = _not_allowed(request, endpoint.role, changes=endpoint.changes)
        if refused is not None:
            return refused
        given = _from_address(request, endpoint.query)
        if endpoint.method != "GET":
            given |= from_body(endpoint.body, await _body(request))

        def act() -> Response:
            with _spoken_for(request):
                return json_answer(endpoint.act(_call(request, given)))

        async with _share(request):
            return await run_in_threadpool(act)

    return answer


def _share(request: Request) -> AbstractAsyncContextManager[None]:
    site: Site = request.app.state.site
    return site.requests.of(request.state.visitor.user)


@contextmanager
def _spoken_for(request: Request) -> Iterator[None]:
    """What is said is in the reader's language, and what is done is done on the reader's behalf."""
    with spoken_to(request.scope), acting_as(request.state.visitor.user, _client(request)):
        yield


def _not_allowed(request: Request, role: Any, *, changes: bool = False) -> Response | None:
    site: Site = request.app.state.site
    request.scope["state"]["read_only"] = site.read_only
    visitor: Visitor = request.state.visitor
    with spoken_to(request.scope):
        if not visitor.may(role):
            return refusal(request.scope, Refusal(403, "role"))
        return refusal(request.scope, Refusal(403, "read_only")) if changes and site.read_only else None


def _call(request: Request, given: dict[str, Any]) -> Call:
    return Call(request.app.state.site, request.state.visitor, given, _client(request))


def _client(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _from_address(request: Request, query: Sequence[Field]) -> dict[str, Any]:
    path = {name: PATH_FIELDS.get(name, Field(name)).of_text(str(value)) for name, value in request.path_params.items()}
    return path | from_texts(query, request.query_params.multi_items())


async def _body(request: Request) -> Any:
    data = await _read(request)
    if not data:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidInput("body_type")
    try:
        return jsonio.decode(data, odd_numbers=False)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("body") from error


async def _read(request: Request, most: int = MOST_BODY_BYTES) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise InvalidInput("body_size", most=most)
        pieces.append(piece)
    return b"".join(pieces)


def _login(access: Access, names: Names) -> Callable[[Request], Any]:
    """Where the token is shown: by the script of the page, or by the form itself where scripts are off."""

    async def answer(request: Request) -> Response:
        with spoken_to(request.scope):
            if request.method != "POST":
                return render(request.scope, "login.html", {"failed": False})
            body = await _read(request, _MOST_LOGIN_BYTES)
            peer = peer_in(request.scope)
            wait = access.failures.seconds_to_wait(peer)
            try:
                visitor = await run_in_threadpool(access.by_token, _token_in(body), peer)
            except (StorageError, OSError) as error:
                return refusal(request.scope, no_grants(error))
            if visitor is None and wait:
                return refusal(request.scope, too_many(wait))
            if visitor is None:
                return render(request.scope, "login.html", {"failed": True}, 401)
        entered = RedirectResponse("/", 303)
        entered.set_cookie(
            access.cookie,
            access.new_session(visitor),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=names.is_encrypted(request.headers),
        )
        return entered

    return answer


def _token_in(form: bytes) -> str:
    try:
        said = parse_qs(form.decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:
        return ""
    return said.get("token", [""])[0].strip()


def _logout(access: Access) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        access.leave(request.state.visitor)
        left = json_answer({"logged_out": True})
        left.delete_cookie(access.cookie, httponly=True, samesite="strict")
        return left

    return answer


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = str(request.scope["path"])
    if error.status_code == _NOT_FOUND and request.method in ("GET", "HEAD") and path.strip("/") != path[1:]:
        # To the same address without the slash too many; never to what a browser would take for another server's.
        return RedirectResponse(f"/{path.strip('/')}" + (f"?{request.url.query}" if request.url.query else ""), 308)
    missing = "no_endpoint" if path.startswith("/api/") else "no_page"
    reason = {404: missing, 405: "method", 429: "busy"}.get(error.status_code, "request")
    with spoken_to(request.scope):
        cause, remedy = (text(f"web.refused.{reason}.{part}") for part in ("cause", "remedy"))
        answer = explained(request.scope, error.status_code, reason, cause, remedy)
    answer.headers.update(error.headers or {})
    return answer


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OrihonError)
    with spoken_to(request.scope):
        return failed(request.scope, error)


async def _on_fault(request: Request, _: Exception) -> Response:
    with spoken_to(request.scope):
        cause, remedy = (text(f"web.refused.fault.{part}") for part in ("cause", "remedy"))
        return explained(request.scope, 500, "fault", cause, remedy)
