"""Which formats there are, and which one a file is of.

A format is imported only when a file has to be looked at. Every importer looks at the same head of a file; the first in
this order that recognises it reads it, so that narrow formats stand before wide ones.

What a reader of foreign transcripts gives, and what it is given: the contract of ``orihon.importers``.

An ``Importer`` knows one format. It says whether a file is one of its kind by looking at the beginning, and reads
such a file from front to back as a stream of events: a thread is announced once, then come its items in order; items
of several threads of one file may come mixed. A thread that is announced again has become known better (a title, a
model). It never sees a store and holds no more than it needs to put one answer together.

What it cannot read it reports with ``Problem`` and goes on; it raises nothing for what is in a file. It does not make
histories legal, either: calls without results and results without calls are passed on as they are.

Every file is read under ``ReadingBounds``: what takes too long or too much memory is a ``Problem``, and the next file
is read. Whoever loops over what a file says (lines, rows of a database) calls ``check_bounds``.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from orihon.errors import InvalidInput
from orihon.settings.sections import ImportingSettings
from orihon.values.message.message import Message
from orihon.values.records import ModelCall
from orihon.values.task import TaskKey

#: Name of the format -> module in this room and its class, narrow formats first. ``openai-chat`` takes nearly any list
#: of messages, so it comes last.
FORMATS: dict[str, tuple[str, str]] = {
    "orihon": ("orihon_export", "OrihonExport"),
    "seed-tree": ("seed_tree", "SeedTree"),
    "claude-code": ("claude_code", "ClaudeCode"),
    "codex": ("codex", "Codex"),
    "gemini": ("gemini", "Gemini"),
    "copilot": ("copilot", "Copilot"),
    "cursor": ("cursor", "Cursor"),
    "kimi": ("kimi", "Kimi"),
    "pi": ("pi", "Pi"),
    "aider": ("aider", "Aider"),
    "swe-agent": ("swe_agent", "SweAgent"),
    "mini-swe-agent": ("mini_swe_agent", "MiniSweAgent"),
    "openhands": ("openhands", "OpenHands"),
    "tau-bench": ("tau_bench", "TauBench"),
    "openai-chat": ("openai_chat", "OpenAIChat"),
}


@cache
def importer(name: str) -> Importer:
    """The importer of a format by its name."""
    if name not in FORMATS:
        raise InvalidInput("import_format", name=name, known=", ".join(sorted(FORMATS)))
    module, kind = FORMATS[name]
    made: Importer = getattr(import_module(f"orihon.importers.{module}"), kind)()
    return made


def importers() -> Iterable[Importer]:
    """All of them, in the order in which a file is shown to them."""
    return map(importer, FORMATS)


def recognised(head: bytes, path: Path) -> Importer | None:
    """The importer of a file, by the beginning of it."""
    return next((one for one in importers() if one.recognises(head, path)), None)


def is_like_transcript(head: bytes, path: Path) -> bool:
    """Is a file that no importer knows likely to be a transcript, a damaged one or of a new kind? By its ending.

    Folders of agents are full of settings, notes and databases: those are whole, and only not ours.
    """
    from orihon.importers.lines import peek

    match path.suffix.lower():
        case ".jsonl" | ".traj":
            return True
        case ".json":
            seen = peek(head)
            return not (seen.found or seen.is_list)
        case ".db":
            return not head.startswith(b"SQLite format 3\0")
        case ".md":
            return b"\0" in head
    return False


def is_companion(path: Path) -> bool:
    """Is this a file that an agent keeps beside its transcripts, and that holds none?"""
    return any(one.ignores(path) for one in importers())


#: How much of a file is looked at to tell its format.
HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation of another agent; it becomes one task.

    ``id`` names it for ever: the same thread in a file that has grown has the same id. ``parent`` is the id of the
    thread that started it (a sub-agent's).
    """

    id: str
    title: str = ""
    created_at: str | None = None  # any ISO 8601 text
    cwd: str = ""  # where the agent worked
    repository: str = ""  # owner/repo, where known
    parent: str | None = None
    model: str = ""
    about: dict[str, Any] = field(default_factory=dict)  # whatever else is worth keeping: version, branch …
    key: TaskKey | None = None  # of a task that was one of ours in an earlier life


@dataclass(frozen=True, slots=True)
class SaidItem:
    """A message. Several with the same ``answer`` are pieces of one answer of the model and are put together."""

    message: Message  # of any dialect that ``Message.as_chat`` takes
    timestamp: str | None = None
    call: ModelCall | None = None  # of an answer: its model, what it used, what it cost
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class ToolItem:
    """What is known about a tool call beside its result in the conversation.

    Calls and results of the conversation are recorded as tool calls by themselves: an item is wanted only where a
    format knows more (a duration, an error), and says for which call. It comes before the next message that is no
    result.
    """

    tool_name: str
    arguments: Any = None
    result: Any = None
    error: str | None = None
    status: str | None = None  # "success" or "error"
    duration_ms: float | None = None
    timestamp: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionItem:
    """The other agent replaced what it was shown by a text: everything of this thread said before this item.

    ``kept`` is how many of the last messages before it stayed as they were; pieces of one answer count once. With
    ``covers`` only so many before those were replaced, and what is older stayed too. An empty text: they were taken
    back (the agent went back to an earlier step), and nothing stands for them.
    """

    text: str
    kept: int = 0
    timestamp: str | None = None
    covers: int | None = None


