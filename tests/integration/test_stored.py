"""Tasks that earlier versions stored are read, verified and gone on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from orihon import MessageStore, TaskContextManager, TaskKey, import_transcripts, load_settings
from orihon.catalogue import Catalogue
from orihon.catalogue.connect import open_catalogue
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.helpers import raw_database
from tests.services import Database, close_connections, new_schema
from tests.stored.make import MASTER_KEY, PICTURE, UUIDS

SAMPLES = sorted(
    path for path in (Path(__file__).parent.parent / "stored").glob("*/*") if path.is_dir() and path.name in UUIDS
)


@pytest.fixture(params=SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def base_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A private copy of a sample, with its databases under their names."""
    folder = tmp_path / str(request.param.name)
    shutil.copytree(request.param, folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
        if path.suffix == ".sample":
            path.rename(path.with_suffix(""))
    return folder


def test_there_are_samples_of_both_back_ends_and_of_each_version() -> None:
    found = {(path.parent.name, path.name) for path in SAMPLES}
    assert found >= {(version, backend) for version in ("v1", "v3", "v4", "v5") for backend in ("files", "sqlite")}


def test_an_old_task_is_read_whole_and_found_clean(base_dir: Path) -> None:
    uuid = UUIDS[base_dir.name]
    folder = base_dir / "completed" / uuid
    store = MessageStore(folder, backend=base_dir.name)
    messages = [stored.message for stored in store.get_messages()]
    assert [message.role for message in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "user")
    ]
    assert messages[1].to_chat()["content"][1]["image_url"]["url"] == PICTURE
    assert messages[3].content == "line 0\0 \ud800 \x1b[31mred\x1b[0m"
    assert messages[8].extra["reasoning_content"] == "because"
    assert [line["content"] for line in store.get_messages_for_llm() if isinstance(line["content"], str)][1:2] == [
        "[Previous conversation summary]\nRead a.py three times."
    ]
    assert [record.kind for record in store.compressions()] == ["pin", "compress", "undo", "redo", "compress"]
    store.close()
    assert verify(OpenBase(base_dir, load_settings({})), uuid) == []


def test_an_old_catalogue_goes_on(base_dir: Path) -> None:
    uuid = UUIDS[base_dir.name]
    with Catalogue(base_dir / "tasks.db") as catalogue:
        assert catalogue.tasks.get(uuid).total_messages == 10
        assert catalogue.statistics.check_rollups() == []
    Catalogue(base_dir / "new.db").close()
    assert _columns_and_names(base_dir / "tasks.db") == _columns_and_names(base_dir / "new.db")
    next_task = TaskContextManager(base_dir, TaskKey("github", "me", "project", "issue", "27", "me"))
    inherited = next_task.get_inheritance_context()
    assert inherited is not None
    assert inherited.uuid == uuid
    next_task.complete()


def _columns_and_names(path: Path) -> tuple[set[tuple[object, ...]], set[tuple[object, ...]]]:
    """What a migrated database must have in common with a new one."""
    with raw_database(path) as connection:
        names = set(connection.execute("SELECT type, name, tbl_name FROM sqlite_schema"))
        columns = "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_xinfo('tasks')"
        # Of the table of tasks alone the text differs: columns were added to it.
        texts = set(connection.execute("SELECT name, sql, '' FROM sqlite_schema WHERE name <> 'tasks'"))
        return set(connection.execute(columns)), names | texts


