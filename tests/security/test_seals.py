"""Seals hold against who can write to the disk and to the database but has no key (H2, H2b, M3).

Every file and every column of a sealed task is moved, swapped, deleted, cut and replaced, between tasks of two users,
back ends and versions. After each: nothing of the other task can be read, nothing new is written plain, and what was
done is refused or found, unless all that the task says is still what it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orihon.catalogue.metadata import NAME as METADATA
from orihon.errors import OrihonError
from orihon.settings import Settings
from orihon.store.contract import SEALED, STREAMS
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskKey
from tests.sealing import files_with, rows_with, sealed_settings, write_key
from tests.services import Database

ANA, BOB = "ana-task", "bob-task"
#: What each of them says, and what the victim says after the attack.
SECRETS = {ANA: "merganser", BOB: "capercaillie"}
LATER = "nightjar"
_PLAIN = b'{"seq":1,"role":"user","content":"delete it","timestamp":"t","tokens":1,"epoch":1,"digest":"d"}\n'


@dataclass
class House:
    """A base folder with a sealed task of ana's and one of bob's."""

    root: Path
    settings: Settings
    database: Database | None = None
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def base(self) -> Path:
        return self.root / "contexts"

    def folder(self, uuid: str) -> Path:
        return self.base / "paused" / uuid

    def said(self, uuid: str) -> tuple[bytes, bool]:
        """All that can be read of a task, in every way that there is, and whether something was refused."""
        found: list[bytes] = []
        is_refused = False
        with OpenBase(self.base, self.settings) as base:
            place = base.folders.find(uuid)
            folder = self.folder(uuid) if place is None else place.folder
        ways: list[Callable[[Any], Any]] = [
            *(lambda store, stream=stream: list(store.records.read(stream)) for stream in STREAMS),
            lambda store: [jsonio.encode(one.message.to_chat()) for one in store.messages()],
            lambda store: list(store.view_lines()),
            lambda store: [store.records.get_blob(digest) for digest in store.records.blob_digests()],
            lambda store: [store.records.load(name) or b"" for name in ("index", "counts")],
            lambda store: store.records.kept_files(),
        ]
        with suppress(OrihonError), closing(open_for_reading(folder, self.settings, name=uuid)) as store:
            names = [name for name in store.records.kept_files() if name != METADATA]  # which is readable
            ways += [lambda store, name=name: [store.records.kept_file(name)] for name in names]
        for way in ways:
            try:
                with closing(open_for_reading(folder, self.settings, name=uuid)) as store:
                    found += [one.encode() if isinstance(one, str) else one or b"" for one in way(store)]
            except OrihonError:
                is_refused = True
        return b"\n".join(found), is_refused

    def say_more(self, uuid: str) -> None:
        """The victim goes on, if it can."""
        with suppress(OrihonError), TaskContextManager.resume(self.base, uuid, self.settings) as task:
            task.message_store.add_message("user", LATER)

    def leaks(self, *words: str) -> list[str]:
        """Where one of the words can be read."""
        return files_with(self.base, *words) + ([] if self.database is None else rows_with(self.database, *words))

    def findings(self, uuid: str) -> list[str]:
        """What verify and the doctor say of a task."""
        with OpenBase(self.base, self.settings) as base:
            try:
                return [str(finding) for finding in verify(base, uuid)]
            except OrihonError as error:
                return [error.cause]

    # ---- the attacker ------------------------------------------------------------------------------------------

    @contextmanager
    def sql(self) -> Iterator[Any]:
        """What somebody with the password of the database, and nothing else, has."""
        import psycopg

        assert self.database is not None
        options = f"-c search_path={self.database.schema}"
        with psycopg.connect(self.database.url, autocommit=True, options=options) as connection:
            yield connection

    def tables(self) -> list[str]:
        names = "SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'task'"
        with self.sql() as sql:
            found = sql.execute(names + " ORDER BY 1", (self.database and self.database.schema,)).fetchall()
        return [name for (name,) in found if name != "notifications"]

    def numbers(self) -> dict[str, int]:
        with self.sql() as sql:
            return dict(sql.execute("SELECT uuid, number FROM task_logs").fetchall())

    def parts(self) -> list[str]:
        """Everything that one of the tasks consists of, by name."""
        here = {path for uuid in (ANA, BOB) for path in self.folder(uuid).rglob("*") if path.is_file()}
        names = {str(path.relative_to(self.folder(uuid))) for path in here for uuid in path.parts if uuid in SECRETS}
        if self.database is None:
            return sorted(name for name in names if not name.startswith(("writer.", "context.db-")))
        return self.tables()

    def keep(self) -> None:
        """Remember how everything is now."""
        shutil.copytree(self.base, self.root / "kept")
        for table in ("data_keys", *self.tables()) if self.database is not None else ():
            with self.sql() as sql:
                self.rows[table] = sql.execute(f"SELECT * FROM {table}").fetchall()

    def restore(self) -> None:
        """Everything is as it was."""
        shutil.rmtree(self.base)
        shutil.copytree(self.root / "kept", self.base)
        if self.database is None:
            return
        with self.sql() as sql, sql.transaction():
            for table, rows in self.rows.items():
                sql.execute(f"DELETE FROM {table}")
                for row in rows:
                    sql.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)


def start(house: House, uuid: str, user: str) -> None:
    """A task that says its secret in every way that it has."""
    secret = SECRETS[uuid]
    key = TaskKey("github", "owner", "repo", "issue", "7", user)
    with TaskContextManager(house.base, key, house.settings, uuid=uuid) as task:
        store = task.message_store
        store.add_message("system", f"rules of {secret}")
        for turn in range(3):
            store.add_message("user", f"{turn} {secret}")
            store.add_message("assistant", f"{turn} {secret} " * (200 if turn == 2 else 1))
        task.tool_store.add_tool_call("look", {"path": secret}, secret * 200)
        task.planning_store.add_plan("initial", {"steps": [secret]})
        store.create_summary(2, 3, f"about {secret}")
        task.task_store.records.keep_file("outputs/look-0123abcd.txt", secret.encode())
        task.task_store.records.keep_file("final_summary.txt", secret.encode())
        task.stop()


@pytest.fixture(params=["files", "sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    database = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    made = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), request.param, database), database)
    start(made, ANA, "ana")
    start(made, BOB, "bob")
    made.keep()
    return made


@pytest.fixture
def files(tmp_path: Path) -> House:
    """The same in files, for what is about one back end."""
    made = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), "files"))
    start(made, ANA, "ana")
    start(made, BOB, "bob")
    made.keep()
    return made


# ---- every part, every way -------------------------------------------------------------------------------------------


def _replaced(house: House, part: str) -> None:
    """Ana's in the place of bob's."""
    if house.database is not None:
        _rows_moved(house, part, ANA, BOB)
        return
    source, target = house.folder(ANA) / part, house.folder(BOB) / part
    if source.exists():
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)


def _rows_moved(house: House, table: str, source: str, target: str) -> None:
    numbers = house.numbers()
    with house.sql() as sql, sql.transaction():
        sql.execute(f"DELETE FROM {table} WHERE task = %s", (numbers[target],))
        names = [name.name for name in sql.execute(f"SELECT * FROM {table} LIMIT 0").description if name.name != "task"]
        columns = ", ".join(names)
        sql.execute(
            f"INSERT INTO {table} (task, {columns}) SELECT %s, {columns} FROM {table} WHERE task = %s",
            (numbers[target], numbers[source]),
        )


def _replaced_with_marker(house: House, part: str) -> None:
    """The same, and ana's marker with it (H2b)."""
    _replaced(house, part)
    if house.database is None:
        shutil.copyfile(house.folder(ANA) / SEALED, house.folder(BOB) / SEALED)
        return
    numbers = house.numbers()
    with house.sql() as sql:
        sql.execute(
            "UPDATE documents SET body = (SELECT body FROM documents WHERE task = %s AND name = %s)"
            " WHERE task = %s AND name = %s",
            (numbers[ANA], SEALED, numbers[BOB], SEALED),
        )


