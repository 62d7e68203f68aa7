"""The index of one machine: ``search.db`` in the base folder, by SQLite's FTS5, without the texts.

Commits are not synced: what a power failure takes of a derived file is read again. One process writes at a time, by a
lock that the system drops when the process ends; readers are never kept waiting. A file of an older Orihon, or one that
is damaged, is made anew by whoever has the turn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from orihon.drivers.postgres import statements
from orihon.drivers.sqlite import SqliteConnection, connect, database_errors, transaction, version, write_anew
from orihon.errors import DamagedStore, NewerSchema
from orihon.search.index import (
    MOST_CANDIDATES,
    MOST_COUNTED,
    Candidate,
    Changes,
    Filters,
    IndexedDocument,
    IndexProgress,
    SearchIndex,
    TaskMark,
    mark_from,
    row_of,
    tags,
    wanted_tags,
)
from orihon.search.query import Query, Term
from orihon.system import jsonio
from orihon.system.files import open_private, refuse_network_file_system, wrapping
from orihon.system.holding import is_locked_within

FILE = "search.db"
_VERSION = 1
_LOCK = "search.lock"
_NAP = 0.02
_END_OF_TIME = "~"  # sorts behind every time
#: How much of the file's pages a connection remembers, in KiB: merging an index reads many of them again.
_CACHE = 32_000
_ANYWHERE, _WORDS = "{words wholes}", "words"


class SqliteIndex(SearchIndex):
    """``search.db`` of one base folder; made when missing."""

    def __init__(self, base_dir: Path, *, timeout: float) -> None:
        refuse_network_file_system(base_dir)
        self.path = base_dir / FILE
        self._timeout = timeout
        self._sql = {name: text.decode() for name, text in statements(__package__, "sqlite.sql").items()}
        self._score = _Score()
        self._connection = self._opened()

    @property
    def where(self) -> str:
        return str(self.path)

    def _opened(self) -> SqliteConnection:
        connection = connect(self.path, timeout=self._timeout, durable=False, create=True, shared=True)
        try:
            with database_errors(self.path, self._timeout):
                connection.execute(f"PRAGMA cache_size = -{_CACHE}")
                connection.register_fts5_function("orihon_score", self._score)
                self._bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up_to_date(self, connection: SqliteConnection) -> None:
        found = version(connection)
        if found == _VERSION:
            return
        if found > _VERSION:
            raise NewerSchema("database", path=self.path, found=found, known=_VERSION)
        with transaction(connection):
            if version(connection) != _VERSION:
                _make(connection)

    def turn(self, seconds: float) -> AbstractContextManager[bool]:
        return index_turn(self.path.parent, seconds)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        with database_errors(self.path, self._timeout), transaction(self._connection):
            for uuid in changes.dropped:
                self._drop(uuid)
            numbers: dict[str, int] = {}
            for document in changes.documents:
                if document.uuid not in numbers:
                    self._run("add_task", uuid=document.uuid)
                    numbers[document.uuid] = self._number(document.uuid) or 0
                self._add(numbers[document.uuid], document)
            for mark in changes.marks:
                self._run("mark", **row_of(mark))

    def _add(self, task: int, document: IndexedDocument) -> None:
        self._run(
            "add_document",
            task=task,
            kind=document.kind,
            number=document.number,
            time=document.time,
            role=_storable(document.role),
        )
        self._run(
            "add_words",
            id=self._connection.last_insert_rowid(),
            words=" ".join(document.words),
            wholes=" ".join(document.wholes),
            tags=" ".join(tags(task, document)),
        )

    def _drop(self, uuid: str) -> None:
        number = self._number(uuid)
        if number is not None:
            for name in ("drop_words", "drop_documents", "drop_task"):
                self._run(name, task=number)

    def clear(self) -> None:
        with database_errors(self.path, self._timeout):
            with transaction(self._connection):
                for name in ("texts", "documents", "tasks", "progress"):
                    self._connection.execute(f"DROP TABLE IF EXISTS {name}")
                _make(self._connection)
            write_anew(self._connection)

    def purge(self) -> None:
        with database_errors(self.path, self._timeout):
            with transaction(self._connection):
                self._connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")
            write_anew(self._connection, completely=True)

    def note_progress(self, place: str, progress: IndexProgress) -> None:
        with database_errors(self.path, self._timeout), transaction(self._connection):
            self._run("note_progress", place=place, since=progress.since, compared=progress.compared)

    def compare_again(self) -> None:
        with database_errors(self.path, self._timeout), transaction(self._connection):
            self._run("compare_again")

    # ---- reading ---------------------------------------------------------------------------------------------------

    def marks(self, uuids: Sequence[str] | None = None) -> dict[str, TaskMark]:
        with database_errors(self.path, self._timeout):
            wanted = {} if uuids is None else {"uuids": jsonio.encode(list(uuids)).decode()}
            found = list(self._run("marks_of" if wanted else "marks", **wanted))
        return {str(row[0]): mark_from(row) for row in found}

    def problems(self) -> dict[str, str]:
        with database_errors(self.path, self._timeout):
            return {str(uuid): str(problem) for uuid, problem in self._run("problems")}

    def progress(self, place: str) -> IndexProgress:
        with database_errors(self.path, self._timeout):
            found = [IndexProgress(str(since), str(compared)) for since, compared in self._run("progress", place=place)]
        return found[0] if found else IndexProgress()

    def count(self) -> int:
        with database_errors(self.path, self._timeout):
            return int(self._run("count").get)

    def find(self, query: Query, filters: Filters, limit: int = MOST_CANDIDATES) -> list[Candidate]:
        with database_errors(self.path, self._timeout):
            numbers = [number for uuid in filters.tasks if (number := self._number(uuid)) is not None]
            if not query.wanted or (filters.tasks and not numbers):
                return []
            self._score.weights = self._weights(query)
            found = self._run(
                "find",
                match=_match(query, wanted_tags(filters, numbers)),
                since=filters.since,
                until=filters.until or _END_OF_TIME,
                limit=limit,
            )
            return [Candidate(uuid, kind, *rest) for uuid, kind, *rest in found]

    def _weights(self, query: Query) -> list[float]:
        """How much a term tells, in the order of the phrases of ``_match``: a rare one more than a frequent one."""
        documents = int(self._connection.execute("SELECT coalesce(max(id), 0) FROM documents").get)
        weights: list[float] = []
        for term in query.wanted:
            having = int(self._run("count_some", match=_phrases(term), limit=MOST_COUNTED).get)
            weight = math.log(1 + max(documents - having, 0) / (having + 0.5)) + 0.01
            weights += [weight] * (1 if term.whole is None else 2)
        return weights

    def check(self) -> str | None:
        try:
            with database_errors(self.path, self._timeout):
                answer = str(self._connection.execute("PRAGMA quick_check(1)").get)
                if answer != "ok":
                    return answer
                with transaction(self._connection):
                    self._connection.execute("INSERT INTO texts (texts) VALUES ('integrity-check')")
        except DamagedStore as error:
            return error.cause
        return None

    def close(self) -> None:
        self._connection.close()

    def _number(self, uuid: str) -> int | None:
        found = self._run("number", uuid=uuid).get
        return None if found is None else int(found)

    def _run(self, name: str, **values: Any) -> apsw.Cursor:
        return self._connection.execute(self._sql[name], values)


def remove_index(base_dir: Path) -> None:
    """Take the files of an index away that cannot be used any more; for whoever has the turn."""
    for ending in ("", "-wal", "-shm"):
        path = base_dir / f"{FILE}{ending}"
        with wrapping(path):
            path.unlink(missing_ok=True)


@contextmanager
def index_turn(base_dir: Path, seconds: float) -> Iterator[bool]:
    """The right to write to the index of a base folder, whether there is one that can be opened or not."""
    path = base_dir / _LOCK
    with wrapping(path):
        lock = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        yield is_locked_within(lock, seconds)
    finally:
        os.close(lock)


class _Score:
    """BM25 of the row at hand, by the weights of the terms; the phrases of filters and of unwanted terms count nothing.

    Not FTS5's own: that looks at every document with a word, however frequent the word is.
    """

    def __init__(self) -> None:
        self.weights: list[float] = []

    def __call__(self, api: apsw.FTS5ExtensionApi, *_: object) -> float:
        average = max(api.column_total_size(0) / max(api.row_count, 1), 1.0)
        dampened = 1.2 * (0.25 + 0.75 * api.column_size(0) / average)
        score = 0.0
        for phrase, weight in enumerate(self.weights):
            times = len(api.phrase_column_offsets(phrase, 0)) or len(api.phrase_column_offsets(phrase, 1))
            score += weight * times * 2.2 / (times + dampened)
        return score


def _make(connection: apsw.Connection) -> None:
    schema = files(__package__).joinpath("sql", "schema.sql").read_text(encoding="utf-8")
    connection.execute(schema)
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _match(query: Query, filters: Sequence[Sequence[str]]) -> str:
    """In the language of FTS5. Tokens have nothing in them that means something there."""
    joint = " OR " if query.any_term else " AND "
    wanted = "(" + joint.join(map(_phrases, query.wanted)) + ")"
    tagged = "".join(f" AND tags : ({' OR '.join(map(_quoted, some))})" for some in filters)
    unwanted = "".join(f" NOT {_phrases(term)}" for term in query.unwanted)
    return f"({wanted}{tagged}){unwanted}"


def _phrases(term: Term) -> str:
    where = _ANYWHERE if len(term.tokens) == 1 else _WORDS
    phrase = f"{where} : {_quoted(' '.join(term.tokens))}{' *' if term.is_prefix else ''}"
    return f"({phrase})" if term.whole is None else f"({phrase} OR {_ANYWHERE} : {_quoted(term.whole)})"


def _quoted(tokens: str) -> str:
    return f'"{tokens}"'


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
