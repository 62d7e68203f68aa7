"""``orihon wrap``: a client that is pointed at the proxy, and a proxy for as long as one is.

The proxy of a base is a process of its own. A wrap uses the one that runs, or starts one; it ends by itself when the
last wrap and its program have ended. One that dies meanwhile is started again where it was, so that no program is left
without. A proxy that somebody has started by hand is used, and never ended.
"""

from __future__ import annotations

import http.client
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orihon.errors import InvalidInput, OrihonError
from orihon.proxy.clients import Addresses, Client, programs_of
from orihon.proxy.running import LOG, STARTING_SECONDS, ProxyPlace, RunningProxy
from orihon.system import jsonio
from orihon.system.files import open_private
from orihon.texts import text

LOOPBACK = "127.0.0.1"
#: The module that is the proxy of wraps, with what it needs to know on its standard input.
_PROGRAM = "orihon.cli.wrap_proxy"
_HEALTH = "/orihon/health"
_HEALTH_SECONDS = 10.0
_ANSWER_SECONDS = 45.0
_ENDING_SECONDS = 45.0
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_TOKEN_BYTES = 24
_NAP = 0.1
_HERE = ("127.0.0.1", "localhost", "::1")
_OWN_PATHS = ("/t/", "/w/", "/s/")

SayAloud = Callable[[str], object]


def installed(word: str, client: Client, path: str | None) -> str:
    """Where the program is."""
    wanted = programs_of(word, client)
    for program in wanted:
        if (found := shutil.which(program, path=path)) is not None:
            return str(Path(found).absolute())
    raise InvalidInput("wrap_not_installed", name=word, programs=", ".join(wanted))


# ---- what the environment says already -------------------------------------------------------------------------------


def health(port: int, token: str | None = None) -> dict[str, Any] | None:
    """What answers there, if it is a proxy of ours; one with a token says more than "yes" only to who has it."""
    line = http.client.HTTPConnection(LOOPBACK, port, timeout=_HEALTH_SECONDS)
    try:
        line.request("GET", _HEALTH, headers={} if token is None else {"x-orihon-token": token})
        said = jsonio.decode(line.getresponse().read(1 << 20))
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        line.close()
    return said if isinstance(said, dict) and "self_test" in said and "base" in said else None


def named_upstream(names: Sequence[str], given: Mapping[str, str], base: Path) -> str | None:
    """The provider that the environment names. An address of a proxy of ours is none: nobody goes through two.

    ``AlreadyWrapped`` where it is the proxy of another base.
    """
    from orihon.proxy.upstream import check_upstream

    address = next((given[name] for name in names if given.get(name)), None)
    if address is None:
        return None
    parts = urlsplit(address)
    is_ours = False
    if parts.hostname in _HERE and parts.port is not None:
        found = health(parts.port, _token_in(parts.path))
        if found is not None and Path(found["base"]).absolute() != base.absolute():
            raise AlreadyWrapped(address)
        is_ours = found is not None or parts.path.startswith(_OWN_PATHS)
    if is_ours:
        address = parts.path.partition("/to/")[2]
    if address:
        check_upstream(address)
    return address or None


def _token_in(path: str) -> str | None:
    return path[3:].partition("/")[0] if path.startswith("/t/") else None


class AlreadyWrapped(Exception):
    """The environment leads to the proxy of another base."""


# ---- the proxy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configured:
    """What the settings of a proxy that is started are read from."""

    base: str
    config: str | None = None
    language: str | None = None


