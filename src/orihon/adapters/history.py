"""``SessionHistory``: the entries of one framework as messages of a task, and back.

An entry is whatever the framework calls a message, an event or a step, as plain data. It stands in the log as chat
messages that say the same, so that every other framework, the page and the search can read it; what it is beyond that
lies in ``extra`` of its first message, under the name of the framework, and no provider sees it. Messages that others
have written are given as the framework's own kind.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from orihon.adapters.common import Where, base_at, check_kept, session_key, session_task
from orihon.base import Base
from orihon.catalogue import TaskRow
from orihon.proxy.scribe import NO_RESULT, Scribe, beside_of, noted, said_id
from orihon.reports.task_list import WantedTasks, rows_of_tasks
from orihon.store.record_codec import Said
from orihon.system import jsonio
from orihon.tasks.task import Task
from orihon.texts import text
from orihon.values.message.message import Message, ToolCall
from orihon.values.records import REWIND, SUMMARY_PREFIX, Fold
from orihon.values.task import FINISHED, TaskStatus

FrameworkEntry = dict[str, Any]
_MAKER = "adapter"
_MOST_SESSIONS = 100_000
SOURCE = session_key("any").task_source


@dataclass(frozen=True, slots=True)
class FrameworkDialect:
    """How a framework's entries are told in chat messages, and those of others as its entries."""

    framework: str
    said: Callable[[FrameworkEntry], Sequence[Message]]  # at least one
    read: Callable[[Message], FrameworkEntry]


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Messages of the log that are one thing to the framework: the entries that begin there, or one of others."""

    seqs: list[int]
    messages: list[Message]
    entries: list[FrameworkEntry] | None  # None: others have written it
    is_whole: bool = True


class SessionHistory:
    """One session of a framework. Threads may share it."""

    def __init__(self, dialect: FrameworkDialect, session: str | Task, where: Where = None, *, user: str = "") -> None:
        self._dialect = dialect
        self._session = session
        self._base = None if isinstance(session, Task) else base_at(where)
        self._user = user
        self._task: Task | None = session if isinstance(session, Task) else None
        self._lock = threading.RLock()
        self._given: list[bytes] = []  # the view as somebody has got it last
        self._masked: dict[bytes, bytes] = {}
        self._known: tuple[str, int, int, list[bytes]] | None = None  # task, seq, compressions, what is said

    @property
    def task(self) -> Task:
        """The task of the session, open; a new one where there is none."""
        with self._lock:
            if self._task is None or (not self._task.is_open and self._base is not None):
                assert self._base is not None
                self._task = session_task(self._base, self._session, user=self._user)
            return self._task

    # ---- in --------------------------------------------------------------------------------------------------------

    def add(self, entries: Sequence[FrameworkEntry], name: str = "messages") -> None:
        """Store entries behind the others: all of them, or none where one cannot be kept."""
        self._store([(entry, said) for entry, said in zip(entries, self._said(entries, name), strict=True)])

    def _said(self, entries: Sequence[FrameworkEntry], name: str) -> list[Sequence[Message]]:
        said = []
        for number, entry in enumerate(entries):
            check_kept(entry, f"{name}[{number}]")
            said.append(self._dialect.said(entry))
        return said

    def _store(self, given: Sequence[tuple[FrameworkEntry | None, Sequence[Message]]]) -> None:
        """Entries and what they say; without an entry, messages that stand for themselves."""
        with self._lock:
            scribe = self._scribe()
            for number, (_, messages) in enumerate(given):
                scribe.step(number, b"", messages)
            if scribe.lines:
                written = self._written(scribe, [entry for entry, _ in given])
                self.task.context.message_store.task_store.append(written)

    def _scribe(self) -> Scribe:
        tail = self.task.context.message_store.task_store.tail
        return Scribe(list(tail.open_calls), tail.used_calls.perhaps_has, tail.seq + 1)

    def _written(self, scribe: Scribe, entries: Sequence[FrameworkEntry | None]) -> list[Said]:
        framework = self._dialect.framework
        lines = scribe.lines
        starts = [place for place, line in enumerate(lines) if line.marks or line.beside] + [len(lines)]
        lengths = {start: end - start for start, end in pairwise(starts)}
        written = []
        for place, line in enumerate(lines):
            if line.beside:
                written.append(Said(noted(line)))
                continue
            began = [entries[number] for number, _ in line.marks]
            if began and None in began:
                written.append(Said(line.message))
                continue
            own: dict[str, Any] = {"entries": began}
            if line.marks:
                own["messages"] = lengths[place]
            extra = {**line.message.extra, framework: own}
            written.append(Said(replace(line.message, extra=extra, unsent=(*line.message.unsent, framework))))
        return written

    # ---- out -------------------------------------------------------------------------------------------------------

    def entries(self) -> list[FrameworkEntry]:
        """All that was ever said, folded or not; without what the program has taken back."""
        with self._lock:
            return [entry for spoken in self._log() for entry in self._told(spoken)]

    def view(self) -> list[FrameworkEntry]:
        """What the model should see: folded first where it would not fit."""
        with self._lock:
            self.task.fit()
            shown = [entry for spoken in self._grouped(self._shown()) for entry in self._told(spoken)]
            self._given = self._flat(map(self._dialect.said, shown))
            return shown

    def _told(self, spoken: _Spoken) -> list[FrameworkEntry]:
        if spoken.entries is not None and spoken.is_whole:
            return spoken.entries
        return [self._dialect.read(_with_said_ids(message)) for message in spoken.messages]

    def _log(self) -> list[_Spoken]:
        """The whole log in pieces, without what is gone and what fills a gap for the log alone."""
        gone = self._gone()
        found = (
            (stored.seq, stored.message, True)
            for stored in self.task.context.message_store.task_store.messages()
            if not any(first <= stored.seq <= last for first, last in gone)
            and not (stored.message.role == "tool" and beside_of(stored.message) == NO_RESULT)
        )
        return list(self._grouped(found))

    def _shown(self) -> Iterator[tuple[int, Message, bool]]:
        """The entries of the view: number, message, and whether it is as it was said."""
        store = self.task.context.message_store.task_store
        for fold, record in store.walk():
            if record is None:
                if fold is not None and fold.reason != REWIND:
                    yield fold.start_seq, Message("user", SUMMARY_PREFIX + fold.text), False
                continue
            stored = store.stored(record)
            message = stored.message if fold is None else replace(stored.message, content=fold.text, parts=None)
            yield stored.seq, message, fold is None

    def _grouped(self, found: Iterator[tuple[int, Message, bool]]) -> Iterator[_Spoken]:
        group: _Spoken | None = None
        wanted = 0
        for seq, message, is_whole in found:
            own = message.extra.get(self._dialect.framework) if is_whole else None
            begins = not isinstance(own, dict) or bool(own.get("entries"))
            if group is not None and (begins or len(group.seqs) >= wanted):
                yield replace(group, is_whole=group.is_whole and len(group.seqs) >= wanted)
                group = None
            if group is not None:
                group.seqs.append(seq)
                group.messages.append(message)
                continue
            is_own = isinstance(own, dict) and bool(own.get("entries"))
            wanted = int(own.get("messages", 1)) if isinstance(own, dict) and is_own else 1
            group = _Spoken([seq], [message], list(own["entries"]) if isinstance(own, dict) and is_own else None)
        if group is not None:
            yield replace(group, is_whole=group.is_whole and len(group.seqs) >= wanted)

    def _gone(self) -> list[tuple[int, int]]:
        """Runs of the log that the program has taken back, also where a fold has taken in the one that says so."""
        store = self.task.context.message_store.task_store
        gone: list[tuple[int, int]] = []
        folds: Sequence[Fold] = store.state()[0]
        while folds:
            gone += [(fold.start_seq, fold.end_seq) for fold in folds if fold.reason == REWIND]
            inside = [number for fold in folds if fold.reason != REWIND for number in fold.replaces]
            folds = list(store.folds(inside)) if inside else []
        return gone

    # ---- taking back -----------------------------------------------------------------------------------------------

    def drop(self, first: int, last: int | None = None) -> list[FrameworkEntry]:
        """Take entries out of the conversation, from ``first`` to ``last`` (the last one), and return them.

        They stay in the log, and ``task.undo()`` brings them back.
        """
        with self._lock:
            pieces = [(spoken, entry) for spoken in self._log() for entry in self._told(spoken)]
            chosen = pieces[first:] if last is None else pieces[first : last + 1]
            if not chosen:
                return []
            store = self.task.context.message_store.task_store
            kept: list[FrameworkEntry] = []
            start, end = chosen[0][0].seqs[0], chosen[-1][0].seqs[-1]
            if chosen[-1] is pieces[-1]:
                start, kept = self._behind_calls(pieces[:first], start, chosen[0][0])
                if closing := self._scribe().close():
                    store.append(closing)
                end = store.tail.seq
            notice = text("proxy.went_back", first=start, last=end)
            self.task.context.message_store.folding.fold_away(start, end, notice, made_by=_MAKER)
            self.add(kept)
            return [entry for _, entry in chosen]

    def _behind_calls(
        self, before: Sequence[tuple[_Spoken, FrameworkEntry]], start: int, first: _Spoken
    ) -> tuple[int, list[FrameworkEntry]]:
        """Results go with their calls, and so do their neighbours: where it begins then, and what is said again."""
        kept: list[FrameworkEntry] = []
        spoken = first
        for earlier, entry in reversed(before):
            if spoken.messages[0].role != "tool" and spoken is not earlier:
                break
            spoken, start = earlier, earlier.seqs[0]
            kept.insert(0, entry)
        return start, kept

    def clear(self) -> None:
        """Begin anew. The task of a name ends, whole as it is, and the next one is empty; of a task that was handed
        over everything behind the system prompt is folded away."""
        with self._lock:
            if self._base is not None:
                if self.task.context.message_store.count_messages():
                    self.task.cancel()
                return
            spoken = [entry.messages[0].role in ("system", "developer") for entry in self._log()]
            leading = next((place for place, is_system in enumerate(spoken) if not is_system), len(spoken))
            self.drop(leading)

    def sync(self, entries: Sequence[FrameworkEntry], name: str = "messages") -> None:
        """Make the history this list: what it begins with alike stays, what comes after goes, the rest is added.

        Alike is what says the same, however it is cut into entries. A list that begins with the view that was given
        last goes on from there.
        """
        with self._lock:
            said = self._said(entries, name)
            told, known = self._flat(said), self._known_digests()
            given = self._given
            if given and given != known[: len(given)] and given == told[: len(given)]:
                self._store(list(_after(entries, said, len(given))))
                return
            shared = _common(known, told)
            if shared < len(known):
                shared = self._drop_behind(shared, said)
            self._store(list(_after(entries, said, shared)))
            tail = self.task.context.message_store.task_store.tail
            self._known = (self.task.context.uuid, tail.seq, tail.compressions, told)

    def _drop_behind(self, shared: int, said: Sequence[Sequence[Message]]) -> int:
        """Take back what comes after so many messages; whole entries only, so it may be more. Returns how many stay."""
        ours = _ends(map(self._dialect.said, self.entries()))
        place = max(end for end in {0, *ours} & {0, *_ends(said)} if end <= shared)
        self.drop(ours.index(place) + 1 if place else 0)
        return place

    def _known_digests(self) -> list[bytes]:
        tail = self.task.context.message_store.task_store.tail
        if self._known is not None and self._known[:3] == (self.task.context.uuid, tail.seq, tail.compressions):
            return self._known[3]
        return self._flat(map(self._dialect.said, self.entries()))

    def _flat(self, said: Iterable[Sequence[Message]]) -> list[bytes]:
        """What is said, message by message, as the log has it: with secrets masked."""
        return [self._digest(message) for messages in said for message in messages]

    def _digest(self, message: Message) -> bytes:
        raw = _meaning(message)
        if raw not in self._masked:
            masked = message.map_strings(self.task.context.base.redactor.mask)
            self._masked[raw] = raw if masked is message else _meaning(masked)
        return self._masked[raw]


def _meaning(message: Message) -> bytes:
    """What a message says, however it is spelled."""
    others = [part.kind for part in message.parts or () if part.kind != "text"]
    calls = [(said_id(call.id), call.name) for call in message.tool_calls]
    said = [message.role, message.text.strip(), others, calls, said_id(message.tool_call_id or "")]
    return hashlib.blake2b(jsonio.encode(said), digest_size=16).digest()


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _ends(said: Iterable[Sequence[Message]]) -> list[int]:
    """After how many messages each entry ends."""
    return list(accumulate(map(len, said)))


def _after(
    entries: Sequence[FrameworkEntry], said: Sequence[Sequence[Message]], count: int
) -> Iterator[tuple[FrameworkEntry | None, Sequence[Message]]]:
    """What comes after so many messages; of an entry that reaches across, what it says from there on."""
    for entry, messages, end in zip(entries, said, _ends(said), strict=True):
        if end - len(messages) >= count:
            yield entry, messages
        elif end > count:
            yield None, messages[count - end :]


def _with_said_ids(message: Message) -> Message:
    """The message with the ids of calls as programs know them: a log takes an id only once."""
    calls = tuple(ToolCall.from_chat({**call.to_chat(), "id": said_id(call.id)}) for call in message.tool_calls)
    return replace(message, tool_calls=calls, tool_call_id=message.tool_call_id and said_id(message.tool_call_id))


def session_rows(base: Base, user: str = "") -> list[TaskRow]:
    """The sessions that are not at an end, the one that was begun last first."""
    wanted = WantedTasks(source=SOURCE, user=user) if user else WantedTasks(source=SOURCE)
    rows = rows_of_tasks(base, wanted, limit=_MOST_SESSIONS)
    return [row for row in rows if row.status not in FINISHED and row.status is not TaskStatus.ARCHIVED]


def plain_message(data: dict[str, Any]) -> Message:
    """A chat message, as many frameworks can write theirs, as one of ours."""
    return Message.from_chat({key: value for key, value in data.items() if value is not None or key == "content"})
