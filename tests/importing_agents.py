"""Small hand-made files of the agents whose importers stand in a file each, and what an importer says of a file.

The content is invented; the shapes are those that the programs write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from orihon.importers.registry import (
    CompactionItem,
    PlanItem,
    Problem,
    SaidItem,
    Thread,
    ToolItem,
    TranscriptEvent,
    importer,
)

T0 = "2026-03-04T10:00:"


@dataclass
class Told:
    """What an importer says of a file."""

    threads: list[Thread] = field(default_factory=list)
    said: list[SaidItem] = field(default_factory=list)
    tools: list[ToolItem] = field(default_factory=list)
    plans: list[PlanItem] = field(default_factory=list)
    folds: list[CompactionItem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    of: dict[str, list[SaidItem]] = field(default_factory=dict)

    def announce(self, thread: Thread) -> None:
        """A thread, or a better word about one."""
        known = [one.id for one in self.threads]
        if thread.id in known:
            self.threads[known.index(thread.id)] = thread
        else:
            self.threads.append(thread)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Who said what, in order."""
        return [(item.message.role, item.message.text) for item in self.said]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        """Every call: its id, the tool, the arguments."""
        made = [call for item in self.said for call in item.message.tool_calls]
        return [(call.id, call.name, json.loads(call.arguments)) for call in made]

    @property
    def results(self) -> list[tuple[str | None, str]]:
        """Every result: the id of its call, the text."""
        return [(item.message.tool_call_id, item.message.text) for item in self.said if item.message.role == "tool"]

    @property
    def used(self) -> list[tuple[str, int, int, int, float | None]]:
        """Of every call of a model: model, input, cached, output, cost."""
        calls = [item.call for item in self.said if item.call is not None]
        return [
            (call.model, call.usage.input, call.usage.cached, call.usage.output, call.cost)
            for call in calls
            if call.usage is not None
        ]

    @property
    def thoughts(self) -> list[str]:
        """Every piece of reasoning."""
        notes = [item.message.extra.get("$orihon", {}) for item in self.said]
        return [block["thinking"] for note in notes for block in note.get("reasoning", ()) if "thinking" in block]


