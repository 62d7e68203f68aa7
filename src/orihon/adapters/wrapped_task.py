"""``WrappedTask``: one conversation of a program, whose whole list of messages comes with every request, and its task.

The work is that of the proxy's ``Conversation``. Here the task is given, and others may have written to it: what a
request repeats of the log is recognised by what it says, folds too, so that a list that begins with
``task.messages()`` goes on where the task stood.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orihon.errors import InvalidInput
from orihon.guard import load_key
from orihon.proxy.conversation import Conversation, ConversationStep
from orihon.proxy.identity import KeyedDigests
from orihon.proxy.scribe import beside_of, said_id, steps_of
from orihon.proxy.windows import Windows
from orihon.proxy.wire import SYSTEM_ROLES, Answer, Element, ParsedRequest, Wire, texts
from orihon.system import jsonio
from orihon.tasks.notes import note_number
from orihon.tasks.task import Task
from orihon.values.message.message import Message
from orihon.values.records import REWIND, SUMMARY_PREFIX, Fold
from orihon.values.tokens.tokens import Correction, estimate

#: After a refusal without figures a request is taken to be so much larger than we thought.
_LARGER = 1.25


@dataclass(slots=True)
class WrappedExchange:
    """One request that is kept, what goes out in its place, and where its answer belongs."""

    wrapped: WrappedTask
    wire: Wire
    asked: ParsedRequest
    request: Mapping[str, Any]
    after: int  # steps that the program only points at
    window: int
    body: bytes = b""
    is_changed: bool = False
    steps: int = 0
    sent: int = 0  # tokens of it, by our count

    def shorten(self, said: str) -> bool:
        """The provider counts more than we do: learn from it and fold; is there something else to send now?"""
        return self.wrapped.shorten(self, said)

    def finish_whole(self, body: bytes) -> None:
        """Keep an answer that came at once; one that is no JSON is nothing that could be kept."""
        try:
            value = jsonio.decode(body)
        except ValueError:
            return
        if isinstance(value, dict):
            self.finish(self.wire.whole(value))

    def finish(self, answer: Answer) -> None:
        """Keep an answer, whole or cut off."""
        self.wrapped.answered(self, answer)


class WrappedTask:
    """A task that is open, and the conversation of one program in it."""

    def __init__(self, task: Task) -> None:
        context = task.context
        if not task.is_open:
            raise InvalidInput("task_not_open", task=task.key.label)
        settings = context.settings
        length = f"llm.{settings.llm.provider}.context_length"
        fixed = settings.context_length if settings.is_explicit(length) else None
        self.task = task
        self._digests = KeyedDigests(load_key(context.base_dir))
        self._windows = Windows(settings.context_length, fixed)
        self._conversation: _WrappedConversation | None = None
        self._responses: dict[str, int] = {}
        self._lock = threading.RLock()

    def take(self, wire: Wire, raw: bytes, headers: Mapping[str, str]) -> WrappedExchange | None:
        """Keep what is new in a request and make what goes out; ``None`` for one that nobody could understand."""
        try:
            body = jsonio.decode(raw)
        except ValueError:
            return None
        asked = wire.asked(body) if isinstance(body, dict) else None
        if asked is None:
            return None
        asked = _without_folds_in_the_head(asked)
        window = self._windows.of(str(body.get("model") or ""), headers.get("anthropic-beta", ""))
        with self._lock:
            digests = [self._digests.element(wire, element) for element in asked.elements]
            conversation = self._at(wire, asked, digests)
            after = self._pointed(wire, body, conversation)
            exchange = WrappedExchange(self, wire, asked, body, after, window)
            conversation.take(asked, digests, after=after)
            conversation.seen = conversation.last_seq
            self._make(exchange, conversation)
        return exchange

    def _at(self, wire: Wire, asked: ParsedRequest, digests: Sequence[bytes]) -> _WrappedConversation:
        """The conversation as the log stands: others may have written since."""
        known = self._conversation
        if known is not None and known.wire is wire and known.seen == known.last_seq:
            return known
        made = _WrappedConversation(self.task, wire, self._digests, b"")
        made.recognise(asked, digests)
        self._conversation = made
        return made

    def _pointed(self, wire: Wire, body: Mapping[str, Any], conversation: Conversation) -> int:
        told = body.get("previous_response_id") or body.get("conversation")
        if wire.name != "responses" or not told:
            return 0
        return min(self._responses.get(str(told), len(conversation.steps)), len(conversation.steps))

    def _make(self, exchange: WrappedExchange, conversation: Conversation) -> None:
        request = exchange.request
        tools = jsonio.encode(exchange.wire.tools(request))
        reserved = self.task.context.settings.llm.active.output_reserve(exchange.window)
        wanted = min(exchange.wire.most_output(request), exchange.window // 4)
        beside = estimate(tools.decode("utf-8", "replace")) + max(wanted - reserved, 0)
        conversation.use(str(request.get("model") or "unknown"), exchange.window, beside)
        self.task.fit()
        exchange.steps, exchange.sent = len(conversation.steps), conversation.tokens
        made = (
            conversation.pointed_at(exchange.asked, exchange.after)
            if exchange.after
            else conversation.outgoing(exchange.asked)
        )
        exchange.is_changed = made is not None and made.is_folded
        if made is not None and made.is_folded:
            body = exchange.wire.with_entries(request, made.entries)
            body.pop("previous_response_id", None)
            exchange.body = jsonio.encode(body)

    def shorten(self, exchange: WrappedExchange, said: str) -> bool:
        """Fold after a provider has refused a request as too long; is there something else to send now?"""
        before, context = exchange.body, self.task.context
        with self._lock:
            assert self._conversation is not None
            exchange.window = self._windows.learn(str(exchange.request.get("model") or ""), said) or exchange.window
            context.correct(Correction(context.correction.factor * _LARGER))
            self._make(exchange, self._conversation)
            if exchange.body == before:
                self.task.compress()
                self._make(exchange, self._conversation)
        return exchange.body != before

    def answered(self, exchange: WrappedExchange, answer: Answer) -> None:
        """Keep an answer where it belongs; one that is cut off, or late, beside the conversation."""
        with self._lock:
            conversation = self._conversation
            assert conversation is not None
            model = str(exchange.request.get("model") or "unknown")
            conversation.answered(answer, model, exchange.steps, exchange.sent)
            conversation.seen = conversation.last_seq
            if answer.id and answer.is_complete:
                self._responses[answer.id] = len(conversation.steps)


class _WrappedConversation(Conversation):
    """A conversation whose steps are found in the log by what they say."""

    seen = -1

    @property
    def last_seq(self) -> int:
        return int(self._store.task_store.tail.seq)

    def recognise(self, asked: ParsedRequest, digests: Sequence[bytes]) -> None:
        """Which messages of the log a request repeats, from the first on; all others are steps of their own."""
        self.steps, self._system = [], set()
        folds = self._visible()
        log = [(seq, message) for seq, message in self._spoken() if not _is_gone(folds, seq)]
        place = 0
        for element, digest in zip(asked.elements, digests, strict=True):
            found = self._repeated(element, digest, log[place:], folds)
            if not found:
                break
            self.steps.append(_step(digest, [seq for seq, _ in found], found[0][1]))
            place += len(found)
            if self._goes_on(log, place, len(self.steps), digests):
                place -= 1  # the next step became part of the same message
        for seq, message in log[place:]:
            self.steps.append(_step(b"", [seq], message))

    def _spoken(self) -> Iterable[tuple[int, Message]]:
        """The log without what the system says before it and beside it."""
        is_lead = True
        for seq, stored in enumerate(self._store.task_store.messages(), start=1):
            message = stored.message
            if beside := beside_of(message):
                self._system.add(beside)
            elif is_lead and message.role in SYSTEM_ROLES:
                self._system.add(self._digests.of(b"system", message.text.encode("utf-8", "surrogatepass")).hex())
            elif not note_number(message):
                is_lead = False
                yield seq, message

    def _goes_on(self, log: Sequence[tuple[int, Message]], place: int, steps: int, digests: Sequence[bytes]) -> bool:
        marks = [digest for _, digest in steps_of(log[place - 1][1])]
        return len(marks) > 1 and steps < len(digests) and digests[steps] in marks[1:]

    def _repeated(
        self, element: Element, digest: bytes, log: Sequence[tuple[int, Message]], folds: Sequence[Fold]
    ) -> Sequence[tuple[int, Message]]:
        """The messages at the head of the log that a step repeats; none where it says something else."""
        if not log:
            return ()
        said = self.wire.messages(element)
        if any(mark == digest for _, mark in steps_of(log[0][1])):
            return log[: len(said)]
        first = log[0][0]
        fold = next((fold for fold in folds if fold.start_seq == first), None)
        if fold is not None and len(said) == 1 and _text(said[0]) in (fold.text.strip(), _told(fold)):
            return [one for one in log if one[0] <= fold.end_seq]
        heads = log[: len(said)]
        is_same = len(heads) == len(said) and all(map(self._says, (message for _, message in heads), said))
        return heads if is_same else ()

    def _says(self, stored: Message, said: Message) -> bool:
        masked = said.map_strings(self.task.context.base.redactor.mask)
        return _meaning(stored) in (_meaning(said), _meaning(masked))


def _step(digest: bytes, seqs: list[int], first: Message) -> ConversationStep:
    return ConversationStep(digest, seqs, first.role == "tool", first.role == "assistant")


def _is_gone(folds: Sequence[Fold], seq: int) -> bool:
    return any(fold.reason == REWIND and fold.start_seq <= seq <= fold.end_seq for fold in folds)


def _told(fold: Fold) -> str:
    return (SUMMARY_PREFIX + fold.text).strip()


def _text(message: Message) -> str:
    return message.text.strip()


def _meaning(message: Message) -> tuple[Any, ...]:
    others = [part.kind for part in message.parts or () if part.kind != "text"]
    calls = [(said_id(call.id), call.name) for call in message.tool_calls]
    return message.role, _text(message), others, calls, said_id(message.tool_call_id or "")


def _without_folds_in_the_head(asked: ParsedRequest) -> ParsedRequest:
    """Folds that ``task.messages()`` has put behind the system prompt are steps, not what the system says."""
    starts = [number for number, entry in enumerate(asked.head) if _is_fold(entry)]
    if not starts:
        return asked
    moved = asked.head[starts[0] :]
    return replace(
        asked,
        head=asked.head[: starts[0]],
        system=tuple(said for said in asked.system if not said.startswith(SUMMARY_PREFIX)),
        elements=(*(Element((entry,)) for entry in moved), *asked.elements),
    )


def _is_fold(entry: Mapping[str, Any]) -> bool:
    said = texts(entry.get("content"))
    return len(said) == 1 and isinstance(said[0], str) and said[0].startswith(SUMMARY_PREFIX.strip())
