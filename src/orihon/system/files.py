"""Files and folders as Orihon wants them: private, written whole or not at all, on a disk that keeps promises.

Folders are 0700 and files 0600 whatever the umask. The system's errors are wrapped here, once, with their cause.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orihon.errors import DamagedStore, StorageError, StorageUnavailable

logger = logging.getLogger("orihon.store")

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs"),
        *("smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)

_LONGEST_NAME = 1000
_DEEPEST = 32

_MOUNTS = Path("/proc/self/mounts")
#: Where the system shows what this process has open; see ``HeldFolder``.
DESCRIPTORS = "/proc/self/fd"

# What ``hidden_beside`` calls a file that is not finished.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")

_REASONS = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EROFS: "read_only",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
}


def storage_error(error: OSError, path: Path) -> StorageError:
    """The error of our tree for one of the system's."""
    reason = _REASONS.get(error.errno or 0, "io")
    return StorageUnavailable(reason, path=named(path), detail=error.strerror or str(error))


def named(path: Path) -> Path:
    """A path as people know it, also one that leads through an open folder."""
    if not str(path).startswith(f"{DESCRIPTORS}/"):
        return path
    folder, rest = Path(*path.parts[:5]), path.parts[5:]
    with suppress(OSError):
        folder = folder.readlink()
    return folder.joinpath(*rest)


@contextmanager
def wrapping(path: Path) -> Iterator[None]:
    """Turns the system's errors about ``path`` into ours."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def make_private_folder(path: Path, *, durable: bool = True) -> None:
    """The folder and what is missing above it, for the owner only.

    Not ``durable``: its own name may be lost with the power, until somebody syncs the folder above.
    """
    with wrapping(path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            folder.chmod(0o700)
            if durable or folder != path:
                sync_folder(folder.parent)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def make_folder_inside(path: Path, root: Path) -> None:
    """The folder and what is missing between it and ``root``, which has to be there.

    A task's folder may be moved at any moment: made again where it has just left, it would be a second one.
    """
    folder = root
    with wrapping(path):
        try:
            for part in path.relative_to(root).parts:
                folder = folder / part
                try:
                    folder.mkdir(mode=0o700)
                except FileExistsError:
                    continue
                folder.chmod(0o700)
                sync_folder(folder.parent)
        except FileNotFoundError as error:
            raise StorageUnavailable("gone", path=root) from error
        if not root.is_dir():
            raise StorageUnavailable("gone", path=root)


def open_private(path: Path, flags: int, *, through_links: bool = False) -> int:
    """A file descriptor; the file, if new, is for the owner only.

    A base folder may be somebody else's work: a link in it does not lead a writer elsewhere. ``through_links`` is for
    files that a person has named.
    """
    fd = os.open(path, flags | os.O_CLOEXEC | (0 if through_links else os.O_NOFOLLOW), 0o600)
    if flags & os.O_CREAT:
        os.fchmod(fd, 0o600)
    return fd


def write_all(fd: int, data: bytes, offset: int | None = None) -> None:
    """All of it, at the end of what was written or at ``offset``: the system may take a part at a time."""
    rest = memoryview(data)
    while rest:
        written = os.write(fd, rest) if offset is None else os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset = None if offset is None else offset + written


def write_new(path: Path, pieces: Iterable[bytes]) -> None:
    """A new file of a folder that is being made, durable but for its name; see ``publish_folder``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with wrapping(path), os.fdopen(open_private(path, flags), "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def sync_tree(folder: Path) -> None:
    """Make all names below the folder durable."""
    with wrapping(folder):
        for path, _, _ in os.walk(folder):
            sync_folder(Path(path))


def sync_folder(path: Path) -> None:
    """Make renames and new names in the folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    """Make what a file holds durable, whoever has written it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, chunks: Iterable[bytes], *, durable: bool = True) -> None:
    """Write a file whole or not at all: temporary file, fsync, rename, fsync of the folder."""
    with replacing_file(path, chunks, durable=durable):
        pass


def create_file(path: Path, chunks: Iterable[bytes]) -> bool:
    """Write a new file whole, in a private folder; one that is there already, or comes meanwhile, stays as it is.

    Gives whether it was this one that was made.
    """
    make_private_folder(path.parent)
    with unfinished_file(path) as (temporary, fd), wrapping(path):
        _fill(fd, chunks, durable=True)
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces the file of a process that was faster
        except FileExistsError:
            return False
        temporary.unlink()
        sync_folder(path.parent)
    return True


