"""Seals hold against who can write to the disk and to the database but has no key (H2, H2b, M3).

Every file and every column of a sealed task is moved, swapped, deleted, cut and replaced, between tasks of two users,
back ends and versions. After each: nothing of the other task can be read, nothing new is written plain, and what was
done is refused or found, unless all that the task says is still what it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon import archive_task, restore_task, search_history
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.outbox import NewNotice
from orihon.drivers.objects import ObjectStorage
from orihon.errors import DamagedStore, OrihonError
from orihon.guard import Redactor
from orihon.guard.keys import CATALOGUE, FolderKeys, find_key
from orihon.llm.answers import ModelAnswer
from orihon.llm.response_cache import ResponseCache
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store.contract import SEALED, STREAMS, Stream
from orihon.store.factory import open_for_reading
from orihon.store.key_places import needed_keys
from orihon.store.redaction import Redaction
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.mirror.mirror import Mirror
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import examine, repair
from orihon.upkeep.keys import rotate_keys
from orihon.upkeep.privacy.anonymize import anonymize_task
from orihon.values.task import TaskKey, TaskStatus
from tests.helpers import refused
from tests.integration.killing import ended
from tests.integration.test_migration import KILLED, PAIRS, Steps, listening
from tests.sealing import files_with, rows_with, sealed_settings, start_sealed, write_key
from tests.services import Database
from tests.stored.make import MASTER_KEY, QUEUED, UUIDS

ANA, BOB = "ana-task", "bob-task"
#: What each of them says, and what the victim says after the attack. Long: few letters can be in any ciphertext.
SECRETS = {ANA: "merganserandgoldeneye", BOB: "capercaillieandptarmigan"}
LATER = "nightjarandwhippoorwill"
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
            *(partial(_records, stream) for stream in STREAMS),
            lambda store: [jsonio.encode(one.message.to_chat()) for one in store.messages()],
            lambda store: list(store.view_lines()),
            lambda store: [store.records.get_blob(digest) for digest in store.records.blob_digests()],
            lambda store: [store.records.load(name) or b"" for name in ("index", "counts")],
            lambda store: store.records.kept_files(),
        ]
        with suppress(OrihonError), closing(open_for_reading(folder, self.settings, name=uuid)) as store:
            names = [name for name in store.records.kept_files() if name != METADATA]  # which is readable
            ways += [partial(_kept, name) for name in names]
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
            task.stop()

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
        names = (
            "SELECT table_name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = %s AND column_name = 'task' AND table_type = 'BASE TABLE' AND NOT EXISTS ("
            "SELECT 1 FROM information_schema.columns AS other WHERE other.table_schema = columns.table_schema"
            " AND other.table_name = columns.table_name AND other.is_identity = 'YES')"
        )
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
                    sql.execute(
                        f"INSERT INTO {table} OVERRIDING SYSTEM VALUE VALUES ({', '.join(['%s'] * len(row))})", row
                    )


def _records(stream: Stream, store: TaskStore) -> list[bytes]:
    return list(store.records.read(stream))


def _kept(name: str, store: TaskStore) -> list[bytes | None]:
    return [store.records.kept_file(name)]


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


# ---- the marker ------------------------------------------------------------------------------------------------------


def _without_marker(house: House) -> None:
    _marker_is(house, None)


def _marker_is(house: House, content: bytes | None) -> None:
    """Bob's marker is this one, or none."""
    if house.database is None:
        path = house.folder(BOB) / SEALED
        path.unlink() if content is None else path.write_bytes(content)
        return
    with house.sql() as sql:
        given = (house.numbers()[BOB], SEALED)
        if content is None:
            sql.execute("DELETE FROM documents WHERE task = %s AND name = %s", given)
        else:
            sql.execute("UPDATE documents SET body = %s WHERE task = %s AND name = %s", (content, *given))


def _marker(house: House, uuid: str = BOB) -> bytes:
    if house.database is None:
        return (house.folder(uuid) / SEALED).read_bytes()
    with house.sql() as sql:
        given = (house.numbers()[uuid], SEALED)
        return bytes(sql.execute("SELECT body FROM documents WHERE task = %s AND name = %s", given).fetchone()[0])