def told(form: str, path: Path) -> Told:
    """What the importer of a format says of a file."""
    all_of_it = Told()
    for found in importer(form).read(path):
        match found:
            case Thread():
                all_of_it.announce(found)
            case Problem():
                all_of_it.problems.append(found)
            case TranscriptEvent(thread=thread, item=SaidItem() as item):
                all_of_it.said.append(item)
                all_of_it.of.setdefault(thread, []).append(item)
            case TranscriptEvent(item=ToolItem() as tool):
                all_of_it.tools.append(tool)
            case TranscriptEvent(item=PlanItem() as plan):
                all_of_it.plans.append(plan)
            case TranscriptEvent(item=CompactionItem() as fold):
                all_of_it.folds.append(fold)
    return all_of_it


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    """A JSON Lines file."""
    return write(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def write_json(path: Path, value: Any) -> Path:
    """A JSON file, as people like to read it."""
    return write(path, json.dumps(value, ensure_ascii=False, indent=2))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- Gemini CLI ------------------------------------------------------------------------------------------------------


def gemini_messages() -> list[dict[str, Any]]:
    response = {"functionResponse": {"id": "ls-1", "name": "list", "response": {"output": "pears.txt"}}}
    call = {
        "id": "ls-1",
        "name": "list",
        "args": {"path": "."},
        "result": [response],
        "status": "success",
        "timestamp": f"{T0}03Z",
        "resultDisplay": "one file",
    }
    return [
        {"id": "m1", "timestamp": f"{T0}01Z", "type": "user", "content": [{"text": "Which files? どのファイル?"}]},
        {"id": "m2", "timestamp": f"{T0}01Z", "type": "info", "content": "Update available."},
        {
            "id": "m3",
            "timestamp": f"{T0}02Z",
            "type": "gemini",
            "content": "I look.",
            "thoughts": [{"subject": "Plan", "description": "List them.", "timestamp": f"{T0}02Z"}],
            "tokens": {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 0, "total": 115},
            "model": "gemini-3-pro",
            "toolCalls": [call],
        },
        {
            "id": "m4",
            "timestamp": f"{T0}04Z",
            "type": "gemini",
            "content": "Only pears.txt.",
            "tokens": {"input": 130, "output": 6, "cached": 100, "thoughts": 0, "tool": 0, "total": 136},
            "model": "gemini-3-pro",
        },
    ]


GEMINI_HEADER = {
    "sessionId": "5e1f0a52-0000-4000-8000-000000000001",
    "projectHash": "ab" * 32,
    "startTime": f"{T0}00Z",
    "lastUpdated": f"{T0}09Z",
}


def make_gemini(folder: Path) -> Path:
    session = {**GEMINI_HEADER, "messages": gemini_messages(), "summary": "Looking at pears"}
    return write_json(folder / "tmp" / "p" / "chats" / "session-2026-03-04T10-00-5e1f0a52.json", session)


def make_gemini_lines(folder: Path) -> Path:
    user, info, answer, last = gemini_messages()
    growing = {**answer, "toolCalls": []}
    records = [
        {**GEMINI_HEADER, "kind": "main"},
        user,
        info,
        growing,
        {"$set": {"lastUpdated": f"{T0}02Z"}},
        answer,
        last,
    ]
    return write_lines(folder / "tmp" / "p" / "chats" / "session-2026-03-04T10-00-5e1f0a52.jsonl", records)


def make_gemini_logs(folder: Path) -> Path:
    entry = {"sessionId": "77777777-0000-4000-8000-000000000001", "messageId": 0, "timestamp": f"{T0}00Z"}
    entries = [
        {**entry, "type": "user", "message": "Count the pears."},
        {**entry, "messageId": 1, "type": "user", "message": "/quit"},
    ]
    return write_json(folder / "tmp" / "p" / "logs.json", entries)


def make_gemini_checkpoint(folder: Path) -> Path:
    history = [
        {"role": "user", "parts": [{"text": "Which files?"}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "list", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "list", "response": {"output": "pears.txt"}}}]},
        {"role": "model", "parts": [{"text": "Only pears.txt."}]},
    ]
    return write_json(folder / "tmp" / "p" / "checkpoint-fruit.json", {"history": history, "authType": "oauth"})


# ---- Copilot CLI -----------------------------------------------------------------------------------------------------


