"""Foreign records, read without trust: a field of the wrong type is as good as none.

The readers of the formats share this: getters that never raise, times, usage, and chat messages made of what a record
says. What a chat message has no place for is kept in its notes (see ``orihon.values.message.extra``).

Messages in the words of a provider, as chat messages at once.

The same as ``Message.from_anthropic(…).as_chat()`` and ``Message.from_responses(…).as_chat()``, without the way there
and back: a transcript is read once, and nobody wants the provider's own form again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orihon.errors import InvalidMessage
from orihon.importers.registry import Problem, TranscriptPart
from orihon.system import jsonio
from orihon.values.message.dialects import anthropic, chat, read_content, read_role, responses
from orihon.values.message.dialects.chat import read_text, read_tool_calls
from orihon.values.message.extra import check_depth, pack, wrong_type
from orihon.values.message.message import Message, Part, ToolCall
from orihon.values.records import ModelCall, Usage

_LATEST = 1 << 35  # seconds; larger figures of time are thousandths
_MOST_MONEY = 1e9  # for one call
_TITLE = 80


def words(value: object) -> str:
    """A text, or the empty one."""
    return value if isinstance(value, str) else ""


def fields(value: object) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """A list, or an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list."""
    return (item for item in items(value) if isinstance(item, dict))


def number(value: object) -> float | None:
    """A number; a truth value is none, nor is infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < math.inf else None


def identity(value: object) -> str:
    """A text or a whole number as an id; anything else is none."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else words(value)


def when(value: object) -> str | None:
    """A time as ISO 8601, from such a text or from seconds or thousandths since 1970."""
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return None
        return value
    if (seconds := number(value)) is None:
        return None
    try:
        moment = datetime.fromtimestamp(seconds / 1000 if seconds > _LATEST else seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def title(said: object) -> str:
    """The first line of a text, short enough for a list."""
    lines = words(said).strip().splitlines()
    return lines[0][:_TITLE].strip() if lines else ""


def as_json(value: object) -> str:
    """A text as it is, nothing as the empty text, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else jsonio.encode(value).decode("utf-8", "surrogatepass")


def usage(input_tokens: object, cached: object, output_tokens: object) -> Usage | None:
    """Tokens of a call, the cached among the input; nothing when nobody has counted."""
    if all(number(value) is None for value in (input_tokens, output_tokens)):
        return None
    return Usage.from_record({"input": input_tokens, "cached": cached, "output": output_tokens})


def total(*counts: object) -> int | None:
    """The sum of those that are numbers; nothing when none is."""
    numbers = [found for count in counts if (found := number(count)) is not None]
    return int(sum(numbers)) if numbers else None


def model_call(model: object, used: Usage | None = None, cost: object = None) -> ModelCall | None:
    """The call of an answer, when anything is known about it.

    Agents write that a call cost nothing when they know no price of its model: that is no cost.
    """
    paid = number(cost)
    if paid is not None and not (0 <= paid < _MOST_MONEY and (paid or used is None or used == Usage())):
        paid = None
    if not words(model) and used is None and paid is None:
        return None
    return ModelCall(words(model), used, None if paid is None else float(paid))


