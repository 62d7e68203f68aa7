"""Who may come in over the network, and the names of tasks that were erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orihon.catalogue.tasks_db import Reading, Record, Statements, TasksDatabase
from orihon.errors import IllegalTransition
from orihon.system import jsonio
from orihon.system.clock import utc_now

DAY = len("2026-11-15")


@dataclass(frozen=True, slots=True)
class Grant:
    """What one token is good for: whose it is, and how far it reaches. The token itself is nowhere."""

    id: str
    user: str
    role: str
    name: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    def is_good(self, now: str) -> bool:
        """Does it still let anybody in?"""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id,
            "user": self.user,
            "role": self.role,
            "name": self.name,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a task that was erased."""

    uuid: str
    erased_at: str
    erased_by: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What one user has: tasks that are not finished, bytes, and tokens of one day."""

    tasks: int
    bytes: int
    tokens: int


class Grants:
    """What the catalogue keeps of grants and tombstones, and what users have taken."""

    _db: TasksDatabase

    def add_grant(self, grant: Grant, digest: str) -> None:
        """Keep a new grant, under the digest of its token."""
        values = {
            "id": grant.id,
            "digest": digest,
            "user": grant.user,
            "role": grant.role,
            "name": grant.name,
            "created_at": grant.created_at,
            "expires_at": grant.expires_at,
        }
        self._db.change(
            lambda statements: statements.run("add_grant", **values),
            done=lambda statements: 1 if statements.one("grant", id=grant.id) else None,
        )

    def grants(self) -> list[Grant]:
        """All of them, the oldest first, also those that are over."""
        return [_grant(record) for record in self._db.all("grants")]

    def grant_of(self, digest: str) -> Grant | None:
        """The grant whose token has this digest."""
        record = self._db.one("grant_of", digest=digest)
        return None if record is None else _grant(record)

    def find_grant(self, number: str) -> Grant | None:
        """A grant by its own name."""
        record = self._db.one("grant", id=number)
        return None if record is None else _grant(record)

    def revoke_grant(self, number: str) -> bool:
        """From now on its token is worthless; False where it was so before, or is not known."""
        return self._db.change(lambda statements: statements.run("revoke_grant", id=number, now=utc_now())) > 0

    def forget_grants(self, user: str) -> int:
        """Remove every grant of a user; returns how many."""
        return self._db.change(lambda statements: statements.run("forget_grants", user=user))

    def erase(self, uuid: str) -> None:
        """Take out the row of a task whose name is buried, with its notices and figures."""

        def action(statements: Statements) -> None:
            if statements.one("erased", uuid=uuid) is None:
                raise IllegalTransition("not_buried", uuid=uuid)
            for name in ("erase_notices", "remove_usage", "erase_row"):
                statements.run(name, uuid=uuid)

        self._db.change(action)

    def rename_user(self, uuid: str, name: str) -> None:
        """Call the user of a task otherwise."""
        self._db.change(lambda statements: statements.run("rename_user", uuid=uuid, user=name))

    def rewrite_notice(self, number: int, body: Mapping[str, Any]) -> None:
        """Let a notice say something else than it did."""
        said = jsonio.encode(dict(body)).decode()
        self._db.change(lambda statements: statements.run("rewrite_notice", id=number, body=said))

    def taken_by(self, user: str, day: str) -> Taken:
        """What a user has; the tokens are those of that day."""
        return taken_by(self._db, user, day)

    def bury_name(self, uuid: str, *, erased_by: str, at: str | None = None) -> None:
        """Never let this name be a task's again. ``at`` is when it was erased, if not now."""
        now = at or utc_now()
        self._db.change(lambda statements: statements.run("bury_name", uuid=uuid, now=now, erased_by=erased_by))

    def tombstone(self, uuid: str) -> Tombstone | None:
        """What is left of a task that was erased; ``None`` for any other."""
        record = self._db.one("erased", uuid=uuid)
        return None if record is None else Tombstone(**record)

    def tombstones(self) -> list[Tombstone]:
        """Of every task that was erased."""
        return [Tombstone(**record) for record in self._db.all("all_erased")]


def taken_by(reading: Reading, user: str, day: str) -> Taken:
    """What a user has, inside of a transaction or not."""
    record = reading.one("taken_by", user=user, day=day)
    return Taken(0, 0, 0) if record is None else Taken(**record)


def _grant(record: Record) -> Grant:
    return Grant(**record)