class HeldProxy:
    """The proxy, as one wrap uses it."""

    def __init__(self, place: ProxyPlace, configured: Configured, say: SayAloud, *, window: int | None = None) -> None:
        self.place = place
        self._configured = configured
        self._say = say
        self._window = window
        self._started: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        with place.locked():
            self.file = place.add()
            try:
                self.proxy = self._running() or self._start(self._new())
            except BaseException:
                self.file.remove()
                raise
        self._keeper = threading.Thread(target=self._keep, name="orihon-wrap", daemon=True)

    def _new(self) -> RunningProxy:
        return RunningProxy(0, secrets.token_urlsafe(_TOKEN_BYTES), window=self._window, is_for_wraps=True)

    def _running(self) -> RunningProxy | None:
        """The one that is there, once it answers."""
        found = self.place.running()
        if found is None:
            return None
        if self._window is not None and found.window != self._window:
            if not found.is_for_wraps or self.place.is_needed(besides=self.file):
                raise InvalidInput("wrap_window", window=found.window or "-", pid=found.pid)
            self._end(found)
            return None
        give_up = time.monotonic() + _ANSWER_SECONDS
        while health(found.port, found.token) is None:
            if not self.place.is_alive():
                return None
            if time.monotonic() > give_up:
                raise InvalidInput("wrap_silent", port=found.port, pid=found.pid)
            time.sleep(_NAP)
        return found

    def _end(self, found: RunningProxy) -> None:
        """One that nobody uses, and that was started for wraps, makes place for another."""
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGTERM)
        give_up = time.monotonic() + _ENDING_SECONDS
        while self.place.is_alive():
            if time.monotonic() > give_up:
                raise InvalidInput("wrap_silent", port=found.port, pid=found.pid)
            time.sleep(_NAP)

    def _start(self, wanted: RunningProxy) -> RunningProxy:
        wants = {**asdict(wanted), **asdict(self._configured)}
        log = open_private(self.place.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # the keys of our terminal are not for it
            )
        finally:
            os.close(log)
        with process.stdin as given, process.stdout as said:  # type: ignore[union-attr]  # both are pipes
            with suppress(BrokenPipeError):
                given.write(jsonio.encode(wants))
                given.close()
            answer = _first_line(said.fileno(), STARTING_SECONDS)
        if answer is None or "port" not in answer:
            if process.poll() is None:
                process.kill()
            process.wait()
            detail = self.place.log_tail() if answer is None else answer.get("error", "")
            raise InvalidInput("wrap_no_proxy", detail=detail or "-", log=self.place.folder / LOG)
        self._started = process
        return replace(wanted, port=int(answer["port"]), pid=process.pid)

    # ---- while the program runs --------------------------------------------------------------------------------------

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Whenever the proxy dies in this block, it is started again; at the end it knows that we need it no longer."""
        self._keeper.start()
        try:
            yield
        finally:
            self._over.set()
            self._keeper.join()

    def _keep(self) -> None:
        is_said = False
        while not self._over.wait(_AGAIN_SECONDS if is_said else _LOOK_SECONDS):
            if self._started is not None:
                self._started.poll()
            if self.place.is_alive():
                is_said = False
                continue
            if not is_said:
                self._say(text("cli.wrap.died", port=self.proxy.port))
            try:
                with self.place.locked():
                    if not self.place.is_alive():
                        self.proxy = self._start(replace(self.proxy, is_for_wraps=True))
                self._say(text("cli.wrap.back", port=self.proxy.port))
                is_said = False
            except OrihonError as error:
                if not is_said:
                    base = self._configured.base
                    self._say(text("cli.wrap.stays_dead", error=error, port=self.proxy.port, base=base))
                is_said = True

    def addresses(self, client: Client, openai: str | None, anthropic: str | None) -> Addresses:
        """Where the client is pointed to, on the way to these upstreams."""
        session = "" if client.names_sessions else f"/s/{client.name or 'wrap'}-{self.file.name}"
        way = f"/w/{self.file.name}{session}"
        return Addresses(f"http://{LOOPBACK}:{self.proxy.port}", self.proxy.token, way, openai, anthropic)


def _first_line(fd: int, seconds: float) -> dict[str, Any] | None:
    """What a process says first; ``None`` when it ends without, or takes too long."""
    said, give_up = b"", time.monotonic() + seconds
    while b"\n" not in said:
        ready, _, _ = select.select([fd], [], [], max(give_up - time.monotonic(), 0))
        piece = os.read(fd, 1 << 16) if ready else b""
        if not piece:
            return None
        said += piece
    try:
        answer = jsonio.decode(said.partition(b"\n")[0])
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