def usages(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What each answer used, by its id, from metrics that list the usage of all calls and, beside it, their costs."""
    spent, costs = list(objects(metrics.get("token_usages"))), list(objects(metrics.get("costs")))
    if len(spent) == len(costs):
        spent = [{**one, "cost": paid.get("cost")} for one, paid in zip(spent, costs, strict=True)]
    return {words(one.get("response_id")): one for one in spent}


def tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call of a tool; arguments that are no text become JSON."""
    return ToolCall(words(call_id), words(name) or "unknown", "{}" if arguments is None else as_json(arguments))


def thought(said: str) -> dict[str, Any]:
    """A piece of reasoning as the notes of a message keep it."""
    return {"type": "thinking", "thinking": said}


def text_block(said: str) -> dict[str, Any]:
    """A text as a part of a chat message."""
    return {"type": "text", "text": said}


def image_block(url: str) -> dict[str, Any]:
    """A picture as a part of a chat message."""
    return {"type": "image_url", "image_url": {"url": url}}


def data_url(media_type: object, base64: object) -> str:
    """The address that holds the data itself."""
    return f"data:{words(media_type) or 'application/octet-stream'};base64,{words(base64)}"


def message(
    role: str,
    content: str | Sequence[Mapping[str, Any]] | None = None,
    *,
    calls: Iterable[ToolCall] = (),
    call_id: str | None = None,
    tool_name: str | None = None,
    reasoning: Sequence[Mapping[str, Any]] = (),
    rest: Mapping[str, Any] | None = None,
) -> Message:
    """A chat message. ``rest`` is what the record says beside; what is nested too deeply is an ``InvalidMessage``."""
    parts: tuple[Part, ...] | None = None
    if content is not None and not isinstance(content, str):
        check_depth(list(content), "content")
        content, parts = _content(content)
    notes: dict[str, Any] = {}
    if reasoning:
        notes["reasoning"] = list(reasoning)
    if telling := {key: value for key, value in (rest or {}).items() if value not in (None, "", [], {})}:
        notes["fields"] = telling
    check_depth(notes, "extra")
    return Message(role, content, parts, tuple(calls), call_id, None, tool_name, pack((), notes))


def _content(blocks: Sequence[Mapping[str, Any]]) -> tuple[str | None, tuple[Part, ...] | None]:
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return words(blocks[0].get("text")), None
    return None, tuple(Part.of(block) for block in blocks) or None


def name_for(path: Path, *marks: str) -> str:
    """An id for a thread that has none of its own: the name of its file, and a mark of how it begins."""
    digest = hashlib.sha256("\0".join(marks).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{path.name.split('.', 1)[0] or path.name.strip('.')}-{digest}"


class Unknown:
    """Counts the kinds of records that nobody knows; each is reported once, where it came first."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[int]] = {}

    def add(self, kind: object, line: int) -> None:
        """One record of that kind."""
        named = as_json(kind)[:_TITLE] if not isinstance(kind, Mapping | list) else "?"
        if named in self._kinds:
            self._kinds[named][1] += 1
        elif len(self._kinds) < 1000:  # a file of rubbish has any number of kinds
            self._kinds[named] = [line, 1]

    def problems(self) -> Iterator[Problem]:
        """What is to be reported at the end of a file."""
        for kind, (line, count) in self._kinds.items():
            yield Problem("unknown_kind", line, {"kind": kind, "count": count})


#: A record with the number of its line, or why there is none.
RecordOrProblem = tuple[int, Mapping[str, Any]] | Problem


def read_each(
    records: Iterable[RecordOrProblem], take: Callable[[int, Mapping[str, Any]], Iterator[TranscriptPart]]
) -> Iterator[TranscriptPart]:
    """What is in the records, one by one; a message that cannot be kept is reported, and the next one read."""
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        try:
            yield from take(*record)
        except InvalidMessage as error:
            yield Problem("message", record[0], {"detail": error.cause})


def numbered(values: object) -> Iterator[RecordOrProblem]:
    """The objects of a list as records; where they stand in the file is not known."""
    return ((0, value) for value in objects(values))


def from_anthropic(message: Mapping[str, Any]) -> list[Message]:
    """The chat messages of one of Anthropic's: a result each, then what else was said."""
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        raise wrong_type(content, "str, list or None", "content")
    check_depth(message, "message")
    try:
        return [_message(data, notes) for data, notes in anthropic.as_chat(message)]
    except (TypeError, KeyError, AttributeError) as error:
        raise _malformed(error) from error


def from_responses(item: Mapping[str, Any]) -> Message:
    """The chat message of an item of OpenAI Responses."""
    check_depth(item, "message")
    try:
        return _message(*responses.as_chat(item))
    except (TypeError, KeyError, AttributeError) as error:
        raise _malformed(error) from error


def _message(data: dict[str, Any], notes: dict[str, Any]) -> Message:
    """The same as ``Message(**chat.read(data, notes))`` for what a dialect has made of a message that can be walked."""
    call_id = data.get("tool_call_id")
    if call_id is None and "tool_call_id" in data:
        return Message(**chat.read_walked(data, notes))
    content, parts = read_content(data["content"])
    return Message(
        read_role(data["role"], also=("function",)),
        content,
        parts,
        read_tool_calls(data["tool_calls"]) if "tool_calls" in data else (),
        read_text(call_id, "tool_call_id"),
        extra=pack((), notes) if notes else {},
    )


def _malformed(error: Exception) -> InvalidMessage:
    return InvalidMessage("wrong_type", field="content[]", expected="dict", actual=f"{type(error).__name__}: {error}")
