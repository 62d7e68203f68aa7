"""Chat completions over real HTTP for tests: a server on loopback that plays a script, and a small client."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer of the server."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    hangs: bool = False  # sends nothing before the server ends
    cut_after: int | None = None  # bytes of the body after which the connection is cut


def says(text: str) -> Scripted:
    """A completion with this text."""
    return Scripted(json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode())


def problem(status: int, **error: object) -> Scripted:
    """An error in the form of OpenAI's servers."""
    return Scripted(json.dumps({"error": error}).encode(), status)


class ScriptedServer(ThreadingHTTPServer):
    """Gives its answers in order, the last one for ever, and keeps what it was asked."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answers: list[Scripted]) -> None:
        self.answers = answers
        self.requests: list[dict[str, Any]] = []
        self.ending = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.hangs:
            self.server.ending.wait(60)
        self.send_response(answer.status if self.path == PATH else 404)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: answer.cut_after])
        if answer.cut_after is not None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        """Tests say enough."""


@contextmanager
def serving(*answers: Scripted) -> Iterator[ScriptedServer]:
    """A server that plays the script."""
    with ScriptedServer(list(answers)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            server.shutdown()
            thread.join()


class ServerError(Exception):
    """The server refused; its words are in ``body``."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"HTTP status {status}")
        self.body = body


class HttpChatClient:
    """The least that a client does."""

    def __init__(self, url: str, timeout: float | None = None) -> None:
        self.url = url
        self.timeout = timeout
        self.refusals: list[ServerError] = []

    def create_chat_completion(self, messages: list[dict[str, str]], *, max_tokens: int, temperature: float) -> Any:
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": temperature}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + PATH, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                answer = response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                self.refusals.append(ServerError(error.code, error.read().decode()))
            raise self.refusals[-1] from error
        return json.loads(answer) if response.headers.get_content_type() == "application/json" else answer