@contextmanager
def replacing_file(path: Path, chunks: Iterable[bytes], *, durable: bool = True) -> Iterator[None]:
    """The same with the rename at the end of the block, and only if that ends well."""
    with unfinished_file(path) as (temporary, fd):
        with wrapping(path):
            _fill(fd, chunks, durable=durable)
        yield
        with wrapping(path):
            temporary.rename(path)
            if durable:
                sync_folder(path.parent)


def _fill(fd: int, chunks: Iterable[bytes], *, durable: bool) -> None:
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.writelines(chunks)
    if durable:
        os.fsync(fd)


# ---- what is not finished ------------------------------------------------------------------------------------------


def hidden_beside(target: Path) -> Path:
    """A place for a file or folder while it is made, that nobody else has and that counts for nothing."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def is_unfinished(name: str) -> bool:
    """Is this the name of a file that is being written, or that never was finished?"""
    return _UNFINISHED.fullmatch(name) is not None


@contextmanager
def unfinished_file(path: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside ``path`` that counts for nothing, and its descriptor; gone at the end unless it was renamed.

    It is locked all the time. The system drops the lock with the process, however that ends: whoever gets it knows
    that nobody will finish the file. See ``remove_leftovers``.
    """
    with wrapping(path):
        temporary, fd = new_unfinished(path)
    try:
        yield temporary, fd
    finally:
        with suppress(OSError):
            temporary.unlink()
        os.close(fd)


def new_unfinished(path: Path) -> tuple[Path, int]:
    """The file of ``unfinished_file`` for who removes and closes it by itself."""
    while True:
        temporary = hidden_beside(path)
        fd = open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            if _is_locked_by_us(fd) and os.fstat(fd).st_nlink:
                return temporary, fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # somebody who tidies up was quicker than our lock, and removes it


def _is_locked_by_us(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files of processes that died: how many, and their bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Leftovers) -> Leftovers:
        return Leftovers(self.files + other.files, self.bytes + other.bytes)


def find_leftovers(folder: Path) -> list[Path]:
    """Unfinished files anywhere below a folder that nobody will finish."""
    return [path for path in _unfinished_in(folder) if is_abandoned(path)]


def remove_leftovers(folder: Path) -> Leftovers:
    """Remove what ``find_leftovers`` finds. What a live process writes has its lock and is left alone."""
    return sum(map(remove_abandoned, _unfinished_in(folder)), Leftovers())


def is_abandoned(path: Path) -> bool:
    """Is this a file that no process has locked?"""
    with _locked_if_free(path) as is_free:
        return is_free


def remove_abandoned(path: Path) -> Leftovers:
    """Remove the file if no process has locked it."""
    with _locked_if_free(path) as is_free, wrapping(path):
        size = folder_size(path)
        try:
            if is_free:
                path.unlink()
                return Leftovers(1, size)
        except FileNotFoundError:  # it has got its name meanwhile
            pass
    return Leftovers()


def _unfinished_in(folder: Path) -> list[Path]:
    return sorted(Path(parent, name) for parent, _, names in os.walk(folder) for name in names if is_unfinished(name))