def _plain_records(house: House) -> None:
    """Plain records in the place of bob's, and figures in the catalogue that fit them."""
    with OpenBase(house.base, house.settings) as base:
        base.needed_catalogue().tasks.set_totals(BOB, total_messages=1, total_summaries=0, total_tool_calls=0)
    if house.database is not None:
        with house.sql() as sql:
            for table in house.tables():
                if table.endswith("_records"):
                    kept = "= 1" if table == "message_records" else "< 0"
                    sql.execute(f"DELETE FROM {table} WHERE task = %s AND NOT id {kept}", (house.numbers()[BOB],))
            sql.execute(
                "UPDATE message_records SET record = %s WHERE task = %s",
                (_PLAIN.decode().strip(), house.numbers()[BOB]),
            )
        return
    for path in house.folder(BOB).glob("*.jsonl"):
        path.write_bytes(_PLAIN if path.name == "messages.jsonl" else b"")
    if (house.folder(BOB) / "context.db").exists():
        with closing(apsw.Connection(str(house.folder(BOB) / "context.db"))) as database:
            for table in ("summary", "tool", "plan", "compression", "checkpoint"):
                database.execute(f"DELETE FROM {table}_records")
            database.execute("DELETE FROM message_records WHERE id > 1")
            database.execute("UPDATE message_records SET record = ?", (_PLAIN.decode().strip(),))


@pytest.mark.parametrize("enabled", [True, False])
def test_a_task_that_has_a_key_never_opens_plain(house: House, enabled: bool) -> None:
    """H2: the marker deleted and plain records put in the place of sealed ones, whatever is wanted for new tasks."""
    house.settings = house.settings.replace(**{"encryption.enabled": enabled})
    _without_marker(house)
    _plain_records(house)
    with refused(DamagedStore, "unmarked"), OpenBase(house.base, house.settings) as base:
        place = base.folders.find(BOB)
        assert place is not None
        with closing(base.read_store(place)) as store:
            store.count("messages")
            list(store.messages())
    with refused(DamagedStore, "unmarked"), TaskContextManager.resume(house.base, BOB, house.settings) as task:
        task.message_store.add_message("user", LATER)
    assert house.leaks(LATER) == []
    assert any("has a data key" in finding for finding in house.findings(BOB))
    with OpenBase(house.base, house.settings) as base:
        assert any(finding.task == BOB and "has a data key" in str(finding) for finding in examine(base))


def test_nor_where_the_settings_name_no_key(house: House) -> None:
    """H2: who has no key writes nothing into a sealed task, either."""
    _without_marker(house)
    _plain_records(house)
    house.settings = house.settings.replace(**{"encryption.enabled": False, "encryption.key": None})
    said, is_refused = house.said(BOB)
    assert is_refused
    assert b"delete it" not in said
    house.say_more(BOB)
    assert house.leaks(LATER) == []


def test_a_task_whose_key_was_made_when_the_power_failed_is_begun(files: House) -> None:
    """A key, and neither a marker nor a record: somebody was about to begin the task. Its first record is sealed."""
    for path in files.folder(BOB).iterdir():
        if path.name != METADATA:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with OpenBase(files.base, files.settings) as base:
        base.needed_catalogue().tasks.set_totals(BOB, total_messages=0, total_summaries=0, total_tool_calls=0)
    plain = files.settings.replace(**{"encryption.enabled": False})
    with TaskContextManager.resume(files.base, BOB, plain) as task:
        task.message_store.add_message("user", LATER)
        assert task.task_store.records.is_sealed
    assert files.leaks(LATER) == []


