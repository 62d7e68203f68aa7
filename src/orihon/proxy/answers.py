"""By what an answer is known again in the history of a client that has no id and writes its history anew.

Some clients put other messages around an answer, or say its calls in words; the ids of calls and the way a long text
begins stay. Of what is too short to be told from others nothing is taken. Whether it is unique, the index knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from orihon.values.message.message import Message

#: Characters of a text's beginning: clients add to the end of an answer, or trim it.
_BEGINNINGS = (200, 48)
#: Ids that providers draw at random, also where a client has them in words.
_CALL = re.compile(r"(?:call|toolu|tooluse|fc|chatcmpl-tool)[-_][A-Za-z0-9_-]{12,}")


def marks_given(messages: Iterable[Message]) -> Iterator[str]:
    """What an answer is known by."""
    for message in messages:
        yield from _calls(message)
        yield from _beginnings(message.text)[:1]


def marks_repeated(messages: Iterable[Message]) -> Iterator[str]:
    """What a message of a request may know an answer by."""
    for message in messages:
        if message.role == "assistant":
            yield from _calls(message)
            yield from _CALL.findall(message.text)
            yield from _beginnings(message.text)


def _calls(message: Message) -> Iterator[str]:
    return (call.id for call in message.tool_calls if _CALL.fullmatch(call.id))


def _beginnings(said: str) -> Sequence[str]:
    text = said.strip()
    return [text[:length] for length in _BEGINNINGS if len(text) >= length]
