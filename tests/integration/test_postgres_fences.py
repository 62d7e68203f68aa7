"""Who may write beside the sections, how much is read at a time, and tables that are found by whoever looks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from orihon import MessageStore
from orihon.drivers.postgres import postgres_of
from orihon.errors import StaleWriter
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store import postgres as postgres_records
from orihon.store import postgres_pages
from orihon.store.contract import StreamRange
from orihon.store.factory import open_task_store
from orihon.store.postgres import PostgresRecords
from orihon.store.postgres_moving import remove_task
from orihon.values.task import TaskKey
from tests.conformance.behaviour import texts
from tests.helpers import refused
from tests.services import Database

CONTENT = b"a large content"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def settings_of(postgres: Database) -> Settings:
    return load_settings({"database": postgres.settings, "masking": {"enabled": False}}, environ={})


def records_of(postgres: Database, folder: Path, epoch: int) -> PostgresRecords:
    records = open_task_store(folder, settings_of(postgres), epoch=epoch).records
    assert isinstance(records, PostgresRecords)
    records.claim(epoch)
    return records


def count(postgres: Database, table: str) -> int:
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute(f"SELECT count(*) FROM {postgres.schema}.{table}".encode()).fetchone()
    assert found is not None
    return int(found[0])


def refuse_all(records: PostgresRecords, reason: str) -> None:
    with refused(StaleWriter, reason):
        records.keep_file("final_summary.txt", b"stale")
    with refused(StaleWriter, reason):
        records.drop_file("final_summary.txt")
    with refused(StaleWriter, reason):
        records.put_blob(DIGEST, CONTENT)


def test_a_stale_writer_can_keep_nothing_beside_the_records(postgres: Database, tmp_path: Path) -> None:
    old = records_of(postgres, tmp_path / "one" / "task", 1)
    old.keep_file("final_summary.txt", b"first")
    new = records_of(postgres, tmp_path / "two" / "task", 2)
    new.keep_file("final_summary.txt", b"mine")
    refuse_all(old, "taken_over")
    assert (new.kept_file("final_summary.txt"), new.blob_digests()) == (b"mine", [])
    new.put_blob(DIGEST, CONTENT)
    new.put_blob(DIGEST, CONTENT)  # there already: no mistake
    assert new.get_blob(DIGEST) == CONTENT
    new.drop_file("final_summary.txt")
    new.drop_file("final_summary.txt")
    assert new.kept_file("final_summary.txt") is None


def test_nothing_is_kept_for_a_task_that_has_left(postgres: Database, tmp_path: Path) -> None:
    records = records_of(postgres, tmp_path / "task", 1)
    remove_task(postgres_of(settings_of(postgres)), "task", fenced=True)
    refuse_all(records, "moved")
    assert (count(postgres, "documents"), count(postgres, "blobs")) == (0, 0)


def test_what_is_read_at_a_time_has_a_limit_in_bytes(
    postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MessageStore(tmp_path / "task", settings_of(postgres))
    said = [f"{number} " + "あ" * 100_000 for number in range(30)]
    for text in said:
        store.add_message("user", text)
    pages: list[int] = []
    asked = postgres_pages.first_page

    def page(
        ask: postgres_pages.Ask, task: str, runs: Sequence[StreamRange]
    ) -> tuple[tuple[int, int], postgres_pages.RecordPage]:
        found = asked(ask, task, runs)
        pages.append(sum(len(record.encode()) for _, _, record in found[1]))
        return found

    for module in (postgres_records, postgres_pages):
        monkeypatch.setattr(module, "first_page", page)
    assert texts(store) == said
    assert len(pages) == 3
    assert max(pages) < 4.5 * 1024 * 1024
    store.close()


# ---- names -----------------------------------------------------------------------------------------------------


def test_a_session_that_looks_elsewhere_changes_tasks_too(postgres: Database, tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, settings_of(postgres))
    queue.enqueue(TaskKey("cli", "o", "r", "issue", "1").as_dict(), "hanako")
    with psycopg.connect(postgres.url, options="-c search_path=pg_temp") as connection:
        connection.execute(f"UPDATE {postgres.schema}.tasks SET total_tokens = 7".encode())
        connection.execute(f"UPDATE {postgres.schema}.tasks SET status = 'running'".encode())
        connection.execute(f"UPDATE {postgres.schema}.tasks SET retry_count = 1".encode())
    assert queue.catalogue.statistics.check_rollups() == []
    assert queue.catalogue.counters.all()["take_overs"] == 1
    queue.close()


@pytest.fixture
def key_word(postgres: Database) -> Iterator[Database]:
    """A schema whose name means something else in SQL."""
    words = """
        SELECT word FROM pg_get_keywords()
        WHERE catcode = 'R' AND NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = word)
        ORDER BY random() LIMIT 1
    """
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        found = connection.execute(words).fetchone()
        assert found is not None
        yield Database(postgres.url, found[0])
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(found[0])))


def test_a_schema_may_have_the_name_of_a_key_word(key_word: Database, tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, settings_of(key_word))
    uuid = queue.enqueue(TaskKey("cli", "o", "r", "issue", "1").as_dict(), "hanako")
    task = queue.dequeue()
    assert task is not None
    assert task.lease.uuid == uuid
    store = MessageStore(tmp_path / "task", settings_of(key_word))
    store.add_message("user", key_word.schema)
    assert texts(store) == [key_word.schema]
    store.close()
    queue.close()
