"""The address of a broker: which ones can be used, and why others cannot.

Refuses brokers that lose the messages of a killed consumer, that live in one process, or that nobody has tried here,
and says which package is missing. Promises that what is shown of an address has no name and no password in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit

from orihon.errors import InvalidSettings, StorageUnavailable

#: Schemes that work: the package that carries the messages, and the extra of ours that brings it and kombu.
_PACKAGES = {
    "amqp": ("amqp", "worker"),
    "amqps": ("amqp", "worker"),
    "redis": ("redis", "redis"),
    "rediss": ("redis", "redis"),
    "sqs": ("boto3", "sqs"),
}
_LOSING = ("filesystem", "sqla", "sqlalchemy")
#: What is there is not what we need: it stays so until somebody changes something.
_OTHER_QUEUE = re.compile("inequivalent arg|WRONGTYPE")
_NO_SUCH_PLACE = re.compile(r"vhost \S+ not found|to vhost .* refused for user '[^']*'(?!:)|DB index is out of range")
_REFUSED_LOGIN = {"AccessRefused", "AuthenticationError", "NoPermissionError", "NoCredentialsError"}
_LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """An address that can be used; several for one broker are separated by ``;``."""

    url: str = field(repr=False)
    scheme: str
    shown: str  # without name, password and options
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Self:
        """Read ``queue.url``; ``InvalidSettings`` when it cannot be used."""
        parts = [part.strip() for part in url.split(";")]
        places = [_split(part) for part in parts]
        schemes = {place.scheme for place in places}
        for scheme in schemes:
            _refuse(scheme)
        if len(schemes) > 1:
            raise InvalidSettings("broker_address")
        if not all(_has_database(place) for place in places):
            raise InvalidSettings("broker_database")
        secrets = {secret for place in places if place.password for secret in (place.password, unquote(place.password))}
        shown = ";".join(f"{place.scheme}://{_host(place)}{place.path.rstrip('/')}" for place in places)
        return cls(";".join(parts), places[0].scheme, shown, tuple(sorted(secrets, key=len, reverse=True)))

    @property
    def is_rabbitmq(self) -> bool:
        return self.scheme in ("amqp", "amqps")

    def require_packages(self) -> None:
        """Refuse to begin without the packages that the broker needs."""
        package, extra = _PACKAGES[self.scheme]
        for name in ("kombu", package):
            try:
                import_module(name)
            except ImportError as error:
                raise InvalidSettings("broker_extra", scheme=self.scheme, package=name, extra=extra) from error

    @property
    def is_secure(self) -> bool:
        """Is it Amazon itself, or another host that speaks HTTPS? Asked for ``sqs://`` only."""
        place = urlsplit(self.url)
        return place.hostname is None or place.port in (None, 443)

    def trouble(self, error: BaseException, queue: str) -> StorageUnavailable:
        """What a driver's error about a queue means, without secrets."""
        if _is_refused_login(error):
            return StorageUnavailable("broker_login", address=self.shown)
        said = str(error)
        if _OTHER_QUEUE.search(said):
            return StorageUnavailable("broker_queue", address=self.shown, queue=queue)
        if _NO_SUCH_PLACE.search(said):
            return StorageUnavailable("broker_place", address=self.shown)
        detail = f"{type(error).__name__}: {error}"[:_LONGEST_DETAIL]
        for secret in self.secrets:
            detail = detail.replace(secret, "***")
        return StorageUnavailable("broker_away", address=self.shown, detail=detail)


def _split(part: str) -> SplitResult:
    try:
        place = urlsplit(part)
        _ = place.port  # read, so that a wrong one is found here
    except ValueError:  # its text, and the cause, would show the address
        raise InvalidSettings("broker_address") from None
    # A slash in a password that is not written as %2F would end the host there.
    if "://" not in part or not place.scheme or not part.isprintable() or "@" in place.path:
        raise InvalidSettings("broker_address")
    return place


def _refuse(scheme: str) -> None:
    if scheme in _PACKAGES:
        return
    if scheme.split("+")[0] in _LOSING:
        raise InvalidSettings("broker_loses", scheme=scheme)
    if scheme == "memory":
        raise InvalidSettings("broker_memory", scheme=scheme)
    raise InvalidSettings("broker_unknown", scheme=scheme, known=", ".join(f"{name}://" for name in _PACKAGES))


def _has_database(place: SplitResult) -> bool:
    """Is it where kombu finds a queue? Redis has databases by number."""
    number = unquote(place.path[1:]).removeprefix("/")
    return place.scheme not in ("redis", "rediss") or not number or (number.isascii() and number.isdecimal())


def _host(place: SplitResult) -> str:
    host = f"[{place.hostname}]" if ":" in (place.hostname or "") else place.hostname or ""
    return host if place.port is None else f"{host}:{place.port}"


def _is_refused_login(error: BaseException) -> bool:
    if {kind.__name__ for kind in type(error).__mro__} & _REFUSED_LOGIN:
        return True
    answer = getattr(error, "response", None)  # botocore's
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    return metadata.get("HTTPStatusCode") in (401, 403)
