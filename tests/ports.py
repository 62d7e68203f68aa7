"""Ports for servers that are told which one to take, or that come back to the one they had."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

_FIRST, _END = 10_240, 32_768
_FEW = 1000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of loopback that nobody has, and that the system gives to nobody who asks for any port."""
    given_away = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _END
    # Where the system gives away nearly all of them, one that is free now has to do.
    end = given_away if given_away - _FIRST > _FEW else _END
    while True:
        port = _FIRST + secrets.randbelow(end - _FIRST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
