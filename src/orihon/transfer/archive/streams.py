"""The streams that packing is made of: compressors, measuring, and what broken input is called."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol, cast

from orihon.errors import DamagedStore
from orihon.texts import text


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
