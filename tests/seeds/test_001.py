"""Document 001, the fully file-based context storage: its listings, formats, flows, queries and settings, as written.

Where SPEC §9 decides otherwise than the document, the test quotes the decision.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import yaml

import orihon
from orihon import (
    Base,
    ContextCompressor,
    LLMClient,
    LMStudioClient,
    MessageStore,
    OllamaClient,
    OpenAIClient,
    SummaryStore,
    TaskContextManager,
    TaskHandler,
    TaskQueue,
    ToolStore,
    maintain,
)
from orihon.errors import InvalidInput, InvalidSettings, StorageUnavailable, ToolCallError
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest
from orihon.settings import load_settings
from tests.helpers import raw_database, refused
from tests.seeds import copies

block = partial(copies.block, "001")
listed = partial(copies.listed, "001")

KEY: dict[str, Any] = json.loads(copies.block("001", "3.1-metadata.json"))["task_key"]
USER = "notfolder"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the program is started: ``contexts`` of the document lies in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_of(model: ScriptedModel | None = None, **changed: Any) -> dict[str, Any]:
    """§9.1's configuration, with a model of our own at the other end, and the client's own values where changed."""
    config: dict[str, Any] = yaml.safe_load(block("9.1-config.yaml"))
    address = "http://127.0.0.1:9" if model is None else model.base_url
    config["llm"]["openai"] |= {"api_key": "test", "base_url": f"{address}/", **changed}
    config["llm"] |= {"retries": 0}
    return config


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def in_database(base: Path, query: str) -> list[dict[str, Any]]:
    """A query as another program makes it: two copies of SQLite in one process do not go together."""
    program = (
        "import json, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.row_factory = sqlite3.Row\n"
        "found = [dict(row) for row in c.execute(sys.argv[2])]; c.commit(); print(json.dumps(found))"
    )
    words = [sys.executable, "-c", program, str(base / "tasks.db"), query]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not answer.stderr, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def utc(moment: str) -> datetime:
    read = datetime.fromisoformat(moment)
    assert read.utcoffset() == timedelta(0)
    return read


# ---- §2: folders and the catalogue ---------------------------------------------------------------------------------


def worked(config: dict[str, Any], *, system: str = "You are an AI.") -> TaskContextManager:
    """A task that has something in each of its files."""
    ctx = TaskContextManager(KEY, None, config)
    store = ctx.get_message_store()
    store.add_message("system", system)
    for number in range(8):
        store.add_message("user" if number % 2 == 0 else "assistant", f"message {number} " + "word " * 40)
    ctx.get_tool_store().add_tool_call("github_get_file", {"path": "main.py"}, "text", "success", 12)
    store.create_summary(2, 5, "What was said first.")
    return ctx


def test_the_folders_are_those_of_the_listing(here: Path) -> None:
    listing = [re.sub(r"\s*#.*", "", line) for line in block("2.1-folders.txt").splitlines()]
    names = [line.lstrip("│├└─ ") for line in listing]
    assert names[:4] == ["contexts/", "tasks.db", "running/", "{uuid}/"]
    files = names[4 : names.index("completed/")]
    transient = files.pop()
    assert transient == "request.json"
    seen: list[bool] = []
    base = here / names[0]

    def look(_: ScriptedRequest) -> Reply:
        seen.append((folder / transient).is_file())
        return Reply("Done.")

    with ScriptedModel(look) as model:
        ctx = worked(config_of(model))
        folder = base / "running" / ctx.uuid
        client = OpenAIClient(config_of(model), message_store=ctx.get_message_store(), context_dir=ctx.context_dir)
        client.send_user_message("go on")
        client.get_response()
        client.close()
    assert seen == [True], "request.json is there while the call is in flight"
    assert not (folder / transient).exists()
    assert (base / names[1]).is_file()
    assert [name for name in files if not (folder / name).is_file()] == []
    ctx.complete()
    assert not folder.exists()
    assert [name for name in files if not (base / "completed" / ctx.uuid / name).is_file()] == []


def test_the_catalogue_has_every_column_and_finds_by_what_has_an_index(here: Path) -> None:
    """SPEC §3: "the union of the columns in 001 §2.2 and 002 §12"; indexes of ours go on with more columns."""
    ddl = block("2.2-tasks.sql")
    table = ddl[ddl.index("(") + 1 : ddl.index(");")]
    wanted = {line.split()[0]: line.split()[1].rstrip(",") for line in table.splitlines() if line.strip()}
    worked(config_of()).close()
    base = here / "contexts"
    columns = {row["name"]: row for row in in_database(base, "SELECT * FROM pragma_table_info('tasks')")}
    assert {name: columns[name]["type"] for name in wanted} == wanted
    for required in re.findall(r"^ +(\w+) TEXT NOT NULL", table, re.M):
        assert columns[required]["notnull"], required
    indexed = re.findall(r"CREATE INDEX (\w+) ON tasks\((\w+)\)", ddl)
    assert len(indexed) == 3
    for name, column in indexed:
        plan = in_database(base, f"EXPLAIN QUERY PLAN SELECT uuid FROM tasks WHERE {column} = 'x'")
        assert re.search(rf"USING .*INDEX \w+ \({column}=\?\)", plan[0]["detail"]), (name, plan)
    (row,) = in_database(base, "SELECT * FROM tasks")
    assert (row["task_source"], row["task_type"], row["status"]) == ("github", "issue", "running")


def test_the_counters_move_when_the_document_says(here: Path) -> None:
    base = here / "contexts"

    def row() -> dict[str, Any]:
        return in_database(base, "SELECT * FROM tasks")[0]

    with ScriptedModel([Reply("one", usage={"input": 100, "output": 10})]) as model:
        ctx = worked(config_of(model))
        started = row()
        assert (started["status"], started["llm_call_count"], started["compression_count"]) == ("running", 0, 0)
        client = OpenAIClient(task_ctx=ctx)
        client.send_user_message("go on")
        client.get_response()
        client.close()
    called = row()
    assert (called["llm_call_count"], called["total_tokens"]) == (1, 110)
    ctx.update_statistics(tool_calls=1)
    assert row()["tool_call_count"] == 1
    for number in range(30):
        ctx.get_message_store().add_message("user", f"message {number} " + "word " * 40)
    assert ctx.compressor.compress().changed
    assert row()["compression_count"] == 1
    ctx.set_llm_client(None)
    ctx.complete()
    ended = row()
    assert ended["status"] == "completed"
    assert utc(ended["completed_at"]) >= utc(ended["started_at"]) >= utc(ended["created_at"])
    failing = TaskContextManager(KEY, None, config_of())
    failing.fail("no such file")
    (failed,) = in_database(base, f"SELECT * FROM tasks WHERE uuid = '{failing.uuid}'")
    assert (failed["status"], failed["error_message"]) == ("failed", "no such file")


# ---- §3: the files -------------------------------------------------------------------------------------------------


def test_metadata_has_the_fields_of_the_example(here: Path) -> None:
    example = json.loads(block("3.1-metadata.json"))
    ctx = TaskContextManager(example["task_key"] | {"user": example["user"]}, example["uuid"], config_of())
    written = json.loads((here / "contexts" / "running" / example["uuid"] / "metadata.json").read_text())
    assert example.keys() <= written.keys()
    for name in ("uuid", "task_key", "user"):
        assert written[name] == example[name]
    assert written["config"].items() >= example["config"].items()
    assert (written["process_id"], written["hostname"]) == (os.getpid(), os.uname().nodename)
    utc(written["created_at"])
    utc(example["created_at"])
    ctx.close()


def test_messages_are_written_as_in_the_example(tmp_path: Path) -> None:
    """SPEC §9: "tool result without `tool_call_id` (all seeds): matched to the oldest open call of that tool; none
    open: error". So the third line asks for the tool here.
    """
    examples = listed("3.2-messages.jsonl")
    store = MessageStore(tmp_path / "task", config_of())
    for example in examples[:2]:
        assert store.add_message(example["role"], example["content"]) == example["seq"]
    with refused(ToolCallError, "none_open"):
        store.add_message("tool", "{...}", "github_get_file")
    call = {"id": "c", "type": "function", "function": {"name": "github_get_file", "arguments": "{}"}}
    assert store.add_message("assistant", examples[2]["content"], tool_calls=[call]) == 3
    assert store.add_message("tool", examples[3]["content"], examples[3]["tool_name"]) == 4
    written = lines(store.messages_file)
    for example, line in zip(examples, written, strict=True):
        assert example.keys() <= line.keys()
        same = example.keys() - {"timestamp", "tokens"}
        assert {name: line[name] for name in same} == {name: example[name] for name in same}
        utc(line["timestamp"])
        utc(example["timestamp"])
    assert store.add_message("user", "x" * 400) == 5
    assert lines(store.messages_file)[-1]["tokens"] == 400 // 4
    store.close()


def test_the_current_context_follows_the_log(here: Path) -> None:
    """SPEC §9: "`current.jsonl` with seq/tokens (001) or OpenAI-shaped (002): OpenAI-shaped"; "role of the summary
    entry: `system` with 000's prefix". §3.3: one line more for each message, new when there is a summary.
    """
    ctx = TaskContextManager(KEY, None, config_of())
    store = ctx.get_message_store()
    store.add_message("system", "You are an AI.")
    assert lines(store.get_current_context_file()) == [{"role": "system", "content": "You are an AI."}]
    for number in range(6):
        store.add_message("user", f"message {number}")
    assert [line["role"] for line in lines(store.get_current_context_file())] == ["system"] + ["user"] * 6
    assert store.recreate_current_context("What was said.", 4) == len(lines(store.get_current_context_file()))
    system, summary = lines(store.get_current_context_file())
    assert system["content"] == "You are an AI."
    assert summary == {"role": "system", "content": "[Previous conversation summary]\nWhat was said."}
    assert store.count_messages() == 7
    store.add_message("assistant", "and on")
    assert lines(store.get_current_context_file())[-1]["content"] == "and on"
    ctx.close()


def test_summaries_are_written_as_in_the_example(here: Path) -> None:
    """SPEC §3 names the time of a summary `created_at`, as 002 does; 001's `timestamp` is the same value."""
    (example,) = listed("3.4-summaries.jsonl")
    ctx = TaskContextManager(KEY, None, config_of())
    values = [example[name] for name in ("start_seq", "end_seq", "summary", "original_tokens", "summary_tokens")]
    assert ctx.get_summary_store().add_summary(*values) == example["id"]
    (line,) = lines(ctx.get_summary_store().summaries_file)
    utc(line.pop("created_at"))
    utc(example.pop("timestamp"))
    assert round(line["ratio"], 3) == example["ratio"]
    del line["ratio"], example["ratio"]
    assert line.items() >= example.items()
    latest = ctx.get_summary_store().get_latest_summary()
    assert latest is not None
    assert latest["summary"] == example["summary"]
    assert ctx.get_summary_store().count_summaries() == 1
    for wrong in ((1, 2), (1, 2, 3), ("text", 2, "text")):
        with pytest.raises(InvalidInput):
            ctx.get_summary_store().add_summary(*wrong)
    ctx.close()


