"""The place where packed tasks are kept: ``archive/{uuid}.tar.zst`` and, beside it, ``{uuid}.json`` that describes it.

The description is written last, and it decides: a packed task without one was left behind by a crash. Both are created
on condition, so that of two machines which archive the same task one makes them and the other finds them. What is
found is fine if it holds the same files, and an error if it does not; nothing on the shelf is ever overwritten.

What lies in an object storage may be other bases', too. So the base that has put a task there keeps a note of it in its
own ``archive/`` (``{uuid}.note``): a catalogue that is made anew knows by it whose the task is (``archive.rows``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.drivers.objects import ObjectStorage
from orihon.errors import DamagedStore, StorageUnavailable
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import replace_file, wrapping
from orihon.system.json_shapes import AsJson
from orihon.texts import text
from orihon.transfer.archive.packed_file import ENDINGS, ChunkReader, Packed, PackedContents, examine, unpack
from orihon.values.task import TaskStatus

FOLDER = "archive"
NOTE = ".note"


@dataclass(frozen=True, slots=True)
class ArchivedTask(AsJson):
    """A packed task: which object it is, what must be in it, and the status that the task had."""

    uuid: str
    key: str
    place: str
    format: str
    bytes: int
    sha256: str
    members: int
    content_bytes: int
    content_sha256: str
    status: TaskStatus
    created_at: str

    @property
    def contents(self) -> PackedContents:
        return PackedContents(self.members, self.content_bytes, self.content_sha256)

    @classmethod
    def from_dict(cls, fields: Any, origin: str) -> ArchivedTask:
        """What a description says; anything that is none raises."""
        try:
            task = cls(**{name: fields[name] for name in cls.__slots__} | {"status": TaskStatus(fields["status"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStore("archive", path=origin, detail=text("archive.description")) from error
        texts = (task.uuid, task.key, task.place, task.sha256, task.content_sha256, task.created_at)
        numbers = (task.bytes, task.members, task.content_bytes)
        if (
            not all(isinstance(value, str) for value in texts)
            or not all(type(value) is int and value >= 0 for value in numbers)
            or task.format not in ENDINGS
        ):
            raise DamagedStore("archive", path=origin, detail=text("archive.description"))
        return task


class Shelf:
    """Packed tasks in one storage."""

    def __init__(self, storage: ObjectStorage, notes: Path | None = None) -> None:
        """``notes``: the folder for notes, where the storage is not the base's own."""
        self.storage = storage
        self._notes = notes

    def find(self, uuid: str) -> ArchivedTask | None:
        """The packed task, if it is here whole."""
        key = description_of(uuid)
        try:
            described = jsonio.decode(self.storage.read(key).data)
        except StorageUnavailable as error:
            if error.reason == "object_gone":
                return None
            raise
        except ValueError as error:
            raise DamagedStore("archive", path=key, detail=text("archive.description")) from error
        found = ArchivedTask.from_dict(described, key)
        if found.uuid != uuid or not found.key.startswith(f"{FOLDER}/{uuid}."):
            raise DamagedStore("archive", path=key, detail=text("archive.other_task"))
        return found

    def check(self, task: ArchivedTask, contents: PackedContents) -> None:
        """Refuse a packed task that holds something else, or that is not what its description says."""
        if task.contents != contents:
            raise DamagedStore("archive_differs", uuid=task.uuid, key=task.key, place=self.storage.place)
        if self.storage.digest(task.key) != (task.bytes, task.sha256):
            raise DamagedStore("archive", path=task.key, detail=text("archive.sha256"))

    def put(self, uuid: str, path: Path, packed: Packed, form: str) -> tuple[int, str]:
        """Store a packed file and read it back; size and digest of what is there."""
        key = key_of(uuid, form)
        try:
            self.storage.create(key, path)
        except StorageUnavailable as error:
            if error.reason != "object_exists":
                raise
            self._check_contents(uuid, key, packed.contents, form)
            return self.storage.digest(key)
        stored = self.storage.digest(key)
        if stored != (packed.bytes, packed.sha256):
            self.storage.delete(key)
            raise StorageUnavailable("upload_differs", key=key, place=self.storage.place)
        return stored

    def describe(
        self, uuid: str, stored: tuple[int, str], packed: Packed, form: str, status: TaskStatus
    ) -> ArchivedTask:
        """Write the description; from then on the packed task counts."""
        task = ArchivedTask(
            uuid=uuid,
            key=key_of(uuid, form),
            place=self.storage.place,
            format=form,
            bytes=stored[0],
            sha256=stored[1],
            members=packed.contents.members,
            content_bytes=packed.contents.bytes,
            content_sha256=packed.contents.sha256,
            status=status,
            created_at=utc_now(),
        )
        described = jsonio.encode_pretty(task.as_dict())
        if self._notes is not None:
            replace_file(self._notes / f"{uuid}{NOTE}", [described])
        try:
            self.storage.create(description_of(uuid), described)
        except StorageUnavailable as error:
            if error.reason != "object_exists":
                raise
            other = self.find(uuid)
            if other is None:
                raise
            self.check(other, packed.contents)
            return other
        return task

    def unpack(self, task: ArchivedTask, packed: Path, folder: Path) -> None:
        """Download to ``packed``, compare, and make the new folder out of it."""
        digest = self.storage.download(task.key, packed)
        with wrapping(packed), packed.open("rb") as file:
            if (os.fstat(file.fileno()).st_size, digest) != (task.bytes, task.sha256):
                raise DamagedStore("archive", path=task.key, detail=text("archive.sha256"))
            unpack(file, task.format, folder, expected=task.contents, origin=task.key)

    def remove(self, task: ArchivedTask) -> None:
        """Take a packed task off; its description first, so that what is left does not count."""
        self.take_off(task.uuid)
        self.storage.delete(task.key)

    def take_off(self, uuid: str) -> None:
        """From now on a packed task does not count."""
        self.storage.delete(description_of(uuid))
        if self._notes is not None:
            note = self._notes / f"{uuid}{NOTE}"
            with wrapping(note):
                note.unlink(missing_ok=True)

    def _check_contents(self, uuid: str, key: str, contents: PackedContents, form: str) -> None:
        """An object that a crash, or another machine, left without a description: does it hold the same files?"""
        reader = ChunkReader(self.storage.chunks(key))
        try:
            same = examine(reader, form, expected=contents, origin=key) == contents
        except DamagedStore:
            same = False
        if not same:
            raise DamagedStore("archive_differs", uuid=uuid, key=key, place=self.storage.place)


def key_of(uuid: str, form: str) -> str:
    """The object that a task is packed into."""
    return f"{FOLDER}/{uuid}{ENDINGS[form]}"


def description_of(uuid: str) -> str:
    """The object that says what is packed."""
    return f"{FOLDER}/{uuid}.json"
