"""Where requests go on to, and what of them: every header but those of the connection and our own.

Credentials pass through. They are neither kept nor logged.
"""

from __future__ import annotations

import ipaddress
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import zstandard

from orihon.drivers.http_line import hide_queries
from orihon.errors import InvalidInput

OWN_HEADERS = "x-orihon-"
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "expect",
    )
)
#: What we can read along; a client's wish for another one is left out.
_READABLE = ("gzip", "deflate", "zstd", "identity")
_ADDRESS = re.compile(r"(https?):/{1,2}([^/]+)(/.*)?")
_ENDS = ("/chat/completions", "/responses", "/responses/compact", "/messages", "/messages/count_tokens")
_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
#: Of a body in memory: several times what any provider takes.
MOST_BODY = 256 << 20
_PIECE = 1 << 20
_ZSTD_PIECE = 1 << 10
_CONNECT_SECONDS = 15.0
_SILENT_SECONDS = 900.0
_MOST_CONNECTIONS = 1000


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """A request's path taken apart: ``/t/TOKEN/w/WRAP/s/SESSION/to/https://host/v1/…``; each part may be missing."""

    path: str
    token: str | None = None
    wrap: str | None = None
    session: str | None = None
    upstream: str | None = None

    @classmethod
    def of(cls, path: str) -> ProxyAddress:
        """``InvalidInput`` where the upstream in it is none."""
        found: list[str | None] = []
        for mark in ("/t/", "/w/", "/s/"):
            found.append(None)
            if path.startswith(mark):
                found[-1], _, rest = path[len(mark) :].partition("/")
                path = f"/{rest}"
        upstream = None
        if path.startswith("/to/"):
            upstream, path = _upstream(path[4:])
        token, wrap, session = found
        return cls(path, token, wrap, session, upstream)

    @property
    def wire_path(self) -> str:
        """The path by which a wire is known, also of an upstream whose own has no version, or another one."""
        end = next((end for end in _ENDS if self.upstream is not None and self.path.endswith(end)), None)
        return self.path if end is None else f"/v1{end}"


def _upstream(rest: str) -> tuple[str, str]:
    found = _ADDRESS.fullmatch(rest)
    if found is None:
        raise InvalidInput("proxy_upstream", address=rest[:80])
    scheme, host, path = found.groups()
    address = f"{scheme}://{host}"
    check_upstream(address)
    before, mark, after = (path or "/").partition("/v1/")
    return (address + before, mark + after) if mark else (address, before)


def check_upstream(address: str) -> str:
    """An address that keys may be sent to: encrypted, or on this machine. As it is used, without ``/v1``."""
    try:
        parts = urlsplit(address)
        is_one = parts.port != 0 and _HOST.fullmatch(parts.hostname or "") is not None
    except ValueError:  # half an IPv6 address, a port that is none
        is_one = False
    if not is_one or parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput("proxy_upstream", address=address[:80])
    if parts.scheme == "http" and not _is_this_machine(parts.hostname or ""):
        raise InvalidInput("proxy_upstream_plain", address=address[:80])
    return address.rstrip("/").removesuffix("/v1")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def request_headers(given: Iterable[tuple[bytes, bytes]], *, is_changed: bool) -> list[tuple[str, str]]:
    """What goes on to the upstream; ``is_changed``: the body is not the one that the client has sent."""
    kept = []
    named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in given}
    dropped = _HOP_BY_HOP | {name.strip().lower() for name in named.get("connection", "").split(",")}
    for raw, value in given:
        name = raw.decode("latin-1")
        lowered = name.lower()
        if lowered in dropped or lowered.startswith(OWN_HEADERS) or (is_changed and lowered == "content-encoding"):
            continue
        text = value.decode("latin-1")
        kept.append((name, _readable(text) if lowered == "accept-encoding" else text))
    return kept


def _readable(wanted: str) -> str:
    kept = [part.strip() for part in wanted.split(",") if part.split(";")[0].strip() in _READABLE]
    return ", ".join(kept) or "identity"


def response_headers(given: httpx.Headers) -> list[tuple[bytes, bytes]]:
    """What goes back to the client."""
    dropped = _HOP_BY_HOP - {"content-length"}
    names = ((name.decode("latin-1").lower(), name, value) for name, value in given.raw)
    return [(raw, value) for name, raw, value in names if name not in dropped and not name.startswith(OWN_HEADERS)]


class BodyTooLarge(Exception):
    """More than ``MOST_BODY``, perhaps only when it is unpacked."""


class UnreadableBody(Exception):
    """It is not packed as it says."""


def decoder(encoding: str) -> Callable[[bytes], bytes]:
    """Reads along what is sent on as it is: at most ``MOST_BODY`` of it, however small it comes."""
    read = _unpacker(encoding)
    left = MOST_BODY

    def bounded(piece: bytes) -> bytes:
        nonlocal left
        made = []
        try:
            while True:
                unpacked, piece = read(piece)
                left -= len(unpacked)
                if left < 0:
                    raise BodyTooLarge
                made.append(unpacked)
                if not piece:
                    return b"".join(made)
        except (zlib.error, zstandard.ZstdError, EOFError) as error:
            raise UnreadableBody from error

    return bounded


def _unpacker(encoding: str) -> Callable[[bytes], tuple[bytes, bytes]]:
    """What unpacks a part of what it is given, and says what of that is left."""
    match encoding.strip().lower():
        case "gzip" | "deflate":
            packed = zlib.decompressobj(zlib.MAX_WBITS | 32)

            def inflate(piece: bytes) -> tuple[bytes, bytes]:
                return packed.decompress(piece, _PIECE), b"" if packed.eof else packed.unconsumed_tail

            return inflate
        case "zstd":
            frames = zstandard.ZstdDecompressor(max_window_size=MOST_BODY).decompressobj(read_across_frames=True)

            def expand(piece: bytes) -> tuple[bytes, bytes]:
                # A little unpacks to much, and there is no bound to give: so little at a time.
                return frames.decompress(piece[:_ZSTD_PIECE]), piece[_ZSTD_PIECE:]

            return expand
    return lambda piece: (piece, b"")


def decoded(body: bytes, encoding: str) -> bytes:
    """A whole body. ``BodyTooLarge`` and ``UnreadableBody`` where there is none to be had."""
    return decoder(encoding)(body)


class Upstream:
    """One pool of connections to all upstreams."""

    def __init__(self) -> None:
        hide_queries()
        limits = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=50, keepalive_expiry=30)
        timeout = httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS, pool=None)
        direct = dict.fromkeys(
            (f"all://{host}" for host in _THIS_MACHINE), None
        )  # whatever proxy the environment names
        self._client = httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False, mounts=direct)
        for name in list(self._client.headers):
            del self._client.headers[name]  # what the client has not said, we do not say for it

    async def send(self, method: str, address: str, headers: Sequence[tuple[str, str]], content: Any) -> httpx.Response:
        """The answer, once its head is there; its body is still to come."""
        request = self._client.build_request(method, address, headers=list(headers), content=content)
        return await self._client.send(request, stream=True)

    async def close(self) -> None:
        await self._client.aclose()


def plain(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Headers by their names in small letters."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
