"""One HTTP request to a provider, its body streamed from disk, its answer read as it comes.

Promises: the body is never in memory as a whole (64 KiB at a time); a call ends within its time limits and, when
somebody cancels it, at once (only the making of a connection has to run into its own limit); the errors of the HTTP
library are wrapped here, once, with their cause. Errors name the address without user names, passwords or queries, and
never a header. An answer larger than ``LARGEST_ANSWER`` is refused. A model on this machine is asked directly, whatever
proxy the environment names. Nothing is sent to an address at which a cloud hands out credentials, unless it is allowed.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orihon.errors import Cancelled, CutOff, LLMError, NotJSON, TimedOut, Unreachable
from orihon.llm.endpoints import parsed
from orihon.notifications.targets import is_metadata, names_metadata
from orihon.system.files import wrapping

if TYPE_CHECKING:
    import ssl

    import httpx

LARGEST_ANSWER = 64 * 1024 * 1024
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
_CONNECTED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, between two pieces of the answer (the first one too), and for all of it."""

    connect: float = 10.0
    read: float = 300.0
    total: float = 1800.0


class CancellableCall:
    """One call of a model, which other threads may end. It may take several requests."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._line: _Line | None = None

    def cancel(self) -> None:
        """End the call: whatever it waits for."""
        self._cancelled.set()
        with self._lock:
            if self._line is not None:
                self._line.cut()

    def check(self) -> None:
        """``Cancelled`` if somebody has ended it."""
        if self._cancelled.is_set():
            raise Cancelled("by_caller")

    def pause(self, seconds: float) -> None:
        """Wait, unless somebody ends the call."""
        self._cancelled.wait(seconds)
        self.check()

    @contextmanager
    def using(self, line: _Line) -> Iterator[None]:
        """The line that has to be cut when the call is cancelled."""
        with self._lock:
            self._line = line
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._line = None


class Response:
    """The answer to one request, as far as it has come."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._is_over = False
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def may_be_cut(self) -> bool:
        """Whether it has ended, and by the end of the connection for all one can tell."""
        is_counted = "content-length" in self.headers or "transfer-encoding" in self.headers
        return self._is_over and (self.content_type == "text/event-stream" or not is_counted)

    def blocks(self) -> Iterator[bytes]:
        """The body as it comes in."""
        size = 0
        for block in self._response.iter_bytes():
            size += len(block)
            if size > LARGEST_ANSWER:
                raise NotJSON("too_large", limit=LARGEST_ANSWER)
            yield block
        self._is_over = True

    def read(self, limit: int = LARGEST_ANSWER) -> bytes:
        """The whole body, or its beginning."""
        body = bytearray()
        for block in self.blocks():
            body += block
            if len(body) >= limit:
                break
        return bytes(body[:limit])

    def lines(self) -> Iterator[bytes]:
        """The lines of the body, each as soon as it is complete; they may end with CR, LF or both."""
        begun: list[bytes] = []  # pieces of a line: joining them each time would take for ever
        held = b""
        for block in self.blocks():
            block = held + block
            held = b"\r" if block.endswith(b"\r") else b""  # the LF may be in the next block
            first, *others = block.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            begun.append(first)
            if others:
                yield b"".join(begun)
                yield from others[:-1]
                begun = [others[-1]]
        if rest := b"".join(begun):
            yield rest


class Transport:
    """Connections to one provider, kept open between calls; for all threads of a process."""

    def __init__(self, timeouts: Timeouts | None = None, *, allow_metadata: bool = False) -> None:
        self.timeouts = timeouts or Timeouts()
        self._allow_metadata = allow_metadata
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._pid = os.getpid()

    @contextmanager
    def post_file(
        self, url: str, headers: Mapping[str, str], body: Path | bytes, call: CancellableCall | None = None
    ) -> Iterator[Response]:
        """Send ``body`` and give the answer, whatever its status; errors while the answer is read are wrapped too."""
        call = call or CancellableCall()
        with (
            self._line(url) as line,
            _opened(body) as content,
            _Watch(line, self.timeouts, url) as watch,
            _wrapped(url, call, watch),
            call.using(line),
            line.post(url, headers, content, self.timeouts, (call.check, watch.check)) as response,
        ):
            watch.has_begun = True
            yield Response(response)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    @contextmanager
    def _line(self, url: str) -> Iterator[_Line]:
        line = self._take(url)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        with self._lock:
            self._idle.append(line)

    def _take(self, url: str) -> _Line:
        parts = parsed(url)
        try:
            _ = parts.port
        except ValueError as error:
            raise Unreachable("url", url=shown_url(url), detail=str(error)) from error
        kind = (parts.scheme == "https", parts.hostname in _OWN_HOSTS)
        with self._lock:
            if self._pid != os.getpid():  # a fork must not talk over its parent's connections
                self._pid, self._idle = os.getpid(), []
            for line in self._idle:
                if line.kind == kind:
                    self._idle.remove(line)
                    return line
        return _Line(kind, allow_metadata=self._allow_metadata)


