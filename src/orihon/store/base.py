"""The contract between Orihon and a place that keeps records: what a back end implements, and no more.

A task has five streams of records, each append-only and numbered 1, 2, 3 …; a back end sees a record as opaque bytes
(one JSON object whose first field is its number). It promises:

- ``append`` is whole or nothing, and durable when it returns if ``durability`` is ``full``;
- inside ``writing`` nobody else writes, and a writer whose epoch has been passed is refused;
- readers never block the writer and never see half a record;
- a torn last record (the machine died in mid-write) is cut off by ``claim``, kept aside and reported; any other
  damage raises ``DamagedStore``, on every way of reading.

Masking, encryption, numbering, tool pairs, the view: all of that is above this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from orihon.folders import make_private_folder, replace_file, wrapping

Stream = Literal["messages", "summaries", "tools", "planning", "compressions"]
STREAMS: tuple[Stream, ...] = ("messages", "summaries", "tools", "planning", "compressions")

#: A record in pieces that follow each other: a large one need not be copied to be put together.
Pieces = Sequence[bytes | memoryview]

#: The first field of a record carries its number under this name.
NUMBER_FIELD: dict[Stream, str] = {
    "messages": "seq",
    "summaries": "id",
    "tools": "seq",
    "planning": "id",
    "compressions": "id",
}


@dataclass(frozen=True, slots=True)
class TornTail:
    """The unfinished last record of a stream, cut off and kept in ``kept_in``."""

    stream: Stream
    size: int
    kept_in: Path


class RecordStore(ABC):
    """Where the records of one task are kept."""

    #: May several processes append at the same time?
    many_writers: ClassVar[bool]
    #: Does ``append`` of messages also keep the rendered lines of the view (``current.jsonl``)?
    keeps_view_lines: ClassVar[bool]
    #: The task's folder.
    folder: Path

    @abstractmethod
    def claim(self, epoch: int | None = None) -> tuple[int, list[TornTail]]:
        """Become a writer. ``epoch`` is the lease's fencing token; without one, the next that is free.

        Raises ``StaleWriter`` when a higher epoch has been here, ``TaskBusy`` when a live writer of the same standing
        is at work and the back end allows only one.
        """

    @abstractmethod
    def writing(self) -> AbstractContextManager[bool]:
        """The section in which this writer, and nobody else, may append.

        Gives whether somebody else may have written since this writer's last section.
        """

    @abstractmethod
    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        """Add records, numbered from ``first``, inside ``writing``: all of them or none.

        Where ``keeps_view_lines``, messages come with their lines of the view.
        """

    @abstractmethod
    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        """Records by number, in the order of the spans (first, last); without spans, all of them."""

    @abstractmethod
    def last(self, stream: Stream) -> int:
        """The number of the last record; 0 when there is none."""

    @abstractmethod
    def sync_view(self, lines: Iterable[bytes], *, accounted: int | None = None) -> AbstractContextManager[None]:
        """The kept view lines (if any are kept) become exactly these when the block ends well; inside ``writing``.

        ``accounted`` (after a claim) is how many lines the log can account for; more raise ``DamagedStore``.
        """

    @abstractmethod
    def view_file(self, lines: Iterable[bytes]) -> Path | None:
        """A file with the view, one provider-ready message per line: these lines.

        ``None`` when the kept file says something else and only a claim may put it right.
        """

    @abstractmethod
    def save(self, name: str, document: bytes) -> None:
        """Keep a small derived document, replacing the old one; losing it costs a rebuild, never history."""

    @abstractmethod
    def load(self, name: str) -> bytes | None:
        """The derived document, if there is one."""

    def keep_file(self, name: str, content: bytes) -> None:
        """Keep a file that belongs to the task (``metadata.json``, ``final_summary.txt``, ``outputs/…``), durably."""
        path = self.folder / name
        make_private_folder(path.parent)
        replace_file(path, [content])

    def kept_file(self, name: str) -> bytes | None:
        """The file, if there is one."""
        path = self.folder / name
        with wrapping(path):
            return path.read_bytes() if path.is_file() and not path.is_symlink() else None

    @abstractmethod
    def put_blob(self, digest: str, data: bytes) -> None:
        """Keep a large content under its SHA-256; durable before any record that mentions it."""

    @abstractmethod
    def get_blob(self, digest: str) -> bytes:
        """The content back; ``DamagedStore`` when it is missing or not what its name says."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def moved_to(self, folder: Path) -> None:
        """The task's folder is somewhere else now; to be called on a closed store."""

    @abstractmethod
    def close(self) -> None:
        """Let go of handles and of the writer's place. Appending afterwards claims again."""
