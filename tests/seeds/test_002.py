"""Document 002, the detailed class design: pause, plans, inheritance, formats, schema, settings, as written.

Where SPEC §9 decides otherwise than the document, the test quotes the decision.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import subprocess
import sys
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import orihon
from orihon import (
    ContextCompressor,
    ContextInheritanceManager,
    MessageStore,
    OpenAIClient,
    PlanningHistoryStore,
    SummaryStore,
    TaskContextManager,
    TaskKey,
    ToolStore,
)
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest
from orihon.settings import load_settings
from orihon.tasks.inheritance import InheritanceContext, PreviousContext
from orihon.texts import set_language
from tests.seeds import copies
from tests.seeds.test_001 import in_database, lines, utc

block = partial(copies.block, "002")

KEY = TaskKey("", "owner", "repo", "github_issue", "123", "username")


def config_of(model: ScriptedModel | None = None, **changed: Any) -> dict[str, Any]:
    """§13.1's configuration, and a model where one is needed."""
    config: dict[str, Any] = yaml.safe_load(block("13.1-config.yaml"))
    del config["context"]["base_dir"]  # told by each test
    address = "http://127.0.0.1:9" if model is None else model.base_url
    config["llm"] = {"retries": 0, "openai": {"api_key": "test", "base_url": address, **changed}}
    return config


def chart(name: str) -> list[tuple[str, str]]:
    """The edges of a flow chart or a sequence diagram, as pairs of what its boxes say."""
    text = block(name)
    boxes = dict(re.findall(r"\b([A-Z])[\[{]+([^\n]+?)[\]}]+(?:\s|$)", text))
    edges = re.findall(r"\b([A-Z])(?:[\[{][^\n]*?[\]}]+)? -->(?:\|(?:Yes|No)\|)? ([A-Z])\b", text)
    return [(boxes[a].replace("<br/>", " "), boxes[b].replace("<br/>", " ")) for a, b in edges]


def filled(ctx: TaskContextManager, messages: int, *, words: int = 40) -> MessageStore:
    store = ctx.get_message_store()
    for number in range(store.count_messages() + 1, store.count_messages() + messages + 1):
        store.add_message("user" if number % 2 else "assistant", f"message {number}: " + f"word{number} " * words)
    return store


# ---- §1, §2 ----------------------------------------------------------------------------------------------------------


def test_the_folders_are_those_of_the_listing(base: Path) -> None:
    names = [re.sub(r"\s*#.*", "", line).lstrip("│├└─ ") for line in block("1.3-folders.txt").splitlines()]
    running, completed, paused = (names.index(f"{name}/") for name in ("running", "completed", "paused"))
    while_running = names[running + 2 : completed]
    at_the_end = names[completed + 2 : paused]
    assert (len(while_running), len(at_the_end), names[-1]) == (6, 6, "tasks.db")
    ctx = TaskContextManager(base, KEY, config_of())
    filled(ctx, 6).create_summary(1, 3, "The beginning.")
    ctx.get_tool_store().add_tool_call("function_name", {"arg1": "value1"}, "found")
    ctx.get_planning_store().add_plan("initial", "Read, then write.")

    def missing(folder: str, wanted: list[str]) -> list[str]:
        return [name for name in wanted if not (base / folder / ctx.uuid / name).is_file()]

    assert missing("running", while_running) == []
    ctx.stop()
    assert missing("paused", while_running) == []
    assert not (base / "running" / ctx.uuid).exists()
    ctx = TaskContextManager.resume(base, ctx.uuid, config_of())
    ctx.complete()
    assert missing("completed", at_the_end) == []
    assert not (base / "paused" / ctx.uuid).exists()
    assert (base / "tasks.db").is_file()


def test_the_classes_have_what_the_diagram_shows(base: Path) -> None:
    """Minus marks what is inner. SPEC §9: "`compress()` always returns a `CompressionResult`"."""
    diagram = block("2.1-classes.mermaid")
    values: dict[str, type] = {"PreviousContext": PreviousContext, "InheritanceContext": InheritanceContext}
    seen = 0
    ctx = TaskContextManager(base, KEY, config_of())
    for name, body in re.findall(r"class (\w+) \{\n(.*?)\n +\}", diagram, re.S):
        kind = values.get(name) or getattr(orihon, name)
        for line in re.findall(r"\+(.+)", body):
            seen += 1
            if method := re.match(r"(\w+)\((.*)\)", line):
                arguments = [word.strip() for word in method[2].split(",") if word.strip()]
                inspect.signature(getattr(kind, method[1])).bind("self", **dict.fromkeys(arguments))
            else:
                of, attribute = line.split()
                held = ctx if kind is TaskContextManager else None
                assert attribute in getattr(kind, "__dataclass_fields__", {}) or type(
                    getattr(held, attribute)
                ) is getattr(orihon, of)
    assert seen == 37
    for source, target in re.findall(r"(\w+) --> (\w+)", diagram):
        assert source in diagram
        assert values.get(target) or getattr(orihon, target)
    ctx.close()


