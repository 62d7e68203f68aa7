"""What the catalogue asks of a database: statements by name, read in one snapshot or written in one transaction.

Two databases answer: ``sqlite_db`` (one machine) and ``postgres_db`` (many). Both run the texts of ``sql/queries.sql``
and some of their own; no text from outside ever becomes part of one. A database that is locked or away for a moment is
waited for, and ends in ``StorageUnavailable``.

The texts of the statements, by name.

``sql/queries.sql`` is for every database; ``sql/sqlite.sql`` and ``sql/postgres.sql`` hold what must differ.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Protocol, TypeVar

DatabaseRow = Mapping[str, Any]
Value = str | int | float | None
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on the clock that leases, retries and permissions run on; moments of two eras cannot be compared."""

    seconds: float
    era: str
    #: One clock for all machines, and an era without end; otherwise this machine's, and an era ends with each boot.
    is_shared: bool


class Reading(Protocol):
    """Statements that can be asked."""

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        """Every row; ``conditions`` name texts that are joined by AND in the place of ``{conditions}``."""

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        """The first row, if there is one."""

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        """Every row as it comes, for statements that name their columns and give thousands of rows."""

    def moment(self) -> Moment:
        """Now, on the clock of the leases."""


class Statements(Reading, Protocol):
    """Statements inside a transaction."""

    def run(self, name: str, /, **bindings: Value) -> int:
        """How many rows the statement changed."""


class TasksDatabase(Reading, Protocol):
    """The database of a catalogue, for all threads of a process."""

    @property
    def where(self) -> str:
        """Which one it is, for people; without a password."""

    @property
    def dies_with_us(self) -> bool:
        """Does the power failure that takes its last writes take every process that knows of them, too?"""

    def open(self) -> None:
        """Make the database if it is missing, and check that it is one of ours."""

    def close(self) -> None:
        """Close the connections; a later call opens again."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[Statements]:
        """Everything inside happens, or nothing; nobody else changes meanwhile what ``task_to_change`` gave.

        What is not ``durable`` survives the death of every process, but not a power failure; it saves a sync.
        """

    def change(
        self,
        action: Callable[[Statements], Result],
        *,
        done: Callable[[Statements], Result | None] | None = None,
        durable: bool = True,
    ) -> Result:
        """``action`` in one transaction, once: where its connection is lost on the way it is begun again.

        Whether the transaction took effect is not known when the answer to its end is lost. Then ``done`` looks, and
        gives the result if it did; without ``done`` the action is one that may be done twice.
        """

    def ask(self, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows that somebody's own question gives, as they are stored; ``InvalidInput`` for anything else."""

    def merge_rollups(self) -> None:
        """Put the sums together, where they grow by parts."""

    def wait_for_tasks(self, seconds: float, stop: threading.Event) -> None:
        """Wait until a task may have come into the queue, at most so long; not any longer when ``stop`` is set."""


Dialect = Literal["sqlite", "postgres"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_BINDING = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def queries(dialect: Dialect) -> dict[str, str]:
    """The texts that a database runs, by name; bindings as its driver writes them."""
    texts = _by_name("queries.sql") | _by_name(f"{dialect}.sql")
    if dialect == "sqlite":
        return texts
    return {name: _BINDING.sub(r"%(\1)s", text.replace("%", "%%")) for name, text in texts.items()}


def statement(dialect: Dialect, name: str, conditions: tuple[str, ...]) -> str:
    """One text; ``conditions`` name texts that are joined by AND in the place of ``{conditions}``."""
    texts = queries(dialect)
    text = texts[name]
    if "{conditions}" not in text:
        return text
    joined = "\nAND ".join(texts[each] for each in conditions)
    return text.replace("{conditions}", f"{joined or 'true'}\n")  # on lines of their own: a text may end with a comment


def sql_text(name: str) -> str:
    """A file of ``sql/``."""
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")


def _by_name(file: str) -> dict[str, str]:
    _, *parts = _NAME.split(sql_text(file))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
