"""Document 000 (SQLite, several processes, operations), block by block.

Where a block is not run to the letter, the test quotes the decision of the specification. Its limits on time are left
to the benchmarks. ``SemanticContextSearch`` (§13.1.2) and ``ContextOptimizationLearner`` (§13.3.2) belong to the memory
of the product, and are tested with it.
"""

from __future__ import annotations

import ast
import gzip
import inspect
import json
import logging
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import apsw
import psycopg
import pytest
import yaml

import orihon
from benchmarks import seed_memory
from orihon import MessageStore, OpenAIClient, ScriptedModel, TaskContextManager, TaskHandler, TaskKey, load_settings
from orihon.errors import InvalidSettings
from orihon.importers.seed_tree import key_from
from orihon.llm.scripted import Fault, Reply
from orihon.settings.model import names
from tests.helpers import refused
from tests.seeds import copies
from tests.seeds.copies import block as copy_of
from tests.seeds.copies import parsed
from tests.services import Database

#: Classes whose order of arguments is 002's.
OF_002 = ("MessageStore", "TaskMessages", "LLMClient")
KEY = TaskKey("github", "owner", "repo", "issue", "123")


def block(name: str) -> str:
    return copy_of("000", name)


def classes_in(name: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in parsed(block(name)).body if isinstance(node, ast.ClassDef)}


def functions_of(node: ast.ClassDef | ast.Module) -> dict[str, ast.FunctionDef]:
    return {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}


def calls_like(written: ast.FunctionDef, ours: Callable[..., Any], *, is_method: bool = True) -> None:
    """Ours takes the arguments of a function by the names in which it is written, and in its order.

    SPEC §9: "002's signatures; keywords of 001, 000, 004 accepted": so the order counts where 002 is silent.
    """
    arguments = [one.arg for one in written.args.args][1 if is_method else 0 :]
    spare: list[Any] = [None] if is_method else []
    signature = inspect.signature(ours)
    signature.bind(*spare, **dict.fromkeys(arguments))
    if getattr(ours, "__qualname__", "").partition(".")[0] not in OF_002:
        signature.bind(*spare, *arguments)
    if written.args.kwarg is not None:
        signature.bind(*spare, **dict.fromkeys(arguments), anything="else")


def has_methods(name: str, cls: str, *, private: tuple[str, ...] = ()) -> type:
    """Our class of that name has every public method of the block's, and these private ones."""
    ours: type = getattr(orihon, cls)
    for method, written in functions_of(classes_in(name)[cls]).items():
        if not method.startswith("_") or method in private:
            calls_like(written, ours if method == "__init__" else getattr(ours, method), is_method=method != "__init__")
    if "__init__" in functions_of(classes_in(name)[cls]):
        written = functions_of(classes_in(name)[cls])["__init__"]
        written.args.args.pop(0)
        calls_like(written, ours, is_method=False)
    return ours


def queries_in(source: str) -> list[str]:
    """Every SELECT that a program has as a text."""
    texts = [node.value for node in ast.walk(parsed(source)) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and re.match(r"\s*SELECT\b", text)]


def run_program(folder: Path, source: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program as somebody would write it, in a process and a folder of its own."""
    (folder / "program.py").write_text(source, encoding="utf-8")
    return run_python(folder, "program.py", *arguments, **environment)


def run_python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    found = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode == 0, found.stderr[-3000:] + found.stdout[-1000:]
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the store that the document recommends.

    SPEC §9: "both, and Postgres, behind one contract; `files` is the default". So it is chosen, by §5.2's variable.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTEXT_STORAGE_BACKEND", "sqlite")
    return tmp_path


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that calls a tool, and then is done; whoever wants a summary gets one."""

    def answer(request: Any) -> Reply:
        messages = request.body["messages"]
        if not request.body.get("tools"):
            return Reply("The issue was read and fixed in one go. " + str(messages[-1]["content"])[-80:])
        if any(message["role"] == "tool" for message in messages):
            return Reply("Done.")
        return Reply(calls=[("github_get_file_contents", {"path": "README.md"})])

    with ScriptedModel(answer) as server:
        yield server


TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "github_get_file_contents",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


class GitHubServer:
    """A tool server of a program's own."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call_tool(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((tool, arguments))
        if arguments.get("path") == "missing":
            raise FileNotFoundError("no such file")
        return {"content": "# Hello"}


def filled_store(folder: Path, **options: Any) -> MessageStore:
    """A store with everything that the document's queries ask for."""
    store = MessageStore(folder, **options)
    store.add_message("system", "You are helpful")
    for number in range(6):
        store.add_message("user", f"Message {number}")
        store.add_message("assistant", f"Response {number}")
    call = {"id": "c1", "type": "function", "function": {"name": "github_get", "arguments": "{}"}}
    store.add_message("assistant", None, tool_calls=[call], colour="red")
    told = {"tool_name": "github_get", "arguments": {"n": 1}, "result": {"ok": True}, "duration_ms": 12}
    store.add_message("tool", "{}", tool_call={**told, "status": "error", "error_message": "late"})
    store.create_summary(start_message_id=2, end_message_id=7, summary_content="Six messages")
    return store


# ---- §2 and §4.3: clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cls"),
    [("2.1.1-openai.python", "OpenAIClient"), ("2.1.2-ollama.python", "OllamaClient")],
)
def test_2_1_a_client_without_a_folder_keeps_its_messages_in_memory(name: str, cls: str, here: Path) -> None:
    ours = has_methods(name, cls)
    most = int(re.search(r'"max_token", (\d+)', block(name))[1])  # type: ignore[index]
    client = ours({"model": "m", "base_url": "http://127.0.0.1:9/v1", "max_token": most, "api_key": "k"})
    assert client.messages == []
    client.send_user_message("Hello")
    assert [message["content"] for message in client.messages] == ["Hello"]
    assert (client.max_token, list(here.iterdir())) == (most, [])


def test_2_1_3_the_client_of_lm_studio_too(here: Path) -> None:
    assert "self.chat = lms.Chat()" in block("2.1.3-lmstudio.python")
    client = has_methods("2.1.3-lmstudio.python", "LMStudioClient")({"model": "m", "base_url": "http://127.0.0.1:9"})
    client.send_user_message("Hello")
    assert [message["content"] for message in client.messages] == ["Hello"]  # no library's secret


def test_4_3_1_a_client_with_a_folder(here: Path, model: ScriptedModel) -> None:
    has_methods("4.3.1-openai.python", "OpenAIClient")
    written = block("4.3.1-openai.python")
    config = {"model": "gpt-4o", "base_url": model.base_url, "api_key": "k", "context_length": 9000, "max_token": 500}
    options = {"max_memory_messages": 5, "compression_threshold": 0.6, "min_messages_to_summarize": 4}
    client = OpenAIClient({**config, **options}, [tool["function"] for tool in TOOLS], None, here / "t")
    for attribute in re.findall(r"self\.(\w+) = ", written):
        # ``openai`` is a library's; ``messages`` are those in memory.
        assert hasattr(client, attribute) or attribute in ("openai", "messages"), attribute
    assert (client.model, client.context_length, client.max_token, client.use_file_storage) == (
        "gpt-4o",
        9000,
        500,
        True,
    )
    assert client.compressor is not None
    assert client.message_store is not None
    assert client.compressor.min_to_compress == 4
    assert (client.message_store.max_memory_messages, client.message_store.compression_threshold) == (5, 0.6)
    client.send_system_prompt("You are helpful")
    client.send_user_message("Read it.")
    said, functions = client.get_response()
    assert (said, [one["name"] for one in functions]) == ("", ["github_get_file_contents"])
    client.send_function_result(functions[0]["name"], {"content": "# Hello"})
    assert client.get_response()[0] == "Done."
    statistics = client.message_store.get_statistics()
    assert (statistics["total_messages"], statistics["tool_calls_total"]) == (5, 1)
    client.close()


# ---- §3.4: the database ----------------------------------------------------------------------------------------------