# ---- §3 to §8: the methods -------------------------------------------------------------------------------------------


def test_every_method_takes_the_arguments_of_the_document() -> None:
    """Methods that begin with an underscore are 内部メソッド: how a class does its work is its own affair."""
    written = re.findall(r"^(\w+)\.(__init__|[a-z]\w*)\((.*)\)$", block("3-signatures.txt"), re.M)
    assert len(written) == 39
    for owner, method, arguments in written:
        names = [name.partition("=")[0] for name in arguments.split(", ") if name]
        inspect.signature(getattr(getattr(orihon, owner), method)).bind("self", **dict.fromkeys(names))


def test_a_task_is_made_with_what_the_document_hands_over(base: Path) -> None:
    """§3.1 to §3.6."""
    config = config_of()
    ctx = TaskContextManager(base, KEY, config, None)
    assert (ctx.base_dir, ctx.task_key, ctx.config, ctx.context_dir) == (
        base,
        KEY,
        config,
        base / "running" / ctx.uuid,
    )
    kinds = {"message": MessageStore, "summary": SummaryStore, "tool": ToolStore, "planning": PlanningHistoryStore}
    for name, kind in kinds.items():
        store = getattr(ctx, f"get_{name}_store")()
        assert type(store) is kind
        assert store is getattr(ctx, f"{name}_store")
        assert store.context_dir == ctx.context_dir
    assert ctx.get_message_store().messages_file == ctx.context_dir / "messages.jsonl"
    assert ctx.get_message_store().current_file == ctx.context_dir / "current.jsonl"
    assert ctx.get_summary_store().summaries_file == ctx.context_dir / "summaries.jsonl"
    assert ctx.get_tool_store().tools_file == ctx.context_dir / "tools.jsonl"
    client = object()
    ctx.set_llm_client(client)
    assert ctx.llm_client is client
    ctx.set_llm_client(None)
    uuid = ctx.uuid
    ctx.stop()
    with_uuid = TaskKey(KEY.task_source, KEY.owner, KEY.repo, KEY.task_type, KEY.task_id, KEY.user, uuid=uuid)
    again = TaskContextManager(base, with_uuid, config, is_resumed=True)
    assert (again.uuid, again.catalogue.tasks.get(uuid).status) == (uuid, "running")
    again.close()


def test_states_and_figures_are_written_to_the_catalogue(base: Path) -> None:
    """§3.11, §3.12, §3.18. SPEC §9: "`update_statistics` increments (001) or totals (002): counters kept current by
    increments; totals written at the end"; SPEC §2: nobody acknowledges what is not in the log.
    """
    ctx = TaskContextManager(base, KEY, config_of())
    filled(ctx, 4)
    totals = dict.fromkeys(("total_summaries", "total_tool_calls", "final_token_count", "final_message_count"), 0)
    ctx.update_statistics(total_messages=4, **totals)
    before = ctx.catalogue.tasks.get(ctx.uuid)
    assert (before.total_messages, before.final_message_count) == (4, 0)
    ctx.get_tool_store().add_tool_call("function_name", {}, error="no such file")
    ctx.update_status("failed", "no such file")
    (row,) = in_database(base, "SELECT * FROM tasks")
    assert (row["status"], row["error_message"]) == ("failed", "no such file")
    assert (row["total_messages"], row["total_summaries"], row["total_tool_calls"]) == (4, 0, 1)
    assert row["final_message_count"] == 4
    assert row["final_token_count"] > 0
    assert utc(row["updated_at"]) >= utc(before.updated_at)


@pytest.mark.parametrize("is_counted", [False, True])
def test_both_figures_of_tool_calls_agree_at_the_end(base: Path, is_counted: bool) -> None:
    """§3.18, 001 §6.3: whether a program counts the calls that it records, or leaves that to the end."""
    ctx = TaskContextManager(base, KEY, config_of())
    for _ in range(3):
        ctx.get_tool_store().add_tool_call("function_name", {}, "found")
        if is_counted:
            ctx.update_statistics(tool_calls=1)
    ctx.complete()
    (row,) = in_database(base, "SELECT tool_call_count, total_tool_calls FROM tasks")
    assert row == {"tool_call_count": 3, "total_tool_calls": 3}


