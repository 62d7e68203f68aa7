"""Object storage: S3, Google, Azure, or a plain folder, in our words.

``ObjectStorage.of(settings)`` is what the settings name. Nothing heavy is imported before that.

Owns the names of objects and the way from ``archive.url`` to a storage. Promises that an object is there whole or not
at all, that ``create`` never touches an object that is there, and that ``replace`` with an ``etag`` never overwrites
what somebody else has written since. Refuses names that could lead out of the storage's place. Errors are
``StorageUnavailable`` with a reason; they name the object and the place, never credentials.

A plain folder as an object storage: ``file://``, and ``archive/`` of a base folder.

Ours and not the driver's: files are private and synced before they count, an object can be replaced on condition, and
no extra package is needed. The condition holds between processes that see the same folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from orihon.errors import InvalidId, InvalidSettings, StorageUnavailable
from orihon.settings import Settings
from orihon.system.files import (
    create_file,
    make_private_folder,
    open_private,
    replace_file,
    storage_error,
    sync_folder,
    wrapping,
)
from orihon.system.holding import lock_file

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


_LOCK = ".objects.lock"


class FolderStorage(ObjectStorage):
    """Objects as files below one folder, which is made when something is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.place = str(self.root)

    def create(self, key: str, source: Path | bytes) -> ObjectInfo:
        path = self._path(key)
        if not create_file(path, [source] if isinstance(source, bytes) else _pieces(source)):
            raise StorageUnavailable("object_exists", key=key, place=self.place)
        return self._known(key)

    def replace(self, key: str, data: bytes, etag: str | None = None) -> ObjectInfo:
        path = self._path(key)
        make_private_folder(path.parent)
        with self._locked():
            if etag is not None:
                now = self.info(key)
                if now is None or now.etag != etag:
                    raise StorageUnavailable("object_changed", key=key, place=self.place)
            replace_file(path, [data])
            return self._known(key)

    def read(self, key: str) -> ObjectContent:
        path = self._path(key)
        try:
            with path.open("rb") as file:
                return ObjectContent(file.read(), _etag(os.fstat(file.fileno())))
        except OSError as error:
            raise self._missing_or(error, key) from error

    def chunks(self, key: str) -> Iterator[bytes]:
        path = self._path(key)
        try:
            with path.open("rb") as file:
                yield from iter(lambda: file.read(CHUNK), b"")
        except OSError as error:
            raise self._missing_or(error, key) from error

    def info(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with wrapping(path):
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return ObjectInfo(key, status.st_size, _etag(status))

    def names(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix)
        with wrapping(top):
            if not top.is_dir():
                return
            for path in sorted(top.rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    yield path.relative_to(self.root).as_posix()

    def delete(self, key: str) -> None:
        path = self._path(key)
        with wrapping(path), suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
            sync_folder(path.parent)

    def _path(self, key: str) -> Path:
        return self.root.joinpath(*check_key(key).split("/"))

    def _known(self, key: str) -> ObjectInfo:
        found = self.info(key)
        if found is None:  # somebody has removed it since
            raise StorageUnavailable("object_gone", key=key, place=self.place)
        return found

    def _missing_or(self, error: OSError, key: str) -> Exception:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return StorageUnavailable("object_gone", key=key, place=self.place)
        return storage_error(error, self._path(key))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.root / _LOCK
        with wrapping(path):
            fd = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(fd, path)
            yield
        finally:
            os.close(fd)


def _pieces(path: Path) -> Iterator[bytes]:
    with wrapping(path), path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