def test_tool_calls_are_written_as_in_the_example(here: Path) -> None:
    """SPEC §3: `tool_name, arguments` (002) stand for 001's `tool, args`; both are taken."""
    (example,) = listed("3.5-tools.jsonl")
    ctx = TaskContextManager(KEY, None, config_of())
    tools = ctx.get_tool_store()
    values = [example[name] for name in ("tool", "args", "result", "status", "duration_ms")]
    assert tools.add_tool_call(*values) == example["seq"]
    assert tools.add_tool_call("t", {}, None, "error", 3, "no such file") == 2
    line, bad = lines(tools.tools_file)
    utc(line.pop("timestamp"))
    renamed = {"tool": "tool_name", "args": "arguments"}
    wanted = {renamed.get(name, name): value for name, value in example.items() if name != "timestamp"}
    assert line.items() >= wanted.items()
    assert line["error"] is None
    assert (bad["status"], bad["error"], bad["duration_ms"]) == ("error", "no such file", 3)
    assert tools.count_tool_calls() == 2
    ctx.close()


FUNCTION = {"name": "get_file", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}


def test_a_request_has_the_form_of_the_example(here: Path) -> None:
    """SPEC §9: "`functions`/`function_call` (001): modern `tools`/`tool_calls`; the old form accepted on input"."""
    example = json.loads(block("3.6-request.json").replace("[...]", "[]"))
    seen: list[dict[str, Any]] = []

    def look(request: ScriptedRequest) -> Reply:
        seen.append(json.loads((ctx.context_dir / "request.json").read_text(encoding="utf-8")))
        assert seen[-1] == request.body
        return Reply("ok")

    with ScriptedModel(look) as model:
        ctx = TaskContextManager(KEY, None, config_of(model))
        client = OpenAIClient(functions=[FUNCTION], task_ctx=ctx)
        client.send_system_prompt("...")
        client.send_user_message("...")
        client.get_response()
        client.close()
    (body,) = seen
    assert body["model"] == example["model"]
    assert body["messages"] == example["messages"]
    assert {"functions", "function_call"} <= example.keys()
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_file"]
    assert not (ctx.context_dir / "request.json").exists()
    ctx.close()


