"""The schema that tests have one after the other: nothing of one is there for the next."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from orihon import TaskContextManager, TaskKey, load_settings, search_history
from orihon.audit import audit_of, audit_records
from tests.services import Database, empty


def test_a_schema_that_nobody_has_needed_is_empty(postgres: Database) -> None:
    empty(postgres)


def test_tables_stay_and_are_of_the_version_that_they_were(postgres: Database, tmp_path: Path) -> None:
    settings = load_settings({"database": postgres.settings, "audit": {"level": "all"}}, environ={})
    TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1", "me"), settings).stop()
    search_history(tmp_path, settings, "words")
    before = _filled(postgres)
    empty(postgres)
    assert before > _filled(postgres) == {"orihon_version", "audit_version", "search_version"}


def _filled(database: Database) -> set[str]:
    """The tables with something in them."""
    names = f"SELECT relname FROM pg_class WHERE relnamespace = '{database.schema}'::regnamespace AND relkind = 'r'"
    with psycopg.connect(database.url) as connection:
        tables = [str(name) for (name,) in connection.execute(names.encode()).fetchall()]
        filled = f"SELECT 1 FROM {database.schema}.%s LIMIT 1"
        return {name for name in tables if connection.execute((filled % name).encode()).fetchone()}


def test_what_an_audit_has_not_written_yet_does_not_come_later(
    postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orihon.audit.trail._PATIENCE", 3600.0)  # its moment is over when the test says so
    settings = load_settings({"database": postgres.settings, "audit": {"level": "all"}}, environ={})
    TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1", "me"), settings).stop()
    trail = audit_of(tmp_path, settings)
    trail.record("read", "task-1")
    assert trail._waiting
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    (late,) = [one for one in timers if one.function == trail._flush_in_time]
    empty(postgres)
    late.cancel()
    late.function()
    assert audit_records(tmp_path, settings) == []
