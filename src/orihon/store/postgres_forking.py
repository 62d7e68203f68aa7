"""The beginning of a task's records as another task's, copied inside the database in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orihon.drivers.postgres.pool import Postgres
from orihon.drivers.postgres.statements import statements
from orihon.errors import StorageUnavailable
from orihon.store.contract import STREAMS, Stream

_SQL = statements("orihon.store", "postgres_forking.sql")


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
    """The records up to ``lasts``, and the contents and files that they mention, become the new task's.

    ``written`` are files that it has besides: it never is without them.
    """
    values: dict[str, Any] = {"uuid": new, "epoch": epoch, "blobs": sorted(blobs), "files": sorted(files)}
    values.update({stream: lasts[stream] for stream in STREAMS})
    with pool.transaction() as connection:
        found = connection.execute(_SQL["find"], {"uuid": old}).fetchone()
        if found is None:
            raise StorageUnavailable("gone", path=old)
        begun = connection.execute(_SQL["begin"], values).fetchone()
        assert begun is not None  # an INSERT that returns its row
        values |= {"old": found[0], "new": begun[0]}
        for name in (*STREAMS, "blobs", "files"):
            connection.execute(_SQL[name], values)
        for file, body in written.items():
            connection.execute(_SQL["written"], {"new": begun[0], "name": file, "body": body})
