"""Tokens for people and programs that come over the network: whose they are, and how far they reach.

A role reaches as far as those before it: ``read`` looks, ``operate`` changes views and the queue, ``approve`` answers
for a person, ``admin`` does everything for everybody. All others see their own user's tasks alone. A token is shown
once, when it is made; what is kept is its digest.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from orihon.audit import audited
from orihon.catalogue.grants import Grant
from orihon.errors import InvalidInput
from orihon.guard.masking.redaction import hide
from orihon.store.factory import make_redactor
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase

Role = Literal["read", "operate", "approve", "admin"]
#: Each may do what those before it may.
ROLES: tuple[Role, ...] = ("read", "operate", "approve", "admin")
#: How every token begins: a leaked one can be told from any other text, and is masked where it is written.
PREFIX = "orihon_"
_LONGEST = 200
_MOST_DAYS = 3650


@dataclass(frozen=True, slots=True)
class NewGrant:
    """A grant and its token, which nobody can look up later."""

    grant: Grant
    token: str


def new_grant(base: OpenBase, *, user: str, role: str, name: str = "", days: float | None = None) -> NewGrant:
    """A new token for a user, good for so many days or until it is revoked."""
    checked = _checked(user, role, name, days)
    # Masked, it would be the name of somebody else.
    if base.settings.masking.enabled and hide(user) != user:
        raise InvalidInput("secret_in_grant")
    token = PREFIX + secrets.token_urlsafe(32)
    until = None if days is None else _stamp(datetime.now(UTC) + timedelta(days=days))
    masked = make_redactor(base.settings, base.path).mask(name)
    grant = Grant(secrets.token_hex(4), checked, role, masked, utc_now(), until, None)
    catalogue = base.open_catalogue(create=True)
    assert catalogue is not None
    with audited(base.path, base.settings, "grant", grant=grant.id, role=role):
        catalogue.grants.add(grant, digest_of(token))
    return NewGrant(grant, token)


def list_grants(base: OpenBase) -> list[Grant]:
    """Every grant, the oldest first, also those that are over."""
    catalogue = base.open_catalogue()
    return [] if catalogue is None else catalogue.grants.all()


def revoke_grant(base: OpenBase, number: str) -> Grant:
    """Make a token worthless, at once and for good."""
    catalogue = base.open_catalogue()
    found = None if catalogue is None else catalogue.grants.find(number)
    if catalogue is None or found is None:
        raise InvalidInput("no_grant", id=number[:_LONGEST])
    if found.revoked_at is None:
        with audited(base.path, base.settings, "revoke", grant=number, role=found.role):
            catalogue.grants.revoke(number)
    return catalogue.grants.find(number) or found


def digest_of(token: str) -> str:
    """What is kept of a token. It is random and long: a plain hash cannot be guessed back."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _checked(user: str, role: str, name: str, days: float | None) -> str:
    if role not in ROLES:
        raise InvalidInput("role", role=role[:_LONGEST], known=", ".join(ROLES))
    if not user.strip() or len(user) > _LONGEST or len(name) > _LONGEST:
        raise InvalidInput("grant_user", most=_LONGEST)
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise InvalidInput("grant_days", most=_MOST_DAYS)
    return user


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
