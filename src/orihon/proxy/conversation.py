"""``Conversation``: one conversation of a client, as a task that is open here.

Knows for each step of the client's array which messages of the log it became. What goes to the model is made of the
client's own entries, with the folds of the view in their places: nothing of it is read from the log, where secrets are
masked, and between two folds it begins with the same entries as before.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

from orihon.errors import BudgetExceeded, IllegalFold, OrihonError
from orihon.proxy.identity import KeyedDigests
from orihon.proxy.index import KnownConversation
from orihon.proxy.scribe import Scribe, beside_of, steps_of
from orihon.proxy.wire import Answer, Element, ParsedRequest, Wire, WireEntry
from orihon.proxy.wire_responses import items_of
from orihon.store.record_codec import Said
from orihon.tasks.notes import note_number, say_notes
from orihon.tasks.task import Task
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import REWIND, Fold, ModelCall
from orihon.values.view import PlannedFold

logger = logging.getLogger("orihon.proxy")

_MAKER = "proxy"
#: However much a client reserves for tools and answer, so much of the window is the conversation's.
_LEAST_SHARE = 0.3


@dataclass(slots=True)
class ConversationStep:
    """A step of the client's array, and the messages of the log that it became."""

    digest: bytes
    seqs: list[int]
    is_result: bool
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class NoteInLog:
    """A note in the log; the model gets it where it stands there."""

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What goes to the model in the place of what the client sent."""

    entries: list[WireEntry]
    is_folded: bool
    has_notes: bool = False

    @property
    def is_changed(self) -> bool:
        """Is it anything else than the client's own?"""
        return self.is_folded or self.has_notes


