"""The records of whole tasks in the database: listed, named, removed, begun as a copy of another task's beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orihon.drivers.postgres import statements
from orihon.drivers.postgres.pool import Postgres
from orihon.errors import StorageUnavailable
from orihon.store.contract import STREAMS, Stream

_SQL = statements("orihon.store", "postgres_moving.sql")
_FORK_SQL = statements("orihon.store", "postgres_forking.sql")


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


def copy_beginning(
    pool: Postgres,
    old: str,
    new: str,
    *,
    epoch: int,
    lasts: Mapping[Stream, int],
    blobs: Iterable[str],
    files: Iterable[str],
    written: Mapping[str, bytes],
) -> None:
    """The records up to ``lasts``, and what they mention, become the new task's, in one transaction.

    ``written`` are files that it has besides: it never is without them.
    """
    values: dict[str, Any] = {"uuid": new, "epoch": epoch, "blobs": sorted(blobs), "files": sorted(files)}
    values.update({stream: lasts[stream] for stream in STREAMS})
    with pool.transaction() as connection:
        found = connection.execute(_FORK_SQL["find"], {"uuid": old}).fetchone()
        if found is None:
            raise StorageUnavailable("gone", path=old)
        begun = connection.execute(_FORK_SQL["begin"], values).fetchone()
        assert begun is not None  # an INSERT that returns its row
        values |= {"old": found[0], "new": begun[0]}
        for name in (*STREAMS, "blobs", "files"):
            connection.execute(_FORK_SQL[name], values)
        for file, body in written.items():
            connection.execute(_FORK_SQL["written"], {"new": begun[0], "name": file, "body": body})
