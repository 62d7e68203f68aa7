"""``Upstream``: a provider on loopback. A script says what the model answers; everything else is as strict as theirs.

A step is a reply, a fault, a slow or cut one, or a function of the request that gives one. What ``aside`` answers takes
no step: clients ask for titles and the like. A history that a provider would refuse is refused, and is a flaw of the
request. A request beyond the script is refused with status 410, which no client takes for a moment's trouble. With
``record_in`` every request is a file there.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

from orihon.llm.scripted import CutConnection, Fault, Slow
from orihon.llm.scripted_dialects import Reply
from orihon.system import jsonio
from tests.upstream import chat, messages, responses, strict, wires
from tests.upstream.cache import Cache, token_count
from tests.upstream.records import Request, Usage, decoded

Step = Reply | Fault | Slow | CutConnection | Callable[[Request], "Step"]
Aside = Callable[[Request], "Step | None"]
_WIRES: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}


class Upstream:
    """The provider."""

    def __init__(
        self,
        script: Iterable[Step] | Callable[[Request], Step] = (),
        *,
        aside: Aside | None = None,
        window: int | None = None,
        models: tuple[str, ...] = ("scripted",),
        count: Callable[[bytes], int] = token_count,
        record_in: Path | None = None,
        port: int = 0,
    ) -> None:
        self._every = script if callable(script) else None
        self._steps: deque[Step] = deque() if callable(script) else deque(script)
        self._aside = aside
        self._lock = threading.Lock()
        self._given: dict[str, set[str]] = {}  # responses by their ids, and the calls in them
        self.window = window
        self.models = models
        self.cache = Cache(count)
        self.record_in = record_in
        self.requests: list[Request] = []
        self.ending = threading.Event()
        self._server = _Server(self, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="upstream", daemon=True
        )

    @property
    def base_url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End; answers that are still slow are dropped."""
        self.ending.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def add(self, *steps: Step) -> None:
        """More steps at the end of the script."""
        with self._lock:
            self._steps.extend(steps)

    @property
    def is_over(self) -> bool:
        """Has every step been asked for?"""
        with self._lock:
            return not self._steps

    @property
    def turns(self) -> list[Request]:
        """The requests that the script has answered."""
        return [request for request in self.requests if request.wire and not request.is_aside]

    @property
    def flaws(self) -> list[str]:
        """All that a provider would have refused."""
        return [f"request {request.number}: {flaw}" for request in self.requests for flaw in request.flaws]

    # ---- for the handler ---------------------------------------------------------------------------------------

    def received(self, method: str, path: str, headers: tuple[tuple[str, str], ...], raw: bytes) -> Request:
        """A request that has come in."""
        with self._lock:
            request = Request(len(self.requests) + 1, method, path, headers, raw, decoded(raw))
            self.requests.append(request)
        return request

    def answered(self, request: Request, status: int) -> None:
        """Before the answer is sent: who has got it finds it here."""
        request.status = status
        if self.record_in is not None:
            self.record_in.mkdir(parents=True, exist_ok=True)
            (self.record_in / f"{request.number:04d}.json").write_bytes(jsonio.encode_pretty(request.as_json()))

    def step_for(self, request: Request) -> Step:
        """What a request on one of the wires gets."""
        with self._lock:
            given = dict(self._given)
        request.flaws = strict.flaws(request, given)
        if request.flaws:
            return wires.refusal(request.wire, request.flaws[0])
        if self.window is not None and (tokens := self.cache.size(request)) > self.window:
            return wires.overflowing(request, tokens, self.window)
        step: Step | None = self._aside(request) if self._aside else None
        request.is_aside = step is not None
        if step is None:
            with self._lock:
                over = wires.refusal(request.wire, "the script is over", status=410)
                step = self._every or (self._steps.popleft() if self._steps else over)
        while not isinstance(step, Reply | Fault | Slow | CutConnection):
            step = step(request)
        return step

    def usage_of(self, request: Request, reply: Reply) -> Usage:
        """What the reply says, or what follows from the cache."""
        if reply.usage is not None:
            given = reply.usage
            return Usage(given["input"], given.get("cached", 0), given.get("written", 0), given["output"])
        parts = [reply.text, reply.reasoning, *(str(call[1]) for call in reply.calls)]
        return self.cache.answered(self.cache.look(request), parts)

    def give(self, answer: wires.Answer) -> None:
        """A response that a later request may name."""
        if answer.request.wire == "responses":
            with self._lock:
                self._given[f"resp_{answer.id}"] = {call.id for call in answer.calls}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, upstream: Upstream, port: int) -> None:
        self.upstream = upstream
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        request = self._received()
        if request.kind == "models":
            self._send(request, Fault(200, wires.models(request, self.server.upstream.models)), None)
        else:
            self._send(request, wires.refusal("chat", f"no such path: {self.path}", status=404), None)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        upstream, request = self.server.upstream, self._received()
        if request.kind == "count":
            tokens = upstream.cache.size(request)
            self._send(request, Fault(200, {"input_tokens": tokens}), None)
        elif request.wire:
            self._play(upstream.step_for(request), request, None)
        else:
            self._send(request, wires.refusal("chat", f"no such path: {self.path}", status=404), None)

    def _received(self) -> Request:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self.server.upstream.received(self.command, self.path, tuple(self.headers.items()), raw)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def _play(self, step: Step, request: Request, cut_after: int | None) -> None:
        upstream = self.server.upstream
        match step:
            case Slow():
                if not upstream.ending.wait(step.seconds):
                    self._play(step.then, request, cut_after)  # type: ignore[arg-type]
            case CutConnection():
                self._play(step.then, request, step.after_bytes)  # type: ignore[arg-type]
            case Fault():
                self._send(request, step, cut_after)
            case Reply():
                self._reply(step, request, cut_after)
            case _:
                self._play(step(request), request, cut_after)

    def _reply(self, reply: Reply, request: Request, cut_after: int | None) -> None:
        upstream = self.server.upstream
        request.usage = upstream.usage_of(request, reply)
        answer = wires.made_answer(reply, request, request.usage)
        upstream.give(answer)
        wire = _WIRES[request.wire]
        if request.is_streamed:
            self._stream(request, wire.streamed(answer), reply.pause, cut_after)
        else:
            self._send(request, Fault(200, wire.whole(answer)), cut_after)

    def _send(self, request: Request, fault: Fault, cut_after: int | None) -> None:
        body = fault.encoded()
        self.server.upstream.answered(request, fault.status)
        self.send_response(fault.status)
        for name, value in (*fault.headers.items(), *self._own_headers(request)):
            self.send_header(name, value)
        self.send_header("Content-Type", fault.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(body[:cut_after])
        if cut_after is not None:
            self._cut()

    def _stream(self, request: Request, pieces: Iterable[bytes], pause: float, cut_after: int | None) -> None:
        self.server.upstream.answered(request, 200)
        self.send_response(200)
        for name, value in self._own_headers(request):
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces if cut_after is None else _first_bytes(pieces, cut_after):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            if pause and self.server.upstream.ending.wait(pause):
                return
        if cut_after is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._cut()

    def _own_headers(self, request: Request) -> list[tuple[str, str]]:
        name = "request-id" if request.wire == "messages" else "x-request-id"
        return [(name, f"req_{request.number:024d}")]

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """The requests are recorded; nothing is printed."""


def _first_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)