class Conversation:
    """One open task. Its methods are called by one thread at a time, under ``lock``; folding needs no lock."""

    def __init__(self, task: Task, wire: Wire, digests: KeyedDigests, seed: bytes) -> None:
        self.task = task
        self.wire = wire
        self.seed = seed
        self.lock = threading.RLock()
        self.is_busy = False
        self.used_at = time.monotonic()
        self.steps: list[ConversationStep] = []
        self.is_told = True  # has the client got the answer at the end?
        self._digests = digests
        self._system: set[str] = set()
        self._kept_notes: list[NoteInLog] = []
        self._plans: int | None = None
        self._folds: tuple[int, tuple[Fold, ...]] = (0, ())
        self._freed: tuple[int, int, int] = (0, 0, 0)
        self._note(0, (stored.message for stored in self._store.task_store.messages()))

    @property
    def uuid(self) -> str:
        return self.task.context.uuid

    @property
    def _store(self) -> Any:
        return self.task.context.message_store

    def known(self, kind: str, session: bytes | None, *, unheard: int = 0) -> KnownConversation:
        """How the index keeps it; ``unheard``: so many steps at its end are an answer that the client may not have."""
        chains = self._digests.chains(self.seed, (step.digest for step in self.steps))
        first, tip = (chains[0], chains[-1]) if chains else (self.seed, self.seed)
        asked = chains[-1 - unheard] if 0 < unheard < len(chains) else None
        return KnownConversation(self.uuid, self.seed, first, tip, session, len(self.steps), kind, asked)

    # ---- in ------------------------------------------------------------------------------------------------------

    def common(self, digests: Sequence[bytes]) -> int:
        """How many steps it shares with these, from the first on."""
        for place, (step, digest) in enumerate(zip(self.steps, digests, strict=False)):
            if step.digest != digest:
                return place
        return min(len(self.steps), len(digests))

    def is_asked_again(self, digests: Sequence[bytes]) -> bool:
        """Is this the request whose answer is the end, once more, by a client that may never have got it?"""
        place = self.common(digests)
        return not self.is_told and place == len(digests) and all(step.is_answer for step in self.steps[place:])

    def take(self, asked: ParsedRequest, digests: Sequence[bytes], *, after: int = 0) -> None:
        """Append what is new, durably. Where the client has gone back or said something else, the view follows.

        ``after``: so many steps came before those that are asked, which the client only points at.
        """
        shared = after or self.common(digests)
        if shared < len(self.steps):
            shared = self._go_back(shared)
        scribe = self._scribe()
        for said in asked.system:
            digest = self._digests.of(b"system", said.encode("utf-8", "surrogatepass"))
            if digest.hex() not in self._system:
                scribe.system(said, digest)
        for place in range(shared, after + len(asked.elements)):
            element, digest = asked.elements[place - after], digests[place - after]
            scribe.step(place, digest, self.wire.messages(element))
        self._write(scribe.written())
        self.is_told = True
        self.say_notes()

    def say_notes(self) -> None:
        """Notes that wait become messages, if no call is open; the model gets them where they stand in the log."""
        before = self._store.task_store.tail.seq
        self._plans = say_notes(self._store, said=self._plans)
        if before < self._store.task_store.tail.seq:
            store = self._store.task_store
            said = (store.message(seq).message for seq in range(before + 1, store.tail.seq + 1))
            self._note(before, said)

    def _scribe(self) -> Scribe:
        tail = self._store.task_store.tail
        return Scribe(list(tail.open_calls), tail.used_calls.perhaps_has, tail.seq + 1)

    def _write(self, said: Sequence[Said]) -> None:
        if said:
            first = self._store.task_store.append(said) - len(said) + 1
            self._note(first - 1, (one.message for one in said))

    def _note(self, seq: int, messages: Iterable[Message]) -> None:
        """Messages of the log, from the one after ``seq`` on: which steps they are."""
        for message in messages:
            seq += 1
            marks = steps_of(message)
            if note_number(message):
                self._kept_notes.append(NoteInLog(seq, message.text))
            elif beside := beside_of(message):
                self._system.add(beside)
            elif not marks and self.steps:
                self.steps[-1].seqs.append(seq)
            for place, digest in marks:
                del self.steps[place:]
                self.steps.append(ConversationStep(digest, [seq], message.role == "tool", message.role == "assistant"))

    def _go_back(self, place: int) -> int:
        """The client goes on from an earlier step: what came after it is folded away, and stays in the log.

        Results go with their calls, so it may be an even earlier one; returns which.
        """
        while place > 0 and (
            self.steps[place].is_result or self.steps[place].seqs[0] == self.steps[place - 1].seqs[-1]
        ):
            place -= 1
        self._write(self._scribe().close())
        first, last = self.steps[place].seqs[0], self._store.task_store.tail.seq
        self._fold_away(first, last, text("proxy.went_back", first=first, last=last))
        del self.steps[place:]
        return place

    def _fold_away(self, first: int, last: int, notice: str) -> None:
        """Out of the view; a fold that reaches across the edge is opened before."""
        folding = self._store.folding
        try:
            for fold in self._visible():
                if fold.start_seq < first <= fold.end_seq:
                    folding.unfold(fold.id, made_by=_MAKER)
                    self._fold_away(first, last, notice)  # others may have been inside of it
                    return
            edges = [first - 1, *(note.seq for note in self._kept_notes if first <= note.seq <= last), last + 1]
            runs = [(start + 1, end - 1) for start, end in pairwise(edges) if start + 1 < end]
            planned = [PlannedFold(start, end, notice, reason=REWIND) for start, end in runs]
            if planned:
                folding.compress(planned, strategy=REWIND, made_by=_MAKER)
        except IllegalFold as refused:  # something in it is pinned: it stays in the view, and is not sent
            logger.info("%s: %s", self.uuid, refused)

    # ---- out -----------------------------------------------------------------------------------------------------

    def use(self, model: str, window: int, beside: int, *, has_recall: bool = False) -> None:
        """What the next request is for: a model, its window, and the tokens that are not the conversation's."""
        context, store = self.task.context, self._store
        if (context.model, store.context_length) != (model, window):
            context.catalogue.tasks.update(context.uuid, model=model, context_length=window, epoch=context.lease.epoch)
            context.model, store.context_length = model, window
        store.has_recall = has_recall
        store.tool_tokens = min(beside, int(window * (1 - _LEAST_SHARE)))

    def fit(self) -> bool:
        """Fold what cannot be sent; does the view fit now?"""
        if self.task.usage <= 1:
            return True
        try:
            self.task.fit()
        except (BudgetExceeded, IllegalFold) as error:
            logger.warning("%s: %s", self.uuid, error)
        return self.task.usage <= 1

    def fold_if_needed(self) -> bool:
        """As the ladder says; takes its time, and no lock while it plans."""
        with suppress(BudgetExceeded):
            return self.task.context.compress_if_needed()
        return False

    def outgoing(self, asked: ParsedRequest) -> Outgoing:
        """The entries for the model: the client's own, and folds where the view has them.

        Also of a request that could not be taken in: its first steps are those that are known then.
        """
        folds, notes = self._visible(), self._kept_notes
        entries = list(asked.head)
        if not folds and not notes:
            entries += [entry for element in asked.elements for entry in element.entries]
            return Outgoing(entries, is_folded=False)
        told: set[int] = set()
        notes_left = list(notes)
        for element, step in zip_longest(asked.elements, self.steps[: len(asked.elements)]):
            while step is not None and notes_left and notes_left[0].seq < step.seqs[0]:
                entries.append(self.wire.note_entry(notes_left.pop(0).text))
            if step is None:  # it could not be written down: as it is
                entries += element.entries
                continue
            covering = [_fold_at(folds, seq) for seq in step.seqs]
            for fold in covering:
                if fold is not None and fold.form == "summary" and fold.id not in told:
                    told.add(fold.id)
                    if fold.reason != REWIND:
                        entries.append(self.wire.fold_entry(fold.text))
            entries += self._shown(element, covering)
        entries += [self.wire.note_entry(note.text) for note in notes_left]
        whole = len(asked.head) + sum(len(element.entries) for element in asked.elements) + len(notes)
        is_folded = len(entries) != whole or any(fold.form == "preview" for fold in folds)
        return Outgoing(self._paired(entries, asked), is_folded=is_folded, has_notes=bool(notes))

    def pointed_at(self, asked: ParsedRequest, after: int) -> Outgoing | None:
        """The same for a client that names an answer and says only what is new; ``None`` where that may pass as it is.

        What the client does not send comes out of the log, where secrets are masked.
        """
        last = self.steps[after - 1].seqs[-1]
        is_noted = any(note.seq > last for note in self._kept_notes)  # what the provider keeps does not have them
        if not is_noted and not any(fold.reason != REWIND for fold in self._visible()):
            return None
        entries: list[WireEntry] = list(asked.head)
        store = self._store.task_store
        for fold, record in store.walk():
            if record is None:
                entries += [] if fold.reason == REWIND else [self.wire.fold_entry(fold.text)]
                continue
            message = store.stored(record).message
            if note_number(message):
                entries.append(self.wire.note_entry(message.text))
            elif record["seq"] <= last and not beside_of(message):
                entries += items_of(message if fold is None else replace(message, content=fold.text, parts=None))
        entries += [entry for element in asked.elements for entry in element.entries]
        return Outgoing(entries, is_folded=True)

    def _shown(self, element: Element, covering: Sequence[Fold | None]) -> Sequence[WireEntry]:
        if all(fold is None for fold in covering):
            return element.entries
        states = [True if fold is None else fold.text if fold.form == "preview" else None for fold in covering]
        if all(state is None for state in states):
            return ()
        if len(states) != len(self.wire.messages(element)):  # it was beyond understanding: whole or not at all
            return element.entries
        return self.wire.partly(element, states)

    def _paired(self, entries: list[WireEntry], asked: ParsedRequest) -> list[WireEntry]:
        """No call without its result and no result without its call, as far as the client had both."""
        wire = self.wire
        sent = [entry for element in asked.elements for entry in element.entries]
        had = {call for entry in sent for call in wire.called(entry)} & {
            call for entry in sent for call in wire.answered(entry)
        }
        called = {call for entry in entries for call in wire.called(entry)}
        answered = {call for entry in entries for call in wire.answered(entry)}
        lone = (called ^ answered) & had
        if not lone:
            return entries
        logger.warning("%s: %d calls had lost their results, or results their calls", self.uuid, len(lone))
        kept = (
            wire.without(entry, lone) if lone & {*wire.called(entry), *wire.answered(entry)} else entry
            for entry in entries
        )
        return [entry for entry in kept if entry is not None]

    def _visible(self) -> tuple[Fold, ...]:
        store = self._store.task_store
        number = store.tail.compressions
        if self._folds[0] != number:
            self._folds = number, store.state()[0]
        return self._folds[1]

    # ---- back ----------------------------------------------------------------------------------------------------

    def answered(self, answer: Answer, model: str, after: int, sent: int, larger: float = 1.0) -> int | None:
        """Keep an answer to the request that ended with step ``after``; ``sent``: our count of that request.

        ``larger``: so many times that was the client's own request.
        Returns its number in the log, unless it is no step of the conversation.
        """
        if not answer.elements:
            return None
        if not answer.is_complete or len(self.steps) != after:
            self._keep_aside(answer)
            return None
        scribe = self._scribe()
        for place, element in enumerate(answer.elements, start=after):
            scribe.step(place, self._digests.element(self.wire, element), self.wire.messages(element))
        said = scribe.written()
        call = ModelCall.of(answer.model or model, answer.usage)
        if call.usage is not None:
            call = replace(call, direct=round(call.usage.input * larger))
        said[0] = Said(said[0].message, call=call)
        self._write(said)
        try:
            self.task.context.report_usage(answer.usage, sent, call=call)
        except OrihonError as error:  # figures; the answer is kept
            logger.warning("%s: %s", self.uuid, error)
        return int(self._store.task_store.tail.seq)

    def _keep_aside(self, answer: Answer) -> None:
        """What was cut off, or came when the client had gone on already: in the log, and out of the view."""
        said = "\n".join(
            _in_words(message) for element in answer.elements for message in self.wire.messages(element)
        ).strip()
        if not said:
            return
        scribe = self._scribe()
        scribe.aside(said)
        before = self._store.task_store.tail.seq
        self._write(scribe.written())
        self._fold_away(before + 1, self._store.task_store.tail.seq, text("proxy.cut_off"))

    def times_larger(self, tools: int) -> float:
        """How many times the last request the client's own is, by our count; ``tools``: tokens that both have more.

        By the folds of that request; others may have been made since, which takes no lock.
        """
        number, visible = self._folds
        if self._freed[0] != number:
            self._freed = number, *self._freed_by(visible)
        _, freed, gone = self._freed
        log = int(self._store.task_store.tail.log_tokens)
        return (log - gone + tools) / max(log - gone - freed + tools, 1)

    def _freed_by(self, visible: Sequence[Fold]) -> tuple[int, int]:
        """Tokens behind folds that the client still sends, and those that it has gone back from."""
        freed, gone = 0, 0
        waiting = [(fold, False) for fold in visible]
        while waiting:
            fold, is_gone = waiting.pop()
            is_gone = is_gone or fold.reason == REWIND
            freed, gone = (freed, gone + fold.tokens_saved) if is_gone else (freed + fold.tokens_saved, gone)
            waiting += [(inner, is_gone) for inner in self._store.task_store.folds(fold.replaces)]
        return freed, gone

    @property
    def tokens(self) -> int:
        """Our count of a request with the present view."""
        return int(self._store.get_current_token_count()) + int(self._store.tool_tokens)


def _in_words(message: Message) -> str:
    return "\n".join([message.text, *(f"{call.name}({call.arguments})" for call in message.tool_calls)]).strip()


def _fold_at(folds: Sequence[Fold], seq: int) -> Fold | None:
    place = bisect_right(folds, seq, key=lambda fold: fold.start_seq) - 1
    return folds[place] if place >= 0 and folds[place].end_seq >= seq else None