def copilot_event(number: int, kind: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    parent = f"e{number - 1}" if number else None
    return {
        "type": kind,
        "data": data,
        "id": f"e{number}",
        "timestamp": f"{T0}{number:02d}.000Z",
        "parentId": parent,
        **more,
    }


def copilot_events() -> list[dict[str, Any]]:
    context = {"cwd": "/home/kim/shop", "gitRoot": "/home/kim/shop", "branch": "main", "repository": "kim/shop"}
    start = {
        "sessionId": "c0ffee00-1111-4222-8333-444444444444",
        "version": 1,
        "copilotVersion": "1.2.3",
        "context": context,
    }
    asked = {"toolCallId": "t1", "name": "bash", "arguments": {"command": "ls"}, "type": "function"}
    helper = {"toolCallId": "t2", "name": "task", "arguments": {"prompt": "count"}, "type": "function"}
    return [
        copilot_event(0, "session.start", {**start, "startTime": f"{T0}00Z", "selectedModel": "gpt-5"}),
        copilot_event(1, "user.message", {"content": "Which files?", "transformedContent": "<now/>Which files?"}),
        copilot_event(2, "assistant.turn_start", {"turnId": "0"}),
        copilot_event(
            3,
            "assistant.message",
            {
                "messageId": "a1",
                "content": "I look.",
                "toolRequests": [asked, helper],
                "outputTokens": 12,
                "reasoningText": "List them.",
            },
        ),
        copilot_event(
            4, "tool.execution_start", {"toolCallId": "t1", "toolName": "bash", "arguments": {"command": "ls"}}
        ),
        copilot_event(
            5, "tool.execution_complete", {"toolCallId": "t1", "success": True, "result": {"content": "pears.txt"}}
        ),
        copilot_event(
            6, "subagent.started", {"toolCallId": "t2", "agentName": "counter", "agentDescription": "Counts"}
        ),
        copilot_event(7, "assistant.message", {"messageId": "b1", "content": "17.", "parentToolCallId": "t2"}),
        copilot_event(
            8, "tool.execution_complete", {"toolCallId": "t2", "success": False, "error": {"message": "late"}}
        ),
        copilot_event(9, "session.compaction_start", {}),
        copilot_event(10, "session.compaction_complete", {"success": True, "summaryContent": "There is pears.txt."}),
        copilot_event(11, "assistant.message", {"messageId": "a2", "content": "Only pears.txt.", "outputTokens": 5}),
        copilot_event(
            13,
            "session.shutdown",
            {"modelMetrics": {"gpt-5": {"usage": {"inputTokens": 900, "outputTokens": 17, "cacheReadTokens": 300}}}},
        ),
    ]


def make_copilot(folder: Path) -> Path:
    return write_lines(folder / "session-state" / "c0ffee00" / "events.jsonl", copilot_events())


def make_copilot_document(folder: Path) -> Path:
    said = [{"role": "user", "content": "Which files?"}, {"role": "assistant", "content": "Only pears.txt."}]
    session = {"sessionId": "c0ffee01", "startTime": f"{T0}00Z", "chatMessages": said, "timeline": []}
    return write_json(folder / "history-session-state" / "session_c0ffee01_1.json", session)


# ---- Cursor ----------------------------------------------------------------------------------------------------------


def cursor_records() -> list[dict[str, Any]]:
    def record(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "message": {"content": list(blocks)}}

    return [
        record("user", {"type": "text", "text": "<user_query>\nWhich files?\n</user_query>"}),
        record(
            "assistant",
            {"type": "thinking", "thinking": "List them."},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}},
        ),
        record(
            "user", {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "pears.txt"}]}
        ),
        record("assistant", {"type": "text", "text": "Only pears.txt."}),
        {"type": "turn_ended", "status": "success"},
    ]


def make_cursor(folder: Path) -> Path:
    name = "d15c0de0-0000-4000-8000-000000000001"
    return write_lines(folder / "projects" / "shop" / "agent-transcripts" / name / f"{name}.jsonl", cursor_records())


def make_cursor_store(folder: Path) -> Path:
    said = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": [{"type": "text", "text": "Which files?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "List them."},
                {"type": "tool-call", "toolCallId": "k1", "toolName": "Shell", "args": {"command": "ls"}},
            ],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "k1", "toolName": "Shell", "result": "pears.txt"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Only pears.txt."}]},
    ]
    blobs = {sha256(data).hexdigest(): data for data in (json.dumps(one).encode() for one in said)}
    root = b"".join(b"\x0a\x20" + bytes.fromhex(name) for name in blobs) + b"\x4a\x05/shop"
    root_id = sha256(root).hexdigest()
    about = {
        "agentId": "d15c",
        "name": "Pears",
        "createdAt": 1772618400000,
        "latestRootBlobId": root_id,
        "lastUsedModel": "gpt-5",
    }
    path = folder / "chats" / "hash" / "d15c" / "store.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO blobs VALUES (?, ?)", [*blobs.items(), (root_id, root)])
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(about).encode().hex(),))
    connection.close()
    return path


# ---- Kimi ------------------------------------------------------------------------------------------------------------