@pytest.mark.parametrize(("sample", "version"), [("v1", 1), ("v4", 2)])
def test_old_tables_of_a_server_go_on(postgres: Database, tmp_path: Path, sample: str, version: int) -> None:
    """Old tables, with a task in them, are those of a new schema after the first opening."""
    settings = load_settings({"database": postgres.settings})
    old = Path(__file__).parent.parent / "stored" / sample / "postgres"
    with psycopg.connect(postgres.url, options=f"-c search_path={postgres.schema}") as session:
        session.execute(f"CREATE SCHEMA {postgres.schema}".encode())
        session.execute("CREATE TABLE orihon_version (version integer NOT NULL)")
        session.execute("INSERT INTO orihon_version VALUES (%s)", (version,))
        for name in ("records.sql", "catalogue.sql"):
            session.execute((old / name).read_bytes())
        session.execute(
            "INSERT INTO tasks (uuid, task_source, task_type, task_id, task_identifier, status, created_at, updated_at)"
            " VALUES ('old', 'github', 'issue', '27', '27', 'running', '2026-11-15', '2026-11-15')"
        )
    with open_catalogue(tmp_path, settings) as catalogue:
        assert catalogue.tasks.change_status("old", TaskStatus.FAILED).uuid == "old"
        assert catalogue.statistics.check_rollups() == []
    with next_schema(postgres) as new:
        open_catalogue(tmp_path, load_settings({"database": new.settings})).close()
        assert _names_in(postgres) == _names_in(new)


@contextmanager
def next_schema(postgres: Database) -> Iterator[Database]:
    """A second schema beside one."""
    database = Database(postgres.url, new_schema())
    yield database
    close_connections(database.schema)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE".encode())


def _names_in(database: Database) -> set[tuple[object, ...]]:
    """Columns, indexes and triggers of a schema."""
    columns = "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
    with psycopg.connect(database.url) as connection:
        found = connection.execute(f"{columns} WHERE table_schema = %s".encode(), (database.schema,)).fetchall()
        text = "SELECT indexname, replace(indexdef, schemaname, '') FROM pg_indexes WHERE schemaname = %s"
        found += connection.execute(text, (database.schema,)).fetchall()
        text = """
            SELECT tgname, replace(pg_get_triggerdef(pg_trigger.oid), nspname, '') FROM pg_trigger
            JOIN pg_class ON tgrelid = pg_class.oid JOIN pg_namespace ON relnamespace = pg_namespace.oid
            WHERE nspname = %(schema)s AND NOT tgisinternal
            UNION ALL
            SELECT proname, replace(pg_get_functiondef(pg_proc.oid), nspname, '') FROM pg_proc
            JOIN pg_namespace ON pronamespace = pg_namespace.oid WHERE nspname = %(schema)s
        """
        found += connection.execute(text, {"schema": database.schema}).fetchall()
        text = "SELECT version FROM orihon_version".replace("orihon_version", f"{database.schema}.orihon_version")
        return {*found, *connection.execute(text.encode()).fetchall()}


def test_an_export_that_was_sealed_comes_back_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLE_KEY", MASTER_KEY)
    settings = load_settings({"encryption": {"key": "env:SAMPLE_KEY"}}, environ={})
    file = Path(__file__).parent.parent / "stored" / "sealed-v1" / "export.jsonl"
    report = import_transcripts(tmp_path, settings, [file])
    assert ([task.uuid for task in report.tasks], report.problems) == (["left-1"], [])
    with closing(open_for_reading(tmp_path / "completed" / "left-1", settings)) as store:
        assert [stored.message.content for stored in store.messages()] == ["question: なぜ"]


def test_a_task_that_was_sealed_opens_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLE_KEY", MASTER_KEY)
    shutil.copytree(Path(__file__).parent.parent / "stored" / "sealed-v1", tmp_path / "sample")
    settings = load_settings({"encryption": {"key": "env:SAMPLE_KEY"}}, environ={})
    store = MessageStore(tmp_path / "sample" / "task", settings)
    assert [stored.message.content for stored in store.get_messages(1, 3)] == [
        *("You are a careful agent.", "question 0: なぜ", "long answer ")
    ]
    assert store.get_message(7).message.content == "long answer " * 200
    assert store.get_messages_for_llm()[1]["content"].endswith("the first question was answered")
    assert store.add_message("user", "more") == 8
    store.close()
