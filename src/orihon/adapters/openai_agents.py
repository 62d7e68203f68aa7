"""The OpenAI Agents SDK on a task: ``OrihonSession`` is a session of theirs, ``OrihonCompactionSession`` folds it, too.

>>> session = OrihonSession("hello", "contexts")
>>> result = await Runner.run(agent, "Hello", session=session)

A session is the task of that name. ``get_items`` gives what the model should see: folds where there are some, then
the items as they were. Everything that was ever said stays in the log, also what was popped or cleared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from agents.exceptions import UserError
from agents.memory import SessionABC, SessionSettings
from agents.memory.session_settings import coerce_session_settings

from orihon.adapters.common import Where, base_at, check_kept, check_version, refusing_as, session_row
from orihon.adapters.items import ItemLog, ItemSaid
from orihon.adapters.open_tasks import open_tasks
from orihon.errors import BudgetExceeded, InvalidMessage
from orihon.importers.answers import joined
from orihon.proxy.wire_responses import items_of
from orihon.settings import Settings
from orihon.store.reader import TaskReader
from orihon.store.tail import Tail
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.tasks.task import Task
from orihon.values.message.extra import wrong_type
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX

__all__ = ["OrihonCompactionSession", "OrihonSession"]

check_version("openai-agents", "0.20", "1")

KIND = "openai_agents"
_LOG = ItemLog(KIND)
_Outcome = TypeVar("_Outcome")

#: An item and where it is: the message it begins with, and its place among those that do. Folds have no place.
Placed = tuple[tuple[int, int] | None, dict[str, Any]]


class OrihonSession(SessionABC):
    """A conversation of the Agents SDK, kept as a task of a base: a folder, a database, or a ``Base`` that is open."""

    def __init__(
        self,
        session_id: str,
        where: Where = None,
        config: Mapping[str, Any] | Settings | Path | str | None = None,
        *,
        user: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        given = {} if session_settings is None else session_settings
        self.session_id = session_id
        self.session_settings = coerce_session_settings(given)
        self.base = base_at(where, config)
        self.user = user
        self._tasks = open_tasks(self.base)
        self._taken: set[tuple[int, int]] = set()
        self._read: tuple[str, int] = ("", 0)

    # ---- what the SDK asks for ---------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """What the model should see; with ``limit``, the newest of it."""
        wanted = self.session_settings.limit if limit is None else limit
        return await asyncio.to_thread(lambda: [item for _, item in self._newest(wanted)])

    async def add_items(self, items: list[Any]) -> None:
        """Add to the conversation: all of it or nothing."""
        if items:
            entries = _entries(items)
            await _settled(asyncio.to_thread(self._add, entries))

    async def pop_item(self) -> Any:
        """Take back the newest item; it stays in the log."""
        return await _settled(asyncio.to_thread(self._pop))

    async def clear_session(self) -> None:
        """The conversation begins anew, as another task of this name; what was said stays where it is."""
        await _settled(asyncio.to_thread(self._clear))

    def close(self) -> None:
        """Let go of the task: any process goes on with it."""
        self._tasks.let_go(self.session_id, self.user)

    # ---- the same, in a thread ---------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Task]:
        with refusing_as(UserError), self._tasks.using(self.session_id, self.user) as task:
            yield task

    @contextmanager
    def _reading(self) -> Iterator[TaskReader | None]:
        with self._tasks.if_open(self.session_id, self.user) as task:
            if task is not None:
                yield self._followed(task.context.uuid, task.context.task_store)
                return
        row = session_row(self.base, self.session_id, user=self.user)
        place = None if row is None else self.base.folders.find(row.uuid)
        if row is None or place is None:
            yield None
            return
        with closing(self.base.read_store(place)) as store:
            yield self._followed(row.uuid, store)

    def _followed(self, uuid: str, store: TaskReader) -> TaskReader:
        """Know what was taken back so far."""
        if self._read[0] != uuid:
            self._taken, self._read = set(), (uuid, 0)
        for record in store.read("checkpoints", self._read[1] + 1):
            if record["kind"] == KIND:
                self._taken.update((seq, at) for seq, at in record["taken"])
            self._read = (uuid, record["id"])
        return store

    def _newest(self, limit: int | None) -> list[Placed]:
        with self._reading() as store:
            if store is None or (limit is not None and limit <= 0):
                return []
            return self._all(store) if limit is None else self._last(store, limit)

    def _all(self, store: TaskReader) -> list[Placed]:
        found: list[Placed] = []
        view, messages = store.pages()
        for entry, message in zip(view.entries, messages, strict=True):
            if entry.fold is not None and entry.fold.form == "summary":
                found.append((None, {"role": "user", "content": SUMMARY_PREFIX + entry.fold.text}))
            else:
                found += self._items(entry.start, message)
        return found

    def _last(self, store: TaskReader, limit: int) -> list[Placed]:
        """The newest items; what is behind the last fold is enough for most, and costs no more in a longer log."""
        folds, _ = store.state()
        start = max((fold.end_seq for fold in folds), default=0)
        found: list[Placed] = []
        end = store.count("messages")
        while end > start and len(found) < limit:
            first = max(start + 1, end - limit + 1)
            block = [one for stored in store.messages(first, end) for one in self._items(stored.seq, stored.message)]
            found, end = block + found, first - 1
        return found[-limit:] if len(found) >= limit or not folds else self._all(store)[-limit:]

    def _items(self, seq: int, message: Message) -> Iterator[Placed]:
        try:
            own = _LOG.items(message)
        except IndexError:  # only a preview of it is in the view
            own = None
        found = items_of(message) if own is None else own
        for at, item in enumerate(found):
            if (seq, at) not in self._taken:
                yield (seq, at), dict(item)

    def _add(self, entries: Sequence[ItemSaid]) -> None:
        with self._writing() as task:
            store = task.context.task_store
            store.change(lambda tail: _LOG.write(store, entries, tail))
            _fold(task)

    def _pop(self) -> Any:
        if session_row(self.base, self.session_id, user=self.user) is None:
            return None
        with self._writing() as task:
            store = task.context.task_store
            self._followed(task.context.uuid, store)
            newest = self._last(store, 1)
            if not newest or newest[0][0] is None:
                return None
            store.change(lambda tail: _take(task, [newest[0][0]]))
            self._followed(task.context.uuid, store)
            return newest[0][1]

    def _clear(self) -> None:
        if session_row(self.base, self.session_id, user=self.user) is not None:
            with self._writing() as task:
                task.cancel()

    # ---- for OpenAIResponsesCompactionSession, which wraps any session -----------------------------------------

    async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None) -> Any:
        """The newest items, and a way to put others in the place of the last of them, if nothing has changed.

        ``prune_prefix`` says of the oldest items whether they go, too.
        """
        from agents.memory.session import _CompactionSnapshot

        found = await asyncio.to_thread(self._newest, limit + 1)
        seen = found[-limit:]

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            entries = _entries(output)
            return await _settled(asyncio.to_thread(self._replace, seen[start:], entries, prune_prefix))

        return _CompactionSnapshot([item for _, item in seen], len(found) <= limit, replace_suffix)

    def _replace(
        self, expected: Sequence[Placed], entries: Sequence[ItemSaid], prune_prefix: Callable[[Any], bool] | None
    ) -> bool:
        places = [place for place, _ in expected]
        if not places or None in places:
            return False
        with self._writing() as task:
            store = task.context.task_store

            def body(tail: Tail) -> bool:
                self._followed(task.context.uuid, store)
                if [place for place, _ in self._last(store, len(places))] != places:
                    return False
                oldest = [] if prune_prefix is None else self._all(store)[: -len(places)]
                gone = takewhile(lambda one: prune_prefix is not None and prune_prefix(one[1]), oldest)
                taken = [*(place for place, _ in gone), *places]
                _LOG.write(store, entries, tail)
                _take(task, taken)
                return True

            return store.change(body)


class OrihonCompactionSession(OrihonSession):
    """The same for a runner that asks for compaction after each turn: folds by our own rules, without a model's API."""

    async def run_compaction(self, args: Mapping[str, Any] | None = None) -> None:
        """Fold where the ladder says so; with ``force`` in any case."""
        await _settled(asyncio.to_thread(self._compact, bool((args or {}).get("force"))))

    def _compact(self, force: bool) -> None:
        if session_row(self.base, self.session_id, user=self.user) is not None:
            with self._writing() as task:
                if force:
                    task.compress()
                else:
                    _fold(task)


