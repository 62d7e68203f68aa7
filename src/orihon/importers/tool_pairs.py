"""Foreign histories made legal, without losing a word.

A log of ours takes a tool result only after its call, takes nothing else while calls are open, and an id only once.
Other agents keep no such rules. ``ToolPairing`` takes the items of one thread in their order and gives the steps that
a log takes: pieces of an answer become one message, results move up to their calls, a call that nobody answered is
answered in words, a result that nobody asked for gets a call, a repeated id gets a number. What was done is counted.

The steps depend on the items alone and never on what comes later: who has taken the first steps of a thread can skip
them when the thread has grown. The one exception is the end of what is there now (``end``), which has to be known when
the same items are taken again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from orihon.errors import InvalidInput
from orihon.importers.answers import Additions, is_empty, joined, joined_call, merged, tool_record
from orihon.importers.registry import CompactionItem, PlanItem, Problem, SaidItem, ToolItem, TranscriptItem
from orihon.texts import text
from orihon.values.message.extra import NOTES, notes_of
from orihon.values.message.message import Message, ToolCall
from orihon.values.records import ModelCall

#: So many things may come between a call and its result; then nobody waits for it any longer.
WINDOW = 64
#: The roles of what only the model has said, and of what only tools have.
_ANSWER = {"assistant"}
_RESULT = {"tool"}


@dataclass(frozen=True, slots=True)
class SaidStep:
    """A message that the log takes."""

    message: Message
    timestamp: str | None
    call: ModelCall | None = None


@dataclass(frozen=True, slots=True)
class FoldStep:
    """What stands before it is folded, but for the last ``kept`` messages; with ``covers`` only so many of it."""

    text: str
    kept: int
    timestamp: str | None
    covers: int | None = None
    is_taken_back: bool = False  # nothing of it counts any more


LogStep = SaidStep | FoldStep | ToolItem | PlanItem


@dataclass(slots=True)
class Mended:
    """What was done to make a history legal."""

    calls_closed: int = 0
    calls_added: int = 0
    ids_changed: int = 0
    results_moved: int = 0
    roles_changed: int = 0

    def add(self, other: Mended) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_Way = SaidStep | ToolItem | PlanItem | CompactionItem


@dataclass(slots=True)
class _Open:
    """A call that waits for its result."""

    id: str  # in the log
    said_id: str  # as the other agent wrote it
    call: ToolCall


@dataclass(slots=True)
class ToolPairing:
    """The items of one thread on their way into a log."""

    mended: Mended = field(default_factory=Mended)
    messages: int = 0  # steps so far that are messages
    _head: int = 0
    _added: Additions = field(default_factory=Additions)
    _pieces: list[SaidStep] = field(default_factory=list)
    _answer: str | None = None
    _behind: list[_Way] = field(default_factory=list)  # came after the answer that may still get pieces
    _open: list[_Open] = field(default_factory=list)
    _held: list[_Way] = field(default_factory=list)  # came while calls are open
    _told: list[ToolItem] = field(default_factory=list)  # of the calls that are being answered
    _used: set[int] = field(default_factory=set)
    _foreign: set[str] = field(default_factory=set)  # calls that somebody else than the model has made
    _out: list[LogStep | Problem] = field(default_factory=list)

    def take(self, item: TranscriptItem) -> list[LogStep | Problem]:
        """The next item of the thread."""
        if isinstance(item, SaidItem):
            self._take_said(item)
        else:
            self._queue(item)
        return self._given()

    def end(self, *, close: bool) -> list[LogStep | Problem]:
        """All there is for now. ``close``: calls that are open get no result any more."""
        self._flush()
        while self._held:
            self._close()
        if close and self._open:
            self._close()
        self._tools()
        return self._given()

    def _given(self) -> list[LogStep | Problem]:
        out, self._out = self._out, []
        return out

    def _take_said(self, item: SaidItem) -> None:
        try:
            messages = item.message.as_chat()
        except InvalidInput as error:
            self._out.append(Problem("message", fields={"detail": error.cause}))
            return
        except (TypeError, KeyError, ValueError, AttributeError, RecursionError) as error:
            self._out.append(Problem("message", fields={"detail": f"{type(error).__name__}: {error}"}))
            return
        ones = [SaidStep(messages[0], item.timestamp, item.call)]
        ones += [SaidStep(message, item.timestamp) for message in messages[1:]]
        roles = {message.role for message in messages}
        if self._pieces:
            if roles == _ANSWER and self._continues(item, messages):
                self._pieces += ones
                return
            if roles == _RESULT and len(self._behind) < WINDOW:
                self._behind += ones
                return
            self._flush()
        if len(ones) == 1 and roles == _ANSWER and (item.answer is not None or messages[0].tool_calls):
            self._pieces, self._answer = ones, item.answer
            return
        for one in ones:
            self._next(one)

    @property
    def is_settled(self) -> bool:
        """Would ``end`` change nothing?"""
        return not (self._pieces or self._behind or self._open or self._held or self._told)

    @property
    def awaits_results(self) -> bool:
        """Are calls open, or in the answer that may still get pieces?"""
        return bool(self._open or any(piece.message.tool_calls for piece in self._pieces))

    # ---- answers in pieces -------------------------------------------------------------------------------------

    def _continues(self, item: SaidItem, messages: Sequence[Message]) -> bool:
        """Is what the model says now a piece of the answer before it?"""
        if item.answer is not None or self._answer is not None:
            return item.answer == self._answer
        # Without a word about it: calls that follow each other without a result were made in parallel.
        return not self._behind and any(message.tool_calls for message in messages)

    def _queue(self, item: ToolItem | PlanItem | CompactionItem) -> None:
        if not self._pieces:
            self._next(item)
        elif isinstance(item, CompactionItem) or len(self._behind) >= WINDOW:
            self._flush()
            self._next(item)
        else:
            self._behind.append(item)

    def _flush(self) -> None:
        if not self._pieces:
            return
        pieces, self._pieces, behind, self._behind = self._pieces, [], self._behind, []
        whole = pieces[0] if len(pieces) == 1 else self._joined(pieces)
        if not is_empty(whole.message):
            self._next(whole)
        for item in behind:
            self._next(item)

    def _joined(self, pieces: Sequence[SaidStep]) -> SaidStep:
        calls = [piece.call for piece in pieces if piece.call is not None]
        call = joined_call(calls, is_one=self._answer is not None)
        return SaidStep(joined([piece.message for piece in pieces]), pieces[0].timestamp, call)

    # ---- calls and results -------------------------------------------------------------------------------------

    def _next(self, item: _Way) -> None:
        if isinstance(item, PlanItem):
            self._out.append(item)
        elif isinstance(item, ToolItem):
            self._tool(item)
        elif not self._open:
            self._free(item)
        elif isinstance(item, SaidStep) and (called := self._answered_by(item.message)) is not None:
            self._result(item, called)
        else:
            self._held.append(item)
            if len(self._held) > WINDOW:
                self._close()

    def _free(self, item: SaidStep | CompactionItem) -> None:
        """With no calls open."""
        if isinstance(item, CompactionItem):
            self._fold(item)
        elif item.message.role == "tool":
            self._unasked(item)
        elif item.message.tool_calls and item.message.role != "assistant":
            self._said(replace(item, message=self._in_words(item.message)))
        else:
            message = self._with_own_ids(item.message)
            self._said(item if message is item.message else replace(item, message=message))

    def _said(self, one: SaidStep) -> None:
        if one.message.role != "tool":
            self._tools()
        if self._head == self.messages and one.message.role in ("system", "developer"):
            self._head += 1
        self.messages += 1
        self._out.append(one)

    def _result(self, one: SaidStep, called: _Open) -> None:
        self._open.remove(called)
        if self._held:
            self.mended.results_moved += 1
        if one.message.tool_call_id != called.id:
            one = replace(one, message=_with_call_id(one.message, called))
        self._said(one)
        self._note(called, one)
        if not self._open:
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for item in held:
            self._next(item)

    def _answered_by(self, message: Message) -> _Open | None:
        """The open call whose result this is: by its id, or without one the oldest of its tool."""
        if message.role != "tool":
            return None
        if message.tool_call_id:
            return next((one for one in self._open if one.said_id == message.tool_call_id), None)
        name = message.tool_name or message.name
        return next((one for one in self._open if name in (None, "", one.call.name)), None)

    def _close(self) -> None:
        """Nobody waits any longer for the results of the open calls."""
        for called in self._open[:]:
            self.mended.calls_closed += 1
            said = text("importing.no_result", lang="en")
            message = Message("tool", said, tool_call_id=called.id, extra={NOTES: {"imported": "result_added"}})
            self._added.add(self.messages + 1)
            self._said(SaidStep(message, None))
        self._open.clear()
        self._release()

    def _unasked(self, one: SaidStep) -> None:
        """A result whose call is not there, or has been answered."""
        message = one.message
        if message.tool_call_id in self._foreign:
            self.mended.roles_changed += 1
            words = replace(message, role="user", tool_call_id=None, tool_name=None)
            self._said(replace(one, message=words))
            return
        self.mended.calls_added += 1
        name = message.tool_name or message.name or "unknown"
        asked = ToolCall(message.tool_call_id or "", name, "{}")
        call = Message("assistant", None, tool_calls=(asked,), extra={NOTES: {"imported": "call_added"}})
        self._added.add(self.messages + 1)
        self._said(SaidStep(self._with_own_ids(call), one.timestamp))
        self._result(one, self._open[0])

    def _with_own_ids(self, message: Message) -> Message:
        """The message with an id for each call that was never used before; its calls are open now."""
        if not message.tool_calls:
            return message
        calls = []
        for number, call in enumerate(message.tool_calls, start=1):
            new = self._own_id(call.id, number)
            if new != call.id:
                self.mended.ids_changed += bool(call.id)
                calls.append(_renamed(call, new))
            else:
                calls.append(call)
            self._open.append(_Open(new, call.id, calls[-1]))
        if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
            return message
        return replace(message, tool_calls=tuple(calls))

    def _own_id(self, wanted: str, number: int) -> str:
        new = wanted or f"call_{self.messages + 1}_{number}"
        stem, count = new, 1
        while (mark := _mark(new)) in self._used:
            count += 1
            new = f"{stem}-{count}"
        self._used.add(mark)
        return new

    def _in_words(self, message: Message) -> Message:
        """Only a model calls tools: what somebody else has called is told in words."""
        self.mended.roles_changed += 1
        self._foreign.update(call.id for call in message.tool_calls if call.id)
        calls = message.tool_calls
        told = [text("importing.called", lang="en", name=call.name, asked=call.arguments) for call in calls]
        if message.parts is None:
            content = "\n".join(filter(None, (message.content, *told)))
            return replace(message, content=content, tool_calls=())
        said = Message("user", "\n".join(told))
        return replace(joined([replace(message, tool_calls=()), said]), role=message.role)

    # ---- compactions -------------------------------------------------------------------------------------------

    def _fold(self, item: CompactionItem) -> None:
        said = item.text
        if not said.strip():
            if not item.covers:
                return
            said = text("importing.taken_back", lang="en", count=item.covers)
        self._tools()
        kept = self._added.reach(self.messages, item.kept)
        if self.messages - kept > self._head:
            covers = item.covers and self._added.reach(self.messages - kept, item.covers)
            self._out.append(FoldStep(said, kept, item.timestamp, covers, said is not item.text))
        elif said is item.text:  # what it sums up is in another file: here it is the first thing that was said
            self._said(SaidStep(Message("user", item.text), item.timestamp))

    # ---- the record of tool calls ------------------------------------------------------------------------------

    def _tool(self, item: ToolItem) -> None:
        for index, known in enumerate(self._told):
            if item.call_id is not None and known.call_id == item.call_id:
                self._told[index] = merged(known, item)
                return
        if item.call_id is not None and (self._open or self._held):
            self._told.append(item)
        else:
            self._out.append(item)

    def _note(self, called: _Open, one: SaidStep) -> None:
        made = tool_record(called.id, called.call, one.message, one.timestamp)
        for index, known in enumerate(self._told):
            if known.call_id in (called.said_id, called.id):
                self._told[index] = merged(made, replace(known, call_id=called.id))
                return
        self._told.append(made)

    def _tools(self) -> None:
        self._out += self._told
        self._told = []


def _mark(call_id: str) -> int:
    """An id as a number: of a long history only these are held."""
    return hash(call_id)


def _renamed(call: ToolCall, new: str) -> ToolCall:
    extra = dict(call.extra)
    if NOTES in extra:
        notes = {key: note for key, note in notes_of(extra).items() if key != "as_sent"}
        notes["absent"] = [key for key in notes.get("absent", ()) if key != "id"]
        extra[NOTES] = {key: note for key, note in notes.items() if note}
        extra = {key: value for key, value in extra.items() if value or key != NOTES}
    return ToolCall(new, call.name, call.arguments, extra)


def _with_call_id(message: Message, called: _Open) -> Message:
    """A result with the id that its call has in the log."""
    notes = notes_of(message.extra)
    extra = dict(message.extra)
    if isinstance(of_call := notes.get("calls"), dict) and called.said_id in of_call:
        renamed = {called.id if key == called.said_id else key: value for key, value in of_call.items()}
        extra[NOTES] = {**notes, "calls": renamed}
    return replace(message, tool_call_id=called.id, extra=extra)
