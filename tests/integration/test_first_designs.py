"""The test sketches of the first design (000 §11), under their names, on real parts.

Its timings are not asserted here: the benchmarks measure them.
"""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey

Reply = tuple[str, list[dict[str, Any]]]


class ScriptedClient:
    """A model client that plays prepared replies: what it says and which tools it calls."""

    def __init__(self, replies: Iterator[Reply]) -> None:
        self._replies = replies
        self.heard: list[str] = []

    def send_system_prompt(self, prompt: str) -> None:
        self.heard.append(prompt)

    def send_user_message(self, message: str) -> None:
        self.heard.append(message)

    def get_response(self) -> Reply:
        return next(self._replies)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., MessageStore]]:
    """Opens message stores of the sqlite back end and closes them at the end."""
    opened: list[MessageStore] = []

    def open_one(**options: Any) -> MessageStore:
        opened.append(MessageStore(tmp_path / "task", backend="sqlite", **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def count(store: MessageStore, table: str) -> int:
    with closing(store._get_connection()) as connection:
        row = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def write_messages(path: Path, worker: int, messages: int) -> None:
    """What each process of the multi-process test does."""
    store = MessageStore(path, backend="sqlite", context_length=10_000)
    for number in range(messages):
        store.add_message("user", f"Worker {worker}: Message {number}")
    store.close()


class TestMessageStore:
    def test_add_message_sqlite(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(context_length=1000)
        msg_id = store.add_message("user", "Hello")
        assert msg_id > 0
        assert len(store.memory_cache) == 1
        assert store.memory_cache[0]["content"] == "Hello"
        assert store.db_path.exists()

    def test_memory_cache_limit(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(max_memory_messages=5, context_length=10_000)
        for number in range(10):
            store.add_message("user", f"Message {number}")
        assert len(store.memory_cache) == 5
        assert store.memory_cache[0]["content"] == "Message 5"
        assert count(store, "messages") == 10

    def test_context_compression_trigger(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(context_length=1000, compression_threshold=0.7)
        assert not store._should_compress()
        for _ in range(200):
            store.add_message("user", "x" * 100)
        assert store._should_compress()

    def test_get_messages_for_llm_with_summary(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(context_length=10_000)
        store.add_message("system", "You are helpful")
        for number in range(50):
            store.add_message("user", f"Message {number}")
            store.add_message("assistant", f"Response {number}")
        store.create_summary(start_message_id=2, end_message_id=51, summary_content="Summary of first 50 messages")
        messages = store.get_messages_for_llm()
        assert messages[0] == {"role": "system", "content": "You are helpful"}
        assert "Previous conversation summary" in messages[1]["content"]
        assert "Summary of first 50 messages" in messages[1]["content"]
        assert [message["content"] for message in messages[2:4]] == ["Message 25", "Response 25"]
        assert len(messages) == 2 + 50

    def test_multiprocess_access(self, tmp_path: Path) -> None:
        path = tmp_path / "task"
        fresh = multiprocessing.get_context("spawn")
        processes = [fresh.Process(target=write_messages, args=(path, worker, 25)) for worker in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=240)
        assert [process.exitcode for process in processes] == [0] * 4
        store = MessageStore(path, backend="sqlite", context_length=10_000)
        assert count(store, "messages") == 100
        stored = [message.message.text for message in store.get_messages()]
        for worker in range(4):
            mine = [text for text in stored if text.startswith(f"Worker {worker}:")]
            assert mine == [f"Worker {worker}: Message {number}" for number in range(25)]
        store.close()

    def test_sensitive_data_masking(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(context_length=1000)
        msg_id = store.add_message("user", "Use token ghp_1234567890abcdef and key sk-proj-abc123")
        with closing(store._get_connection()) as connection:
            row = connection.execute("SELECT content FROM messages WHERE id = ?", (msg_id,)).fetchone()
        assert row is not None
        assert "ghp_" not in row["content"]
        assert "sk-" not in row["content"]
        assert "[GITHUB_TOKEN]" in row["content"]
        assert "[OPENAI_KEY]" in row["content"]


class TestContextCompressor:
    def test_compression(self, open_store: Callable[..., MessageStore]) -> None:
        store = open_store(context_length=1000, compression_threshold=0.5)
        client = ScriptedClient(iter([(f"The user sent {'x' * 50} twenty times.", [])]))
        compressor = ContextCompressor(message_store=store, llm_client=client, min_messages_to_summarize=5)
        store.add_message("system", "System prompt")
        for _ in range(20):
            store.add_message("user", "x" * 50)
        assert compressor.compress_context() is True
        assert count(store, "summaries") == 1
        assert "x" * 50 in client.heard[-1]
        assert "twenty times." in store.get_messages_for_llm()[1]["content"]


class Workbench:
    """Tools that work on real files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, tool: str, arguments: dict[str, str]) -> str:
        path = self._folder / arguments["path"]
        if tool == "write_file":
            path.write_text(arguments["text"], encoding="utf-8")
            return f"wrote {len(arguments['text'])} characters"
        return path.read_text(encoding="utf-8")


def agent_loop(ctx: TaskContextManager, client: ScriptedClient, workbench: Workbench, wish: str) -> None:
    """A small agent: model, tools, model, until the model calls no more tools."""
    store = ctx.message_store
    store.add_message("system", "You keep notes in files.")
    store.add_message("user", wish)
    busy = True
    while busy:
        said, calls = client.get_response()
        busy = bool(calls)
        store.add_message("assistant", said, tool_calls=calls)
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            result: str | None = None
            error: str | None = None
            try:
                result = workbench.run(name, arguments)
            except OSError as problem:
                error = f"{type(problem).__name__}: {problem.strerror}"
            store.add_message("tool", result if error is None else error, name, tool_call_id=call["id"])
            ctx.tool_store.add_tool_call(name, arguments, result, error)
        ctx.update_statistics(llm_calls=1, tool_calls=len(calls))
        ctx.compress_if_needed()


def tool_call(call_id: str, tool: str, **arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


def note_taking(notes: int) -> Iterator[Reply]:
    """Replies that write files, read them back, and once ask for one that is not there."""
    yield "Is there an index?", [tool_call("c0", "read_file", path="index.txt")]
    for number in range(1, notes + 1):
        path, note = f"note{number}.txt", f"第{number}章。" + "The valve holds. " * 30
        yield f"Writing {path}.", [tool_call(f"w{number}", "write_file", path=path, text=note)]
        yield f"Reading {path} back.", [tool_call(f"r{number}", "read_file", path=path)]
    yield "All notes are written.", []


def context_config(context_length: int) -> dict[str, Any]:
    return {
        "context_storage": {"enabled": True, "backend": "sqlite", "compression_threshold": 0.5},
        "llm": {"provider": "openai", "openai": {"context_length": context_length}},
    }


class TestFullTaskProcessingWithContext:
    KEY = TaskKey("github", "owner", "repo", "issue", "123", "mika")

    def test_task_processing_with_sqlite_storage(self, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        client = ScriptedClient(note_taking(2))
        with TaskContextManager(tmp_path / "contexts", self.KEY, context_config(128_000)) as ctx:
            agent_loop(ctx, client, Workbench(tmp_path / "notes"), "Write two notes.")

        db_path = tmp_path / "contexts" / "completed" / ctx.uuid / "context.db"
        assert db_path.exists()
        with closing(sqlite3.connect(f"{db_path.as_uri()}?mode=ro", uri=True)) as connection:
            roles = [role for (role,) in connection.execute("SELECT role FROM messages ORDER BY id")]
            statuses = [status for (status,) in connection.execute("SELECT status FROM tool_calls ORDER BY id")]
        assert roles == ["system", "user", *["assistant", "tool"] * 5, "assistant"]
        assert statuses == ["error", "success", "success", "success", "success"]
        assert (tmp_path / "notes" / "note2.txt").read_text(encoding="utf-8").startswith("第2章。")

        row = ctx.catalogue.tasks.get(ctx.uuid)
        assert (row.status, row.llm_call_count, row.tool_call_count) == ("completed", 6, 5)
        assert (row.total_messages, row.total_tool_calls, row.compression_count) == (13, 5, 0)

    def test_context_compression_during_processing(self, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        client = ScriptedClient(note_taking(60))
        ctx = TaskContextManager(tmp_path / "contexts", self.KEY, context_config(10_000))
        agent_loop(ctx, client, Workbench(tmp_path / "notes"), "Write sixty notes.")

        store = ctx.message_store
        assert count(store, "summaries") == ctx.catalogue.tasks.get(ctx.uuid).compression_count > 0
        assert store.get_current_token_count() <= 5000 < store.get_statistics()["total_tokens"]
        system, request, summary, *_ = store.get_messages_for_llm()
        assert system["content"] == "You keep notes in files."
        assert request == {"role": "user", "content": "Write sixty notes."}
        assert "No such file" in summary["content"]
        assert store.get_messages_for_llm()[-1]["content"] == "All notes are written."
        answered = {message.get("tool_call_id") for message in store.get_messages_for_llm()} - {None}
        called = {call["id"] for message in store.get_messages_for_llm() for call in message.get("tool_calls") or ()}
        assert answered == called
        ctx.complete()

        successor = TaskContextManager(tmp_path / "contexts", self.KEY, context_config(10_000))
        successor.create_initial_context_with_inheritance("You keep notes in files.")
        inherited = successor.message_store.get_message(2).message.text
        assert ctx.uuid in inherited
        assert "Write sixty notes." in inherited
        successor.close()


def test_large_context_performance(open_store: Callable[..., MessageStore]) -> None:
    store = open_store(config={"context_storage": {"durability": "os"}}, max_memory_messages=20, context_length=128_000)
    for number in range(1000):
        store.add_message("user", f"Message {number}" * 100)
    assert len(store.memory_cache) == 20
    assert store.memory_cache[0]["content"].startswith("Message 980")
    assert 2 <= len(store.get_messages_for_llm()) < 1000  # as many as fit: the rest is folded
    assert store.get_statistics()["total_messages"] == 1000
    assert store.get_statistics()["db_size_mb"] < 50


def run_task(base_dir: Path, worker: int) -> None:
    """What each process of the throughput test does: a task of its own, from start to end."""
    key = TaskKey("cli", "", "", "task", str(worker))
    config = {"context_storage": {"backend": "sqlite", "durability": "os"}}
    with TaskContextManager(base_dir, key, config) as ctx:
        for number in range(25):
            ctx.message_store.add_message("user", f"Worker {worker}: Message {number}")


def test_multiprocess_throughput(tmp_path: Path) -> None:
    fresh = multiprocessing.get_context("spawn")
    processes = [fresh.Process(target=run_task, args=(tmp_path, worker)) for worker in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=240)
    assert [process.exitcode for process in processes] == [0] * 4
    folders = list((tmp_path / "completed").iterdir())
    assert len(folders) == 4
    for folder in folders:
        store = MessageStore(folder, backend="sqlite")
        assert store.count_messages() == 25
        store.close()