def test_the_key_of_another_task_opens_nothing(files: House) -> None:
    """H2b: not by the marker, and not by the key's own document under another name.

    Two layers refuse such a document. Without any key ``find_key`` sees that it names another id or task; and what it
    wraps is bound to both, so that it opens under no other name, whatever the document says: the second alone keeps
    the task shut, the first says so to those who have no key.
    """
    keys = files.base / "keys"
    place = FolderKeys(keys)

    def is_shut() -> bool:
        said, is_refused = files.said(BOB)
        return is_refused and not any(secret.encode() in said for secret in SECRETS.values())

    for name in ("messages.jsonl", SEALED):
        shutil.copyfile(files.folder(ANA) / name, files.folder(BOB) / name)
    shutil.copyfile(keys / f"{ANA}.json", keys / f"{BOB}.json")
    assert is_shut()
    with refused(DamagedStore, "data_key"):
        find_key(place, BOB)
    named = jsonio.decode((keys / f"{ANA}.json").read_bytes())
    (keys / f"{BOB}.json").write_bytes(jsonio.encode({**named, "id": BOB}))
    assert is_shut()
    with refused(DamagedStore, "data_key"):
        find_key(place, BOB)
    (keys / f"{BOB}.json").write_bytes(jsonio.encode({**named, "id": BOB, "task": BOB}))
    assert is_shut()
    with refused(DamagedStore, "data_key"):
        needed_keys(files.base, files.settings).sealer(BOB)
    assert files.findings(BOB) != []


@pytest.mark.parametrize("what", ["of an earlier version", "of ana's", "flipped", "empty"])
def test_a_marker_that_is_not_the_tasks_is_refused(what: str, house: House) -> None:
    """H2: the marker is sealed for its task; and a task that is younger than that has no unsealed one."""
    own = _marker(house)
    markers = {
        "of an earlier version": jsonio.encode({"version": 1, "key": BOB}),
        "of ana's": _marker(house, ANA),
        "flipped": own[:-12] + (b"A" if own[-12:-11] != b"A" else b"B") + own[-11:],
        "empty": b"",
    }
    _marker_is(house, markers[what])
    assert house.said(BOB)[1]
    assert house.findings(BOB) != []
    house.say_more(BOB)
    assert house.leaks(LATER) == []


@pytest.mark.parametrize(("here", "there"), [("files", "sqlite"), ("sqlite", "files")])
def test_records_of_a_back_end_that_the_task_has_left_are_refused(here: str, there: str, tmp_path: Path) -> None:
    """A task that has moved: its former records, put beside those that count, would be taken instead of them."""
    house = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), here))
    start(house, BOB, "bob")
    former = tmp_path / "former"
    shutil.copytree(house.folder(BOB), former)
    migrate_tasks(house.base, house.settings, source=here, target=there)
    house.settings = sealed_settings(write_key(tmp_path / "master"), there)
    house.say_more(BOB)  # whoever goes on with the task says where it is
    assert house.findings(BOB) == []
    if here == "sqlite":
        shutil.copyfile(former / "context.db", house.folder(BOB) / "context.db")
    else:
        for path in house.folder(BOB).glob("context.db*"):
            path.unlink()
        for name in ("writer.json", *(f"{stream}.jsonl" for stream in STREAMS)):
            with suppress(FileNotFoundError):
                shutil.copyfile(former / name, house.folder(BOB) / name)
    with refused(DamagedStore, "other_backend"), OpenBase(house.base, house.settings) as base:
        place = base.folders.find(BOB)
        assert place is not None
        with closing(base.read_store(place)) as store:
            list(store.messages())
    assert house.findings(BOB) != []


# ---- what is put back ------------------------------------------------------------------------------------------------


def _redact(house: House, word: str) -> None:
    """Take a word out of bob's records."""
    with OpenBase(house.base, house.settings) as base, base.own(BOB) as owned:
        place = base.folders.find(BOB)
        assert place is not None
        with closing(base.store(place, epoch=owned.epoch)) as store:
            store.claim()
            base.audit.watch(store, BOB)  # it is attested as it is now when it is closed
            Redaction(store, lambda text: text.replace(word, "gone"), by="ana").apply()