@contextmanager
def _locked_if_free(path: Path) -> Iterator[bool]:
    with wrapping(path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EACCES):
                raise
            fd = -1  # finished meanwhile, or no file of ours
    try:
        with wrapping(path):
            is_free = fd >= 0 and stat.S_ISREG(os.fstat(fd).st_mode) and _is_locked_by_us(fd)
        yield is_free
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Where a folder is made that gets its name by ``publish_folder``, at last; gone when the block ends.

    What a process that died has left there goes by the rule of whoever gave it such a name.
    """
    make_private_folder(path.parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def publish_folder(staged: Path, target: Path) -> None:
    """The one step by which a folder counts: what is in it is durable before, its name afterwards."""
    make_private_folder(target.parent)
    sync_tree(staged)
    with wrapping(target):
        move_durably(staged, target)


def move_durably(path: Path, target: Path) -> None:
    """A file or folder under its new name, and no longer under the old one, after a crash, too."""
    path.rename(target)
    sync_folder(target.parent)
    if path.parent != target.parent:
        sync_folder(path.parent)


def keep_aside(folder: Path, name: str, data: bytes) -> Path:
    """Store what had to be cut off under ``aside/``; nothing is ever thrown away."""
    make_folder_inside(folder / "aside", folder)
    path = folder / "aside" / f"{name}.{secrets.token_hex(4)}"
    replace_file(path, [data])
    return path


def move_aside(path: Path, owner: Path, name: str = "") -> Path:
    """Move a file or folder to ``aside/`` of the folder ``owner``."""
    aside = owner / "aside"
    make_folder_inside(aside, owner)
    target = aside / f"{name or path.name.lstrip('.')}.{secrets.token_hex(4)}"
    with wrapping(path):
        move_durably(path, target)
    return target


def is_regular(path: Path) -> bool:
    """Is there a file, and no folder, link, pipe or nothing at all?"""
    with wrapping(path):
        try:
            return stat.S_ISREG(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False


def make_way(path: Path, owner: Path) -> None:
    """What stands in the place of a file and is none goes to ``aside/`` of the folder ``owner``.

    One look says both that something is there and what it is: a file that comes between two would be taken away from
    the process that has just made it, and with it the lock on it.
    """
    with wrapping(path), suppress(FileNotFoundError, NotADirectoryError):  # nothing is there, or no more
        if not stat.S_ISREG(path.lstat().st_mode):
            kept = move_aside(path, owner)
            logger.warning("%s was no file; what stood there is kept in %s", path, kept)


def refuse_network_file_system(path: Path, mounts: Path = _MOUNTS) -> None:
    """Locks and fsync do not hold on network file systems: say so before anything is written."""
    kind = file_system(path, mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StorageUnavailable("network", path=path, kind=kind)


def file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system below ``path``; empty where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    here = str(path.absolute().resolve())
    best, kind = "", ""
    for line in lines:
        _, point, type_, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if len(point) >= len(best) and (here + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, type_
    return kind


class BlobFolder:
    """``blobs/``: large contents by their SHA-256, each stored once."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        self._durable = durable

    def put(self, digest: str, data: bytes) -> None:
        path = self._folder / digest
        with wrapping(path):
            if path.exists():
                return
        make_folder_inside(self._folder, self._folder.parent)
        replace_file(path, [data], durable=self._durable)

    def get(self, digest: str) -> bytes:
        path = self._folder / digest
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedStore("blob_missing", path=path) from error
        except OSError as error:
            raise storage_error(error, path) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedStore("blob_changed", path=path)
        return data

    def drop(self, digest: str) -> None:
        path = self._folder / digest
        with wrapping(path):
            path.unlink(missing_ok=True)


def folder_size(folder: Path, *, without: str = "") -> int:
    """Bytes of a file, or of all files below a folder, ``without`` one folder in it.

    What vanishes meanwhile, or may not be looked at, counts nothing.

    A database counts with what its log adds to it: that log is empty again when nobody uses it.
    """
    try:
        with os.scandir(folder) as entries:
            return sum(_entry_size(entry, without) for entry in entries)
    except NotADirectoryError:
        return folder.stat().st_size if is_regular(folder) else 0
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise storage_error(error, folder) from error


def _entry_size(entry: os.DirEntry[str], without: str) -> int:
    with suppress(OSError, StorageError):
        if entry.is_dir(follow_symlinks=False):
            return 0 if entry.name == without else folder_size(Path(entry))
        if entry.is_file(follow_symlinks=False) and not entry.name.endswith("-shm"):
            return _log_size(Path(entry)) if entry.name.endswith("-wal") else entry.stat(follow_symlinks=False).st_size
    return 0


def _log_size(log: Path) -> int:
    """By how much a database grows when its log is written into it: each commit says how many pages it then has."""
    with log.open("rb") as file:
        size, page = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(32)[8:12], "big")
        frame = 24 + page
        for at in range((size - 32) // frame - 1 if page else -1, -1, -1):
            file.seek(32 + at * frame + 4)
            if pages := int.from_bytes(file.read(4), "big"):
                return max(0, pages * page - log.with_name(log.name.removesuffix("-wal")).stat().st_size)
    return 0


def is_tame(name: str) -> bool:
    """Can this name stay below the folder, on every system?"""
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_NAME
        and len(parts) <= _DEEPEST
        and name.isprintable()
        and "\\" not in name
        and all(part not in ("", ".", "..") for part in parts)
    )