def _fold(task: Task) -> None:
    """What is added is stored, whether it can be folded or not; the SDK's model says so if it is too much for it."""
    with suppress(BudgetExceeded):
        task.fit()


def _take(task: Task, places: Sequence[tuple[int, int] | None]) -> None:
    record = {"kind": KIND, "taken": [[*place] for place in places if place is not None], "created_at": utc_now()}
    task.context.task_store.add_inside("checkpoints", record, masked=True)


def _entries(items: Sequence[Any]) -> list[ItemSaid]:
    """Items as they belong together: reasoning with what it led to. Refuses what cannot be kept."""
    entries: list[ItemSaid] = []
    waiting: list[Mapping[str, Any]] = []
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise wrong_type(item, "dict", f"items[{number}]")
        check_kept(item, f"items[{number}]")
        waiting.append(item)
        if item.get("type") != "reasoning":
            entries.append((waiting, _said(waiting)))
            waiting = []
    return [*entries, (waiting, _said(waiting))] if waiting else entries


def _said(items: Sequence[Mapping[str, Any]]) -> list[Message]:
    pieces = [message for item in items for message in _chat(item)]
    whole = joined(pieces) if len(pieces) > 1 else pieces[0]
    kept = (whole.role, whole.content, whole.parts, whole.tool_calls, whole.tool_call_id, whole.name)
    return [Message(*kept)]  # the item itself has the rest


def _chat(item: Mapping[str, Any]) -> Sequence[Message]:
    try:
        return Message.from_responses(item).as_chat()
    except InvalidMessage:
        return [Message("user", jsonio.encode(item).decode())]


async def _settled(work: Awaitable[_Outcome]) -> _Outcome:
    """What is being written is written, also when whoever waits for it is cancelled: then he is told afterwards."""
    job = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        job.exception()
        raise cancelled
    return job.result()
