"""The contract between Orihon and a place that keeps tasks: what a back end implements, and no more.

``Records`` are the history, ``Blobs`` its large contents, ``Files`` what lies beside it; ``ViewFile`` is only for a
back end that keeps the view line by line.

A task has six streams of records, each append-only and numbered 1, 2, 3 …; a back end sees a record as opaque bytes
(one JSON object whose first field is its number). It promises:

- what is appended inside one ``writing`` is written whole or not at all, and when the section ends well it is durable
  if ``durability`` is ``full``;
- between the beginning of a section and its end nobody else has written, or the section ends in ``LostRace``: then
  nothing of it was written, and it is run again; a writer whose epoch has been passed is refused;
- readers never block the writer and never see half a record;
- a torn last record (the machine died in mid-write) is cut off by ``claim``, kept aside and reported; any other
  damage raises ``DamagedStore``, on every way of reading.

Masking, encryption, numbering, tool pairs, the view: all of that is above this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from orihon.errors import InvalidId, StorageError
from orihon.guard import KEY_COPY, KEY_FILE

Stream = Literal["messages", "summaries", "tools", "planning", "compressions", "checkpoints"]
STREAMS: tuple[Stream, ...] = ("messages", "summaries", "tools", "planning", "compressions", "checkpoints")

#: Records that follow each other: stream, first and last number.
StreamRange = tuple[Stream, int, int]
#: The end of a run that has none yet.
OPEN_END = (1 << 62) - 1

#: Opens a record that may be sealed.
OpenRecord = Callable[[bytes], bytes]
#: A record in pieces that follow each other: a large one need not be copied to be put together.
Pieces = Sequence[bytes | memoryview]

#: The first field of a record carries its number under this name.
NUMBER_FIELD: dict[Stream, str] = {
    "messages": "seq",
    "summaries": "id",
    "tools": "seq",
    "planning": "id",
    "compressions": "id",
    "checkpoints": "id",
}

#: The file beside the records of a sealed task that says so.
SEALED = "sealed.json"
#: The request that is being sent; locked by who sends it.
REQUEST = "request.json"
#: The documents that stores derive for themselves; see ``Files.save``.
#: … of which this one is a back end's own: how long each file was when all of it was on the disk.
SETTLED = "settled"
DERIVED = frozenset({"index", "counts", "heads", SETTLED})
#: Names in a task's folder that are not the task's own files: records, what is derived, a writer's place, keys.
OWN_NAMES = frozenset(
    {
        *(f"{stream}.jsonl" for stream in STREAMS),
        *(f"{name}.json" for name in DERIVED),
        *("current.jsonl", "writer.json", "writer.lock", REQUEST, KEY_FILE, KEY_COPY, SEALED, "keys"),
        *("context.db", "context.db-wal", "context.db-shm", "blobs", "aside"),
    }
)


@dataclass(frozen=True, slots=True)
class TornTail:
    """The unfinished last record of a stream, cut off and kept in ``kept_in``."""

    stream: Stream
    size: int
    kept_in: Path


class LostRace(Exception):
    """Another writer was quicker: nothing of this section was written. Inside this room only; see ``TaskStore.change``.

    ``because`` says what else went wrong; it is set for a ``sure`` section, which loses only with its connection.
    """

    def __init__(self, because: StorageError | None = None) -> None:
        super().__init__("lost a race")
        self.because = because


class Records(ABC):
    """The six streams of one task, and who may write to them."""

    @property
    @abstractmethod
    def many_writers(self) -> bool:
        """May several processes append at the same time?"""

    @abstractmethod
    def claim(self, epoch: int | None = None, *, opened: OpenRecord = bytes) -> tuple[int, list[TornTail]]:
        """Become a writer. ``epoch`` is the lease's fencing token; without one, the next that is free.

        ``opened`` opens a record, for who has to look up in them which epoch was reached.
        Raises ``StaleWriter`` when a higher epoch has been here, ``TaskBusy`` when a live writer of the same standing
        is at work and the back end allows only one.
        """

    @abstractmethod
    def writing(self, *, sure: bool = False) -> AbstractContextManager[bool]:
        """The section in which this writer, and nobody else, may append.

        Gives whether somebody else may have written since this writer's last section. Where locks are dear it may
        find out only at its end, with ``LostRace``; a ``sure`` section keeps others away from its beginning on.
        """

    @abstractmethod
    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        """Add records, numbered from ``first``, inside ``writing``: all of them or none.

        Messages come with their lines of the view, for who keeps them (``ViewFile``).
        """

    @abstractmethod
    def rewrite(self, stream: Stream, records: Mapping[int, bytes]) -> None:
        """Put other records in the place of those with these numbers, durably: all of them or none.

        The one way to take something out of a history (a redaction); for a writer, outside of ``writing``. Whatever the
        back end has derived from the records, and can, goes with them.
        """

    @abstractmethod
    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        """Records by number, in the order of the spans (first, last); without spans, all of them."""

    def read_runs(self, runs: Sequence[StreamRange], *, as_of: int) -> Iterator[bytes] | None:
        """The records of a view in order. The last run is of messages and ends where the log does.

        ``None`` when ``as_of`` is not the last compression any more, or the log ends before the last run begins.
        """
        compressions, end = self.lasts("compressions", "messages")  # in this order: see ``lasts``
        if compressions != as_of or end < runs[-1][1] - 1:
            return None
        *closed, (stream, first, _) = runs
        return chain.from_iterable(
            self.read(one, (start, last)) for one, start, last in (*closed, (stream, first, end))
        )

    @abstractmethod
    def last(self, stream: Stream) -> int:
        """The number of the last record; 0 when there is none."""

    def lasts(self, *streams: Stream) -> tuple[int, ...]:
        """The same for several streams, looked at in this order: somebody may be writing meanwhile."""
        return tuple(map(self.last, streams))

    @abstractmethod
    def close(self) -> None:
        """Let go of handles and of the writer's place. Appending afterwards claims again."""


