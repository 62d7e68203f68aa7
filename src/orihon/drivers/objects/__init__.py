"""Object storage: S3, Google, Azure, or a plain folder, in our words.

``ObjectStorage.of(settings)`` is what the settings name. Nothing heavy is imported before that.

Owns the names of objects and the way from ``archive.url`` to a storage. Promises that an object is there whole or not
at all, that ``create`` never touches an object that is there, and that ``replace`` with an ``etag`` never overwrites
what somebody else has written since. Refuses names that could lead out of the storage's place. Errors are
``StorageUnavailable`` with a reason; they name the object and the place, never credentials.

A plain folder as an object storage: ``file://``, and ``archive/`` of a base folder.

Ours and not the driver's: files are private and synced before they count, an object can be replaced on condition, and
no extra package is needed. The condition holds between processes that see the same folder. Whoever else may write to
the folder shall not lead us out of it: below its root no link is followed, and nothing but a plain file is an object.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
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
    wrapping,
)
from orihon.system.holding import lock_file

#: Pieces in which objects are read and written.
CHUNK = 1 << 20
#: Bytes of an object that is read whole.
MOST_READ_WHOLE = 64 << 20

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

    def __init__(self, root: Path, may_be_links: tuple[str, ...] = ()) -> None:
        """``may_be_links`` names folders below it that a person may have put elsewhere."""
        self.root = root.absolute()
        self.place = str(self.root)
        self._may_be_links = may_be_links

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
        with self._opened(key) as fd:
            status = os.fstat(fd)
            if status.st_size > MOST_READ_WHOLE:
                raise StorageUnavailable("object_large", key=key, place=self.place, size=status.st_size)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return ObjectContent(file.read(MOST_READ_WHOLE), _etag(status))

    def chunks(self, key: str) -> Iterator[bytes]:
        with self._opened(key) as fd, os.fdopen(fd, "rb", closefd=False) as file:
            yield from iter(lambda: file.read(CHUNK), b"")

    def info(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with wrapping(path):
            try:
                status = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        self._refuse_other(status, key)
        return ObjectInfo(key, status.st_size, _etag(status))

    def names(self, prefix: str) -> Iterator[str]:
        top = self._path(f"{prefix}/-").parent
        with wrapping(top):
            if not top.is_dir():
                return
            for path in sorted(top.rglob("*")):
                if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                    yield path.relative_to(self.root).as_posix()

    def delete(self, key: str) -> None:
        path = self._path(key)
        with wrapping(path), suppress(FileNotFoundError, NotADirectoryError), self._folder_of(key) as folder:
            os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)

    def _path(self, key: str) -> Path:
        """Where an object lies; no folder on the way there is a link."""
        path = self.root
        for part in check_key(key).split("/"):
            if path != self.root and path.is_symlink() and path.name not in self._may_be_links:
                raise StorageUnavailable("object_link", key=path.name, place=self.place)
            path = path / part
        return path

    @contextmanager
    def _folder_of(self, key: str) -> Iterator[int]:
        """The folder of an object, open: what is exchanged for a link in this moment is not followed either."""
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in key.split("/")[:-1]:
                following = 0 if part in self._may_be_links else os.O_NOFOLLOW
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | following, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        """A plain file, open; a pipe keeps nobody waiting."""
        path = self._path(key)
        try:
            with self._folder_of(key) as folder:
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                fd = os.open(path.name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StorageUnavailable("object_link", key=key, place=self.place) from error
            raise self._missing_or(error, key) from error
        try:
            self._refuse_other(os.fstat(fd), key)
            yield fd
        except OSError as error:
            raise storage_error(error, path) from error
        finally:
            os.close(fd)

    def _refuse_other(self, status: os.stat_result, key: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise StorageUnavailable("object_link", key=key, place=self.place)

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
