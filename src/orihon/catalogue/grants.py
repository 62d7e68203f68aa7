"""Who may come in over the network.

The names of tasks that were erased: none of them is ever a task's again.
"""

from __future__ import annotations

from dataclasses import dataclass

from orihon.catalogue.tasks_db import TasksDatabase
from orihon.system.clock import utc_now
from orihon.system.json_shapes import AsJson


@dataclass(frozen=True, slots=True)
class Grant(AsJson):
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


class Grants:
    """What is kept of grants."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def add(self, grant: Grant, digest: str) -> None:
        """Keep a new grant, under the digest of its token."""
        values = {name: value for name, value in grant.as_dict().items() if name != "revoked_at"}
        self._db.change(
            lambda statements: statements.run("add_grant", digest=digest, **values),
            done=lambda statements: 1 if statements.one("grant", id=grant.id) else None,
        )

    def all(self) -> list[Grant]:
        """All of them, the oldest first, also those that are over."""
        return [Grant(**record) for record in self._db.all("grants")]

    def by_digest(self, digest: str) -> Grant | None:
        """The grant whose token has this digest."""
        record = self._db.one("grant_of", digest=digest)
        return None if record is None else Grant(**record)

    def find(self, number: str) -> Grant | None:
        """A grant by its own name."""
        record = self._db.one("grant", id=number)
        return None if record is None else Grant(**record)

    def revoke(self, number: str) -> bool:
        """From now on its token is worthless; False where it was so before, or is not known."""
        return self._db.change(lambda statements: statements.run("revoke_grant", id=number, now=utc_now())) > 0

    def forget_user(self, user: str) -> int:
        """Remove every grant of a user; returns how many."""
        return self._db.change(lambda statements: statements.run("forget_grants", user=user))


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a task that was erased."""

    uuid: str
    erased_at: str
    erased_by: str


class Tombstones:
    """What is left of erased tasks."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def bury(self, uuid: str, *, erased_by: str, at: str | None = None) -> None:
        """Never let this name be a task's again. ``at`` is when it was erased, if not now."""
        now = at or utc_now()
        self._db.change(lambda statements: statements.run("bury_name", uuid=uuid, now=now, erased_by=erased_by))

    def find(self, uuid: str) -> Tombstone | None:
        """What is left of a task that was erased; ``None`` for any other."""
        record = self._db.one("erased", uuid=uuid)
        return None if record is None else Tombstone(**record)

    def all(self) -> list[Tombstone]:
        """Of every task that was erased."""
        return [Tombstone(**record) for record in self._db.all("all_erased")]
