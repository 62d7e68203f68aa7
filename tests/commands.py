"""``orihon`` commands for tests, without the second that starting Python for each of them would take on a busy machine.

``start`` hands a command to the server of its language (``tests.command_server``), which is started when it is first
needed and ends with the tests. Where the start of the executable is what a test is about, it has to run that.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.command_server import LENGTH, STATUS, receive

ROOT = Path(__file__).parents[1]
_PATIENCE = 240.0


class Started:
    """A command at work."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid: int = STATUS.unpack(receive(connection, STATUS.size))[0]

    def wait(self, timeout: float) -> int:
        """Its exit code; one that takes too long is killed."""
        self._connection.settimeout(timeout)
        try:
            return int(STATUS.unpack(receive(self._connection, STATUS.size))[0])
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            self._connection.close()


def start(
    command: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], folder: Path | None = None
) -> Started:
    """Start a command with these standard streams."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(_server(_language(command, environment))))
    where = str(Path.cwd() if folder is None else folder)
    request = json.dumps({"command": list(command), "environment": dict(environment), "folder": where}).encode()
    socket.send_fds(connection, [LENGTH.pack(len(request))], list(streams))
    connection.sendall(request)
    return Started(connection)


def ended(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float,
    folder: Path | None = None,
    given: bytes = b"",
) -> tuple[int, str, str]:
    """Run a command to its end with this as its input: exit code, what it printed, what it complained about."""
    pipes = [os.pipe(), os.pipe()]
    with tempfile.TemporaryFile() as standard_input:
        standard_input.write(given)
        standard_input.seek(0)
        started = start(command, environment, (standard_input.fileno(), pipes[0][1], pipes[1][1]), folder)
    for _, theirs in pipes:
        os.close(theirs)
    try:
        out, err = _read([ours for ours, _ in pipes], timeout)
        return started.wait(timeout), out, err
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)
        raise
    finally:
        for ours, _ in pipes:
            os.close(ours)


def _read(pipes: list[int], timeout: float) -> list[str]:
    texts = {pipe: bytearray() for pipe in pipes}
    until = time.monotonic() + timeout
    with selectors.DefaultSelector() as open_pipes:  # takes descriptors above 1,023, too
        for pipe in pipes:
            open_pipes.register(pipe, selectors.EVENT_READ)
        while open_pipes.get_map():
            ready = open_pipes.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                texts[key.fd] += piece
                if not piece:
                    open_pipes.unregister(key.fd)
    return [texts[pipe].decode() for pipe in pipes]


def _language(command: Sequence[str], environment: Mapping[str, str]) -> str:
    words = [word for argument in command for word in argument.split("=", 1)]
    asked = [value for name, value in pairwise(words) if name == "--lang" and value in ("en", "ja")]
    wanted = environment.get("ORIHON_LANG") or environment.get("LANG") or ""
    return asked[0] if asked else "ja" if wanted.lower().startswith("ja") else "en"


@cache
def _server(language: str) -> Path:
    """The address of the server for a language."""
    folder = Path(tempfile.mkdtemp(prefix="orihon-commands-"))
    address = folder / "socket"
    environment = {**os.environ, "ORIHON_LANG": language}
    command = [sys.executable, "-m", "tests.command_server", str(address)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT, env=environment)
    atexit.register(_stop, server, folder)
    until = time.monotonic() + _PATIENCE
    while not Path(f"{address}.ready").exists():
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the server for commands has not started: {server.poll()}")
        time.sleep(0.01)
    return address


def _stop(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.terminate()
    server.wait(_PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)
