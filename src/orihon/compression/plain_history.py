"""Plain histories (lists of provider dicts) without any store: what they cost, what belongs together, their files.

Understands the shapes of OpenAI (``tool_calls``, ``tool_call_id``, the old ``function_call``) and Anthropic
(``tool_use`` and ``tool_result`` blocks). Odd data is an ordinary message. Transcripts are JSON Lines, split at line
feeds only; a first line of kind "transcript" is a header. A line that is no message is refused by its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orihon.compression.importance import message_text
from orihon.errors import InvalidInput, InvalidMessage
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.tokens.images import image_tokens
from orihon.values.view import SYSTEM_ROLES

PlainMessage = dict[str, Any]
PlainHistory = list[PlainMessage]

_RESULT_ROLES = ("tool", "function")
_IMAGE_PARTS = ("image", "image_url", "input_image")

# One character is half a token: between Japanese and English.
_TOKENS_PER_CHARACTER = 0.5
_IMAGE_TOKENS = image_tokens(None, None, provider="any")


def cost(messages: Iterable[PlainMessage]) -> float:
    """Tokens of the messages, not rounded, so that costs add up."""
    return sum(map(_message_cost, messages))


def _message_cost(message: PlainMessage) -> float:
    calls = [message.get("tool_calls"), message.get("function_call"), *_parts(message, "tool_use")]
    characters = len(message_text(message)) + sum(_json_length(call) for call in calls if call)
    images = sum(1 for kind in _IMAGE_PARTS for _ in _parts(message, kind))
    return characters * _TOKENS_PER_CHARACTER + images * _IMAGE_TOKENS


def _json_length(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))


def system_head(history: PlainHistory) -> int:
    """How many messages the system prompt has: the leading run of system and developer messages."""
    for index, message in enumerate(history):
        if message.get("role") not in SYSTEM_ROLES:
            return index
    return len(history)


def tool_units(history: PlainHistory) -> list[range]:
    """The history as runs that stay or go together: a tool call up to its last result, or one message.

    A result is joined to the nearest earlier call of its id; one without an id to the call it directly
    follows. What stands between a call and its result belongs to the run.
    """
    last_answer = list(range(len(history)))
    caller_of: dict[str, int] = {}
    open_call: int | None = None
    for index, message in enumerate(history):
        if message.get("role") in _RESULT_ROLES or any(_parts(message, "tool_result")):
            for answered in _answered_ids(message):
                caller = caller_of.get(answered, open_call)
                if caller is not None:
                    last_answer[caller] = index
        else:
            open_call = index if _opens_calls(message) else None
        caller_of.update(dict.fromkeys(_call_ids(message), index))
    return list(_merged(last_answer))


def _merged(last_answer: list[int]) -> Iterator[range]:
    start = 0
    while start < len(last_answer):
        end = at = start
        while at <= end:
            end = max(end, last_answer[at])
            at += 1
        yield range(start, at)
        start = at


def _parts(message: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, list):
        yield from (part for part in content if isinstance(part, Mapping) and part.get("type") == kind)


def has_blocks_of_calls(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Whether calls or results stand among the contents, as Anthropic writes them."""
    return any(any(_parts(message, kind)) for message in messages for kind in ("tool_use", "tool_result"))


def _opens_calls(message: PlainMessage) -> bool:
    return bool(message.get("tool_calls") or message.get("function_call") or any(_parts(message, "tool_use")))


def _call_ids(message: PlainMessage) -> list[str]:
    calls = message.get("tool_calls")
    openai = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    ids = [call.get("id") for call in [*openai, *_parts(message, "tool_use")]]
    return [call_id for call_id in ids if isinstance(call_id, str)]


def _answered_ids(message: PlainMessage) -> list[str]:
    """The calls that a result answers; one empty id when it does not say."""
    ids = [message.get("tool_call_id"), *(part.get("tool_use_id") for part in _parts(message, "tool_result"))]
    return [call_id for call_id in ids if isinstance(call_id, str)] or [""]


_HEADER_KIND = "transcript"


def read_transcript(data: bytes) -> list[Mapping[str, Any]]:
    """The messages of a transcript, as they stand there."""
    messages: list[Mapping[str, Any]] = []
    is_first = True
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        value = _decode(line, number)
        if not (is_first and value.get("kind") == _HEADER_KIND):
            _check(value, number)
            messages.append(value)
        is_first = False
    return messages


def write_transcript(messages: Iterable[Mapping[str, Any]]) -> bytes:
    """One line for each message."""
    return b"".join(jsonio.encode(message) + b"\n" for message in messages)


def _decode(line: bytes, number: int) -> Mapping[str, Any]:
    try:
        value = jsonio.decode(line)
    except ValueError as error:
        raise InvalidInput("transcript_line", line=number, detail=str(error)) from error
    if not isinstance(value, dict):
        raise InvalidInput("transcript_line", line=number, detail=type(value).__name__)
    return value


def _check(value: Mapping[str, Any], number: int) -> None:
    try:
        Message.from_chat(value)
    except InvalidMessage as error:
        raise InvalidInput("transcript_line", line=number, detail=error.cause) from error
