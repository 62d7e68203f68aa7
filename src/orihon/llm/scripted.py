"""``ScriptedModel``: a real HTTP server on loopback that answers from a script, in the dialect it is asked in.

For tests and demonstrations in the place of a model. Speaks OpenAI chat completions, Ollama's ``/api/chat`` and
Anthropic messages, streamed or whole, as the request wants; the path of the request tells which. A step of the script
is a reply, a fault, or a function of the request that gives one. When the script is over, every request is refused
with status 410, so that a test sees it. Requests are recorded.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from orihon.llm.scripted_dialects import DIALECTS, Reply, Speech
from orihon.system import jsonio

__all__ = ["CutConnection", "Fault", "Reply", "ScriptStep", "ScriptedModel", "ScriptedRequest", "Slow", "overflowing"]

_BLOCK = 1 << 16
_LATE = Reply("late")
_UNFINISHED = Reply("This sentence will never be finished.")


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What the server was asked. ``body`` is ``None`` where bodies are not kept."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any
    size: int
    dialect: str
    number: int  # 1, 2, 3 …

    @property
    def is_streamed(self) -> bool:
        """Does it want the answer in pieces?"""
        return bool(isinstance(self.body, Mapping) and self.body.get("stream", self.dialect == "ollama"))


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that is none: a status, a body (a text, bytes, or a value sent as JSON), headers."""

    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    def encoded(self) -> bytes:
        """The body as it is sent."""
        if isinstance(self.body, bytes):
            return self.body
        if isinstance(self.body, str):
            return self.body.encode()
        body = {"error": {"message": f"scripted fault {self.status}"}} if self.body is None else self.body
        return jsonio.encode(body)


@dataclass(frozen=True, slots=True)
class Slow:
    """Nothing for some seconds, then another step."""

    seconds: float
    then: ScriptStep = _LATE


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The connection is cut after so many bytes of another step's body."""

    after_bytes: int
    then: ScriptStep = _UNFINISHED


ScriptStep = Reply | Fault | Slow | CutConnection | Callable[[ScriptedRequest], "ScriptStep"]


def overflowing(request: ScriptedRequest) -> Fault:
    """The error of a request that does not fit the window, as the dialect words it."""
    bodies = {
        "openai": {"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 9"}},
        "ollama": {"error": "prompt too long; exceeded max context length by 9 tokens"},
        "anthropic": {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 10 tokens > 9 maximum"},
        },
    }
    return Fault(400, bodies[request.dialect])


class ScriptedModel:
    """The server. A script is a sequence of steps, or one function that is asked every time."""

    def __init__(
        self, script: Iterable[ScriptStep] | Callable[[ScriptedRequest], ScriptStep], *, keep_bodies: bool = True
    ) -> None:
        self._every = script if callable(script) else None
        self._steps: deque[ScriptStep] = deque() if callable(script) else deque(script)
        self._lock = threading.Lock()
        self._numbers = 0
        self._calls = 0
        self.keep_bodies = keep_bodies
        self.requests: list[ScriptedRequest] = []
        self.ending = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="orihon-scripted", daemon=True
        )

    @property
    def base_url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedModel:
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

    def add(self, *steps: ScriptStep) -> None:
        """More steps at the end of the script."""
        with self._lock:
            self._steps.extend(steps)

    def step_for(self, request: ScriptedRequest) -> ScriptStep:
        """The next step; functions are asked until they give something that can be sent."""
        with self._lock:
            over = Fault(410, {"error": {"message": "the script is over"}})
            step: ScriptStep = self._every or (self._steps.popleft() if self._steps else over)
        while not isinstance(step, Reply | Fault | Slow | CutConnection):
            step = step(request)
        return step

    def record(
        self, path: str, headers: Mapping[str, str], raw: bytes | None, size: int, dialect: str
    ) -> ScriptedRequest:
        """A request that has come in."""
        body = None if raw is None else _decoded(raw)
        with self._lock:
            self._numbers += 1
            request = ScriptedRequest(path, headers, body, size, dialect, self._numbers)
            self.requests.append(request)
        return request

    def call_numbers(self, count: int) -> range:
        """Numbers for the ids of calls, never the same twice."""
        with self._lock:
            self._calls += count
            return range(self._calls - count + 1, self._calls + 1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        model = self.server.model
        size = int(self.headers.get("Content-Length", 0))
        raw = self._read(size, keep=model.keep_bodies)
        dialect = next((name for ending, name in DIALECTS.items() if self.path.partition("?")[0].endswith(ending)), "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = model.record(self.path, headers, raw, size, dialect)
        if not dialect:
            self._send_fault(Fault(404, {"error": {"message": f"no such path: {self.path}"}}), None)
            return
        self._play(model.step_for(request), request, None)

    def _read(self, size: int, *, keep: bool) -> bytes | None:
        if keep:
            return self.rfile.read(size)
        while size > 0:
            size -= len(self.rfile.read(min(size, _BLOCK)))
        return None

    def _play(self, step: ScriptStep, request: ScriptedRequest, cut_after: int | None) -> None:
        model = self.server.model
        match step:
            case Slow():
                if not model.ending.wait(step.seconds):
                    self._play(step.then, request, cut_after)
            case CutConnection():
                self._play(step.then, request, step.after_bytes)
            case Fault():
                self._send_fault(step, cut_after)
            case Reply():
                speech = Speech(step, request.body, request.size, model.call_numbers(len(step.calls)))
                self._send_reply(speech, request, cut_after)
            case _:
                self._play(step(request), request, cut_after)

    def _send_fault(self, fault: Fault, cut_after: int | None) -> None:
        body = fault.encoded()
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", fault.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut_after])
        if cut_after is not None:
            self._cut()

    def _send_reply(self, speech: Speech, request: ScriptedRequest, cut_after: int | None) -> None:
        if not request.is_streamed:
            self._send_fault(Fault(200, speech.whole(request.dialect)), cut_after)
            return
        kind = "application/x-ndjson" if request.dialect == "ollama" else "text/event-stream"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = speech.streamed(request.dialect)
        for piece in pieces if cut_after is None else _first_bytes(pieces, cut_after):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            if speech.reply.pause and self.server.model.ending.wait(speech.reply.pause):
                return
        if cut_after is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._cut()

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        """The requests are recorded; nothing is printed."""


def _first_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)


def _decoded(raw: bytes) -> Any:
    try:
        return jsonio.decode(raw)
    except ValueError:
        return raw
