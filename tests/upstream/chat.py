"""Chat Completions, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.upstream.wires import CREATED, Answer, Call, chunks, event


def whole(answer: Answer) -> dict[str, Any]:
    """One value."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.reply.text or None, "refusal": None}
    if answer.reply.reasoning:
        message["reasoning_content"] = answer.reply.reasoning
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def streamed(answer: Answer) -> Iterator[bytes]:
    """Chunks; the last one before the end has the usage, if it was asked for."""
    head = _head(answer, "chat.completion.chunk")
    asked = answer.option("stream_options", "include_usage")
    usage = {"usage": None} if asked else {}
    for delta in _deltas(answer):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield event({**head, "choices": [choice], **usage}, named=False)
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish(answer)}
    yield event({**head, "choices": [choice], **usage}, named=False)
    if asked:
        yield event({**head, "choices": [], "usage": _usage(answer)}, named=False)
    yield b"data: [DONE]\n\n"


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if answer.reply.text else None, "refusal": None}
    for piece in chunks(answer, answer.reply.reasoning):
        yield {"reasoning_content": piece}
    for piece in chunks(answer, answer.reply.text):
        yield {"content": piece}
    for index, call in enumerate(answer.calls):
        begun = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [begun]}
        for piece in chunks(answer, call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    named = {"id": f"chatcmpl-{answer.id}", "object": kind, "created": CREATED, "model": answer.model}
    return {**named, "service_tier": "default", "system_fingerprint": "fp_scripted"}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _finish(answer: Answer) -> str:
    return answer.reply.finish or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