@dataclass(frozen=True, slots=True)
class PlanItem:
    """A plan or a list of things to do."""

    plan_type: str
    content: Any
    timestamp: str | None = None


TranscriptItem = SaidItem | ToolItem | CompactionItem | PlanItem


@dataclass(frozen=True, slots=True)
class TranscriptEvent:
    """An item and the thread that it belongs to; ``line`` is where it stands, for reports (1-based; 0: unknown)."""

    thread: str
    item: TranscriptItem
    line: int = 0


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """Nothing more comes of a thread. Worth telling where a file has very many."""

    thread: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, or is of a kind nobody knows; ``cause`` is a key under ``importing.problems``.

    ``fields`` fill the places of its text.
    """

    cause: str
    line: int = 0
    fields: dict[str, object] = field(default_factory=dict)


#: What reading gives: threads are announced before their first event.
TranscriptPart = Thread | TranscriptEvent | ThreadEnd | Problem


class Importer(ABC):
    """The reader of one format."""

    #: Its name on the command line and as the source of the tasks: ``claude-code``.
    name: ClassVar[str]

    @abstractmethod
    def recognises(self, head: bytes, path: Path) -> bool:
        """Is this the beginning of a file of this format? ``head`` is cut after ``HEAD_BYTES``."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[TranscriptPart]:
        """Everything in the file, in order."""

    def ignores(self, path: Path) -> bool:
        """Is this a file that the agent keeps beside its transcripts and that holds no conversation? By its name."""
        return False


class OutOfBounds(Exception):
    """A file asks for more than it is given; ``problem`` says of what."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.cause)
        self.problem = problem


@dataclass(slots=True)
class ReadingBounds:
    """What reading one file may take: seconds of its reader, not of what is written meanwhile, and bytes of memory."""

    seconds: float
    memory: int
    _until: float = 0.0
    _unseen: int = 0  # bytes read since somebody looked at the clock
    _before: int = field(default_factory=lambda: _memory_in_use())
    allowed: float = 0.0

    def __post_init__(self) -> None:
        self.allowed = self.seconds

    @classmethod
    def of(cls, importing: ImportingSettings, size: int) -> ReadingBounds:
        """Those of a file of this size: a large one is no hostile one."""
        return cls(importing.file_seconds + size / _BYTES_PER_SECOND, importing.memory_mb << 20)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The reader is at work."""
        began = time.monotonic()
        self._until = began + self.seconds
        token = _IN_FORCE.set(self)
        try:
            yield
        finally:
            _IN_FORCE.reset(token)
            self.seconds -= time.monotonic() - began

    def count(self, size: int) -> None:
        """So many bytes were read. Looking at the clock for every line would cost more than the line."""
        self._unseen += size
        if self._unseen >= _BETWEEN_LOOKS:
            self._unseen = 0
            self.look()

    def look(self) -> None:
        """Refuse to go on where a bound is reached."""
        self.check_time()
        if _memory_in_use() - self._before > self.memory:
            raise OutOfBounds(Problem("too_much", fields={"limit": self.memory >> 20}))

    def check_time(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfBounds(Problem("too_slow", fields={"seconds": round(self.allowed)}))

    def admit(self, size: int, values: int) -> None:
        """Refuse a document before it is decoded: a list of empty lists is thirty times as large in memory."""
        if size + values * _BYTES_OF_VALUE > self.memory:
            raise OutOfBounds(Problem("too_much", fields={"limit": self.memory >> 20}))


_BYTES_PER_SECOND = 1 << 20
_BETWEEN_LOOKS = 4 << 20
_BYTES_OF_VALUE = 100  # an empty object and its place in a list, or a short key and a number
_IN_FORCE: ContextVar[ReadingBounds | None] = ContextVar("reading_bounds", default=None)
_Part = TypeVar("_Part")


def check_bounds(size: int | None = None) -> None:
    """Called by whoever reads: ``OutOfBounds`` when the file has had its time or memory. ``size``: bytes just read."""
    bounds = _IN_FORCE.get()
    if bounds is not None:
        bounds.look() if size is None else bounds.count(size)


def goes_on() -> bool:
    """The same for SQLite, which asks between its steps; ``False``: nobody wants it to stop."""
    check_bounds()
    return False


def admit_document(raw: bytes) -> None:
    """Called before a large document is decoded."""
    bounds = _IN_FORCE.get()
    if bounds is not None:
        bounds.admit(len(raw), sum(map(raw.count, (b",", b"[", b"{"))))


def _memory_in_use() -> int:
    """Bytes of this process in memory; where the system does not tell, nothing is bounded by it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def bounded(reading: Iterator[_Part], bounds: ReadingBounds) -> Iterator[_Part | Problem]:
    """What is read, as long as it keeps within the bounds; then why it ends."""
    while True:
        try:
            with bounds.in_force():
                found = next(reading, None)
                bounds.check_time()
        except OutOfBounds as error:
            yield error.problem
            return
        if found is None:
            return
        yield found


def parts_of(reader: Importer, path: Path, bounds: ReadingBounds) -> Iterator[TranscriptPart]:
    """Everything in the file; a reader that breaks has found a problem."""
    reading = bounded(reader.read(path), bounds)
    while True:
        try:
            found = next(reading, None)
        except Exception as error:  # noqa: BLE001 - a format that fails on one file shall not stop the others
            yield Problem("failed", fields={"detail": f"{type(error).__name__}: {error}"})
            return
        if found is None:
            return
        yield found
