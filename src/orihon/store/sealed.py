"""``SealedRecords``: any back end, with everything that a task says encrypted before the back end gets it.

A task is sealed from its first record on, or not at all: ``sealed.json`` beside the records says so and names the data
key. A sealed record is a record whose number stands in front and whose rest is ciphertext, so back ends count, order
and cut as ever. Large contents are called by a keyed hash, files keep their names; ``metadata.json``, which holds what
the catalogue shows of the task anyway, stays readable. The lines of the view are not kept, and no file of it is
written. A plain record in a sealed task raises: nobody can slip one in. A task that was begun plain stays plain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from orihon.errors import DamagedStore, KeyUnavailable
from orihon.guard.keys import DataKeys, key_id_of
from orihon.guard.sealer import VERSION, Sealer, is_sealed_file, is_sealed_record
from orihon.store.contract import (
    NUMBER_FIELD,
    SEALED,
    STREAMS,
    OpenRecord,
    Pieces,
    RecordStore,
    Stream,
    StreamRange,
    TornTail,
    ViewFile,
)
from orihon.store.record_check import checked
from orihon.system import jsonio

#: Figures and names that the catalogue has in clear, too.
_CLEAR = frozenset(("metadata.json", SEALED))
_BLOBS = "blobs/"


class SealedRecords(RecordStore):
    """A back end whose records may be sealed; new ones are, where that is wanted."""

    def __init__(self, inner: RecordStore, keys: Callable[[], DataKeys], task: str, *, seals_new: bool) -> None:
        self._inner = inner
        self._keys = keys
        self._task = task
        self._seals_new = seals_new
        self._sealer: Sealer | None = None
        self._is_looked_at = False
        self.folder = inner.folder

    @property
    def many_writers(self) -> bool:
        return self._inner.many_writers

    @property
    def kept_view(self) -> ViewFile | None:
        return None if self.is_sealed else self._inner.kept_view

    @property
    def is_sealed(self) -> bool:
        return self.sealer() is not None

    @property
    def bare(self) -> RecordStore:
        return self._inner

    # ---- the key -----------------------------------------------------------------------------------------------

    def sealer(self) -> Sealer | None:
        """What opens the records, if they are sealed."""
        if not self._is_looked_at:
            self._look()
        return self._sealer

    def _look(self) -> None:
        raw = self._inner.kept_file(SEALED)
        self._is_looked_at = True
        if raw is None:
            return
        try:
            marker = jsonio.decode(raw)
            version, key_id = int(marker["version"]), str(marker["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedStore("sealed", task=self._task, place=SEALED, number=0) from error
        if version != VERSION:
            raise DamagedStore("sealed", task=self._task, place=SEALED, number=version)
        self._sealer = self._keys().sealer(self._task, key_id)

    def _writing_sealer(self) -> Sealer | None:
        """The same for a writer: a task without a record is sealed now, if that is wanted."""
        found = self.sealer()
        if found is None and self._seals_new:
            if any(self._inner.lasts(*STREAMS)):
                self._seals_new = False  # it was begun plain
                return None
            self._is_looked_at = False
            found = self.sealer()  # somebody else may have begun it meanwhile
            if found is None:
                found = self._sealer = self._keys().new_sealer(self._task)
                self._inner.keep_file(SEALED, jsonio.encode({"version": VERSION, "key": key_id_of(found.task)}))
        return found

    def seal_new(self) -> None:
        """A task without a record becomes a sealed one, whatever the settings say of new ones."""
        self._seals_new = True
        self._writing_sealer()

    def _needed(self) -> Sealer:
        """For something sealed that came from a task which was not when we looked."""
        if self._sealer is None:
            self._is_looked_at = False
        sealer = self.sealer()
        if sealer is None:
            raise DamagedStore("sealed", task=self._task, place=SEALED, number=0)
        return sealer

    # ---- the writer's place ------------------------------------------------------------------------------------

    def claim(self, epoch: int | None = None, *, opened: OpenRecord = bytes) -> tuple[int, list[TornTail]]:
        claimed = self._inner.claim(epoch, opened=partial(self._opened, "messages"))
        self._writing_sealer()
        return claimed

    def writing(self, *, sure: bool = False) -> AbstractContextManager[bool]:
        return self._inner.writing(sure=sure)

    def close(self) -> None:
        self._inner.close()

    def moved_to(self, folder: Path) -> None:
        self._inner.moved_to(folder)
        self.folder = self._inner.folder

    # ---- records -----------------------------------------------------------------------------------------------

    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        sealer = self.sealer()
        if sealer is None:
            self._inner.append(stream, first, records, view_lines)
            return
        field = NUMBER_FIELD[stream]
        self._inner.append(
            stream,
            first,
            [
                (checked(sealer.seal_record(stream, field, number, b"".join(pieces))),)
                for number, pieces in enumerate(records, start=first)
            ],
        )

    def rewrite(self, stream: Stream, records: Mapping[int, bytes]) -> None:
        sealer, field = self.sealer(), NUMBER_FIELD[stream]
        if sealer is not None:
            records = {n: checked(sealer.seal_record(stream, field, n, record)) for n, record in records.items()}
        self._inner.rewrite(stream, records)

    def drop_blob(self, digest: str) -> None:
        sealer = self.sealer()
        if sealer is None:
            self._inner.drop_blob(digest)
        else:
            self._inner.drop_file(_BLOBS + sealer.blob_name(digest))

    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        for line in self._inner.read(stream, *spans):
            yield self._opened(stream, line)

    def read_runs(self, runs: Sequence[StreamRange], *, as_of: int) -> Iterator[bytes] | None:
        lines = self._inner.read_runs(runs, as_of=as_of)
        return None if lines is None else self._along(runs, lines)

    def _along(self, runs: Sequence[StreamRange], lines: Iterator[bytes]) -> Iterator[bytes]:
        for stream, first, last in runs:
            for _ in range(first, last + 1):
                line = next(lines, None)
                if line is None:
                    return
                yield self._opened(stream, line)

    def _opened(self, stream: Stream, line: bytes) -> bytes:
        sealer = self.sealer()
        if sealer is None:
            if not is_sealed_record(line):
                return line
            sealer = self._needed()
        return sealer.open_record(stream, line)

    def last(self, stream: Stream) -> int:
        return self._inner.last(stream)

    def lasts(self, *streams: Stream) -> tuple[int, ...]:
        return self._inner.lasts(*streams)

    # ---- documents and files -----------------------------------------------------------------------------------

    def save(self, name: str, document: bytes) -> None:
        sealer = self.sealer()
        self._inner.save(name, document if sealer is None else sealer.seal_file(name, document))

    def load(self, name: str) -> bytes | None:
        found = self._inner.load(name)
        if found is None or not is_sealed_file(found):
            return found
        try:
            return self._needed().open_file(name, found)
        except DamagedStore:
            return b""  # it is derived: whoever reads it finds that it is none, and makes it anew

    def keep_file(self, name: str, content: bytes) -> None:
        sealer = None if name in _CLEAR else self._writing_sealer()
        self._inner.keep_file(name, content if sealer is None else sealer.seal_file(name, content))

    def kept_file(self, name: str) -> bytes | None:
        found = self._inner.kept_file(name)
        if found is None or name in _CLEAR or not is_sealed_file(found):
            return found
        return self._needed().open_file(name, found)

    def drop_file(self, name: str) -> None:
        self._inner.drop_file(name)

    def kept_files(self) -> list[str]:
        return [name for name in self._inner.kept_files() if name != SEALED and not name.startswith(_BLOBS)]

    def write_out(self, name: str, lines: Iterable[bytes]) -> Path:
        if self.is_sealed:
            raise KeyUnavailable("no_plain_file", task=self._task)
        return self._inner.write_out(name, lines)

    # ---- large contents ----------------------------------------------------------------------------------------

    def put_blob(self, digest: str, data: bytes) -> None:
        sealer = self._writing_sealer()
        if sealer is None:
            self._inner.put_blob(digest, data)
            return
        name = _BLOBS + sealer.blob_name(digest)
        if not (self.folder / name).exists():
            self._inner.keep_file(name, sealer.seal_file(name, data))

    def get_blob(self, digest: str) -> bytes:
        sealer = self.sealer()
        if sealer is None:
            return self._inner.get_blob(digest)
        name = _BLOBS + sealer.blob_name(digest)
        found = self._inner.kept_file(name)
        if found is None:
            raise DamagedStore("blob_missing", path=self.folder / name)
        data = sealer.open_file(name, found)
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedStore("blob_changed", path=self.folder / name)
        return data

    def blob_digests(self) -> list[str]:
        sealer = self.sealer()
        if sealer is None:
            return self._inner.blob_digests()
        contents = ((name, self._inner.kept_file(name) or b"") for name in self.sealed_blobs())
        return sorted(hashlib.sha256(sealer.open_file(name, content)).hexdigest() for name, content in contents)

    def sealed_blobs(self) -> list[str]:
        """The files of the large contents, as the back end keeps them."""
        in_folder = (_BLOBS + name for name in self._inner.blob_digests())
        return sorted({*in_folder, *(name for name in self._inner.kept_files() if name.startswith(_BLOBS))})

    def size(self) -> int:
        return self._inner.size()


def seal_like(source: RecordStore, target: RecordStore) -> None:
    """What is copied out of a sealed task stays sealed, also where new tasks are not; ``target`` has no record yet."""
    if source.is_sealed and isinstance(target, SealedRecords):
        target.seal_new()
