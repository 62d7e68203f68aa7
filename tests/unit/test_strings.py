"""Every string of content can be replaced, and nothing but content is."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from orihon.values.message.message import Message, ToolCall
from orihon.values.message.strings import map_json_text
from tests.strategies import Json, anthropic_messages, chat_messages, responses_items

SECRET = "hunter2"


def mask(text: str) -> str:
    return text.replace(SECRET, "[SECRET]")


@given(chat_messages())
def test_a_chat_message_that_does_not_change_is_itself(data: Json) -> None:
    message = Message.from_chat(data)
    assert message.map_strings(lambda text: "".join(text)) is message


@given(anthropic_messages())
def test_an_anthropic_message_that_does_not_change_is_itself(data: Json) -> None:
    message = Message.from_anthropic(data)
    assert message.map_strings(mask) is message
    for chat in message.as_chat():
        assert chat.map_strings(mask) is chat


@given(responses_items())
def test_structure_survives_any_change(item: Json) -> None:
    changed = Message.from_responses(item).map_strings(lambda text: f"{text}!")
    again = changed.to_responses()
    for key in ("type", "id", "call_id", "role"):
        assert again.get(key) == item.get(key)


@given(chat_messages())
def test_arguments_that_were_json_stay_json(data: Json) -> None:
    message = Message.from_chat(data)
    for before, after in zip(
        message.tool_calls, message.map_strings(lambda text: text.replace("a", '"')).tool_calls, strict=True
    ):
        if is_json(before.arguments):
            assert is_json(after.arguments)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_secret_goes_from_everywhere() -> None:
    message = Message.from_chat(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": SECRET},
                {"type": "image_url", "image_url": {"url": f"https://example.com/?key={SECRET}"}},
                {"type": "file", "file": {"filename": SECRET}},
            ],
            "name": SECRET,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": f'{{"{SECRET}":"{SECRET}"}}'},
                },
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": {"id": SECRET}}},
                {"id": "c", "type": "custom", "custom": {"name": "f", "input": f"set {SECRET}"}},
                {"id": "d", "type": "future", "future": {"input": SECRET}},
            ],
            "reasoning_content": SECRET,
            "data": SECRET,
            "nested": [{"deep": {"deeper": SECRET}}, {SECRET: {f"the {SECRET}": 1, "id": SECRET[:3]}}],
            "x$orihon": SECRET,
        }
    )
    masked = message.map_strings(mask)
    assert SECRET in json.dumps(message.to_chat())
    assert SECRET not in json.dumps(masked.body())
    assert masked.calls == message.calls
    assert masked.map_strings(mask) is masked


def test_a_secret_goes_from_anthropic_blocks_and_from_what_they_become() -> None:
    blocks = [
        {"type": "thinking", "thinking": SECRET, "signature": "c2ln"},
        {
            "type": "document",
            "title": SECRET,
            "source": {"type": "text", "media_type": "text/plain", "data": SECRET},
        },
        {
            "type": "tool_use",
            "id": "t",
            "name": "f",
            "input": {"type": SECRET, "id": [SECRET]},
            "note": SECRET,
        },
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": SECRET}]},
    ]
    message = Message.from_anthropic({"role": "assistant", "content": blocks, "model": SECRET})
    assert SECRET not in json.dumps(message.map_strings(mask).to_anthropic())
    for chat in message.as_chat():
        assert SECRET not in json.dumps(chat.map_strings(mask).body())


def test_names_of_fields_are_no_content() -> None:
    message = Message.from_chat({"role": "user", "content": "x", SECRET: [{"type": "a", "id": "b", SECRET: 1}]})
    assert message.map_strings(mask).extra == {SECRET: [{"type": "a", "id": "b", "[SECRET]": 1}]}
    shouting = message.map_strings(str.upper).extra
    assert shouting == {SECRET: [{"type": "a", "id": "b", SECRET.upper(): 1}]}


def test_ids_types_tool_names_and_payloads_are_left_alone() -> None:
    data = {
        "role": "assistant",
        "content": [
            {"type": SECRET, "id": SECRET},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SECRET}"}},
            {"type": "input_audio", "input_audio": {"data": SECRET, "format": "wav"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SECRET}},
            {"type": "redacted_thinking", "data": SECRET},
            {"type": "tool_use", "id": SECRET, "name": SECRET, "input": {}},
        ],
        "tool_calls": [{"id": SECRET, "type": "function", "function": {"name": SECRET, "arguments": "{}"}}],
    }
    message = Message.from_chat(data)
    assert message.map_strings(mask) is message
    result = Message.build("tool", "x", tool_call_id=SECRET, name=SECRET, tool_name=SECRET)
    assert result.map_strings(mask) is result


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:text/plain;base64,the password is {SECRET}"}},
        {"type": "file", "file": {"file_data": f"the password is {SECRET}"}},
        {"type": "input_audio", "input_audio": {"data": f"the password is {SECRET}", "format": "wav"}},
    ],
)
def test_what_only_looks_like_a_payload_is_masked(part: Json) -> None:
    message = Message.build("user", [part])
    assert SECRET not in json.dumps(message.map_strings(mask).body())


def test_text_that_escapes_hide_is_found() -> None:
    assert json.loads(map_json_text('{"a": "\\u0068unter2"}', mask)) == {"a": "[SECRET]"}


def test_unchanged_parts_of_arguments_keep_their_bytes() -> None:
    assert map_json_text('{ "a" : 1.0, "b": "hunter2" }', mask) == '{ "a" : 1.0, "b": "[SECRET]" }'


def test_arguments_that_are_no_json_are_mapped_as_text() -> None:
    assert map_json_text('{"a": "hunter2', mask) == '{"a": "[SECRET]'


@pytest.mark.parametrize("text", ["[" * 400 + '"hunter2"' + "]" * 400, "[" * 5000 + '"hunter2"' + "]" * 5000])
def test_deep_arguments_are_masked_as_text(text: str) -> None:
    assert SECRET not in map_json_text(text, mask)


def test_a_change_that_would_break_the_json_is_made_on_the_strings() -> None:
    assert json.loads(map_json_text('{"a": "b"}', lambda text: f"{text}!")) == {"a!": "b!"}


@pytest.mark.parametrize("text", ['{"card": 4111111111111111, "b": "4111111111111111"}', '{"card": 4111111111111111}'])
def test_a_mask_leaves_nothing_behind_even_where_it_breaks_the_json(text: str) -> None:
    def mask_numbers(value: str) -> str:
        return re.sub(r"\d{16}", "[CARD]", value)

    masked = map_json_text(text, mask_numbers)
    assert is_json(masked)
    assert "4111" not in masked


def test_arguments_sent_as_an_object_come_back_as_one() -> None:
    call = ToolCall.from_chat({"function": {"name": "f", "arguments": {"password": SECRET}}})
    assert call.map_strings(mask).to_chat() == {"function": {"name": "f", "arguments": {"password": "[SECRET]"}}}