def _first_record(house: House, put: str | None = None) -> str:
    """Bob's second message as it is stored; another one in its place, where one is given."""
    if house.database is not None:
        with house.sql() as sql:
            given = (house.numbers()[BOB],)
            if put is not None:
                sql.execute("UPDATE message_records SET record = %s WHERE task = %s AND id = 2", (put, *given))
            found = sql.execute("SELECT record FROM message_records WHERE task = %s AND id = 2", given).fetchone()
        return str(found[0])
    if (house.folder(BOB) / "context.db").exists():
        with closing(apsw.Connection(str(house.folder(BOB) / "context.db"))) as database:
            if put is not None:
                database.execute("UPDATE message_records SET record = ? WHERE id = 2", (put,))
            return str(database.execute("SELECT record FROM message_records WHERE id = 2").get)
    path = house.folder(BOB) / "messages.jsonl"
    lines = path.read_text().split("\n")
    if put is not None:
        lines[1] = put
        path.write_text("\n".join(lines))
    return lines[1]


def test_a_record_that_is_put_back_is_refused(house: House) -> None:
    """A record was redacted; what it was before is put back in its place, sealed as it was, by who kept a copy."""
    before = _first_record(house)
    former = _marker(house)
    _redact(house, SECRETS[BOB])
    assert house.said(BOB) == (house.said(BOB)[0], False)
    assert SECRETS[BOB].encode() not in house.said(BOB)[0]
    assert [one for one in house.findings(BOB) if "put back" in one] == []
    redacted = _first_record(house)
    _first_record(house, put=before)
    said, is_refused = house.said(BOB)
    assert is_refused
    assert f"0 {SECRETS[BOB]}".encode() not in said
    assert house.findings(BOB) != []
    _first_record(house, put=redacted)
    assert not house.said(BOB)[1]
    _marker_is(house, former)  # and with it what knew of the redaction
    assert any("put back" in finding for finding in house.findings(BOB))


def test_a_record_may_be_sealed_anew_again_and_again(house: House) -> None:
    for word in ("0 ", "1 ", SECRETS[BOB]):
        _redact(house, word)
        assert not house.said(BOB)[1]
    assert house.findings(BOB) == []
    house.say_more(BOB)
    assert LATER.encode() in house.said(BOB)[0]


def test_what_a_task_knows_of_its_seals_goes_with_it(tmp_path: Path) -> None:
    """From files to SQLite and back the records stay as they are sealed: what was put back is known there, too."""
    house = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), "files"))
    start(house, BOB, "bob")
    before = _first_record(house)
    _redact(house, SECRETS[BOB])
    migrate_tasks(house.base, house.settings, source="files", target="sqlite")
    house.settings = sealed_settings(write_key(tmp_path / "master"), "sqlite")
    assert house.findings(BOB) == []
    _first_record(house, put=before)
    assert house.said(BOB)[1]


def test_whose_task_it_is_cannot_be_changed_unseen(house: House) -> None:
    """The user in the row, and the one in metadata.json."""
    where = "UPDATE tasks SET \"user\" = 'ana' WHERE uuid = 'bob-task'"
    if house.database is not None:
        with house.sql() as sql:
            sql.execute(where)
    else:
        with closing(apsw.Connection(str(house.base / "tasks.db"))) as database:
            database.execute(where)
    assert any("changed the catalogue" in finding for finding in house.findings(BOB))
    if house.database is None:
        path = house.folder(BOB) / METADATA
        path.write_bytes(path.read_bytes().replace(b'"user": "bob"', b'"user": "ana"').replace(b'"crc32"', b'"was"', 1))
        assert any("metadata.json is not what was written" in finding for finding in house.findings(BOB))


# ---- the catalogue ---------------------------------------------------------------------------------------------------

_COLUMNS = ("prompt", "error_message", "metadata")


def _write(house: House, statement: str, *values: Any) -> None:
    """What somebody who may write the catalogue's database writes there."""
    if house.database is not None:
        with house.sql() as sql:
            sql.execute(statement.replace("?", "%s"), values)
    else:
        with closing(apsw.Connection(str(house.base / "tasks.db"))) as database:
            database.execute(statement, values)


