"""What Orihon asks of an object storage, and no more.

Owns the names of objects and the way from ``archive.url`` to a storage. Promises that an object is there whole or not
at all, that ``create`` never touches an object that is there, and that ``replace`` with an ``etag`` never overwrites
what somebody else has written since. Refuses names that could lead out of the storage's place. Errors are
``StorageUnavailable`` with a reason; they name the object and the place, never credentials.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from orihon.errors import InvalidId, InvalidSettings
from orihon.settings import Settings
from orihon.system.files import open_private, wrapping

#: Pieces in which objects are read and written.
CHUNK = 1 << 20

_PART = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,199}")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: its name, its size, and what tells this version of it from others."""

    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """A small object, read whole."""

    data: bytes
    etag: str


class ObjectStorage(ABC):
    """A place for objects; names are ``/``-separated and relative to it."""

    #: Where it is, for people.
    place: str

    @classmethod
    def of(cls, settings: Settings) -> ObjectStorage:
        """The storage that ``archive.url`` names."""
        archive = settings.archive
        if archive.url is None:
            raise InvalidSettings("no_archive_url")
        return cls.at(archive.url, archive.endpoint)

    @staticmethod
    def at(url: str, endpoint: str | None = None) -> ObjectStorage:
        """The storage at an address; ``endpoint`` for one that is not the provider's own."""
        try:
            place = urlsplit(url)
        except ValueError as error:  # its text would quote the address
            raise InvalidSettings("object_address", url="?") from error
        if place.scheme == "file":
            if place.netloc not in ("", "localhost") or not place.path.startswith("/"):
                raise InvalidSettings("file_address", url=url)
            from orihon.drivers.objects.folder import FolderStorage

            return FolderStorage(Path(unquote(place.path)))
        from orihon.drivers.objects.remote import RemoteStorage

        return RemoteStorage(url, endpoint)

    @abstractmethod
    def create(self, key: str, source: Path | bytes) -> ObjectInfo:
        """A new object, from a file or from memory; ``object_exists`` when there is one by that name."""

    @abstractmethod
    def replace(self, key: str, data: bytes, etag: str | None = None) -> ObjectInfo:
        """A small object with new contents; ``object_changed`` when it is no longer the version ``etag``."""

    @abstractmethod
    def read(self, key: str) -> ObjectContent:
        """A small object; ``object_gone`` when there is none."""

    @abstractmethod
    def chunks(self, key: str) -> Iterator[bytes]:
        """An object of any size, piece by piece; ``object_gone`` when there is none."""

    @abstractmethod
    def info(self, key: str) -> ObjectInfo | None:
        """Size and version of an object, if there is one."""

    @abstractmethod
    def names(self, prefix: str) -> Iterator[str]:
        """The objects below ``prefix``, which is a folder and not the beginning of a word."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; nothing happens when there is none."""

    def download(self, key: str, path: Path) -> str:
        """Write an object to a new file, synced, and return the SHA-256 of what was written."""
        digest = hashlib.sha256()
        with wrapping(path), os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            for chunk in self.chunks(key):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def digest(self, key: str) -> tuple[int, str]:
        """Size and SHA-256 of an object, by reading it."""
        size, digest = 0, hashlib.sha256()
        for chunk in self.chunks(key):
            size += len(chunk)
            digest.update(chunk)
        return size, digest.hexdigest()


def check_key(key: str) -> str:
    """A name that stays below the storage's place, as it is; anything else raises."""
    if not all(_PART.fullmatch(part) for part in key.split("/")):
        raise InvalidId("unsafe", what="object", value=ascii(key)[:80])
    return key
