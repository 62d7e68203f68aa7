"""An HTTP server on loopback for tests of task sources: it answers by a function, and fails when told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next ``times`` requests of this method whose path holds ``part``."""

    method: str
    part: str
    answer: Answer | None  # None: the connection is cut
    after: bool = False  # the request is carried out, and only its answer is lost
    times: int = 1


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What somebody else does just before the next request of this method whose path holds ``part``."""

    method: str
    part: str
    act: Callable[[], object]


class ForgeServer(ThreadingHTTPServer):
    """Keeps what it was asked; subclasses say what they answer."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: list[Fault] = []
        self.meanwhile: list[Meanwhile] = []
        self.requests: list[Request] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}"

    def answer(self, request: Request) -> Answer:
        raise NotImplementedError

    def take_fault(self, request: Request) -> Fault | None:
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times and fault.method == request.method and fault.part in request.path:
                    fault.times -= 1
                    return fault
        return None

    def let_others_act(self, request: Request) -> None:
        with self.lock:
            due = [each for each in self.meanwhile if each.method == request.method and each.part in request.path]
            self.meanwhile = [each for each in self.meanwhile if each not in due]
        for each in due:
            each.act()

    def count(self, method: str, part: str = "") -> int:
        return sum(each.method == method and part in each.path for each in self.requests)


class _Handler(BaseHTTPRequestHandler):
    server: ForgeServer
    protocol_version = "HTTP/1.1"
    # Headers and body go out in two pieces; without this the second one waits for the client's acknowledgement.
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        self.server.let_others_act(request)
        fault = self.server.take_fault(request)
        answer: Answer | None = self.server.answer(request) if fault is None or fault.after else None
        if fault is not None:
            answer = fault.answer
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """Tests say enough."""


@contextmanager
def running(server: ForgeServer) -> Iterator[None]:
    """The server answers inside the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
