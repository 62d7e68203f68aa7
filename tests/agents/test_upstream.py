"""The provider of these tests: the events of each wire in order, what it counts as cached, what it refuses."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.upstream import CutConnection, Fault, Reply, Slow, Upstream, overflowing
from tests.upstream.cache import kept
from tests.upstream.records import Usage
from tests.upstream.wires import limited

PATIENCE = 120
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SAID = Reply("Let me look.", calls=[("run", {"command": "ls -l"})], reasoning="It may be there.", piece=100)
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}],
    "responses": [{"type": "function", "name": "run", "parameters": {"type": "object"}}],
    "messages": [{"name": "run", "input_schema": {"type": "object"}}],
}


def asked(wire: str, *said: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A body that asks a model."""
    history = list(said) or [{"role": "user", "content": "Where is it?"}]
    name = "input" if wire == "responses" else "messages"
    needed = {"max_tokens": 100} if wire == "messages" else {}
    return {"model": "m", name: history, "tools": TOOLS[wire], **needed, **more}


def send(upstream: Upstream, path: str, body: Any = None, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(upstream.base_url).netloc, timeout=PATIENCE)
    try:
        raw = None if body is None else json.dumps(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET" if raw is None else "POST", path, raw, names)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def events(raw: bytes) -> list[dict[str, Any]]:
    """The values of a stream; the name of each is in it, too."""
    found = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines.get("data", "[DONE]") != "[DONE]":
            found.append(json.loads(lines["data"]))
            assert lines.get("event", "") == found[-1].get("type", "")
    return found


def test_the_events_of_chat_completions() -> None:
    with Upstream([SAID, SAID]) as upstream:
        status, headers, raw = send(upstream, PATHS["chat"], asked("chat", stream=True))
        assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        assert raw.endswith(b"data: [DONE]\n\n")
        first, *_, last = events(raw)
        deltas = [next(iter(event["choices"][0]["delta"]), "") for event in events(raw)]
        assert deltas == ["role", "reasoning_content", "content", "tool_calls", "tool_calls", ""]
        assert last["choices"][0]["finish_reason"] == "tool_calls"
        assert "usage" not in first, "nobody asked for it"
        options = {"include_usage": True}
        asking = asked("chat", stream=True, stream_options=options)
        *others, usage = events(send(upstream, PATHS["chat"], asking)[2])
        assert usage["choices"] == []
        assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == usage["usage"]["prompt_tokens"] > 0
        assert {event["usage"] for event in others} == {None}
        assert others[0]["id"] != first["id"]


def test_the_events_of_responses() -> None:
    with Upstream([SAID]) as upstream:
        raw = send(upstream, PATHS["responses"], asked("responses", stream=True))[2]
    found = events(raw)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert [event["type"].removeprefix("response.") for event in found] == [
        "created",
        "in_progress",
        *("output_item.added", "output_item.done"),  # the reasoning
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    done = [event["item"] for event in found if event["type"].endswith("item.done")]
    assert done == found[-1]["response"]["output"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]


def test_the_events_of_messages() -> None:
    with Upstream([SAID]) as upstream:
        raw = send(upstream, PATHS["messages"], asked("messages", stream=True))[2]
    found = events(raw)
    assert [name for name, _ in groupby(event["type"] for event in found)] == [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]
    deltas = [event["delta"]["type"] for event in found if event["type"] == "content_block_delta"]
    assert deltas == ["thinking_delta", "signature_delta", "text_delta", "input_json_delta", "input_json_delta"]
    assert found[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


@pytest.mark.parametrize("wire", PATHS)
def test_a_whole_answer_says_what_a_streamed_one_says(wire: str) -> None:
    with Upstream([SAID]) as upstream:
        status, _, raw = send(upstream, PATHS[wire], asked(wire))
    assert status == 200
    for said in ("Let me look.", "It may be there.", "ls -l", "run"):
        assert said in raw.decode()


def test_every_prefix_is_cached_for_its_key() -> None:
    def usage(*said: str, key: str = "one", wire: str = "chat") -> Usage:
        history = [{"role": "user", "content": text} for text in said]
        send(upstream, PATHS[wire], asked(wire, *history), authorization=key)
        return upstream.requests[-1].usage

    with Upstream(lambda _: Reply("ok")) as upstream:
        assert usage("a" * 400).cached == 0
        longer = usage("a" * 400, "b" * 400)
        assert 100 < longer.cached < longer.input - 100
        assert longer.written == longer.input - longer.cached
        assert usage("a" * 400, "b" * 400, key="two").cached == 0
        assert usage("a" * 400, "b" * 400, wire="responses").cached == 0
        tools_only = usage("c" * 400).cached
        assert 0 < tools_only < 100, "the tools come first"
        first, second, *_ = upstream.requests
        assert kept(first, second) == 1.0
        assert kept(second, upstream.requests[-1]) < 0.2


def test_messages_are_cached_where_the_client_says_so() -> None:
    def usage(*said: str, marked: int | None) -> Usage:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text * 400} for text in said]
        if marked is not None:
            blocks[marked]["cache_control"] = {"type": "ephemeral"}
        send(upstream, PATHS["messages"], asked("messages", {"role": "user", "content": blocks}))
        return upstream.requests[-1].usage

    with Upstream(lambda _: Reply("ok")) as upstream:
        assert usage("a", "b", marked=None) == Usage(usage("a", "b", marked=None).input, 0, 0, 1)
        first = usage("a", "b", marked=1)
        assert (first.cached, first.written) == (0, first.input)
        second = usage("a", "b", "c", marked=2)  # the mark has moved on
        assert (second.cached, second.cached + second.written) == (first.input, second.input)
        assert usage("a", "x", "c", marked=2).cached == 0
        assert usage("a", "b", *"d" * 20, marked=-1).cached == first.input
        assert usage("a", "b", *"e" * 21, marked=-1).cached == 0, "too far back"


def test_counts_and_models_take_no_step() -> None:
    with Upstream([Reply("ok")], models=("m", "n")) as upstream:
        body = asked("messages")
        counted = json.loads(send(upstream, "/v1/messages/count_tokens", body)[2])
        send(upstream, PATHS["messages"], body)
        assert counted == {"input_tokens": upstream.requests[-1].usage.input}
        openai = json.loads(send(upstream, "/v1/models")[2])
        anthropic = json.loads(send(upstream, "/v1/models", anthropic_version="2023-06-01")[2])
        assert openai["data"][1]["id"] == anthropic["data"][1]["id"] == anthropic["last_id"] == "n"
        assert send(upstream, "/elsewhere")[0] == send(upstream, "/elsewhere", {})[0] == 404


def test_faults_and_the_end_of_the_script() -> None:
    with Upstream([limited, Fault(500), overflowing, CutConnection(40), Slow(0.01, Reply("late"))]) as upstream:
        status, headers, raw = send(upstream, PATHS["messages"], asked("messages"))
        assert (status, headers["Retry-After"]) == (429, "1")
        assert json.loads(raw)["error"]["type"] == "rate_limit_error"
        assert send(upstream, PATHS["chat"], asked("chat"))[0] == 500
        status, _, raw = send(upstream, PATHS["responses"], asked("responses"))
        assert (status, json.loads(raw)["error"]["code"]) == (400, "context_length_exceeded")
        with pytest.raises(http.client.IncompleteRead):
            send(upstream, PATHS["chat"], asked("chat", stream=True))
        assert b"late" in send(upstream, PATHS["chat"], asked("chat"))[2]
        assert upstream.is_over
        assert send(upstream, PATHS["chat"], asked("chat"))[0] == 410
    with Upstream(lambda _: Reply("ok"), window=50, aside=lambda request: _title(request.body)) as upstream:
        assert send(upstream, PATHS["chat"], asked("chat", {"role": "user", "content": "x" * 400}))[0] == 400
        assert b"A title" in send(upstream, PATHS["chat"], asked("chat", tools=[]))[2]
        assert [request.is_aside for request in upstream.requests] == [False, True]
        assert upstream.flaws == []


def _title(body: Mapping[str, Any]) -> Reply | None:
    return None if body["tools"] else Reply("A title")


def _call(wire: str, call: str = "c1") -> dict[str, Any]:
    if wire == "chat":
        made = {"id": call, "type": "function", "function": {"name": "run", "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [made]}
    if wire == "responses":
        return {"type": "function_call", "call_id": call, "name": "run", "arguments": "{}"}
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "run", "input": {}}]}


