"""``Base`` and ``Task`` for async programs: each method of the synchronous ones, in a thread.

>>> async with aio.Base("contexts") as base, await base.task("hello") as task:
...     await task.add("user", "Hello")
...     messages = await task.messages()

Made from the synchronous classes, not written a second time: a method that is added there is there. Properties that
only look (``uuid``, ``usage``, ``is_open`` …) are read as they are. Calls of one task are made one after the other.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from orihon import base as sync
from orihon.tasks import task as sync_task

_END = object()


def _in_thread(act: Callable[[], Any]) -> asyncio.Future[Any]:
    """The outcome of a call in a thread of its own, which keeps no program from ending."""
    loop = asyncio.get_running_loop()
    job: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result, error = context.run(act), None
        except BaseException as raised:  # noqa: BLE001 - whoever waits for it gets it
            result, error = None, raised
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(_settle, job, result, error)

    threading.Thread(target=run, name="orihon-aio", daemon=True).start()
    return job


def _settle(job: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if job.cancelled():
        return
    if error is None:
        job.set_result(result)
    else:
        job.set_exception(error)


class _InThreads:
    """The async side of one synchronous object."""

    _of: Any

    def __init__(self, of: Any) -> None:
        self._of = of
        # Calls of one object are made one after the other, whoever has it.
        self._turn: asyncio.Lock = vars(of).setdefault("_aio_turn", asyncio.Lock())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)  # properties; methods are made below

    def __repr__(self) -> str:
        return f"aio.{self._of!r}"

    async def _call(self, method: Any, *arguments: Any, **options: Any) -> Any:
        await self._turn.acquire()
        job = _in_thread(functools.partial(method, self._of, *arguments, **options))
        job.add_done_callback(lambda _: self._turn.release())  # also of a call that nobody waits for any more
        found = await asyncio.shield(job)
        if isinstance(found, sync_task.Task):
            return Task(found)
        return _stepped(found) if isinstance(found, Iterator) else found

    async def __aenter__(self) -> Self:
        await self._call(type(self._of).__enter__)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._call(type(self._of).__exit__, *error)


async def _stepped(found: Iterator[Any]) -> AsyncIterator[Any]:
    """A generator, each step of it in a thread."""
    while (step := await asyncio.to_thread(next, found, _END)) is not _END:
        yield step


def _in_threads(kind: type) -> dict[str, Any]:
    """An async method for each public method of a class."""
    made: dict[str, Any] = {}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            made[name] = _async_method(method)
    return made


def _async_method(method: Any) -> Any:
    @functools.wraps(method)
    async def called(self: _InThreads, *arguments: Any, **options: Any) -> Any:
        return await self._call(method, *arguments, **options)

    return called


if TYPE_CHECKING:
    # A type checker sees that every method is there; what it awaits is not told apart.
    class Task(_InThreads): ...

    class Base(_InThreads):
        def __init__(self, where: Any = None, config: Any = None, **settings: Any) -> None: ...

else:
    Task = type("Task", (_InThreads,), {"__doc__": sync_task.Task.__doc__, **_in_threads(sync_task.Task)})

    class Base(type("_Base", (_InThreads,), _in_threads(sync.Base))):
        """``orihon.Base`` for async programs."""

        def __init__(self, where: Any = None, config: Any = None, **settings: Any) -> None:
            super().__init__(sync.Base(where, config, **settings))


__all__ = ["Base", "Task"]