def _swapped(house: House, part: str) -> None:
    if house.database is not None:
        numbers = house.numbers()
        with house.sql() as sql, sql.transaction():
            for old, new in ((numbers[ANA], -1), (numbers[BOB], numbers[ANA]), (-1, numbers[BOB])):
                # Where a foreign key stands in the way there is no such attack.
                with suppress(Exception), sql.transaction():
                    sql.execute(f"UPDATE {part} SET task = %s WHERE task = %s", (new, old))
        return
    one, other = house.folder(ANA) / part, house.folder(BOB) / part
    if one.exists() and other.exists():
        mine, theirs = one.read_bytes(), other.read_bytes()
        one.write_bytes(theirs)
        other.write_bytes(mine)


def _deleted(house: House, part: str) -> None:
    if house.database is not None:
        with house.sql() as sql:
            sql.execute(f"DELETE FROM {part} WHERE task = %s", (house.numbers()[BOB],))
        return
    (house.folder(BOB) / part).unlink(missing_ok=True)


def _cut(house: House, part: str) -> None:
    if house.database is not None:
        with house.sql() as sql:
            for column in sql.execute(f"SELECT * FROM {part} LIMIT 0").description:
                if column.type_code == 17:  # bytes
                    sql.execute(
                        f"UPDATE {part} SET {column.name} = substr({column.name}, 1, length({column.name}) / 2)"
                        " WHERE task = %s",
                        (house.numbers()[BOB],),
                    )
        return
    path = house.folder(BOB) / part
    if path.exists():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _plain(house: House, part: str) -> None:
    """Something plain in its place."""
    if house.database is not None:
        with house.sql() as sql:
            for column in sql.execute(f"SELECT * FROM {part} LIMIT 0").description:
                if column.type_code == 17:
                    statement = f"UPDATE {part} SET {column.name} = %s WHERE task = %s"
                    sql.execute(statement, (_PLAIN[:-1], house.numbers()[BOB]))
        return
    path = house.folder(BOB) / part
    if path.exists() and path.suffix != ".db":
        path.write_bytes(_PLAIN)


#: What is derived, and files that nothing else mentions: nobody knows that they are gone.
_MAY_GO = ("final_summary.txt", "outputs/look-0123abcd.txt", "index.json")
ATTACKS = {
    "replaced": _replaced,
    "replaced with the marker": _replaced_with_marker,
    "swapped": _swapped,
    "deleted": _deleted,
    "cut": _cut,
    "plain": _plain,
}


@pytest.mark.parametrize("how", ATTACKS)
def test_no_part_of_a_task_can_be_exchanged(how: str, house: House) -> None:
    """H2, H2b: whatever is done to whatever part, on every back end."""
    before, is_refused = house.said(BOB)
    assert not is_refused
    assert SECRETS[BOB].encode() in before
    for part in house.parts():
        house.restore()
        ATTACKS[how](house, part)
        said, is_refused = house.said(BOB)
        assert SECRETS[ANA].encode() not in said, (how, part)
        assert b"delete it" not in said, (how, part)
        findings = house.findings(BOB)
        is_whole = {*before.split(b"\n")} <= {*said.split(b"\n")}
        is_lost = how == "deleted" and part in _MAY_GO
        assert is_refused or findings or is_whole or is_lost, (how, part)
        house.say_more(BOB)
        assert house.leaks(LATER, *SECRETS.values()) == [], (how, part)
