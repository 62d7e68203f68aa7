"""By which names browsers may call a server: what is written after ``--allow-host``, as browsers write it.

A name alone means the server's own scheme and port; ``NAME:PORT`` another port, as with a tunnel; ``https://NAME``
what a proxy shows to the world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from orihon.errors import InvalidInput
from orihon.web.gate import Names

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")


def names_of(given: Sequence[str], scheme: str, port: int) -> Names:
    """The allow-list of a server that listens at this port."""
    hosts, origins = set(), set()
    for name in given:
        origin = origin_of(name, scheme, port)
        kind, _, host = origin.partition("://")
        origins.add(origin)
        # A browser leaves the usual port out; other programs may write it.
        usual = f"{host}:{_DEFAULT_PORTS[kind]}"
        hosts |= {host} if urlsplit(origin).port else {host, usual}
    return Names(frozenset(hosts), frozenset(origins))


def origin_of(name: str, scheme: str, port: int) -> str:
    """The origin that a name stands for: ``http://127.0.0.1:8377``."""
    try:
        parts = urlsplit(name if "://" in name else f"{scheme}://{name if _has_port(name) else f'{name}:{port}'}")
        host, given_port = authority((parts.hostname or "").lower()), parts.port
    except ValueError as error:
        raise InvalidInput("web_name", name=name) from error
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _DEFAULT_PORTS or extra or not _HOST.fullmatch(host):
        raise InvalidInput("web_name", name=name)
    is_usual = given_port in (None, _DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{host}" if is_usual else f"{parts.scheme}://{host}:{given_port}"


def authority(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _has_port(name: str) -> bool:
    return bool(re.search(r":[0-9]+$", name)) and (name.startswith("[") or name.count(":") == 1)
