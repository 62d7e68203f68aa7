"""A TCP proxy in front of a service, which cuts connections when a test says so. The service itself notices little.

``start`` listens (again at the same port), ``stop`` refuses everybody, ``cut`` ends what is open and lets new
connections in, ``cut_at_next_answer`` ends a connection when the service has answered and before the answer arrives,
``stall`` keeps connections open and passes nothing on. Real sockets, one thread for each direction.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

from tests.ports import free_port

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the other side gets a reset, not an orderly end
_PATIENCE = 120.0


class CuttingProxy:
    """Between a client and the service at ``host:port``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._cuts_answer = False
        self._answer_was_cut = threading.Event()
        self.port = free_port()  # it comes back to this one: nobody may get it meanwhile
        self.accepted = 0  # connections so far
        self.start()

    @classmethod
    def before(cls, url: str) -> CuttingProxy:
        """A proxy in front of the service that a URL names; ``url`` of the proxy leads through it."""
        place = urlsplit(url)
        assert place.hostname
        assert place.port
        return cls(place.hostname, place.port)

    def url(self, url: str) -> str:
        """The same URL, through this proxy."""
        place = urlsplit(url)
        credentials, at, _ = place.netloc.rpartition("@")
        return urlunsplit(place._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}"))

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- what tests do ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let clients in, at the port of before."""
        if self._listener is not None:
            return
        self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """The service is away: every connection is cut, and new ones are refused."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection that is open; new ones are let in."""
        self._flowing.set()
        with self._lock:
            ended, self._open = self._open, set()
        for end in ended:
            _reset(end)

    def stall(self) -> None:
        """Pass nothing on, and leave connections open, until ``flow``, ``cut`` or ``stop``."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass things on again, also what came meanwhile."""
        self._flowing.set()

    def cut_at_next_answer(self) -> None:
        """The service does what it is asked next, and its answer never arrives: the connection is cut then."""
        self._answer_was_cut.clear()
        self._cuts_answer = True

    def wait_for_cut_answer(self, timeout: float = _PATIENCE) -> bool:
        """Wait until an answer has been cut off."""
        return self._answer_was_cut.wait(timeout)

    # ---- threads ---------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # stopped
                return
            try:
                server = socket.create_connection(self._target, timeout=_PATIENCE)
            except OSError:  # the service itself is away
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                if self._listener is not listener:
                    _reset(client)
                    _reset(server)
                    return
                self.accepted += 1
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, source is server), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(_CHUNK):
                self._flowing.wait()
                if is_answer and self._take_cut():
                    break
                sink.sendall(data)
            else:
                sink.shutdown(socket.SHUT_WR)  # an orderly end is passed on; the other direction may have more to say
                with self._lock:
                    is_last = source not in self._open
                    self._open -= {sink}
                if not is_last:
                    return
                source.close()
                sink.close()
                return
        except OSError:
            pass
        with self._lock:
            self._open -= {source, sink}
        _reset(source)
        _reset(sink)

    def _take_cut(self) -> bool:
        with self._lock:
            wanted, self._cuts_answer = self._cuts_answer, False
        if wanted:
            self._answer_was_cut.set()
        return wanted


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
    end.close()
