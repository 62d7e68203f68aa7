"""``WebServer``: the page of one base folder over HTTP, on this machine alone unless told otherwise.

Beyond loopback everybody on the way could read along: there it wants a certificate, or to be told that somebody else
(a proxy, a tunnel) encrypts.

The door accepts connections itself, so that each one counts from its first moment, TLS handshakes too. Half-sent
requests, idle connections and readers who do not read have deadlines, and when there is no more room, the oldest of
them goes; whoever was let in and is being answered stays, as long as the grant is good.
"""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
import math
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

import h11
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from orihon.drivers.postgres import connections_kept
from orihon.errors import InvalidInput, OrihonError
from orihon.settings import Settings
from orihon.settings.runtime_sections import WebSettings
from orihon.system.crowd import NO_ROOM, Crowd, OwnTime, most_connections, peer_of
from orihon.tasks.base import OpenBase
from orihon.web.access import Access, Granted, Visitor, open_access
from orihon.web.app import build_app
from orihon.web.broadcaster import Broadcaster
from orihon.web.gate import Names, authority, names_of, origin_of
from orihon.web.site import Shares, Site
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


# ---- connections -----------------------------------------------------------------------------------------------------

#: So many are accepted before those who are in have a turn: nobody has to go who could not yet speak.
_AT_ONCE = 16
_SECONDS_BETWEEN_LOOKS = 1.0
_DROP = struct.pack("ii", 1, 0)


class _Connection(H11Protocol):
    """One connection from the moment it is accepted: what the server waits for, and since when."""

    def __init__(self, peer: str, limits: WebSettings, time: OwnTime, leave: Callable[[_Connection], None], **uv: Any):
        super().__init__(**uv)
        self.peer = peer
        self.visitor: Visitor | None = None  # who was let in by the last request
        self.part: Callable[[], None] | None = None  # how to end a stream in good order
        self.entering: asyncio.Task[None] | None = None
        self._limits, self._time, self._leave = limits, time, leave
        self._phase, self._since = "header", time.now
        self._line: asyncio.Transport | None = None
        self._blocked: float | None = None  # since when the reader takes nothing
        self._site, self.app = self.app, self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["connection"] = self
        self.visitor = None
        try:
            await self._site(scope, receive, send)
        finally:
            self.part = None

    @property
    def rank(self) -> int | None:
        """Strangers that keep us waiting go first, then those who rest, then strangers that are being answered."""
        if self._phase in ("header", "idle"):
            return 0 if self.visitor is None else 1
        if self._blocked is not None:
            return 0 if self.visitor is None else 1
        if self.visitor is not None:
            return None
        return 0 if self._phase == "body" else 2

    @property
    def is_answered(self) -> bool:
        """Is there an answer on its way?"""
        return self._phase in ("body", "answer")

    def is_late(self) -> bool:
        """Has it kept us waiting for too long?"""
        if self._line is not None and self._blocked is None:
            has_answered = self._phase == "idle" or self._line.is_closing()
            if has_answered and self._line.get_write_buffer_size() > 0:
                self._blocked = self._time.now  # the end of an answer, for which nobody waits on our side
        if self._blocked is not None:
            return self._time.now - self._blocked > self._limits.write_seconds
        seconds = {"header": self._limits.header_seconds, "body": self._limits.body_seconds}.get(self._phase)
        seconds = self._limits.idle_seconds if self._phase == "idle" else seconds
        return seconds is not None and self._time.now - self._since > seconds + _SECONDS_BETWEEN_LOOKS

    def end(self) -> None:
        """At once, with all that is still on its way: who reads nothing would hold it for a long time."""
        if self._line is not None:
            with suppress(OSError):
                self._line.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
            self._line.abort()
        elif self.entering is not None:
            self.entering.cancel()

    def dismiss(self) -> None:
        """A stream of events with a last word, anything else at once, so that nobody takes the half for the whole."""
        part, self.part = self.part, None
        (part or self.end)()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._line = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._phase == "idle":
            self._now("header")
        super().data_received(data)

    def handle_events(self) -> None:
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # what comes after an answer is no HTTP, and there is no way to say so
            self.transport.abort()
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._now("body")
        elif state is h11.IDLE:
            self._now("idle" if self._phase == "body" else self._phase)  # after the rest of what nobody wanted to read
        elif state is not h11.ERROR and not self.cycle.response_complete:
            self._now("answer")

    def send_400_response(self, msg: str) -> None:
        begun: RequestResponseCycle | None = vars(self)["cycle"]
        if begun is not None:  # what is being made for the first half of it has nobody to go to
            begun.disconnected = True
            begun.message_event.set()
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        if self.conn.their_state is not h11.SEND_BODY:
            self._now("idle")
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._blocked = self._time.now
        super().pause_writing()

    def resume_writing(self) -> None:
        self._blocked = None
        super().resume_writing()

    def _now(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, self._time.now


class _Door:
    """Accepts connections, and closes those that have no right to stay."""

    def __init__(
        self, listener: socket.socket, limits: WebSettings, most: int, is_still_in: Callable[[Visitor], bool]
    ) -> None:
        self._socket, self._limits, self._is_still_in = listener, limits, is_still_in
        self._crowd = Crowd(most, limits.max_connections_per_peer)
        self._at_once = min(_AT_ONCE, most // 4)
        self._time = OwnTime()

    def open(self, made: Callable[..., _Connection], tls: ssl.SSLContext | None) -> None:
        """Accept from now on; ``made`` makes a connection, but for what this door gives it."""
        self._made, self._tls = made, tls
        self._loop = asyncio.get_running_loop()
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)
        self._looking = self._loop.create_task(self._look())

    def close(self) -> None:
        """Accept nobody any more, and wait for nobody who has not yet come in."""
        self._loop.remove_reader(self._socket)
        self._looking.cancel()
        for one in self._connections():
            if one.entering is not None:
                one.entering.cancel()
        os.close(self._spare)

    def _connections(self) -> list[_Connection]:
        return [one for one in self._crowd.all() if isinstance(one, _Connection)]

    def _accept(self) -> None:
        for _ in range(self._at_once):
            try:
                line, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._turn_away(error)
                return
            made = self._made(peer_of(address[0]), self._limits, self._time, self._crowd.leave)
            if self._crowd.admit(made):
                made.entering = self._loop.create_task(self._enter(line, made))
                continue
            with suppress(OSError):
                line.setblocking(False)
                line.send(b"" if self._tls else NO_ROOM)
            line.close()

    async def _enter(self, line: socket.socket, made: _Connection) -> None:
        try:
            _stay_awake(line, self._limits.write_seconds)
            seconds = self._limits.header_seconds if self._tls else None
            await self._loop.connect_accepted_socket(lambda: made, line, ssl=self._tls, ssl_handshake_timeout=seconds)
        except (OSError, asyncio.CancelledError):  # it has gone, speaks no TLS, or was sent away
            line.close()
            self._crowd.leave(made)
        finally:
            made.entering = None

    def _turn_away(self, error: OSError) -> None:
        """There is no descriptor for the next one: the oldest goes, or else the next one itself."""
        self._crowd.warn(error)
        if self._crowd.make_room():
            return
        os.close(self._spare)
        try:
            with suppress(OSError):
                self._socket.accept()[0].close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)

    async def _look(self) -> None:
        """Again and again: who is late, and who has lost the grant."""
        checking: asyncio.Task[None] | None = None
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            self._time.tick()
            for one in self._connections():
                if one.is_late():
                    one.end()
            if checking is None or checking.done():
                checking = self._loop.create_task(self._check())

    async def _check(self) -> None:
        answered = [(one, one.visitor) for one in self._connections() if one.is_answered and one.visitor is not None]
        out = await run_in_threadpool(self._lost, {visitor for _, visitor in answered}) if answered else set()
        for one, visitor in answered:
            if visitor in out and one.visitor is visitor:
                one.dismiss()

    def _lost(self, visitors: set[Visitor]) -> set[Visitor]:
        found = set()
        for visitor in visitors:
            try:
                is_out = not self._is_still_in(visitor)
            except (OrihonError, OSError):  # nobody can say: who asks again is told so
                is_out = True
            if is_out:
                found.add(visitor)
        return found


