"""Who acts: the person on whose behalf this thread (or asynchronous task) works.

A server says it for each request with ``acting_as``. Where nobody says it, it is the user of the settings
(``audit.user``), or the one that the operating system knows.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from orihon.audit.record import Person
from orihon.settings import Settings

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
