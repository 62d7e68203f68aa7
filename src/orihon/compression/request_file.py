"""A request for a summary, made file to file: a prompt and the lines of a context, one message in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from orihon.errors import DamagedStore
from orihon.system import jsonio
from orihon.system.files import replace_file, wrapping
from orihon.values.message.message import Message

_MESSAGES = "{messages}"


def write_request_file(prompt_file: Path, context_file: Path, output_file: Path) -> None:
    """Prompt and context (as ``[ROLE]: content``) into one file; the context stands where ``{messages}`` does."""
    with wrapping(prompt_file):
        prompt = prompt_file.read_text(encoding="utf-8")
    pieces = _filled(prompt, _conversation(context_file))
    replace_file(output_file, (piece.encode("utf-8", "replace") for piece in pieces), durable=False)


def _filled(prompt: str, messages: Iterable[str]) -> Iterator[str]:
    """The prompt with the messages in their place, piece by piece."""
    before, found, after = prompt.partition(_MESSAGES)
    yield before if found else before.rstrip() + "\n\n"
    yield from messages
    yield after


def _conversation(context_file: Path) -> Iterator[str]:
    with wrapping(context_file), context_file.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                message = Message.from_chat(jsonio.decode(line))
            except ValueError as error:
                raise DamagedStore("record", stream="current", where=context_file, start=line[:40]) from error
            calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
            yield f"[{message.role.upper()}]: {' '.join(filter(None, (message.text, *calls)))}\n"
