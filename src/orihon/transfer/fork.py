"""``fork_task``: a new task from any step of an old one.

The new task has the messages up to that step, the view as it was then (its folds and pins, and what can be undone), and
the tool calls and plans of that time. The records are copied as they are, so every digest still proves its message;
large contents are shared: hard links on one file system, rows copied inside a database. The old task is only read, in
whatever state it is, and its owner notices nothing. The new one is paused, belongs to nobody, and is there whole or
not at all. Refuses a step that would split tool calls from their results.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from orihon.audit.trail import audited
from orihon.catalogue import TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import metadata_of
from orihon.catalogue.rows import CONTINUED, FOLDER_LOST, FRESH_START, IMPORT, SPENT
from orihon.drivers.postgres import postgres_of
from orihon.errors import IllegalTransition, OrihonError, StorageError, StorageUnavailable, TaskNotFound
from orihon.store.contract import RecordStore, Stream
from orihon.store.copy import TaskPart
from orihon.store.kept_files import stamped
from orihon.store.steps import check_step, compression_at
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, publish_folder, staged_folder
from orihon.tasks.base import OpenBase
from orihon.tasks.place import FEWEST_TRIES, OF_A_MOVE, TaskPlace, tries_while_moved
from orihon.tasks.quotas import admission, check_new_task
from orihon.transfer.archive.work import ARCHIVED, CLEANING
from orihon.transfer.staging import (
    FORK,
    StagedRecords,
    copy_task,
    open_unguarded,
    remove_from_database,
    remove_unfinished,
)
from orihon.values.message.extra import expect
from orihon.values.records import FORKED_FROM
from orihon.values.task import TaskStatus, check_id, new_uuid

#: In the row's metadata and in ``metadata.json``: the task and the step that a task was forked from.
#: Notes in a row's metadata that are about that one task's life.
_OWN_NOTES = frozenset((FRESH_START, SPENT, ARCHIVED, CLEANING, FOLDER_LOST))
#: What the new task goes on with.
_TAKEN_OVER = (
    *("llm_provider", "model", "context_length", "correction"),
    *("max_retries", "priority", "inherits_from", "source", "prompt"),
)

_OUTPUT = re.compile(rb"[A-Za-z0-9_.-]{1,200}-[0-9a-f]{8}\.txt")


def fork_task(base: OpenBase, uuid: str, at: int, *, name: str | None = None) -> str:
    """Start a paused task from step ``at`` of another one; returns its UUID (``name``, if one is given)."""
    expect(at, int, "at")
    new = check_id(name or new_uuid())
    catalogue, row = base.registered(uuid)
    if (known := base.row(new)) is not None or base.folders.find(new) is not None:
        raise IllegalTransition("exists", uuid=new, status="-" if known is None else known.status.value)
    check_new_task(catalogue, base.settings, row.user)
    with audited(base.path, base.settings, "fork", uuid, at=at, new=new):
        fork = _Fork(base, row, new, at)
        forked = fork.made()
        try:
            catalogue.tasks.adopt(forked, admit=admission(base.settings, row.user))
        except BaseException:
            fork.remove()
            raise
    return new


class _Fork:
    """One fork on its way."""

    def __init__(self, base: OpenBase, row: TaskRow, new: str, at: int) -> None:
        self._base = base
        self._settings = base.settings
        self._row = row
        self._new = new
        self._at = at
        self._now = utc_now()
        self._origin = {"uuid": row.uuid, "at": at}
        self._place = base.path / "paused" / new

    def made(self) -> TaskRow:
        """The new task's records and files in their place, and its row, which is not in the catalogue yet."""
        problem: OrihonError = TaskNotFound("no_folder", uuid=self._row.uuid, status=self._row.status.value)
        for number in tries_while_moved():
            here = self._base.folders.find(self._row.uuid)
            if here is None:  # it has none, or is on its way from one place to another
                if number < FEWEST_TRIES:
                    continue
                break
            try:
                with closing(self._base.read_store(here)) as source:
                    return self._in_database(source) if here.is_in_database else self._in_folder(source, here)
            except StorageError as error:
                if error.reason not in OF_A_MOVE:
                    raise
                problem = error
        raise problem

    def remove(self) -> None:
        """Nothing of the new task stays."""
        if self._place.exists() or self._settings.database.url is None:
            shutil.rmtree(self._place, ignore_errors=True)
        else:
            remove_from_database(self._base.folders.in_database(self._new), self._settings, fenced=False)

    # ---- in a folder -------------------------------------------------------------------------------------------

    def _in_folder(self, source: TaskStore, here: TaskPlace) -> TaskRow:
        cut = cut_at(source, self._at)
        if self._base.folders.find(self._row.uuid) != here:
            # In a folder that has moved away there seem to be no files.
            raise StorageUnavailable("gone", path=here.folder)
        remove_unfinished(self._place.parent, FORK)
        # A name of its own: of a fork that has died under the same name, not a byte may be in this one.
        with staged_folder(self._place.with_name(f".{self._new}.{secrets.token_hex(4)}{FORK}")) as staged:
            make_private_folder(staged)
            row = self._filled(staged, source, cut, here.backend())
            publish_folder(staged, self._place)
        return row

    # ---- in a database -----------------------------------------------------------------------------------------

    def _in_database(self, source: TaskStore) -> TaskRow:
        from orihon.store.postgres_moving import copy_beginning

        cut = cut_at(source, self._at)
        if source.records.is_sealed:
            return self._sealed_anew(source, cut)
        copy_beginning(
            postgres_of(self._settings),
            self._row.uuid,
            self._new,
            epoch=cut.epoch,
            lasts=cut.lasts,
            blobs=cut.blobs,
            files=cut.files,
            written={METADATA: self._metadata(self._begun("postgres", cut))},
        )
        try:
            with closing(self._base.read_store(self._base.folders.in_database(self._new))) as store:
                return self._counted(store, self._begun("postgres", cut))
        except BaseException:
            self.remove()
            raise

    def _sealed_anew(self, source: TaskStore, cut: TaskPart) -> TaskRow:
        """With a key of its own, so every record is opened and sealed; under a name that no task has until then."""
        with StagedRecords(self._base.folders, postgres_of(self._settings), self._new, FORK) as staged:
            row = self._filled(staged.folder, source, cut, "postgres")
            staged.publish()
        return row

    # ---- both --------------------------------------------------------------------------------------------------

    def _filled(self, folder: Path, source: TaskStore, cut: TaskPart, backend: str) -> TaskRow:
        """The new task where it is staged, and its row."""
        with closing(open_unguarded(folder, self._settings, backend, self._new, epoch=cut.epoch)) as store:
            copy_task(source, store, part=cut)
            row = self._counted(store, self._begun(backend, cut))
            store.records.keep_file(METADATA, self._metadata(row))
        return row

    def _begun(self, backend: str, cut: TaskPart) -> TaskRow:
        """The row of the new task, so far as it is known beforehand."""
        old, now = self._row, self._now
        notes = {name: value for name, value in old.metadata.items() if name not in _OWN_NOTES}
        if isinstance(notes.get(IMPORT), dict):
            notes[IMPORT] = {**notes[IMPORT], CONTINUED: now}
        return TaskRow.of(
            replace(old.key, uuid=None),
            self._new,
            TaskStatus.PAUSED,
            created_at=now,
            updated_at=now,
            started_at=now,
            backend=backend,
            epoch=cut.epoch,
            metadata={**notes, FORKED_FROM: self._origin},
            total_messages=cut.lasts["messages"],
            total_summaries=cut.lasts["summaries"],
            total_tool_calls=cut.lasts["tools"],
            **{name: getattr(old, name) for name in _TAKEN_OVER},
        )

    def _metadata(self, row: TaskRow) -> bytes:
        """What the task's folder knows about it by itself."""
        return stamped({**metadata_of(row, self._settings), FORKED_FROM: self._origin})

    @staticmethod
    def _counted(store: TaskStore, row: TaskRow) -> TaskRow:
        """The row with what its records come to."""
        tail = store.tail
        return replace(
            row,
            compression_count=sum(record["kind"] == "compress" for record in store.read("compressions")),
            final_token_count=tail.view_tokens,
            final_message_count=tail.view_entries,
            view_tokens=tail.view_tokens,
        )


