"""Chains as tables, for many machines: a chain is a row that its writer holds for the length of one transaction.

Records and the head of their chain are written together or not at all. Tables of their own version, made when something
is recorded for the first time: a database that nobody audits has none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from orihon.audit.record import GENESIS, AuditDraft, Head, Person, link, new_name
from orihon.audit.sink import READING, AuditSink, slot_of
from orihon.drivers.postgres import has_tables, postgres_of, statements
from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.errors import NewerSchema
from orihon.settings import Settings
from orihon.system import jsonio

_VERSION = 1
_PAGE = 5000


class PostgresAudit(AuditSink):
    """The chains of one schema."""

    grouped = READING | {"append"}  # a transaction costs more than a file's record

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sql = statements(__package__, "postgres.sql")
        self._slot = 0  # of the chain that was written to last
        self._is_current = False

    @property
    def _pool(self) -> Postgres:
        return postgres_of(self._settings)

    def is_at_home(self) -> bool:
        return has_tables(self._settings)

    def check(self) -> None:
        self._make_tables()

    # ---- writing -----------------------------------------------------------------------------------------------

    def append(self, drafts: Sequence[AuditDraft], *, durable: bool) -> Head:
        """See ``AuditSink``. A connection that is lost on the way costs time; at worst a record is there twice."""
        self._make_tables()
        return self._pool.patiently(lambda connection: self._append(connection, drafts, durable=durable))

    def _append(self, connection: Connection, drafts: Sequence[AuditDraft], *, durable: bool) -> Head:
        with connection.transaction():
            if not durable:
                connection.execute("SET LOCAL synchronous_commit = off")
            slot, chain, number, last = self._chain(connection)
            names = {draft.person: self._name(connection, draft.person) for draft in drafts}
            lines, head = link(drafts, Head(chain, number, last), names.__getitem__)
            added = {"chain": chain, "first": number + 1, "lines": [line[:-1] for line in lines]}
            connection.execute(self._sql["add"], added)
            connection.execute(self._sql["move_head"], {"slot": slot, "number": head.number, "hash": head.hash})
        self._slot = slot
        return head

    def _chain(self, connection: Connection) -> tuple[Any, ...]:
        while True:
            row = connection.execute(self._sql["take_chain"], {"slot": self._slot}).fetchone()
            if row is None:  # all are taken: this writer is one more than there were ever at once
                new = {"mark": secrets.token_hex(4), "genesis": GENESIS}
                row = connection.execute(self._sql["new_chain"], new).fetchone()
            if row is not None:
                return row

    def _name(self, connection: Connection, person: Person) -> str:
        fields = {"person": person.user, "address": person.address}
        row = connection.execute(self._sql["names"], fields).fetchone()
        if row is not None:
            return str(row[0])
        name, salt = new_name(person)
        connection.execute(self._sql["add_person"], {**fields, "name": name, "salt": salt})
        return name

    def _make_tables(self) -> None:
        if self._is_current:
            return
        if not self._has_tables():
            with self._pool.transaction() as connection:
                connection.execute(self._sql["making"], {"schema": self._pool.schema})
                if connection.execute(self._sql["has_tables"], {"schema": self._pool.schema}).fetchone() is None:
                    connection.execute(files(__package__).joinpath("sql", "schema.sql").read_bytes())
        self._refuse_newer()
        self._is_current = True

    def _refuse_newer(self) -> None:
        found = max((int(row[0]) for row in self._rows("version")), default=_VERSION)
        if found > _VERSION:
            path = f"{self._pool.where} {self._pool.schema} audit"
            raise NewerSchema("database", path=path, found=found, known=_VERSION)

    def _has_tables(self) -> bool:
        return self._is_current or bool(self._rows("has_tables", schema=self._pool.schema))

    # ---- reading -----------------------------------------------------------------------------------------------

    def chains(self) -> list[str]:
        found = [str(row[0]) for row in self._rows_of_ours("chains")]
        return sorted(found, key=lambda name: (slot_of(name), name))

    def lines(self, chain: str) -> Iterator[bytes]:
        return self._pages("lines", chain=chain)

    def lines_about(self, chain: str, task: str) -> Iterator[bytes]:
        return self._pages("lines_about", chain=chain, task=task.encode("utf-8", "backslashreplace"))

    def _pages(self, statement: str, **fields: Any) -> Iterator[bytes]:
        after = 0
        while page := self._rows_of_ours(statement, **fields, after=after, limit=_PAGE):
            yield from (bytes(line) for _, line in page)
            after = page[-1][0]

    def head(self, chain: str) -> Head | None:
        rows = self._rows_of_ours("head", chain=chain)
        return Head(chain, rows[0][0], rows[0][1]) if rows else None

    def drop(self, chain: str, first: int) -> None:
        with self._pool.transaction() as connection:
            connection.execute(self._sql["wait_for_chain"], {"chain": chain})
            connection.execute(self._sql["drop"], {"chain": chain, "first": first})

    # ---- persons and small values ------------------------------------------------------------------------------

    def people(self) -> dict[str, tuple[Person, str]]:
        rows = self._rows_of_ours("people")
        return {name: (Person(user, address), salt) for name, user, address, salt in rows}

    def forget(self, names: Sequence[str]) -> None:
        with self._pool.transaction() as connection:
            connection.execute(self._sql["forget"], {"names": list(names)})

    def load(self, name: str) -> Any:
        rows = self._rows_of_ours("load", name=name)
        return jsonio.decode(rows[0][0]) if rows else None

    def save(self, name: str, value: Any) -> None:
        self._make_tables()
        with self._pool.transaction() as connection:
            connection.execute(self._sql["save"], {"name": name, "value": jsonio.encode(value).decode()})

    def _rows_of_ours(self, statement: str, **fields: Any) -> list[tuple[Any, ...]]:
        """Nothing where nothing was ever recorded."""
        if not self.is_at_home() or not self._has_tables():
            return []
        return self._rows(statement, **fields)

    def _rows(self, statement: str, **fields: Any) -> list[tuple[Any, ...]]:
        text = self._sql[statement]
        return self._pool.patiently(lambda connection: connection.execute(text, fields or None).fetchall())
