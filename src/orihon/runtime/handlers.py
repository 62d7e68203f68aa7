"""The handlers of a worker: found by name, made once for each user's settings, closed when no longer needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput, InvalidSettings
from orihon.runtime.queue import QueuedTask
from orihon.runtime.user_config import UserConfigAPI, fetch_user_config
from orihon.settings import Settings
from orihon.values.task import shortened

DEFAULT_HANDLER = "orihon.runtime.handler:TaskHandler"
_MOST = 8  # each may have tool servers of its own


class Handler(Protocol):
    """What works on a task. One that has ``close`` is closed in the end; one that has ``tell_end`` is asked to tell the
    source of a task how it has ended elsewhere; a class that has ``check_settings`` sees them before any task does.
    """

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        """Work until done, or until ``should_stop`` says yes between two steps: then pause the task and return."""
        ...


class Handlers:
    """Handlers by settings; those of other users' settings are made when such a task comes.

    One that is given instead of a name is the one for all tasks, and its maker closes it.
    """

    def __init__(self, name: str | Handler, settings: Settings, base_dir: Path) -> None:
        self._given = None if isinstance(name, str) else name
        self._name = name if isinstance(name, str) else ""
        self._settings = settings
        self._base_dir = base_dir
        self._made: dict[Settings, Handler] = {}

    def check(self) -> None:
        """Refuse a name that means nothing and settings that fit no task, before any task is claimed."""
        if self._given is not None:
            return
        check_settings = getattr(factory_of(self._name), "check_settings", None)
        if check_settings is not None and UserConfigAPI.from_environment() is None:  # else each user has its own
            check_settings(self._settings)

    def of(self, task: QueuedTask) -> Handler:
        """The handler for a task, with the settings of its user."""
        return self._given or self._with(fetch_user_config(task, self._settings))

    def tell_end(self, row: TaskRow) -> bool:
        """Have the source of a task told how it has ended; ``False`` when there is nobody to tell it."""
        tell = getattr(self._given or self._with(self._settings), "tell_end", None)
        return tell is not None and bool(tell(row))

    def _with(self, settings: Settings) -> Handler:
        handler = self._made.pop(settings, None)
        if handler is None:
            handler = factory_of(self._name)(settings, self._base_dir)
            if len(self._made) >= _MOST:
                _close(self._made.pop(next(iter(self._made))))
        self._made[settings] = handler  # the newest last
        return handler

    def close(self) -> None:
        """Close them all."""
        while self._made:
            _close(self._made.popitem()[1])


def is_final(error: BaseException) -> bool:
    """Is it the task that cannot be done? What is wrong with the settings is not its fault, and may be mended."""
    return isinstance(error, InvalidInput) and not isinstance(error, InvalidSettings)


def factory_of(name: str) -> Callable[[Settings, Path], Handler]:
    """What ``MODULE:NAME`` stands for."""
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput("handler", name=shortened(name), detail=str(error)) from error
    if not callable(found):
        raise InvalidInput("handler", name=shortened(name), detail=type(found).__name__)
    factory: Callable[[Settings, Path], Handler] = found
    return factory


def _close(handler: Handler) -> None:
    close = getattr(handler, "close", None)
    if close is not None:
        close()
