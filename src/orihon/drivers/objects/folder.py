"""A plain folder as an object storage: ``file://``, and ``archive/`` of a base folder.

Ours and not the driver's: files are private and synced before they count, an object can be replaced on condition, and
no extra package is needed. The condition holds between processes that see the same folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orihon.drivers.objects.base import CHUNK, ObjectContent, ObjectInfo, ObjectStorage, check_key
from orihon.errors import StorageUnavailable
from orihon.system.files import make_private_folder, open_private, replace_file, storage_error, sync_folder, wrapping

_LOCK = ".objects.lock"


class FolderStorage(ObjectStorage):
    """Objects as files below one folder, which is made when something is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.place = str(self.root)

    def create(self, key: str, source: Path | bytes) -> ObjectInfo:
        path = self._path(key)
        make_private_folder(path.parent)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        pieces = [source] if isinstance(source, bytes) else _pieces(source)
        try:
            replace_file(temporary, pieces)
            with wrapping(path):
                try:
                    os.link(temporary, path)  # unlike a rename, this never replaces what is there
                except FileExistsError as error:
                    raise StorageUnavailable("object_exists", key=key, place=self.place) from error
                sync_folder(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink()
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
            with wrapping(path):
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _pieces(path: Path) -> Iterator[bytes]:
    with wrapping(path), path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
