"""The conversations of a file as plain chat messages, without a base that they would be kept in.

The same readers as an import, and the same mending: what comes out is a history that providers take. What the other
agent had summed up stands as it was said; what it took back is left out. An export of our own is put together in a
folder that is gone afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from orihon.errors import InvalidInput
from orihon.importers.files import head_of
from orihon.importers.ownership import ImportTarget, Restorer
from orihon.importers.registry import (
    Importer,
    Problem,
    ReadingBounds,
    Thread,
    TranscriptEvent,
    importer,
    parts_of,
    recognised,
)
from orihon.importers.report import FileProblems, ImportedTask
from orihon.importers.shapes import title
from orihon.importers.tool_pairs import FoldStep, LogStep, SaidStep, ToolPairing
from orihon.settings import load_settings
from orihon.settings.sections import ImportingSettings
from orihon.tasks.base import OpenBase
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import REWIND

#: So many conversations are named to whoever has to choose one.
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation; ``parent`` is the id of the one that started it, if that is in the same file."""

    id: str
    title: str
    parent: str | None
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class ReadSessions:
    """What a file holds: the conversations in which somebody says something, and what could not be read."""

    format: str | None  # None: of none that is known
    sessions: Sequence[Session]
    problems: FileProblems

    def chosen(self, name: str | None = None) -> Session:
        """The conversation by its number, its id or the beginning of that; without a name the only one.

        Those that another one of the file has started do not count when there is no name.
        """
        if name is None:
            wanted = [session for session in self.sessions if session.parent is None]
        else:
            numbered = {str(number): session for number, session in enumerate(self.sessions, start=1)}
            exact = [session for session in self.sessions if session.id == name]
            begun = [session for session in self.sessions if name and session.id.startswith(name)]
            wanted = exact or begun or [session for number, session in numbered.items() if number == name]
        if len(wanted) == 1:
            return wanted[0]
        if not self.sessions:
            raise InvalidInput("no_sessions")
        reason = "several_sessions" if wanted else "no_such_session"
        raise InvalidInput(reason, name=name, count=len(self.sessions), sessions=self._named())

    def _named(self) -> str:
        named = [
            text("importing.session", number=number, title=one.title, count=len(one.messages))
            for number, one in enumerate(self.sessions[:_MOST_NAMED], start=1)
        ]
        return ", ".join([*named, *(["…"] if len(self.sessions) > _MOST_NAMED else [])])


def read_sessions(path: Path, format: str | None = None) -> ReadSessions:  # noqa: A002 - the word of the command line
    """Read a file whole. The format is found by the content, as an import does it, unless one is named."""
    problems = FileProblems(path)
    if isinstance(head := head_of(path), Problem):
        problems.add(head)
        return ReadSessions(format, [], problems)
    reader = recognised(head, path) if format is None else importer(format)
    if reader is None:
        problems.add(Problem("unrecognised"))
        return ReadSessions(None, [], problems)
    if isinstance(reader, Restorer):
        found = list(_restored(reader, path, problems))
    else:
        found = [thread.session() for thread in _threads(reader, path, problems).values()]
    known = {session.id for session in found}
    spoken = [
        session if session.parent in known else replace(session, parent=None) for session in found if session.messages
    ]
    return ReadSessions(reader.name, spoken, problems)


@dataclass(slots=True)
class _ReadThread:
    """A thread while it is read; messages are counted as a log would count them."""

    about: Thread
    problems: FileProblems
    _pairing: ToolPairing = field(default_factory=ToolPairing)
    _said: list[Message] = field(default_factory=list)
    _gone: set[int] = field(default_factory=set)  # places of what was taken back

    def take(self, event: TranscriptEvent) -> None:
        self._steps(self._pairing.take(event.item))

    def session(self) -> Session:
        self._steps(self._pairing.end(close=True))
        left = list(_without(self._said, self._gone))
        return Session(self.about.id, self.about.title or _first_words(left), self.about.parent, left)

    def _steps(self, steps: Sequence[LogStep | Problem]) -> None:
        for step in steps:
            if isinstance(step, SaidStep):
                self._said.append(step.message)
            elif isinstance(step, FoldStep) and step.is_taken_back:
                end = len(self._said) - step.kept
                self._gone.update(range(end - (step.covers or 0), end))
            elif isinstance(step, Problem):
                self.problems.add(step)


def _threads(reader: Importer, path: Path, problems: FileProblems) -> dict[str, _ReadThread]:
    threads: dict[str, _ReadThread] = {}
    for part in parts_of(reader, path, ReadingBounds.of(ImportingSettings(), path.stat().st_size)):
        if isinstance(part, Thread):
            if part.id in threads:
                threads[part.id].about = part
            else:
                threads[part.id] = _ReadThread(part, problems)
        elif isinstance(part, TranscriptEvent):
            if part.thread in threads:
                threads[part.thread].take(part)
        elif isinstance(part, Problem):
            problems.add(part)
    return threads


def _first_words(messages: Sequence[Message]) -> str:
    return next((first for one in messages if one.role == "user" and (first := title(one.text))), "")


def _without(messages: Sequence[Message], gone: set[int]) -> Iterator[Message]:
    """What is left; calls and their results go together or not at all."""
    place = 0
    while place < len(messages):
        end = place + 1
        while end < len(messages) and messages[end].answers in messages[place].calls:
            end += 1
        if not gone.issuperset(range(place, end)):
            yield from messages[place:end]
        place = end


def _restored(reader: Restorer, path: Path, problems: FileProblems) -> Iterator[Session]:
    with (
        TemporaryDirectory(prefix="orihon-") as empty,
        OpenBase(empty, load_settings({}, environ={}), create=True) as base,
    ):
        for found in reader.restore(path, ImportTarget(base, base.needed_catalogue(), base.redactor)):
            if isinstance(found, ImportedTask):
                yield Session(found.uuid, found.title, found.parent, _kept_messages(base, found.uuid))
            else:
                problems.add(found)


def _kept_messages(base: OpenBase, uuid: str) -> list[Message]:
    place = base.folders.find(uuid)
    assert place is not None
    with closing(base.read_store(place)) as store:
        rewound = [fold for fold in store.view().folds if fold.reason == REWIND]
        gone = {seq - 1 for fold in rewound for seq in range(fold.start_seq, fold.end_seq + 1)}
        return list(_without([stored.message for stored in store.messages()], gone))
