"""What others say as messages that a log takes, without losing a word.

A log takes a tool result only after its call, nothing else while calls are open, and an id once. Clients and frameworks
keep no such rules: they go back and say the same calls again, leave calls without a result, send parallel calls one by
one. The log gets legal messages; what goes back to them is made of their own entries and never of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orihon.importers.answers import joined
from orihon.store.record_codec import Said
from orihon.texts import text
from orihon.values.message.extra import NOTES, notes_of
from orihon.values.message.message import Message, ToolCall

#: The note of a message that says which steps begin with it: ``[[place, digest in hex], …]``.
STEPS = "steps"
#: The note of a message that is no part of any step: a result that nobody gave, a changed system prompt.
BESIDE = "beside"
NO_RESULT, CUT_OFF = "no result", "cut off"
_AGAIN = "#again"


@dataclass(slots=True)
class ScribeLine:
    """A message on its way, and the marks of what begins with it."""

    message: Message
    marks: list[Any] = field(default_factory=list)
    beside: str = ""


class Scribe:
    """Writes down one batch of steps; ``open_calls`` are those that the log waits for, by their ids there.

    ``join``: answers that follow one another, before any result, are one answer that came in pieces.
    """

    def __init__(
        self, open_calls: Sequence[str], was_used: Callable[[str], bool], next_seq: int, *, join: bool = True
    ) -> None:
        self._open = {said_id(call): call for call in open_calls}
        self._was_used = was_used
        self._seq = next_seq
        self._join = join
        self.lines: list[ScribeLine] = []
        self._used: set[str] = set()

    def system(self, said: str, digest: bytes) -> None:
        """What the system says beside the conversation."""
        self._close()
        self.lines.append(ScribeLine(Message("system", said), beside=digest.hex()))

    def aside(self, said: str) -> None:
        """What the model said before it was cut off: kept, and no step of the conversation."""
        self._close()
        self.lines.append(ScribeLine(Message("assistant", said), beside=CUT_OFF))

    def step(self, place: int, digest: bytes, messages: Sequence[Message]) -> None:
        """One step and what it says."""
        self.take(messages, [place, digest.hex()])

    def take(self, messages: Sequence[Message], *given: Any) -> None:
        """What one entry of somebody else says; the marks that are given stay with the first message of it."""
        marks = [*given]
        for message in messages:
            self._message(message, marks)
            marks = []

    def written(self) -> list[Said]:
        """The messages for the log."""
        return [Said(noted(line)) for line in self.lines]

    def close(self) -> list[Said]:
        """Every call that is open answered in words."""
        self._close()
        return self.written()

    def _message(self, message: Message, marks: list[Any]) -> None:
        if message.role == "tool":
            self._result(message, marks)
            return
        if self._open and message.role == "assistant" and self._is_same_answer():
            last = self.lines[-1]
            last.message = joined([last.message, self._with_fresh_ids(message)])
            last.marks += marks
            return
        self._close()
        if message.tool_calls:
            message = self._with_fresh_ids(message) if message.role == "assistant" else _in_words(message)
        self.lines.append(ScribeLine(message, list(marks)))

    def _result(self, message: Message, marks: list[Any]) -> None:
        asked = message.tool_call_id or next(iter(self._open), "")
        known = self._open.pop(asked, None)
        if known is None:  # nobody has asked for it, as far as the log goes
            self._close()
            self.lines.append(ScribeLine(_in_words(message), list(marks)))
            return
        self.lines.append(ScribeLine(replace(message, tool_call_id=known), list(marks)))

    def _is_same_answer(self) -> bool:
        """Whether what was written last is an answer, none of whose results has come yet."""
        last = self.lines[-1].message if self.lines else None
        return self._join and last is not None and last.role == "assistant" and bool(last.tool_calls)

    def _with_fresh_ids(self, message: Message) -> Message:
        calls = []
        for number, call in enumerate(message.tool_calls):
            asked = call.id or f"call_{self._seq + len(self.lines)}_{number}"
            fresh = asked
            if asked in self._used or self._was_used(asked):
                fresh = f"{asked}{_AGAIN}{self._seq + len(self.lines)}.{number}"
            self._used.add(fresh)
            self._open[asked] = fresh
            is_same = fresh == call.id
            calls.append(call if is_same else ToolCall.from_chat({**call.to_chat(), "id": fresh}))
        return replace(message, tool_calls=tuple(calls))

    def _close(self) -> None:
        for call in self._open.values():
            self.lines.append(ScribeLine(Message("tool", text("proxy.no_result"), tool_call_id=call), beside=NO_RESULT))
        self._open.clear()


def said_id(call: str) -> str:
    """The id of a call as the client knows it."""
    return call.rpartition(_AGAIN)[0] or call


def steps_of(message: Message) -> list[tuple[int, bytes]]:
    """The steps that begin with a message of the log: place and digest."""
    found = notes_of(message.extra).get(STEPS) or ()
    return [(int(place), bytes.fromhex(digest)) for place, digest in found]


def beside_of(message: Message) -> str:
    """Why a message is no part of any step: the digest of what the system says, or a word; empty for others."""
    return str(notes_of(message.extra).get(BESIDE) or "")


def noted(line: ScribeLine) -> Message:
    """The message with what the log shall know of it."""
    notes: dict[str, Any] = {**notes_of(line.message.extra)}
    if line.marks:
        notes[STEPS] = line.marks
    if line.beside:
        notes[BESIDE] = line.beside
    return replace(line.message, extra={**line.message.extra, NOTES: notes}) if notes else line.message


def _in_words(message: Message) -> Message:
    """A message whose calls or results have no place in the log, as what a person would read of it."""
    told = [message.text] if message.text else []
    if message.role == "tool":
        told.insert(0, text("proxy.lone_result", call=message.tool_call_id or "-"))
    told += [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return Message("user" if message.role == "tool" else message.role, "\n".join(told))
