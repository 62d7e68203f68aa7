"""Real sessions of Claude Code and Codex, imported, against a second reading that knows nothing of the importer."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import import_transcripts
from orihon.catalogue.connect import open_catalogue
from orihon.settings import load_settings
from orihon.store.factory import open_for_reading
from orihon.store.record_codec import StoredMessage
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from orihon.upkeep.doctor import examine

SHARED = Path(os.environ.get("ORIHON_BENCH_DATA") or Path(__file__).parents[3] / "shared")
NATIVE = SHARED / "data" / "native"
SETTINGS = load_settings({"context_storage": {"durability": "os"}, "masking": {"enabled": False}}, environ={})
pytestmark = pytest.mark.skipif(not NATIVE.is_dir(), reason="the samples of other agents are not here")

#: Who says what, the ids of its calls, the id that is answered.
Line = tuple[str, str, tuple[str, ...], str | None]


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (NATIVE / name).read_text(encoding="utf-8").splitlines()]


def imported(base: Path, name: str) -> dict[str, list[StoredMessage]]:
    """The logs of all threads, by their ids."""
    report = import_transcripts(base, SETTINGS, [NATIVE / name])
    assert (report.problems, report.skipped) == ([], 0)
    assert examine(OpenBase(base, SETTINGS)) == []
    logs = {}
    with open_catalogue(base, SETTINGS) as catalogue:
        for row in catalogue.tasks.page():
            folder = folders_of(base, SETTINGS).find(row.uuid)
            assert folder is not None
            with closing(open_for_reading(folder.folder, SETTINGS, name=row.uuid)) as store:
                logs[row.task_id] = list(store.messages())
    return logs


def lines(log: list[StoredMessage]) -> list[Line]:
    messages = [one.message for one in log]
    return [(one.role, one.text, one.calls, one.tool_call_id if one.role == "tool" else None) for one in messages]


# ---- Claude Code ---------------------------------------------------------------------------------------------------


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or [] if block.get("type") == "text" and block["text"])


def claude_threads(name: str) -> dict[str, list[dict[str, Any]]]:
    """Records by thread: side chains are walked from each record up to the one that began the chain."""
    spoken = [one for one in records(name) if one["type"] in ("user", "assistant")]
    parents = {one["uuid"]: one["parentUuid"] for one in spoken}
    threads: dict[str, list[dict[str, Any]]] = {}
    for one in spoken:
        thread = one["sessionId"]
        if one["isSidechain"]:
            first = one["uuid"]
            while parents[first] is not None:
                first = parents[first]
            thread = f"{thread}/{first}"
        threads.setdefault(thread, []).append(one)
    return threads


def claude_lines(thread: list[dict[str, Any]]) -> Iterator[Line]:
    """In the order of the file, an answer where its first piece stands; results behind all pieces of the answer."""
    order: list[str] = []
    answers: dict[str, list[dict[str, Any]]] = {}
    for number, one in enumerate(thread):
        key = one["message"]["id"] if one["type"] == "assistant" else f"user-{number}"
        if key not in answers:
            order.append(key)
        answers.setdefault(key, []).extend(blocks(one["message"]))
    for key in order:
        found = answers[key]
        if not key.startswith("user-"):
            calls = tuple(block["id"] for block in found if block["type"] == "tool_use")
            yield "assistant", said(found), calls, None
            continue
        for block in found:
            if block["type"] == "tool_result":
                yield "tool", said(block.get("content")), (), block["tool_use_id"]
        rest = [block for block in found if block["type"] != "tool_result"]
        if rest:
            yield "user", said(rest), (), None


@pytest.mark.parametrize("name", ["viewer-fe5e1c67", "viewer-1af7fc5e", "agentcmd-full-session-four"])
def test_claude_code(tmp_path: Path, name: str) -> None:
    name = f"claude-code/{name}.jsonl"
    logs = imported(tmp_path, name)
    threads = claude_threads(name)
    assert set(logs) == set(threads)
    for thread, own in threads.items():
        assert lines(logs[thread]) == list(claude_lines(own)), thread
        used: dict[str, Any] = {one["message"]["id"]: one["message"] for one in own if one["type"] == "assistant"}
        expected = Counter(
            (
                message["model"],
                usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"],
                usage["cache_read_input_tokens"],
                usage["output_tokens"],
            )
            for message in used.values()
            if (usage := message.get("usage"))
        )
        calls = [one.call for one in logs[thread] if one.call is not None and one.call.usage is not None]
        assert Counter((call.model, *vars_of(call.usage)) for call in calls) == expected


def vars_of(usage: Any) -> tuple[int, int, int]:
    return usage.input, usage.cached, usage.output


def test_sub_agents_are_children(tmp_path: Path) -> None:
    imported(tmp_path, "claude-code/viewer-fe5e1c67.jsonl")
    with open_catalogue(tmp_path, SETTINGS) as catalogue:
        (main,) = [row for row in catalogue.tasks.page() if row.parent_uuid is None]
        assert len(catalogue.tasks.children(main.uuid)) == 5


# ---- Codex ---------------------------------------------------------------------------------------------------------


def test_codex(tmp_path: Path) -> None:
    name = "codex/rollout-2025-09-25T08-02-05-0199812e-64f0-7f73-91fc-095dda01c36e.jsonl"
    (log,) = imported(tmp_path, name).values()
    items = [one["payload"] for one in records(name) if one["type"] == "response_item"]
    spoken: list[Line] = []
    for item in items:
        match item["type"]:
            case "message":
                text = "\n".join(block["text"] for block in item["content"])
                spoken.append((item["role"], text, (), None))
            case "function_call":
                spoken.append(("assistant", "", (item["call_id"],), None))
            case "function_call_output":
                spoken.append(("tool", item["output"], (), item["call_id"]))
    assert lines(log) == spoken
    thoughts = [one for one in items if one["type"] == "reasoning"]
    kept = [item for one in log for item in one.message.extra.get("$orihon", {}).get("reasoning", [])]
    assert kept == thoughts
    counts = [one["payload"]["info"] for one in records(name) if one["payload"].get("type") == "token_count"]
    told = [info["last_token_usage"] for info in counts if info]
    assert len({json.dumps(info) for info in counts}) == len(told)  # here no figure is told twice
    used = [one.call.usage for one in log if one.call is not None and one.call.usage is not None]
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    assert [vars_of(usage) for usage in used] == [tuple(one[name] for name in names) for one in told]
    assert {one.call.model for one in log if one.call is not None} == {"gpt-5-codex"}


def test_the_newest_records_of_codex(tmp_path: Path) -> None:
    """An invented file that has every kind of record once: each item that says something is there."""
    name = "codex/agent-sessions-schema-0.146.jsonl"
    (log,) = imported(tmp_path, name).values()
    items = [one["payload"] for one in records(name) if one["type"] == "response_item"]
    made = [one["call_id"] for one in items if one["type"].endswith("_call") and "call_id" in one]
    calls = [call for one in log for call in one.message.calls]
    assert len(calls) >= len(made)
    texts = "\n".join(one.message.text for one in log)
    for item in items:
        for block in item.get("content") or []:
            assert block.get("text", "") in texts
