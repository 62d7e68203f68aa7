"""A task's folder as one file (``.tar.zst`` and the like), and back.

Promises that a packed file is written whole or not at all, that packing and unpacking are streams (memory does not
follow the size of the task), and that the same folder gives the same contents everywhere. Unpacking trusts nothing:
every member is looked at here, and only plain files and folders with tame names, each named once, get through; what
comes out has to be exactly the contents that were expected. Refuses links, devices, absolute names, ``..``, and
folders that hold anything but files and folders.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, cast

from orihon.errors import DamagedStore
from orihon.store.sqlite_copies import database_copies, is_database_part
from orihon.system.files import (
    is_tame,
    make_private_folder,
    sync_folder,
    sync_tree,
    unfinished_file,
    wrapping,
    write_new,
)
from orihon.texts import text

if TYPE_CHECKING:
    from hashlib import _Hash

#: The ending of a packed file by its format.
ENDINGS = {"zstd": ".tar.zst", "gzip": ".tar.gz", "bzip2": ".tar.bz2", "xz": ".tar.xz"}
_CHUNK = 1 << 20
#: Bytes of a member besides its content: two headers, the longest name in UTF-8, and padding.
_MOST_OF_HEADERS = 8 << 10
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


class Readable(Protocol):
    """What a packed file is read from."""

    def read(self, size: int = -1, /) -> bytes: ...


@contextmanager
def damage_of(origin: str) -> Iterator[None]:
    """What the unpackers say about a broken file becomes ours; errors of our own tree pass."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, OverflowError) as error:
        raise DamagedStore("archive", path=origin, detail=type(error).__name__) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "zstandard":
            raise
        raise DamagedStore("archive", path=origin, detail="ZstdError") from error


def refused_member(origin: str, name: str, problem: str) -> DamagedStore:
    """The error for a member that does not get through; its name is somebody else's text."""
    why = text(f"archive.{problem}")
    return DamagedStore("archive_member", path=origin, name=ascii(name)[:80], problem=problem, why=why)


@contextmanager
def compressing(target: Measured, form: str) -> Iterator[IO[bytes]]:
    file = cast("IO[bytes]", target)
    if form == "zstd":
        import zstandard

        with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False) as stream:
            yield cast("IO[bytes]", stream)
    elif form == "gzip":
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream_:
            yield cast("IO[bytes]", stream_)
    else:
        with bz2.BZ2File(file, "wb") if form == "bzip2" else lzma.LZMAFile(file, "wb") as other:
            yield cast("IO[bytes]", other)


@contextmanager
def decompressing(source: Readable, form: str) -> Iterator[IO[bytes]]:
    file = cast("IO[bytes]", source)
    if form == "zstd":
        import zstandard

        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, closefd=False) as stream:
            yield cast("IO[bytes]", stream)
    elif form == "gzip":
        with gzip.GzipFile("", "rb", fileobj=file) as stream_:
            yield cast("IO[bytes]", stream_)
    else:
        with bz2.BZ2File(file, "rb") if form == "bzip2" else lzma.LZMAFile(file, "rb") as other:
            yield cast("IO[bytes]", other)


class Bounded:
    """A stream that is read no further than an honest one would go.

    ``tarfile`` takes a header as large as the header says into memory, before anybody can look at the member.
    """

    def __init__(self, stream: IO[bytes], most: int, origin: str) -> None:
        self._stream = stream
        self._left = most
        self._origin = origin

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise refused_member(self._origin, "-", "size")
        return data


class Measured:
    """A file that is written to: how much, and the digest of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.size


class Hashed:
    """A file that is read: the digest of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


class ChunkReader(io.RawIOBase):
    """Chunks of an object as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any writable buffer, in truth
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the packed folder, or a folder (no digest)."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PackedContents:
    """What is in a packed file, whatever it was packed with."""

    members: int
    bytes: int
    sha256: str  # over every name, size and digest

    @classmethod
    def of(cls, members: Iterable[Member]) -> PackedContents:
        known = sorted(members, key=lambda member: member.name)
        lines = (f"{member.sha256 or '-'} {member.size} {member.name}\n" for member in known)
        digest = hashlib.sha256("".join(lines).encode())
        return cls(len(known), sum(member.size for member in known), digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed file: its size and digest, and what is in it."""

    bytes: int
    sha256: str
    contents: PackedContents


# ---- packing -------------------------------------------------------------------------------------------------------


def pack(folder: Path, path: Path, form: str) -> Packed:
    """Write the folder to the new file ``path``; what was written has been read back and compared."""
    members: list[Member] = []
    with unfinished_file(path) as (temporary, fd):
        with (
            database_copies(folder, path.parent) as copies,
            wrapping(path),
            os.fdopen(fd, "wb", closefd=False) as raw,
        ):
            measured = Measured(raw)
            _write(folder, copies, form, measured, members)
            raw.flush()
            os.fsync(fd)
        written = PackedContents.of(members)
        with wrapping(temporary), temporary.open("rb") as file:
            if examine(file, form, expected=written, origin=str(path)) != written:
                raise DamagedStore("archive", path=path, detail=text("archive.not_read_back"))
        with wrapping(path):
            temporary.rename(path)
            sync_folder(path.parent)
    return Packed(measured.size, measured.digest.hexdigest(), written)


