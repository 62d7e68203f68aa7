"""One connection of the HTTP driver: what it may reach, whom it trusts, and how another thread cuts it.

Addresses at which a cloud hands out credentials to whoever asks: nothing is sent there unless it is allowed.

Looked at when the connection stands, so that no name can mean one address in the check and another one afterwards. A
connection to a proxy shows the proxy alone: what the address says by itself is therefore looked at, too.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import httpx

_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
_CONNECTED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")

#: Cancelled by the caller; the time that was over; no connection, or one that ended within the answer; what is refused.
HttpErrorKind = Literal["cancelled", "connect", "read", "total", "connection", "cut", "url", "metadata", "too_large"]


class HttpError(Exception):
    """Why there is no answer. ``limit``: the seconds, or the bytes, that were too few."""

    def __init__(self, kind: HttpErrorKind, detail: str = "", *, limit: float = 0) -> None:
        super().__init__(detail or (f"{kind}: {limit:g}" if limit else kind))
        self.kind = kind
        self.detail = detail
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, between two pieces of the answer (the first one too), and for all of it."""

    connect: float = 10.0
    read: float = 300.0
    total: float = 1800.0


def kind_of(url: str) -> tuple[bool, bool]:
    """What a line must be like: with TLS or without, past all proxies or not."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # which may quote a password
        raise HttpError("url", re.sub("'.*'", "…", str(error), flags=re.DOTALL)) from None
    return parts.scheme == "https", parts.hostname in _OWN_HOSTS


class Line:
    """One connection at most, and its socket, so that another thread can cut it."""

    def __init__(self, kind: tuple[bool, bool], *, allow_metadata: bool) -> None:
        load()
        import httpx

        hide_queries()
        self.kind = kind
        is_https, is_own_host = kind
        try:
            self._client = httpx.Client(
                verify=_certificates() if is_https else False,
                trust_env=not is_own_host,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # a proxy of the environment's that cannot be used
            raise HttpError("connection", f"proxy: {error}") from error
        self._stream: Any = None
        self._allow_metadata = allow_metadata

    @contextmanager
    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: Any,
        timeouts: Timeouts,
        checks: Iterable[Callable[[], None]],
    ) -> Iterator[httpx.Response]:
        """The answer; ``checks`` raise where the call was over before there was a connection."""
        import httpx

        if not self._allow_metadata and names_metadata(urlsplit(url).hostname):
            raise HttpError("metadata")  # a connection to a proxy would not show it
        # Unpacking would let a small answer fill the memory.
        sent = {"Accept-Encoding": "identity", **headers}
        seconds = httpx.Timeout(timeouts.read, connect=timeouts.connect)

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if event.endswith(_CONNECTED):
                self._stream = info["return_value"]
                try:
                    for check in checks:  # it may have been ended while there was nothing to cut
                        check()
                    self._check_address()
                except Exception:
                    self._stream.close()  # nobody else knows of it yet
                    raise

        extensions = {"trace": trace}
        with self._client.stream(
            method, url, headers=sent, content=content, timeout=seconds, extensions=extensions
        ) as response:
            yield response

    def _check_address(self) -> None:
        """Before anything is sent: a user may choose the address, and a name can mean any."""
        address = self._stream.get_extra_info("server_addr")
        if not self._allow_metadata and address and is_metadata(str(address[0])):
            raise HttpError("metadata")

    def cut(self) -> None:
        """Wake whoever waits on this line: closing alone would not."""
        plain = self._stream and self._stream.get_extra_info("socket")
        if plain:
            with suppress(OSError):
                socket.socket.shutdown(plain, socket.SHUT_RDWR)  # also below TLS, which has a shutdown of its own

    def close(self) -> None:
        self._client.close()


class _WithoutQueries(logging.Filter):
    """The HTTP library logs whole addresses; some have a key in their query or path."""

    def filter(self, record: logging.LogRecord) -> bool:
        import httpx

        if isinstance(record.args, tuple):
            record.args = tuple(_host_of(arg) if isinstance(arg, httpx.URL) else arg for arg in record.args)
        return True


def _host_of(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


@cache
def hide_queries() -> None:
    """From now on no address is in the log with more than its host."""
    logging.getLogger("httpx").addFilter(_WithoutQueries())


@cache
def _certificates() -> ssl.SSLContext:
    import httpx

    context = httpx.create_ssl_context()
    if not os.environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"}:  # else these alone count
        context.load_default_certs()  # what this machine trusts, beside the usual authorities
    return context


def load() -> None:
    """Import the HTTP library, which takes a while, before a background thread does: a fork in the middle of an import
    would leave its lock held in the child. Its command line, which nobody asks for here, would bring a hundred modules
    and 6 MB with it; the library goes without where they are not installed."""
    if "httpx" in sys.modules:
        return
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        import httpx  # noqa: F401 - the import is the purpose
    finally:
        del sys.modules["httpx._main"]


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


#: Link-local addresses, where most providers keep the metadata of a machine, and those of the others.
METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",
        "fd20:ce::/32",
        "fd00:c1::/32",
        "fd00:42::/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
    )
)

#: IPv6 addresses that end in an IPv4 address: compatible ones, and those of translators (NAT64).
_ENDING_IN_IPV4 = (ipaddress.ip_network("::/96"), ipaddress.ip_network("64:ff9b::/96"))
_NAMES = ("metadata.google.internal", "metadata.goog", "instance-data.ec2.internal")


def is_metadata(address: str) -> bool:
    """Is this an address at which credentials may be had? ``address`` as ``getpeername`` gives it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    meant = (found, _within(found)) if isinstance(found, ipaddress.IPv6Address) else (found,)
    return any(one in network for one in meant if one is not None for network in METADATA)


def _within(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that stands inside of this one."""
    if any(found in network for network in _ENDING_IN_IPV4):
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour


def names_metadata(host: str | None) -> bool:
    """Does an address name such a place by itself, however its number is written (decimal, octal, short)?"""
    plain = (host or "").rstrip(".").lower()
    try:
        return plain in _NAMES or is_metadata(socket.inet_ntoa(socket.inet_aton(plain)))
    except (OSError, ValueError):  # no IPv4 address in any form
        pass
    try:
        return is_metadata(plain)
    except ValueError:
        return False
