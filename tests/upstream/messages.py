"""Anthropic Messages, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.upstream.wires import Answer, chunks, event

#: What the provider signs its thinking with. A history that has thinking signed otherwise is refused.
SIGNATURE = "c2NyaXB0ZWQ"


def whole(answer: Answer) -> dict[str, Any]:
    """One value."""
    blocks: list[dict[str, Any]] = []
    if answer.reply.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reply.reasoning, "signature": SIGNATURE})
    if answer.reply.text:
        blocks.append({"type": "text", "text": answer.reply.text})
    blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.value} for call in answer.calls]
    ended = {"stop_reason": _finish(answer), "stop_sequence": None}
    return {**_head(answer), "content": blocks, **ended, "usage": _usage(answer, answer.usage.output)}


def streamed(answer: Answer) -> Iterator[bytes]:
    """The events, with a ping as there are some."""
    return map(event, _events(answer))


def _events(answer: Answer) -> Iterator[dict[str, Any]]:
    ended: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**_head(answer), "content": [], **ended, "usage": _usage(answer, 1)}}
    for index, (block, deltas) in enumerate(_blocks(answer)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        if not index:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _finish(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": _usage(answer, answer.usage.output)}
    yield {"type": "message_stop"}


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    reply = answer.reply
    if reply.reasoning:
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in chunks(answer, reply.reasoning)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if reply.text:
        words = [{"type": "text_delta", "text": piece} for piece in chunks(answer, reply.text)]
        yield {"type": "text", "text": ""}, words
    for call in answer.calls:
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *chunks(answer, call.arguments))]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, parts


def _head(answer: Answer) -> dict[str, Any]:
    return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model}


def _finish(answer: Answer) -> str:
    return answer.reply.finish or ("tool_use" if answer.calls else "end_turn")


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": output,
        "service_tier": "standard",
    }
