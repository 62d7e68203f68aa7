"""The keys of encryption at rest: master keys from outside, and one wrapped data key for each task.

A master key never touches our disk: it comes from a file, an environment variable, the system's keyring or a command,
as ``encryption.key`` says. It wraps the data keys, which are kept as small documents beside the catalogue, apart from
what they open: who deletes a data key has erased the task, its archives and copies too. A former master key
(``encryption.former_keys``) still opens what it wrapped; ``rotate`` wraps that anew under the current one, key by key,
so that it can be interrupted and gone on with. An erased key leaves a tombstone: its task is never begun anew.

A key opens what belongs to its own task and nothing else. Its document also says, as part of what the master key
authenticates, the least generation (``mark``) of what the task itself keeps about its seals: 0 is a version that
authenticated nothing of that, and an older one than noted here was put back. A key for a copy that does not count yet
is *staged* and says that, too: until the copy counts and somebody writes to it, the task is what it was.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import resource
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orihon.errors import DamagedStore, KeyUnavailable
from orihon.guard.sealer import KEY_BYTES, VERSION, Sealer, cipher
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import create_file, open_private, replace_file, wrapping
from orihon.system.holding import lock_file
from orihon.system.patterns import lazy_re

if TYPE_CHECKING:
    from orihon.guard.sealer import MasterKey, MasterKeys

#: The folder of the documents, below a base folder (or below the folder of a store that belongs to none).
FOLDER = "keys"
#: The data key of what is no task's: the texts in the catalogue, answers that are kept.
CATALOGUE = "catalogue"
#: The mark of a key that this version makes.
FIRST_MARK = 1
_STAGED_MARK = -1
_ID = lazy_re(r"[A-Za-z0-9_-]{1,64}")
_NONCE_BYTES = 12


class KeyPlace(Protocol):
    """Where the documents of the data keys lie."""

    @property
    def where(self) -> str:
        """Which place it is, for people."""

    def get(self, key_id: str) -> bytes | None:
        """The document, if there is one."""

    def add(self, key_id: str, document: bytes) -> bytes:
        """Keep a new document; gives the one that is there, be it that another process was quicker."""

    def replace(self, key_id: str, old: bytes, new: bytes) -> bool:
        """Durably the new one in place of the old; ``False`` when it is not the old one any more."""

    def remove(self, key_id: str) -> None:
        """Drop a document without a trace: of a task that never came to be."""

    def ids(self) -> Iterator[str]:
        """The names of all."""


class FolderKeys:
    """Documents as files in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        return str(self._folder)

    def get(self, key_id: str) -> bytes | None:
        path = self._folder / f"{key_id}.json"
        with wrapping(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def add(self, key_id: str, document: bytes) -> bytes:
        path = self._folder / f"{key_id}.json"
        create_file(path, [document])
        with wrapping(path):
            return path.read_bytes()

    def replace(self, key_id: str, old: bytes, new: bytes) -> bool:
        with self._locked():  # a rotation must not bring back a key that somebody erases just now
            if self.get(key_id) != old:
                return False
            replace_file(self._folder / f"{key_id}.json", [new])
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self._folder / ".lock"
        with wrapping(path):
            fd = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(fd, path)
            yield
        finally:
            os.close(fd)

    def remove(self, key_id: str) -> None:
        path = self._folder / f"{key_id}.json"
        with wrapping(path):
            path.unlink(missing_ok=True)

    def ids(self) -> Iterator[str]:
        with wrapping(self._folder):
            names = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return (path.name.removesuffix(".json") for path in names if not path.name.startswith("."))


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """What is kept of one data key; without ``wrapped`` it has been erased."""

    id: str
    task: str
    master: str
    created_at: str
    wrapped: str | None
    erased_at: str | None = None
    mark: int = 0

    @property
    def is_staged(self) -> bool:
        """Was it made for a copy that did not count then?"""
        return self.mark == _STAGED_MARK

    def encode(self) -> bytes:
        fields: dict[str, Any] = {"version": VERSION, "id": self.id, "task": self.task, "created_at": self.created_at}
        if self.wrapped is None:
            return jsonio.encode({**fields, "erased_at": self.erased_at})
        if self.mark:
            fields["mark"] = self.mark
        return jsonio.encode({**fields, "master": self.master, "wrapped": self.wrapped})

    @classmethod
    def decode(cls, raw: bytes, key_id: str, where: str) -> KeyDocument:
        try:
            found: Mapping[str, Any] = jsonio.decode(raw)
            known = cls(
                str(found["id"]),
                str(found["task"]),
                str(found.get("master", "")),
                str(found["created_at"]),
                found.get("wrapped"),
                found.get("erased_at"),
                int(found.get("mark", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedStore("data_key", key=key_id, where=where) from error
        if known.id != key_id or (known.wrapped is None and known.erased_at is None):
            raise DamagedStore("data_key", key=key_id, where=where)
        return known


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation has done: data keys that it wrapped anew, and those that needed nothing."""

    rotated: int
    current: int


class DataKeys:
    """The data keys of one place, under the master keys of the settings."""

    def __init__(self, place: KeyPlace, masters: MasterKeys) -> None:
        # The memory of a process that has keys holds plain texts, too: it is not to be written to a disk when it dies.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        self._place = place
        self._masters = masters

    def sealer(self, task: str) -> Sealer:
        """The sealer of a task that has a key; ``KeyUnavailable`` when it is missing, erased or under another key."""
        known = find_key(self._place, task)
        if known is None:
            raise KeyUnavailable("missing", key=key_id_of(task), where=self._place.where)
        return self.opened(known)

    def new_sealer(self, task: str, *, staged: bool = False) -> Sealer:
        """The same for a task that may be new, or for a copy that is: its key is made if there is none."""
        wanted = key_id_of(task)
        if self._place.get(wanted) is None:
            mark = _STAGED_MARK if staged else FIRST_MARK
            made = self._wrapped(wanted, task, secrets.token_bytes(KEY_BYTES), mark=mark)
            self._place.add(wanted, made.encode())
        elif not staged and (known := find_key(self._place, task)) is not None and known.is_staged:
            self.note_mark(wanted, FIRST_MARK)  # the copy came to nothing
        return self.sealer(task)

    def note_mark(self, key_id: str, mark: int) -> None:
        """From now on what the task keeps about its seals is of this generation, or of a later one."""
        while (raw := self._place.get(key_id)) is not None:
            known = KeyDocument.decode(raw, key_id, self._place.where)
            if known.wrapped is None or known.mark >= mark:
                return
            data_key = self._unwrapped(known)
            again = self._wrapped(known.id, known.task, data_key, known.created_at, mark=mark)
            if self._place.replace(key_id, raw, again.encode()):
                return

    def forget(self, task: str) -> None:
        """A task that never came to be needs no key."""
        self._place.remove(key_id_of(task))

    def documents(self) -> Iterator[KeyDocument]:
        """All that is kept here."""
        for key_id in self._place.ids():
            raw = self._place.get(key_id)
            if raw is not None:
                yield KeyDocument.decode(raw, key_id, self._place.where)

    def rotate(self, progress: Callable[[int, int], None] | None = None) -> Rotation:
        """Wrap every data key under the current master key that is not yet; stopped halfway, it is gone on with.

        ``progress`` hears how many have been looked at, and of how many.
        """
        ids = list(self._place.ids())
        done = 0
        for number, key_id in enumerate(ids, start=1):
            done += self._rewrapped(key_id)
            if progress is not None:
                progress(number, len(ids))
        return Rotation(done, len(ids) - done)

    def _rewrapped(self, key_id: str) -> bool:
        while (raw := self._place.get(key_id)) is not None:
            known = KeyDocument.decode(raw, key_id, self._place.where)
            if known.wrapped is None or known.master == self._masters.current.id:
                return False
            data_key = self._unwrapped(known)
            again = self._wrapped(known.id, known.task, data_key, known.created_at, mark=known.mark)
            if self._place.replace(key_id, raw, again.encode()):
                return True
        return False

    def key_for_export(self, task: str) -> tuple[KeyDocument, Sealer]:
        """A new data key for what leaves this place; it is kept nowhere, its document goes along."""
        data_key = secrets.token_bytes(KEY_BYTES)
        return self._wrapped(key_id_of(task), task, data_key), Sealer(data_key, task)

    def opened(self, known: KeyDocument) -> Sealer:
        """The sealer of the key in a document; ``KeyUnavailable`` when that was erased or is under another key."""
        if known.wrapped is None:
            raise KeyUnavailable("erased", task=known.task, at=known.erased_at)
        return Sealer(self._unwrapped(known), known.task)

    def _wrapped(
        self, key_id: str, task: str, data_key: bytes, created_at: str | None = None, *, mark: int = 0
    ) -> KeyDocument:
        master, nonce = self._masters.current, os.urandom(_NONCE_BYTES)
        sealed = nonce + cipher(master.secret).encrypt(nonce, data_key, _bound(key_id, task, mark))
        wrapped = base64.b64encode(sealed).decode()
        return KeyDocument(key_id, task, master.id, created_at or utc_now(), wrapped, mark=mark)

    def _unwrapped(self, known: KeyDocument) -> bytes:
        master = self._masters.find(known.master)
        if master is None:
            raise KeyUnavailable(
                "other_master", key=known.id, wanted=known.master, known=", ".join(self._masters.ids()), task=known.task
            )
        return _decrypted(master, known, self._place.where)


def erase(place: KeyPlace, task: str) -> bool:
    """Delete the data key of a task for good; ``False`` when it has none. No master key is needed for that."""
    key_id = key_id_of(task)
    while (raw := place.get(key_id)) is not None:
        known = KeyDocument.decode(raw, key_id, place.where)
        if known.wrapped is None:
            return False
        gone = KeyDocument(known.id, known.task, "", known.created_at, None, utc_now())
        if place.replace(key_id, raw, gone.encode()):
            return True
    return False


def key_id_of(task: str) -> str:
    """The name of a task's data key: the task's own, where that can be a file name."""
    if _ID.fullmatch(task):
        return task
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", task)[:40]
    return f"{readable}.{hashlib.sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def find_key(place: KeyPlace, task: str) -> KeyDocument | None:
    """The document of a task's own key, erased or not; one that was made for another task raises."""
    key_id = key_id_of(task)
    raw = place.get(key_id)
    known = None if raw is None else KeyDocument.decode(raw, key_id, place.where)
    if known is not None and known.task != task:
        raise DamagedStore("data_key", key=key_id, where=place.where)
    return known


def _bound(key_id: str, task: str, mark: int) -> bytes:
    bound = b"orihon data key\0%d\0%s\0%s" % (VERSION, key_id.encode(), task.encode("utf-8", "surrogatepass"))
    return bound + b"\0%d" % mark if mark else bound  # as ever for keys of versions that knew no mark


def _decrypted(master: MasterKey, known: KeyDocument, where: str) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        raw = base64.b64decode(known.wrapped or "", validate=True)
        nonce, sealed = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
        return cipher(master.secret).decrypt(nonce, sealed, _bound(known.id, known.task, known.mark))
    except (InvalidTag, ValueError, binascii.Error) as error:
        raise DamagedStore("data_key", key=known.id, where=where) from error
