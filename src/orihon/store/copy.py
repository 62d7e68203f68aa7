"""A task's records, all or its beginning, copied from one store to another, and the proof that the copy is the same.

Records, blobs and files pass as opaque bytes, one batch in memory at a time. Nothing is derived here but what every
store derives for itself: the view's file, the counters.

Of two folders of one task the records say which the task is: a folder without a record is a husk, whatever else lies in
it; one whose records are all the beginning of another's has nothing that the other lacks. Only where each holds what
the other does not is it for a person to choose.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from orihon.errors import DamagedStore, StorageError, StorageUnavailable
from orihon.guard.sealer import Sealer
from orihon.store.contract import STREAMS, Pieces, RecordStore, Stream
from orihon.store.factory import backend_of
from orihon.store.files import FilesRecords
from orihon.store.sealed import SealedRecords, seal_like
from orihon.store.task_store import TaskStore
from orihon.system.files import make_folder_inside

_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 256
_DATABASE = "context.db"


@dataclass(frozen=True, slots=True)
class StoreContents:
    """Everything that must be the same in a copy: how many records, and hashes."""

    streams: Mapping[Stream, tuple[int, str]]
    blobs: tuple[str, ...]
    files: Mapping[str, str]
    view: str

    def difference(self, other: StoreContents) -> str | None:
        """The first thing that differs, for people; ``None`` when nothing does."""
        pairs: dict[str, tuple[Any, Any]] = {
            **{stream: (self.streams[stream], other.streams[stream]) for stream in STREAMS},
            "blobs": (self.blobs, other.blobs),
            "files": (self.files, other.files),
            "view": (self.view, other.view),
        }
        return next((name for name, (here, there) in pairs.items() if here != there), None)


@dataclass(frozen=True, slots=True)
class TaskPart:
    """The beginning of a task: how much of each stream, the epoch of its last message, and what the records mention."""

    lasts: Mapping[Stream, int]
    epoch: int
    blobs: frozenset[str]
    files: frozenset[str]


def copy_records(
    source: RecordStore,
    target: RecordStore,
    *,
    part: TaskPart | None = None,
    on_stream: Callable[[Stream], None] | None = None,
) -> None:
    """Everything, or a ``part``, from one store to an empty one that has been claimed; ``on_stream`` observes.

    Between two that are sealed with one key nothing is opened: the copy is the same, byte for byte.
    """
    seal_like(source, target)
    if part is None and _have_one_key(source, target):
        _copy_sealed_files(source, target)
        assert isinstance(target, SealedRecords)
        target.mark_like(source)
        source, target = source.bare, target.bare
    else:
        _copy_files(source, target, part)
    writer = BatchWriter(target)
    for stream in STREAMS:
        last = None if part is None else part.lasts[stream]
        for record in () if last == 0 else source.read(stream, *(() if last is None else ((1, last),))):
            writer.add(stream, record)
        writer.flush()
        if on_stream is not None:
            on_stream(stream)


class BatchWriter:
    """Appends records, stream after stream, to a store that has none; they are there after ``flush``."""

    def __init__(self, target: RecordStore) -> None:
        self._target = target
        self._stream: Stream = STREAMS[0]
        self._batch: list[Pieces] = []
        self._size = 0
        self.counts: dict[Stream, int] = dict.fromkeys(STREAMS, 0)

    def add(self, stream: Stream, record: bytes) -> None:
        is_full = self._size + len(record) > _BATCH_BYTES or len(self._batch) == _BATCH_RECORDS
        if stream != self._stream or is_full:
            self.flush()
        self._stream = stream
        self._batch.append((record,))
        self._size += len(record)
        self.counts[stream] += 1

    def flush(self) -> None:
        if self._batch:
            with self._target.writing(sure=True):
                self._target.append(self._stream, self.counts[self._stream] - len(self._batch) + 1, self._batch)
        self._batch, self._size = [], 0


def _copy_files(source: RecordStore, target: RecordStore, part: TaskPart | None) -> None:
    """Contents and files; a part has its own names for those of the whole, where that is possible."""
    # What one key has sealed, another does not open.
    may_link = part is not None and not (source.is_sealed or target.is_sealed)
    for digest in source.blob_digests() if part is None else sorted(part.blobs):
        if not (may_link and _linked(source, target, f"blobs/{digest}")):
            target.put_blob(digest, source.get_blob(digest))
    for name in source.kept_files() if part is None else sorted(part.files):
        if not (may_link and _linked(source, target, name)):
            content = source.kept_file(name)
            if content is None:
                raise StorageUnavailable("gone", path=source.folder / name)
            target.keep_file(name, content)


def _linked(source: RecordStore, target: RecordStore, name: str) -> bool:
    """The same file in both folders; ``False`` where that is not possible, or the file is missing."""
    path = target.folder / name
    make_folder_inside(path.parent, target.folder)
    try:
        os.link(source.folder / name, path, follow_symlinks=False)
    except OSError:  # another file system, or one without links: then it is copied, and what is missing is said there
        return False
    return True


def _have_one_key(source: RecordStore, target: RecordStore) -> TypeGuard[SealedRecords]:
    here, there = _sealer(source), _sealer(target)
    return here is not None and there is not None and there.has_key_of(here)


def _sealer(records: RecordStore) -> Sealer | None:
    return records.sealer() if isinstance(records, SealedRecords) else None


def _copy_sealed_files(source: SealedRecords, target: RecordStore) -> None:
    for name in (*source.sealed_blobs(), *source.kept_files()):
        content = source.bare.kept_file(name)
        if content is not None:
            target.bare.keep_file(name, content)


def contents_of(store: TaskStore) -> StoreContents:
    """What is in a store, read again from the beginning; a blob is checked against its name on the way."""
    records = store.records
    blobs = tuple(records.blob_digests())
    for digest in blobs:
        records.get_blob(digest)
    files = {name: hashlib.sha256(records.kept_file(name) or b"").hexdigest() for name in records.kept_files()}
    return StoreContents(
        streams={stream: _fingerprint(records.read(stream)) for stream in STREAMS},
        blobs=blobs,
        files=files,
        view=_fingerprint(store.view_lines())[1],
    )


def refuse_difference(uuid: str, source: StoreContents, copy: TaskStore) -> None:
    """Raises ``DamagedStore`` when the copy is not the same."""
    differing = source.difference(contents_of(copy))
    if differing is not None:
        raise DamagedStore("copy_differs", uuid=uuid, what=differing)


def is_beginning(leftover: RecordStore, whole: RecordStore) -> bool:
    """Is everything in ``leftover`` in ``whole``, too? A task goes on where it counts; its former place does not."""
    for stream in STREAMS:
        there = whole.read(stream)
        if any(record != next(there, None) for record in leftover.read(stream)):
            return False
    return set(leftover.blob_digests()) <= set(whole.blob_digests())


# ---- two folders of one task ----------------------------------------------------------------------------------------


def is_husk(folder: Path) -> bool:
    """Is there certainly no record in the folder?"""
    try:
        kept: list[RecordStore] = [FilesRecords(folder)]
        if _has_database(folder):
            kept.append(_records(folder))
        for records in kept:
            with closing(records):
                if any(records.last(stream) for stream in STREAMS):
                    return False
        return True
    except (StorageError, OSError):
        return False


def _has_database(folder: Path) -> bool:
    """An empty file without a log was never written to; to look into it would make it a database."""
    paths = (folder / _DATABASE, folder / f"{_DATABASE}-wal")
    return any(path.exists() and path.stat().st_size for path in paths)


def whole_ones(folders: Sequence[Path]) -> list[Path]:
    """The folders that hold everything the others do: one, several that are the same, or none."""
    return [one for one in folders if all(other == one or _is_part(other, one) for other in folders)]


def count_messages(folder: Path) -> int | None:
    """How many messages a folder holds; ``None`` where it does not tell."""
    try:
        with closing(_records(folder)) as records:
            return records.last("messages")
    except (StorageError, OSError):
        return None


def _is_part(folder: Path, whole: Path) -> bool:
    if is_husk(folder):
        return True
    try:
        with closing(_records(folder)) as part, closing(_records(whole)) as records:
            return is_beginning(part, records)
    except (StorageError, OSError):
        return False


def _records(folder: Path) -> RecordStore:
    """As they lie there, sealed or not: copies of one task have the same bytes."""
    if backend_of(folder, "files") == "files":
        return FilesRecords(folder)
    from orihon.store.sqlite import SqliteRecords

    return SqliteRecords(folder)


def _fingerprint(records: Iterable[bytes]) -> tuple[int, str]:
    """How many, and a hash over all of them in order; where one ends and the next begins is part of it."""
    digest, count = hashlib.sha256(), 0
    for record in records:
        digest.update(b"%d:" % len(record))
        digest.update(record)
        count += 1
    return count, digest.hexdigest()