def kimi_records() -> list[dict[str, Any]]:
    time = 1772618400000

    def loop(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": "context.append_loop_event", "event": {"type": kind, **fields}, "time": time}

    def said(role: str, text: str, kind: str = "user") -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": {"kind": kind}}
        return {"type": "context.append_message", "message": message, "time": time}

    def step_end(step: str, output: int) -> dict[str, Any]:
        used = {"inputOther": 100, "output": output, "inputCacheRead": 50, "inputCacheCreation": 5}
        return loop("step.end", uuid=step, usage=used, finishReason="tool_use")

    return [
        {"type": "metadata", "protocol_version": "1.4", "created_at": time},
        {"type": "config.update", "systemPrompt": "You are careful.", "modelAlias": "kimi-k2", "time": time},
        said("user", "Which files? どのファイル?"),
        loop("step.begin", uuid="s1", step=1),
        loop("content.part", stepUuid="s1", part={"type": "think", "think": "List them."}),
        loop("content.part", stepUuid="s1", part={"type": "text", "text": "I look."}),
        loop("tool.call", stepUuid="s1", toolCallId="Bash_0", name="Bash", args={"command": "ls"}),
        loop("tool.result", toolCallId="Bash_0", result={"output": "pears.txt", "isError": True}),
        step_end("s1", 20),
        {"type": "usage.record", "model": "kimi-k2", "usage": {"output": 20}, "time": time},
        {"type": "tools.update_store", "key": "todo", "value": [{"title": "count", "status": "done"}], "time": time},
        {"type": "context.apply_compaction", "summary": "Short.", "contextSummary": "There is pears.txt.", "time": time}
        | {"compactedCount": 3, "keptUserMessageCount": 1},
        loop("step.begin", uuid="s2", step=2),
        loop("content.part", stepUuid="s2", part={"type": "text", "text": "Only pears.txt."}),
        step_end("s2", 7),
        said("user", "Wrong."),
        {"type": "context.undo", "count": 1, "time": time},
    ]


def make_kimi(folder: Path) -> Path:
    session = folder / "sessions" / "wd_shop" / "session_91f0"
    write_json(session / "state.json", {"title": "Pears", "workDir": "/home/kim/shop", "agents": {"main": {}}})
    return write_lines(session / "agents" / "main" / "wire.jsonl", kimi_records())


def make_kimi_cli_wire(folder: Path) -> Path:
    def wire(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": 1772618400.5, "message": {"type": kind, "payload": payload}}

    call = {"name": "Shell", "arguments": '{"command": "ls"}'}
    child = {"type": "ContentPart", "payload": {"type": "text", "text": "17."}}
    used = {"input_other": 100, "output": 20, "input_cache_read": 50, "input_cache_creation": 0}
    session = folder / "sessions" / "hash" / "81aa"
    write_lines(
        session / "context.jsonl", [{"role": "_checkpoint", "id": 0}, {"role": "user", "content": "Which files?"}]
    )
    return write_lines(
        session / "wire.jsonl",
        [
            {"type": "metadata", "protocol_version": "1.2"},
            wire("TurnBegin", user_input="Which files?"),
            wire("StepBegin", n=1),
            wire("ContentPart", type="think", think="List them.", encrypted=None),
            wire("ToolCall", type="function", id="c1", function=call),
            wire("SubagentEvent", parent_tool_call_id="c1", event=child),
            wire(
                "ToolResult", tool_call_id="c1", return_value={"is_error": False, "output": "pears.txt", "message": ""}
            ),
            wire("StatusUpdate", token_usage=used),
            wire("StepBegin", n=2),
            wire("ContentPart", type="text", text="Only pears.txt."),
            wire("TurnEnd"),
        ],
    )


def make_kimi_cli_context(folder: Path) -> Path:
    call = {"type": "function", "id": "c1", "function": {"name": "Shell", "arguments": '{"command": "ls"}'}}
    thinking = [{"type": "think", "think": "List them.", "encrypted": None}]
    return write_lines(
        folder / "sessions" / "hash" / "82bb" / "context.jsonl",
        [
            {"role": "_system_prompt", "content": "You are careful."},
            {"role": "user", "content": "Which files?"},
            {"role": "_checkpoint", "id": 0},
            {"role": "assistant", "content": thinking, "tool_calls": [call]},
            {"role": "tool", "content": "pears.txt", "tool_call_id": "c1"},
            {"role": "_usage", "token_count": 170},
            {"role": "assistant", "content": "Only pears.txt."},
        ],
    )


# ---- pi --------------------------------------------------------------------------------------------------------------


def pi_entries() -> list[dict[str, Any]]:
    def entry(number: int, kind: str, parent: int | None, **fields: Any) -> dict[str, Any]:
        above = None if parent is None else f"id{parent}"
        return {"type": kind, "id": f"id{number}", "parentId": above, "timestamp": f"{T0}{number:02d}Z", **fields}

    def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
        cost = {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003}
        used = {"input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 5, "totalTokens": 175, "cost": cost}
        return {
            "role": "assistant",
            "content": list(blocks),
            "model": "claude-sonnet",
            "usage": used,
            "stopReason": "stop",
        }

    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": False}
    return [
        {"type": "session", "version": 3, "id": "91ab0000", "timestamp": f"{T0}00Z", "cwd": "/home/kim/shop"},
        entry(1, "model_change", None, provider="anthropic", modelId="claude-sonnet"),
        entry(2, "message", 1, message={"role": "user", "content": "Which files? どのファイル?"}),
        entry(3, "message", 2, message=answer({"type": "thinking", "thinking": "List them."}, call)),
        entry(4, "message", 3, message={**result, "content": [{"type": "text", "text": "pears.txt"}]}),
        entry(5, "message", 4, message=answer({"type": "text", "text": "Only pears.txt."})),
        entry(6, "message", 5, message={"role": "user", "content": [{"type": "text", "text": "Wrong branch."}]}),
        entry(7, "message", 5, message={"role": "user", "content": "And apples?"}),
        entry(8, "compaction", 7, summary="There is pears.txt.", firstKeptEntryId="id7", tokensBefore=170),
        entry(9, "message", 8, message=answer({"type": "text", "text": "No apples."})),
    ]


def make_pi(folder: Path) -> Path:
    return write_lines(folder / "sessions" / "--home-kim-shop--" / "2026-03-04T10-00-00_91ab.jsonl", pi_entries())


# ---- aider -----------------------------------------------------------------------------------------------------------

AIDER = """
# aider chat started at 2026-03-04 10:00:00

# aider chat started at 2026-03-04 10:05:00

> Aider v0.86.0__
> Main model: claude-sonnet with diff edit format__

#### Which files?__
#### どのファイル?__

There is one:

```
> quoted in a block
#### heading in a block
```

> a quotation of the answer

> Tokens: 3.7k sent, 1.2k cache hit, 52 received.
Cost: $0.02 message, $0.13 session.__
> Applied edit to pears.txt__

#### /exit__
""".replace("__\n", "  \n")  # aider ends its lines with two spaces


def make_aider(folder: Path) -> Path:
    return write(folder / ".aider.chat.history.md", AIDER)


# ---- SWE-agent -------------------------------------------------------------------------------------------------------


def swe_agent_run() -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    step = {
        "action": "ls",
        "observation": "pears.txt",
        "response": "I look.",
        "thought": "I look.",
        "execution_time": 0.25,
    }
    config = {"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"id": "kim__shop-1", "text": "Count"}}
    return {
        "environment": "main",
        "trajectory": [{**step, "state": {"working_dir": "/shop"}}],
        "history": [
            {"role": "system", "content": "You are a programmer.", "agent": "main", "message_type": "system_prompt"},
            {"role": "user", "content": [{"type": "text", "text": "Which files?"}], "agent": "main"},
            {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "ls", "tool_calls": [call]}
            | {"thinking_blocks": [{"type": "thinking", "thinking": "List them."}]},
            {"role": "tool", "content": "pears.txt", "tool_call_ids": ["call_1"], "message_type": "observation"},
        ],
        "info": {
            "exit_status": "submitted",
            "model_stats": {"instance_cost": 0.5, "tokens_sent": 1000, "tokens_received": 50, "api_calls": 1},
        },
        "replay_config": json.dumps(config),
    }


def make_swe_agent(folder: Path) -> Path:
    return write_json(folder / "run" / "kim__shop-1" / "kim__shop-1.traj", swe_agent_run())


def make_swe_agent_plain(folder: Path) -> Path:
    step = {
        "action": "ls\n",
        "observation": "pears.txt",
        "response": "I look.\n```\nls\n```",
        "thought": "I look.",
        "state": "{}",
    }
    history = [
        {"role": "system", "content": "You are a programmer.", "agent": "primary"},
        {"role": "user", "content": "Which files?", "agent": "primary"},
        {
            "role": "assistant",
            "content": "I look.\n```\nls\n```",
            "thought": "I look.",
            "action": "ls\n",
            "agent": "primary",
        },
        {"role": "user", "content": "pears.txt", "agent": "primary"},
    ]
    return write_json(folder / "run" / "plain.traj", {"trajectory": [step], "history": history, "info": {}})


# ---- mini-swe-agent --------------------------------------------------------------------------------------------------


def make_mini(folder: Path) -> Path:
    used = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 50}}
    response = {"id": "r1", "model": "claude-sonnet", "usage": used}
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "system", "content": "You use bash."},
        {"role": "user", "content": "Which files?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_content": "List them."}
        | {"extra": {"response": response, "cost": 0.01, "timestamp": 1772618400.0, "actions": [{"command": "ls"}]}},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "pears.txt",
            "extra": {"returncode": 1, "raw_output": "pears.txt"},
        },
        {"role": "exit", "content": "done", "extra": {"exit_status": "Submitted", "submission": "17"}},
    ]
    info = {
        "mini_version": "2.0.0",
        "exit_status": "Submitted",
        "config": {"model": {"model_name": "anthropic/claude"}},
    }
    run = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": "kim__shop-1"}
    return write_json(folder / "kim__shop-1.traj.json", run)


