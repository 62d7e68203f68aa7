"""``Crowd``: who is connected to a server of ours, and who has to go when there is no room (a connection limit).

A server that waits for everybody who has begun to speak can be filled with silence. So there is room for so many in all
and for each peer, and when it is used up, the one that keeps the server waiting goes, the oldest first: whoever sends a
whole request gets in, even from the same address. ``BoundedHTTPServer`` is a server of threads that keeps to this; the
page has one of its own.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

logger = logging.getLogger("orihon.crowd")

#: Who comes from this machine comes from one address, and is not to be shut out by a neighbour.
SHARED = ""
#: What somebody is told for whom there is no room.
NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_SECONDS_BETWEEN_WARNINGS = 60.0
_FEWEST = 4


def peer_of(host: str) -> str:
    """For whom a connection counts: an address, of IPv6 the network; ``SHARED`` for this machine."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return SHARED
    return str(address) if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


def most_connections(wanted: int) -> int:
    """As many as wanted, and no more than leave descriptors for what has to be opened to answer them."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = limit - sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):  # a system that counts in another way
        return wanted
    return wanted if limit == resource.RLIM_INFINITY else max(_FEWEST, min(wanted, free // 3))


class Guest(Protocol):
    """Somebody who takes up room."""

    @property
    def peer(self) -> str:
        """For whom it counts."""

    @property
    def rank(self) -> int | None:
        """Those with the lowest go first; ``None``: this one is being served and stays."""

    def end(self) -> None:
        """Close the connection."""


class Crowd:
    """All guests of one server, the oldest first. Threads may share it."""

    def __init__(self, most: int, most_for_peer: int) -> None:
        self._most, self._most_for_peer = most, most_for_peer
        self._guests: dict[Guest, None] = {}
        self._sizes: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._warned = -_SECONDS_BETWEEN_WARNINGS

    def admit(self, guest: Guest) -> bool:
        """Take somebody in, in place of another if need be; ``False`` where all others are being served."""
        with self._lock:
            gone: Guest | None = None
            if guest.peer != SHARED and self._sizes[guest.peer] >= self._most_for_peer:
                gone = self._first_to_go(one for one in self._guests if one.peer == guest.peer)
                has_room = gone is not None
            else:
                has_room = len(self._guests) < self._most or (gone := self._first_to_go(self._guests)) is not None
            if gone is not None:
                self._forget(gone)
            if has_room:
                self._guests[guest] = None
                self._sizes[guest.peer] += 1
        if gone is not None:
            gone.end()
        return has_room

    def make_room(self) -> bool:
        """Send one away: there are no more descriptors."""
        with self._lock:
            gone = self._first_to_go(self._guests)
            if gone is not None:
                self._forget(gone)
        if gone is not None:
            gone.end()
        return gone is not None

    def leave(self, guest: Guest) -> None:
        """This one has gone."""
        with self._lock:
            if guest in self._guests:
                self._forget(guest)

    def all(self) -> list[Guest]:
        with self._lock:
            return list(self._guests)

    def warn(self, error: OSError) -> None:
        """Nobody can be let in now; said now and then, and not for each of those who wait."""
        now = time.monotonic()
        if now - self._warned >= _SECONDS_BETWEEN_WARNINGS:
            self._warned = now
            logger.warning("connections cannot be accepted now: %s", error.strerror)

    def _first_to_go(self, among: Iterable[Guest]) -> Guest | None:
        """Of those that can go the oldest one of the peer that has most."""
        ranked = ((rank, -self._sizes[one.peer], one) for one in among if (rank := one.rank) is not None)
        return min(ranked, key=lambda found: found[:2], default=(0, 0, None))[2]

    def _forget(self, guest: Guest) -> None:
        del self._guests[guest]
        self._sizes[guest.peer] -= 1
        if not self._sizes[guest.peer]:
            del self._sizes[guest.peer]


class OwnTime:
    """Seconds that a server has had for its guests: while it stood still itself, nobody was late."""

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def tick(self) -> float:
        """The time, from one look to the next at most a second later."""
        before, self._last = self._last, time.monotonic()
        self.now += min(self._last - before, 1.0)
        return self.now


# ---- a server of threads ---------------------------------------------------------------------------------------------


class _Line:
    """A connection of a server of threads: it may take only so long until its request is there."""

    def __init__(self, line: socket.socket, peer: str, since: float) -> None:
        self.peer, self.since, self.is_whole = peer, since, False
        self._line = line

    @property
    def rank(self) -> int | None:
        return None if self.is_whole else 0

    def end(self) -> None:
        with suppress(OSError):  # its thread reads an end, and goes
            self._line.shutdown(socket.SHUT_RDWR)


class BoundedHTTPServer(ThreadingHTTPServer):
    """Has no more threads than there may be connections. One connection is one request."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        crowd: Crowd,
        header_seconds: float,
        write_seconds: float,
    ) -> None:
        self._crowd, self._header_seconds, self._write_seconds = crowd, header_seconds, write_seconds
        self._time = OwnTime()
        self._lines: dict[socket.socket, _Line] = {}
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            line, address = super().get_request()
        except OSError as error:
            self._crowd.warn(error)
            if not self._crowd.make_room():
                time.sleep(0.1)  # the next one is waiting, and cannot be let in any sooner
            raise
        line.settimeout(self._header_seconds)
        return line, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        guest = _Line(request, peer_of(client_address[0]), self._time.now)
        if self._crowd.admit(guest):
            self._lines[request] = guest
            return True
        with suppress(OSError):
            request.send(NO_ROOM)
        return False

    def is_whole(self, request: socket.socket) -> None:
        """A request is there, and nobody takes its place."""
        self._lines[request].is_whole = True
        request.settimeout(self._write_seconds)

    def shutdown_request(self, request: Any) -> None:
        guest = self._lines.pop(request, None)
        if guest is not None:
            self._crowd.leave(guest)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Now and then: a timeout of the socket begins anew with every byte."""
        over = self._time.tick() - self._header_seconds
        for guest in list(self._lines.values()):
            if not guest.is_whole and guest.since < over:
                guest.end()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away in the middle is no news."""
        level = logging.DEBUG if isinstance(sys.exception(), OSError) else logging.ERROR
        logger.log(level, "a request could not be answered", exc_info=True)