# ---- §4: the classes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", copies.block("001", "4-signatures.txt").splitlines())
def test_every_method_takes_the_arguments_of_the_document(line: str) -> None:
    found = re.fullmatch(r"(\w+)\.(\w+)(?:\((.*)\))?", line)
    assert found is not None
    owner, method, arguments = found.groups()
    function = getattr(getattr(orihon, owner), method)
    names = [name.partition("=")[0] for name in (arguments or "").split(", ") if name]
    inspect.signature(function).bind(*(["self"] if inspect.isfunction(function) else []), **dict.fromkeys(names))


def test_calls_take_their_arguments_in_the_order_of_the_document(here: Path) -> None:
    """Calls whose order is another one here: §4.1, §4.3, §4.4, §4.5."""
    uuid = "550e8400-e29b-41d4-a716-446655440000"
    config = config_of()
    ctx = TaskContextManager(KEY, uuid, config)
    assert (ctx.uuid, ctx.base_dir, ctx.config) == (uuid, here / "contexts", config)
    ctx.update_statistics(1, 2, 820, 3)
    row = ctx.catalogue.tasks.get(uuid)
    assert (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count) == (1, 2, 820, 3)
    ctx.update_status("running", None)
    compressor = ContextCompressor(ctx.get_message_store(), ctx.get_summary_store(), None, config)
    assert compressor.summary_store is ctx.get_summary_store()
    assert not compressor.should_compress()
    ctx.close()
    store = MessageStore(here / "alone", config)
    assert (SummaryStore(here / "alone").count_summaries(), ToolStore(here / "alone").count_tool_calls()) == (0, 0)
    assert (store.get_current_token_count(), store.count_messages()) == (0, 0)
    store.close()


# ---- §5, §6: the flows, run as they are written --------------------------------------------------------------------


def names_of(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "TaskQueue": TaskQueue,
        "TaskContextManager": TaskContextManager,
        "ContextCompressor": ContextCompressor,
        "config": config,
        "task_key": dict(KEY),
        "user": USER,
        "llm_client": None,
        "json": json,
        "time": time,
        "logger": logging.getLogger("a task of the document"),
    }


