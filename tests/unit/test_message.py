"""Messages come back exactly as the provider wrote them, also from the log; bad ones are refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given

from orihon.errors import InvalidMessage
from orihon.system import jsonio
from orihon.texts import set_language
from orihon.values.message.message import ROLES, Message, Part, ToolCall
from tests.strategies import Json, anthropic_messages, chat_messages, responses_items, tool_calls


@given(chat_messages())
def test_chat_round_trip_is_identical(data: Json) -> None:
    before = copy.deepcopy(data)
    assert Message.from_chat(data).to_chat() == before
    assert data == before


@given(responses_items())
def test_responses_round_trip_is_identical(item: Json) -> None:
    before = copy.deepcopy(item)
    assert Message.from_responses(item).to_responses() == before
    assert item == before


@given(anthropic_messages())
def test_anthropic_round_trip_is_identical(data: Json) -> None:
    before = copy.deepcopy(data)
    assert Message.from_anthropic(data).to_anthropic() == before
    assert data == before


@given(tool_calls())
def test_tool_call_round_trip_is_identical(data: Json) -> None:
    assert ToolCall.from_chat(data).to_chat() == data


@given(chat_messages())
def test_the_log_gives_back_what_the_provider_sent(data: Json) -> None:
    message = Message.from_chat(data)
    record = {"seq": 7, **message.body(), "timestamp": "2026-11-15T00:00:00Z", "tokens": 3, "epoch": 1}
    again = Message.from_body(jsonio.decode(jsonio.encode(record)))
    assert again == message
    assert again.to_chat() == data


@pytest.mark.parametrize(
    "data",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": "", "tool_calls": None, "name": None},
        {"role": "assistant", "content": None, "tool_calls": [], "function_call": None},
        {"role": "user", "content": "x", "$orihon": {"absent": ["content"], "as_sent": {"role": "system"}}},
        {"role": "tool", "content": "21 度", "tool_name": "weather"},
    ],
)
def test_nothing_said_and_not_said_are_kept_apart(data: Json) -> None:
    message = Message.from_chat(data)
    assert message.to_chat() == data
    assert Message.from_body(jsonio.decode(jsonio.encode(message.body()))).to_chat() == data


def test_body_has_its_fields_in_the_order_of_the_log() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = Message.build(
        "assistant",
        [{"type": "text", "text": "はい"}],
        tool_name="t",
        tool_calls=[call],
        tool_call_id="c0",
        name="n",
        extra={"reasoning_content": "考え中"},
    )
    body = message.body()
    assert list(body) == [
        "role",
        "content",
        "tool_name",
        "tool_calls",
        "tool_call_id",
        "name",
        "parts",
        "extra",
    ]
    assert body["content"] is None
    assert body["parts"] == [{"type": "text", "text": "はい"}]
    assert body["tool_calls"] == [call]


def test_plain_body_is_role_and_content_only() -> None:
    assert Message.build("user", "hello").body() == {"role": "user", "content": "hello"}
    assert Message.build("assistant").body() == {"role": "assistant", "content": None}


def test_parallel_tool_calls_are_read() -> None:
    message = Message.from_chat(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}},
                {"id": "b", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
            ],
        }
    )
    assert message.calls == ("a", "b")
    assert message.tool_calls[0] == ToolCall("a", "read", '{"p": 1}')
    assert (message.tool_calls[1].name, message.tool_calls[1].arguments) == ("patch", "*** Begin")
    assert message.answers is None


def test_ollama_arguments_become_json_text() -> None:
    sent = {"function": {"name": "weather", "arguments": {"city": "東京"}}}
    call = ToolCall.from_chat(sent)
    assert (call.id, call.name, call.arguments) == ("", "weather", '{"city":"東京"}')
    assert call.to_chat() == sent


def test_answers_is_the_call_of_a_tool_result_only() -> None:
    assert Message.build("tool", "ok", tool_call_id="c1").answers == "c1"
    assert Message.build("user", "ok", tool_call_id="c1").answers is None


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, "assistant"),
        ({"type": "reasoning", "summary": []}, "assistant"),
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, "tool"),
        ({"type": "computer_call_output", "call_id": "c", "output": {}}, "tool"),
        ({"type": "mcp_approval_response", "approve": True}, "user"),
        ({"id": "msg_1"}, "assistant"),
        ({"role": "developer", "content": "x"}, "developer"),
    ],
)
def test_role_of_a_responses_item(item: Json, role: str) -> None:
    assert Message.from_responses(item).role == role


@pytest.mark.parametrize(
    ("block", "kind", "text"),
    [
        ({"type": "text", "text": "a"}, "text", "a"),
        ({"type": "input_text", "text": "a"}, "text", "a"),
        ({"type": "refusal", "refusal": "no"}, "text", "no"),
        ({"type": "image_url", "image_url": {"url": "https://example.com"}}, "image", ""),
        ({"type": "input_file", "file_id": "f"}, "file", ""),
        ({"type": "document", "source": {"type": "text", "data": "本文"}}, "file", "本文"),
        ({"type": "input_audio", "input_audio": {}}, "audio", ""),
        ({"type": "thinking", "thinking": "hm", "signature": "s"}, "reasoning", "hm"),
        ({"type": "redacted_thinking", "data": "AA=="}, "reasoning", ""),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}, "reasoning", "s"),
        ({"type": "tool_use", "id": "t", "name": "n", "input": {}}, "tool_call", ""),
        ({"type": "mcp_tool_use", "id": "t", "name": "n", "input": {}}, "tool_call", ""),
        ({"type": "web_search_call"}, "tool_call", ""),
        ({"type": "tool_result", "content": [{"type": "text", "text": "r"}]}, "tool_result", "r"),
        ({"type": "mcp_tool_result", "content": "r"}, "tool_result", "r"),
        ({"type": "hologram"}, "other", ""),
        ({"type": ["odd"]}, "other", ""),
        ({}, "other", ""),
    ],
)
def test_kind_and_text_of_a_part(block: Json, kind: str, text: str) -> None:
    part = Part.of(block)
    assert (part.kind, part.text, part.data) == (kind, text, block)


def test_text_is_what_a_person_reads() -> None:
    assert Message.build("user").text == ""
    assert Message.build("user", "こんにちは").text == "こんにちは"
    blocks = [
        {"type": "thinking", "thinking": "secret thought"},
        {"type": "text", "text": "first"},
        {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
        {"type": "text", "text": "二番目"},
    ]
    assert Message.from_anthropic({"role": "assistant", "content": blocks}).text == "first\n二番目"


def test_countable_has_what_costs_tokens_and_no_payload() -> None:
    message = Message.from_chat(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "spoken"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "file", "file": {"filename": "plan.pdf", "file_data": "data:x/y;base64,BBBB"}},
            ],
            "tool_calls": [{"id": "i", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
            "reasoning_content": "thought",
            "refusal": None,
            "id": "msg_1",
        }
    )
    assert list(message.countable()) == ["spoken", "plan.pdf", "f", '{"a":1}', "thought"]


def test_countable_of_anthropic_blocks() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "t", "name": "run", "input": {"cmd": "ls"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a.py"}]},
    ]
    message = Message.from_anthropic({"role": "assistant", "content": blocks})
    assert list(message.countable()) == ["hm", "run", '{"cmd":"ls"}', "a.py"]


def test_images_are_found_inside_tool_results_too() -> None:
    outer = {"type": "image", "source": {"type": "url", "url": "https://example.com/1.png"}}
    inner = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    blocks = [outer, {"type": "tool_result", "tool_use_id": "t", "content": [inner, {"type": "text"}]}]
    message = Message.from_anthropic({"role": "user", "content": blocks})
    assert [part.data for part in message.images()] == [outer, inner]
    assert list(Message.build("user", "no picture").images()) == []


def test_values_are_frozen_hashable_and_picklable() -> None:
    message = Message.build("user", [{"type": "text", "text": "x"}], extra={"a": [1]})
    with pytest.raises(FrozenInstanceError):
        Message.__setattr__(message, "role", "system")
    assert pickle.loads(pickle.dumps(message)) == message
    assert hash(message) == hash(copy.deepcopy(message))


def test_build_takes_every_role_and_both_forms_of_tool_calls() -> None:
    for role in ROLES:
        assert Message.build(role, "x").role == role
    call = ToolCall("a", "f", "{}")
    assert Message.build("assistant", tool_calls=[call, call.to_chat()]).tool_calls == (call, call)


def test_build_takes_extra_as_data_and_never_as_notes() -> None:
    message = Message.build("user", "x", extra={"$orihon": {"absent": ["content"]}})
    assert message.to_chat() == {"role": "user", "content": "x", "$orihon": {"absent": ["content"]}}


def test_build_makes_the_old_form_modern() -> None:
    message = Message.build("function", "21", name="weather")
    assert (message.role, message.tool_name, message.name) == ("tool", "weather", None)


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


CALL: Json = {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}

BAD: list[tuple[Callable[..., Message], tuple[Any, ...], dict[str, Any], str, str]] = [
    (Message.build, ("robot", "x"), {}, "unknown_role", "robot"),
    (Message.build, (None, "x"), {}, "wrong_type", "role"),
    (Message.build, ("user", 5), {}, "wrong_type", "content"),
    (Message.build, ("user", b"bytes"), {}, "wrong_type", "content"),
    (Message.build, ("user", {"type": "text"}), {}, "wrong_type", "content"),
    (Message.build, ("user", ["text"]), {}, "wrong_type", "content[]"),
    (Message.build, ("user", [{"type": "text", "text": nested(500)}]), {}, "too_deep", "content"),
    (Message.build, ("user", "x"), {"name": 5}, "wrong_type", "name"),
    (Message.build, ("tool", "x"), {"tool_name": ["t"]}, "wrong_type", "tool_name"),
    (Message.build, ("tool", "x"), {"tool_call_id": 1}, "wrong_type", "tool_call_id"),
    (Message.build, ("assistant",), {"tool_calls": "f()"}, "wrong_type", "tool_calls"),
    (Message.build, ("assistant",), {"tool_calls": ["f()"]}, "wrong_type", "tool_calls[]"),
    (Message.build, ("user", "x"), {"extra": [1]}, "wrong_type", "extra"),
    (Message.build, ("user", "x"), {"extra": {"role": "system"}}, "reserved_field", "role"),
    (Message.build, ("user", "x"), {"extra": {"a": nested(500)}}, "too_deep", "extra"),
    (Message.from_chat, ("hello",), {}, "wrong_type", "message"),
    (Message.from_chat, ({"content": "x"},), {}, "wrong_type", "role"),
    (Message.from_chat, ({"role": "model", "content": "x"},), {}, "unknown_role", "model"),
    (Message.from_chat, ({"role": "user", "content": {"a": 1}},), {}, "wrong_type", "content"),
    (Message.from_chat, ({"role": "user", "content": "", "x": nested(500)},), {}, "too_deep", "message"),
    (Message.from_chat, ({"role": "assistant", "tool_calls": {}},), {}, "wrong_type", "tool_calls"),
    (
        Message.from_chat,
        ({"role": "assistant", "tool_calls": [{**CALL, "id": 7}]},),
        {},
        "wrong_type",
        "tool_calls[].id",
    ),
    (
        Message.from_chat,
        ({"role": "assistant", "tool_calls": [{"id": "i", "type": "function"}]},),
        {},
        "wrong_type",
        "tool_calls[].function",
    ),
    (
        Message.from_chat,
        ({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": None}}]},),
        {},
        "wrong_type",
        "tool_calls[].function.name",
    ),
    (
        Message.from_chat,
        ({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": 3}}]},),
        {},
        "wrong_type",
        "tool_calls[].arguments",
    ),
    (Message.from_responses, ([],), {}, "wrong_type", "message"),
    (Message.from_responses, ({},), {}, "wrong_type", "role"),
    (Message.from_responses, ({"type": 3},), {}, "wrong_type", "type"),
    (Message.from_responses, ({"type": "function_call", "name": "f"},), {}, "wrong_type", "call_id"),
    (
        Message.from_responses,
        ({"type": "function_call_output", "call_id": "c", "output": 1},),
        {},
        "wrong_type",
        "output",
    ),
    (Message.from_anthropic, (None,), {}, "wrong_type", "message"),
    (Message.from_anthropic, ({"role": "human", "content": "x"},), {}, "unknown_role", "human"),
    (Message.from_anthropic, ({"role": "user", "content": [1]},), {}, "wrong_type", "content[]"),
    (Message.from_body, ({"content": "x"},), {}, "wrong_type", "role"),
]


@pytest.mark.parametrize(("make", "args", "kwargs", "reason", "named"), BAD)
def test_bad_input_is_named_in_both_languages(
    make: Callable[..., Message], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str, named: str
) -> None:
    with pytest.raises(InvalidMessage) as caught:
        make(*args, **kwargs)
    assert caught.value.reason == reason
    try:
        for language in ("en", "ja"):
            set_language(language)
            assert named in caught.value.cause
            assert caught.value.remedy
    finally:
        set_language(None)


@pytest.mark.parametrize("method", ["to_chat", "to_responses", "body", "request"])
def test_another_dialect_is_refused(method: str) -> None:
    message = Message.from_anthropic({"role": "user", "content": "x"})
    with pytest.raises(InvalidMessage) as caught:
        getattr(message, method)()
    assert caught.value.fields["actual"] == "anthropic"


def test_chat_is_not_written_as_anthropic() -> None:
    with pytest.raises(InvalidMessage):
        Message.build("user", "x").to_anthropic()
