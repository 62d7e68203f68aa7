"""The ``postgres`` back end behaves as a store must, in as few round trips as promised."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore, PostgreSQLMessageStore
from orihon.drivers.postgres import postgres_of
from orihon.errors import InvalidId, StaleWriter
from orihon.store import ToolStore, postgres_pages
from orihon.store.factory import backend_of, begin_folder, open_records
from orihon.values.view import PlannedFold
from tests.conformance.backends import PostgresBackend
from tests.conformance.behaviour import add_calls, add_conversation, texts
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task
from tests.conformance.stores import StoreConformance
from tests.helpers import refused


class _OneConnection(PostgresBackend):
    """With a pool that no thread of another test has."""

    def config(self) -> dict[str, Any]:
        config = super().config()
        return {**config, "database": {**config["database"], "pool_size": 1}}


@contextmanager
def round_trips(store: MessageStore) -> Iterator[Callable[[], int]]:
    """How often the store has waited for the server: each time the driver's trace says that all was sent."""
    pool = postgres_of(store.settings)
    connection = pool.take()
    pool.give_back(connection)  # the next one to be taken
    with tempfile.TemporaryFile() as trace:

        def count() -> int:
            trace.seek(0)
            messages = [line.split(b"\t") for line in trace]
            return sum(message[1:2] == [b"F"] and message[3].strip() in (b"Sync", b"Query") for message in messages)

        connection.pgconn.trace(trace.fileno())
        try:
            yield count
        finally:
            connection.pgconn.untrace()


