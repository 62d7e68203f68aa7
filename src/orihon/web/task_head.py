"""One task for its page: what the catalogue knows, its records where they are here, and the statistics above all of it.

Only reads. A task that is queued, archived or cleaned up has its row to show; a damaged one says what is wrong with it.
No number needs a walk over a long view: they are taken from the last change, the row, and the messages since then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial

from orihon.catalogue import TaskRow
from orihon.catalogue.metadata import key_in, read_metadata
from orihon.compression.ladder import ladder_of
from orihon.errors import OrihonError
from orihon.reports.costs import CostLine, costs_of_task
from orihon.reports.task_list import title_of as listed_title
from orihon.settings import Settings
from orihon.tasks.reader import STREAMS, Ledger, Stream, TaskStore, read_ledger, reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.values.tokens.tokens import Gauge
from orihon.web.call import Call, task_of
from orihon.web.task_memory import MEMORIES, TaskMemory

#: Messages that are added up in one go; of more, the row has to know.
_MOST_ADDED_UP = 2_000
_SUBJECT_CHARACTERS = 300
_FIRST_MESSAGES = 6


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How large a task's view is, and how full that makes its context."""

    tokens: int
    entries: int | None
    budget: int  # of tokens as the log counts them: at so many the context is full
    usage: float
    rungs: tuple[float, ...]  # of the task's ladder, as shares of the budget


@dataclass(frozen=True)
class TaskHead:
    """A task that a page is about; ``store`` is missing where its records are not here, ``absent`` says why.

    What several parts of a page want is read once: with a database, each question is a way there and back.
    """

    uuid: str
    row: TaskRow | None
    store: TaskStore | None
    absent: OrihonError | None
    settings: Settings
    memory: TaskMemory
    cost: CostLine | None = None
    children: tuple[TaskRow, ...] = ()

    def reading(self, at: int | None = None) -> ViewReading:
        """The view, as it is or was; raises what keeps it from being read."""
        store, memory = self.records, self.followed
        known, change_at = partial(memory.state, store), memory.change_at
        return ViewReading(store, self.row, self.settings, at=at, known=known, change_at=change_at)

    @cached_property
    def followed(self) -> TaskMemory:
        """The memory with the changes that there are; raises what keeps them from being read."""
        self.memory.follow_changes(self.records)
        return self.memory

    @property
    def records(self) -> TaskStore:
        if self.store is None:
            assert self.absent is not None
            raise self.absent
        return self.store

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many records each stream has."""
        if self.store is None:
            return dict.fromkeys(STREAMS, 0)
        streams: tuple[Stream, ...] = STREAMS
        return dict(zip(streams, self.store.records.lasts(*streams), strict=True))

    @cached_property
    def ledger(self) -> Ledger:
        """Phases and questions; none where they cannot be read."""
        try:
            return Ledger() if self.store is None else read_ledger(self.store)
        except OrihonError:
            return Ledger()


@contextmanager
def open_task_head(call: Call, *, with_statistics: bool = False) -> Iterator[TaskHead]:
    """The task that the address names, in whatever state it is."""
    uuid = task_of(call)
    cost: CostLine | None = None
    children: tuple[TaskRow, ...] = ()
    with ExitStack() as stack:
        catalogue = call.base.open_catalogue_if_sound()
        row, store, absent = None, None, None
        try:
            store, row = stack.enter_context(reading_task(call.base, uuid))
        except OrihonError as error:
            absent = error
            row = None if catalogue is None else catalogue.tasks.find(uuid)
        if row is not None and catalogue is not None and with_statistics:
            cost, only = costs_of_task(catalogue, call.settings, uuid), call.visitor.only
            children = tuple(row for row in catalogue.tasks.children(uuid) if only is None or row.user == only)
        yield TaskHead(uuid, row, store, absent, call.settings, MEMORIES.of(call.base.path, uuid), cost, children)


def size_of(task: TaskHead) -> TaskSize:
    """How large the view is. What the row says is taken where nothing better is near."""
    row, settings = task.row, task.settings
    gauge = gauge_of(row, settings)
    tokens, entries = (row.view_tokens or 0) if row is not None else 0, None
    if task.store is not None:
        with suppress(OrihonError):  # the page says so where the conversation would be
            tokens, entries = view_size(task.store, row, task.followed)
    return TaskSize(tokens, entries, gauge.room, gauge.usage(tokens), marks_of(gauge, settings))


def gauge_of(row: TaskRow | None, settings: Settings) -> Gauge:
    """The measure of a task's context."""
    window = None if row is None else row.context_length
    return Gauge.for_display(settings, window, 1.0 if row is None else row.correction)


def marks_of(gauge: Gauge, settings: Settings) -> tuple[float, ...]:
    """Where the rungs of the ladder are, as shares of the budget."""
    return ladder_of(settings).marks(gauge.budget.window, gauge.budget.tokens)


def view_size(store: TaskStore, row: TaskRow | None, memory: TaskMemory) -> tuple[int, int | None]:
    """The tokens and entries of the view: as the last change left them, and what came since.

    The memory has followed the changes already.
    """
    last, changes = store.count("messages"), memory.changes
    tokens, entries, known = 0, 0, 0
    if changes:
        record = changes[-1].record
        known, tokens, entries = changes[-1].seq, record.after_tokens, record.after_entries or 0
    count = entries + last - known if entries or not changes else None
    is_far = last - known > _MOST_ADDED_UP
    if is_far and row is not None and row.view_tokens is not None and known <= row.total_messages <= last:
        known, tokens = row.total_messages, row.view_tokens
    if last - known > 10 * _MOST_ADDED_UP:  # nobody has kept it up to date: the timeline, which comes later, knows
        return (row.view_tokens or tokens) if row is not None else tokens, count
    return tokens + sum(record["tokens"] for record in store.read("messages", known + 1, last)), count


def title_of(task: TaskHead) -> str:
    """What the task is about: its key, or its UUID where nobody knows."""
    if task.row is not None:
        return task.row.key.label
    key = None
    with suppress(OrihonError):
        key = None if task.store is None else key_in(read_metadata(task.store.records) or {})
    return task.uuid if key is None else key.label


def subject_of(task: TaskHead) -> str:
    """What was asked for, in a line or two."""
    said = "" if task.row is None else listed_title(task.row)
    if not said and task.store is not None:
        try:
            first = task.store.messages(1, _FIRST_MESSAGES)
            said = next((one.message.content or "" for one in first if one.message.role == "user"), "")
        except OrihonError:
            said = ""
    return " ".join(said.split())[:_SUBJECT_CHARACTERS]
