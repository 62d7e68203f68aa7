"""A running web server for tests, and requests to it that may look like anything.

``http.client`` and not a comfortable one: what tests send must reach the server as it is, twice the same header too.
"""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from orihon.settings import Settings, load_settings
from orihon.system import jsonio
from orihon.web.server import Listening, WebServer

_PATIENCE = 60.0
_MARK = re.compile(r'<meta name="csrf" content="([A-Za-z0-9_-]{43})">')


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def value(self) -> Any:
        return jsonio.decode(self.body)

    @property
    def reason(self) -> str:
        """Why a program was refused."""
        return str(self.value["error"]["reason"])


class Client:
    """Somebody who asks a server, at first without having shown anything."""

    def __init__(
        self, server: WebServer, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None, token: str = ""
    ) -> None:
        self.server = server
        self.token = token or server.token
        self.cookie = ""
        self.mark = ""
        self._host, self._tls = host, tls

    @property
    def origin(self) -> str:
        return self.server.address.rstrip("/")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        """One request; ``headers`` take the place of what a client of this kind would say, "" leaves one out."""
        said = {"Host": f"{self._host}:{self.server.port}", "Cookie": self.cookie}
        if isinstance(body, Mapping):
            body, said = jsonio.encode(body), said | {"Content-Type": "application/json"}
        data = body.encode() if isinstance(body, str) else body
        if data is not None:
            said["Content-Length"] = str(len(data))
        said |= headers or {}
        connection = self._connected()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in (*((name, value) for name, value in said.items() if value), *more):
                connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            is_endless = answer.status == 200 and answer.headers.get_content_type() == "text/event-stream"
            return Answer(answer.status, answer.headers, b"" if is_endless else answer.read())
        finally:
            connection.close()

    def log_in(self) -> Client:
        """Show the token as the form does; from here on with cookie and mark."""
        answer = self.ask("POST", "/login", urlencode({"token": self.token}), {"Content-Type": _FORM})
        assert answer.status == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        found = _MARK.search(self.ask("GET", "/").text)
        assert found is not None
        self.mark = found[1]
        return self

    def change(self, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """A change, as our own pages ask for it."""
        return self.ask("POST", path, body or {}, {"x-csrf-token": self.mark, "Origin": self.origin})

    def as_program(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """With the token in the header."""
        return self.ask(method, path, body, {"Authorization": f"Bearer {self.token}", "Cookie": ""})

    def _connected(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self.server.port, timeout=_PATIENCE)
        return http.client.HTTPSConnection(self._host, self.server.port, timeout=_PATIENCE, context=self._tls)


_FORM = "application/x-www-form-urlencoded"


@contextmanager
def serving(
    base: Path, settings: Settings | None = None, listening: Listening | None = None, **more: Any
) -> Iterator[WebServer]:
    """A server on a free port of this machine."""
    chosen = settings or load_settings({}, environ={})
    with WebServer(base, chosen, listening or Listening(port=0), **more) as server:
        server.start()
        yield server