def cut_at(store: TaskStore, seq: int) -> TaskPart:
    """What belongs to step ``seq`` of a task."""
    check_step(store, seq)
    after = next(store.read("messages", seq + 1, seq + 1), None)
    beyond = None if after is None else str(after["timestamp"])
    compressions = compression_at(store, seq)
    lasts: dict[Stream, int] = {
        "messages": seq,
        "summaries": _last_summary(store, compressions, beyond),
        "tools": _last_before(store, "tools", "timestamp", beyond),
        "planning": _last_before(store, "planning", "created_at", beyond),
        "compressions": compressions,
        "checkpoints": _last_checkpoint(store, seq, beyond),
    }
    epoch = int(next(store.read("messages", seq, seq))["epoch"])
    return TaskPart(lasts, max(epoch, 1), *_mentioned(store.records, lasts))


def _last_summary(store: TaskStore, compressions: int, beyond: str | None) -> int:
    """The last fold that a compression of that time knows, and summaries that were added by hand after it."""
    records = store.read("compressions", 1, compressions) if compressions else iter(())
    last = max((number for record in records for number in record["folds"]), default=0)
    for record in store.read("summaries", last + 1):
        if "made_by" in record or _is_beyond(record.get("created_at"), beyond):
            break
        last = int(record["id"])
    return last


def _last_checkpoint(store: TaskStore, seq: int, beyond: str | None) -> int:
    """The last record before an answer whose message is not part of the step."""
    last = 0
    for record in store.read("checkpoints"):
        if _is_beyond(record.get("created_at"), beyond) or (record["kind"] == "answer" and (record["seq"] or 0) > seq):
            break
        last += 1
    return last


def _last_before(store: TaskStore, stream: Stream, field: str, beyond: str | None) -> int:
    last = 0
    for record in store.read(stream):
        if _is_beyond(record.get(field), beyond):
            break
        last += 1
    return last


def _is_beyond(moment: Any, beyond: str | None) -> bool:
    return beyond is not None and isinstance(moment, str) and moment >= beyond


def _mentioned(records: RecordStore, lasts: dict[Stream, int]) -> tuple[frozenset[str], frozenset[str]]:
    """The large contents and the files of the task that these records mention."""
    kept = {name.rpartition("/")[2].encode(): name for name in records.kept_files() if name.startswith("outputs/")}
    blobs: set[str] = set()
    files: set[str] = set()
    for stream, last in lasts.items():
        for line in records.read(stream, (1, last)) if last else ():
            if b'"blobs"' in line:
                blobs.update(blob["sha256"] for blob in jsonio.decode(line).get("blobs", ()))
            if kept:
                files.update(kept[name] for name in _OUTPUT.findall(line) if name in kept)
    return frozenset(blobs), frozenset(files)
