"""What the search asks of an index, and the values that go in and out; two databases answer.

An index is derived: it keeps tokens and where they come from, no text, and losing it costs a rebuild. What is written
in one ``write`` is there whole or not at all, together with the marks that say how far each task has been read. Filters
are tokens, too, so that they cost no look at the rows of the texts.

How both databases keep the marks of tasks: one row of the same columns.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

from orihon.search.documents import KINDS, Document, DocumentKind
from orihon.search.query import LONGEST, Query, tokens, wholes

#: Of more matches than this only the newest are ranked.
MOST_CANDIDATES = 1000
#: More documents with a word than this are not counted: the word is frequent, that is all the ranking needs to know.
MOST_COUNTED = 20_000
#: Bytes of different tokens that one document may have, and of names in one piece; a database keeps no more for a row.
_MOST_BYTES, _MOST_BYTES_OF_WHOLES = 700_000, 100_000
_BYTES_BESIDE = 8  # of a token, for its first place


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document as its tokens."""

    uuid: str
    kind: DocumentKind
    number: int
    time: str
    role: str
    tools: tuple[str, ...]
    words: Sequence[str]
    wholes: Sequence[str]

    @classmethod
    def of(cls, uuid: str, document: Document) -> IndexedDocument:
        words, whole_words = text_tokens(document.text)
        return cls(
            uuid, document.kind, document.number, document.time, document.role, document.tools, words, whole_words
        )


def text_tokens(text: str) -> tuple[list[str], list[str]]:
    """The tokens that are kept of a text, and its names in one piece."""
    words, whole_words = tokens(text), wholes(text)
    if len(text) * 4 + len(words) * _BYTES_BESIDE <= _MOST_BYTES:
        return words, whole_words
    return _bounded(words, _MOST_BYTES), _bounded(whole_words, _MOST_BYTES_OF_WHOLES)


def _bounded(words: Iterable[str], room: int) -> list[str]:
    seen, kept = set[str](), list[str]()
    for word in words:
        if word not in seen:
            seen.add(word)
            room -= len(word.encode()) + _BYTES_BESIDE
            if room < 0:
                break
        kept.append(word)
    return kept


@dataclass(frozen=True, slots=True)
class TaskMark:
    """How far a task has been read, and the state of its row when that was so."""

    uuid: str
    state: str = ""  # of the row: its status and the time of its last change
    is_settled: bool = False  # nothing can come without a change of the row
    reached: Mapping[DocumentKind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    problem: str = ""  # why no more could be read


@dataclass(frozen=True, slots=True)
class Changes:
    """What one ``write`` brings: whole tasks dropped first, then documents and marks."""

    dropped: Sequence[str] = ()
    documents: Sequence[IndexedDocument] = ()
    marks: Sequence[TaskMark] = ()


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents are looked at; an empty one leaves nothing out."""

    tasks: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[DocumentKind, ...] = ()
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that has what is asked for; ``score`` by its words alone."""

    uuid: str
    kind: DocumentKind
    number: int
    time: str
    role: str
    score: float
    is_certain: bool = True  # False: its text has to be looked at, phrases are not told that far into it


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a place has looked through the catalogue."""

    since: str = ""  # every change of a row before this time is known
    compared: str = ""  # when all rows were last compared, not only those that changed


class SearchIndex(ABC):
    """One index, open."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Which one it is, for people."""

    @abstractmethod
    def turn(self, seconds: float) -> AbstractContextManager[bool]:
        """The right to write, which one process has at a time; ``False`` when another has it for so long."""

    @abstractmethod
    def write(self, changes: Changes) -> None:
        """All of it or nothing."""

    @abstractmethod
    def marks(self, uuids: Sequence[str] | None = None) -> dict[str, TaskMark]:
        """The marks of tasks that have one; of all, where none are named."""

    @abstractmethod
    def problems(self) -> dict[str, str]:
        """The tasks that could not be read to their end, and why."""

    @abstractmethod
    def progress(self, place: str) -> IndexProgress:
        """How far this place has come."""

    @abstractmethod
    def note_progress(self, place: str, progress: IndexProgress) -> None:
        """Say so."""

    @abstractmethod
    def compare_again(self) -> None:
        """Forget how far everybody has come: the next run compares all rows."""

    @abstractmethod
    def find(self, query: Query, filters: Filters, limit: int = MOST_CANDIDATES) -> list[Candidate]:
        """The newest matches, and how well their words fit."""

    @abstractmethod
    def count(self) -> int:
        """How many documents there are."""

    @abstractmethod
    def clear(self) -> None:
        """An index without anything in it."""

    @abstractmethod
    def purge(self) -> None:
        """Nothing is left on the disk of documents that were dropped."""

    @abstractmethod
    def check(self) -> str | None:
        """What is wrong with it, if anything is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tag(kind: str, value: str | int) -> str:
    """A filter as a token that no text has: it begins with a character that words do not have."""
    return f"_{kind}{value}"


def named(value: str) -> str:
    """A name as part of a token, whatever it is made of."""
    written = value.encode("utf-8", "surrogatepass")
    return written.hex() if len(written) <= LONGEST else hashlib.sha256(written).hexdigest()


def tags(task: int, document: IndexedDocument) -> list[str]:
    """The filters that a document passes."""
    role = [tag("r", named(document.role))] if document.role else []
    return [tag("t", task), tag("k", document.kind), *role, *(tag("c", named(tool)) for tool in document.tools)]


def wanted_tags(filters: Filters, numbers: Sequence[int]) -> list[list[str]]:
    """The filters of a query: of each list one tag has to be there."""
    wanted = [
        [tag("t", number) for number in numbers],
        [tag("k", kind) for kind in filters.kinds],
        [tag("r", named(role)) for role in filters.roles],
        [tag("c", named(tool)) for tool in filters.tools],
    ]
    return [some for some in wanted if some]


def row_of(mark: TaskMark) -> dict[str, Any]:
    """A mark as the columns of its row."""
    problem = mark.problem.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    known = {"uuid": mark.uuid, "state": mark.state, "is_settled": mark.is_settled, "problem": problem}
    return {**known, **{str(kind): number for kind, number in mark.reached.items()}}


def mark_from(row: Sequence[Any]) -> TaskMark:
    """A mark out of its row."""
    uuid, state, is_settled, *reached, problem = row
    return TaskMark(uuid, state, bool(is_settled), dict(zip(KINDS, map(int, reached), strict=True)), problem)
