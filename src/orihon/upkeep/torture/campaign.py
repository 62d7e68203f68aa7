"""What a campaign of faults is, and what is counted of it.

A campaign plays one kind of fault again and again at real stores and says what each trial has shown. It never ends by
itself unless it has played everything there is; the runner stops it. What must be zero is named in ``MUST_BE_ZERO``.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from orihon.settings import load_settings
from orihon.system.files import make_private_folder
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.task import Task
from orihon.tasks.task_name import key_named, unfinished_task
from orihon.upkeep.torture.nursery import Nursery

BACKENDS = ("files", "sqlite", "postgres")
#: The columns of the table that prove a fault of Orihon when they are not zero.
MUST_BE_ZERO = ("lost", "doubled", "stale", "shut", "unnoticed", "tracebacks")


@dataclass(slots=True)
class Trial:
    """What one trial has shown; or several that cannot be told apart, ``trials`` of them."""

    trials: int = 1
    tasks: int = 0
    acknowledged: int = 0  # what a store has promised to keep, and was looked at afterwards
    lost: int = 0  # of that: gone, or not what it was
    doubled: int = 0  # what stands there twice, or was done twice
    stale: int = 0  # what was written by one from whom the task had been taken, and takings that came too early
    shut: int = 0  # tasks that the library could not open, or not repair, without a person
    unnoticed: int = 0  # damages that were read as data, with no finding
    tracebacks: int = 0  # errors that are not of Orihon's tree
    seen: list[str] = field(default_factory=list)  # a line for each fault

    def fail(self, column: str, seen: str, count: int = 1) -> None:
        """A fault of Orihon: one of ``MUST_BE_ZERO``, and what was seen."""
        assert column in MUST_BE_ZERO
        setattr(self, column, getattr(self, column) + count)
        self.seen.append(f"{column}: {seen}")

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, column) for column in MUST_BE_ZERO)


class Arena:
    """Where a campaign plays: a folder and, with PostgreSQL, a schema of its own; chance, and processes to harm.

    Campaigns that have an end take each ``jobs``-th trial, beginning with ``job``.
    """

    def __init__(
        self, folder: Path, backend: str, chance: random.Random, nursery: Nursery, database: Mapping[str, Any]
    ) -> None:
        self.folder = folder
        self.backend = backend
        self.chance = chance
        self.nursery = nursery
        self.job, self.jobs = 0, 1
        self._database = database
        self._places = 0

    def place(self) -> Path:
        """A new folder. It is removed with the next one, unless a trial in it failed."""
        self._places += 1
        place = self.folder / f"{self._places:06}"
        make_private_folder(place)
        return place

    def config(self, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of this back end, for this process and others; nothing comes from the user's own."""
        storage = {"backend": self.backend, **sections.pop("context_storage", {})}
        database = {"database": dict(self._database)} if self._database else {}
        return {"context_storage": storage, **database, **{name: dict(section) for name, section in sections.items()}}


def base_at(place: Path | str, config: Mapping[str, Any]) -> OpenBase:
    """A base in a place of the arena, with the settings of ``Arena.config`` and no other."""
    return OpenBase(place, load_settings(config, environ={}), create=True)


def open_task(base: OpenBase, key: str, *, take_over: bool = False) -> Task:
    """What ``Base.task`` gives for a name or a UUID, opened anew each time."""
    wanted = key_named(key, "")
    row = unfinished_task(key, wanted, base.needed_catalogue(), "")
    context = TaskContextManager(
        base,
        replace(wanted, uuid=None) if row is None else row.key,
        uuid=None if row is None else row.uuid,
        take_over=take_over,
    )
    return Task(context.task_key, context.task_key.user, context.uuid, context=context)


class Campaign(Protocol):
    """One kind of fault."""

    name: ClassVar[str]
    backends: ClassVar[tuple[str, ...]]

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        """Trial after trial. What is cleaned up at its end stands in ``finally``: the runner closes it anywhere."""
        ...