def _column(house: House, column: str, uuid: str) -> str:
    """What is stored in a column."""
    statement = f"SELECT {column} FROM tasks WHERE uuid = ?"
    if house.database is not None:
        with house.sql() as sql:
            return str(sql.execute(statement.replace("?", "%s"), (uuid,)).fetchone()[0])
    with closing(apsw.Connection(str(house.base / "tasks.db"))) as database:
        return str(database.execute(statement, (uuid,)).get)


@pytest.fixture
def rows(house: House) -> House:
    """The same, with texts in the rows."""
    with open_catalogue(house.base, house.settings) as catalogue:
        for uuid, secret in SECRETS.items():
            catalogue.tasks.update(uuid, prompt=f"prompt {secret}", error_message=secret, metadata={"title": secret})
            catalogue.outbox.add(NewNotice(f"notice of {uuid}", "paused", "info", uuid, {"title": secret}))
    assert house.leaks(*SECRETS.values()) == []
    return house


@pytest.mark.parametrize("column", _COLUMNS)
@pytest.mark.parametrize("source", ["row", "column", "plain"])
def test_a_text_opens_in_its_row_and_column_only(source: str, column: str, rows: House) -> None:
    """M3: ana's text in bob's row, bob's in another column, and a plain one; who lists tasks, or works on one."""
    other = next(name for name in ("prompt", "error_message") if name != column)
    texts = {
        "row": _column(rows, column, ANA),
        "column": _column(rows, other, BOB),
        "plain": "delete it" if column != "metadata" else '{"title":"delete it"}',
    }
    given = texts[source]
    if source == "column" and column == "metadata":
        given = jsonio.encode({"sealed": given}).decode()
    _write(rows, f"UPDATE tasks SET {column} = ? WHERE uuid = ?", given, BOB)
    with open_catalogue(rows.base, rows.settings) as catalogue:
        if (source, column) == ("plain", "error_message"):
            assert catalogue.tasks.get(BOB).error_message == ""
            return
        for look in (lambda: catalogue.tasks.get(BOB), catalogue.tasks.page):
            with pytest.raises(DamagedStore):
                look()
        assert catalogue.tasks.get(ANA).prompt == f"prompt {SECRETS[ANA]}"
    assert any("catalogue" in finding for finding in rows.findings(BOB))
    with OpenBase(rows.base, rows.settings) as base:
        assert [finding.kind for finding in examine(base) if finding.check in ("seal", "catalogue")] == [
            ("seal", "text")
        ]
        assert all(finding.repair != "done" for finding in repair(base) if finding.check == "seal")


@pytest.mark.parametrize("source", ["ana's", "plain"])
def test_a_notice_says_what_was_written_for_it(source: str, rows: House) -> None:
    """M3: what notices are about is bound to them; the database itself writes figures, and nothing else is taken."""
    body = '{"title":"delete it"}'
    if source == "ana's":
        given = (f"notice of {BOB}", f"notice of {ANA}")
        _write(rows, "UPDATE notifications SET body = (SELECT body FROM notifications WHERE event = ?) WHERE event = ?",
               given[1], given[0])  # fmt: skip
    else:
        _write(rows, "UPDATE notifications SET body = ? WHERE event = ?", body, f"notice of {BOB}")
    with open_catalogue(rows.base, rows.settings) as catalogue:
        with pytest.raises(DamagedStore):
            catalogue.outbox.rows(task=BOB)
        _write(rows, "UPDATE notifications SET body = ? WHERE event = ?", '{"attempts":3}', f"notice of {BOB}")
        assert [dict(one.body) for one in catalogue.outbox.rows(task=BOB)] == [{"attempts": 3}]
        assert [dict(one.body) for one in catalogue.outbox.rows(task=ANA)] == [{"title": SECRETS[ANA]}]


