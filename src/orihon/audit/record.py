"""One record of the audit, and how each is tied to the one before it.

A record says who did what to which task, when, from which process and host, and how it ended; never what a message
says. Its line is canonical JSON (keys sorted, no spaces, UTF-8), and after it the SHA-256 of exactly these bytes. The
number, the name of the chain and the hash of the record before are part of what is hashed: a line that was changed,
moved, left out or taken from elsewhere does not fit any more. ``who`` is a name that means nothing by itself: user and
address stand in a table beside the chain, from which a person can be removed without breaking it.

Who acts: the person on whose behalf this thread (or asynchronous task) works.

A server says it for each request with ``acting_as``. Where nobody says it, it is the user of the settings
(``audit.user``), or the one that the operating system knows.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from orihon.settings import Settings
from orihon.system.json_shapes import AsJson

#: The hash before the first record.
GENESIS = "0" * 64
OK = "ok"
#: Said before something is done that leaves no other trace; a record of how it ended follows.
BEGUN = "begun"
LONGEST_LINE = 16 * 1024

_HASH_BYTES = len(b',"hash":"') + 64 + len(b'"}')


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts, and from where; both may be unknown."""

    user: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class AuditDraft:
    """What shall be recorded, before it has a place in a chain."""

    time: str
    action: str
    task: str
    person: Person
    process: int | str
    host: str
    result: str = OK
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head(AsJson):
    """The last record of a chain; number 0 and ``GENESIS`` before the first."""

    chain: str
    number: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class AuditRecord(AsJson):
    """A record as people and programs read it; ``user`` is ``None`` when the person was forgotten."""

    chain: str
    number: int
    time: str
    action: str
    task: str
    who: str
    user: str | None
    address: str | None
    process: int | str
    host: str
    result: str
    details: Mapping[str, Any]


class BrokenLine(ValueError):
    """Bytes that are no record, or not the one whose hash they carry."""


def canonical(value: Any) -> bytes:
    """The one form in which a value is hashed."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates in a name of the system, integers beyond 64 bits
        return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")


def link(drafts: Iterable[AuditDraft], head: Head, name_of: Callable[[Person], str]) -> tuple[list[bytes], Head]:
    """The lines of the drafts behind ``head``, and the new head."""
    lines = []
    chain, number, last = head.chain, head.number, head.hash
    for draft in drafts:
        number += 1
        body = canonical(
            {
                "action": draft.action,
                "chain": chain,
                "details": dict(draft.details),
                "host": draft.host,
                "number": number,
                "previous": last,
                "process": draft.process,
                "result": draft.result,
                "task": draft.task,
                "time": draft.time,
                "who": name_of(draft.person),
            }
        )
        last = hashlib.sha256(body).hexdigest()
        lines.append(b'%b,"hash":"%b"}\n' % (body[:-1], last.encode("ascii")))
    return lines, Head(chain, number, last)


def read_line(line: bytes) -> dict[str, Any]:
    """The fields of a line whose hash is right; ``BrokenLine`` otherwise."""
    body, end = line[:-_HASH_BYTES] + b"}", line[-_HASH_BYTES:]
    if end != b',"hash":"%b"}' % hashlib.sha256(body).hexdigest().encode("ascii"):
        raise BrokenLine
    try:
        fields: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            fields = json.loads(line)  # as ``canonical``, for what orjson does not take
        except (ValueError, RecursionError) as error:
            raise BrokenLine from error
    return fields


def head_of(line: bytes) -> Head:
    """The head that a chain has after this line."""
    try:
        fields = read_line(line)
        return Head(str(fields["chain"]), int(fields["number"]), str(fields["hash"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenLine from error


def record_of(fields: Mapping[str, Any], people: Mapping[str, Person]) -> AuditRecord:
    """A record for people, with the names that are still known."""
    person = people.get(fields["who"])
    return AuditRecord(
        user=None if person is None else person.user,
        address=None if person is None else person.address or None,
        **{name: value for name, value in fields.items() if name not in ("hash", "previous")},
    )


def new_name(person: Person) -> tuple[str, str]:
    """A name for a person that says nothing about them, and the salt that proves whose it is."""
    salt = secrets.token_hex(16)
    return name_with(person, salt), salt


def name_with(person: Person, salt: str) -> str:
    """The name that a person has with this salt; without the salt nobody can find out by trying."""
    return hashlib.sha256(canonical([salt, person.user, person.address])).hexdigest()[:32]


_ACTING: ContextVar[Person | None] = ContextVar("orihon_acting", default=None)
_LONGEST = 256


@contextmanager
def acting_as(user: str, address: str | None = None) -> Iterator[None]:
    """Everything in this block is done by ``user``, who came from ``address``."""
    token = _ACTING.set(person(user, address))
    try:
        yield
    finally:
        _ACTING.reset(token)


@lru_cache(maxsize=256)
def person(user: str, address: str | None = None) -> Person:
    """A person by name, in a form and length that fit a record."""
    return Person(_plain(user), _plain(address or ""))


def _plain(given: str) -> str:
    return given[:_LONGEST].encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")


def actor(settings: Settings) -> Person:
    """The person who acts here and now."""
    return _ACTING.get() or owner(settings)


def owner(settings: Settings) -> Person:
    """The person as whom this process runs, whoever it works for at the moment."""
    return person(settings.audit.user or _system_user(os.geteuid()))


@lru_cache(maxsize=16)
def _system_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run as a number that has no name
        return f"uid {uid}"