def test_a_task_lives_through_the_flows_of_the_document(here: Path) -> None:
    """§6.1 to §6.4, statement by statement, with a model behind HTTP."""
    start, call, tool, end = map(
        copies.statements,
        (block("6.1-start.flow"), block("6.2-call.flow"), block("6.3-tool.flow"), block("6.4-end.flow")),
    )
    assert (len(start), len(call), len(tool), len(end)) == (11, 7, 6, 2)
    asked = {"input": 700, "output": 20}
    answers = [Reply(calls=[("get_file", {"path": "main.py"})], usage=asked), Reply("Fixed the bug in main.py.")]
    with ScriptedModel(answers) as model:
        config = config_of(model)
        flow = copies.run(start, names_of(config))
        uuid, context_manager, store = flow["uuid"], flow["context_manager"], flow["message_store"]
        assert UUID(uuid).version == 4
        base = here / "contexts"
        assert (base / "running" / uuid / "metadata.json").is_file()
        assert in_database(base, f"SELECT status, user FROM tasks WHERE uuid = '{uuid}'") == [
            {"status": "running", "user": USER}
        ]
        # §6.1 4.e: llm_client初期化（message_store, context_dirを渡す）
        client = OpenAIClient(config, [FUNCTION], message_store=store, context_dir=context_manager.context_dir)
        flow |= {"llm_client": client, "system_prompt": "You are an AI.", "user_prompt": "Fix the bug."}
        compressor = ContextCompressor(store, flow["summary_store"], client, config)
        flow["compressor"] = compressor
        # Steps 3.a to 3.f are what get_response() does by itself: the request, the answer in the log, request.json.
        copies.run([*call[:3], call[3]], flow)
        assert call[4].startswith('message_store.add_message("assistant"')
        assert [line["role"] for line in lines(flow["current_file"])] == ["system", "user", "assistant"]
        assert [line["role"] for line in lines(store.messages_file)] == ["system", "user", "assistant"]
        assert not (context_manager.context_dir / "request.json").exists()
        copies.run(call[5:], flow | {"used_tokens": client.last_usage.total})
        mcp = SimpleNamespace(call_tool=lambda name, args: {"tool": name, **args})
        copies.run(tool, flow | {"mcp_client": mcp, "tool_name": "get_file", "args": {"path": "main.py"}})
        assert lines(store.messages_file)[-1]["content"] == '{"tool":"get_file","path":"main.py"}'
        (recorded,) = lines(flow["tool_store"].tools_file)
        assert (recorded["status"], recorded["arguments"]) == ("success", {"path": "main.py"})
        assert recorded["duration_ms"] >= 0
        assert client.get_response()[0] == "Fixed the bug in main.py."
        row = context_manager.catalogue.tasks.get(uuid)
        assert (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count) == (1, 1, 720, 0)
        copies.run(end[:1], flow)
        client.close()
    assert not (base / "running" / uuid).exists()
    assert (base / "completed" / uuid / "messages.jsonl").is_file()
    (row,) = in_database(base, f"SELECT * FROM tasks WHERE uuid = '{uuid}'")
    assert row["status"] == "completed"
    utc(row["completed_at"])


def test_a_full_context_is_compressed_where_the_flow_says(here: Path) -> None:
    """§6.2 step 4, §7.1: above `context_length * compression_threshold`, and not before."""
    check = copies.statements(block("6.2-call.flow"))[-1]
    with ScriptedModel(
        lambda _: Reply("Goal: count the words. Decided: 'word 3' is the third. Open: message 30.")
    ) as model:
        config = config_of(model, context_length=10_000)
        ctx = TaskContextManager(KEY, None, config)
        store = ctx.get_message_store()
        client = OpenAIClient(config, message_store=store, context_dir=ctx.context_dir)
        compressor = ContextCompressor(store, ctx.get_summary_store(), client, config)
        flow = {"compressor": compressor, "context_manager": ctx}
        store.add_message("system", "You are an AI.")
        number = 0
        while store.get_current_token_count() <= 10_000 * 0.7:
            copies.run([check], flow)
            assert ctx.catalogue.tasks.get(ctx.uuid).compression_count == 0
            number += 1
            store.add_message("user" if number % 2 else "assistant", f"message {number}: " + f"word {number} " * 90)
        copies.run([check], flow)
        assert store.get_current_token_count() < 10_000 * 0.7
        assert ctx.catalogue.tasks.get(ctx.uuid).compression_count == 1
        assert ctx.get_summary_store().count_summaries() == 1
        assert len(model.requests) == 1
        client.close()
    ctx.close()


