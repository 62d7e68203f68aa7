"""The index of many machines: tables in the schema of the catalogue, by PostgreSQL's own text search.

The tokens are ours, so the server's parsers and dictionaries have no say, and the matches are the same as in
``sqlite_index``. A ``tsvector`` tells places only so far into a long text: there phrases are taken for their words, and
whoever reads the match looks at it (``Candidate.is_certain``). One process writes at a time, by a lock that goes with
its connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from orihon.drivers.postgres import statements
from orihon.drivers.postgres.errors import server_errors
from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.errors import NewerSchema
from orihon.search.index import (
    MOST_CANDIDATES,
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

_VERSION = 1
_END_OF_TIME = "~"  # sorts behind every time
_NAP = 0.05
#: Places in a text that a tsvector can tell, and how many of one token.
_LAST_PLACE, _MOST_PLACES = 16_383, 255


class PostgresIndex(SearchIndex):
    """The tables of the index in one schema, made when missing."""

    def __init__(self, pool: Postgres) -> None:
        self._pool = pool
        self._sql = statements(__package__, "postgres.sql")
        self._connection: Connection = pool.dedicated()
        try:
            with self._errors():
                self._bring_up_to_date()
        except BaseException:
            self._connection.close()
            raise

    @property
    def where(self) -> str:
        return f"{self._pool.where} {self._pool.schema}"

    def _bring_up_to_date(self) -> None:
        if self._version() == _VERSION:
            return
        with self._connection.transaction():
            self._rows("making", schema=self._pool.schema)
            found = self._version()
            if found > _VERSION:
                raise NewerSchema("database", path=f"{self.where} search", found=found, known=_VERSION)
            if found < _VERSION:
                self._run("drop_tables")
                schema = files("orihon.drivers.postgres").joinpath("sql", "search.sql").read_bytes()
                self._connection.execute(schema)
                self._run("note_version", version=_VERSION)

    def _version(self) -> int:
        if not self._rows("has_version", schema=self._pool.schema):
            return 0
        found = self._rows("version")
        return int(found[0][0]) if found else 0

    @contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        give_up, schema = time.monotonic() + seconds, self._pool.schema
        with self._errors():
            while not (is_ours := bool(self._rows("take_turn", schema=schema)[0][0])) and time.monotonic() < give_up:
                time.sleep(_NAP)
        try:
            yield is_ours
        finally:
            if is_ours and not self._connection.closed:
                with self._errors():
                    self._rows("end_turn", schema=schema)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        with self._errors(), self._connection.transaction():
            if changes.dropped:
                self._run("drop_documents", uuids=list(changes.dropped))
                self._run("drop_tasks", uuids=list(changes.dropped))
            if changes.documents:
                self._add(changes.documents)
            if changes.marks:
                with self._connection.cursor() as cursor:
                    cursor.executemany(self._sql["mark"], [row_of(mark) for mark in changes.marks])

    def _add(self, documents: Sequence[IndexedDocument]) -> None:
        uuids = list(dict.fromkeys(document.uuid for document in documents))
        self._run("add_tasks", uuids=uuids)
        numbers = dict(self._rows("numbers", uuids=uuids))
        with self._connection.cursor() as cursor, cursor.copy(self._sql["add_documents"]) as copy:
            for document in documents:
                task = numbers[document.uuid]
                copy.write_row(
                    (
                        task,
                        document.kind,
                        document.number,
                        document.time,
                        _storable(document.role),
                        len(document.words) > _LAST_PLACE,
                        _vector(document, tags(task, document)),
                    )
                )

    def clear(self) -> None:
        with self._errors():
            self._run("clear")

    def purge(self) -> None:
        with self._errors():
            for statement in ("VACUUM search_documents", "REINDEX INDEX search_words"):
                self._connection.execute(statement.encode())

    def note_progress(self, place: str, progress: IndexProgress) -> None:
        with self._errors():
            self._run("note_progress", place=place, since=progress.since, compared=progress.compared)

    def compare_again(self) -> None:
        with self._errors():
            self._run("compare_again")

    # ---- reading ---------------------------------------------------------------------------------------------------

    def marks(self, uuids: Sequence[str] | None = None) -> dict[str, TaskMark]:
        with self._errors():
            found = self._rows("marks") if uuids is None else self._rows("marks_of", uuids=list(uuids))
        return {row[0]: mark_from(row) for row in found}

    def problems(self) -> dict[str, str]:
        with self._errors():
            return dict(self._rows("problems"))

    def progress(self, place: str) -> IndexProgress:
        with self._errors():
            found = self._rows("progress", place=place)
        return IndexProgress(*found[0]) if found else IndexProgress()

    def count(self) -> int:
        with self._errors():
            return int(self._rows("count")[0][0])

    def find(self, query: Query, filters: Filters, limit: int = MOST_CANDIDATES) -> list[Candidate]:
        with self._errors():
            numbers = (
                [number for _, number in self._rows("numbers", uuids=list(filters.tasks))] if filters.tasks else []
            )
            if not query.wanted or (filters.tasks and not numbers):
                return []
            tagged = [f"({' | '.join(map(_quoted, some))})" for some in wanted_tags(filters, numbers)]
            words = [term for term in query.unwanted if len(term.tokens) == 1]
            found = self._rows(
                "find",
                words=_joint(query, map(_exact, query.wanted)),
                match=" & ".join([_joint(query, map(_exact, query.wanted)), *_without(query.unwanted), *tagged]),
                loose=" & ".join([_joint(query, map(_loose, query.wanted)), *_without(words), *tagged]),
                since=filters.since,
                until=filters.until or _END_OF_TIME,
                limit=limit,
            )
        is_exact = all(len(term.tokens) == 1 for term in query.terms)
        return [
            Candidate(uuid, kind, number, moment, role, score, is_certain or is_exact)
            for uuid, kind, number, moment, role, score, is_certain in found
        ]

    def check(self) -> str | None:
        return None  # the server looks after its tables

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with server_errors(self._pool.where, self._pool.timeout):
            yield

    def _run(self, name: str, **values: object) -> None:
        self._connection.execute(self._sql[name], values or None)

    def _rows(self, name: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(self._sql[name], values or None).fetchall()


def _vector(document: IndexedDocument, filters: Sequence[str]) -> str:
    """A tsvector: tokens with their places; what has no place in the text stands there without one."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(document.words, start=1):
        known = places.setdefault(word, [])
        if len(known) < _MOST_PLACES and place <= _LAST_PLACE:
            known.append(place)
    lexemes = [f"'{word}':{','.join(map(str, known))}" if known else f"'{word}'" for word, known in places.items()]
    return " ".join([*lexemes, *(_quoted(word) for word in {*document.wholes, *filters})])


def _joint(query: Query, parts: Iterator[str]) -> str:
    return f"({(' | ' if query.any_term else ' & ').join(parts)})"


def _without(terms: Sequence[Term]) -> list[str]:
    return [f"!{_exact(term)}" for term in terms]


def _exact(term: Term) -> str:
    return _phrase(term, " <-> ")


def _loose(term: Term) -> str:
    """The same for a text whose places are not all known."""
    return _phrase(term, " & ")


def _phrase(term: Term, joint: str) -> str:
    *firsts, last = map(_quoted, term.tokens)
    phrase = joint.join([*firsts, f"{last}:*" if term.is_prefix else last])
    return f"({phrase})" if term.whole is None else f"(({phrase}) | {_quoted(term.whole)})"


def _quoted(token: str) -> str:
    return f"'{token}'"


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