def contents_of(folder: Path, workplace: Path) -> PackedContents:
    """What packing this folder would put in, by reading it; ``workplace`` is a folder for temporary files."""
    with database_copies(folder, workplace) as copies:
        return PackedContents.of(_described(path, name) for path, name in _walk(folder, copies))


def _write(folder: Path, copies: Mapping[str, Path], form: str, measured: Measured, members: list[Member]) -> None:
    with (
        compressing(measured, form) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, name in _walk(folder, copies):
            info = tarfile.TarInfo(name)
            if path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o700
                tar.addfile(info)
                members.append(Member(name, 0, ""))
                continue
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), 0o600
                hashed = Hashed(file)
                tar.addfile(info, cast("IO[bytes]", hashed))
            members.append(Member(name, info.size, hashed.digest.hexdigest()))


def _described(path: Path, name: str) -> Member:
    if path.is_dir():
        return Member(name, 0, "")
    with wrapping(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Member(name, file.tell(), digest.hexdigest())


def _walk(folder: Path, copies: Mapping[str, Path], below: str = "") -> Iterator[tuple[Path, str]]:
    """Every file and folder in order, with its name; databases by their copies."""
    with wrapping(folder):
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries:
        name = below + entry.name
        if is_database_part(name, copies):
            continue
        if not is_tame(name):
            raise DamagedStore("not_packable", path=ascii(name))
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield Path(entry.path), name
            yield from _walk(Path(entry.path), copies, f"{name}/")
        elif stat.S_ISREG(mode):
            yield copies.get(name, Path(entry.path)), name
        else:
            raise DamagedStore("not_packable", path=ascii(name))


# ---- reading -------------------------------------------------------------------------------------------------------


def examine(file: Readable, form: str, *, expected: PackedContents, origin: str) -> PackedContents:
    """What is in a packed file; reading stops with an error when it is more than expected."""
    return PackedContents.of(_read(file, form, expected, origin, lambda _info, pieces: [None for _ in pieces]))


def unpack(file: Readable, form: str, folder: Path, *, expected: PackedContents, origin: str) -> None:
    """Make the new folder ``folder`` out of a packed file that holds exactly what is expected; synced, or nothing."""
    make_private_folder(folder.parent)
    with wrapping(folder):
        folder.mkdir(mode=0o700)
    try:
        members = list(_read(file, form, expected, origin, lambda info, pieces: _put(folder, info, pieces)))
        if PackedContents.of(members) != expected:
            raise DamagedStore("archive", path=origin, detail=text("archive.other_contents"))
        sync_tree(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _put(folder: Path, info: tarfile.TarInfo, pieces: Iterator[bytes]) -> None:
    path = folder.joinpath(*info.name.split("/"))
    if not info.isdir():
        write_new(path, pieces)
        return
    with wrapping(path):
        path.mkdir(mode=0o700)


def _read(
    file: Readable,
    form: str,
    expected: PackedContents,
    origin: str,
    take: Callable[[tarfile.TarInfo, Iterator[bytes]], object],
) -> Iterator[Member]:
    """Every member, checked before ``take`` gets it and its bytes."""
    names: set[str] = set()
    total = 0
    most = expected.bytes + (expected.members + 1) * _MOST_OF_HEADERS + tarfile.RECORDSIZE
    with (
        damage_of(origin),
        decompressing(file, form) as stream,
        tarfile.open(fileobj=cast("IO[bytes]", Bounded(stream, most, origin)), mode="r|") as tar,
    ):
        for info in tar:
            total += info.size
            _check(info, names, origin)
            if len(names) > expected.members or total > expected.bytes:
                raise refused_member(origin, info.name, "size")
            digest = hashlib.sha256()
            source = None if info.isdir() else tar.extractfile(info)
            take(info, iter(()) if source is None else _pieces(source, info, digest, origin))
            yield Member(info.name, info.size, "" if source is None else digest.hexdigest())
            tar.members.clear()  # type: ignore[attr-defined]  # tarfile would remember every member for ever


def _pieces(source: IO[bytes], info: tarfile.TarInfo, digest: _Hash, origin: str) -> Iterator[bytes]:
    left = info.size
    while left:
        with damage_of(origin):  # here, because whoever writes the piece has errors of the same kind
            chunk = source.read(min(_CHUNK, left))
        if not chunk:
            raise refused_member(origin, info.name, "short")
        digest.update(chunk)
        left -= len(chunk)
        yield chunk


def _check(info: tarfile.TarInfo, names: set[str], origin: str) -> None:
    """Refuse everything but a plain file or folder with a tame name that has not been there before."""
    if info.type not in (*_PLAIN, tarfile.DIRTYPE) or info.issparse() or info.linkname:
        problem = "kind"
    elif not is_tame(info.name):
        problem = "name"
    elif info.name in names:
        problem = "twice"
    elif info.size < 0 or (info.isdir() and info.size):
        problem = "size"
    else:
        names.add(info.name)
        return
    raise refused_member(origin, info.name, problem)