class Blobs(ABC):
    """Large contents by their SHA-256, each kept once."""

    @abstractmethod
    def put_blob(self, digest: str, data: bytes) -> None:
        """Keep a large content under its SHA-256; durable before any record that mentions it."""

    @abstractmethod
    def get_blob(self, digest: str) -> bytes:
        """The content back; ``DamagedStore`` when it is missing or not what its name says."""

    @abstractmethod
    def drop_blob(self, digest: str) -> None:
        """Remove a large content that no record mentions any more."""

    @abstractmethod
    def blob_digests(self) -> list[str]:
        """The names of all large contents that are kept."""


class Files(ABC):
    """What belongs to a task and is no record: its own files, and documents that can be derived again."""

    @abstractmethod
    def keep_file(self, name: str, content: bytes) -> None:
        """Keep a file that belongs to the task (``metadata.json``, ``final_summary.txt``, ``outputs/…``), durably.

        Of a task without records ``metadata.json`` may last only from its first record on: until then the catalogue
        has all that it says.
        """

    @abstractmethod
    def kept_file(self, name: str) -> bytes | None:
        """The file, if there is one."""

    @abstractmethod
    def drop_file(self, name: str) -> None:
        """Remove a kept file, if it is there."""

    @abstractmethod
    def kept_files(self) -> list[str]:
        """The names of the files that ``kept_file`` gives: all that is neither records nor derived nor left over."""

    @abstractmethod
    def save(self, name: str, document: bytes) -> None:
        """Keep a small derived document, replacing the old one; losing it costs a rebuild, never history."""

    @abstractmethod
    def load(self, name: str) -> bytes | None:
        """The derived document, if there is one."""

    @abstractmethod
    def write_out(self, name: str, lines: Iterable[bytes]) -> Path:
        """A file with these lines in the task's folder, for programs that want a path. It is not kept."""


class ViewFile(ABC):
    """``current.jsonl``, kept line by line beside the log. ``Records.append`` adds to it; what folds, replaces it."""

    @abstractmethod
    def sync_view(
        self, lines: Iterable[bytes], *, all_lines: Callable[[], Iterable[bytes]] | None = None
    ) -> AbstractContextManager[None]:
        """The kept lines become exactly these when the block ends well; inside ``writing``.

        ``all_lines`` (after a claim) are those that the log can make. A file with others is kept aside.
        """

    @abstractmethod
    def view_file(self, lines: Iterable[bytes]) -> Path | None:
        """A file with the view, one provider-ready message per line: these lines.

        ``None`` when the kept file says something else and only a claim may put it right.
        """


class RecordStore(Records, Blobs, Files):
    """A back end: where all of one task is kept."""

    #: The task's folder.
    folder: Path

    @property
    def kind(self) -> str:
        """Which back end it is."""
        return type(self).__name__.removesuffix("Records").lower()

    @property
    def kept_view(self) -> ViewFile | None:
        """The file of the view, where one is kept; elsewhere it is written out for who asks."""
        return None

    @property
    def is_sealed(self) -> bool:
        """Is what lies on the disk encrypted? Then no part of it may be shared, indexed or written out plainly."""
        return False

    @property
    def bare(self) -> RecordStore:
        """The back end itself, without what wraps it."""
        return self

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def moved_to(self, folder: Path) -> None:
        """The task's folder is somewhere else now; to be called on a closed store."""


def is_file_name(name: str) -> bool:
    """Can a kept file be called that? No name leads elsewhere, or looks like another one."""
    return name.isprintable() and "\\" not in name and not any(part in ("", ".", "..") for part in name.split("/"))


def check_file_name(name: str) -> str:
    """The name of a kept file, as it is; one that it cannot have raises."""
    if not is_file_name(name):
        raise InvalidId("unsafe", what="file", value=ascii(name)[:80])
    return name