def _result(wire: str, call: str = "c1") -> dict[str, Any]:
    if wire == "chat":
        return {"role": "tool", "tool_call_id": call, "content": "done"}
    if wire == "responses":
        return {"type": "function_call_output", "call_id": call, "output": "done"}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "done"}]}


USER = {"role": "user", "content": "go on"}


@pytest.mark.parametrize("wire", PATHS)
def test_calls_and_results_belong_together(wire: str) -> None:
    whole = [USER, _call(wire), _result(wire), _call(wire, "c2"), _result(wire, "c2")]
    broken = {
        "no result": [USER, _call(wire)],
        "a result too late": [USER, _call(wire), USER, _result(wire)] if wire != "responses" else [USER, _call(wire)],
        "no call": [USER, _result(wire)],
        "another's result": [USER, _call(wire), _result(wire, "c2")],
        "two results": [USER, _call(wire), _result(wire), _result(wire)],
        "no history": [],
    }
    with Upstream(lambda _: Reply("ok")) as upstream:
        assert send(upstream, PATHS[wire], asked(wire, *whole))[0] == 200
        assert upstream.flaws == []
        for name, history in broken.items():
            body = asked(wire, USER) | ({"messages": history} if wire != "responses" else {"input": history or None})
            assert send(upstream, PATHS[wire], body)[0] == 400, name
            assert upstream.requests[-1].flaws, name


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ("chat", {"role": "assistant", "content": None}),
        ("chat", {"role": "assistant", "content": "x", "tool_calls": []}),
        ("chat", {"role": "narrator", "content": "x"}),
        ("chat", {"role": "user", "content": None}),
        ("messages", {"role": "system", "content": "x"}),
        ("messages", {"role": "user", "content": ""}),
        ("messages", {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "other"}]}),
        ("responses", {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        ("responses", {"type": "reasoning", "id": "rs_1", "summary": []}),
        ("responses", {"type": "reasoning", "summary": [], "encrypted_content": "other"}),
    ],
)
def test_what_else_is_refused(wire: str, message: dict[str, Any]) -> None:
    with Upstream(lambda _: Reply("ok")) as upstream:
        assert send(upstream, PATHS[wire], asked(wire, USER, message))[0] == 400


