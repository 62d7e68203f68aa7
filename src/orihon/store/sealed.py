"""``SealedRecords``: any back end, with everything that a task says encrypted before the back end gets it.

A task is sealed from its first record on, or not at all. Its data key says that it is: a task that has one never opens
plain, whatever lies there. ``sealed.json`` beside the records (the *marker*) is sealed itself and says which back end
they are in, how those of them were sealed last that were ever sealed anew (a redaction), and what ``metadata.json``
was. So a record, and a marker, that was put back as it was before is known. A sealed record is a record whose number
stands in front and whose rest is ciphertext, so back ends count, order and cut as ever. Large contents are called by a
keyed hash, files keep their names; ``metadata.json``, which holds what the catalogue shows of the task anyway, stays
readable. The lines of the view are not kept, and no file of it is written. A plain record, file or document in a sealed
task is refused. A task that was begun plain stays plain.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore, KeyUnavailable
from orihon.guard.keys import FIRST_MARK, DataKeys, KeyDocument, KeyPlace, find_key
from orihon.guard.sealer import VERSION, Sealer, is_sealed_file, is_sealed_record
from orihon.store.contract import (
    NUMBER_FIELD,
    SEALED,
    SETTLED,
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

_METADATA = "metadata.json"
#: Figures and names that the catalogue has in clear, too.
_CLEAR = frozenset((_METADATA, SEALED))
_BLOBS = "blobs/"


@dataclass(frozen=True, slots=True)
class Marker:
    """What ``sealed.json`` says. ``mark`` 0 is one of an earlier version, which was not sealed and says nothing."""

    mark: int = 0
    backends: tuple[str, ...] = ()
    #: By stream and number: the seals that a record may have, one, and two while it is being sealed anew.
    seals: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    #: SHA-256 of the file as it was written, and as it was before.
    metadata: tuple[str, ...] = ()

    def encode(self, sealer: Sealer, key_id: str) -> bytes:
        said = {"mark": self.mark, "backends": self.backends, "seals": self.seals, "metadata": self.metadata}
        sealed = base64.b64encode(sealer.seal(f"file {SEALED}", 0, jsonio.encode(said))).decode()
        return jsonio.encode({"version": VERSION, "key": key_id, "sealed": sealed})

    @classmethod
    def decode(cls, raw: bytes, sealer: Sealer) -> Marker:
        """``DamagedStore`` for what is no marker of this task."""
        try:
            found: Any = jsonio.decode(raw)
            if int(found["version"]) != VERSION:
                raise DamagedStore("sealed", task=sealer.task, place=SEALED, number=found["version"])
            if "sealed" not in found:
                return cls()
            said = jsonio.decode(sealer.open(f"file {SEALED}", 0, base64.b64decode(found["sealed"], validate=True)))
            return cls(int(said["mark"]), tuple(said["backends"]), said["seals"], tuple(said["metadata"]))
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise DamagedStore("sealed", task=sealer.task, place=SEALED, number=0) from error


class SealedRecords(RecordStore):
    """A back end whose records may be sealed; new ones are, where that is wanted.

    ``is_alone``: the keys lie in the task's own folder, which may have been given another name since. ``is_staged``: it
    is a copy of the task that does not count yet, so the key is told nothing of it; the first writer afterwards does.
    """

    def __init__(
        self,
        inner: RecordStore,
        keys: Callable[[], DataKeys],
        place: Callable[[], KeyPlace],
        task: str,
        *,
        seals_new: bool,
        is_alone: bool = False,
        is_staged: bool = False,
    ) -> None:
        self._inner = inner
        self._keys = keys
        self._place = place
        self._task = task
        self._seals_new = seals_new
        self._is_alone = is_alone
        self._is_staged = is_staged
        self._sealer: Sealer | None = None
        self._known: KeyDocument | None = None
        self._marker: Marker | None = None
        self._is_looked_at = False
        self.folder = inner.folder

    @property
    def kind(self) -> str:
        return self._inner.kind

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
        """Is the task sealed? The marker or, where there is none, the key says so: one of them can be taken away."""
        raw = self._inner.kept_file(SEALED)
        known = self._key()
        if raw is None and known is not None and known.is_staged and not self._is_staged:
            known = None  # of a copy that does not count, or came to nothing
        self._known = known
        if raw is None and known is not None and any(self._inner.lasts(*STREAMS)):
            raw = self._inner.kept_file(SEALED)  # it is written after the key and before the first record
            if raw is None:
                raise DamagedStore("unmarked", task=self._task, place=SEALED)
        if raw is not None and known is None:
            raise KeyUnavailable("missing", key=self._task, where=self._place().where)
        if known is not None:
            sealer = self._keys().opened(known)
            self._marker = None if raw is None else self._checked_marker(Marker.decode(raw, sealer), known)
            self._sealer = sealer
        self._is_looked_at = True

    def _key(self) -> KeyDocument | None:
        place = self._place()
        known = find_key(place, self._task)
        if known is None and self._is_alone and len(ids := list(place.ids())) == 1:
            known = KeyDocument.decode(place.get(ids[0]) or b"", ids[0], place.where)
        return known

    def _tell_key(self) -> None:
        """The key knows as soon as it is written of which generation the marker is."""
        known, marker = self._known, self._marker
        if known is not None and marker is not None and known.mark < marker.mark and not self._is_staged:
            self._keys().note_mark(known.id, marker.mark)
            self._known = replace(known, mark=marker.mark)

    def _checked_marker(self, marker: Marker, known: KeyDocument) -> Marker:
        if not marker.mark and known.mark:  # the marker of a task that is younger than such markers
            raise DamagedStore("sealed", task=self._task, place=SEALED, number=0)
        if marker.mark and self._inner.kind not in marker.backends:
            raise DamagedStore("other_backend", task=self._task, here=self._inner.kind, wanted=marker.backends[-1])
        return marker

    def _writing_sealer(self) -> Sealer | None:
        """The same for a writer: a task without a record is sealed now, if that is wanted."""
        found = self.sealer()
        if found is None and self._seals_new:
            if any(self._inner.lasts(*STREAMS)):
                self._seals_new = False  # it was begun plain
                return None
            self._look()
            if self._sealer is None:  # nobody else has begun it meanwhile
                self._keys().new_sealer(self._task, staged=self._is_staged)
                self._look()
            found = self._sealer
        if found is not None and (self._marker is None or self._marker.backends != (self._inner.kind,)):
            self._mark(backends=(self._inner.kind,))
        self._tell_key()
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

    # ---- the marker --------------------------------------------------------------------------------------------

    def _mark(self, **said: Any) -> None:
        """Let the marker say something else."""
        sealer, known, marker = self._sealer, self._known, self._marker or Marker()
        assert sealer is not None
        assert known is not None
        if not marker.metadata and "metadata" not in said and (kept := self._inner.kept_file(_METADATA)) is not None:
            said["metadata"] = (_digest(kept),)
        step = 1 if marker.mark and "seals" in said else 0
        mark = max(known.mark, marker.mark, FIRST_MARK) + step
        self._marker = replace(marker, mark=mark, **said)
        self._inner.keep_file(SEALED, self._marker.encode(sealer, known.id))
        self._tell_key()

    def allow(self, backend: str) -> None:
        """The records are about to be in another back end, beside the same marker."""
        if self._writing_sealer() is not None:
            self._mark(backends=(self._inner.kind, backend))

    def mark_like(self, source: SealedRecords) -> None:
        """The records of ``source``, sealed as they are, are here now."""
        there = source._marker
        if there is not None and self._writing_sealer() is not None:
            self._mark(seals=there.seals, metadata=there.metadata)

    def is_put_back(self) -> bool:
        """Is the marker older than the key knows it to be?"""
        self._look()  # the key is written after the marker: in this order nobody is accused who is just writing
        known, marker = self._known, self._marker
        if known is None or marker is None or marker.mark >= known.mark:
            return False
        self._look()
        return self._marker is None or self._marker.mark < known.mark

    def has_other_metadata(self) -> bool:
        """Is ``metadata.json`` something else than was written?"""
        return self._written_metadata() is not None and not self.has_proven_metadata()

    def has_proven_metadata(self) -> bool:
        """Is ``metadata.json`` what was written, and by who has the key?"""
        return _digest(self._inner.kept_file(_METADATA) or b"") in (self._written_metadata() or ())

    def _written_metadata(self) -> tuple[str, ...] | None:
        return (self.sealer() and self._marker and self._marker.metadata) or None

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
        sealer, field = self._writing_sealer(), NUMBER_FIELD[stream]
        if sealer is None:
            self._inner.rewrite(stream, records)
            return
        records = {n: checked(sealer.seal_record(stream, field, n, record)) for n, record in records.items()}
        after = {str(n): [seal] for n, seal in map(sealer.seal_of, records.values())}
        before = map(sealer.seal_of, self._inner.read(stream, *((n, n) for n in sorted(records))))
        self._mark_seals(stream, {str(n): [seal, *after[str(n)]] for n, seal in before})
        self._inner.rewrite(stream, records)
        self._mark_seals(stream, after)

    def _mark_seals(self, stream: Stream, seals: Mapping[str, Sequence[str]]) -> None:
        known = {} if self._marker is None else self._marker.seals
        self._mark(seals={**known, stream: {**known.get(stream, {}), **seals}})

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
        if not self._is_current(stream, line):
            self._look()  # it may have been sealed anew since
            if not self._is_current(stream, line):
                number, _ = sealer.seal_of(line)
                raise DamagedStore("put_back", task=self._task, place=stream, number=number)
        return sealer.open_record(stream, line)

    def _is_current(self, stream: Stream, line: bytes) -> bool:
        seals = None if self._marker is None else self._marker.seals.get(stream)
        if not seals:
            return True
        number, seal = Sealer.seal_of(line)
        return seal in seals.get(str(number), (seal,))

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
        if found is None or (not is_sealed_file(found) and (name == SETTLED or found == b"{}" or not self.is_sealed)):
            return found  # what the back end notes for itself
        try:
            return self._needed().open_file(name, found)
        except DamagedStore:
            return b""  # it is derived: whoever reads it finds that it is none, and makes it anew

    def keep_file(self, name: str, content: bytes) -> None:
        sealer = self._writing_sealer()
        if sealer is not None and name == _METADATA:
            former = self._inner.kept_file(_METADATA)
            self._mark(metadata=(_digest(content), *(() if former is None else (_digest(former),))))
        sealer = None if name in _CLEAR else sealer
        self._inner.keep_file(name, content if sealer is None else sealer.seal_file(name, content))

    def kept_file(self, name: str) -> bytes | None:
        found = self._inner.kept_file(name)
        if found is None or name in _CLEAR or (not is_sealed_file(found) and not self.is_sealed):
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

    def unopened(self) -> Iterator[tuple[str, DamagedStore]]:
        """The files of a sealed task that do not open, and why."""
        sealer = self.sealer()
        for name in () if sealer is None else (*self.sealed_blobs(), *self.kept_files()):
            content = None if name in _CLEAR else self._inner.kept_file(name)
            try:
                if content is not None and sealer is not None:
                    sealer.open_file(name, content)
            except DamagedStore as error:
                yield name, error

    def size(self) -> int:
        return self._inner.size()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def seal_like(source: RecordStore, target: RecordStore) -> None:
    """What is copied out of a sealed task stays sealed, also where new tasks are not; ``target`` has no record yet."""
    if source.is_sealed and isinstance(target, SealedRecords):
        target.seal_new()
