"""Transcripts as JSON Lines of OpenAI chat messages: in and out.

Lines are split at line feeds only, blank ones are skipped, and a first line of kind "transcript" is a header, which is
not a message. A line that is no message is refused by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orihon.errors import InvalidInput, InvalidMessage
from orihon.system import jsonio
from orihon.values.message.message import Message

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
