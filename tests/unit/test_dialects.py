"""Messages of the other dialects, and of the old chat form, can stand in the log as modern chat messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from orihon.errors import InvalidMessage
from orihon.system import jsonio
from orihon.values.message.extra import NOTES
from orihon.values.message.message import Message, ToolCall
from tests.strategies import Json, anthropic_messages, chat_messages, responses_items


def notes(message: Message) -> Any:
    return message.extra[NOTES]


def assert_stands_in_the_log(messages: tuple[Message, ...]) -> None:
    assert messages
    for message in messages:
        assert message.as_chat() == (message,)
        assert "function" not in (message.role, message.dialect)
        assert Message.from_body(jsonio.decode(jsonio.encode(message.body()))) == message


@given(chat_messages())
def test_every_chat_message_can_stand_in_the_log(data: Json) -> None:
    assert_stands_in_the_log(Message.from_chat(data).as_chat())


@given(anthropic_messages())
def test_every_anthropic_message_can_stand_in_the_log(data: Json) -> None:
    messages = Message.from_anthropic(data).as_chat()
    assert_stands_in_the_log(messages)
    content = data.get("content")
    blocks = content if isinstance(content, list) else []
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    calls = tuple(block["id"] for block in blocks if block["type"] == "tool_use")
    assert [message.tool_call_id for message in messages if message.role == "tool"] == results
    assert messages[-1].calls == calls


@given(responses_items())
def test_every_responses_item_can_stand_in_the_log(item: Json) -> None:
    assert_stands_in_the_log(Message.from_responses(item).as_chat())


def test_modern_chat_is_left_alone() -> None:
    for data in (
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "x", "function_call": None},
    ):
        message = Message.from_chat(data)
        assert message.as_chat()[0] is message


def test_old_function_call_becomes_a_tool_call_without_id() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}}
    (message,) = Message.from_chat(old).as_chat()
    assert message.tool_calls == (ToolCall("", "weather", "{}"),)
    assert "function_call" not in message.extra


def test_old_function_result_becomes_a_tool_result() -> None:
    (message,) = Message.from_chat({"role": "function", "name": "weather", "content": "晴れ"}).as_chat()
    assert message == Message("tool", "晴れ", tool_name="weather")


def test_malformed_old_call_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        Message.from_chat({"role": "assistant", "content": None, "function_call": "weather()"}).as_chat()


def test_anthropic_text_becomes_plain_content() -> None:
    plain = Message.from_anthropic({"role": "user", "content": "hello"})
    listed = Message.from_anthropic({"role": "user", "content": [{"type": "text", "text": "hello"}]})
    assert plain.as_chat() == listed.as_chat() == (Message("user", "hello"),)


def test_anthropic_answer_with_thinking_and_calls() -> None:
    thinking = {"type": "thinking", "thinking": "調べよう", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}, "caller": "direct"}
    message = Message.from_anthropic(
        {
            "id": "msg_1",
            "role": "assistant",
            "content": [thinking, {"type": "text", "text": "読みます", "citations": None}, use],
            "stop_reason": "tool_use",
        }
    )
    (chat,) = message.as_chat()
    assert (chat.role, chat.content, chat.calls) == ("assistant", "読みます", ("toolu_1",))
    assert chat.tool_calls[0].arguments == '{"path":"a.py"}'
    assert notes(chat) == {
        "dialect": "anthropic",
        "reasoning": [thinking],
        "calls": {"toolu_1": {"caller": "direct"}},
        "fields": {"id": "msg_1", "stop_reason": "tool_use"},
    }


def test_anthropic_results_come_first_and_one_by_one() -> None:
    message = Message.from_anthropic(
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
                {"type": "text", "text": "続けて"},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
            ],
        }
    )
    first, second, rest = message.as_chat()
    assert first == Message("tool", "ok", tool_call_id="t1")
    assert (second.role, second.content, second.tool_call_id) == ("tool", None, "t2")
    assert notes(second)["calls"] == {"t2": {"is_error": True}}
    assert rest == Message("user", "続けて")


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ),
        (
            {
                "type": "document",
                "title": "仕様.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            },
            {
                "type": "file",
                "file": {"filename": "仕様.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            },
        ),
    ],
)
def test_anthropic_pictures_and_files_become_chat_parts(block: Json, part: Json) -> None:
    (chat,) = Message.from_anthropic({"role": "user", "content": [block]}).as_chat()
    assert chat.to_chat() == {"role": "user", "content": [part]}


def test_text_document_becomes_text() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "第一章"}
    block = {"type": "document", "source": source, "title": "本"}
    (chat,) = Message.from_anthropic({"role": "user", "content": [block]}).as_chat()
    assert chat.content == "第一章"
    assert notes(chat)["blocks"] == {"0": {"title": "本"}}


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "[image]"),
        ({"type": "container_upload", "file_id": "file_1"}, "[container_upload]"),
        (
            {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "title": "折本"}]},
            "折本",
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a"}},
            "https://example.com/a",
        ),
    ],
)
def test_what_chat_cannot_express_is_put_in_words_and_kept(block: Json, words: str) -> None:
    (chat,) = Message.from_anthropic({"role": "user", "content": [block]}).as_chat()
    assert chat.content == words
    assert notes(chat)["blocks"] == {"0": block}


def test_tool_use_without_id_is_refused() -> None:
    block = {"type": "tool_use", "name": "f", "input": {}}
    with pytest.raises(InvalidMessage):
        Message.from_anthropic({"role": "assistant", "content": [block]}).as_chat()


def test_responses_message() -> None:
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "はい", "annotations": [], "logprobs": []}],
    }
    (chat,) = Message.from_responses(item).as_chat()
    assert (chat.role, chat.content) == ("assistant", "はい")
    assert notes(chat) == {"dialect": "responses", "fields": {"id": "msg_1"}}


def test_responses_pictures_and_files() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "high"}
    file = {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
    (chat,) = Message.from_responses({"role": "user", "content": [image, file]}).as_chat()
    assert chat.to_chat()["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
    ]


def test_responses_function_call_and_output() -> None:
    (call,) = Message.from_responses(
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    ).as_chat()
    assert (call.role, call.content, call.tool_calls) == ("assistant", None, (ToolCall("c1", "f", "{}"),))
    (output,) = Message.from_responses({"type": "function_call_output", "call_id": "c1", "output": "done"}).as_chat()
    assert output == Message("tool", "done", tool_call_id="c1")


def test_responses_custom_call() -> None:
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    (chat,) = Message.from_responses(item).as_chat()
    assert chat.to_chat()["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    ]


def test_responses_reasoning_is_kept_in_the_notes() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"}
    (chat,) = Message.from_responses(item).as_chat()
    assert (chat.role, chat.content) == ("assistant", None)
    assert notes(chat)["reasoning"] == [item]


def test_responses_built_in_tools() -> None:
    (call,) = Message.from_responses(
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}}
    ).as_chat()
    assert call.tool_calls == (ToolCall("c1", "shell", '{"action":{"commands":["ls"]}}'),)
    (output,) = Message.from_responses(
        {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a.py", "stderr": ""}]}
    ).as_chat()
    assert (output.role, output.tool_call_id) == ("tool", "c1")
    assert "a.py" in output.text
    (search,) = Message.from_responses({"type": "web_search_call", "action": {"query": "折本"}}).as_chat()
    assert (search.role, search.content) == ("assistant", "折本")


def test_codex_output_object_is_put_in_words() -> None:
    item = {"type": "function_call_output", "call_id": "c1", "output": {"content": "done", "success": True}}
    (chat,) = Message.from_responses(item).as_chat()
    assert (chat.role, chat.content, chat.tool_call_id) == ("tool", "done", "c1")
    assert notes(chat)["blocks"] == {"0": item["output"]}
