"""What tests of importers share: a small hand-made file of every format, and ways to spoil one.

A format that is added gets its ``Sample`` here; the tests of recognition and of malformed files run over all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.importing_agents import AGENT_SAMPLES


@dataclass(frozen=True, slots=True)
class Sample:
    """A good file of a format: ``make`` writes it below a folder, under the name it has in real life."""

    format: str
    make: Callable[[Path], Path]
    is_lines: bool = True  # JSON Lines: a bad line does not spoil the others
    is_json: bool = True  # made of JSON at all


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    """A JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


# ---- OpenAI chat -----------------------------------------------------------------------------------------------------

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a careful clerk."},
    {"role": "user", "content": "How many pears are in the store? 梨はいくつ?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "count", "arguments": '{"what": "pears"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "17"},
    {"role": "assistant", "content": "There are 17 pears."},
]


def make_chat_lines(folder: Path) -> Path:
    return write_lines(folder / "chat.jsonl", CHAT)


def make_chat_document(folder: Path) -> Path:
    return write_json(folder / "chat.json", {"model": "gpt-4o", "messages": CHAT})


# ---- Claude Code -----------------------------------------------------------------------------------------------------

CLAUDE_SESSION = "0b4d5c1e-2f6a-4d43-9d0e-6f8f0f4b7a11"


def claude_record(number: int, kind: str, message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "parentUuid": f"uuid-{number - 1}" if number > 1 else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/kim/shop",
        "sessionId": CLAUDE_SESSION,
        "version": "2.1.12",
        "gitBranch": "main",
        "type": kind,
        "message": message,
        "uuid": f"uuid-{number}",
        "timestamp": f"2026-01-20T11:57:{number:02d}.000Z",
        **fields,
    }


def claude_answer(identity: str, *blocks: dict[str, Any], output: int = 20) -> dict[str, Any]:
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 100,
        "output_tokens": output,
    }
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(blocks),
        "usage": usage,
    }


def claude_records() -> list[dict[str, Any]]:
    asked = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "pears.txt", "is_error": False}
    return [
        {"type": "summary", "summary": "Counting pears", "leafUuid": "uuid-5"},
        claude_record(1, "user", {"role": "user", "content": "Which files are here? どのファイル?"}),
        claude_record(2, "assistant", claude_answer("msg_1", {"type": "text", "text": "I look."}, output=3)),
        claude_record(3, "assistant", claude_answer("msg_1", asked)),
        claude_record(4, "user", {"role": "user", "content": [answered]}, toolUseResult={"stdout": "pears.txt"}),
        claude_record(5, "assistant", claude_answer("msg_2", {"type": "text", "text": "Only pears.txt."})),
    ]


def make_claude_code(folder: Path) -> Path:
    return write_lines(folder / "projects" / "-home-kim-shop" / f"{CLAUDE_SESSION}.jsonl", claude_records())


# ---- Codex -----------------------------------------------------------------------------------------------------------

CODEX_SESSION = "019a2b3c-1111-7222-8333-444455556666"


def codex_record(number: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": f"2026-02-03T08:00:{number:02d}.500Z", "type": kind, "payload": payload}


def codex_usage(total: int, last: int) -> dict[str, Any]:
    def figures(tokens: int) -> dict[str, int]:
        return {
            "input_tokens": tokens,
            "cached_input_tokens": tokens // 2,
            "output_tokens": 10,
            "reasoning_output_tokens": 4,
            "total_tokens": tokens + 10,
        }

    info = {"total_token_usage": figures(total), "last_token_usage": figures(last), "model_context_window": 272_000}
    return {"type": "token_count", "info": info}


def codex_records() -> list[dict[str, Any]]:
    said = [{"type": "input_text", "text": "Which files are here? どのファイル?"}]
    meta = {
        "id": CODEX_SESSION,
        "timestamp": "2026-02-03T08:00:00.000Z",
        "cwd": "/home/kim/shop",
        "originator": "codex_cli_rs",
        "cli_version": "0.98.0",
        "git": {"branch": "main", "repository_url": "https://github.com/kim/shop.git"},
    }
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_1"}
    spoken = [{"type": "output_text", "text": "Only pears.txt."}]
    return [
        codex_record(0, "session_meta", meta),
        codex_record(1, "response_item", {"type": "message", "role": "user", "content": said}),
        codex_record(1, "event_msg", {"type": "user_message", "message": "Which files are here? どのファイル?"}),
        codex_record(2, "turn_context", {"cwd": "/home/kim/shop", "model": "gpt-5-codex"}),
        codex_record(3, "response_item", {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}),
        codex_record(3, "response_item", call),
        codex_record(3, "event_msg", codex_usage(100, 100)),
        codex_record(4, "response_item", {"type": "function_call_output", "call_id": "call_1", "output": "pears.txt"}),
        codex_record(5, "event_msg", {"type": "agent_message", "message": "Only pears.txt."}),
        codex_record(5, "response_item", {"type": "message", "role": "assistant", "content": spoken}),
        codex_record(5, "event_msg", codex_usage(220, 120)),
    ]


def make_codex(folder: Path) -> Path:
    name = f"rollout-2026-02-03T08-00-00-{CODEX_SESSION}.jsonl"
    return write_lines(folder / "sessions" / "2026" / "02" / "03" / name, codex_records())


SAMPLES: list[Sample] = [
    Sample("openai-chat", make_chat_lines),
    Sample("openai-chat", make_chat_document, is_lines=False),
    Sample("claude-code", make_claude_code),
    Sample("codex", make_codex),
    *(Sample(*sample) for sample in AGENT_SAMPLES),
]
