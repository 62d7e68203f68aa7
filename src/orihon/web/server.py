"""``WebServer``: the page of one base folder over HTTP, on this machine alone unless told otherwise.

Beyond loopback everybody on the way could read along: there it wants a certificate, or to be told that somebody else
(a proxy, a tunnel) encrypts.
"""

from __future__ import annotations

import getpass
import ipaddress
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Self

import uvicorn

from orihon.drivers.postgres import connections_kept
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.web.access import Granted, open_access
from orihon.web.app import build_app
from orihon.web.broadcaster import Broadcaster
from orihon.web.gate import authority, names_of, origin_of
from orihon.web.site import Site
from orihon.web.snapshots import open_topic

LOOPBACK = "127.0.0.1"
PORT = 8377
_LOOPBACK_NAMES = (LOOPBACK, "localhost", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - these are no names that a browser would use
_SECONDS_TO_FINISH = 2
_BACKLOG = 256
#: Far more than any browser sends before the body.
_MOST_HEADER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen. ``unencrypted`` says that beyond loopback somebody else encrypts."""

    host: str = LOOPBACK
    port: int = PORT
    names: Sequence[str] = ()  # further names by which browsers call the server
    certificate: Path | None = None
    key: Path | None = None
    unencrypted: bool = False

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    def check(self) -> None:
        """Refuse what would show everything to everybody."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidInput("web_half_certificate")
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise InvalidInput("web_certificate", path=path)
        if self.certificate is not None:
            _try_certificate(self.certificate, self.key)
        if not is_loopback(self.host) and self.certificate is None and not self.unencrypted:
            raise InvalidInput("web_beyond_loopback", host=self.host)


def is_loopback(host: str) -> bool:
    """Does nobody but this machine reach that address?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Uvicorn(uvicorn.Server):
    """Ends well at SIGINT and SIGTERM, and does not wait for pages that are open."""

    def __init__(self, config: uvicorn.Config, live: Broadcaster) -> None:
        super().__init__(config)
        self._live = live

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # the second time
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.dismiss()
        await super().shutdown(sockets)


class WebServer:
    """Answers while it is open. Use it in a ``with`` block; ``serve`` until interrupted, or ``start`` beside."""

    def __init__(
        self,
        base_dir: Path | str,
        settings: Settings,
        listening: Listening | None = None,
        *,
        read_only: bool = False,
        new_token: bool = False,
        config: Path | None = None,
    ) -> None:
        self._listening = listening or Listening()
        self._listening.check()
        self._base = base = OpenBase(base_dir, settings)
        self._settings = settings
        self._socket = _bound(self._listening.host, self._listening.port)
        try:
            self.port: int = self._socket.getsockname()[1]
            names = names_of([*self._own_names(), *self._listening.names], self._listening.scheme, self.port)
            granted = Granted(base)
            self._access = open_access(base.path, user=_me(), port=self.port, renew=new_token, granted=granted)
            self._live = Broadcaster(partial(open_topic, base))
            app = build_app(Site(base, self._live, read_only, config), self._access, names)
            self._server = _Uvicorn(self._configured(app), self._live)
        except BaseException:
            self._socket.close()
            raise
        self._thread: threading.Thread | None = None

    @property
    def token(self) -> str:
        """What a browser or a program has to show."""
        return self._access.token

    @property
    def address(self) -> str:
        """Where the page is; by the first of the names where there are some."""
        own = [] if is_loopback(self._listening.host) else list(self._listening.names)
        name = (own or self._own_names())[0]
        return origin_of(name, self._listening.scheme, self.port) + "/"

    @property
    def login_address(self) -> str:
        """The same with the token behind the ``#``, which no browser sends and no log sees."""
        return f"{self.address}#token={self.token}"

    def serve(self) -> None:
        """Until SIGINT or SIGTERM."""
        with connections_kept(self._settings):  # a new one for each request would take longer than most pages
            self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """In a thread of its own, until the block ends."""
        self._thread = threading.Thread(target=self.serve, name="orihon-web", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """After ``start``: as long as it runs."""
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self._live.close()
        self._socket.close()

    def _own_names(self) -> list[str]:
        """What the server may be called without being told: where it listens."""
        host = self._listening.host
        own = [] if host in _EVERYWHERE else [authority(host)]
        return list(dict.fromkeys([*own, *(_LOOPBACK_NAMES if not own or is_loopback(host) else ())]))

    def _configured(self, app: object) -> uvicorn.Config:
        return uvicorn.Config(
            app,  # type: ignore[arg-type]
            http="h11",
            ws="none",
            # What goes wrong is logged by the gate, under our own name; addresses and headers are in no log.
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            # Anybody on this machine could write such headers, and be somebody else in the records.
            proxy_headers=False,
            timeout_graceful_shutdown=_SECONDS_TO_FINISH,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            ssl_certfile=self._listening.certificate,
            ssl_keyfile=self._listening.key,
        )


def _try_certificate(certificate: Path, key: Path | None) -> None:
    try:
        # A password would be asked for on the terminal, and a service has none.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidInput("web_bad_certificate", path=certificate, detail=error) from error


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name for its user
        return "web"


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket; an error names who is there already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise InvalidInput("web_address", host=host, port=port, detail=error.strerror or error) from error
    return made
