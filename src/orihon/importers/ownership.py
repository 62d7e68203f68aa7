"""The task that a thread becomes, while an import owns it: its row, its lease, its folder, its figures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import write_metadata
from orihon.catalogue.rows import IMPORT, IMPORTED_AT
from orihon.errors import TaskBusy
from orihon.guard import Redactor
from orihon.importers.base import Thread
from orihon.importers.identity import task_key, task_uuid
from orihon.importers.known_task import counted
from orihon.settings import Settings
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.owning import Ownership, totals_of
from orihon.tasks.usage import record_usage_of_log
from orihon.tasks.usage_sums import UsageSums
from orihon.values.records import ModelCall
from orihon.values.task import MAX_FIELD_CHARS, TaskKey, TaskStatus

#: In the row's metadata, beside where it comes from: how many messages the figures in the row are about.
_MESSAGES = "messages"
_MOST_ABOUT = 100


def is_described(row: TaskRow, thread: Thread, messages: int) -> bool:
    """Does the row say all about a thread of so many messages?"""
    origin = row.metadata.get(IMPORT)
    is_titled = not thread.title or "title" in row.metadata  # masked, it may read differently
    return isinstance(origin, dict) and origin.get(_MESSAGES) == messages and is_titled


@dataclass(slots=True)
class ThreadUsage:
    """What the models of a thread have used."""

    calls: int = 0
    tokens: int = 0
    model: str = ""

    def add(self, call: ModelCall) -> None:
        self.calls += 1
        self.model = call.model or self.model
        self.tokens += 0 if call.usage is None else call.usage.input


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Where imports go."""

    base: OpenBase
    catalogue: Catalogue
    redactor: Redactor
    user: str = ""
    dry_run: bool = False

    @property
    def settings(self) -> Settings:
        return self.base.settings

    def uuid_of(self, form: str, thread_id: str) -> str:
        """The task of a thread: the one that was imported last."""
        round_ = self.rounds(form, thread_id)
        return task_uuid(form, thread_id, self.user, max(round_ - 1, 0))

    def rounds(self, form: str, thread_id: str) -> int:
        """How often the thread was imported anew; 0 when it is not there."""
        number = 0
        while self.catalogue.tasks.find(task_uuid(form, thread_id, self.user, number)) is not None:
            number += 1
        return number

    def own(self, uuid: str, thread: Thread, path: Path, form: str, times: tuple[str, str]) -> OwnedTask:
        """The task, made where it is missing, with its lease and its store; ``times``: its beginning and its end."""
        row = self.catalogue.tasks.find(uuid) or self._registered(uuid, thread, path, form, times)
        owned = self.base.own(uuid)
        with ExitStack() as on_failure:
            on_failure.callback(owned.release)
            folders = self.base.folders
            here = folders.settle(uuid, TaskStatus.COMPLETED) or folders.create(uuid, TaskStatus.COMPLETED)
            store = owned.claim(here)
            on_failure.callback(store.close)
            if store.records.kept_file(METADATA) is None:
                write_metadata(store.records, row, self.settings)
            on_failure.pop_all()
        owned.keep()
        return OwnedTask(self, row, owned, store)

    def _registered(self, uuid: str, thread: Thread, path: Path, form: str, times: tuple[str, str]) -> TaskRow:
        parent = None if thread.parent is None else self.uuid_of(form, thread.parent)
        began, ended = times
        row = TaskRow.of(
            self._masked(task_key(form, thread, self.user)),
            uuid,
            TaskStatus.COMPLETED,
            created_at=began,
            updated_at=utc_now(),
            started_at=began,
            completed_at=max(began, ended),
            backend=self.settings.context_storage.backend,
            parent_uuid=parent,
            metadata=self.described(
                thread, {"format": form, "path": str(path), "thread": thread.id, IMPORTED_AT: utc_now()}
            ),
        )
        return self.catalogue.tasks.adopt(row)

    def _masked(self, key: TaskKey) -> TaskKey:
        """Threads are named after files and folders, whatever those are called."""
        named = {name: self.redactor.mask(getattr(key, name)) for name in ("owner", "repo", "task_id")}
        return replace(key, **{name: value[:MAX_FIELD_CHARS] for name, value in named.items()})

    def described(self, thread: Thread, origin: Mapping[str, Any]) -> dict[str, Any]:
        """What a row says about a thread."""
        about = {key: value for key, value in list(thread.about.items())[:_MOST_ABOUT] if value not in (None, "", {})}
        told = {**origin, "cwd": thread.cwd, **({"about": about} if about else {})}
        metadata: dict[str, Any] = {IMPORT: {key: value for key, value in told.items() if value}}
        if thread.title:
            metadata["title"] = thread.title
        cleaned: dict[str, Any] = self.redactor.clean(metadata)
        return cleaned


class OwnedTask:
    """A task that this process may write to."""

    def __init__(self, place: ImportTarget, row: TaskRow, owned: Ownership, store: TaskStore) -> None:
        self.store = store
        self._place = place
        self.row = row
        self._owned = owned

    def refuse_other(self, expected: tuple[int, ...]) -> None:
        """Somebody else may have imported the same thread since it was looked at."""
        if counted(self.store, self.row).counts != expected:
            self.close()
            raise TaskBusy("import", uuid=self.row.uuid)

    def finish(self, thread: Thread, figures: ThreadUsage, ended: str, used: UsageSums | None = None) -> None:
        """The figures of the whole thread, whatever of them is in the catalogue already.

        ``used`` is what its calls have used; without it the log is read again.
        """
        catalogue, uuid, epoch = self._place.catalogue, self.row.uuid, self._owned.epoch
        row = catalogue.tasks.get(uuid)
        tools = self.store.count("tools")
        missing = {
            "llm_calls": max(figures.calls - row.llm_call_count, 0),
            "tool_calls": max(tools - row.tool_call_count, 0),
            "tokens": max(figures.tokens - row.total_tokens, 0),
            "compressions": max(self.store.count("compressions") - row.compression_count, 0),
        }
        if any(missing.values()):
            catalogue.tasks.add_statistics(uuid, **missing, epoch=epoch)
        if figures.calls and used is not None:
            catalogue.usage.replace(uuid, used.rows())
        elif figures.calls:
            record_usage_of_log(catalogue, self.store, uuid)
        totals = totals_of(self.store)
        catalogue.tasks.set_totals(uuid, epoch=epoch, **totals)
        origin = row.metadata.get(IMPORT)
        # The last word: it says that all figures are there.
        known = {
            **(origin if isinstance(origin, dict) else {}),
            _MESSAGES: totals["total_messages"],
            IMPORTED_AT: utc_now(),
        }
        described = self._place.described(thread, known)
        model = figures.model or thread.model or row.model
        metadata = {**row.metadata, **described}
        catalogue.tasks.update(uuid, epoch=epoch, model=model, metadata=metadata, completed_at=ended)

    def close(self) -> None:
        """Let go of it."""
        try:
            self.store.close()
        finally:
            self._owned.release()
