"""A server on loopback that takes notifications, as a user's own would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from orihon.system import jsonio

PATIENCE = 60.0  # seconds; nothing here takes so long unless it hangs


class Receiver(ThreadingHTTPServer):
    """A real server on loopback that keeps what it is sent and answers as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []  # then 204
        self.connections = 0  # with or without a request
        self.raw: list[bytes] = []
        self.bodies: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.arrived = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away without waiting for its answer is part of these tests."""

    def wait_for_arrival(self) -> None:
        assert self.arrived.acquire(timeout=PATIENCE)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.raw.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(jsonio.decode(self.server.raw[-1]))
        self.server.requests.append((self.path, dict(self.headers)))
        answer = self.server.answers.pop(0) if self.server.answers else 204
        self.server.arrived.release()
        self.server.gate.wait(4 * PATIENCE)  # whoever closes it opens it again
        self.send_response(answer)
        if 300 <= answer < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Not to the screen."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """The server, for the block."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.gate.set()
            server.shutdown()
            thread.join()


def closed_port() -> int:
    """A port on which nobody answers, now or later: it is taken as long as this process runs, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
        taken.detach()
    return port


@contextmanager
def dripping(pieces: Iterable[bytes], pause: float) -> Iterator[str]:
    """The address of a receiver that answers one piece after the other, for as long as it is listened to."""

    def answer() -> None:
        with suppress(OSError):  # nobody comes, or whoever came is gone
            connection, _ = server.accept()
            with connection:
                drip(connection)

    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)
            if stop.wait(pause):
                return

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        finally:
            stop.set()
            thread.join()