def _stay_awake(line: socket.socket, seconds: float) -> None:
    """Notice that the other side is gone; not before it was told why, if it only reads nothing."""
    with suppress(OSError):
        # The head and the body of a short answer are two packets: the second would wait for the first one's receipt.
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int((2 * seconds + 10) * 1000))


class _Uvicorn(uvicorn.Server):
    """Ends well at SIGINT and SIGTERM, and does not wait for pages that are open."""

    def __init__(self, config: uvicorn.Config, live: Broadcaster, door: _Door) -> None:
        super().__init__(config)
        self._live, self._door = live, door

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # the second time
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # it would accept everybody
        shared = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        self._door.open(partial(_Connection, **shared), self.config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.close()
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
            most = most_connections(settings.web.max_connections)
            app = self._application(_site(base, self._live, read_only, config, most), self._access, names)
            door = _Door(self._socket, settings.web, most, self._access.is_still_in)
            self._server = _Uvicorn(self._configured(app), self._live, door)
        except BaseException:
            self._socket.close()
            raise
        self._thread: threading.Thread | None = None

    def _application(self, site: Site, access: Access, names: Names) -> ASGIApp:
        """What answers behind the door."""
        return build_app(site, access, names)

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
            timeout_keep_alive=math.ceil(self._settings.web.idle_seconds),
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


def _site(base: OpenBase, live: Broadcaster, read_only: bool, config: Path | None, most: int) -> Site:
    """What is shown. Streams may take half of the connections, and the requests of one user a quarter."""
    streams = Crowd(most // 2, base.settings.web.max_streams_per_user)
    at_once = min(12, most // 4)
    requests = Shares(at_once, min(48, most // 4 - at_once), 24)
    return Site(base, live, read_only, config, requests=requests, streams=streams)


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
