"""The list of tasks as people look at it: one page, with how full each context is, what it has cost, and who has it.

Read from the catalogue in three statements, however many tasks there are; nothing of a task's own records is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.rows import CLEANED
from orihon.compression.ladder import Ladder, ladder_of
from orihon.errors import InvalidInput
from orihon.reports.costs import CostLine, costs_of_tasks
from orihon.settings import Settings
from orihon.system.clock import as_typed
from orihon.tasks.base import OpenBase
from orihon.tasks.chain import without_others
from orihon.values.task import TaskStatus, parse_status
from orihon.values.tokens.tokens import Gauge

_LONGEST_TITLE = 160
#: So many of those that run or wait stand before the rest.
_FIRST = {TaskStatus.RUNNING: 20, TaskStatus.WAITING: 5}


@dataclass(frozen=True, slots=True)
class WantedTasks:
    """Which tasks: as ``orihon list`` takes it. The next page begins ``before`` the last task of this one."""

    status: str | None = None
    user: str | None = None
    repository: str | None = None
    source: str | None = None
    since: str | None = None
    search: str | None = None
    before: str | None = None

    def __post_init__(self) -> None:
        # A mistake is one where there is no task yet, too.
        if self.status is not None:
            parse_status(self.status)
        if self.since is not None:
            _moment(self.since)

    @property
    def is_everything(self) -> bool:
        """No filter, and the first page."""
        return self == WantedTasks()

    def rows(self, catalogue: Catalogue, limit: int) -> list[TaskRow]:
        """Newest first. A task of somebody else is not the last one of a user's page."""
        if self.user is not None and self.before is not None:
            last = catalogue.tasks.find(self.before)
            if last is None or last.user != self.user:
                return []
        return catalogue.tasks.page(
            status=None if self.status is None else parse_status(self.status),
            user=self.user,
            repository=self.repository,
            source=self.source,
            since=None if self.since is None else _moment(self.since),
            words=() if self.search is None else self.search.split(),
            before=self.before,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class ContextMeter:
    """How full a context is."""

    tokens: int  # of the view, as the log carries them
    budget: int  # in the same measure: of the largest view that fits, by what the provider has reported
    usage: float  # 0.7 is 70 % of the budget
    rungs: tuple[float, ...]  # where folding begins, in the same measure


@dataclass(frozen=True, slots=True)
class ListedTask:
    """One line of the list."""

    row: TaskRow
    title: str
    meter: ContextMeter | None  # None where there is no view, or none that is known of
    cost: CostLine | None  # None without a call
    is_cleaned: bool
    is_orphaned: bool  # running, and nobody works on it: a worker takes it over

    @property
    def tokens(self) -> int | None:
        """Of the view, as ``orihon list`` shows them."""
        return self.row.view_tokens if self.row.final_token_count is None else self.row.final_token_count


@dataclass(frozen=True, slots=True)
class TaskList:
    """One page of the list."""

    tasks: tuple[ListedTask, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # of all tasks, by status
    next: str | None = None  # where the next page begins, if there is one: ``before`` that task


def rows_of_tasks(base: OpenBase, wanted: WantedTasks, *, limit: int = 50, user: str | None = None) -> list[TaskRow]:
    """The rows alone, newest first, as the catalogue has them; to a ``user``, without the names of others' tasks."""
    catalogue = base.open_catalogue()
    return [] if catalogue is None else without_others(wanted.rows(catalogue, limit), catalogue, user)


def page_of_tasks(base: OpenBase, wanted: WantedTasks, *, limit: int = 50, user: str | None = None) -> TaskList:
    """One page of the tasks that are wanted. For a ``user`` there are no others than that user's.

    Where nothing is left out, what runs and what waits for a person stands before the rest, however old it is.
    """
    if user is not None and wanted.user not in (None, user):
        return TaskList()
    catalogue = base.open_catalogue()
    if catalogue is None:
        return TaskList()
    rows = (wanted if user is None else replace(wanted, user=user)).rows(catalogue, limit + 1)
    first = _first(catalogue, user) if wanted.is_everything else []
    before = {row.uuid for row in first}
    shown = [*first, *(row for row in rows[:limit] if row.uuid not in before)]
    counts = {status.value: count for status, count in catalogue.statistics.count_by_status(user).items()}
    last = rows[limit - 1].uuid if len(rows) > limit else None
    return TaskList(_listed(catalogue, base.settings, shown), counts, last)


def tasks_by_uuid(base: OpenBase, uuids: Sequence[str], *, user: str | None = None) -> tuple[ListedTask, ...]:
    """The lines of these tasks, as far as there are such; for a ``user``, as far as they are that user's."""
    catalogue = base.open_catalogue()
    rows = [] if catalogue is None else catalogue.tasks.find_all(uuids)
    theirs = [row for row in rows if user is None or row.user == user]
    return () if catalogue is None else _listed(catalogue, base.settings, theirs)


def meter_of(row: TaskRow, settings: Settings, ladder: Ladder | None = None) -> ContextMeter | None:
    """How full the context of a task is, by its row alone."""
    tokens = row.view_tokens if row.final_token_count is None else row.final_token_count
    if tokens is None:
        return None
    gauge = Gauge.for_display(settings, row.context_length, row.correction)
    marks = (ladder or ladder_of(settings)).marks(gauge.budget.window, gauge.budget.tokens)
    return ContextMeter(tokens, gauge.room, gauge.usage(tokens), marks)


def title_of(row: TaskRow) -> str:
    """What a task is about, in one line."""
    title = row.metadata.get("title")
    lines = (title if isinstance(title, str) else row.prompt).split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    return first if len(first) <= _LONGEST_TITLE else first[: _LONGEST_TITLE - 1].rstrip() + "…"


def _first(catalogue: Catalogue, user: str | None) -> list[TaskRow]:
    found = (catalogue.tasks.page(status=status, user=user, limit=most) for status, most in _FIRST.items())
    return [row for rows in found for row in rows]


def _listed(catalogue: Catalogue, settings: Settings, rows: Iterable[TaskRow]) -> tuple[ListedTask, ...]:
    found = list(rows)
    costs = costs_of_tasks(catalogue, settings, [row.uuid for row in found])
    ladder = ladder_of(settings)
    orphaned = catalogue.leases.orphaned(found)
    return tuple(
        ListedTask(
            row,
            title_of(row),
            meter_of(row, settings, ladder),
            costs.get(row.uuid),
            CLEANED in row.metadata,
            row.uuid in orphaned,
        )
        for row in found
    )


def _moment(typed: str) -> str:
    try:
        return as_typed(typed)
    except ValueError as error:
        raise InvalidInput("typed_time", option="since", value=ascii(typed[:80])) from error
