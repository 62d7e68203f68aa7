"""The real samples, each against a second reading that knows nothing of the importer: nothing is missing or moved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon.importers.registry import HEAD_BYTES, recognised
from tests.importing_agents import Told, told

SHARED = Path(os.environ.get("ORIHON_BENCH_DATA") or Path(__file__).parents[4] / "shared")
NATIVE = SHARED / "data" / "native"
pytestmark = pytest.mark.skipif(not NATIVE.is_dir(), reason="the samples of other agents are not here")

#: Who says what, the ids of calls, the id that is answered.
Line = tuple[str, str, list[str], str | None]


def lines(session: Told) -> list[Line]:
    """What the importer says, with the pieces of an answer put together."""
    found: list[Line] = []
    last: str | None = None
    for item in session.said:
        message = item.message
        line = (message.role, message.text, [call.id for call in message.tool_calls], message.tool_call_id)
        if item.answer is not None and item.answer == last:
            for index in range(len(found) - 1, -1, -1):
                if found[index][0] == "assistant":
                    role, said, calls, _ = found[index]
                    found[index] = (role, "\n".join(filter(None, (said, line[1]))), calls + line[2], None)
                    break
            continue
        if message.role != "tool":
            last = item.answer
        found.append(line)
    return found


def document(name: str) -> Any:
    return json.loads((NATIVE / name).read_text(encoding="utf-8"))


def records(name: str) -> Iterator[Any]:
    with (NATIVE / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@pytest.mark.parametrize(
    ("folder", "form"),
    [
        *[(name, name) for name in ("gemini", "copilot", "cursor", "kimi", "pi", "aider", "swe-agent")],
        *[(name, name) for name in ("mini-swe-agent", "openhands", "tau-bench")],
    ],
)
def test_every_sample_is_recognised_and_read_without_a_problem(folder: str, form: str) -> None:
    for path in sorted((NATIVE / folder).iterdir()):
        with path.open("rb") as file:
            reader = recognised(file.read(HEAD_BYTES), path)
        assert reader is not None
        assert reader.name == form
        session = told(form, path)
        assert session.problems == []
        assert session.said


def test_swe_agent_with_function_calling() -> None:
    name = "swe-agent/marshmallow-1867-function-calling.traj"
    run = document(name)
    expected = [
        (
            said["role"],
            said["content"],
            [call["id"] for call in said.get("tool_calls") or []],
            said["tool_call_ids"][0] if said["role"] == "tool" else None,
        )
        for said in run["history"]
    ]
    read = told("swe-agent", NATIVE / name)
    assert lines(read) == expected
    assert [tool.duration_ms for tool in read.tools] == [step["execution_time"] * 1000 for step in run["trajectory"]]


def test_swe_agent_without_function_calling() -> None:
    name = "swe-agent/ctf-web-i-got-id.traj"
    run = document(name)
    read = told("swe-agent", NATIVE / name)
    assert lines(read) == [(said["role"], said["content"], [], None) for said in run["history"]]
    assert [tool.arguments["command"] for tool in read.tools] == [step["action"].strip() for step in run["trajectory"]]


def test_mini_swe_agent() -> None:
    name = "mini-swe-agent/github_issue.traj.json"
    assert lines(told("mini-swe-agent", NATIVE / name)) == [
        (said["role"], said["content"], [], None) for said in document(name)
    ]


def test_tau_bench() -> None:
    name = "tau-bench/gpt-4o-airline-excerpt.json"
    expected = [
        (
            said["role"],
            said["content"] or "",
            [call["id"] for call in said.get("tool_calls") or []],
            said.get("tool_call_id"),
        )
        for trial in document(name)
        for said in trial["traj"]
    ]
    assert lines(told("tau-bench", NATIVE / name)) == expected


@pytest.mark.parametrize(
    "name", ["openhands/basic.json", "openhands/basic_gui_mode.json", "openhands/eval-output-ponyc-4588.jsonl"]
)
def test_openhands(name: str) -> None:
    events = next(records(name))["history"] if name.endswith("l") else document(name)
    answers: set[str] = set()
    expected: list[Line] = []
    used: list[tuple[str, int, int]] = []
    for event in events:
        told_of = event.get("tool_call_metadata") or {}
        if event.get("action") in ("message", "system") and not told_of:
            role = "system" if event["action"] == "system" else {"user": "user", "agent": "assistant"}[event["source"]]
            expected.append((role, event["args"]["content"], [], None))
        elif "action" in event and told_of:
            response = told_of["model_response"]
            if response["id"] not in answers:
                answers.add(response["id"])
                said = response["choices"][0]["message"]
                expected.append(("assistant", said["content"] or "", [call["id"] for call in said["tool_calls"]], None))
                spent = response["usage"]
                used.append((response["model"], spent["prompt_tokens"], spent["completion_tokens"]))
        elif "observation" in event and told_of:
            expected.append(("tool", event["content"] or event["message"], [], told_of["tool_call_id"]))
        elif event.get("observation") == "error":
            expected.append(("user", event["content"], [], None))
    read = told("openhands", NATIVE / name)
    assert lines(read) == expected
    assert [(model, asked, said) for model, asked, _, said, _ in read.used] == used
    assert [item.timestamp for item in read.said] == sorted(item.timestamp or "" for item in read.said)


def test_aider() -> None:
    name = "aider/chat-history-2024-08-22.md"
    written = (NATIVE / name).read_text(encoding="utf-8")
    read = told("aider", NATIVE / name)
    asked = [line.removeprefix("#### ").rstrip() for line in written.splitlines() if line.startswith("#### ")]
    said = [line for role, text in read.lines if role == "user" for line in text.splitlines()]
    assert said == asked
    reports = [line for line in written.splitlines() if line.startswith("> Tokens: ")]
    assert len(read.used) == len(reports)
    assert [f"{output} received" in report for (*_, output, _), report in zip(read.used, reports, strict=True)].count(
        True
    ) > 5
    everything = "\n".join(text for _, text in read.lines)
    sessions = written.split("# aider chat started at ")[1:]
    for line in (line for session in sessions if "\n#### " in session for line in session.splitlines()[1:]):
        bare = line.removeprefix("#### ") if line.startswith("#### ") else line
        bare = bare.removeprefix("> ").strip()
        assert bare in everything, line
    starts = [line for line in written.splitlines() if line.startswith("# aider chat started at ")]
    assert 0 < len(read.threads) <= len(starts)


def test_pi() -> None:
    entries = list(records("pi/small.jsonl"))
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    read = told("pi", NATIVE / "pi/small.jsonl")
    assert lines(read) == [(one["role"], one["content"][0]["text"], [], None) for one in messages]
    spent = [one["usage"] for one in messages if "usage" in one]
    assert [(asked, said) for _, asked, _, said, _ in read.used] == [(one["input"], one["output"]) for one in spent]
    assert [fold.text for fold in read.folds] == [one["summary"] for one in entries if one["type"] == "compaction"]


def test_kimi() -> None:
    name = "kimi/assistant_tools.jsonl"
    expected: list[Line] = []
    steps: dict[str, int] = {}
    used = []
    for record in records(name):
        event = record.get("event") or {}
        kind = event.get("type") or record["type"]
        if kind == "config.update" and record.get("systemPrompt"):
            if ("system", record["systemPrompt"], [], None) in expected:
                continue  # said again when a session is taken up
            expected.append(("system", record["systemPrompt"], [], None))
        elif kind == "context.append_message":
            said = record["message"]
            text = "\n".join(part["text"] for part in said["content"] if part["type"] == "text")
            expected.append((said["role"], text, [], None))
        elif kind in ("content.part", "tool.call"):
            step = event["stepUuid"]
            if step not in steps:
                steps[step] = len(expected)
                expected.append(("assistant", "", [], None))
            role, text, calls, _ = expected[steps[step]]
            if kind == "tool.call":
                calls = [*calls, event["toolCallId"]]
            elif event["part"]["type"] == "text":
                text = "\n".join(filter(None, (text, event["part"]["text"])))
            expected[steps[step]] = (role, text, calls, None)
        elif kind == "tool.result":
            output = event["result"]["output"]
            shown = output if isinstance(output, str) else "\n".join(part.get("text", "") for part in output)
            expected.append(("tool", shown, [], event["toolCallId"]))
        elif kind == "step.end" and event["uuid"] in steps:
            used.append(
                (sum(value for key, value in event["usage"].items() if key != "output"), event["usage"]["output"])
            )
    read = told("kimi", NATIVE / name)
    assert lines(read) == expected
    assert [(asked, said) for _, asked, _, said, _ in read.used] == used
    assert [fold.text for fold in read.folds] == [
        record["contextSummary"] for record in records(name) if record["type"] == "context.apply_compaction"
    ]


def test_gemini() -> None:
    session = document("gemini/large.json")
    expected: list[Line] = []
    for said in session["messages"]:
        text = said.get("content") or "".join(part["text"] for part in said.get("parts", []))
        if said["type"] in ("gemini", "model"):
            expected.append(("assistant", text, [call["id"] for call in said.get("toolCalls", [])], None))
        elif said["type"] == "user":
            expected.append(("user", text, [], None))
        for call in said.get("toolCalls", []):
            expected.append(("tool", call["result"][0]["functionResponse"]["response"]["output"], [], call["id"]))
    read = told("gemini", NATIVE / "gemini/large.json")
    assert lines(read) == expected
    spent = [said["tokens"] for said in session["messages"] if said.get("tokens")]
    assert [(asked, cached, said) for _, asked, cached, said, _ in read.used] == [
        (one["input"], one["cached"], one["output"] + one["thoughts"]) for one in spent
    ]


def test_copilot() -> None:
    expected: list[tuple[str, Line]] = []
    for event in records("copilot/small.jsonl"):
        data, kind = event["data"], event["type"]
        thread = data.get("parentToolCallId") or ""
        if kind in ("user.message", "system.message", "system.notification"):
            role = "user" if kind == "user.message" else "system"
            expected.append((thread, (role, data["content"], [], None)))
        elif kind == "assistant.message":
            calls = [call["toolCallId"] for call in data["toolRequests"]]
            expected.append((thread, ("assistant", data["content"], calls, None)))
        elif kind == "tool.execution_complete":
            expected.append((thread, ("tool", data["result"]["content"], [], data["toolCallId"])))
    read = told("copilot", NATIVE / "copilot/small.jsonl")
    main, child = read.threads
    for thread, named in ((main, ""), (child, "[trimmed for fixture]")):
        found = lines(Told(said=read.of[thread.id]))
        assert found == [line for owner, line in expected if owner == named]


def test_cursor() -> None:
    expected: list[Line] = []
    calls_made = 0  # one at a time, none with an id
    for record in records("cursor/large.jsonl"):
        blocks = record["message"]["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            expected.append(("tool", block["content"][0]["text"], [], f"call_{calls_made}"))
        if not results:
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            calls_made += any(block["type"] == "tool_use" for block in blocks)
            calls = [f"call_{calls_made}"] if any(block["type"] == "tool_use" for block in blocks) else []
            expected.append((record["role"], text, calls, None))
    assert lines(told("cursor", NATIVE / "cursor/large.jsonl")) == expected
