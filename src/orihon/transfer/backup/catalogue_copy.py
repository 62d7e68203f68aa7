"""The catalogue as it was when a backup began, in a file of its own, made fit to be restored.

In the copy no task has an owner: whoever works on one now does not own what is restored. Where a task was taken over
before its folder was copied, its epoch follows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Self

import apsw

from orihon.drivers.sqlite import database_errors, transaction
from orihon.store.sqlite_copies import DATABASE, copy_database
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.transfer.backup.snapshot import SourceFile
from orihon.values.task import TaskStatus, parse_status

_NAME = "tasks.db"
_TIMEOUT = 30.0


class CatalogueCopy:
    """A copy of ``tasks.db``; ``path`` is ``None`` when there is no catalogue."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._epochs: dict[str, int] = {}

    @classmethod
    def of(cls, base: OpenBase, workplace: Path) -> Self:
        """The copy, as of now."""
        if base.open_catalogue() is None:  # brings an old one up to date
            return cls(None)
        path = workplace / f"{secrets.token_hex(8)}-{_NAME}"
        copy_database(base.database, path)
        copy = cls(path)
        with copy._opened() as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # one file, and none beside it
            connection.execute(_statement("free_tasks"))
        return copy

    def statuses(self) -> dict[str, TaskStatus]:
        """Every task that it knows."""
        if self.path is None:
            return {}
        with self._opened() as connection:
            rows = connection.execute(_statement("placed_tasks"))
            return {str(uuid): parse_status(str(status)) for uuid, status in rows}

    def notice(self, uuid: str, source: SourceFile) -> None:
        """Remember the epoch that a copied folder has reached."""
        if source.name == "writer.json":
            source.file.seek(0)
            self._reached(uuid, _epoch_in(source.file.read()))
        elif source.name == DATABASE and source.size:
            path = Path(source.file.name)
            with closing(apsw.Connection(f"file:{path}?immutable=1", flags=_READING)) as connection:
                self._reached(uuid, int(connection.execute("SELECT epoch FROM fence").get or 0))

    def _reached(self, uuid: str, epoch: int) -> None:
        self._epochs[uuid] = max(epoch, self._epochs.get(uuid, 0))

    def finished(self) -> Iterator[SourceFile]:
        """The copy as a file, once all tasks have been noticed."""
        if self.path is None:
            return
        with self._opened() as connection:
            raising = _statement("raise_epoch")
            with transaction(connection):
                for uuid, epoch in self._epochs.items():
                    connection.execute(raising, {"uuid": uuid, "epoch": epoch})
        with self.path.open("rb") as file:
            yield SourceFile(_NAME, file, self.path.stat().st_size, "", is_database=True)

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        assert self.path is not None
        with database_errors(self.path, _TIMEOUT), closing(apsw.Connection(str(self.path))) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # it is thrown away
            yield connection


_READING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def _statement(name: str) -> str:
    return files("orihon.transfer.backup").joinpath(f"sql/{name}.sql").read_text(encoding="utf-8")


def _epoch_in(place: bytes) -> int:
    try:
        epoch = jsonio.decode(place).get("epoch")
    except (ValueError, AttributeError):
        return 0
    return epoch if type(epoch) is int else 0