def test_hooks_run_in_their_order_and_none_keeps_the_task_from_ending(
    base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """§3.13 to §3.16; a hook is called without arguments, before the folder moves."""
    ran: list[str] = []
    ctx = TaskContextManager(base, KEY, config_of())
    filled(ctx, 2)

    def failing() -> None:
        raise RuntimeError("a hook that fails")

    ctx.register_stop_hook("first", lambda: ran.append(ctx.context_dir.parent.name))
    ctx.register_completion_hook("never", lambda: ran.append("completed too early"))
    with caplog.at_level(logging.INFO):
        ctx.stop()
    assert ran == ["running"]
    assert f"{ctx.uuid}: pausing" in caplog.text
    ctx = TaskContextManager.resume(base, ctx.uuid, config_of())
    ctx.register_completion_hook("broken", failing)
    ctx.register_completion_hook("after it", lambda: ran.append("after it"))
    ctx.complete()
    assert ran == ["running", "after it"]
    assert "the hook broken failed" in caplog.text
    assert (base / "completed" / ctx.uuid).is_dir()


@pytest.mark.parametrize(
    ("content", "tokens"),
    [("x" * 400, 100), ("あ" * 300, 150), ("あ" * 200 + "x" * 200, 200), ("あ" * 198 + "x" * 202, 100)],
)
def test_tokens_are_counted_by_the_share_of_japanese(base: Path, content: str, tokens: int) -> None:
    """§4.2, §4.4."""
    store = MessageStore(base / "running" / "one", config_of())
    assert store.get_current_token_count() == 0
    store.add_message("user", content)
    assert lines(store.messages_file)[0]["tokens"] == tokens
    assert tokens <= store.get_current_token_count() <= tokens + 5, "and what an envelope costs"
    store.close()


def test_a_context_is_made_anew_from_a_summary_and_a_file(base: Path) -> None:
    """§4.3, §4.6; the file is removed, the number of lines comes back."""
    ctx = TaskContextManager(base, KEY, config_of())
    store = filled(ctx, 8)
    kept = ctx.context_dir / "unsummarized.jsonl"
    assert store.get_current_context_file(kept) == kept
    newest = store.get_current_context_file().read_text(encoding="utf-8").splitlines(keepends=True)[-3:]
    kept.write_text("".join(newest), encoding="utf-8")
    assert store.recreate_current_context("What was said.", kept) == 4
    written = store.get_current_context_file().read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(written[0])["role"] == "system"
    assert json.loads(written[0])["content"].endswith("What was said.")
    assert written[1:] == newest
    assert not kept.exists()
    assert store.count_messages() == 8
    ctx.close()


# ---- §7: compression -------------------------------------------------------------------------------------------------

SAID = "Goal: message 1 and message 3. Decided: word2 and word4 stay. Open: message 5."


def test_the_defaults_of_the_compressor(base: Path) -> None:
    """SPEC §9: "preset `coding-agent`: 0.7 × window, keep 10, minimum 5; 8,000 tokens only when `token_threshold` is
    set".
    """
    set_here = yaml.safe_load(block("13.1-config.yaml"))["context"]["compression"]
    ctx = TaskContextManager(base, KEY, {})
    plain = ContextCompressor(ctx, {}, None)
    assert (plain.keep_recent, plain.min_to_compress) == (set_here["keep_recent"], set_here["min_to_compress"])
    assert plain.settings.compression.token_threshold is None
    ctx.close()


@pytest.mark.parametrize("preset", ["default", "coding-agent"])
def test_what_is_set_holds_when_messages_are_large(base: Path, preset: str, caplog: pytest.LogCaptureFixture) -> None:
    """§7.3, §13.1 with messages of 600 tokens: above 8,000, the newest ten stay, nothing is folded below five.

    SPEC §9: "explicit settings win".
    """
    config = config_of(context_length=128_000)
    config["context"]["compression"]["preset"] = preset
    wanted = config["context"]["compression"]
    ctx = TaskContextManager(base, KEY, config)
    store = ctx.get_message_store()
    compressor = ContextCompressor(ctx, config, None)
    number = 0
    while not compressor.should_compress():
        assert store.get_current_token_count() <= wanted["token_threshold"]
        number += 1
        store.add_message("user" if number % 2 else "assistant", f"message {number}: ".ljust(2400, "x"))
    assert store.get_current_token_count() > wanted["token_threshold"]
    assert number == 14
    result = compressor.compress()
    assert not result.changed, "four are older than the newest ten"
    assert result.tokens_saved == 0
    store.add_message("user", "message 15: ".ljust(2400, "x"))
    newest = store.get_current_context_file().read_text(encoding="utf-8").splitlines()[-wanted["keep_recent"] :]
    before = store.get_current_token_count()
    result = compressor.compress()
    view = store.get_current_context_file().read_text(encoding="utf-8").splitlines()
    assert view[1:] == newest
    assert result.tokens_saved == before - store.get_current_token_count() > 0
    assert "keep_recent" not in caplog.text
    ctx.close()


def test_who_sets_more_than_fits_is_told(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The newest ten of 600 tokens do not fit a window of 4,000: the view is sent all the same, and the log says so."""
    config = config_of(context_length=4000)
    ctx = TaskContextManager(base, KEY, config)
    for number in range(1, 13):
        ctx.get_message_store().add_message("user" if number % 2 else "assistant", f"{number}: ".ljust(2400, "x"))
    result = ContextCompressor(ctx, config, None).compress()
    assert result.changed
    assert ctx.usage <= 1
    assert "keep_recent: 10 cannot hold" in caplog.text
    assert "compression.keep_recent: 10 cannot hold" in result.reason
    ctx.close()


@pytest.mark.parametrize(("language", "told"), [("en", "cannot hold"), ("ja", "守れません")])
def test_the_fewest_that_cannot_hold_are_named(base: Path, language: str, told: str) -> None:
    """Three messages fill the window: fewer than `min_to_compress` are folded, or nothing could be sent."""
    config = {"compression": {"min_to_compress": 20}, "llm": {"openai": {"context_length": 4000}}}
    ctx = TaskContextManager(base, KEY, config)
    for number in range(1, 6):
        ctx.get_message_store().add_message("user" if number % 2 else "assistant", f"{number}: ".ljust(4000, "x"))
    set_language(language)
    result = ContextCompressor(ctx, config, None).compress()
    set_language(None)
    assert ctx.usage <= 1
    assert "compression.min_to_compress: 20 " in result.reason
    assert told in result.reason
    ctx.close()


def test_a_number_that_holds_is_named_when_it_is_why_nothing_was_folded(base: Path) -> None:
    config = {"compression": {"keep_recent": 40}, "llm": {"openai": {"context_length": 16_000}}}
    ctx = TaskContextManager(base, KEY, config)
    for number in range(1, 13):
        ctx.get_message_store().add_message("user" if number % 2 else "assistant", f"{number}: ".ljust(3000, "x"))
    result = ContextCompressor(ctx, config, None).compress()
    assert not result.changed
    assert "compression.keep_recent: 40" in result.reason
    ctx.close()


def test_the_fewest_messages_that_are_set_hold(base: Path) -> None:
    """`min_to_compress` set alone: the ladder lets the newest give way to their size, but folds no fewer than that."""
    config = {"compression": {"min_to_compress": 9}, "llm": {"openai": {"context_length": 16_000}}}
    ctx = TaskContextManager(base, KEY, config)
    for number in range(1, 13):
        ctx.get_message_store().add_message("user" if number % 2 else "assistant", f"{number}: ".ljust(4000, "x"))
    result = ContextCompressor(ctx, config, None).compress()
    folded = ctx.get_message_store().count_messages() - (len(lines(ctx.get_message_store().current_file)) - 1)
    assert not result.changed or folded >= 9
    ctx.close()


def test_a_compression_goes_the_way_of_the_chart(base: Path) -> None:
    """§10.3: enough messages, asked for, kept, the context made anew; too few: nothing.

    SPEC §3, §8: the messages go to the model out of the log; none of the chart's temporary files is needed.
    """
    steps = chart("10.3-compression.mermaid")
    assert ("抽出数≥min_to_compress?", "圧縮スキップ") in steps
    assert ("SummaryStoreに保存", "current.jsonl再構築 要約+unsummarized") in steps
    assert steps[-1] == ("圧縮スキップ", "0を返す")
    with ScriptedModel(lambda _: Reply(SAID)) as model:
        config = config_of(model)
        ctx = TaskContextManager(base, KEY, config)
        client = OpenAIClient(config, message_store=ctx.get_message_store())
        compressor = ContextCompressor(ctx, config, client)
        filled(ctx, 14)
        assert compressor.compress().tokens_saved == 0
        assert (len(model.requests), ctx.get_summary_store().count_summaries()) == (0, 0)
        store = filled(ctx, 10)
        newest = store.get_current_context_file().read_text(encoding="utf-8").splitlines()[-10:]
        saved = compressor.compress().tokens_saved
        assert saved > 0
        assert len(model.requests) == 1
        summary = ctx.get_summary_store().get_latest_summary()
        assert summary is not None
        assert summary["summary"].startswith(SAID)
        assert summary["compressed_message_count"] == 14
        first, *rest = store.get_current_context_file().read_text(encoding="utf-8").splitlines()
        assert rest == newest
        assert SAID in json.loads(first)["content"]
        here = {path.name for path in ctx.context_dir.iterdir()}
        assert not here & {"to_summarize.jsonl", "unsummarized.jsonl", "request.jsonl", "request.json"}
        client.close()
    ctx.close()


def test_a_final_summary_is_written_and_counted(base: Path) -> None:
    """§7.4, §7.11: by `create_chat_completion()`; its characters come back."""
    asked: list[list[dict[str, str]]] = []

    class Client:
        def create_chat_completion(self, messages: list[dict[str, str]], **_: Any) -> str:
            asked.append(messages)
            return SAID

    ctx = TaskContextManager(base, KEY, config_of())
    filled(ctx, 6)
    assert ContextCompressor(ctx, config_of(), Client()).create_final_summary() == len(SAID)
    assert (ctx.context_dir / "final_summary.txt").read_text(encoding="utf-8") == SAID
    ((system, user),) = asked
    assert (system["role"], user["role"]) == ("system", "user")
    assert all(f"message {number}: " in user["content"] for number in range(1, 7))
    ctx.close()


# ---- §8, §9, §10: inheritance ----------------------------------------------------------------------------------------


def inherited(base: Path) -> TaskContextManager:
    """A finished task on the key, with a plan, a summary and a problem."""
    ctx = TaskContextManager(base, KEY, config_of())
    filled(ctx, 6)
    ctx.get_planning_store().add_plan("initial", "Read message 3, then write.")
    ctx.get_tool_store().add_tool_call("grep", {}, error="no such file: 17.txt")
    ctx.complete()
    return ctx


def test_earlier_tasks_are_found_and_handed_on(base: Path) -> None:
    """§8.1 to §8.5, §9, and the chart of §10.5."""
    steps = chart("10.5-inheritance.mermaid")
    assert ("tasks.db検索 同一task_type/identifier/repo/user", "前回タスク存在?") in steps
    manager = ContextInheritanceManager(base, config_of())
    assert manager.max_summary_tokens == 4000
    old = inherited(base)
    failed = TaskContextManager(base, KEY, config_of(), inherit=False)
    failed.fail("no such file")
    found = manager.find_previous_contexts(KEY)
    assert [(previous.uuid, previous.status) for previous in found] == [
        (failed.uuid, "failed"),
        (old.uuid, "completed"),
    ], "the newest first"
    wanted = {"uuid", "status", "completed_at", "metadata", "final_summary", "planning_history"}
    assert wanted <= {*PreviousContext.__dataclass_fields__}
    assert isinstance(found[1].completed_at, datetime)
    assert found[1].metadata["uuid"] == old.uuid
    for other in (
        TaskKey("github", "owner", "repo", "issue", "124", "username"),
        TaskKey("github", "owner", "repo", "issue", "123", "another"),
        TaskKey("github", "owner", "repo", "pull_request", "123", "username"),
        TaskKey("github", "owner", "other", "issue", "123", "username"),
    ):
        assert list(manager.find_previous_contexts(other)) == []
    assert manager.get_inheritance_context("unknown") is None
    taken = manager.get_inheritance_context(old.uuid)
    assert taken is not None
    assert (taken.uuid, taken.metadata["repository"]) == (old.uuid, "owner/repo")
    assert "message 5" in taken.final_summary
    assert [plan["plan_content"] for plan in taken.planning_history] == ["Read message 3, then write."]
    new = TaskContextManager(base, KEY, config_of(), inherit=False)
    assert manager.create_initial_context(new, taken) == 1
    (message,) = lines(new.get_message_store().messages_file)
    for words in (taken.final_summary.splitlines()[-1], "Read message 3, then write.", "no such file: 17.txt"):
        assert words in message["content"]
    comment = manager.generate_notification_comment(taken)
    assert old.uuid in comment
    assert "completed" in comment
    assert str(found[1].completed_at.year) in comment
    new.close()


def test_what_is_inherited_is_read_and_put_together_as_the_document_says(base: Path) -> None:
    """§8.7 to §8.12, inner methods whose results are written down: nothing there gives nothing, a text has a limit."""
    old = inherited(base)
    manager = ContextInheritanceManager(base, config_of())
    assert "message 5" in (manager._load_final_summary(old.uuid) or "")
    assert manager._load_metadata(old.uuid)["uuid"] == old.uuid
    (plan,) = manager._load_planning_history(old.uuid)
    unknown = "00000000-0000-4000-8000-000000000000"
    assert manager._load_final_summary(unknown) is None
    assert (manager._load_metadata(unknown), list(manager._load_planning_history(unknown))) == ({}, [])
    assert manager._build_planning_summary([]) == ""
    summary = manager._build_planning_summary([plan])
    assert all(part in summary for part in (plan["plan_type"], plan["plan_content"], plan["created_at"][:10]))
    assert manager._truncate_summary_if_needed("short") == "short"
    cut = manager._truncate_summary_if_needed("word " * 20_000)
    assert 1000 < len(cut) < 5 * 20_000
    assert not cut.rstrip().endswith("word")  # it says that it was cut
    assert manager._format_summary_with_prefix("summary", "prefix").split() == ["prefix", "summary"]


def test_a_new_task_begins_with_what_it_inherits_once(base: Path) -> None:
    """§3.7 to §3.10; said twice, or again after a crash, it stands there once."""
    first = TaskContextManager(base, KEY, config_of())
    assert (first.has_inheritance_context(), first.get_inheritance_context()) == (False, None)
    assert first.get_inheritance_notification_comment() is None
    first.complete()
    old = inherited(base)
    ctx = TaskContextManager(base, KEY, config_of())
    assert ctx.has_inheritance_context()
    context = ctx.get_inheritance_context()
    assert context is not None
    assert context.uuid == old.uuid
    comment = ctx.get_inheritance_notification_comment()
    assert comment is not None
    assert old.uuid in comment
    assert ctx.create_initial_context_with_inheritance("You are careful.") == 2
    written = ctx.get_message_store().messages_file.read_bytes()
    assert ctx.create_initial_context_with_inheritance("You are careful.") == 2
    assert ctx.get_message_store().messages_file.read_bytes() == written
    system, inheritance = lines(ctx.get_message_store().messages_file)
    assert (system["role"], system["content"]) == ("system", "You are careful.")
    assert "Read message 3, then write." in inheritance["content"]
    ctx.stop()
    again = TaskContextManager.resume(base, ctx.uuid, config_of())
    assert again.create_initial_context_with_inheritance("You are careful.") == 2
    assert again.get_message_store().count_messages() == 2
    again.close()


def test_what_is_inherited_has_a_limit(base: Path) -> None:
    """§8.11, §13.1 `max_summary_tokens`."""
    old = TaskContextManager(base, KEY, config_of())
    old.get_planning_store().add_plan("initial", "step " * 20_000)
    old.complete()
    limit = yaml.safe_load(block("13.1-config.yaml"))["context"]["inheritance"]["max_summary_tokens"]
    ctx = TaskContextManager(base, KEY, config_of())
    ctx.create_initial_context_with_inheritance("You are careful.")
    message = lines(ctx.get_message_store().messages_file)[-1]
    assert limit / 2 < message["tokens"] <= limit
    ctx.close()
    config = config_of()
    config["context"]["inheritance"]["enabled"] = False
    assert not TaskContextManager(base, KEY, config).has_inheritance_context()


def test_a_task_starts_as_the_chart_says(base: Path) -> None:
    """§10.1: new: a folder, a row, metadata; resumed: the paused folder, the row running again."""
    steps = chart("10.1-start.mermaid")
    assert ("再開タスク?", "paused/{uuid}/を使用") in steps
    assert ("新規タスク?", "tasks.db UPDATE status=running") in steps
    ctx = TaskContextManager(base, KEY, config_of())
    metadata = (ctx.context_dir / "metadata.json").read_bytes()
    assert in_database(base, "SELECT status FROM tasks") == [{"status": "running"}]
    filled(ctx, 3)
    view = ctx.get_message_store().get_current_context_file().read_bytes()
    ctx.stop()
    assert in_database(base, "SELECT status FROM tasks") == [{"status": "paused"}]
    program = (
        "import json, sys; from orihon import TaskContextManager\n"
        "ctx = TaskContextManager.resume(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))\n"
        "print(ctx.get_message_store().get_current_context_file().read_text(encoding='utf-8'), end='')\n"
        "print(ctx.context_dir.parent.name, ctx.catalogue.tasks.get(ctx.uuid).status); ctx.stop()"
    )
    words = [sys.executable, "-c", program, str(base), ctx.uuid, json.dumps(config_of())]
    seen = subprocess.run(words, capture_output=True, check=True).stdout
    assert seen == view + b"running running\n", "in another process, at the same view"
    assert (base / "paused" / ctx.uuid / "metadata.json").read_bytes() == metadata


def test_a_message_is_added_as_the_chart_says(base: Path) -> None:
    """§10.2. SPEC §9: `current.jsonl` is "OpenAI-shaped": `tool_name` is called `name` there."""
    steps = chart("10.2-message.mermaid")
    fields = [re.sub(r"^.*追記 ", "", box).split(",") for _, box in steps if "追記" in box]
    assert [names[0] for names in fields] == ["seq", "role"]
    store = MessageStore(base / "running" / "one", config_of())
    call = {"id": "c1", "type": "function", "function": {"name": "function_name", "arguments": "{}"}}
    store.add_message("assistant", None, tool_calls=[call])
    assert store.add_message("tool", "結果", "function_name") == 2
    log, current = lines(store.messages_file)[-1], lines(store.get_current_context_file())[-1]
    assert {*fields[0]} <= log.keys()
    assert {*fields[1]} - {"tool_name"} <= current.keys()
    assert current == {"role": "tool", "content": "結果", "tool_call_id": "c1", "name": "function_name"}
    store.close()


def test_a_task_completes_in_the_order_of_the_diagram(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    """§10.4, §3.15: log, hooks, the final summary by the model, figures, state, folder."""
    told = re.findall(r"->>\w+: (.+)", block("10.4-completion.mermaid"))
    assert told[1:4] == ["ログ出力", "完了フック実行", "create_final_summary()"]
    order: list[str] = []

    def summarize(_: ScriptedRequest) -> Reply:
        order.append("create_final_summary()")
        return Reply(SAID)

    with ScriptedModel(summarize) as model:
        ctx = TaskContextManager(base, KEY, config_of(model))
        client = OpenAIClient(task_ctx=ctx)
        ctx.set_llm_client(client)
        filled(ctx, 6)

        def hook() -> None:
            order.append("ログ出力" if f"{ctx.uuid}: completing" in caplog.text else "no log")
            order.append("完了フック実行")
            assert ctx.catalogue.tasks.get(ctx.uuid).status == "running"

        ctx.register_completion_hook("look", hook)
        with caplog.at_level(logging.INFO):
            ctx.complete()
        client.close()
    assert order == told[1:4]
    assert (base / "completed" / ctx.uuid / "final_summary.txt").read_text(encoding="utf-8") == SAID
    (row,) = in_database(base, "SELECT * FROM tasks")
    assert (row["status"], row["total_messages"]) == ("completed", 6)


# ---- §11: formats ----------------------------------------------------------------------------------------------------


def example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(block(name))
    return found


def test_records_are_written_as_in_the_examples(base: Path) -> None:
    """§11.1 to §11.5."""
    ctx = TaskContextManager(base, KEY, config_of())
    said = example("11.1-messages.json")
    store = ctx.get_message_store()
    assert store.add_message(said["role"], said["content"], said["tool_name"]) == said["seq"]
    (line,) = lines(store.messages_file)
    assert {name: line[name] for name in said if name not in ("timestamp", "tokens")} == {
        name: said[name] for name in said if name not in ("timestamp", "tokens")
    }
    assert line["timestamp"].endswith("+00:00")
    utc(said["timestamp"])
    shown = example("11.2-current.json")
    (view,) = lines(store.get_current_context_file())
    # SPEC §9: "OpenAI-shaped": providers refuse a field `tool_name`.
    assert view == {name: shown[name] for name in ("role", "content")}
    summary = example("11.3-summaries.json")
    values = summary["summary"], summary["compressed_message_count"], summary["tokens_saved"]
    assert ctx.get_summary_store().add_summary(*values) == summary["id"]
    tool = example("11.4-tools.json")
    called = tool["tool_name"], tool["arguments"], tool["result"], tool["error"]
    assert ctx.get_tool_store().add_tool_call(*called) == tool["seq"]
    plan = example("11.5-planning.json")
    assert ctx.get_planning_store().add_plan(plan["plan_type"], plan["plan_content"]) == plan["id"]
    for wanted, name in ((summary, "summaries"), (tool, "tools"), (plan, "planning")):
        (line,) = lines(ctx.context_dir / f"{name}.jsonl")
        moments = {"created_at", "timestamp"} & wanted.keys()
        assert all(line[moment].endswith("+00:00") for moment in moments)
        assert line.items() >= {name: value for name, value in wanted.items() if name not in moments}.items()
    assert ctx.get_summary_store().count_summaries() == ctx.get_tool_store().count_tool_calls() == 1
    assert ctx.get_planning_store().count_plans() == 1
    ctx.close()


def test_metadata_has_the_fields_of_the_example(base: Path) -> None:
    """§11.6, §3.20: indented by two."""
    wanted = example("11.6-metadata.json")
    ctx = TaskContextManager(base, TaskKey.from_dict(wanted), config_of())
    assert ctx.uuid == wanted["uuid"]
    raw = (ctx.context_dir / "metadata.json").read_text(encoding="utf-8")
    assert '\n  "uuid"' in raw
    written = json.loads(raw)
    assert written["created_at"].endswith("+00:00")
    assert written.items() >= {name: value for name, value in wanted.items() if name != "created_at"}.items()
    ctx.close()


# ---- §12: the schema -------------------------------------------------------------------------------------------------


def test_the_catalogue_has_every_column_and_finds_by_what_has_an_index(base: Path) -> None:
    """SPEC §3: "the union of the columns in 001 §2.2 and 002 §12 (`task_source`=github, `task_type`=issue; 002's
    `github_issue` is accepted and shown)". Our own indexes begin with these columns; whoever wants the document's
    names and the one by type (ours goes by the whole key) makes them, and everything goes on.
    """
    ddl = block("12.1-tasks.sql")
    table = ddl[ddl.index("(") + 1 : ddl.index(");")]
    wanted = {line.split()[0]: line.split()[1].rstrip(",") for line in table.splitlines() if line.strip()}
    ctx = TaskContextManager(base, KEY, config_of())
    columns = {row["name"]: row for row in in_database(base, "SELECT * FROM pragma_table_info('tasks')")}
    assert {name: columns[name]["type"] for name in wanted} == wanted
    indexed = re.findall(r"CREATE INDEX (\w+) ON tasks\((\w+)\)", ddl)
    assert len(indexed) == 5
    ours = [column for _, column in indexed if column != "task_type"]
    key = " AND ".join(f"{part} = 'x'" for part in ("task_source", "owner", "repo", "task_type"))
    for condition in (key, *(f"{column} = 'x'" for column in ours)):
        plan = in_database(base, f"EXPLAIN QUERY PLAN SELECT uuid FROM tasks WHERE {condition}")
        assert plan[0]["detail"].startswith("SEARCH tasks USING"), (condition, plan)
    for made in re.findall(r"CREATE INDEX .+;", ddl):
        in_database(base, made)
    for name, column in indexed:
        query = f"EXPLAIN QUERY PLAN SELECT uuid FROM tasks INDEXED BY {name} WHERE {column} = 'x'"
        assert name in in_database(base, query)[0]["detail"]
    (row,) = in_database(base, "SELECT * FROM tasks")
    assert (row["task_source"], row["task_type"], row["task_identifier"]) == ("github", "issue", "123")
    assert (row["repository"], row["user"], ctx.task_key.combined_type) == ("owner/repo", "username", "github_issue")
    assert isinstance(json.loads(row["metadata"]), dict)
    ctx.complete()
    TaskContextManager(base, KEY, config_of()).complete()


# ---- §13, §14: running it --------------------------------------------------------------------------------------------


def test_the_configuration_of_the_document_is_read(tmp_path: Path) -> None:
    written = yaml.safe_load(block("13.1-config.yaml"))
    file = tmp_path / "config.yaml"
    file.write_text(block("13.1-config.yaml"), encoding="utf-8")
    for settings in (load_settings(written), load_settings(file)):
        compression = settings.compression
        assert str(settings.context_storage.base_dir) == "contexts"
        assert (compression.token_threshold, compression.keep_recent, compression.min_to_compress) == (8000, 10, 5)
        assert (settings.inheritance.enabled, settings.inheritance.max_summary_tokens) == (True, 4000)


def test_old_tasks_may_be_removed_by_hand(tmp_path: Path) -> None:
    """§14.1: `find … -exec rm`, from outside; the next task goes on, and the doctor knows what is missing."""
    base = tmp_path / "contexts"
    old, kept = inherited(base), inherited(base)
    month = time.time() - 31 * 24 * 3600
    os.utime(base / "completed" / old.uuid, (month, month))
    subprocess.run(["sh", "-ec", block("14.1-archive.sh")], cwd=tmp_path, check=True)
    assert [path.name for path in (base / "completed").iterdir()] == [kept.uuid]
    ctx = TaskContextManager(base, KEY, config_of())
    context = ctx.get_inheritance_context()
    assert context is not None
    assert context.uuid == kept.uuid
    ctx.complete()


def test_the_database_may_be_vacuumed_from_outside(tmp_path: Path) -> None:
    """§14.1, while a task is running."""
    ctx = TaskContextManager(tmp_path / "contexts", KEY, config_of())
    filled(ctx, 2)
    program, file, command = re.findall(r"^(\w+) (\S+) \"(.+)\"$", block("14.1-vacuum.sh"))[0]
    assert (program, tmp_path / file) == ("sqlite3", tmp_path / "contexts" / "tasks.db")
    assert in_database(tmp_path / "contexts", command) == []
    filled(ctx, 2)
    ctx.complete()
    (row,) = in_database(tmp_path / "contexts", "SELECT status, total_messages FROM tasks")
    assert row == {"status": "completed", "total_messages": 4}
