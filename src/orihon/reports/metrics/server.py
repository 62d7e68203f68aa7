"""The metrics once, or over HTTP at ``/metrics``.

The server has one connection to the catalogue and answers one request at a time. How many bytes everything takes is
measured by a thread of its own from time to time: a walk over very many tasks takes longer than anybody waits.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from orihon.errors import InvalidInput, OrihonError
from orihon.reports.metrics.collect import collect
from orihon.reports.metrics.families import Sample, counted, written
from orihon.reports.storage import FileSizes, known_sizes, measure, sizes_of
from orihon.settings import Settings
from orihon.system.crowd import BoundedHTTPServer, Crowd, most_connections
from orihon.tasks.base import OpenBase, opened_base

logger = logging.getLogger("orihon.metrics")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"
#: Seconds for which a measured size is good enough.
SIZE_AGE = 300.0
#: A walk may take this share of the time.
_WALKING = 0.05
_LONGEST_PATH = 100


def collect_metrics(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> str:
    """The metrics of this moment in the text format of Prometheus."""
    return written(metric_samples(base_dir, settings))


def metric_samples(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> list[Sample]:
    """The same as values."""
    base = opened_base(base_dir, settings)
    catalogue = base.open_catalogue()
    return list(counted({})) if catalogue is None else collect(catalogue, base, sizes_of(base.path, SIZE_AGE))


class MetricsServer:
    """Answers ``GET /metrics`` while it is open. Use it in a ``with`` block, and ``serve`` until it is closed."""

    def __init__(
        self,
        base_dir: OpenBase | Path | str | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        *,
        host: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        """Listen at ``host``; port 0 takes a free one (``address`` says which)."""
        self._base = opened_base(base_dir, settings)
        self.limits = self._base.settings.web
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._sizes: FileSizes | None = known_sizes(self._base.path)
        self._http = _listening(host, port, self)
        self._walker = threading.Thread(target=self._walk, name="orihon-sizes", daemon=True)
        self._walker.start()

    @property
    def address(self) -> str:
        """Where the metrics are."""
        host, port = self._http.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/metrics"

    def serve(self) -> None:
        """Answer until ``close`` is called, by another thread or a signal."""
        self._http.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Answer no more."""
        self._over.set()
        self._http.shutdown_if_serving()
        self._http.server_close()
        with self._turn:
            self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def text(self) -> str:
        """The metrics of this moment."""
        with self._turn:
            catalogue = self._base.open_catalogue()
            return written(counted({}) if catalogue is None else collect(catalogue, self._base, self._sizes))

    def _walk(self) -> None:
        known = self._sizes
        pause = 0.0 if known is None else SIZE_AGE - min(max(time.time() - known.measured_at, 0.0), SIZE_AGE)
        while not self._over.wait(pause):
            self._sizes = measure(self._base.path)
            pause = max(SIZE_AGE, self._sizes.took / _WALKING)


class _Http(BoundedHTTPServer):
    def __init__(self, address: tuple[str, int], owner: MetricsServer, *, is_private: bool) -> None:
        self.owner = owner
        self.is_private = is_private
        self._is_serving = threading.Event()
        limits = owner.limits
        crowd = Crowd(most_connections(limits.max_connections), limits.max_connections_per_peer)
        super().__init__(address, _Request, crowd, limits.header_seconds, limits.write_seconds)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        self._is_serving.set()
        super().serve_forever(poll_interval)

    def shutdown_if_serving(self) -> None:
        """``shutdown`` waits for a loop that must have begun."""
        if self._is_serving.is_set():
            self.shutdown()


class _Http6(_Http):
    address_family = socket.AF_INET6


def _listening(host: str, port: int, owner: MetricsServer) -> _Http:
    if not host.strip():  # which the system takes for every address of the machine
        raise InvalidInput("no_host")
    try:
        kind = _Http6 if ":" in host else _Http
        return kind((host, port), owner, is_private=_is_loopback(host))
    except (OSError, OverflowError, UnicodeError) as error:
        raise InvalidInput("cannot_listen", host=host, port=port, detail=str(error)) from error


class _Request(BaseHTTPRequestHandler):
    server_version = "orihon"
    sys_version = ""
    server: _Http

    def do_GET(self) -> None:
        self.server.is_whole(self.connection)
        if self.server.is_private and not _is_loopback(_host_in(self.headers.get("Host", ""))):
            self._answer(HTTPStatus.FORBIDDEN, "This address is for this machine only.\n")
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(HTTPStatus.NOT_FOUND, "See /metrics.\n")
        else:
            self._answer(*self._metrics())

    do_HEAD = do_GET

    def _metrics(self) -> tuple[HTTPStatus, str]:
        try:
            return HTTPStatus.OK, self.server.owner.text()
        except OrihonError as error:  # the next look may do better
            logger.warning("the metrics could not be collected: %s", error)
            return HTTPStatus.SERVICE_UNAVAILABLE, f"{error.cause}\n"

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        asked = ascii(getattr(self, "path", ""))[:_LONGEST_PATH]  # a request that is none has no path
        logger.debug("%s %s", self.address_string(), asked)


def _host_in(header: str) -> str:
    """The host of a ``Host`` header, without its port."""
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
