"""Answers in time: a receiver has so many seconds for its whole answer, not for each piece of it.

The time limit of a socket begins anew with every byte that comes. A receiver that drips would hold a sender for hours,
and the row that it sends would be taken by the next one meanwhile. Imported with the first webhook.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Callable
from functools import cached_property
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, Request

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SOON = 0.001  # a limit of zero would mean: do not wait at all


class _UntilThen(io.RawIOBase):
    """What comes from a socket until a moment, and no longer."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(max(left, _SOON))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def in_time_handlers(
    seconds: Callable[[], float], check: Callable[[socket.socket], None]
) -> tuple[BaseHandler, BaseHandler]:
    """The handlers of http and https whose answers are complete within ``seconds``, or fail.

    ``check`` sees a connection before anything is sent, and raises where it must not be used.
    """

    def connected(*args: Any, **kwargs: Any) -> socket.socket:
        made = socket.create_connection(*args, **kwargs)
        check(made)
        return made

    class Answer(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp.close()
            self.fp = io.BufferedReader(_UntilThen(sock, seconds()))

    class Plain(HTTPConnection):
        response_class = Answer

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._create_connection = connected

    class Secure(HTTPSConnection):
        response_class = Answer

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._create_connection = connected

    class PlainHandler(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(HTTPSHandler):
        @cached_property
        def _trust(self) -> ssl.SSLContext:
            """Once for all: reading what this machine trusts takes longer than a request."""
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            return context

        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Secure, req, context=self._trust)

    return PlainHandler(), SecureHandler()
