"""What the adapters share: one base for each place, the task of a session, versions that were tested, refusals.

A process has one ``Base`` for each place, whoever asks: two sessions of one name in one process are one task, and
nobody is refused by himself.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from orihon.base import Base
from orihon.catalogue import TaskRow
from orihon.errors import InvalidMessage, StaleWriter, TaskBusy
from orihon.settings import Settings
from orihon.system import jsonio
from orihon.tasks.task import Task
from orihon.tasks.task_name import is_id, unfinished_task
from orihon.texts import text
from orihon.values.task import TaskKey, shortened

#: A place, or a base that the program has opened by itself.
Where = Base | Path | str | None

_SOURCE, _KIND = "local", "task"  # as ``Base.task`` calls a task by a name of one's own
_bases: dict[tuple[int, str, str], Base] = {}
_opening = threading.Lock()
_warned: set[str] = set()


def base_at(where: Where = None, config: Mapping[str, Any] | Settings | Path | str | None = None) -> Base:
    """The base of this process for a place; one that the program has opened by itself is taken as it is."""
    if isinstance(where, Base):
        return where
    place = str(where) if where is None or "://" in str(where) else str(Path(where).absolute())
    name = (os.getpid(), place, repr(config))  # a forked process opens its own
    with _opening:
        if name not in _bases:
            _bases[name] = Base(where, config)
        return _bases[name]


def session_key(session: str, user: str = "") -> TaskKey:
    """The key of a session. Its name stands for itself, whatever is in it."""
    return TaskKey(_SOURCE, "", "", _KIND, session, user)


def session_task(base: Base, session: str | Task, *, user: str = "", **options: Any) -> Task:
    """The unfinished task of a session, opened by this process; a new one where there is none.

    ``session`` is the name, the UUID of a task, or a task that is open. ``options`` as ``Base.task`` takes them.
    """
    if isinstance(session, Task):
        return session
    key = session_key(session, user)
    return base.task(session if is_id(session) else key, user=user, inherit=False, **options)


def session_row(base: Base, session: str | Task, *, user: str = "") -> TaskRow | None:
    """The unfinished task of a session, whoever has it open; only looks."""
    if isinstance(session, Task):
        return session.row
    catalogue = base.open_catalogue()
    if catalogue is None:
        return None
    key = session_key(session, user)
    return unfinished_task(session if is_id(session) else key, key, catalogue, user)


def check_version(package: str, lowest: str, below: str) -> None:
    """Warn once for each package when the one that is installed is not of the range that was tested."""
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return  # it is imported from somewhere else
    if package in _warned or _numbers(lowest) <= _numbers(found) < _numbers(below):
        return
    _warned.add(package)
    said = text("adapters.untested", package=package, found=found, lowest=lowest, below=below)
    warnings.warn(said, stacklevel=3)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers a version begins with."""
    found = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def check_kept(value: object, field: str) -> None:
    """Refuse what is not plain data, and say where in it: nothing has been written yet."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise cannot_keep(f"{field}[{shortened(name, 40)}]", name)
            check_kept(inner, f"{field}.{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            check_kept(inner, f"{field}[{number}]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise cannot_keep(field, value)
    else:
        try:
            jsonio.encode(value)
        except (TypeError, ValueError) as error:  # a number that no JSON has
            raise cannot_keep(field, value) from error


def cannot_keep(field: str, value: object) -> InvalidMessage:
    """The error for an object that cannot be stored: which field of what was handed over, and what is in it."""
    return InvalidMessage("cannot_keep", field=field, actual=type(value).__name__)


@contextmanager
def refusing_as(kind: type[Exception]) -> Iterator[None]:
    """A task that another process owns, or has taken over, is refused in a framework's own type of error."""
    try:
        yield
    except (TaskBusy, StaleWriter) as error:
        raise kind(str(error)) from error
