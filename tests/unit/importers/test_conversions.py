"""Messages of providers become the chat messages that ``Message.as_chat`` would make of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidMessage
from orihon.importers.shapes import from_anthropic, from_responses
from orihon.values.message.message import Message

TEXT = st.text(max_size=8)
BLOCKS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXT),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, TEXT),
    st.builds(lambda text: {"type": "tool_use", "id": f"t{text}", "name": "look", "input": {"a": text}}, TEXT),
    st.builds(lambda text: {"type": "tool_result", "tool_use_id": f"t{text}", "content": text, "is_error": True}, TEXT),
    st.builds(lambda text: {"type": "image", "source": {"type": "url", "url": text}}, TEXT),
    st.builds(lambda text: {"type": "odd", "words": [text]}, TEXT),
)
ITEMS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(
        lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}, TEXT
    ),
    st.builds(lambda text: {"type": "function_call", "call_id": text, "name": "look", "arguments": "{}"}, TEXT),
    st.builds(lambda text: {"type": "function_call_output", "call_id": text, "output": text, "id": "x"}, TEXT),
    st.builds(lambda text: {"type": "custom_tool_call", "call_id": text, "name": "patch", "input": text}, TEXT),
    st.builds(lambda text: {"type": "reasoning", "summary": [], "encrypted_content": text}, TEXT),
    st.builds(lambda text: {"type": "web_search_call", "id": text, "action": {"query": text}}, TEXT),
)


@given(st.sampled_from(["user", "assistant"]), TEXT | st.lists(BLOCKS, max_size=4), st.booleans())
def test_anthropic(role: str, content: Any, has_id: bool) -> None:
    message = {"role": role, "content": content, **({"id": "msg_1"} if has_id else {})}
    assert from_anthropic(message) == list(Message.from_anthropic(message).as_chat())


@given(ITEMS)
def test_responses(item: dict[str, Any]) -> None:
    assert [from_responses(item)] == list(Message.from_responses(item).as_chat())


@pytest.mark.parametrize("content", [{"a": 1}, 7, ["text"], [{"type": "tool_use", "name": "x"}], [None]])
def test_what_is_malformed_is_refused(content: Any) -> None:
    with pytest.raises(InvalidMessage):
        from_anthropic({"role": "user", "content": content})