def schema() -> dict[str, list[str]]:
    """Table by table, the columns that the document gives it."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(block("3.4-schema.sql"))
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {
            table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            for table in tables
            if not table.startswith("sqlite_")
        }


def test_3_4_every_table_has_its_columns(here: Path) -> None:
    """SPEC §9: one record contract; the tables are views of its records. So there are no indexes, and nobody writes."""
    assert sorted(schema()) == ["messages", "metadata", "process_locks", "summaries", "tool_calls"]
    store = filled_store(here / "t", context_length=4321)
    with closing(store._get_connection()) as connection:
        found = {
            table: [dict(zip(columns, row, strict=True)) for row in connection.execute(query)]
            for table, columns in schema().items()
            for query in [f"SELECT {', '.join(columns)} FROM {table}"]
        }
        for table in found:
            with pytest.raises(apsw.Error):
                connection.execute(f"DELETE FROM {table}")
    messages = {row["id"]: row for row in found["messages"]}
    assert [number for number, row in messages.items() if row["is_summarized"]] == [2, 3, 4, 5, 6, 7]
    assert {row["summary_id"] for row in messages.values() if row["is_summarized"]} == {1}
    assert messages[8]["summary_id"] is None
    assert json.loads(messages[14]["metadata"]) == {"colour": "red"}
    assert all(row["content"] is not None and row["token_count"] is not None for row in messages.values())
    (summary,) = found["summaries"]
    assert (summary["start_message_id"], summary["end_message_id"]) == (2, 7)
    assert summary["summary_content"] == "Six messages"
    (call,) = found["tool_calls"]
    assert (call["message_id"], call["tool_name"], call["status"]) == (15, "github_get", "error")
    assert (json.loads(call["arguments"]), json.loads(call["result"])) == ({"n": 1}, {"ok": True})
    assert (call["duration_ms"], call["error_message"]) == (12, "late")
    assert {row["key"]: row["value"] for row in found["metadata"]}["context_length"] == "4321"
    assert [int(row["process_id"]) for row in found["process_locks"]] == [os.getpid()]
    store.folding.undo()
    with closing(store._get_connection()) as connection:
        assert connection.execute("SELECT sum(is_summarized) FROM messages").get == 0
    store.close()


def test_3_4_a_call_belongs_to_the_message_with_its_result(here: Path) -> None:
    store = filled_store(here / "t")
    call = {"id": "c2", "type": "function", "function": {"name": "github_get", "arguments": "{}"}}
    store.add_message("assistant", None, tool_calls=[call])
    orihon.ToolStore(here / "t", task_store=store.task_store).add_tool_call("github_get", {}, "x", call_id="c2")
    number = store.add_message("tool", "x", tool_call_id="c2")
    with closing(store._get_connection()) as connection:
        assert connection.execute("SELECT message_id FROM tool_calls WHERE id = 2").get == number
    store.close()


def test_3_4_the_same_tables_on_a_server(postgres: Database, tmp_path: Path) -> None:
    config = {"database": postgres.settings, "context_storage": {"backend": "postgres"}}
    with TaskContextManager(tmp_path / "base", KEY, config) as task:
        store = task.message_store
        for number in range(4):
            store.add_message(
                "user", f"Message {number} \0 \ud800" if number == 3 else f"Message {number}", colour="red"
            )
        store.create_summary(1, 2, "Two messages")
        told = {"tool_name": "github_get", "arguments": {}, "result": [1], "duration_ms": 12.5, "status": "success"}
        store.add_message("assistant", "Done.", tool_call=told)
        with psycopg.connect(postgres.url, options=f"-c search_path={postgres.schema}") as session:
            found = {
                table: [
                    dict(zip(columns, row, strict=True))
                    for row in session.execute(
                        f"SELECT {', '.join(columns)} FROM {table} WHERE task_key = %s", [task.uuid]
                    )
                ]
                for table, columns in schema().items()
            }
    assert [row["is_summarized"] for row in found["messages"]] == [True, True, False, False, False]
    assert [row["summary_id"] for row in found["messages"]] == [1, 1, None, None, None]
    assert found["messages"][0]["metadata"] == {"colour": "red"}
    assert [row["summary_content"] for row in found["summaries"]] == ["Two messages"]
    assert [(row["message_id"], row["result"], row["duration_ms"]) for row in found["tool_calls"]] == [(5, [1], 12.5)]
    assert {row["key"] for row in found["metadata"]} >= {"created_at", "context_length"}
    assert [row["process_id"] for row in found["process_locks"]] == [str(os.getpid())]


def test_3_1_the_parts_of_the_picture(here: Path) -> None:
    """SPEC §9: "none for history; … `max_memory_messages` is honoured by the `sqlite` back end for callers that ask for
    recent messages": the cache of the picture is read when it is asked for, the process's own, and changes nothing."""
    picture = block("3.1-architecture.txt")
    assert all(hasattr(orihon, name) for name in set(re.findall(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+", picture)))
    tables = {
        "メッセージ履歴": "messages",
        "ツール実行履歴": "tool_calls",
        "コンテキスト要約": "summaries",
        "ロック管理": "process_locks",
    }
    assert [name for name in re.findall(r"│ - (\S+) +│   │ │", picture) if name not in tables] == [
        "トランザクション制御"
    ]
    store = filled_store(here / "t", max_memory_messages=5)
    with closing(store._get_connection()) as connection:
        for table in tables.values():
            assert connection.execute(f"SELECT count(*) FROM {table}").get > 0
    newest = store.memory_cache
    assert [message["id"] for message in newest] == [11, 12, 13, 14, 15]
    newest.clear()
    assert len(store.memory_cache) == 5
    store.close()


def test_3_4_nothing_in_the_document_asks_for_an_index_by_its_name() -> None:
    """An index cannot be made over a view, and one over the records costs every append; numbers find a record without.

    A program notices an index by its name in two ways: a hint in a query, or a list of them. The document has neither.
    """
    indexes = re.findall(r"CREATE INDEX (\w+)", block("3.4-schema.sql"))
    assert len(indexes) == 6
    for path in (copies.BLOCKS / "000").iterdir():
        rest = re.sub(r"CREATE INDEX (IF NOT EXISTS )?\w+", "", path.read_text(encoding="utf-8"))
        assert not re.search(rf"INDEXED BY|sqlite_(master|schema)|PRAGMA index_|{'|'.join(indexes)}", rest), path.name


# ---- §4.1 and §4.2: the store and the compressor ---------------------------------------------------------------------


def test_4_1_the_store(here: Path) -> None:
    # ``_get_connection`` and ``_should_compress`` are used by other blocks; the other private ones are the document's
    # own way of doing it.
    ours = has_methods("4.1-store.python", "MessageStore", private=("_get_connection", "_should_compress"))
    store = filled_store(here / "t", context_length=1000)
    assert isinstance(store, ours)
    assert store.db_path == here / "t" / "context.db"
    written = parsed(block("4.1-store.python"))
    counted = next(
        one for one in ast.walk(written) if isinstance(one, ast.FunctionDef) and one.name == "get_statistics"
    )
    keys = {node.value for node in ast.walk(counted) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    statistics = store.get_statistics()
    assert {key for key in keys if re.fullmatch(r"[a-z]+_[a-z_]+", key)} <= statistics.keys() | {"summarized_messages"}
    assert (statistics["summarized_messages"], statistics["summaries_count"]) == (6, 1)
    assert (statistics["tool_calls_total"], statistics["tool_calls_success"]) == (1, 0)
    store.close()


@pytest.mark.parametrize("name", ["4.1-store.python", "4.2-compressor.python", "9.2-statistics.python"])
def test_every_query_of_the_document_runs(name: str, here: Path) -> None:
    queries = queries_in(block(name))
    assert queries
    store = filled_store(here / "t")
    with closing(store._get_connection()) as connection:
        for query in queries:
            rows = connection.execute(query, (1,) * query.count("?")).fetchall()
            assert rows, query
    store.close()


def test_4_1_and_6_6_2_and_11_queries_have_answers(here: Path) -> None:
    queries = [*queries_in(block("6.6.2-statistics.python")), *queries_in(block("11.1-store.python"))]
    queries += queries_in(block("11.2-task.python"))
    store = filled_store(here / "t")
    with closing(store._get_connection()) as connection:
        for query in queries:
            assert connection.execute(query, (1,) * query.count("?")).fetchall(), query
    store.close()


class Summarizing:
    """What §4.2 expects of a client."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def send_system_prompt(self, prompt: str) -> None:
        self.heard.append(prompt)

    def send_user_message(self, message: str) -> None:
        self.heard.append(message)

    def get_response(self) -> tuple[str, list[Any]]:
        return "The user sent xxxxxxxxxx many times.", []


def test_4_2_the_compressor(here: Path) -> None:
    protocol = classes_in("4.2-compressor.python")["LLMClientProtocol"]
    for name, written in functions_of(protocol).items():
        calls_like(written, getattr(Summarizing, name))
    ours = has_methods("4.2-compressor.python", "ContextCompressor")
    assert isinstance(orihon.ContextCompressor.SUMMARIZATION_PROMPT, str)

    class Own(orihon.ContextCompressor):
        SUMMARIZATION_PROMPT = "In rhymes, please: {messages}"

    store = MessageStore(here / "t", context_length=1000, compression_threshold=0.5)
    assert ours(store, Summarizing()).compress_if_needed() is False
    store.add_message("system", "System prompt")
    for _ in range(20):
        store.add_message("user", "x" * 50)
    model = Summarizing()
    assert Own(store, model, 5).compress_context() is True
    assert any("In rhymes, please" in said for said in model.heard)
    store.close()


# ---- §4.4: the handler -----------------------------------------------------------------------------------------------


def test_4_4_a_handler_with_clients_of_ones_own(here: Path, model: ScriptedModel) -> None:
    """Also §11.2's test of a whole task; SPEC §3 says where its database lies."""
    config = {
        "context_storage": {"enabled": True, "backend": "sqlite"},
        "llm": {"provider": "openai", "openai": {"context_length": 128000}},
    }
    assert "TaskHandler(llm_client, mcp_clients, config)" in block("11.2-task.python")
    local = {"llm": {"provider": "openai", "openai": {"base_url": model.base_url, "api_key": "k", "model": "gpt-4o"}}}
    llm_client = orihon.get_llm_client(local, None, TOOLS)
    mcp_clients = {"github": GitHubServer()}
    task = orihon.Task({**KEY.as_dict(), "prompt": ""})
    task.prompt = "Fix the bug."  # type: ignore[attr-defined]

    written = functions_of(classes_in("11.2-task.python")["TestFullTaskProcessingWithContext"])
    body = ast.unparse(ast.Module(written["test_task_processing_with_sqlite_storage"].body, []))
    where = 'next(Path("contexts/completed").iterdir())'
    body, changed = re.subn(r"Path\('logs/contexts/github/owner/repo/issue_123'\)", where, body)
    assert changed == 1
    given: dict[str, Any] = {"TaskHandler": TaskHandler, "Path": Path, "sqlite3": sqlite3, "task": task}
    run = {**given, "llm_client": llm_client, "mcp_clients": mcp_clients}
    exec(body, run)
    assert {key: run["config"][key] for key in config} == config
    assert run["msg_count"] >= 4
    assert mcp_clients["github"].asked == [("get_file_contents", {"path": "README.md"})]
    with closing(sqlite3.connect(run["db_path"])) as connection:
        rows = connection.execute("SELECT tool_name, status, message_id, duration_ms FROM tool_calls").fetchall()
    assert [row[:2] for row in rows] == [("github_get_file_contents", "success")]
    assert rows[0][2] is not None
    run["handler"].close()
    llm_client.close()


def test_4_4_a_handler_refuses_what_it_cannot_use(here: Path) -> None:
    with pytest.raises(orihon.OrihonError, match="get_llm_client"):
        TaskHandler(3, {}, {})  # type: ignore[arg-type]
    with pytest.raises(orihon.OrihonError, match="get_task_key"):
        TaskHandler().handle("issue 3")  # type: ignore[arg-type]


def test_4_4_a_result_is_recorded_with_what_is_told_about_it(here: Path, model: ScriptedModel) -> None:
    handler = functions_of(classes_in("4.4-handler.python")["TaskHandler"])["_execute_single_function"]
    sent = next(
        node
        for node in ast.walk(handler)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("send_function_result")
    )
    config = {"model": "gpt-4o", "base_url": model.base_url, "api_key": "k"}
    client = OpenAIClient(config, None, TOOLS, here / "t")
    client.send_user_message("Read it.")
    _, functions = client.get_response()
    facts: dict[str, Any] = {
        "output": "error: no such file",
        "tool_name": "get_file_contents",
        "args": {"path": "missing"},
    }
    facts |= {"duration_ms": 7, "status": "error", "error_msg": "no such file", "name": functions[0]["name"]}
    own = types.SimpleNamespace(llm_client=client)
    exec(ast.unparse(sent), {"self": own, **facts})
    assert client.message_store is not None
    with closing(client.message_store._get_connection()) as connection:
        row: Any = connection.execute("SELECT * FROM tool_calls").fetchone()
    assert (row["status"], row["duration_ms"], row["error_message"]) == ("error", 7, "no such file")
    assert (json.loads(row["arguments"]), json.loads(row["result"])) == ({"path": "missing"}, "error: no such file")
    client.close()


# ---- §5: settings ----------------------------------------------------------------------------------------------------


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from leaves(value, f"{prefix}{key}.")
    else:
        yield prefix[:-1], node


def same(found: object, wanted: object) -> bool:
    if isinstance(found, Path):
        return found == Path(str(wanted))
    return found == wanted or str(found) == str(wanted)


def test_5_1_every_value_of_the_configuration_is_read(here: Path) -> None:
    (here / "config.yaml").write_text(block("5.1-config.yaml"), encoding="utf-8")
    settings = load_settings(here / "config.yaml", environ={"OPENAI_API_KEY": "the key"})
    written = dict(leaves(yaml.safe_load(block("5.1-config.yaml"))))
    written["llm.openai.api_key"] = "the key"
    for name, value in written.items():
        key = names()[name]
        assert same(settings.get(key), value), (name, settings.get(key), value)
        assert "config.yaml" in settings.origin(key) or name == "llm.openai.api_key"


def test_5_2_every_variable_is_read() -> None:
    wanted = dict(re.findall(r"^([A-Z_]+)=(\S+)", block("5.2-environment.sh"), re.M))
    assert len(wanted) == 10
    settings = load_settings(None, environ=wanted)
    keys = {
        "CONTEXT_STORAGE_ENABLED": "context_storage.enabled",
        "CONTEXT_STORAGE_BACKEND": "context_storage.backend",
        "CONTEXT_STORAGE_BASE_DIR": "context_storage.base_dir",
        "MAX_MEMORY_MESSAGES": "context_storage.max_memory_messages",
        "COMPRESSION_THRESHOLD": "compression.threshold",
        "OPENAI_CONTEXT_LENGTH": "llm.openai.context_length",
        "OLLAMA_CONTEXT_LENGTH": "llm.ollama.context_length",
        "LMSTUDIO_CONTEXT_LENGTH": "llm.lmstudio.context_length",
        "MULTIPROCESS_ENABLED": "multiprocess.enabled",
        "MAX_WORKERS": "multiprocess.max_workers",
    }
    assert keys.keys() == wanted.keys()
    for variable, key in keys.items():
        assert settings.origin(key) == f"environment {variable}"
        assert str(settings.get(key)).lower() == wanted[variable]


@pytest.mark.parametrize("name", ["12.2.2-locks.yaml", "12.2.3-compression.yaml", "12.2.4-memory.yaml"])
def test_12_2_every_remedy_is_read(name: str) -> None:
    remedies = re.split(r"^#.*\n", block(name), flags=re.M)
    for remedy in filter(str.strip, remedies):
        settings = load_settings(yaml.safe_load(remedy), environ={})
        for key, value in leaves(yaml.safe_load(remedy)):
            assert same(settings.get(names()[key]), value)


# ---- §6: several processes -------------------------------------------------------------------------------------------


def test_6_1_the_log_is_written_ahead(here: Path) -> None:
    """``synchronous`` is FULL: an acknowledged append survives a power failure too (SPEC §2.1)."""
    wanted = re.findall(r"PRAGMA (\w+)=(\w+)", block("6.1-wal.python"))
    assert wanted == [("journal_mode", "WAL"), ("synchronous", "NORMAL")]
    store = filled_store(here / "t")
    with closing(store._get_connection()) as connection:
        assert connection.execute("PRAGMA journal_mode").get == "wal"
    assert store.settings.context_storage.durability == "full"
    store.close()


@pytest.mark.parametrize("name", ["6.2.1-folders.txt", "6.5.2-folders.txt"])
def test_6_2_1_and_6_5_2_every_task_has_a_database_of_its_own(name: str, here: Path) -> None:
    """SPEC §3: ``running/{uuid}/context.db``; the old tree is imported."""
    found = re.findall(r"(\w+/\w+/\w+_\d+)/context\.db", block(name))
    assert len(found) >= 3
    keys = [key_from(Path("logs/contexts/github") / path.removeprefix("github/") / "context.db") for path in found]
    assert all(key is not None for key in keys)
    folders = set()
    for key in keys:
        assert key is not None
        with TaskContextManager(here / "contexts", key) as task:
            task.message_store.add_message("user", "Hello")
        folders.add(here / "contexts" / "completed" / task.uuid)
    assert len(folders) == len(keys)
    assert all((folder / "context.db").is_file() for folder in folders)


def test_6_2_2_a_task_that_was_taken_is_taken(here: Path) -> None:
    written = functions_of(classes_in("6.2.2-queue.python")["RabbitMQTaskQueue"])["get"]
    calls_like(written, orihon.RabbitMQTaskQueue.get)
    queue, other = orihon.TaskQueue(here / "base"), orihon.TaskQueue(here / "base")
    queue.enqueue(KEY, prompt="Fix it.")
    task = queue.dequeue()
    assert task is not None
    assert other.dequeue() is None
    queue.nack(task, "later")
    queue.close()
    other.close()


def test_6_3_a_lock_is_waited_for(here: Path) -> None:
    source = block("6.3-retry.python")
    wanted = {name: float(re.search(pattern, source)[1]) for name, pattern in RETRIES.items()}  # type: ignore[index]
    storage = load_settings(None, environ={}).context_storage
    assert {name: getattr(storage, name) for name in wanted} == wanted
    has_methods("6.3-retry.python", "MessageStore", private=("_get_connection",))
    store = filled_store(here / "t")
    with closing(apsw.Connection(str(store.db_path))) as other:
        other.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        letting_go.start()
        assert store.add_message("user", "Later") == store.count_messages()
        letting_go.join()
    store.close()


RETRIES = {"db_timeout": r"timeout=([\d.]+)", "max_retries": r"max_retries = (\d+)", "retry_delay": r"sleep\(([\d.]+)"}


def local_config(model: ScriptedModel, **multiprocess: object) -> dict[str, Any]:
    return {
        "context_storage": {"backend": "sqlite", "base_dir": "logs/contexts"},
        "llm": {"provider": "openai", "openai": {"base_url": model.base_url, "api_key": "k", "model": "gpt-4o"}},
        "multiprocess": {"enabled": True, **multiprocess},
    }


def test_6_4_1_a_worker_of_ones_own(here: Path, model: ScriptedModel) -> None:
    """As written, with clients for ``{...}`` and the queue of the base folder: SPEC §6 "the catalogue is the queue"."""
    source, changed = re.subn(r"\{\.\.\.\}", "given", block("6.4.1-workers.python").partition("def main")[0])
    assert changed == 1
    servers = {"github": GitHubServer()}
    used = ("get_llm_client", "TaskHandler", "consume_tasks")
    program: dict[str, Any] = {"logging": logging, **{name: getattr(orihon, name) for name in used}}
    program |= {"RabbitMQTaskQueue": queue_of_base, "given": servers, "functions": None, "tools": TOOLS}
    exec(source, program)
    config = local_config(model)
    queue = queue_of_base(config)
    uuids = [queue.enqueue({**KEY.as_dict(), "task_id": str(number)}, prompt="Fix it.") for number in (1, 2)]
    program["worker_process"](0, config)
    assert [queue.catalogue.tasks.get(uuid).status.value for uuid in uuids] == ["completed", "completed"]
    assert len(servers["github"].asked) == 2
    queue.close()


def queue_of_base(config: Mapping[str, Any]) -> orihon.TaskQueue:
    return orihon.TaskQueue(None, config)


def test_6_4_1_a_main_program(here: Path, model: ScriptedModel) -> None:
    written = block("6.4.1-workers.python")
    main = written[written.index("def main") : written.index("    else:")]
    config = local_config(model, max_workers=2)
    config["llm"]["function_calling"] = True
    (here / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    queue = queue_of_base(config)
    uuids = [queue.enqueue({**KEY.as_dict(), "task_id": str(number)}, prompt="Fix it.") for number in range(3)]
    names = "import multiprocessing as mp\nfrom orihon import load_config, worker_process\n\n"
    source = names + main + '\nif __name__ == "__main__":\n    main()\n'
    run_program(here, source, ORIHON_CONFIG="config.yaml")
    assert {queue.catalogue.tasks.get(uuid).status.value for uuid in uuids} == {"completed"}
    queue.close()


def test_6_4_2_a_worker_ends_when_it_is_told_to(here: Path) -> None:
    has_methods("6.4.2-worker.python", "WorkerProcess")
    worker = orihon.WorkerProcess(1, {"llm": {"openai": {"api_key": "k"}}}, base_dir=here / "base")
    before = worker.should_stop
    worker.stop()
    assert (before, worker.should_stop) == (False, True)
    worker.run()


def test_6_5_1_a_user_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    program: dict[str, Any] = {"os": os, "Task": orihon.Task}
    monkeypatch.setitem(sys.modules, "main", types.ModuleType("main"))
    sys.modules["main"].fetch_user_config = orihon.fetch_user_config  # type: ignore[attr-defined]
    exec(block("6.5.1-config.python"), program)
    monkeypatch.delenv("USE_USER_CONFIG_API", raising=False)
    settings = load_settings(None, environ={})
    assert program["_get_task_config"](types.SimpleNamespace(config=settings), None) is settings
    inspect.signature(orihon.fetch_user_config).bind("task", settings)


def test_6_6_1_workers_are_watched() -> None:
    (watched,) = functions_of(parsed(block("6.6.1-monitor.python")))["monitor_workers"].args.args
    assert watched.arg == "processes"
    orihon.monitor_workers([])


@pytest.fixture
def worked(here: Path) -> Path:
    """A folder with the base folder that the document names, and two tasks in it."""
    for number in (123, 124):
        key = TaskKey("github", "myorg", "myrepo", "issue", str(number))
        with TaskContextManager(here / "logs/contexts", key) as task:
            store = task.message_store
            store.add_message("system", "You are an AI coding assistant")
            for turn in range(12):
                store.add_message("user", f"Fix the bug in part {turn}")
                store.add_message("assistant", f"I'll help you fix {turn}")
            call = {"id": "c", "type": "function", "function": {"name": "github_get", "arguments": "{}"}}
            store.add_message("assistant", None, tool_calls=[call])
            told = {"arguments": {}, "result": "x", "duration_ms": 2300, "status": "success"}
            store.add_message("tool", "x", "github_get", tool_call=told)
            store.add_message("assistant", "Changes committed successfully")
            store.create_summary(2, 11, "Fixed authentication bug")
    return here


HEAD = """
import gzip, json, logging, shutil, sqlite3
from datetime import datetime, timedelta
from pathlib import Path
"""


@pytest.mark.parametrize("name", ["6.6.2-statistics.python", "9.2-statistics.python"])
def test_6_6_2_and_9_2_the_documents_own_program_counts_what_we_count(name: str, worked: Path) -> None:
    function = next(iter(functions_of(parsed(block(name)))))
    program = HEAD + block(name) + f"\nprint(json.dumps({function}()))\n"
    theirs = json.loads(run_program(worked, program).stdout)
    ours = getattr(orihon, function)(worked / "logs/contexts")
    assert theirs.keys() <= ours.keys()
    if function == "collect_worker_stats":
        assert theirs["total_tasks_processed"] == 2
        return
    same_figures = ("total_contexts", "total_messages", "total_summaries", "avg_messages_per_context")
    assert {key: ours[key] for key in same_figures} == {key: theirs[key] for key in same_figures}
    assert theirs["total_messages"] == 56


def test_9_2_the_report(worked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls_like(
        functions_of(parsed(block("9.2-statistics.python")))["print_statistics_report"],
        orihon.print_statistics_report,
        is_method=False,
    )
    orihon.print_statistics_report(worked / "logs/contexts")
    assert "2" in capsys.readouterr().out


# ---- §7 to §9 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_7_2_the_switch(here: Path, enabled: bool) -> None:
    task = orihon.Task(KEY)
    config = {"context_storage": {"enabled": enabled}, "llm": {"openai": {"api_key": "k"}}}
    program: dict[str, Any] = {"config": config, "task": task, "OpenAIClient": OpenAIClient}
    program["create_context_directory"] = orihon.create_context_directory
    exec(block("7.2-switch.python"), program)
    client = program["llm_client"]
    assert client.use_file_storage is enabled
    client.send_user_message("Hello")
    assert bool(list(here.iterdir())) is enabled
    if enabled:
        assert program["context_dir"] == Path("contexts/github-owner-repo-issue-123")
        assert orihon.create_context_directory(task) == program["context_dir"]
    client.close()


def test_8_1_8_2_a_long_history_costs_a_part_of_its_tokens(here: Path) -> None:
    """A tenth of the scenario: 200 calls, a window of 12,800. Memory is measured by ``benchmarks/seed_memory.py``."""
    rows = [line.split("|")[1:-1] for line in block("8.2-compression.md").splitlines()[2:]]
    folded = next(row for row in rows if "要約あり" in row[0])
    low, high = (int(part) for part in re.findall(r"(\d+)", folded[2]))
    assert (low, high) == (50, 70)
    figures = block("8.1-figures.md")
    assert ("82%" in figures, "自動" in figures) == (True, True)
    assert (Path(__file__).parents[2] / "benchmarks" / "seed_memory.py").is_file()
    store = MessageStore(here / "t", context_length=12_800)
    compressor = orihon.ContextCompressor(store)
    for number in range(200):
        store.add_message("user" if number % 2 == 0 else "assistant", f"{number}: " + "read the file and fix it. " * 16)
        compressor.compress_if_needed()
    total = store.get_statistics()["total_tokens"]
    assert store.get_current_token_count() <= 12_800 * 0.7
    assert 1 - store.get_current_token_count() / total >= low / 100
    store.close()


def test_8_3_as_many_workers_as_the_document_recommends() -> None:
    """「CPU コア数に応じて2-4プロセスが最適」: what it measured there is measured by ``benchmarks/``."""
    measured = [int(line.split("|")[1]) for line in block("8.3-workers.md").splitlines()[2:]]
    assert measured == [1, 2, 4, 8]
    workers = load_settings(None, environ={}).multiprocess.max_workers
    assert workers in measured
    assert 2 <= workers <= 4


def test_14_4_compressions_succeed_even_without_the_model(here: Path) -> None:
    """The goal is 95 % of them; a model that is down costs none. The other goals are measured by ``benchmarks/``."""
    (wanted,) = re.findall(r"圧縮成功率 \| > (\d+)%", block("14.4-goals.md"))
    with ScriptedModel(lambda _: Fault(503)) as broken:
        config = local_config(broken)
        config["llm"] |= {"retries": 0}
        config["llm"]["openai"]["context_length"] = 3000
        with TaskContextManager(here / "base", KEY, config) as task:
            task.set_llm_client(OpenAIClient(task_ctx=task))
            needed, done = 0, 0
            for number in range(60):
                task.message_store.add_message("user", f"{number}: " + "read the file and fix it. " * 20)
                if task.compressor.should_compress():
                    needed += 1
                    done += bool(task.compress_if_needed())
            task.set_llm_client(None)
    assert needed >= 3
    assert done >= needed * int(wanted) / 100


def test_9_1_the_viewer(worked: Path) -> None:
    command, _, example = block("9.1-viewer.sh").partition("# 出力例")
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    assert words[:3] == ["python", "-m", "tools.context_viewer"]
    options = [*words[3:], "--base-dir", "logs/contexts", "--lang", "en"]
    shown = run_python(worked, "-m", "orihon.tools.context_viewer", *options).stdout
    headings = re.findall(r"^( *[A-Z][\w ]*):", example, re.M)
    assert len(headings) == 11
    for heading in headings:  # "20 in memory" is nowhere: SPEC §9 "none for history"
        assert heading.lower() in shown.lower(), heading
    assert "github_get (2.3s) ✓" in shown
    assert "Fixed authentication bug" in shown
    assert (worked / "issue_123.html").is_file()


def test_9_3_the_monitor(here: Path) -> None:
    has_methods("9.3-monitor.python", "ContextMonitor")
    source = block("9.3-monitor.python")
    assert orihon.ContextMonitor(check_interval=60, base_dir=here / "base").alerts == []
    limits = load_settings(None, environ={}).monitor
    gigabytes = eval(re.search(r"total_size > ([\d *]+):", source)[1]) / 1024  # type: ignore[index]
    assert limits.max_size_gb == gigabytes
    assert limits.old_days == int(re.search(r"days=(\d+)", source)[1])  # type: ignore[index]
    assert limits.max_old == int(re.search(r"old_contexts\) > (\d+)", source)[1])  # type: ignore[index]


# ---- §10: safety -----------------------------------------------------------------------------------------------------

SECRETS = {
    "github_pat_": "github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz",
    "ghp_": "ghp_1234567890abcdef1234567890abcdef1234",
    "gho_": "gho_1234567890abcdef1234567890abcdef1234",
    "sk-": "sk-proj-abc123def456ghi789jkl012mno345",
    "glpat-": "glpat-abcdefghij1234567890",
    "@": "alice@example.org",
    r"\d{3}-\d{2}-\d{4}": "123-45-6789",
}


def test_10_1_every_pattern_of_the_document_is_masked(here: Path) -> None:
    """SPEC §9: "its e-mail and `sk-` patterns are wrong: mend; e-mail and SSN are opt-in; placeholder `[OPENAI_KEY]`
    followed by `#` and 8 or more hex digits of a keyed hash"."""
    store_of_document = classes_in("10.1-masking.python")["MessageStore"]
    patterns = ast.literal_eval(next(node.value for node in store_of_document.body if isinstance(node, ast.Assign)))
    store = MessageStore(here / "t", {"masking": {"email": True, "ssn": True}})
    has_methods("10.1-masking.python", "MessageStore", private=("_mask_sensitive_data",))
    for pattern, placeholder in patterns:
        secret = next(value for mark, value in SECRETS.items() if mark in pattern)
        masked = store._mask_sensitive_data(f"Use {secret} now")
        assert secret not in masked
        assert re.search(rf"{re.escape(placeholder)}#[0-9a-f]{{8,}}", masked), (masked, placeholder)
        stored = store.get_message(store.add_message("user", f"Use {secret} now"))
        assert stored.message.content == masked
    assert store._mask_sensitive_data("task-12 is done") == "task-12 is done"
    store.close()


def test_10_1_patterns_that_a_program_adds_are_masked(here: Path) -> None:
    """`SENSITIVE_PATTERNS` as the document has it, a class attribute: what is added there is masked."""

    class OurStore(MessageStore):
        SENSITIVE_PATTERNS: ClassVar[list[tuple[str, str]]] = [
            *MessageStore.SENSITIVE_PATTERNS,
            (r"acme-\d{4}", "[ACME_ID]"),
            (r"badge \d{3}", "[ACME_ID]"),
        ]

    store = OurStore(here / "t")
    stored = store.get_message(store.add_message("user", "ACME-1234 and badge 007, task-12")).message.content or ""
    assert re.fullmatch(r"\[ACME_ID\]#[0-9a-f]+ and \[ACME_ID\]#[0-9a-f]+, task-12", stored), stored
    for pattern, placeholder in MessageStore.SENSITIVE_PATTERNS:
        secret = next(value for mark, value in SECRETS.items() if mark in pattern)
        assert re.search(pattern, secret)
        assert placeholder in store._mask_sensitive_data(secret)
    store.close()
    with refused(InvalidSettings, "not_pattern_map"):
        type("BadStore", (MessageStore,), {"SENSITIVE_PATTERNS": [("x+", "***")]})(here / "u")


def test_10_2_1_folders_and_databases_are_private(here: Path) -> None:
    modes = re.findall(r"mode=(0o\d+)", block("10.2.1-private.python"))
    written = functions_of(parsed(block("10.2.1-private.python")))
    folder = orihon.create_context_directory(here / "a" / "b")
    orihon.create_database(folder / "context.db")
    orihon.create_database(folder / "context.db")
    for name in written:
        calls_like(written[name], getattr(orihon, name), is_method=False)
    found = [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "context.db")]
    assert found == [oct(int(mode, 8)) for mode in modes]
    store = MessageStore(folder)
    assert store.add_message("user", "into the file that was made") == 1
    store.close()


def test_10_2_2_text_is_never_part_of_a_statement(here: Path) -> None:
    role, content = "user", "'); DROP TABLE messages; --"
    statement = next(
        node.value
        for node in ast.walk(parsed(block("10.2.2-parameters.python")))
        if isinstance(node, ast.Constant) and str(node.value).startswith("INSERT")
    )
    store = MessageStore(here / "t")
    store.add_message(role, content)
    with closing(store._get_connection()) as connection:
        assert connection.execute("SELECT role, content FROM messages").fetchall() == [(role, content)]
        with pytest.raises(apsw.Error):  # SPEC §2: the log is written to by the store alone
            connection.execute(str(statement), (role, content))
    store.close()


def test_10_3_2_and_13_5_2_access_is_recorded(here: Path) -> None:
    """A hash chain in the place of ``logs/audit.log``: SPEC §8."""
    has_methods("10.3.2-audit.python", "AuditLogger")
    has_methods("13.5.2-audit.python", "ComplianceAuditLog")
    settings = load_settings({"audit": {"level": "all"}}, environ={})
    orihon.TaskQueue(here / "base").close()  # there is a base now
    orihon.AuditLogger(here / "base", settings).log_context_access("77", "github/o/r/1", "delete", {"why": "old"})
    orihon.ComplianceAuditLog(here / "base", settings).log_data_access(
        "alice", "task-1", "read", "personal", "10.0.0.1"
    )
    found = {record.action: record for record in orihon.audit_records(here / "base", settings)}
    assert found["delete"].task == "github/o/r/1"
    assert found["read"].user == "alice"
    assert orihon.verify_audit(here / "base", settings).findings == []


# ---- §11: tests ------------------------------------------------------------------------------------------------------

NAMES_OF_TESTS = "import json, tempfile\nfrom pathlib import Path\nfrom orihon import ContextCompressor, MessageStore\n"
RUN_THEM = """
class Model:
    def send_system_prompt(self, prompt): ...
    def send_user_message(self, message): ...
    def get_response(self):
        return "The user sent xxxxxxxxxx twenty times.", []


if __name__ == "__main__":
    for tests in (TestMessageStore(), TestContextCompressor()):
        for name in dir(tests):
            if name.startswith("test_"):
                getattr(tests, name)(*([Model()] if name == "test_compression" else []))
                print(name)
"""


def test_11_1_the_documents_unit_tests_pass_as_they_are_written(here: Path) -> None:
    program = NAMES_OF_TESTS + block("11.1-store.python") + RUN_THEM
    done = run_program(here, program).stdout.split()
    assert sorted(done) == sorted(re.findall(r"def (test_\w+)", block("11.1-store.python")))


def test_11_2_what_was_folded_while_a_task_was_worked_on(here: Path) -> None:
    written = functions_of(classes_in("11.2-task.python")["TestFullTaskProcessingWithContext"])
    body = ast.unparse(ast.Module(written["test_context_compression_during_processing"].body, []))
    config = ast.literal_eval(re.search(r"config = (\{.*?\}\})\n", body, re.S)[1])  # type: ignore[index]
    with TaskContextManager(here / "contexts", KEY, config) as task:
        for number in range(80):
            task.message_store.add_message("user", f"{number}: " + "read the file and fix it. " * 20)
            task.compress_if_needed()
    folder = here / "contexts" / "completed" / task.uuid
    exec(body, {"MessageStore": MessageStore, "context_dir": folder})


def test_11_3_a_thousand_messages(here: Path) -> None:
    """Without its limits in seconds; ``test_multiprocess_throughput`` there measures nothing but ``time.sleep``."""
    written = functions_of(parsed(block("11.3-speed.python")))
    source = ast.unparse(written["test_large_context_performance"])
    source, changed = re.subn(r"assert \w+_duration < [\d.]+", "pass", source)
    assert changed == 2
    program = f"{NAMES_OF_TESTS}\n{source}\n\ntest_large_context_performance()\n"
    assert "DB size" in run_program(here, program, ORIHON_CONTEXT_STORAGE__DURABILITY="os").stdout


# ---- §12: operations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["12.1.1-cleanup.sh", "12.2.1-remedy.sh", "12.2.3-diagnosis.sh"])
def test_12_the_commands(name: str, worked: Path) -> None:
    """``tools`` is ``orihon.tools``; logs and folders are looked at with the commands that show them."""
    commands = [shlex.split(line) for line in block(name).splitlines() if line.startswith("python -m tools.")]
    assert commands
    for command in commands:
        module = f"orihon.{command[2]}"
        output = run_python(worked, "-m", module, *command[3:], "--base-dir", "logs/contexts", "--lang", "en").stdout
        assert "Traceback" not in output
        if "--summary" in command:
            wanted = re.findall(r"^# ([A-Z]\w+(?: \w+)?)[^:\n]*:", block(name), re.M)
            assert {"Total contexts", "Total size", "Active", "Archived", "Old"} <= set(wanted)
            for heading in ("Total contexts", "Total size", "Active", "Archived", "Old"):
                assert heading in output, output
    assert (
        "Traceback" not in run_python(worked, "-m", "orihon.tools.context_stats", "--base-dir", "logs/contexts").stdout
    )


def test_12_1_2_the_maintenance_script(worked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_STORAGE_BASE_DIR", "logs/contexts")
    source = block("12.1.2-maintenance.python")
    calls = source[source.index("    # アーカイブ") :]
    exec(textwrap.dedent(calls), {name: getattr(orihon, name) for name in functions_of(parsed(source))})
    for name, written in functions_of(parsed(source)).items():
        assert [argument.arg for argument in written.args.args] in (["days"], [])
        getattr(orihon, name)(**{argument.arg: 30 for argument in written.args.args})
    assert orihon.collect_global_statistics(worked / "logs/contexts")["total_contexts"] == 2


def test_12_1_3_the_crontab(worked: Path) -> None:
    """SPEC §3: nothing but the name of the script is another one."""
    (line,) = [line for line in block("12.1.3-cron.txt").splitlines() if not line.startswith("#")]
    assert line.split()[:5] == ["0", "2", "*", "*", "*"]
    assert "tools/maintenance.py" in line
    run_python(worked, "-m", "orihon.tools.maintenance", "--base-dir", "logs/contexts")


def test_12_3_1_the_metrics(worked: Path) -> None:
    defined = re.findall(
        r"(Counter|Gauge|Histogram)\(\s*'(\w+)',\s*'[^']+'(?:,\s*(\[[^\]]*\]))?", block("12.3.1-metrics.python")
    )
    assert len(defined) == 4
    with TaskContextManager(worked / "logs/contexts", KEY, {"llm": {"openai": {"context_length": 2000}}}) as task:
        for number in range(40):
            task.message_store.add_message("user", f"{number}: " + "read the file and fix it. " * 10)
            task.compress_if_needed()
    page = orihon.collect_metrics(worked / "logs/contexts")
    text = str(page)
    for kind, name, labels in defined:
        assert re.search(rf"^# TYPE {name} {kind.lower()}$", text, re.M), name
        for label in ast.literal_eval(labels or "[]"):
            assert re.search(rf"^{name}(_bucket)?\{{[^}}]*{label}=", text, re.M), (name, label)


def test_12_3_2_the_alerts() -> None:
    (group,) = yaml.safe_load(block("12.3.2-rules.yaml"))["groups"]
    ours = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "prometheus-rules.yaml").read_text(encoding="utf-8"))
    rules = {rule["alert"]: rule for other in ours["groups"] for rule in other["rules"]}
    for rule in group["rules"]:
        assert rules[rule["alert"]]["expr"].split() == rule["expr"].split()
        assert rules[rule["alert"]]["for"] == rule["for"]


# ---- §13: extensions -------------------------------------------------------------------------------------------------


def test_13_1_1_thresholds_by_complexity() -> None:
    program: dict[str, Any] = {}
    exec(block("13.1.1-adaptive.python"), program)
    has_methods("13.1.1-adaptive.python", "AdaptiveContextManager")
    theirs, ours = program["AdaptiveContextManager"](), orihon.AdaptiveContextManager()
    for word in ("simple", "medium", "complex", "other"):
        wanted = theirs.calculate_optimal_compression_threshold(word, 128_000)
        assert ours.calculate_optimal_compression_threshold(word, 128_000) == wanted


def test_13_2_1_the_store_of_a_bucket() -> None:
    has_methods("13.2.1-s3.python", "S3MessageStore")
    assert issubclass(orihon.S3MessageStore, MessageStore)


def test_13_2_2_the_store_of_a_server(postgres: Database, here: Path) -> None:
    has_methods("13.2.2-postgres.python", "PostgreSQLMessageStore")
    columns = re.findall(r"^\s+(\w+) (?:SERIAL|TEXT|TIMESTAMP|INTEGER|JSONB)", block("13.2.2-postgres.python"), re.M)
    config = {"database": postgres.settings}
    store = orihon.PostgreSQLMessageStore(postgres.url, "github-owner-repo-issue-123", config)
    store.add_message("user", "Hello", colour="red")
    with psycopg.connect(postgres.url, options=f"-c search_path={postgres.schema}") as session:
        query = f"SELECT {', '.join(columns)} FROM messages WHERE task_key = %s".encode()
        (row,) = session.execute(query, (store.task_key,)).fetchall()
    found = dict(zip(columns, row, strict=True))
    assert (found["id"], found["role"], found["content"], found["metadata"]) == (1, "user", "Hello", {"colour": "red"})
    store.close()


class Ranking:
    """A model that is asked which messages matter, and says so by their numbers."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.heard: list[str] = []

    def send_system_prompt(self, prompt: str) -> None:
        self.heard.append(prompt)

    def send_user_message(self, message: str) -> None:
        self.heard.append(message)

    def get_response(self) -> tuple[str, list[Any]]:
        return self._answer, []


def conversation() -> list[dict[str, Any]]:
    said = [f"Looked at file {number}." for number in range(60)]
    said[3] = "IMPORTANT: never delete the production database"
    said[40] = "The cache is in Redis, as we agreed"
    return [
        *({"id": 100 + at, "role": "user" if at % 2 else "assistant", "content": one} for at, one in enumerate(said)),
        {"id": 160, "role": "user", "content": "ok"},
    ]


def test_13_3_1_summaries_and_what_matters() -> None:
    has_methods("13.3.1-summarizer.python", "IntelligentSummarizer")
    fields = re.findall(r'^\s+"(\w+)":', block("13.3.1-summarizer.python"), re.M)
    summary = orihon.IntelligentSummarizer(Ranking("nonsense")).create_hierarchical_summary(conversation())
    assert list(summary) == fields
    for model in (None, Ranking("nonsense"), Ranking('{"scores": {"160": 1.0, "103": 0.0}}')):
        found = orihon.IntelligentSummarizer(model).identify_important_messages(conversation())
        assert 103 in found  # whatever a model says of a prohibition
        assert 160 not in found or model is not None
    asked = Ranking('{"scores": {"140": 0.9, "103": 1.0, "160": 0.1, "999": 1}}')
    assert orihon.IntelligentSummarizer(asked).identify_important_messages(conversation()) == [103, 140]
    assert "[140] " in asked.heard[-1]


CODE = """Look:

```python
def total_of_all_orders(customer_orders, discount_percentage):
    # every order counts
    running_total = 0

    for single_order in customer_orders:
        running_total += single_order.amount_in_cents
    return running_total * (100 - discount_percentage)
```
"""


def test_13_4_1_fewer_tokens() -> None:
    has_methods("13.4.1-tokens.python", "TokenOptimizer")
    optimizer = orihon.TokenOptimizer()
    plain = optimizer.compress_code_blocks(CODE, shorten_names=False)
    assert "# every order" not in plain
    assert "customer_orders" in plain
    short = optimizer.compress_code_blocks(CODE)
    assert len(short) < len(plain)
    assert "total_of_all_orders" in short  # what others call keeps its name
    assert "running_total" not in short
    assert ".amount_in_cents" in short
    assert "running_total" in optimizer.names.values()
    assert optimizer.restore_names(short) == plain
    assert "see message #42" in optimizer.use_reference_instead_of_full_content("x" * 2000, 1000, message_id=42)
    given = "[Content truncated, see message #{self.last_full_content_id}]"
    assert given in block("13.4.1-tokens.python")


def test_13_4_2_answers_are_kept(here: Path) -> None:
    has_methods("13.4.2-cache.python", "LLMResponseCache")

    class Backend(dict[str, Any]):
        def set(self, key: str, value: str, ttl: int) -> None:
            self[key] = value
            self.ttl = ttl

    messages, backend = [{"role": "user", "content": "Hello"}], Backend()
    for kept in (backend, here / "answers"):
        cache = orihon.LLMResponseCache(kept)
        assert cache.get_cached_response(messages, "gpt-4o") is None
        cache.cache_response(messages, "gpt-4o", "Hi.")
        assert cache.get_cached_response(messages, "gpt-4o") == "Hi."
        assert cache.get_cached_response(messages, "another") is None
    assert backend.ttl == int(re.search(r"ttl=(\d+)", block("13.4.2-cache.python"))[1])  # type: ignore[index]


def test_13_5_1_the_rights_of_people(here: Path) -> None:
    has_methods("13.5.1-gdpr.python", "GDPRCompliantStorage")
    storage = orihon.GDPRCompliantStorage(here / "base")
    said = "Mail alice@example.org, call 090-1234-5678, SSN 123-45-6789, from 192.168.7.23 and 2001:db8::8a2e:370:7334."
    hidden = storage.anonymize_personal_data(said)
    for person in ("alice@example.org", "090-1234-5678", "123-45-6789", "192.168.7.23", "2001:db8::8a2e:370:7334"):
        assert person not in hidden
    kept = "Version 1.2.3.4.5, at 10:20:30, build 2024-01-15, section 1.2.3, 127.0.0.1 and ::1"
    assert storage.anonymize_personal_data(kept) == kept
    with TaskContextManager(here / "base", TaskKey("github", "o", "r", "issue", "1", "alice")) as task:
        task.message_store.add_message("user", "my words")
    assert "my words" in json.dumps(storage.export_user_data("alice"))
    storage.delete_user_data("alice")
    assert "my words" not in json.dumps(storage.export_user_data("alice"))


# ---- §3.4 and §12.1.2: what the document's own programs have left behind ---------------------------------------------

OLD_PROGRAM = """
context_dir.mkdir(parents=True)
store = MessageStore(context_dir)
store.add_message("system", "You are an AI coding assistant")
store.add_message("user", "Fix the bug")
for number in range(5):
    call = {"name": "github_get", "arguments": json.dumps({"n": number})} if number % 2 else None
    store.add_message("assistant", f"Looking at {number}", function_call=call)
    told = {"tool_name": "github_get", "arguments": {"n": number}, "result": {"x": number}, "duration_ms": 3}
    store.add_message(role="tool", content=json.dumps({"x": number}), tool_call=told)
store.add_message("assistant", "Done", function_call=None)
store.create_summary(3, 6, "Looked at two")
"""


@pytest.mark.parametrize("is_packed", [False, True])
def test_3_4_the_tree_of_the_documents_own_store_is_imported(tmp_path: Path, is_packed: bool) -> None:
    """Written by the document's ``MessageStore`` (§4.1, §4.3.1), packed by its maintenance (§12.1.2)."""
    names = re.findall(r"[─\s]*([^\s─│└├]+)/", block("3.4-folders.txt"))
    fields = {"task_source": "github", "owner": "me", "repo": "tool", "task_type": "issue", "task_id": "7"}
    folder = Path(*(name.format(**fields) for name in names))
    assert folder == Path("logs/contexts/github/me/tool/issue_7")
    program = HEAD + block("4.1-store.python") + f"\ncontext_dir = Path({str(folder)!r})\n" + OLD_PROGRAM
    if is_packed:
        pack = functions_of(parsed(block("12.1.2-maintenance.python")))["archive_old_contexts"]
        program += "\nlogger = logging.getLogger()\n" + ast.unparse(pack) + "\narchive_old_contexts(days=-1)\n"
    run_program(tmp_path, program)
    assert (tmp_path / folder / "context.db.gz").exists() is is_packed
    base, settings = tmp_path / "base", load_settings({"context_storage": {"backend": "files"}}, environ={})
    report = orihon.import_transcripts(base, settings, [tmp_path / "logs"])
    assert (report.problems, len(report.tasks), report.tool_calls) == ([], 1, 5)
    store = MessageStore(base / "completed" / report.tasks[0].uuid, settings)
    tools = list(store.task_store.read("tools"))
    assert [(one["tool_name"], one["arguments"], one["result"], one["duration_ms"]) for one in tools] == [
        ("github_get", {"n": number}, {"x": number}, 3) for number in range(5)
    ]
    said = [stored.message for stored in store.get_messages()]
    called = {call.id: call for message in said for call in message.tool_calls}
    assert [called[message.tool_call_id or ""].name for message in said if message.role == "tool"] == ["github_get"] * 5
    assert "Looked at two" in str(store.get_messages_for_llm())
    store.close()
    again = orihon.import_transcripts(base, settings, [tmp_path / "logs"])
    assert (again.new_tasks, again.messages, again.tool_calls) == (0, 0, 0)


def test_3_4_a_packed_database_is_unpacked_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "logs/contexts/github/me/tool/issue_7"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "plain.db")) as database:
        database.executescript(block("3.4-schema.sql"))
        database.execute("INSERT INTO messages (role, content) VALUES ('user', ?)", ("x" * 3_000_000,))
        database.commit()
    (folder / "context.db.gz").write_bytes(gzip.compress((tmp_path / "plain.db").read_bytes()))
    monkeypatch.setattr("orihon.importers.seed_tree._MOST_UNPACKED", 1_000_000)
    report = orihon.import_transcripts(tmp_path / "base", load_settings(None, environ={}), [tmp_path / "logs"])
    assert len(report.problems) == 1
    assert report.messages == 0


def test_2_2_the_benchmark_has_the_scenario_of_the_table() -> None:
    """Question, answer and result are as large as the document says in `benchmarks/seed_memory.py`."""
    sizes = [int(size) * 1000 for size in re.findall(r"~(\d+)KB", block("2.2-scenario.md"))]
    program = inspect.getsource(seed_memory)
    said = {int(size) for size in re.findall(r"said\([\w.]+, ([\d_]+)\)", program)}
    assert {*sizes} <= said
    assert "default=100" in program


def test_12_2_1_the_largest_are_found_with_the_tools_of_the_system(here: Path) -> None:
    for name, size in (("small", 1), ("large", 100)):
        store = MessageStore(here / "logs" / "contexts" / name, backend="sqlite")
        store.add_message("user", "x" * 10_000 * size)
        store.close()
    command = ["bash", "-euo", "pipefail", "-c", block("12.2.1-space.sh")]
    told = subprocess.run(command, cwd=here, text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert told[0].endswith("logs/contexts/large/context.db")
    assert told[-1].endswith("logs/contexts")


def test_12_2_4_workers_are_found_with_the_tools_of_the_system(here: Path) -> None:
    program = "import sys\nfrom orihon import worker_process\nprint(worker_process.__name__, flush=True)\n"
    program += "sys.stdin.read()\n"
    (here / "main.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "main.py"]
    with subprocess.Popen(command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "worker_process\n"
        shell = ["bash", "-euo", "pipefail", "-c", block("12.2.4-processes.sh")]
        wide = {**os.environ, "COLUMNS": "10000"}  # or ``ps`` cuts its lines
        told = subprocess.run(shell, env=wide, text=True, stdout=subprocess.PIPE, check=True).stdout
        worker.communicate()
    (found,) = [line.split() for line in told.splitlines() if line.split()[0] == str(worker.pid)]
    assert float(found[1]) >= 0
    assert "python" in found[2]


def test_8_1_no_vocabulary_is_loaded_for_a_summary(here: Path) -> None:
    """§8.1's 82 %: a vocabulary of tens of megabytes is not part of the bargain, unless somebody has asked for one."""
    config = {"context_storage": {"backend": "sqlite"}, "llm": {"openai": {"context_length": 4000}}}
    source = f"""
import sys
from pathlib import Path
from orihon import ContextCompressor, MessageStore

class Model:
    def send_system_prompt(self, prompt): ...
    def send_user_message(self, message): self.heard = message
    def get_response(self): return "The user wants the file read and fixed, over and over.", []

store = MessageStore(Path("t"), {config!r})
for number in range(60):
    store.add_message("user", f"{{number}}: " + "read the file and fix it. " * 20)
model = Model()
assert ContextCompressor(store, model).compress_if_needed()
assert model.heard
print(sorted(name for name in sys.modules if name.startswith(("rs_bpe", "tiktoken"))))
"""
    assert run_program(here, source).stdout.strip() == "[]"


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_4_1_metadata_is_kept_and_never_sent(here: Path, backend: str) -> None:
    """§4.1's `add_message(role, content, **metadata)`; its `get_messages_for_llm` has role and content alone."""
    store = MessageStore(here / "t", backend=backend)
    store.add_message("user", "Hello", source="github", priority=3)
    store.add_message("assistant", "Hi", reasoning_content="a greeting")
    store.close()
    store = MessageStore(here / "t", backend=backend)
    sent = [{"role": "user", "content": "Hello"}]
    sent.append({"role": "assistant", "content": "Hi", "reasoning_content": "a greeting"})
    assert store.get_messages_for_llm() == sent
    assert [json.loads(line) for line in store.current_file.read_text(encoding="utf-8").splitlines()] == sent
    assert store.get_message(1).message.extra == {"source": "github", "priority": 3}
    assert store.memory_cache[0]["source"] == "github"
    store.close()