def make_mini_bare(folder: Path) -> Path:
    messages = [
        {"role": "system", "content": "You use bash."},
        {"role": "user", "content": "Which files?"},
        {"role": "assistant", "content": "I look.\n\n```mswea_bash_command\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\npears.txt\n</output>"},
    ]
    return write_json(folder / "last.traj.json", messages)


# ---- OpenHands -------------------------------------------------------------------------------------------------------


def openhands_events() -> list[dict[str, Any]]:
    def event(number: int, source: str, **fields: Any) -> dict[str, Any]:
        return {"id": number, "timestamp": f"{T0}{number:02d}.000001", "source": source, "message": "", **fields}

    def metadata(name: str, call_id: str, answer: str, *calls: dict[str, Any]) -> dict[str, Any]:
        details = {"cached_tokens": 50}
        used = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": details}
        message = {"role": "assistant", "content": "I look.", "tool_calls": list(calls)}
        response = {"id": answer, "model": "claude-sonnet", "choices": [{"message": message}], "usage": used}
        return {
            "function_name": name,
            "tool_call_id": call_id,
            "model_response": response,
            "total_calls_in_response": 2,
        }

    def call(call_id: str, name: str) -> dict[str, Any]:
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"command": "ls"}'}}

    both = (call("c1", "execute_bash"), call("c2", "think"))
    one, two = metadata("execute_bash", "c1", "r1", *both), metadata("think", "c2", "r1", *both)
    return [
        event(0, "agent", action="system", args={"content": "You are OpenHands."}),
        event(1, "user", action="message", args={"content": "Which files?", "image_urls": None}),
        event(2, "user", action="recall", args={"query": "Which"}),
        event(3, "environment", observation="recall", content="Added", extras={"repo_instructions": "Be kind."}),
        event(
            4,
            "agent",
            action="run",
            args={"command": "ls"},
            tool_call_metadata=one,
            llm_metrics={"accumulated_cost": 0.25},
        ),
        event(5, "agent", action="think", args={"thought": "Hm."}, tool_call_metadata=two),
        event(
            6,
            "agent",
            observation="run",
            cause=4,
            content="pears.txt",
            extras={},
            success=False,
            tool_call_metadata=one,
        ),
        event(7, "agent", observation="think", cause=5, content="Logged.", extras={}, tool_call_metadata=two),
        event(8, "environment", observation="agent_state_changed", content="", extras={"agent_state": "running"}),
        event(
            9, "agent", action="delegate", args={"agent": "Counter", "inputs": {"task": "Count pears"}, "thought": ""}
        ),
        event(10, "agent", action="message", args={"content": "17."}),
        event(11, "agent", observation="delegate", cause=9, content="17", extras={}),
        event(
            12,
            "agent",
            action="task_tracking",
            args={"command": "plan", "task_list": [{"title": "count"}], "thought": ""},
        ),
        event(
            13,
            "agent",
            action="condensation",
            args={"forgotten_event_ids": [4, 5, 6, 7], "summary": "pears.txt is there."},
        ),
        event(14, "agent", action="message", args={"content": "Only pears.txt."}),
    ]


