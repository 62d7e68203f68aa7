"""``orihon serve`` as a process of its own, for tests that start it, end it, or kill it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import commands
from tests.acceptance.test_cli import ORIHON, environment

_PATIENCE = 120.0


class Served:
    """A server at work."""

    def __init__(self, started: commands.Started, out: int, err: int) -> None:
        self._started, self._err = started, err
        self._code: int | None = None
        self.said: dict[str, Any] = json.loads(self._line_of(out))

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def address(self) -> str:
        return str(self.said["address"])

    @property
    def token(self) -> str:
        return str(self.said["token"])

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    @property
    def login_address(self) -> str:
        return f"{self.address}#token={self.token}"

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def listening(self, path: str) -> socket.socket:
        """A page that listens to events, once the first one has come."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        line.sendall(head.encode())
        heard = b""
        while b"event: change" not in heard:
            piece = line.recv(1 << 16)
            assert piece, heard
            heard += piece
        return line

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Until something is so."""
        until = time.monotonic() + _PATIENCE
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        with suppress(ProcessLookupError):
            os.kill(self._started.pid, number)

    def ended(self) -> int:
        """Its exit code, once it has one."""
        if self._code is None:
            self._code = self._started.wait(_PATIENCE)
        return self._code

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        self.ended()

    def problems(self) -> str:
        """What it has complained about."""
        said = b""
        while select.select([self._err], [], [], 0)[0] and (piece := os.read(self._err, 1 << 16)):
            said += piece
        return said.decode()

    def _line_of(self, out: int) -> str:
        said = b""
        while not said.endswith(b"}\n"):
            assert select.select([out], [], [], _PATIENCE)[0]
            piece = os.read(out, 1 << 16)
            assert piece, self.problems()
            said += piece
        return said.decode()


@contextmanager
def serve(base: Path, *arguments: str, port: int = 0, language: str = "en", **more: str) -> Iterator[Served]:
    """The command, until the block ends."""
    command = [str(ORIHON), "--base-dir", str(base), "serve", "--port", str(port), "--json", *arguments]
    (out, theirs_out), (err, theirs_err) = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    started = commands.start(command, environment(language, **more), (nothing, theirs_out, theirs_err), base)
    for theirs in (nothing, theirs_out, theirs_err):
        os.close(theirs)
    served: Served | None = None
    try:
        served = Served(started, out, err)
        yield served
    finally:
        if served is not None:
            served.signal(signal.SIGTERM)
            served.ended()
        os.close(out)
        os.close(err)
