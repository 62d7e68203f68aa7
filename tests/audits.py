"""The audit where a test can get at it behind its back: in files, and in tables."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.audit import AuditReport, AuditTrail, audit_of, verify_audit
from orihon.audit.record import head_of
from orihon.catalogue.connect import open_catalogue
from orihon.drivers.postgres import postgres_of
from orihon.settings import Settings, load_settings
from tests.services import Database

SINKS = ("files", "postgres")


@dataclass
class AuditPlace:
    """A base folder with a catalogue; what is audited lies below it, or in ``database``."""

    base: Path
    settings: Settings
    database: Database | None

    @classmethod
    def made(cls, base: Path, database: Database | None, **audit: Any) -> AuditPlace:
        """A new one."""
        config: dict[str, Any] = {"audit": {"user": "ana", **audit}}
        if database is not None:
            config["database"] = database.settings
        base.mkdir(exist_ok=True)
        place = cls(base, load_settings(config, environ={}), database)
        open_catalogue(base, place.settings).close()
        return place

    @property
    def trail(self) -> AuditTrail:
        return audit_of(self.base, self.settings)

    def record(self, count: int, task: str = "task-1") -> None:
        for number in range(count):
            self.trail.record("compress", task, details={"compression": number + 1})

    def verify(self, anchors: Sequence[Path] | None = None) -> AuditReport:
        return verify_audit(self.base, self.settings, anchors=anchors)

    def kinds(self, anchors: Sequence[Path] | None = None) -> set[str]:
        """What a look finds."""
        return {finding.kind for finding in self.verify(anchors).findings}

    def chain(self, index: int = 0) -> str:
        return self.trail.sink.chains()[index]

    def lines(self, chain: str | None = None) -> list[bytes]:
        return list(self.trail.sink.lines(chain or self.chain()))

    # ---- behind its back -------------------------------------------------------------------------------------------

    def put(self, lines: Sequence[bytes], chain: str | None = None) -> None:
        """These lines, and no others, are the chain now."""
        name = chain or self.chain()
        if self.database is None:
            (self.base / "audit" / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
            return
        rows = [(name, number, line) for number, line in enumerate(lines, start=1)]
        self._run("DELETE FROM audit_records WHERE chain = %s", (name,))
        for row in rows:
            self._run("INSERT INTO audit_records VALUES (%s, %s, %s)", row)

    def fit_head(self, chain: str | None = None) -> None:
        """The head that is noted beside the chain says what the chain says, as a careful forger would have it."""
        name = chain or self.chain()
        head = head_of(self.lines(name)[-1])
        if self.database is None:
            (self.base / "audit" / f"{name}.head").write_text(f"{head.number:018d} {head.hash}\n", encoding="ascii")
        else:
            self._run("UPDATE audit_chains SET number = %s, hash = %s WHERE chain = %s", (head.number, head.hash, name))

    def remove_chain(self, chain: str | None = None) -> None:
        """The chain with its head is gone, as if it had never been."""
        name = chain or self.chain()
        if self.database is None:
            for kind in ("jsonl", "head"):
                (self.base / "audit" / f"{name}.{kind}").unlink()
        else:
            self._run("DELETE FROM audit_records WHERE chain = %s", (name,))
            self._run("DELETE FROM audit_chains WHERE chain = %s", (name,))

    @contextmanager
    def chains_in_use(self) -> Iterator[None]:
        """Somebody else is writing to every chain that there is."""
        with ExitStack() as held:
            if self.database is None:
                for path in (self.base / "audit").glob("*.jsonl"):
                    fcntl.flock(held.enter_context(path.open("rb")), fcntl.LOCK_EX)
            else:
                connection = held.enter_context(postgres_of(self.settings).transaction())
                connection.execute("SELECT 1 FROM audit_chains FOR UPDATE")
            yield

    def change_people(self, change: Callable[[str], str | None]) -> None:
        """Other names in the table of persons; ``None`` takes a person out."""
        for name, (person, _) in self.trail.sink.people().items():
            new = change(person.user)
            if self.database is not None and new is None:
                self._run("DELETE FROM audit_people WHERE name = %s", (name,))
            elif self.database is not None:
                self._run("UPDATE audit_people SET person = %s WHERE name = %s", (new, name))
            else:
                kept = self.trail.sink.load("people")
                entry = {} if new is None else {name: kept[name] | {"user": new}}
                self.trail.sink.save("people", {key: one for key, one in kept.items() if key != name} | entry)

    def everything(self) -> bytes:
        """All that is stored of the audit."""
        if self.database is None:
            return b"".join(path.read_bytes() for path in (self.base / "audit").rglob("*") if path.is_file())
        tables = ("audit_chains", "audit_records", "audit_people", "audit_values")
        rows = [row for table in tables for row in self._rows(f"SELECT * FROM {table}")]
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row)

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        self._connected(lambda connection: connection.execute(statement.encode(), values))

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        self._connected(lambda connection: found.extend(connection.execute(statement.encode()).fetchall()))
        return found

    def _connected(self, action: Callable[[Any], object]) -> None:
        import psycopg

        assert self.database is not None
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            connection.execute(f"SET search_path TO {self.database.schema}".encode())
            action(connection)