def make_openhands(folder: Path) -> Path:
    return write_json(folder / "trajectory.json", openhands_events())


def make_openhands_evaluation(folder: Path) -> Path:
    line = {"instance_id": "kim__shop-1", "test_result": {"git_patch": "diff"}, "history": openhands_events()}
    model = {"llm_config": {"model": "openai/gpt-4o"}}
    pairs = [openhands_events()[:2], openhands_events()[13:]]
    other = {"instance_id": "kim__shop-2", "test_result": {}, "history": pairs, "metadata": model}
    return write_lines(folder / "output.jsonl", [{**line, "metadata": model, "instance": {"repo": "kim/shop"}}, other])


def make_openhands_folder(folder: Path) -> Path:
    events = openhands_events()
    paths = [write_json(folder / "sessions" / "abc" / "events" / f"{one['id']}.json", one) for one in events]
    return paths[-1]


def openhands_sdk_events() -> list[dict[str, Any]]:
    def event(number: int, kind: str, source: str, **fields: Any) -> dict[str, Any]:
        return {"id": f"ev{number}", "timestamp": f"{T0}{number:02d}.5", "source": source, "kind": kind, **fields}

    def action(number: int, call_id: str, **fields: Any) -> dict[str, Any]:
        call = {"id": call_id, "name": "terminal", "arguments": '{"command": "ls"}', "origin": "completion"}
        thought = [{"type": "text", "text": "I look."}] if call_id == "c1" else []
        named = {"tool_name": "terminal", "tool_call_id": call_id, "tool_call": call, "llm_response_id": "r1"}
        asked = {"kind": "TerminalAction", "command": "ls"}
        return event(number, "ActionEvent", "agent", thought=thought, action=asked, **named, **fields)

    def result(number: int, call_id: str) -> dict[str, Any]:
        observation = {
            "kind": "TerminalObservation",
            "content": [{"type": "text", "text": "pears.txt"}],
            "is_error": False,
        }
        named = {"tool_name": "terminal", "tool_call_id": call_id, "action_id": "ev2"}
        return event(number, "ObservationEvent", "environment", observation=observation, **named)

    def said(number: int, role: str, text: str) -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        return event(number, "MessageEvent", "agent" if role == "assistant" else "user", llm_message=message)

    return [
        event(0, "SystemPromptEvent", "agent", system_prompt={"type": "text", "text": "You are OpenHands."}, tools=[]),
        said(1, "user", "Which files?"),
        action(2, "c1", reasoning_content="List them."),
        action(3, "c2"),
        result(4, "c1"),
        event(5, "AgentErrorEvent", "agent", tool_name="terminal", tool_call_id="c2", error="refused"),
        event(6, "ConversationStateUpdateEvent", "environment", key="execution_status", value="running"),
        event(7, "Condensation", "environment", forgotten_event_ids=["ev2", "ev3", "ev4", "ev5"], summary="pears.txt."),
        said(8, "assistant", "Only pears.txt."),
    ]


