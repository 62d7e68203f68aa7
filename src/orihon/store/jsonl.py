"""One append-only JSON Lines file, read by number without an index.

Every line starts with its number (``{"seq":17,…``) and numbers have no gaps, so a line is found by bisection over
the bytes of the file: nothing beside the file has to be kept, and nothing can get out of step with it.

A section that was not finished when the machine died may have left any of its pages, or none. It is told from damage by
what it can look like: of several lines each but the last has a blank before its line feed (``CONTINUED``), and the last
is written when the others are on the disk. So whatever stands after the last line that is whole and ends a section was
never acknowledged; readers stop before it, and before empty lines at the end. ``settled.json`` beside the file says how
long it was when all of it was known to be on the disk: nothing before that is taken for unfinished, whatever has become
of it. Any other line that does not carry the number it should, or is not what its check says, is damage and raises.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from orihon.errors import DamagedStore, StorageUnavailable
from orihon.store.contract import SETTLED
from orihon.store.documents import document_in
from orihon.store.record_check import is_whole
from orihon.system.files import is_regular, wrapping

_CHUNK = 1 << 16
#: How a line ends that is not the last one of its section.
CONTINUED = b" \n"
#: What it says of streams that did not hold what they had held when somebody went on: the size found, the size known.
GONE = "gone"
#: Checksums of the lines that end at the known sizes: another file of the same size is not the same.
ENDS = "ends"


class JsonlFile:
    """Reads one stream; writing is the business of ``FilesRecords``."""

    def __init__(self, path: Path, number_field: str) -> None:
        self.path = path
        self._number = re.compile(rb'\{"%s":([0-9]{1,18})[,}]' % number_field.encode())

    def read(self, first: int, last: int | None = None) -> Iterator[bytes]:
        """The lines ``first`` to ``last`` (or to the end), without their line feeds."""
        if last is not None and last < first:
            return
        with wrapping(self.path):
            file = self._opened()
            if file is None:
                return
            with file:
                end = self._whole_size(file)
                position = self._find(file, first, end)
                file.seek(position)
                number = first
                while position < end and (last is None or number <= last):
                    line = file.readline()
                    if self._number_of(line) != number:
                        raise DamagedStore("line", path=self.path, number=number, offset=position)
                    record = _record_in(line)
                    if not is_whole(record):
                        raise DamagedStore("check", path=self.path, stream=self.path.stem, number=number)
                    yield record
                    position += len(line)
                    number += 1

    def last(self) -> int:
        """The number of the last whole line; 0 for an empty or missing file."""
        with wrapping(self.path):
            file = self._opened()
            if file is None:
                return 0
            with file:
                end = self._whole_size(file)
                if end == 0:
                    return 0
                return self._number_at(file, self._line_start_before(file, end - 1))

    def size(self) -> int:
        """How many bytes of the file count."""
        with wrapping(self.path):
            file = self._opened()
            if file is None:
                return 0
            with file:
                return self._whole_size(file)

    def end_check(self, size: int) -> int:
        """A checksum of the line that ends there."""
        with wrapping(self.path):
            file = self._opened() if size else None
            if file is None:
                return 0
            with file:
                start = self._line_start_before(file, size - 1)
                return zlib.crc32(os.pread(file.fileno(), size - start, start))

    def torn_tail(self) -> bytes:
        """What stands after the last line that counts."""
        with wrapping(self.path):
            file = self._opened()
            if file is None:
                return b""
            with file:
                file.seek(self._whole_size(file))
                return file.read()

    def _opened(self) -> BinaryIO | None:
        """The file; ``None`` when nothing has been written yet."""
        with suppress(FileNotFoundError):
            return self.path.open("rb")
        # The task may have moved, with all that it holds: to take that for an empty stream would be wrong. It may even
        # be back by now, so the folder itself is asked, wherever it is.
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StorageUnavailable("gone", path=self.path.parent) from error
        try:
            return os.fdopen(os.open(self.path.name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb")
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)

    def _find(self, file: BinaryIO, number: int, end: int) -> int:
        """Where the line with this number starts (``end`` when it is beyond the last one)."""
        if end == 0 or number <= 1:
            return 0
        low, high = 0, end  # the line at low has a number <= the wanted one; lines from high on have a higher one
        while high - low > _CHUNK:
            middle = self._line_start_after(file, (low + high) // 2, high)
            if middle >= high:
                high = (low + high) // 2
            elif self._number_at(file, middle) <= number:
                low = middle
            else:
                high = middle
        file.seek(low)
        while low < end:
            line = file.readline()
            if self._number_of(line) >= number:
                break
            low += len(line)
        return low

    def _number_at(self, file: BinaryIO, position: int) -> int:
        number = self._number_of(os.pread(file.fileno(), 64, position))
        if number < 0:
            raise DamagedStore("line", path=self.path, number="?", offset=position)
        return number

    def _number_of(self, line: bytes) -> int:
        match = self._number.match(line)
        return int(match[1]) if match else -1

    @staticmethod
    def _line_start_after(file: BinaryIO, position: int, end: int) -> int:
        while position < end:
            chunk = os.pread(file.fileno(), _CHUNK, position)
            found = chunk.find(b"\n")
            if found >= 0:
                return position + found + 1
            position += len(chunk) or end
        return end

    @staticmethod
    def _line_start_before(file: BinaryIO, position: int) -> int:
        """The start of the line that holds the byte before ``position``."""
        while position > 0:
            step = min(_CHUNK, position)
            found = os.pread(file.fileno(), step, position - step).rfind(b"\n")
            if found >= 0:
                return position - step + found + 1
            position -= step
        return 0

    def _whole_size(self, file: BinaryIO) -> int:
        """The size up to and including the line feed of the last line that counts."""
        while True:
            size = os.fstat(file.fileno()).st_size
            try:
                return self._whole_size_in(file, size)
            except DamagedStore:
                if os.fstat(file.fileno()).st_size == size:
                    raise
                # Its writer has gone on: what is known to be on the disk by now was not there when we looked.

    def _whole_size_in(self, file: BinaryIO, size: int) -> int:
        end = start = self._lines_size(file, size)
        lines = 0
        while start > 0:
            first = self._line_start_before(file, start - 1)
            line = os.pread(file.fileno(), start - first, first)
            if self._number_of(line) > 0 and is_whole(_record_in(line)) and not line.endswith(CONTINUED):
                break
            start = first
            lines += 1
        if start == end == size:
            return end
        settled = settled_sizes(self.path.parent).get(self.path.stem)
        if settled is not None and end < min(size, settled):
            raise DamagedStore("line", path=self.path, number="?", offset=end)
        if start == end:
            return end
        if settled is None:
            # Nothing is known: no more than one line that cannot be read is taken for unfinished.
            return start if lines == 1 and not line.endswith(CONTINUED) else end
        return start if start >= settled else end

    def _lines_size(self, file: BinaryIO, size: int) -> int:
        """The size up to and including the line feed of the last line that says anything."""
        end = self._line_start_before(file, size)
        while end > 0 and os.pread(file.fileno(), 2, max(end - 2, 0)) in (b"\n\n", b"\n"):
            end -= 1  # an editor has left an empty line behind
        return end


def settled_sizes(folder: Path) -> dict[str, Any]:
    """How long the files of the streams in a folder were when all of them was known to be on the disk, and ``GONE``."""
    path = folder / f"{SETTLED}.json"
    try:
        return document_in(path.read_bytes() if is_regular(path) else None) or {}
    except OSError:
        return {}


def lost_end(file: JsonlFile, settled: Mapping[str, Any]) -> list[int] | None:
    """The size that the file of a stream has and the size it had, when it does not hold what it held then."""
    stream = file.path.stem
    with wrapping(file.path):
        size, known = file.path.stat().st_size if file.path.exists() else 0, settled.get(stream, 0)
    if size >= known and settled.get(ENDS, {}).get(stream) in (None, file.end_check(known)):
        return None
    return [size, known]


def _record_in(line: bytes) -> bytes:
    return line[: -len(CONTINUED)] if line.endswith(CONTINUED) else line[:-1]