@pytest.mark.usefixtures("tasks_database")
class TestPostgres(StoreConformance):
    backend = PostgresBackend()

    def test_a_fork_keeps_nothing_that_the_parent_closes(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder) as other:
            assert other.ask("write_with_a_fork", rounds=20) == 41
            assert len(other.ask("contents")) == 41
        check_task(self.backend.open(folder))

    @pytest.fixture
    def lone_store(self, folder: Path) -> Iterator[MessageStore]:
        store = _OneConnection().open(folder)
        yield store
        store.close()

    def test_an_append_is_one_round_trip(self, lone_store: MessageStore) -> None:
        store = lone_store
        add_conversation(store, 3)  # the driver prepares a statement when it has seen it a few times
        with round_trips(store) as so_far:
            for number in range(10):
                store.add_message("user", f"message {number}")
            assert so_far() == 10
            add_calls(store, "a", "b")
            store.answer_open_calls("done")
            assert so_far() == 14  # three messages, and one look at which calls are open

    def test_a_request_is_one_round_trip(self, lone_store: MessageStore) -> None:
        store = lone_store
        for number in range(215):
            store.add_message("user", f"message {number}")
        store.create_summary(11, 20, "the second ten")
        store.create_summary(31, 34, "a few more")
        store.folding.compress([PlannedFold(100, 100, "shortened", form="preview")])
        store.add_message("user", "and one more")
        for _ in range(7):
            view = store.get_messages_for_llm()
        assert len(view) == 204
        with round_trips(store) as so_far:
            assert store.get_messages_for_llm() == view
            assert so_far() == 1
            assert store.get_current_context_file().read_bytes().count(b"\n") == 204
            assert so_far() == 2

    def test_a_long_view_comes_in_pages(self, store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_pages, "_PAGE", 7)
        last = add_conversation(store, 5)
        store.create_summary(2, 6, "the first turn")
        store.create_summary(12, 16, "the third turn")
        check_task(store)
        assert [stored.seq for stored in store.get_messages(3, last)] == list(range(3, last + 1))
        spans = [(1, 7), (9, 9), (20, 25)]
        assert len(list(store.task_store.records.read("messages", *spans))) == 14

    def test_a_refusal_is_not_judged_by_what_has_passed(self, store: MessageStore) -> None:
        """The other writer's call is open, though this one has not seen it yet."""
        store.add_message("user", "look")
        other = self.backend.open(store.context_dir)
        add_calls(other, "call-1")
        assert store.add_message("tool", "found", tool_call_id="call-1") == 3
        assert other.folding.compress([PlannedFold(1, 3, "looked")]).folds == (1,)
        store.folding.unfold(1)
        assert other.view().folds == ()
        assert other.add_message("user", "thanks") == 4
        check_task(store)
        check_task(other)

    def test_writers_that_race_all_get_through(self, folder: Path) -> None:
        stores = [self.backend.open(folder) for _ in range(4)]

        def said(number: int, turn: int) -> str:
            return f"{number} says {turn}" + " again" * 20 * number  # so that mixing them up changes the counters

        def work(number: int) -> None:
            for turn in range(15):
                stores[number].add_message("user", said(number, turn))
            ToolStore(folder, task_store=stores[number].task_store).add_tool_call("ls", {"by": number})

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(map(str, texts(stores[0]))) == sorted(said(n, turn) for n in range(4) for turn in range(15))
        calls = ToolStore(folder, task_store=stores[0].task_store).get_tool_calls()
        assert {call["arguments"]["by"] for call in calls} == {0, 1, 2, 3}
        for store in stores:
            check_task(store)

    def test_what_a_section_collects_is_seen_in_it_and_nowhere_else(self, store: MessageStore) -> None:
        tools = ToolStore(store.context_dir, task_store=store.task_store)
        tools.add_tool_call("ls", {})
        seen: list[int] = []
        for section in (store.task_store.changing, lambda: store.task_store._section(sure=False)):
            with section():
                before = store.task_store.records.last("tools")
                store.task_store.add_inside("tools", {"tool_name": "cat", "status": "success"})
                names = [record["tool_name"] for record in store.task_store.read("tools")]
                assert names[before - 1 :] == [names[before - 1], "cat"]
                looking = threading.Thread(target=lambda: seen.append(tools.count_tool_calls()))
                looking.start()
                looking.join(60)
        assert seen == [1, 2]
        assert tools.count_tool_calls() == 3

    def test_a_machine_without_the_folder_goes_on(self, store: MessageStore, tmp_path: Path) -> None:
        add_conversation(store, 2)
        store.create_summary(2, 6, "the first turn")
        elsewhere = self.backend.open(tmp_path / "another" / "running" / store.context_dir.name)
        assert elsewhere.get_messages_for_llm() == store.get_messages_for_llm()
        assert not elsewhere.context_dir.exists()
        elsewhere.task_store.records.keep_file("final_summary.txt", "要約".encode())
        elsewhere.add_message("user", "from there")
        assert store.task_store.records.kept_file("final_summary.txt") == "要約".encode()
        assert store.task_store.records.kept_file("nothing.txt") is None
        assert texts(store)[-1] == "from there"
        check_task(elsewhere)

    def test_a_task_that_was_deleted_is_not_begun_again_unseen(self, store: MessageStore) -> None:
        store.add_message("user", "hello")
        self.backend.delete(store.context_dir)
        with refused(StaleWriter, "moved"):
            store.add_message("user", "still there?")
        assert store.count_messages() == 0

    def test_a_store_by_address_and_task(self, store: MessageStore, tmp_path: Path) -> None:
        add_conversation(store, 1)
        database = self.backend.config()["database"]
        config = {"database": {"schema": database["schema"]}, "context_storage": {"base_dir": str(tmp_path / "base")}}
        by_address = PostgreSQLMessageStore(database["url"], store.context_dir.name, config, context_length=5_000)
        assert texts(by_address) == texts(store)
        assert by_address.add_message("user", "from there") == store.count_messages()
        assert by_address.context_length == 5_000
        assert by_address.task_key == store.context_dir.name
        check_task(by_address)
        by_address.close()
        with refused(InvalidId, "unsafe"):
            PostgreSQLMessageStore(database["url"], "../elsewhere", config)

    def test_a_task_is_found_where_it_is(self, store: MessageStore, tmp_path: Path) -> None:
        """Settings that want another back end for new tasks do not hide those in the database."""
        store.add_message("user", "hello")
        files = store.settings.replace(**{"context_storage.backend": "files"})
        assert open_records(store.context_dir, files).last("messages") == 1
        assert backend_of(tmp_path / "new", "files") == "files"
        begin_folder(tmp_path / "new", files)
        open_records(tmp_path / "new", files).close()
        assert (tmp_path / "new").is_dir()