def test_a_task_that_was_queued_plain_is_begun_sealed(house: House) -> None:
    """Its row is sealed when somebody takes it, before it has a key: from then on it must be."""
    key = TaskKey("github", "owner", "repo", "issue", "9", "bob")
    plain = house.settings.replace(**{"encryption.enabled": False, "encryption.key": None})
    with closing(TaskQueue(house.base, plain)) as queue:
        uuid = queue.enqueue(key, prompt=f"please {LATER}")
    assert house.leaks(LATER) != []
    with closing(TaskQueue(house.base, house.settings)) as sealing:
        claimed = sealing.dequeue()
        assert claimed is not None
        assert claimed.uuid == uuid
        assert _column(house, "prompt", uuid).startswith("orihon-sealed-2:")
        sealing.give_back(claimed, "later")
    with TaskContextManager(house.base, key, house.settings, uuid=uuid) as task:
        task.message_store.add_message("user", LATER)
        assert task.task_store.records.is_sealed
    with open_catalogue(house.base, house.settings) as catalogue:
        assert catalogue.tasks.get(uuid).prompt == f"please {LATER}"
    assert house.findings(uuid) == []


# ---- earlier versions ------------------------------------------------------------------------------------------------

_SAMPLE = Path(__file__).parent.parent / "stored" / "sealed-v1" / "base"


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A base folder that the version before these bonds has written: two tasks that failed, one that waits."""
    monkeypatch.setenv("SAMPLE_KEY", MASTER_KEY)
    house = House(tmp_path, sealed_settings("env:SAMPLE_KEY"))
    shutil.copytree(_SAMPLE, house.base)
    for path in [*house.base.rglob("*.sample")]:
        path.rename(path.with_name(path.name.removesuffix(".sample")))
    for path in house.base.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return house


def test_what_an_earlier_version_sealed_is_read_and_named(earlier: House) -> None:
    for backend, uuid in UUIDS.items():
        assert f"question in {backend}: なぜ".encode() in earlier.said(uuid)[0]
        assert [one for one in earlier.findings(uuid) if "permissions" not in one] == []
    with OpenBase(earlier.base, earlier.settings) as base:
        assert [finding.fields["count"] for finding in examine(base) if finding.kind == ("seal", "old_texts")] == [4]
    with open_catalogue(earlier.base, earlier.settings) as catalogue:
        assert catalogue.tasks.get(QUEUED).prompt == "the prompt: なぜ"
        assert catalogue.tasks.get(UUIDS["sqlite"]).error_message == "it broke in sqlite"
        assert {"title": "the title"} in [dict(one.body) for one in catalogue.outbox.rows(task=QUEUED)]


def test_texts_of_an_earlier_version_are_sealed_anew_and_then_refused(earlier: House) -> None:
    """M3: until ``orihon keys rotate`` an earlier text opens in any row; from then on it is refused."""
    first, second = UUIDS.values()
    former = _column(earlier, "error_message", first)
    _write(earlier, "UPDATE tasks SET error_message = ? WHERE uuid = ?", former, second)
    with open_catalogue(earlier.base, earlier.settings) as catalogue:
        assert catalogue.tasks.get(second).error_message == "it broke in files"
    with OpenBase(earlier.base, earlier.settings) as base:
        rotate_keys(base)
        rotate_keys(base)
        assert [finding for finding in examine(base) if finding.check == "seal"] == []
    with open_catalogue(earlier.base, earlier.settings) as catalogue:
        assert catalogue.tasks.get(QUEUED).prompt == "the prompt: なぜ"
        assert {"title": "the title"} in [dict(one.body) for one in catalogue.outbox.rows(task=QUEUED)]
    _write(earlier, "UPDATE tasks SET error_message = ? WHERE uuid = ?", former, first)
    with open_catalogue(earlier.base, earlier.settings) as catalogue, refused(DamagedStore, "row_text"):
        catalogue.tasks.get(first)


@pytest.mark.parametrize("backend", UUIDS)
def test_a_task_of_an_earlier_version_gets_a_sealed_marker_from_its_next_writer(backend: str, earlier: House) -> None:
    uuid = UUIDS[backend]
    path = earlier.base / "completed" / uuid / SEALED
    former = path.read_bytes()
    assert b"sealed" not in former
    with OpenBase(earlier.base, earlier.settings) as base, base.own(uuid) as owned:
        place = base.folders.find(uuid)
        assert place is not None
        with closing(base.store(place, epoch=owned.epoch)) as store:
            store.claim()
    assert b"sealed" in path.read_bytes()
    assert f"question in {backend}: なぜ".encode() in earlier.said(uuid)[0]
    path.write_bytes(former)
    assert earlier.said(uuid)[1]
    path.unlink()
    assert earlier.said(uuid)[1]


# ---- plain tasks that become sealed ones -----------------------------------------------------------------------------


def test_a_plain_archive_comes_back_sealed_after_an_interrupted_run_too(
    tmp_path: Path, emptied_postgres: Database
) -> None:
    """Into a database it is sealed on its way; the key that a run has made which died then does not shut the task."""
    shelf = {"url": f"file://{tmp_path}/shelf"}
    source = write_key(tmp_path / "master")
    settings = sealed_settings(source, "postgres", emptied_postgres, archive=shelf)
    house = House(tmp_path, settings.replace(**{"encryption.enabled": False}), emptied_postgres)
    start(house, BOB, "bob")
    house.settings = settings.replace(**{"encryption.enabled": False})
    with OpenBase(house.base, house.settings) as base:
        base.needed_catalogue().tasks.change_status(BOB, TaskStatus.CANCELLED)
    archive_task(house.base, BOB, house.settings)
    needed_keys(house.base, settings).new_sealer(BOB)  # … and no record under it
    house.settings = settings
    restore_task(house.base, BOB, settings)
    said, is_refused = house.said(BOB)
    assert not is_refused
    assert SECRETS[BOB].encode() in said
    search_history(house.base, settings, SECRETS[BOB])  # which takes it out of the index
    assert rows_with(emptied_postgres, SECRETS[BOB]) == []


def test_who_is_called_otherwise_is_so_in_what_is_proven(tmp_path: Path) -> None:
    """``orihon privacy anonymize`` writes the row and metadata.json: that is no change by somebody else."""
    house = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), "files"))
    start(house, BOB, "carol")
    with OpenBase(house.base, house.settings) as base:
        anonymize_task(base, BOB)
        row = base.row(BOB)
        assert row is not None
        assert row.user != "carol"
    assert house.findings(BOB) == []


# ---- archives, mirrors, kept answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["archive", "mirror"])
def test_what_lies_in_a_storage_cannot_be_given_to_another_task(what: str, tmp_path: Path) -> None:
    """H2b: ana's objects under the names of bob's, in a bucket that somebody may write to."""
    shelf = tmp_path / "shelf"
    section: dict[str, Any] = {"url": f"file://{shelf}"} | ({"mirror_every": 1} if what == "mirror" else {})
    house = House(tmp_path, sealed_settings(write_key(tmp_path / "master"), "files", archive=section))
    for uuid, user in ((ANA, "ana"), (BOB, "bob")):
        start(house, uuid, user)
        if what == "archive":
            with OpenBase(house.base, house.settings) as base:
                base.needed_catalogue().tasks.change_status(uuid, TaskStatus.CANCELLED)
            archive_task(house.base, uuid, house.settings)
    for path in [path for path in shelf.rglob("*") if path.is_file() and BOB in str(path)]:
        path.unlink()
    theirs = [path for path in shelf.rglob("*") if path.is_file() and ANA in str(path)]
    assert theirs != []
    for path in theirs:
        target = Path(str(path).replace(ANA, BOB))
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        target.write_bytes(content.replace(ANA.encode(), BOB.encode()) if path.suffix == ".json" else content)
    with suppress(OrihonError):
        if what == "archive":
            restore_task(house.base, BOB, house.settings)
        else:
            shutil.rmtree(house.folder(BOB))
            Mirror(ObjectStorage.of(house.settings), BOB).fetch(house.folder(BOB))
    said, is_refused = house.said(BOB)
    assert SECRETS[ANA].encode() not in said
    assert is_refused
    assert house.leaks(*SECRETS.values()) == []


def test_a_kept_answer_answers_its_own_request_only(files: House) -> None:
    """Another request's answer, and a plain one, in the place of a sealed answer: the model is asked anew."""
    sealer = needed_keys(files.base, files.settings).new_sealer(CATALOGUE)
    kept = ResponseCache(files.base / "responses", sealer=sealer)
    one, other = kept.key("http://model", b"ana asks"), kept.key("http://model", b"bob asks")
    for key, text in ((one, SECRETS[ANA]), (other, SECRETS[BOB])):
        kept.put(key, ModelAnswer(text, ()), Redactor(b"", enabled=False))
    path = files.base / "responses" / f"{other}.json"
    shutil.copyfile(files.base / "responses" / f"{one}.json", path)
    assert kept.get(other) is None
    path.write_bytes(b'{"made_at":1e12,"text":"delete it","calls":[],"finish":"stop","fields":{}}')
    assert kept.get(other) is None
    found = kept.get(one)
    assert found is not None
    assert found.text == SECRETS[ANA]


