"""Where the data keys of a task lie: beside its catalogue, so that whoever sees the catalogue sees them.

That is the table ``data_keys`` where the settings name a database, and the folder ``keys`` of the base folder where
they do not. A store that is opened on a folder of its own has them in ``keys`` there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orihon.drivers.postgres import has_tables, postgres_of
from orihon.errors import KeyUnavailable
from orihon.guard.keys import FOLDER, DataKeys, FolderKeys, KeyPlace, erase
from orihon.guard.sealer import master_keys
from orihon.settings import Settings

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Connection, Postgres

#: The folders of a base folder that tasks lie in, for good or on their way.
_PLACES = frozenset(("running", "paused", "completed", "scratch", "archive", "moving"))

_MAKE = """
SELECT pg_advisory_xact_lock(hashtext('orihon.data_keys'));
CREATE TABLE IF NOT EXISTS data_keys (id text COLLATE "C" PRIMARY KEY, document bytea NOT NULL);
"""


class PostgresKeys:
    """Documents as rows. The table is made when the first key is."""

    def __init__(self, pool: Postgres) -> None:
        self._pool = pool
        self._is_there = False

    @property
    def where(self) -> str:
        return f"{self._pool.where} {self._pool.schema}.data_keys"

    def get(self, key_id: str) -> bytes | None:
        if not self._exists():
            return None
        statement = "SELECT document FROM data_keys WHERE id = %s"
        row = self._pool.patiently(lambda connection: connection.execute(statement, (key_id,)).fetchone())
        return None if row is None else bytes(row[0])

    def add(self, key_id: str, document: bytes) -> bytes:
        self._make()
        statement = "INSERT INTO data_keys VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"
        self._pool.patiently(lambda connection: connection.execute(statement, (key_id, document)))
        return self.get(key_id) or document

    def replace(self, key_id: str, old: bytes, new: bytes) -> bool:
        # A lost answer makes it ask again, and find what it has written itself.
        statement = "UPDATE data_keys SET document = %s WHERE id = %s AND document IN (%s, %s)"
        values = (new, key_id, old, new)
        return bool(self._pool.patiently(lambda connection: connection.execute(statement, values).rowcount))

    def remove(self, key_id: str) -> None:
        if self._exists():
            statement = "DELETE FROM data_keys WHERE id = %s"
            self._pool.patiently(lambda connection: connection.execute(statement, (key_id,)))

    def ids(self) -> Iterator[str]:
        if not self._exists():
            return iter(())
        statement = "SELECT id FROM data_keys ORDER BY id"
        rows = self._pool.patiently(lambda connection: connection.execute(statement).fetchall())
        return iter([str(key_id) for (key_id,) in rows])

    def _exists(self) -> bool:
        if not self._is_there:
            known = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'data_keys'"
            values = (self._pool.schema,)
            found = self._pool.patiently(lambda connection: connection.execute(known, values).fetchone())
            self._is_there = found is not None
        return self._is_there

    def _make(self) -> None:
        def made(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(_MAKE.encode())

        if not self._exists():
            self._pool.patiently(made)
            self._is_there = True


def key_place(base: Path, settings: Settings) -> KeyPlace:
    """Where the data keys of a base folder's tasks lie."""
    if settings.database.url is None:
        return FolderKeys(base / FOLDER)
    return PostgresKeys(postgres_of(settings))


def data_keys(base: Path, settings: Settings) -> DataKeys | None:
    """The data keys of a base folder; ``None`` where the settings name no master key and want none."""
    masters = master_keys(settings.encryption)
    return None if masters is None else DataKeys(key_place(base, settings), masters)


def needed_keys(base: Path, settings: Settings) -> DataKeys:
    """The same for who knows that a master key is named."""
    keys = data_keys(base, settings)
    if keys is None:
        raise KeyUnavailable("no_source")
    return keys


def base_of(folder: Path) -> Path:
    """The base folder that a task's folder belongs to; itself, where it belongs to none."""
    return folder.parent.parent if folder.parent.name in _PLACES else folder


def erase_key(base: Path, settings: Settings, task: str) -> bool:
    """Delete a task's data key for good, wherever one is: all that it sealed, copies too, is erased with it.

    ``False`` when there is none: the task is not sealed, or its key was erased before.
    """
    places: list[KeyPlace] = [FolderKeys(base / FOLDER)]
    if settings.database.url is not None and has_tables(settings):
        places.append(key_place(base, settings))
    erased = [erase(place, task) for place in places]
    return any(erased)