def test_what_the_system_says_in_between_needs_a_header() -> None:
    body = asked("messages", USER, {"role": "system", "content": "x"})
    with Upstream(lambda _: Reply("ok")) as upstream:
        beta = "mid-conversation-tool-changes-2026-07-01"
        assert send(upstream, PATHS["messages"], body, anthropic_beta=beta)[0] == 200
        marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
        crowded = asked("messages", {"role": "user", "content": [marked] * 5})
        assert "maximum of 4" in send(upstream, PATHS["messages"], crowded)[2].decode()


def test_a_response_goes_on_from_one_that_was_given() -> None:
    with Upstream([SAID, Reply("done")]) as upstream:
        first = json.loads(send(upstream, PATHS["responses"], asked("responses"))[2])
        call = first["output"][-1]["call_id"]
        later = asked("responses", _result("responses", call), previous_response_id=first["id"])
        assert send(upstream, PATHS["responses"], {**later, "previous_response_id": "resp_other"})[0] == 400
        assert send(upstream, PATHS["responses"], {**later, "input": [USER]})[0] == 400
        assert send(upstream, PATHS["responses"], later)[0] == 200


def test_as_a_process(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"status": 503}, {"text": "again and again", "repeat": True}]))
    command = [sys.executable, "-m", "tests.upstream", "--script", str(script), "--record", str(tmp_path / "kept")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        said = []
        for _ in range(3):
            connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE)
            connection.request("POST", PATHS["chat"], json.dumps(asked("chat")))
            response = connection.getresponse()
            said.append((response.status, b"again" in response.read()))
            connection.close()
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert said == [(503, False), (200, True), (200, True)]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["0001.json", "0002.json", "0003.json"]