def _records_of(base: Path, settings: Settings, uuid: str) -> list[bytes]:
    place = folders_of(base, settings).find(uuid)
    assert place is not None
    with closing(open_for_reading(place.folder, settings, name=uuid)) as store:
        return list(store.records.read("messages"))


def _goes_on(base: Path, settings: Settings, uuid: str) -> None:
    task = TaskContextManager.resume(base, uuid, settings)
    task.message_store.add_message("user", LATER)
    task.stop()
    task.catalogue.close()


@pytest.mark.parametrize("step", ["copied_messages", "moved_in"])
@pytest.mark.parametrize("is_shared", [False, True], ids=["own-catalogue", "shared-catalogue"])
def test_a_plain_task_whose_sealing_move_was_killed_opens_as_it_was(
    tmp_path: Path, postgres: Database, is_shared: bool, step: str
) -> None:
    """The key for a copy that does not count yet shut the plain task that still did, until migrate was run again."""
    base, key = tmp_path / "contexts", write_key(tmp_path / "key")
    database = postgres if is_shared else None
    here, there = sealed_settings(key, "files", database), sealed_settings(key, "postgres", postgres)
    plain = here.replace(**{"encryption.enabled": False})
    task = start_sealed(base, plain, BOB)
    task.stop()
    task.catalogue.close()
    before = _records_of(base, plain, BOB)
    if (child := os.fork()) == 0:
        try:
            with listening(Steps(step)):
                migrate_tasks(base, there, source="files", target="postgres")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(ended(child)) == KILLED
    assert _records_of(base, there, BOB) == before
    assert _records_of(base, load_settings({"database": postgres.settings}, environ={}), BOB) == before
    _goes_on(base, here, BOB)
    assert [task.outcome for task in migrate_tasks(base, there, source="files", target="postgres").tasks] == ["moved"]
    assert len(_records_of(base, there, BOB)) == len(before) + 1
    _goes_on(base, there, BOB)
    assert rows_with(postgres, LATER) == []
    _without_marker(House(tmp_path, there, postgres))  # from now on it is sealed for good
    with refused(DamagedStore, "unmarked"):
        _records_of(base, there, BOB)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids="-".join)
def test_the_keys_of_a_task_in_a_folder_are_where_its_row_is(
    tmp_path: Path, postgres: Database, source: str, target: str
) -> None:
    """With the catalogue in the database and records in folders, sealed tasks could not be moved, or not be opened."""
    base, key = tmp_path / "contexts", write_key(tmp_path / "key")
    task = start_sealed(base, sealed_settings(key, source, postgres), BOB)
    task.stop()
    task.catalogue.close()
    before = _records_of(base, sealed_settings(key, source, postgres), BOB)
    settings = sealed_settings(key, target, postgres)
    assert [task.outcome for task in migrate_tasks(base, settings, source=source, target=target).tasks] == ["moved"]
    assert _records_of(base, settings, BOB) == before
    _goes_on(base, settings, BOB)
    with OpenBase(base, settings) as opened:
        assert [str(finding) for finding in verify(opened, BOB)] == []
