"""Databases with values that nobody ever wrote: damage is told as such, and a refusal leaves no lock behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from orihon import MessageStore
from orihon.catalogue import Catalogue
from orihon.drivers.sqlite import connect
from orihon.errors import DamagedStore
from orihon.settings import load_settings
from orihon.store.factory import open_for_reading, open_records
from orihon.values.task import TaskKey, TaskStatus

CONFIG = {"context_storage": {"backend": "sqlite", "durability": "os", "db_timeout": 1}}
SETTINGS = load_settings(CONFIG, environ={})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = MessageStore(tmp_path / "task", CONFIG)
    for number in range(3):
        store.add_message("user", f"question {number}")
    store.close()
    return tmp_path / "task"


def _change(folder: Path, *statements: str) -> None:
    """What a flipped bit can do and a statement cannot: no column is ``NOT NULL`` any more, none has a type."""
    bare = "replace(replace(replace(sql, ' NOT NULL', ''), 'epoch INTEGER', 'epoch'), 'body BLOB', 'body')"
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_schema SET sql = {bare} WHERE type = 'table'")
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_record_that_is_null_is_told_with_its_number(folder: Path) -> None:
    _change(folder, "UPDATE message_records SET record = NULL WHERE id = 2")
    with closing(open_for_reading(folder, SETTINGS)) as store:
        with pytest.raises(DamagedStore) as told:
            list(store.messages())
        assert told.value.fields["number"] == 2
        assert [one.message.text for one in store.messages(3, 3)] == ["question 2"]


@pytest.mark.parametrize("epoch", ["'x'", "NULL", "1.5", "x'00ff'"])
def test_an_epoch_that_is_no_number_is_damage(folder: Path, epoch: str) -> None:
    _change(folder, f"UPDATE fence SET epoch = {epoch}")
    with pytest.raises(DamagedStore):
        MessageStore(folder, CONFIG).add_message("user", "more")


@pytest.mark.parametrize("body", ["9000000000000", "'text'", "CAST(x'ff' AS TEXT)", "NULL"])
def test_a_derived_document_of_another_type_costs_no_more_than_a_lost_one(folder: Path, body: str) -> None:
    _change(folder, f"UPDATE documents SET body = {body}", f"INSERT OR REPLACE INTO documents VALUES ('odd', {body})")
    with closing(open_records(folder, SETTINGS, to_read=True)) as records:
        assert isinstance(records.load("odd"), bytes | None)
    store = MessageStore(folder, CONFIG)
    store.add_message("user", "more")
    assert store.get_message(4).message.text == "more"
    store.close()


def test_a_refused_database_can_be_replaced_while_its_error_is_held(folder: Path) -> None:
    """To leave the write-ahead log, SQLite has to be alone with the file: a connection left open would prevent it."""
    path = folder / "context.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:30] + b"\xff" + whole[31:])
    with pytest.raises(DamagedStore) as held:
        connect(path, timeout=1)
    path.write_bytes(whole[:18] + b"\1\1" + whole[20:])  # from a backup that was not in that mode
    with closing(open_for_reading(folder, SETTINGS)) as store:
        assert len(list(store.messages())) == 3
    assert held.value.reason == "database"


# ---- the catalogue -------------------------------------------------------------------------------------------------


def _looks(catalogue: Catalogue) -> dict[str, Callable[[], object]]:
    return {
        "row": lambda: catalogue.tasks.get("one"),
        "list": lambda: list(catalogue.tasks.page(limit=9)),
        "claim": catalogue.queue.claim_next,
        "status": lambda: catalogue.queue.requested("one"),
        "count": catalogue.statistics.count_by_status,
        "users": catalogue.statistics.count_by_user_and_status,
    }


@pytest.mark.parametrize(
    ("change", "looks"),
    [
        ("metadata = NULL", {"row", "list", "claim"}),
        ("metadata = '[1]'", {"row", "list", "claim"}),
        ("metadata = '{'", {"row", "list", "claim"}),
        ("owner = CAST(x'66f2' AS TEXT)", {"row", "list", "claim"}),
        ("status = 'queueed'", {"row", "list", "status", "count", "users"}),
    ],
)
def test_a_row_that_nobody_wrote_is_damage_and_no_crash(tmp_path: Path, change: str, looks: set[str]) -> None:
    path = tmp_path / "tasks.db"
    with Catalogue(path) as catalogue:
        catalogue.tasks.register(
            TaskKey("github", "me", "project", "issue", "1", "me"), "one", status=TaskStatus.QUEUED
        )
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        bare = "replace(replace(sql, ' NOT NULL', ''), ' STRICT', '')"
        connection.execute(f"UPDATE sqlite_schema SET sql = {bare} WHERE name = 'tasks'")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA ignore_check_constraints = ON; UPDATE tasks SET {change}")
    with Catalogue(path) as catalogue:
        for name, look in _looks(catalogue).items():
            if name in looks:
                with pytest.raises(DamagedStore):
                    look()
