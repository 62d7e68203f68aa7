"""A task's records copied from one store to another, and the proof that the copy is the same.

Records, blobs and files pass as opaque bytes, one batch in memory at a time. Nothing is derived here but what every
store derives for itself: the view's file, the counters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from orihon.errors import DamagedStore
from orihon.guard.encryption.sealer import Sealer
from orihon.store.contract import STREAMS, RecordStore, Stream
from orihon.store.sealed import SealedRecords, seal_like
from orihon.store.task_store import TaskStore

_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 256


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


def copy_records(
    source: RecordStore, target: RecordStore, *, on_stream: Callable[[Stream], None] | None = None
) -> None:
    """Everything from one store to an empty one that has been claimed; ``on_stream`` observes each stream.

    Between two that are sealed with one key nothing is opened: the copy is the same, byte for byte.
    """
    seal_like(source, target)
    if _have_one_key(source, target):
        _copy_sealed_files(source, target)
        source, target = source.bare, target.bare
    else:
        _copy_files(source, target)
    for stream in STREAMS:
        first = 1
        for batch in _batches(source.read(stream)):
            with target.writing(sure=True):
                target.append(stream, first, [(record,) for record in batch])
            first += len(batch)
        if on_stream is not None:
            on_stream(stream)


def _copy_files(source: RecordStore, target: RecordStore) -> None:
    for digest in source.blob_digests():
        target.put_blob(digest, source.get_blob(digest))
    for name in source.kept_files():
        content = source.kept_file(name)
        if content is not None:
            target.keep_file(name, content)


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


def _batches(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for record in records:
        if batch and (size + len(record) > _BATCH_BYTES or len(batch) == _BATCH_RECORDS):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    if batch:
        yield batch


def _fingerprint(records: Iterable[bytes]) -> tuple[int, str]:
    """How many, and a hash over all of them in order; where one ends and the next begins is part of it."""
    digest, count = hashlib.sha256(), 0
    for record in records:
        digest.update(b"%d:" % len(record))
        digest.update(record)
        count += 1
    return count, digest.hexdigest()
