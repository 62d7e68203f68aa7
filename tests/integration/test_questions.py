"""``base.sql``: questions of people to the catalogue, in a file and in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orihon import Base, aio
from orihon.errors import InvalidInput
from tests.helpers import Rule, refused
from tests.services import Database

CHANGES = (
    "DELETE FROM tasks",
    "UPDATE tasks SET status = 'dead'",
    "INSERT INTO counters VALUES ('x', 1)",
    "DROP TABLE tasks",
    "SELECT 1; DELETE FROM tasks",
    "SELECT 1; SELECT 2",
    "BEGIN",
    "COMMIT",
    "VACUUM",
    "ATTACH 'other.db' AS other",
    "PRAGMA user_version = 7",
    "PRAGMA wal_checkpoint",
    "PRAGMA journal_mode = DELETE",
    "",
    "-- SELECT 1",
)


@pytest.fixture(params=["file", "postgres"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Base]:
    place: dict[str, object] = {}
    if request.param == "postgres":
        database: Database = request.getfixturevalue("postgres")
        place = {**database.settings}
    with Base(tmp_path, database=place) as opened:
        yield opened


def test_questions_are_answered_and_nothing_is_changed(base: Base) -> None:
    assert base.sql("SELECT count(*) AS tasks FROM tasks") == [{"tasks": 0}]
    assert base.sql("SELECT uuid FROM tasks") == []
    first = base.enqueue("one", user="花子")
    base.enqueue("two")
    asked = "SELECT uuid, status /* ? */ FROM tasks WHERE \"user\" = ? AND '?%' <> ? -- ?"
    assert base.sql(asked, "花子", "x") == [{"uuid": first, "status": "queued"}]
    assert base.sql("WITH t AS (SELECT uuid FROM tasks) SELECT count(*) AS number FROM t") == [{"number": 2}]
    assert base.sql("EXPLAIN SELECT 1")
    with Rule() as rule:
        for change in CHANGES:
            with suppress(InvalidInput):
                base.sql(change)
                rule.broken.append(change)
    with refused(InvalidInput, "sql_change"):
        base.sql("WITH gone AS (SELECT 1) DELETE FROM tasks")
    assert base.sql("SELECT count(*) AS number FROM tasks") == [{"number": 2}]
    assert not Path("other.db").exists()


def test_a_question_that_is_wrong_is_told_so(base: Base) -> None:
    for wrong, parameters in (
        ("SELECT nothing FROM tasks", ()),
        ("SELECT FROM WHERE", ()),
        ("SELECT 1 WHERE 1 = ?", ()),
        ("SELECT uuid FROM tasks WHERE uuid = ?", ("a", "b")),
        ("SELECT 1 / (SELECT count(*) FROM nowhere)", ()),
    ):
        with refused(InvalidInput, "sql"):
            base.sql(wrong, *parameters)


async def _asked(folder: Path) -> list[dict[str, object]]:
    async with aio.Base(folder) as base:
        rows: list[dict[str, object]] = await base.sql("SELECT ? AS number", 5)
        return rows


def test_async_programs_ask_the_same_way(tmp_path: Path) -> None:
    assert asyncio.run(_asked(tmp_path)) == [{"number": 5}]
