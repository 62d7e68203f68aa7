"""``Mirror``: a folder in the object storage, brought up to date at the cost of what is new.

Owns the objects below ``mirror/{uuid}/``: segments, which are written once under names that nobody else uses, and
``manifest.json``, which is replaced only on condition. Promises that the manifest always describes a whole folder as
it was at one moment, and that a machine whose epoch has been passed never replaces it. ``fetch`` builds the folder
elsewhere, every piece compared with its SHA-256, whole or not at all. What was written after the last ``write`` is not
in the mirror.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from orihon.drivers.objects import ObjectStorage, check_key
from orihon.errors import DamagedStore, StaleWriter, StorageError, StorageUnavailable
from orihon.guard import KEY_COPY, KEY_FILE
from orihon.store.sqlite_copies import DATABASE, database_copies, is_database_part, set_fence
from orihon.store.writer_place import NAME as _WRITER
from orihon.store.writer_place import NOBODY, holder_in, line_of
from orihon.system.clock import process_identity, utc_now
from orihon.system.files import (
    hidden_beside,
    is_tame,
    make_private_folder,
    publish_folder,
    replace_file,
    staged_folder,
    wrapping,
    write_new,
)
from orihon.tasks.mirror.manifest import MIRRORS, Manifest, Segment, Segments, decode

logger = logging.getLogger("orihon.mirror")

#: No segment is larger; memory follows this, not the task.
LARGEST = 8 << 20
_BLOCK = 1 << 20
_ATTEMPTS = 4

# In this order: a record mentions only what was written before it, so each file read later has what an earlier needs.
GROWING = (
    *("checkpoints.jsonl", "compressions.jsonl", "summaries.jsonl", "messages.jsonl"),
    *("tools.jsonl", "planning.jsonl"),
)
# Derived from the log, of this machine alone, or secret.
_LEFT_OUT = frozenset(
    ("current.jsonl", "index.json", "heads.json", "settled.json", "request.json", "writer.lock", KEY_FILE, KEY_COPY)
)


class Mirror:
    """The mirror of one task."""

    def __init__(self, storage: ObjectStorage, name: str, root: str = MIRRORS, *, writer: str = "") -> None:
        """``writer`` is what tells the working copy here from one on another machine."""
        self._storage = storage
        self._name = name
        self._root = check_key(f"{root}/{name}")
        self._writer = _sha256(f"{process_identity().host} {writer}".encode())[:16]
        self._known: tuple[Manifest | None, str] | None = None  # and its etag
        self._looked: dict[str, tuple[int, int]] = {}  # size and time of files as they were mirrored
        self._is_checked = False

    @property
    def key(self) -> str:
        return f"{self._root}/manifest.json"

    # ---- writing -----------------------------------------------------------------------------------------------

    def write(self, folder: Path, epoch: int) -> Manifest:
        """Bring the mirror up to date; ``StaleWriter`` when a newer owner has been here."""
        for _ in range(_ATTEMPTS):
            before, etag = self._base(epoch)
            uploaded: list[Segment] = []
            try:
                manifest = self._manifest(folder, epoch, before, uploaded)
            except BaseException:
                self._forget()
                self._drop(uploaded)
                raise
            if before is not None and (before.epoch, before.files) == (epoch, manifest.files):
                return before
            if self._replace(manifest, etag):
                kept = {segment.key for segment in manifest.segments()}
                self._drop([one for one in (before.segments() if before else ()) if one.key not in kept])
                self._is_checked = True
                return manifest
            self._drop(uploaded)
        raise StorageUnavailable("object_changed", key=self.key, place=self._storage.place)

    def _base(self, epoch: int) -> tuple[Manifest | None, str]:
        """The manifest to go on from, unless it is a newer owner's."""
        if self._known is None:
            self._known = self._read()
        before = self._known[0]
        # Machines without a common catalogue may come to the same epoch: then the one that was here first has it.
        if before is not None and (before.epoch > epoch or (before.epoch == epoch and before.writer != self._writer)):
            place = self._storage.place
            raise StaleWriter("mirror", key=self.key, place=place, epoch=epoch, current=before.epoch)
        return self._known

    def _forget(self) -> None:
        """What is known of the storage may be wrong: look again before the next write."""
        self._known, self._is_checked = None, False
        self._looked.clear()

    def _replace(self, manifest: Manifest, etag: str) -> bool:
        """Write the manifest in place of the one that was read; ``False`` when somebody else was quicker."""
        data = manifest.encode()
        try:
            info = self._storage.replace(self.key, data, etag) if etag else self._storage.create(self.key, data)
        except StorageError as error:
            self._forget()  # it may have been written all the same: its segments must stay
            if error.reason not in ("object_changed", "object_exists", "object_gone"):
                raise
            self._known = self._read()
            now = self._known[0]
            # An answer that was lost on its way makes the driver try again, and meet our own manifest.
            return now is not None and now.token == manifest.token
        self._known = manifest, info.etag
        return True

    def manifest(self) -> Manifest | None:
        """The manifest as it is in the storage now, if there is one."""
        return self._read()[0]

    def _read(self) -> tuple[Manifest | None, str]:
        try:
            found = self._storage.read(self.key)
        except StorageUnavailable as error:
            if error.reason == "object_gone":
                return None, ""
            raise
        return decode(found.data, self._name, self._root, self._storage.place), found.etag

    def _manifest(self, folder: Path, epoch: int, before: Manifest | None, uploaded: list[Segment]) -> Manifest:
        known = {} if before is None else before.files
        files: dict[str, Segments] = {}
        with database_copies(folder, folder.parent) as copies:
            for name, path in _files(folder):
                if is_database_part(name, copies):
                    continue
                old = known.get(name, ())
                if name in GROWING:
                    files[name] = self._grown(path, old, uploaded)
                elif name in copies:
                    files[name] = self._in_blocks(copies[name], old, _BLOCK, uploaded)
                else:
                    files[name] = self._whole(name, path, old, uploaded)
        generation = 1 if before is None else before.generation + 1
        return Manifest(self._name, epoch, generation, self._writer, secrets.token_hex(8), utc_now(), files)

    def _grown(self, path: Path, old: Segments, uploaded: list[Segment]) -> Segments:
        """An append-only file: its new lines as a further segment.

        Small segments before it are joined with it, so that their number stays small, and each byte is uploaded again
        only as often as its segment doubles.
        """
        with wrapping(path), path.open("rb") as file:
            end, start, kept = _whole_size(file), sum(segment.size for segment in old), list(old)
            if start > end or not (self._is_checked or _ends_with(file, start, old)):
                start, kept = 0, []  # another history than the one in the mirror: the one here counts
            if start == end:
                return tuple(kept)
            while kept and kept[-1].size <= end - start and end - start + kept[-1].size <= LARGEST:
                start -= kept.pop().size
            file.seek(start)
            while start < end:
                data = file.read(min(LARGEST, end - start))
                kept.append(self._upload(data, uploaded))
                start += len(data)
        return tuple(kept)

    def _whole(self, name: str, path: Path, old: Segments, uploaded: list[Segment]) -> Segments:
        """A file that is replaced as a whole, if ever."""
        with wrapping(path):
            status = path.stat()
        looked = status.st_size, status.st_mtime_ns
        if old and (name.startswith("blobs/") or self._looked.get(name) == looked):
            return old
        segments = self._in_blocks(path, old, LARGEST, uploaded)
        self._looked[name] = looked
        return segments

    def _in_blocks(self, path: Path, old: Segments, size: int, uploaded: list[Segment]) -> Segments:
        """A file in blocks, of which only those are uploaded that are not what they were."""
        segments: list[Segment] = []
        with wrapping(path), path.open("rb") as file:
            for block in iter(lambda: file.read(size), b""):
                known = old[len(segments)] if len(segments) < len(old) else None
                same = known is not None and known.size == len(block) and known.sha256 == _sha256(block)
                segments.append(known if known is not None and same else self._upload(block, uploaded))
        return tuple(segments)

    def _upload(self, data: bytes, uploaded: list[Segment]) -> Segment:
        segment = Segment(f"{self._root}/{secrets.token_hex(12)}", len(data), _sha256(data))
        uploaded.append(segment)
        try:
            self._storage.create(segment.key, data)
        except StorageUnavailable as error:
            if error.reason != "object_exists":  # a name that only we know: our own upload, whose answer was lost
                raise
        return segment

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments that no manifest names; what stays goes with the mirror."""
        for segment in segments:
            try:
                self._storage.delete(segment.key)
            except StorageError as error:
                logger.debug("%s: a segment stays: %s", self._name, error)
                return

    # ---- reading -----------------------------------------------------------------------------------------------

    def fetch(self, folder: Path) -> bool:
        """Make the new folder ``folder`` out of the mirror; ``False`` when there is none."""
        if folder.exists():
            raise StorageUnavailable("folder_exists", path=folder)
        for _ in range(_ATTEMPTS):
            manifest = self.manifest()
            if manifest is None:
                return False
            if self._build(manifest, folder):
                return True
        raise StorageUnavailable("object_changed", key=self.key, place=self._storage.place)

    def _build(self, manifest: Manifest, folder: Path) -> bool:
        with staged_folder(hidden_beside(folder)) as staged:
            try:
                make_private_folder(staged)
                for name, segments in manifest.files.items():
                    path = staged.joinpath(*name.split("/"))
                    make_private_folder(path.parent)
                    write_new(path, self._joined(segments))
            except StorageUnavailable as error:
                if error.reason != "object_gone":
                    raise
                if self.manifest() == manifest:
                    raise self._damaged("a segment is missing") from error
                return False  # its writer has joined segments meanwhile
            _raise_epoch(staged, manifest.epoch + 1)
            publish_folder(staged, folder)
        return True

    def _joined(self, segments: Segments) -> Iterator[bytes]:
        """The bytes of a file, each segment compared with its digest when all of it is there."""
        for segment in segments:
            digest, size = hashlib.sha256(), 0
            for chunk in self._storage.chunks(segment.key):
                size += len(chunk)
                if size > segment.size:
                    break
                digest.update(chunk)
                yield chunk
            if (size, digest.hexdigest()) != (segment.size, segment.sha256):
                raise self._damaged("a segment is not what it was")

    def _damaged(self, detail: str) -> DamagedStore:
        return DamagedStore("mirror", key=self.key, place=self._storage.place, detail=detail)

    def remove(self) -> None:
        """Take the mirror away, its manifest first."""
        self._forget()
        self._storage.delete(self.key)
        for name in list(self._storage.names(self._root)):
            self._storage.delete(name)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder that are mirrored: the growing ones first and in their order, blobs after them."""
    for name in GROWING:
        if (folder / name).is_file():
            yield name, folder / name
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_ours = name not in GROWING and name not in _LEFT_OUT and not path.name.startswith(".")
        if is_ours and is_tame(name) and path.is_file() and not path.is_symlink():
            yield name, path


def _whole_size(file: BinaryIO) -> int:
    """The size up to the last line feed: what stands after it is an append in progress."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        step = min(_BLOCK, end)
        file.seek(end - step)
        found = file.read(step).rfind(b"\n")
        if found >= 0:
            return end - step + found + 1
        end -= step
    return 0


def _ends_with(file: BinaryIO, end: int, segments: Segments) -> bool:
    """Is the newest segment still what stands there? Two histories that part never agree again."""
    if not segments:
        return True
    file.seek(end - segments[-1].size)
    return _sha256(file.read(segments[-1].size)) == segments[-1].sha256


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _raise_epoch(folder: Path, epoch: int) -> None:
    """Whoever goes on with a fetched folder needs a higher epoch than the one it was mirrored with."""
    if (folder / DATABASE).exists():
        set_fence(folder / DATABASE, epoch)
        return
    with suppress(FileNotFoundError):
        holder = holder_in((folder / _WRITER).read_bytes()) or NOBODY
        replace_file(folder / _WRITER, [line_of({**holder, "epoch": epoch, "pid": 0, "token": ""})])
