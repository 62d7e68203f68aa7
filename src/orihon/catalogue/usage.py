"""Calls of models, by task, day, model and what for: what a task has used, and what others say that it has cost.

Only adds up what it is told. Calls that came with a cost stand apart from those without one, whose tokens have to be
priced; prices are nobody's business here. The log of a task is the truth: its rows can be written anew from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orihon.catalogue.row_changes import refuse_stale, require
from orihon.catalogue.tasks_db import Reading, Statements, TasksDatabase
from orihon.system import jsonio

Purpose = Literal["answer", "summary"]
UsageGroup = Literal["task", "user", "repository", "model", "day"]
#: What the rows of one user can be grouped by, in the order of that statement's columns.
_NAMED: tuple[UsageGroup, ...] = ("task", "user", "repository", "model", "day")

#: Before and after every day.
FIRST_DAY, LAST_DAY = "0000-00-00", "9999-99-99"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The calls of one model for one task on one day (``YYYY-MM-DD``, UTC)."""

    uuid: str
    day: str
    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    saved_tokens: int  # what the calls would have sent more without compression
    cost: float | None  # None where nobody has reported one
    purpose: str = "answer"


class UsageSum(NamedTuple):
    """Calls that belong to one name (a task, a user, a day …) and are priced alike. There may be very many."""

    name: str
    model: str
    provider: str  # in lower case; empty where the task does not say
    purpose: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    saved_tokens: int
    cost: float | None


class UsageTable:
    """What the catalogue does with calls of models."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def add(
        self,
        uuid: str,
        model: str,
        day: str,
        *,
        calls: int = 1,
        input: int = 0,  # noqa: A002 - what a price list calls it
        cached: int = 0,
        output: int = 0,
        saved: int = 0,
        cost: float | None = None,
        purpose: Purpose = "answer",
        epoch: int | None = None,
    ) -> None:
        """Add calls of a task to its day; an ``epoch`` below the stored one is a stale owner's, and refused."""
        row = UsageRow(uuid, day, model, calls, input, cached, output, saved, cost, purpose)
        added: UsageRow | None = None

        def action(statements: Statements) -> bool:
            nonlocal added
            refuse_stale(require(statements, uuid), epoch)
            _add(statements, row)
            added = _like(statements, row)
            return True

        # Only the task's owner adds to it: where the answer was lost, the row is as we left it or as it was before.
        # What a power failure loses of them the log still says.
        self._db.change(action, done=lambda statements: _like(statements, row) == added or None, durable=False)

    def replace(self, uuid: str, rows: Iterable[UsageRow]) -> None:
        """These rows, and no others, are what the task has used."""
        wanted = list(rows)

        def action(statements: Statements) -> None:
            require(statements, uuid)
            statements.run("remove_usage", uuid=uuid)
            for row in wanted:
                _add(statements, row)

        self._db.change(action)

    def of_task(self, uuid: str) -> list[UsageRow]:
        """What a task has used, by day and model, the oldest day first."""
        return [UsageRow(**record) for record in self._db.all("usage_of_task", uuid=uuid)]

    def of_tasks(self, uuids: Sequence[str]) -> list[UsageSum]:
        """What these tasks have used, in one look."""
        wanted = jsonio.encode(list(uuids)).decode()
        return [UsageSum._make(row) for row in self._db.values("usage_of_tasks", uuids=wanted)]

    def sums(
        self, by: UsageGroup, first_day: str = FIRST_DAY, last_day: str = LAST_DAY, *, user: str | None = None
    ) -> list[UsageSum]:
        """What all tasks (``user``: those of that user) have used on these days, in one look."""
        if user is not None:
            named, days = _NAMED.index(by), {"first_day": first_day, "last_day": last_day}
            rows = self._db.values("usage_of_user", user=user, **days)
            return [UsageSum._make((row[named], *row[len(_NAMED) :])) for row in rows]
        statement = "usage_by_day" if by == "model" else f"usage_by_{by}"
        found = map(UsageSum._make, self._db.values(statement, first_day=first_day, last_day=last_day))
        return [one._replace(name=one.model) for one in found] if by == "model" else list(found)


def _add(statements: Statements, row: UsageRow) -> None:
    statements.run(
        "add_usage",
        uuid=row.uuid,
        day=row.day,
        model=row.model,
        purpose=row.purpose,
        is_reported=int(row.cost is not None),
        calls=row.calls,
        input_tokens=row.input_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.output_tokens,
        saved_tokens=row.saved_tokens,
        cost=row.cost,
    )


def _like(reading: Reading, wanted: UsageRow) -> UsageRow | None:
    """The stored row that a row is added to."""
    found = (UsageRow(**record) for record in reading.all("usage_of_task", uuid=wanted.uuid))
    return next((row for row in found if _key(row) == _key(wanted)), None)


def _key(row: UsageRow) -> tuple[str, str, str, bool]:
    return row.day, row.model, row.purpose, row.cost is not None
