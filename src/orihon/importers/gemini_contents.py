"""What Gemini says, in the words of its API (contents with parts), as chat messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orihon.importers.registry import SaidItem, Thread, ToolItem, TranscriptEvent, TranscriptPart
from orihon.importers.shapes import (
    as_json,
    data_url,
    fields,
    image_block,
    items,
    message,
    model_call,
    name_for,
    numbered,
    objects,
    read_each,
    text_block,
    thought,
    title,
    tool_call,
    total,
    usage,
    when,
    words,
)
from orihon.values.message.extra import notes_of
from orihon.values.message.message import Message, ToolCall
from orihon.values.records import ModelCall

_CALLED = ("functionCall", "function_call")
_ANSWERED = ("functionResponse", "function_response")
_INLINE = ("inlineData", "inline_data")
_ROLES = ("user", "model", "gemini", "function", "tool")


def is_content(value: object) -> bool:
    """Is this a content of the API: a role and parts?"""
    said = fields(value)
    return "parts" in said and said.get("role") in _ROLES


def contents(path: Path, document: object) -> Iterator[TranscriptPart]:
    """A conversation that was saved as contents."""
    about = fields(document)
    history = about.get("clientHistory") or about.get("history") or document
    said = list(objects(history))
    first = next((text_of(one.get("parts")) for one in said if one.get("role") == "user"), "")
    thread = Thread(
        name_for(path, *(as_json(one.get("parts")) for one in said[:3])),
        title(first),
        when(about.get("start_time") or about.get("startTime")),
        model=words(fields(about.get("meta")).get("model")),
    )
    yield thread

    def take(line: int, content: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        time = when(content.get("ts") or content.get("timestamp"))
        if content.get("role") in ("model", "gemini"):
            answer, _ = answer_of({"content": content.get("parts")})
            if answer is not None:
                yield TranscriptEvent(thread.id, SaidItem(answer, time, model_call(thread.model)), line)
            return
        for result, _ in results_of({"content": content.get("parts")}):
            yield TranscriptEvent(thread.id, SaidItem(result, time), line)
        if (asked := user_message(content.get("parts"))) is not None:
            yield TranscriptEvent(thread.id, SaidItem(asked, time), line)

    yield from read_each(numbered(said), take)


def user_message(content: object) -> Message | None:
    """What a person said; nothing when there is nothing but results."""
    blocks = _blocks(content)
    if not blocks and _parts(content):
        return None
    return message("user", blocks)


def answer_of(record: Mapping[str, Any]) -> tuple[Message | None, ModelCall | None]:
    """What the model said and called, and what that used."""
    parts = _parts(said_in(record))
    calls = {call.id or str(index): call for index, call in enumerate(_calls(record, parts))}
    reasoning = [thought(_thought(one)) for one in objects(record.get("thoughts"))]
    reasoning += [thought(words(part.get("text"))) for part in parts if part.get("thought") is True]
    blocks = _blocks(said_in(record))
    spent = fields(record.get("tokens"))
    asked = total(spent.get("input"), spent.get("tool"))
    used = usage(asked, spent.get("cached"), total(spent.get("output"), spent.get("thoughts")))
    call = model_call(record.get("model"), used)
    if not (blocks or calls or reasoning):
        return None, call
    return message("assistant", blocks or None, calls=calls.values(), reasoning=reasoning), call


def added_to(given: Message, answer: Message) -> Message | None:
    """What an answer says beyond an earlier version of it; nothing when it says no more."""
    known = {call.id for call in given.tool_calls}
    calls = [call for call in answer.tool_calls if call.id not in known]
    before, now = (notes_of(one.extra).get("reasoning", []) for one in (given, answer))
    is_silent = given.content is None and given.parts is None
    content = answer.content if is_silent else None
    blocks = [part.data for part in answer.parts or ()] if is_silent and answer.parts else None
    if not (calls or content or blocks or now[len(before) :]):
        return None
    return message("assistant", content or blocks, calls=calls, reasoning=now[len(before) :])


def results_of(record: Mapping[str, Any]) -> Iterator[tuple[Message, ToolItem]]:
    """The results of tool calls that a record holds, each with what is known about the call beside."""
    for call in objects(record.get("toolCalls")):
        shown = call.get("result") if call.get("result") is not None else call.get("resultDisplay")
        if shown is None:
            continue
        call_id, name, failed = words(call.get("id")), words(call.get("name")), call.get("status") == "error"
        result = _result(shown, call_id, name)
        item = ToolItem(name, timestamp=when(call.get("timestamp")), call_id=call_id)
        if call.get("status"):
            error = result.text[:1000] if failed else None
            status = "success" if call["status"] == "success" else "error"
            item = ToolItem(name, error=error, status=status, timestamp=item.timestamp, call_id=call_id)
        yield result, item
    for part in _parts(said_in(record)):
        if (answered := _either(part, _ANSWERED)) is not None:
            call_id, name = words(answered.get("id")), words(answered.get("name"))
            yield _result([part], call_id, name), ToolItem(name, call_id=call_id or None)


def said_in(record: Mapping[str, Any]) -> object:
    """The content of a record, under any of the names it has had."""
    return next((record[name] for name in ("content", "parts", "text") if record.get(name) is not None), None)


def text_of(content: object) -> str:
    """All that a person could read of a content."""
    return "".join(words(block.get("text")) for block in _blocks(content))


def _parts(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}] if content else []
    if isinstance(content, Mapping):
        return [content]
    parts = (part for part in items(content) if isinstance(part, str | Mapping))
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """What was said in parts of a chat message: calls, results and thoughts apart."""
    blocks: list[Mapping[str, Any]] = []
    for part in _parts(content):
        inline = _either(part, _INLINE)
        if part.get("thought") is True or _either(part, _CALLED + _ANSWERED) is not None:
            continue
        if inline is not None:
            kind, data = inline.get("mimeType") or inline.get("mime_type"), inline.get("data")
            is_image = words(kind).startswith("image/")
            url = data_url(kind, data)
            blocks.append(image_block(url) if is_image else {"type": "file", "file": {"file_data": url}})
        elif isinstance(part.get("text"), str):
            blocks.append(text_block(part["text"]))
        elif part:
            blocks.append(text_block(as_json(part)))
    return blocks


def _calls(record: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> Iterator[ToolCall]:
    for call in objects(record.get("toolCalls")):
        yield tool_call(call.get("id"), call.get("name"), call.get("args"))
    for part in parts:
        if (called := _either(part, _CALLED)) is not None:
            yield tool_call(called.get("id"), called.get("name"), called.get("args"))


def _result(shown: object, call_id: str, name: str) -> Message:
    texts: list[Mapping[str, Any]] = []
    for part in _parts(shown) if not isinstance(shown, Mapping) or _either(shown, _ANSWERED) else [{"response": shown}]:
        answered = _either(part, _ANSWERED)
        response = part.get("response") if answered is None else answered.get("response")
        if response is None and answered is None:
            texts += _blocks([part])
        else:
            texts.append(text_block(_response(response)))
    return message("tool", texts or "", call_id=call_id or None, tool_name=name or None)


def _response(response: object) -> str:
    said = fields(response)
    if len(said) == 1 and isinstance(only := next(iter(said.values())), str):
        return only
    return as_json(response)


def _thought(one: Mapping[str, Any]) -> str:
    return "\n".join(filter(None, (words(one.get("subject")), words(one.get("description")))))


def _either(part: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any] | None:
    return next((part[name] for name in names if isinstance(part.get(name), Mapping)), None)