def test_a_task_is_started_and_ended_as_the_handler_does(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    """§5.1: the start, the work in its order, the two ends, and §6.4."""
    start, ends = copies.statements(block("5.1-start.flow")), copies.statements(block("5.1-end.flow"))
    assert copies.statements(block("6.4-end.flow")) == ends
    work = re.findall(r"(\w+)\.(\w+)\(\)", block("5.1-work.flow"))
    for way, status in zip(ends, ("completed", "failed"), strict=True):
        queue = TaskQueue()
        names = names_of(config_of()) | {"uuid": queue.enqueue(KEY, USER)}
        task = queue.dequeue()
        assert task is not None
        names["task_key"] = task.get_task_key()
        with caplog.at_level(logging.INFO):
            copies.run(start, names)
        assert f"Task started: {names['uuid']}" in caplog.text
        ctx = names["context_manager"]
        parts: dict[str, Any] = {
            "message_store": ctx.get_message_store(),
            "context_manager": ctx,
            "compressor": ContextCompressor(ctx.get_message_store(), ctx.get_summary_store(), None, names["config"]),
            "tool_store": ctx.get_tool_store(),
        }
        given: dict[str, tuple[Any, ...]] = {
            "add_message": ("user", "hello"),
            "update_statistics": (1,),
            "add_tool_call": ("grep", {}, "found", "success", 1.5),
        }
        for owner, method in work:
            getattr(parts[owner], method)(*given.get(method, ()))
        copies.run([way], names | {"error_message": "no such file"})
        row = ctx.catalogue.tasks.get(ctx.uuid)
        assert row.status == status
        assert row.llm_call_count == 2, "the work of the document counts a call of the model, and one of a tool, so"
        assert (here / "contexts" / "completed" / ctx.uuid).is_dir()
        queue.close()


def test_a_handler_works_on_a_task_of_the_queue(here: Path) -> None:
    """§5.1 `handle(task)`, §6.1 step 3."""
    with ScriptedModel([Reply('{"done": true, "comment": "Fixed."}')] * 3) as model:
        config = config_of(model)
        queue = TaskQueue(settings=config)
        uuid = queue.enqueue(KEY, USER, prompt="Fix the bug.")
        task = queue.dequeue()
        assert task is not None
        assert task.get_uuid() == uuid
        handler = TaskHandler(config)
        handler.handle(task)
        handler.close()
        queue.ack(task)
        queue.close()
    (row,) = in_database(here / "contexts", "SELECT uuid, status FROM tasks")
    assert row == {"uuid": uuid, "status": "completed"}


@pytest.mark.parametrize("kind", [OpenAIClient, OllamaClient, LMStudioClient])
def test_clients_send_what_the_document_builds_by_hand(kind: type[LLMClient], here: Path) -> None:
    """§5.2 (§5.3, §5.4): no list in memory; the same request, to the same address, with the same headers.

    SPEC §9: "`functions`/`function_call` (001): modern `tools`/`tool_calls`"; "`base_url` with or without `/v1`: added
    only when the path is empty".
    """
    by_hand = copies.statements(block("5.2-response.flow"))
    with ScriptedModel(lambda _: Reply("The answer.")) as model:
        config = config_of(model)
        config["llm"]["provider"] = kind.provider
        config["llm"][kind.provider] = {**config["llm"]["openai"], "model": "gpt-4o"}
        ctx = TaskContextManager(KEY, None, config)
        store = ctx.get_message_store()
        client = kind(config, message_store=store, context_dir=ctx.context_dir)
        client.send_system_prompt("You are an AI.")
        client.send_user_message("Fix the bug.")
        itself = SimpleNamespace(model="gpt-4o", functions=[], context_dir=ctx.context_dir)
        names: dict[str, Any] = {"self": itself, "json": json, "message_store": store}
        copies.run(by_hand[:6], names)  # up to request.json; the post itself is the client's
        wanted = json.loads(names["request_path"].read_text())
        names["request_path"].unlink()
        assert client.get_response() == ("The answer.", [])
        (request,) = model.requests
        assert client.messages == []
        client.close()
    assert request.body["model"] == wanted["model"]
    assert request.body["messages"] == wanted["messages"]
    if kind is OpenAIClient:
        assert 'f"{self.base_url}/v1/chat/completions"' in by_hand[7]
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer test"
        assert request.headers["content-type"] == "application/json"
    assert by_hand[9] == 'message_store.add_message("assistant", response_content)'
    assert lines(store.messages_file)[-1].items() >= {"role": "assistant", "content": "The answer."}.items()
    assert not names["request_path"].exists()
    ctx.close()


# ---- §7: compression -----------------------------------------------------------------------------------------------


def test_a_summary_is_made_file_by_file(here: Path) -> None:
    """§7.2, step by step: prompt, messages, joined, asked for, the context made anew, the files removed."""
    prompt_name, prompt = block("7.2-prompt.flow").split(":\n", 1)
    prompt = prompt.replace("...\n", "")
    with ScriptedModel([Reply("The user asked for message 3.")]) as model:
        config = config_of(model)
        ctx = TaskContextManager(KEY, None, config)
        store = ctx.get_message_store()
        for number in range(6):
            store.add_message("user" if number % 2 == 0 else "assistant", f"message {number}")
        client = OpenAIClient(config, message_store=store, context_dir=ctx.context_dir)
        compressor = ContextCompressor(store, ctx.get_summary_store(), client, config)
        prompt_file, request_file = here / prompt_name, here / "summary_request.txt"
        prompt_file.write_text(prompt, encoding="utf-8")
        compressor.create_summary_request_file(prompt_file, store.get_current_context_file(), request_file)
        form = re.findall(r'"(.+)\\n"', block("7.2-messages.flow"))[0]
        assert form == "[{role}]: {content}"
        formatted = "".join(
            form.format(role=line["role"].upper(), content=line["content"]) + "\n"
            for line in lines(store.get_current_context_file())
        )
        joined = SimpleNamespace(txt=None)
        names = {
            "summary_request": joined,
            "summary_prompt": SimpleNamespace(txt=prompt + "\n"),
            "formatted_current_messages": formatted,
        }
        copies.run(copies.statements(block("7.2-joined.flow")), names)
        assert request_file.read_text(encoding="utf-8") == joined.txt
        joined.txt = request_file
        flow = copies.run(
            [*copies.statements(block("7.2-summary.flow")), *copies.statements(block("7.2-context.flow"))],
            {"llm_client": client, "summary_request": joined, "message_store": store, "summary_tokens": 8},
        )
        assert flow["summary"] == "The user asked for message 3."
        (request,) = model.requests
        assert request.body["messages"] == [{"role": "user", "content": request_file.read_text(encoding="utf-8")}]
        client.close()
    (only,) = lines(store.get_current_context_file())
    assert only["content"] == "[Previous conversation summary]\nThe user asked for message 3."
    assert set(re.findall(r"\w+\.txt", block("7.2-removed.flow"))) == {prompt_file.name, request_file.name}
    with pytest.raises(StorageUnavailable):
        client.get_summary(here / "missing.txt")
    ctx.close()


def test_the_prompt_of_the_configuration_is_sent(here: Path) -> None:
    """§7.3: with the messages where it says `{messages}`."""
    wanted = yaml.safe_load(block("7.3-prompt.yaml"))["context_storage"]["summary_prompt"]
    assert yaml.safe_load(block("9.1-config.yaml"))["context_storage"]["summary_prompt"] == wanted
    before, after = wanted.split("{messages}")
    said = "決定: message 3 を使う。残存タスク: message 9。"
    with ScriptedModel([Reply(said)]) as model:
        config = config_of(model)
        ctx = worked(config)
        client = OpenAIClient(config, message_store=ctx.get_message_store(), context_dir=ctx.context_dir)
        for number in range(9, 30):
            ctx.get_message_store().add_message("user", f"message {number} について " + "説明 " * 60)
        result = ContextCompressor(ctx.get_message_store(), ctx.get_summary_store(), client, config).compress()
        (request,) = model.requests
        client.close()
    asked = request.body["messages"][-1]["content"]
    assert asked.startswith(before)
    assert asked.endswith(after)
    assert "USER]: message 9 について" in asked
    assert result.changed
    assert result.tokens_saved == result.original_tokens - result.compressed_tokens > 0
    ctx.close()


# ---- §8, §10: the catalogue in use -----------------------------------------------------------------------------------


@pytest.fixture
def some_tasks(here: Path) -> dict[str, str]:
    """One task of each status, by status."""
    config = config_of()
    found = {}
    for status, user in (("completed", "alice"), ("failed", "bob"), ("running", "alice")):
        ctx = TaskContextManager(KEY | {"user": user}, None, config)
        ctx.get_message_store().add_message("user", "hello")
        ctx.update_statistics(llm_calls=1, tokens=600)
        found[status] = ctx.uuid
        if status == "completed":
            ctx.complete()
        elif status == "failed":
            ctx.fail("no such file")
        else:
            ctx.close()
    return found


@pytest.fixture
def ask(here: Path, some_tasks: dict[str, str]) -> Callable[[str], list[dict[str, Any]]]:
    assert some_tasks
    return lambda name: in_database(here / "contexts", block(name))


def test_the_queries_of_the_document_answer(
    here: Path, ask: Callable[[str], list[dict[str, Any]]], some_tasks: dict[str, str]
) -> None:
    (running,) = ask("8.2-running.sql")
    assert running["uuid"] == some_tasks["running"]
    assert [running[name] for name in KEY] == list(KEY.values())
    utc(running["started_at"])
    users = {(row["user"], row["status"]): row["count"] for row in ask("8.2-users.sql")}
    assert users == {("alice", "completed"): 1, ("bob", "failed"): 1, ("alice", "running"): 1}
    (failed,) = ask("8.2-failed.sql")
    assert (failed["uuid"], failed["error_message"]) == (some_tasks["failed"], "no such file")
    assert {row["status"]: row["COUNT(*)"] for row in ask("10.2-status.sql")} == dict.fromkeys(some_tasks, 1)
    (time_taken,) = ask("10.2-minutes.sql")
    assert 0 <= time_taken["avg_minutes"] < 60
    assert ask("10.2-tokens.sql") == [{"total": 600, "average": 600.0}]
    base = Base(here / "contexts")
    for name in ("8.2-running", "8.2-users", "8.2-failed", "10.2-status", "10.2-minutes", "10.2-tokens"):
        assert base.sql(block(f"{name}.sql")) == ask(f"{name}.sql"), "the same in the program itself"
    base.close()


def test_what_is_missing_is_made(here: Path) -> None:
    """§8.1, §11.3: no tasks.db, no table: made when the program starts."""
    base = here / "contexts"
    TaskQueue(settings=config_of()).close()
    assert in_database(base, "SELECT count(*) AS tasks FROM tasks") == [{"tasks": 0}]
    assert len(in_database(base, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks'")) > 3


def test_old_tasks_are_cleaned_up_after_the_days_of_the_configuration(here: Path, some_tasks: dict[str, str]) -> None:
    """SPEC §9: "cleanup of completed only (001): every finished state, `keep` marks excepted". The row stays, marked.

    The document's own condition says which are due.
    """
    days = yaml.safe_load(block("8.3-cleanup.yaml"))["context_storage"]["cleanup_days"]
    assert load_settings(yaml.safe_load(block("8.3-cleanup.yaml"))).retention.days == days == 30
    due = block("8.3-cleanup.sql").replace("{cleanup_days}", str(days)).replace("DELETE", "SELECT uuid", 1)
    base = here / "contexts"
    assert in_database(base, due) == []
    maintain(base, load_settings(config_of()))
    assert (base / "completed" / some_tasks["completed"]).is_dir()
    old = (datetime.now(UTC) - timedelta(days=days + 1)).isoformat()
    with raw_database(base / "tasks.db") as database:
        database.execute("UPDATE tasks SET completed_at = ? WHERE completed_at IS NOT NULL", (old,))
    assert in_database(base, due) == [{"uuid": some_tasks["completed"]}]
    maintain(base, load_settings(config_of()))
    assert [path.name for path in (base / "completed").iterdir()] == []
    assert (base / "running" / some_tasks["running"]).is_dir()
    assert in_database(base, due) == [], "as after the document's own query"
    rows = in_database(base, "SELECT uuid, metadata FROM tasks WHERE status <> 'running'")
    assert {row["uuid"] for row in rows if "cleaned" in json.loads(row["metadata"])} == {
        some_tasks["completed"],
        some_tasks["failed"],
    }


# ---- §9: settings ----------------------------------------------------------------------------------------------------


def test_the_configuration_of_the_document_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    written = yaml.safe_load(block("9.1-config.yaml"))
    file = tmp_path / "config.yaml"
    file.write_text(block("9.1-config.yaml"), encoding="utf-8")
    for settings in (load_settings(written), load_settings(file)):
        storage, compression, llm = settings.context_storage, settings.compression, settings.llm
        assert (storage.enabled, str(storage.base_dir), settings.retention.days) == (True, "contexts", 30)
        assert (compression.threshold, compression.summary_prompt) == (
            0.7,
            written["context_storage"]["summary_prompt"],
        )
        assert (llm.provider, llm.openai.model, llm.openai.context_length) == ("openai", "gpt-4o", 128000)
        assert (llm.openai.api_key, llm.openai.base_url) == ("sk-of-the-environment", "https://api.openai.com/")
        assert (llm.ollama.model, llm.ollama.context_length) == ("qwen3-30b", 32768)


def test_the_variables_of_the_document_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = dict(line.split("=") for line in block("9.2-environment.sh").splitlines() if not line.startswith("#"))
    for name, value in pairs.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.context_storage.enabled is True
    assert (settings.compression.threshold, settings.retention.days) == (0.7, 30)
    others = {"CONTEXT_STORAGE_ENABLED": "false", "COMPRESSION_THRESHOLD": "0.5", "CLEANUP_DAYS": "3"}
    assert others.keys() == pairs.keys()
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.context_storage.enabled is False
    assert (settings.compression.threshold, settings.retention.days) == (0.5, 3)


def test_storage_that_is_off_keeps_nothing(here: Path) -> None:
    """§9.1 `enabled: true  # コンテキストファイル化を有効化`."""
    config = config_of()
    config["context_storage"]["enabled"] = False
    with refused(InvalidSettings, "storage_off"):
        TaskContextManager(KEY, None, config)
    with ScriptedModel([Reply("hello")]) as model:
        config["llm"]["openai"]["base_url"] = model.base_url
        client = OpenAIClient(config, context_dir=here / "task")
        client.send_user_message("hello")
        client.get_response()
        assert [message["role"] for message in client.messages] == ["user", "assistant"]
        client.close()
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("place", ["configuration", "ORIHON_LANGUAGE", "ORIHON_LANG"])
def test_the_language_of_the_configuration_is_spoken(here: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is Japanese; so are the words of its tasks where the configuration says so."""
    monkeypatch.delenv("ORIHON_LANG")
    if place != "configuration":
        monkeypatch.setenv(place, "ja")
    config = config_of() | ({"language": "ja"} if place == "configuration" else {})
    TaskContextManager(KEY, None, config).fail("no such file")
    ctx = TaskContextManager(KEY, None, config)
    comment = ctx.get_inheritance_notification_comment()
    assert comment is not None
    assert re.search(r"[぀-ヿ]", comment)
    with pytest.raises(InvalidInput, match=r"[぀-ヿ]"):
        ctx.update_status("unheard of")
    ctx.close()


# ---- §10: looking ----------------------------------------------------------------------------------------------------

#: For machines without these programs.
_STAND_INS = {
    "sqlite3": "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):\n"
    "    print(*row, sep='|')",
    "jq": "import json, sys\nfor line in sys.stdin:\n    value = json.loads(line)\n"
    "    print(json.dumps(value.get('tokens') if sys.argv[1:] == ['.tokens'] else value))",
}


@pytest.fixture
def shell(here: Path) -> Callable[[str], str]:
    """Runs commands where the program was started."""
    programs = here / ".bin"
    programs.mkdir()
    for name, program in _STAND_INS.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)} "$@"\n')
        script.chmod(0o700)

    def run(commands: str) -> str:
        path = f"{os.environ['PATH']}:{programs}"
        done = subprocess.run(
            ["sh", "-ec", commands], cwd=here, env={"PATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_people_read_the_files_with_the_commands_of_the_document(here: Path, shell: Callable[[str], str]) -> None:
    """SPEC §9: "`current.jsonl` … OpenAI-shaped; seq and tokens live in the log and the view's index": the tokens of
    the view are summed over the log here, before anything is folded.
    """
    ctx = TaskContextManager(KEY, None, config_of())
    for number in range(5):
        ctx.get_message_store().add_message("user", f"message {number} " + "x" * 100)
    assert f"{ctx.uuid}|github|" in shell(block("10.1-task.sh").replace("...", ctx.uuid))
    ctx.get_summary_store().add_summary(1, 2, "short", 60, 2)
    commands = [line for line in block("10.1-files.sh").splitlines() if line.startswith("cat ")]
    shown = [shell(command.replace("{uuid}", ctx.uuid)) for command in commands[:3]]
    for text, store in zip(shown, ("messages", "current", "summaries"), strict=True):
        decoder, values, rest = json.JSONDecoder(), [], text.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            values.append(value)
            rest = rest[end:].strip()
        assert values == lines(ctx.context_dir / f"{store}.jsonl")
    total = commands[3].replace("{uuid}", ctx.uuid).replace("current.jsonl", "messages.jsonl")
    assert int(shell(total)) == sum(line["tokens"] for line in lines(ctx.get_message_store().messages_file))
    assert abs(int(shell(total)) - ctx.get_message_store().get_current_token_count()) <= 5 * 4
    ctx.close()


# ---- §11: errors -----------------------------------------------------------------------------------------------------


def test_an_error_fails_the_task_and_goes_up(here: Path) -> None:
    (attempt,) = copies.statements(block("11.1-error.flow"))
    attempt = attempt.replace("# タスク処理...", "work(context_manager)")

    def work(ctx: TaskContextManager) -> None:
        ctx.get_message_store().add_message("user", "hello")
        raise RuntimeError("no such file")

    queue = TaskQueue()
    uuid = queue.enqueue(KEY, USER)
    names = names_of(config_of()) | {"task": queue.dequeue(), "work": work}
    with pytest.raises(RuntimeError, match="no such file"):
        copies.run([attempt], names)
    (row,) = in_database(here / "contexts", "SELECT * FROM tasks")
    assert (row["uuid"], row["status"], row["error_message"]) == (uuid, "failed", "no such file")
    assert (here / "contexts" / "completed" / uuid).is_dir()
    queue.close()


@pytest.mark.parametrize(("end", "attempts"), [("fail", 0), ("complete", 1)])
def test_nobody_waits_for_a_dead_model_at_the_end(here: Path, end: str, attempts: int) -> None:
    """§11.1's `fail` comes most often because the model is gone."""
    with ScriptedModel(lambda _: Fault(503)) as model:
        config = config_of(model)
        config["llm"] |= {"retries": 5, "retry_delay": 60}
        ctx = TaskContextManager(KEY, None, config)
        client = OpenAIClient(task_ctx=ctx)
        ctx.set_llm_client(client)
        for number in range(12):
            ctx.get_message_store().add_message("user", f"message {number}: " + "please look at main.py " * 20)
        ctx.fail("the model is gone") if end == "fail" else ctx.complete()
        assert len(model.requests) == attempts
        client.close()
    assert "main.py" in (ctx.context_dir / "final_summary.txt").read_text(encoding="utf-8")


def test_a_model_that_is_known_to_be_gone_is_not_asked_at_the_end(here: Path) -> None:
    """§6.4: its last call came to nothing; the summary is made by rule, at once."""
    with ScriptedModel([Reply("hello"), Fault(503)]) as model:
        ctx = TaskContextManager(KEY, None, config_of(model))
        client = OpenAIClient(task_ctx=ctx)
        ctx.set_llm_client(client)
        client.send_user_message("please look at main.py " * 20)
        client.get_response()
        known = [client.is_silent]
        with pytest.raises(orihon.OrihonError):
            client.get_response()
        known.append(client.is_silent)
        assert known == [False, True]
        ctx.complete()
        assert len(model.requests) == 2
        client.close()
    assert "main.py" in (ctx.context_dir / "final_summary.txt").read_text(encoding="utf-8")


def test_a_model_that_hangs_holds_no_task_that_is_complete(here: Path) -> None:
    """§6.4: the server takes the request and never says a word; the bound is `compression.final_summary_timeout`."""
    answered = threading.Event()

    def hang(_: object) -> Reply:
        answered.wait()
        return Reply("too late")

    with ScriptedModel(hang) as model:
        config = config_of(model) | {"compression": {"final_summary_timeout": 0.2, "summary_timeout": 3600}}
        ctx = TaskContextManager(KEY, None, config)
        assert load_settings(config_of(model)).compression.final_summary_timeout == 15
        client = OpenAIClient(task_ctx=ctx)
        ctx.set_llm_client(client)
        for number in range(12):
            ctx.get_message_store().add_message("user", f"message {number}: " + "please look at main.py " * 20)
        ctx.complete()  # of a model that is waited for this never comes back
        assert len(model.requests) == 1
        answered.set()
        client.close()
    assert "main.py" in (ctx.context_dir / "final_summary.txt").read_text(encoding="utf-8")


def test_a_compression_asks_a_dead_model_as_often_as_its_own_setting_says(here: Path) -> None:
    """One layer of attempts: `llm.retries` is for the conversation, `compression.summary_retries` for summaries."""
    with ScriptedModel(lambda _: Fault(503)) as model:
        config = config_of(model)
        config["llm"] |= {"retries": 5, "retry_delay": 0.01}
        ctx = TaskContextManager(KEY, None, config)
        client = OpenAIClient(task_ctx=ctx)
        ctx.set_llm_client(client)
        for number in range(40):
            ctx.get_message_store().add_message("user", f"message {number}: " + "please look at main.py " * 20)
        assert ctx.compressor.compress().changed
        assert len(model.requests) == 1 + ctx.settings.compression.summary_retries
        client.close()
    ctx.close()


def test_a_queue_takes_its_configuration_first(here: Path) -> None:
    """§4.6 writes `TaskQueue()`, 000 §6.4.1 `RabbitMQTaskQueue(config)`: who has a configuration hands it over so."""
    queue = TaskQueue(config_of() | {"context_storage": {"base_dir": str(here / "elsewhere")}})
    uuid = queue.enqueue(KEY, "notfolder")
    queue.close()
    assert in_database(here / "elsewhere", "SELECT uuid FROM tasks")[0]["uuid"] == uuid


def test_files_that_cannot_be_written_or_read(here: Path) -> None:
    """§11.2. SPEC §9: "read failure → default (001 §11.2): a missing file is empty; a damaged one raises"."""
    (here / "contexts").write_text("in the way")
    with pytest.raises(StorageUnavailable):
        TaskContextManager(KEY, None, config_of())
    (here / "contexts").unlink()
    assert SummaryStore(here / "contexts" / "running" / "none").get_latest_summary() is None
    assert ToolStore(here / "contexts" / "running" / "none").count_tool_calls() == 0