def make_openhands_sdk(folder: Path) -> Path:
    return write_json(folder / "trajectory.json", openhands_sdk_events())


def make_openhands_sdk_folder(folder: Path) -> Path:
    home = folder / "conversations" / "5f00"
    used = {
        "response_id": "r1",
        "model": "claude-sonnet",
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cache_read_tokens": 50,
    }
    stats = {"usage_to_metrics": {"agent": {"token_usages": [used], "costs": [{"model": "claude", "cost": 0.5}]}}}
    state = {
        "id": "5f00-full",
        "agent": {"llm": {"model": "claude"}},
        "stats": stats,
        "workspace": {"working_dir": "/shop"},
    }
    write_json(home / "base_state.json", state)
    paths = [
        write_json(home / "events" / f"event-{number:05d}-{one['id']}.json", one)
        for number, one in enumerate(openhands_sdk_events())
    ]
    return paths[-1]


# ---- tau-bench -------------------------------------------------------------------------------------------------------


def make_tau(folder: Path) -> Path:
    call = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"what": "pears"}'}}
    traj = [
        {"role": "system", "content": "# Shop policy"},
        {"role": "user", "content": "How many pears?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "count", "content": "17"},
        {"role": "assistant", "content": "17 pears."},
    ]
    info = {"task": {"user_id": "kim", "instruction": "You want pears."}, "user_cost": 0.01}
    trial = {"task_id": 3, "reward": 1.0, "info": info, "traj": traj, "trial": 0}
    return write_json(folder / "gpt-4o-shop.json", [trial, {**trial, "trial": 1, "traj": traj[:2]}])


def make_tau2(folder: Path) -> Path:
    def tool(call_id: str, name: str, who: str) -> dict[str, Any]:
        return {"id": call_id, "name": name, "arguments": {"what": "pears"}, "requestor": who}

    used = {"prompt_tokens": 100, "completion_tokens": 20}
    messages: list[dict[str, Any]] = [
        {
            "role": "assistant",
            "content": "Hi!",
            "tool_calls": None,
            "turn_idx": 0,
            "timestamp": f"{T0}00.1",
            "cost": 0.0,
        },
        {
            "role": "user",
            "content": None,
            "tool_calls": [tool("u1", "look", "user")],
            "turn_idx": 1,
            "timestamp": f"{T0}01",
        },
        {"id": "u1", "role": "tool", "content": "dark", "requestor": "user", "error": False, "timestamp": f"{T0}02"},
        {"role": "user", "content": "How many pears?", "tool_calls": None, "timestamp": f"{T0}03"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [tool("a1", "count", "assistant")],
            "cost": 0.02,
            "usage": used,
        },
        {"id": "a1", "role": "tool", "content": "17", "requestor": "assistant", "error": True, "timestamp": f"{T0}05"},
        {"role": "assistant", "content": "17 pears.", "cost": 0.01, "usage": used, "timestamp": f"{T0}06"},
    ]
    simulation = {
        "id": "51a1-0000",
        "task_id": "3",
        "start_time": f"{T0}00",
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0},
        "messages": messages,
        "trial": 0,
    }
    info = {"num_trials": 1, "agent_info": {"llm": "gpt-4.1"}, "environment_info": {"domain_name": "shop"}}
    return write_json(
        folder / "shop_run.json", {"timestamp": T0, "info": info, "tasks": [{"id": "3"}], "simulations": [simulation]}
    )


