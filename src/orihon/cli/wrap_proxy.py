"""The proxy of wraps: a process of its own, started by ``orihon wrap``, that ends when nobody needs it any longer.

What it is to be comes on its standard input, for arguments are read by everybody on a machine; where it listens, or why
it does not, is the one line on its standard output.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.cli.options import CommandOptions
from orihon.cli.proxy import open_checked_proxy
from orihon.errors import InvalidInput, OrihonError
from orihon.proxy.running import ProxyPlace, RunningProxy
from orihon.system import jsonio
from orihon.system.processes import close_to_children

if TYPE_CHECKING:
    from orihon.proxy.server import ProxyServer

_LOOK_SECONDS = 1.0


def main() -> int:
    """Be the proxy, to the end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    close_to_children()
    given = jsonio.decode(sys.stdin.buffer.read())
    wanted = RunningProxy(**{field.name: given[field.name] for field in fields(RunningProxy)})
    options = CommandOptions(
        Path(given["base"]), None if given["config"] is None else Path(given["config"]), given["language"]
    )
    try:
        options.apply()
        server = open_checked_proxy(options, wanted)
        place = ProxyPlace(options.base_path)
        found = RunningProxy(
            server.port,
            wanted.token,
            wanted.upstream,
            wanted.window,
            wanted.strict,
            os.getpid(),
            is_for_wraps=True,
        )
        if place.register(found) is None:
            server.close()
            raise InvalidInput("wrap_other_proxy")
    except OrihonError as error:
        _say({"error": str(error)})
        return 2
    try:
        server.serve(lambda: _ready(place, server, options.settings.proxy.linger_seconds))
    finally:
        place.forget()
    return 0


def _say(said: dict[str, Any]) -> None:
    """The one line; whatever else is written goes to the log."""
    os.write(1, jsonio.encode(said) + b"\n")
    os.dup2(2, 1)


def _ready(place: ProxyPlace, server: ProxyServer, linger: float) -> None:
    _say({"port": server.port})
    threading.Thread(target=_end_unneeded, args=(place, server, linger), name="orihon-linger", daemon=True).start()


def _end_unneeded(place: ProxyPlace, server: ProxyServer, linger: float) -> None:
    """When the last wrap is gone, and none has come for a while. One that comes then waits until we have ended."""
    since = time.monotonic()
    while time.monotonic() - since < linger or not place.lock_if_unneeded():
        time.sleep(_LOOK_SECONDS)
        if place.is_needed():
            since = time.monotonic()
    place.forget()
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
