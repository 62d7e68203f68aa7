"""HTTP: one request, and its whole answer within so many seconds.

The seconds of an answer count from the moment it is asked for, whatever they are spent on: a receiver that drips begins
no new limit with each piece. A streamed answer (``request``) is cut when they are over or when somebody cancels the
call; only the making of a connection has to run into its own limit. A short answer (``fetch``) is left behind even
while a name is looked up, which nobody can interrupt.

Promises: a body is never in memory as a whole (64 KiB at a time); no redirect is followed; an answer larger than its
limit is refused; the errors of the HTTP library are wrapped here, once, as ``HttpError`` with their cause. A service on
this machine is asked directly, whatever proxy the environment names. Nothing is sent to an address at which a cloud
hands out credentials, unless it is allowed. The library's log shows no more of an address than its host.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.drivers.http_line import HttpError, Line, Timeouts, kind_of, load, shown_url
from orihon.system.files import wrapping

if TYPE_CHECKING:
    import httpx

__all__ = [
    "CallsTogether",
    "HttpCall",
    "HttpClient",
    "HttpError",
    "Response",
    "ShortAnswer",
    "Timeouts",
    "load",
    "shown_url",
]

LARGEST_ANSWER = 64 * 1024 * 1024


class CallsTogether:
    """Calls that begin in one context and are ended together; one that begins after the end has ended already.

    Who makes them repeats them: a call that fails is not tried again by itself, unless the other side asks to be given
    some time, and there is (``is_patient``).
    """

    def __init__(self, *, is_patient: bool = True) -> None:
        self.is_over = False
        self.is_patient = is_patient
        self._lock = threading.Lock()
        self._calls: weakref.WeakSet[HttpCall] = weakref.WeakSet()

    @classmethod
    def here(cls) -> CallsTogether | None:
        """Those of the context that runs."""
        return _TOGETHER.get()

    def begin(self) -> None:
        """Calls that this context makes from now on belong to these."""
        _TOGETHER.set(self)

    def add(self, call: HttpCall) -> None:
        with self._lock:
            self._calls.add(call)
        if self.is_over:
            call.cancel()

    def end(self) -> None:
        """End all of them, from whatever thread."""
        self.is_over = True
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()


_TOGETHER: ContextVar[CallsTogether | None] = ContextVar("orihon_calls_together", default=None)


class HttpCall:
    """A call that other threads may end. It may take several requests."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._line: Line | None = None
        if (together := CallsTogether.here()) is not None:
            together.add(self)

    def cancel(self) -> None:
        """End the call: whatever it waits for."""
        self._cancelled.set()
        with self._lock:
            if self._line is not None:
                self._line.cut()

    def check(self) -> None:
        """Raises if somebody has ended it."""
        if self._cancelled.is_set():
            raise HttpError("cancelled")

    def pause(self, seconds: float) -> None:
        """Wait, unless somebody ends the call."""
        self._cancelled.wait(seconds)
        self.check()

    @contextmanager
    def using(self, line: Line) -> Iterator[None]:
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
                raise HttpError("too_large", limit=LARGEST_ANSWER)
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

    def whole(self, limit: int) -> bytes:
        """The whole body of an answer with status 200, if it has at most so many bytes."""
        body = self.read(limit + 1) if self.status == 200 else b""
        if len(body) > limit:
            raise HttpError("too_large", limit=limit)
        return body

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


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """A short answer; ``body`` where the status is 200 and somebody wants it."""

    status: int
    body: bytes


class HttpClient:
    """Connections, kept open between requests; for all threads of a process."""

    def __init__(self, *, allow_metadata: bool = False) -> None:
        self._allow_metadata = allow_metadata
        self._lock = threading.Lock()
        self._idle: list[Line] = []
        self._pid = os.getpid()

    @contextmanager
    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        body: Path | bytes = b"",
        timeouts: Timeouts,
        call: HttpCall | None = None,
    ) -> Iterator[Response]:
        """The answer, whatever its status; errors while it is read are wrapped too."""
        call = call or HttpCall()
        with (
            self._line(url) as line,
            _opened(body) as content,
            _Watch(line, timeouts) as watch,
            _wrapped(call, watch),
            call.using(line),
            line.request(method, url, headers, content, timeouts, (call.check, watch.check)) as response,
        ):
            watch.has_begun = True
            yield Response(response)

    def fetch(
        self, method: str, url: str, headers: Mapping[str, str], *, body: bytes = b"", seconds: float, limit: int = 0
    ) -> ShortAnswer:
        """A short answer; ``limit``: bytes that its body may have, which is not read without one."""
        call, timeouts = HttpCall(), Timeouts(seconds, seconds, math.inf)
        answers: list[ShortAnswer] = []
        problems: list[BaseException] = []

        def ask() -> None:
            try:
                with self.request(method, url, headers, body=body, timeouts=timeouts, call=call) as response:
                    answers.append(ShortAnswer(response.status, response.whole(limit) if limit else b""))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                problems.append(error)

        asking = threading.Thread(target=ask, name="orihon-http", daemon=True)
        try:
            asking.start()
        except RuntimeError:  # the interpreter ends, and takes the call with it
            ask()
        else:
            asking.join(seconds)
        for answer in answers:
            return answer
        for problem in problems:
            raise problem
        call.cancel()
        raise HttpError("total", limit=seconds)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    @contextmanager
    def _line(self, url: str) -> Iterator[Line]:
        line = self._take(url)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        with self._lock:
            self._idle.append(line)

    def _take(self, url: str) -> Line:
        kind = kind_of(url)
        with self._lock:
            if self._pid != os.getpid():  # a fork must not talk over its parent's connections
                self._pid, self._idle = os.getpid(), []
            for line in self._idle:
                if line.kind == kind:
                    self._idle.remove(line)
                    return line
        return Line(kind, allow_metadata=self._allow_metadata)


class _Watch:
    """Cuts a line when the time for the whole call is over."""

    def __init__(self, line: Line, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.has_begun = False  # the answer
        self.is_over = False
        self._line = line
        self._timer = threading.Timer(timeouts.total, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Watch:
        if self.timeouts.total < math.inf:
            with suppress(RuntimeError):  # the interpreter ends, and takes the call with it
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def check(self) -> None:
        """Raises if the time is over."""
        if self.is_over:
            raise HttpError("total", limit=self.timeouts.total)

    def _end(self) -> None:
        self.is_over = True
        self._line.cut()


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
def _wrapped(call: HttpCall, watch: _Watch) -> Iterator[None]:
    """The library's errors as ours."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        call.check()
        raise _error(error, watch) from error
    except httpx.InvalidURL as error:
        raise HttpError("url", str(error)) from error


def _error(error: httpx.HTTPError, watch: _Watch) -> HttpError:
    import httpx

    seconds = watch.timeouts
    if watch.is_over:
        return HttpError("total", limit=seconds.total)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return HttpError("connect", limit=seconds.connect)
    if isinstance(error, httpx.TimeoutException):
        return HttpError("read", limit=seconds.read)
    return HttpError("cut" if watch.has_begun else "connection", str(error) or type(error).__name__)