#: Format, how a file of it is made, whether it is lines of JSON, whether it is JSON at all.
AGENT_SAMPLES: list[tuple[str, Callable[[Path], Path], bool, bool]] = [
    ("gemini", make_gemini, False, True),
    ("gemini", make_gemini_lines, True, True),
    ("gemini", make_gemini_logs, False, True),
    ("gemini", make_gemini_checkpoint, False, True),
    ("copilot", make_copilot, True, True),
    ("copilot", make_copilot_document, False, True),
    ("cursor", make_cursor, True, True),
    ("cursor", make_cursor_store, False, False),
    ("kimi", make_kimi, True, True),
    ("kimi", make_kimi_cli_wire, True, True),
    ("kimi", make_kimi_cli_context, True, True),
    ("pi", make_pi, True, True),
    ("aider", make_aider, False, False),
    ("swe-agent", make_swe_agent, False, True),
    ("swe-agent", make_swe_agent_plain, False, True),
    ("mini-swe-agent", make_mini, False, True),
    ("mini-swe-agent", make_mini_bare, False, True),
    ("openhands", make_openhands, False, True),
    ("openhands", make_openhands_evaluation, True, True),
    ("openhands", make_openhands_folder, False, True),
    ("openhands", make_openhands_sdk, False, True),
    ("openhands", make_openhands_sdk_folder, False, True),
    ("tau-bench", make_tau, False, True),
    ("tau-bench", make_tau2, False, True),
]
