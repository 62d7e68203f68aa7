"""What is already there of a thread: how far its task goes, and whether it is still the same past.

A task's streams say how many steps of each kind were taken. ``import.json``, kept with the task, adds what they cannot
say: where earlier imports ended (``Break``), and a hash over the first messages as they were read, before anything in
them was masked.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from orihon.catalogue import TaskRow
from orihon.guard import Redactor
from orihon.importers.tool_pairs import SaidStep
from orihon.store.reader import TaskReader
from orihon.store.record_codec import matches_digest
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus

#: The file with what an import has to remember.
NAME = "import.json"
#: Who asked for a fold that another agent has made.
TRIGGER = "import"
#: Why a summary of another agent stands in no fold.
NOT_FOLDED = "import: not folded"


@dataclass(frozen=True, slots=True)
class Break:
    """An import ended after so many items of the thread; ``closed``: calls that were open then got no result."""

    items: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored of a thread."""

    row: TaskRow | None = None
    messages: int = 0
    tools: int = 0
    plans: int = 0
    folds: int = 0
    breaks: tuple[Break, ...] = ()
    position: int = 0  # messages that ``chain`` is about
    chain: str = ""
    is_away: bool = False  # archived or cleaned up: nothing can be added

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.messages, self.tools, self.plans, self.folds

    def document(self) -> bytes:
        """``import.json``."""
        breaks = [[one.items, one.closed] for one in self.breaks]
        return jsonio.encode_pretty({"breaks": breaks, "messages": self.position, "hash": self.chain})


def known_of(base: OpenBase, uuid: str) -> Known:
    """What is stored under this UUID, by a look that changes nothing."""
    row = base.row(uuid)
    if row is None:
        return Known()
    folder = base.folders.find(uuid)
    if folder is None:
        return Known(row, is_away=row.status is not TaskStatus.COMPLETED or row.total_messages > 0)
    with closing(base.read_store(folder)) as store:
        return counted(store, row)


def counted(store: TaskReader, row: TaskRow) -> Known:
    """What a store has."""
    folded = sum(record.get("trigger") == TRIGGER for record in store.read("compressions"))
    unfolded = sum(record.get("reason") == NOT_FOLDED for record in store.read("summaries"))
    breaks, position, chain = _remembered(store.records.kept_file(NAME))
    return Known(
        row,
        store.count("messages"),
        store.count("tools"),
        store.count("planning"),
        folded + unfolded,
        breaks,
        position,
        chain,
        is_away=row.status is not TaskStatus.COMPLETED,
    )


def _remembered(raw: bytes | None) -> tuple[tuple[Break, ...], int, str]:
    """What ``import.json`` says; one that somebody has damaged says nothing, which is found out by the messages."""
    try:
        found: Any = jsonio.decode(raw or b"{}")
        breaks = tuple(Break(int(items), bool(closed)) for items, closed in found.get("breaks", ()))
        return breaks, int(found.get("messages", 0)), str(found.get("hash", ""))
    except (ValueError, TypeError, AttributeError):
        return (), 0, ""


class Past:
    """Compares what is read with what is stored, message by message."""

    def __init__(self, base: OpenBase, uuid: str, known: Known, redactor: Redactor) -> None:
        """``redactor`` masks as the writer does: the log has only masked messages."""
        self.has_changed = False
        self._base = base
        self._uuid = uuid
        self._known = known
        self._redactor = redactor
        self._hash = sha256()  # of all hashes the quickest here: processors have instructions for it
        self._last: SaidStep | None = None

    @property
    def chain(self) -> str:
        """The hash over all messages that were seen."""
        return self._hash.hexdigest()

    def see(self, step: SaidStep, number: int) -> bytes:
        """The next message; gives what it says as JSON."""
        said = jsonio.encode(step.message.body())
        self._hash.update(said)
        known = self._known
        if number > known.messages and number != known.position:
            return said
        self._last = step
        if number == known.position:
            self.has_changed = self.has_changed or self.chain != known.chain
        elif number == known.messages:  # an import that was cut off has left no hash
            self.has_changed = self.has_changed or not self._is_stored(step, number)
        return said

    def settle(self, number: int) -> None:
        """All ``number`` messages that the file has were seen: an older copy of it is no other past."""
        if 0 < number < self._known.messages and self._last is not None and number != self._known.position:
            self.has_changed = self.has_changed or not self._is_stored(self._last, number)

    def _is_stored(self, step: SaidStep, number: int) -> bool:
        folder = self._base.folders.find(self._uuid)
        if folder is None:
            return False
        message = step.message.map_strings(self._redactor.mask) if self._redactor.enabled else step.message
        with closing(self._base.read_store(folder)) as store:
            record = next(store.read("messages", number, number), None)
        return record is not None and matches_digest(message.body(), record["digest"])
