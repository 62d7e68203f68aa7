"""A request carries only what the providers accept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from orihon.values.message.message import ROLES, Message, ToolCall
from orihon.values.message.wire import RESPONSE_ONLY
from tests.strategies import Json, anthropic_messages, chat_messages, responses_items


def assert_acceptable(request: Json) -> None:
    json.dumps(request, ensure_ascii=False).encode()  # no lone surrogate anywhere
    assert request["role"] in ROLES
    assert not RESPONSE_ONLY & request.keys()
    content = request["content"]
    if isinstance(content, list):
        assert content
        assert all(part["text"].strip() for part in content if part.get("type") == "text")
    elif not (request["role"] == "assistant" and request.get("tool_calls") and content is None):
        assert content.strip()
    for call in request.get("tool_calls", ()):
        if call["type"] == "function":
            assert isinstance(call["function"]["arguments"], str)
            assert call["function"]["arguments"]
    assert request.get("tool_calls", True)


@given(chat_messages())
def test_every_chat_message_makes_an_acceptable_request(data: Json) -> None:
    message = Message.from_chat(data)
    assert_acceptable(message.request())
    assert message.to_chat() == data


@given(anthropic_messages())
def test_every_anthropic_message_makes_acceptable_requests(data: Json) -> None:
    for message in Message.from_anthropic(data).as_chat():
        assert_acceptable(message.request())


@given(responses_items())
def test_every_responses_item_makes_an_acceptable_request(item: Json) -> None:
    for message in Message.from_responses(item).as_chat():
        assert_acceptable(message.request())


def test_plain_message() -> None:
    assert Message.build("user", "こんにちは").request() == {"role": "user", "content": "こんにちは"}


@pytest.mark.parametrize("content", [None, "", " \n", [], [{"type": "text", "text": ""}]])
def test_nothing_gets_a_placeholder(content: Any) -> None:
    assert Message.build("user", content).request()["content"] == "(empty)"
    assert Message.build("assistant", content).request()["content"] == "(empty)"
    assert Message.build("tool", content).request()["content"] == "(no output)"
    calling = Message.build("assistant", content, tool_calls=[ToolCall("a", "f", "{}")])
    assert calling.request()["content"] is None


def test_surrogates_are_replaced_and_other_text_is_not() -> None:
    message = Message.build("tool", "a\ud800b 日本 \U0001f600", tool_call_id="c\udfff", extra={"k\ud800": ["\udc00"]})
    assert message.request() == {
        "role": "tool",
        "content": "a\ufffdb 日本 \U0001f600",
        "tool_call_id": "c\ufffd",
        "k\ufffd": ["\ufffd"],
    }


def test_tool_name_becomes_the_name_of_a_tool_message() -> None:
    assert Message.build("tool", "x", tool_name="read file").request()["name"] == "read_file"
    assert Message.build("tool", "x", tool_name="a", name="b").request()["name"] == "b"
    assert "name" not in Message.build("user", "x", tool_name="a").request()
    assert "tool_name" not in Message.build("tool", "x", tool_name="a").request()


def test_fields_of_answers_are_left_out_and_those_that_go_back_stay() -> None:
    message = Message.from_chat(
        {
            "role": "assistant",
            "content": "hi",
            "refusal": None,
            "annotations": [],
            "function_call": None,
            "logprobs": {},
            "tool_calls": [],
            "audio": {"id": "a1", "data": "AAAA", "expires_at": 1, "transcript": "hi"},
            "reasoning_content": "考え",
            "reasoning_details": [{"type": "reasoning.text", "text": "考え"}],
        }
    )
    assert message.request() == {
        "role": "assistant",
        "content": "hi",
        "audio": {"id": "a1"},
        "reasoning_content": "考え",
        "reasoning_details": [{"type": "reasoning.text", "text": "考え"}],
    }


def test_audio_without_id_is_left_out() -> None:
    assert Message.build("assistant", "x", extra={"audio": "AAAA"}).request() == {
        "role": "assistant",
        "content": "x",
    }


def test_notes_stay_at_home_and_data_of_that_name_travels() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    (converted,) = Message.from_anthropic({"role": "assistant", "content": [thinking]}).as_chat()
    assert converted.request() == {"role": "assistant", "content": "(empty)"}
    assert Message.build("user", "x", extra={"$orihon": 1}).request()["$orihon"] == 1


def test_ollama_call_is_sent_the_openai_way() -> None:
    message = Message.from_chat(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"index": 0, "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}],
        }
    )
    assert message.request()["tool_calls"] == [
        {"id": "", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    ]


def test_call_without_arguments_is_an_empty_object_and_signatures_travel() -> None:
    call = {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": None},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    request = Message.from_chat({"role": "assistant", "content": None, "tool_calls": [call]}).request()
    assert request["tool_calls"] == [{**call, "function": {"name": "f", "arguments": "{}"}}]
    plain = Message.build("assistant", tool_calls=[ToolCall("a", "f", "")])
    assert plain.request()["tool_calls"][0]["function"]["arguments"] == "{}"


def test_only_a_user_sends_pictures() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert Message.build("user", [image]).request()["content"] == [image]
    assert Message.build("tool", [image]).request()["content"] == [{"type": "text", "text": "[image]"}]


def test_old_form_is_sent_in_the_modern_one() -> None:
    old = Message.from_chat({"role": "function", "name": "weather", "content": ""})
    assert old.request() == {"role": "tool", "content": "(no output)", "name": "weather"}
