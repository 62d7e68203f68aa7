"""The records of whole tasks in the database: listed, given their name, removed. For moving tasks in and out of it."""

from __future__ import annotations

from orihon.drivers.postgres.pool import Postgres
from orihon.drivers.postgres.statements import statements

_SQL = statements("orihon.store", "postgres_moving.sql")


def all_tasks(pool: Postgres) -> list[str]:
    """The names of all tasks that have records here."""
    return [uuid for (uuid,) in pool.patiently(lambda connection: connection.execute(_SQL["all_tasks"]).fetchall())]


def tasks_with_file(pool: Postgres, name: str) -> list[str]:
    """The names of the tasks that keep a file of this name here."""
    rows = pool.patiently(lambda connection: connection.execute(_SQL["tasks_with_file"], {"name": name}).fetchall())
    return [uuid for (uuid,) in rows]


def rename_task(pool: Postgres, old: str, new: str) -> None:
    """Records that were written under another name become the task's, in place of what it may have had here."""
    with pool.transaction() as connection:
        connection.execute(_SQL["remove"], {"uuid": new, "fenced": False})
        connection.execute(_SQL["rename"], {"old": old, "new": new})
        connection.execute(_SQL["let_in"], {"new": new})


def remove_task(pool: Postgres, uuid: str, *, fenced: bool) -> None:
    """Delete all of a task; ``fenced``: it has left for good, and whoever wrote it here is refused."""
    pool.patiently(lambda connection: connection.execute(_SQL["remove"], {"uuid": uuid, "fenced": fenced}))


def left_epoch(pool: Postgres, uuid: str) -> int:
    """The epoch of a task that has left; 0 when it has not."""
    found = pool.patiently(lambda connection: connection.execute(_SQL["left_epoch"], {"uuid": uuid}).fetchone())
    return 0 if found is None else int(found[0])
