"""Runs ``orihon`` commands as children of a process in which everything is imported already.

Most of what a short command costs is the start of Python. A command that is started here is a process of its own all
the same, with its own arguments, environment, folder and standard streams, and it ends as any other does. Started by
``tests.commands``, one for each language: some texts are chosen when a module is imported. ``-m MODULE`` instead of
``orihon`` runs a program of the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")

_SECONDS_BETWEEN_LOOKS = 5.0
_SELDOM = ("mcp", "demo", "importers", "sources", "scripted")
_OTHERS = (
    "typer._adapters",
    "rich.console",
    "rich.table",
    "rich.progress",
    "yaml",
    "apsw",
    "orjson",
    "zstandard",
    "httpx",
    "psycopg_pool",
)


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _modules(places: Iterable[str], prefix: str) -> Iterator[str]:
    """The modules that commands are made of, without those that take long and are seldom wanted."""
    for module in pkgutil.iter_modules(places, prefix):
        if not any(part in module.name for part in _SELDOM):
            yield module.name
            if module.ispkg:
                yield from _modules(
                    [str(Path(place) / module.name.rpartition(".")[2]) for place in places], f"{module.name}."
                )


def _prepare() -> None:
    import orihon

    for name in (*_modules(orihon.__path__, "orihon."), *_OTHERS):
        # What cannot be imported here cannot be imported by a command that needs it, either: that one says so.
        with suppress(Exception):
            importlib.import_module(name)
    from orihon.guard.masking.rules import built_in_finders

    built_in_finders(email=False, ssn=False)
    gc.collect()
    gc.freeze()


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Returns in a child that is to run a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # in good order: it may be measured how much is tested
    tests = os.getppid()
    listener.settimeout(_SECONDS_BETWEEN_LOOKS)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if os.getppid() != tests:  # they were killed
                sys.exit()
            continue
        if os.fork() == 0:
            break
        connection.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    request: dict[str, Any] = json.loads(receive(connection, LENGTH.unpack(head)[0]))
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        with suppress(OSError):  # nobody waits for it any more
            connection.sendall(STATUS.pack(child))
            status = os.waitpid(child, 0)[1]
            connection.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return request


def _become(request: dict[str, Any]) -> None:
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["command"]
    random.seed()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream.isatty() or stream is sys.stderr)  # type: ignore[union-attr]


def _run() -> None:
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        sys.exit()
    from orihon.cli.main import run

    run()


def _leave(code: object) -> None:
    """End at once, if nothing is left to be done: taking all modules apart takes three times as long as most commands.

    A command whose threads go on, or whose output nobody takes, ends as the interpreter ends it.
    """
    if threading.active_count() > 1 or not isinstance(code, int | None):
        return
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def main() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(16)
        _prepare()
        Path(f"{sys.argv[1]}.ready").touch()
        request = _serve(listener)
    _become(request)
    try:
        _run()
    except SystemExit as end:
        _leave(end.code)
        raise


if __name__ == "__main__":
    main()
