"""What a reader of foreign transcripts gives, and what it is given: the contract of ``orihon.importers``.

An ``Importer`` knows one format. It says whether a file is one of its kind by looking at the beginning, and reads
such a file from front to back as a stream of events: a thread is announced once, then come its items in order; items
of several threads of one file may come mixed. A thread that is announced again has become known better (a title, a
model). It never sees a store and holds no more than it needs to put one answer together.

What it cannot read it reports with ``Problem`` and goes on; it raises nothing for what is in a file. It does not make
histories legal, either: calls without results and results without calls are passed on as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from orihon.values.message.message import Message
from orihon.values.records import ModelCall
from orihon.values.task import TaskKey

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
