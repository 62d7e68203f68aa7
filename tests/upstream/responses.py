"""OpenAI Responses, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.upstream.wires import CREATED, Answer, Call, chunks, event

#: What the provider hands out in the place of its reasoning. A history with another one is refused.
ENCRYPTED = "gAAAAAscripted"
_ECHOED: tuple[tuple[str, Any], ...] = (
    ("instructions", None),
    ("metadata", {}),
    ("parallel_tool_calls", True),
    ("previous_response_id", None),
    ("prompt_cache_key", None),
    ("reasoning", {"effort": None, "summary": None}),
    ("store", True),
    ("temperature", 1.0),
    ("text", {"format": {"type": "text"}}),
    ("tool_choice", "auto"),
    ("tools", []),
    ("top_p", 1.0),
    ("truncation", "disabled"),
)


def whole(answer: Answer) -> dict[str, Any]:
    """One value."""
    return _response(answer, "completed", _items(answer))


def streamed(answer: Answer) -> Iterator[bytes]:
    """The events, numbered."""
    for number, value in enumerate(_events(answer)):
        yield event({**value, "sequence_number": number})


def _events(answer: Answer) -> Iterator[dict[str, Any]]:
    begun = _response(answer, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    items = _items(answer)
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield from _text_events(answer, item, place)
        elif item["type"] in ("function_call", "custom_tool_call"):
            yield from _call_events(answer, item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": _response(answer, "completed", items)}


def _text_events(answer: Answer, item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    part, at = item["content"][0], {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in chunks(answer, part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def _call_events(answer: Answer, item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind, field = (
        ("function_call_arguments", "arguments")
        if item["type"] == "function_call"
        else ("custom_tool_call_input", "input")
    )
    for piece in chunks(answer, item[field]):
        yield {"type": f"response.{kind}.delta", **place, "delta": piece}
    yield {"type": f"response.{kind}.done", **place, field: item[field]}


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.reply.reasoning:
        hidden = "reasoning.encrypted_content" in (answer.option("include") or ())
        secret = {"encrypted_content": ENCRYPTED} if hidden else {}
        summary = [{"type": "summary_text", "text": answer.reply.reasoning}]
        items.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary, **secret})
    if answer.reply.text:
        part = {"type": "output_text", "text": answer.reply.text, "annotations": [], "logprobs": []}
        made = {"id": f"msg_{answer.id}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**made, "content": [part]})
    return items + [_call(answer, call, place) for place, call in enumerate(answer.calls)]


def _call(answer: Answer, call: Call, place: int) -> dict[str, Any]:
    """A tool that takes free text is called so."""
    number = f"{answer.id}{place:02d}"
    if call.name in _free_tools([answer.option("tools"), answer.option("input")]):
        free = {"type": "custom_tool_call", "status": "completed", "call_id": call.id, "name": call.name}
        return {"id": f"ctc_{number}", **free, "input": call.arguments}
    made = {"type": "function_call", "status": "completed", "call_id": call.id, "name": call.name}
    return {"id": f"fc_{number}", **made, "arguments": call.arguments}


def _free_tools(value: Any) -> set[str]:
    """The names of tools that take free text; some clients offer them in the middle of their input, in groups."""
    if isinstance(value, list):
        return {name for item in value for name in _free_tools(item)}
    if not isinstance(value, Mapping):
        return set()
    return {value["name"]} if value.get("type") == "custom" else _free_tools(value.get("tools"))


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "custom_tool_call": {"input": ""},
    }
    if item["type"] == "reasoning":
        return {**item, "summary": []}
    return {**item, "status": "in_progress", **empty[item["type"]]}


def _response(answer: Answer, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    echoed = {name: value if (given := answer.option(name)) is None else given for name, value in _ECHOED}
    head = {"id": f"resp_{answer.id}", "object": "response", "created_at": CREATED, "status": status}
    none: dict[str, Any] = {"background": False, "error": None, "incomplete_details": None, "max_output_tokens": None}
    usage = _usage(answer) if status == "completed" else None
    return {**head, **none, **echoed, "model": answer.model, "output": output, "usage": usage, "user": None}


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }
