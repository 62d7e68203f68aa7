"""``FormerView``: the file of a view that is about to be replaced by what the log says.

It is derived, so it decides nothing. But a log that has lost records, or has one that was changed, may leave the last
copy of a line there: then the file is kept aside. The line of an append that never reached the log is no such line.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from orihon.system.files import is_regular, move_aside

#: All lines that a log can make.
AllLines = Callable[[], Iterable[bytes]]


class FormerView:
    """The lines of a view's file that are not where the new view has them, by their hashes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._moved: Counter[bytes] = Counter()
        self.first_difference = 0  # the number of the line; 0 when there is none

    def along(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of the new view as they are, compared on the way."""
        if not is_regular(self._path):
            yield from lines
            return
        number = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(lines, start=1):
                if not self.first_difference and (former := file.readline()) != line + b"\n":
                    self.first_difference = number
                    self._note(former)
                yield line
            surplus = [former for _, former in zip(range(2), file, strict=False)]
            if surplus and not self.first_difference:
                self.first_difference = number + 1
                if len(surplus) == 1:
                    return
            for former in chain(surplus, file):
                self._note(former)

    def _note(self, line: bytes) -> None:
        if line.endswith(b"\n"):  # another one was never finished
            self._moved[_hash(line[:-1])] += 1

    def strange_lines(self, all_lines: AllLines) -> int:
        """How many lines of the file the log cannot make."""
        if self._moved:
            for line in all_lines():
                self._moved.pop(_hash(line), None)
                if not self._moved:
                    break
        return self._moved.total()

    def put_aside(self, folder: Path, all_lines: AllLines) -> Path | None:
        """Where the file went, if it has such lines."""
        return move_aside(self._path, folder) if self.strange_lines(all_lines) else None


def _hash(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