class _Line:
    """One connection at most, and its socket, so that another thread can cut it."""

    def __init__(self, kind: tuple[bool, bool], *, allow_metadata: bool) -> None:
        import httpx

        _hide_queries()
        self.kind = kind
        is_https, is_own_host = kind
        self._client = httpx.Client(
            verify=_certificates() if is_https else False,
            trust_env=not is_own_host,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        )
        self._stream: Any = None
        self._allow_metadata = allow_metadata

    @contextmanager
    def post(
        self,
        url: str,
        headers: Mapping[str, str],
        content: Any,
        timeouts: Timeouts,
        checks: Iterable[Callable[[], None]],
    ) -> Iterator[httpx.Response]:
        """The answer; ``checks`` raise where the call was over before there was a connection."""
        import httpx

        if not self._allow_metadata and names_metadata(urlsplit(url).hostname):
            raise Unreachable("metadata", url=shown_url(url))  # a connection to a proxy would not show it
        # Unpacking would let a small answer fill the memory.
        sent = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        seconds = httpx.Timeout(timeouts.read, connect=timeouts.connect)

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if event.endswith(_CONNECTED):
                self._stream = info["return_value"]
                try:
                    for check in checks:  # it may have been ended while there was nothing to cut
                        check()
                    self._check_address(url)
                except LLMError:
                    self._stream.close()  # nobody else knows of it yet
                    raise

        extensions = {"trace": trace}
        with self._client.stream(
            "POST", url, headers=sent, content=content, timeout=seconds, extensions=extensions
        ) as response:
            yield response

    def _check_address(self, url: str) -> None:
        """Before anything is sent: a user may choose the address, and a name can mean any."""
        address = self._stream.get_extra_info("server_addr")
        if not self._allow_metadata and address and is_metadata(str(address[0])):
            raise Unreachable("metadata", url=shown_url(url))

    def cut(self) -> None:
        """Wake whoever waits on this line: closing alone would not."""
        plain = self._stream and self._stream.get_extra_info("socket")
        if plain:
            with suppress(OSError):
                socket.socket.shutdown(plain, socket.SHUT_RDWR)  # also below TLS, which has a shutdown of its own

    def close(self) -> None:
        self._client.close()


class _Watch:
    """Cuts a line when the time for the whole call is over."""

    def __init__(self, line: _Line, timeouts: Timeouts, url: str) -> None:
        self.timeouts = timeouts
        self.url = shown_url(url)
        self.has_begun = False  # the answer
        self.is_over = False
        self._line = line
        self._timer = threading.Timer(timeouts.total, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Watch:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def check(self) -> None:
        """``TimedOut`` if the time is over."""
        if self.is_over:
            raise TimedOut("total", url=self.url, seconds=self.timeouts.total)

    def _end(self) -> None:
        self.is_over = True
        self._line.cut()


class _WithoutQueries(logging.Filter):
    """The HTTP library logs whole addresses; some providers take their key in the query."""

    def filter(self, record: logging.LogRecord) -> bool:
        import httpx

        if isinstance(record.args, tuple):
            record.args = tuple(shown_url(str(arg)) if isinstance(arg, httpx.URL) else arg for arg in record.args)
        return True


@cache
def _hide_queries() -> None:
    logging.getLogger("httpx").addFilter(_WithoutQueries())


@cache
def _certificates() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


@contextmanager
def _opened(body: Path | bytes) -> Iterator[Any]:
    if isinstance(body, bytes):
        yield body
        return
    with wrapping(body):
        file = body.open("rb")
    with file:
        yield file


@contextmanager
def _wrapped(url: str, call: CancellableCall, watch: _Watch) -> Iterator[None]:
    """The library's errors as ours."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        call.check()
        raise _error(error, shown_url(url), watch) from error
    except httpx.InvalidURL as error:
        raise Unreachable("url", url=shown_url(url), detail=str(error)) from error


def _error(error: httpx.HTTPError, url: str, watch: _Watch) -> LLMError:
    import httpx

    seconds = watch.timeouts
    if watch.is_over:
        return TimedOut("total", url=url, seconds=seconds.total)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return TimedOut("connect", url=url, seconds=seconds.connect)
    if isinstance(error, httpx.TimeoutException):
        return TimedOut("read", url=url, seconds=seconds.read)
    if watch.has_begun:
        return CutOff("connection", url=url, detail=str(error))
    return Unreachable("connection", url=url, detail=str(error) or type(error).__name__)


def shown_url(url: str) -> str:
    """An address for error texts: without what may be secret in it."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address at all
        return "?"
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:  # no port there can be
        port = ":?"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
