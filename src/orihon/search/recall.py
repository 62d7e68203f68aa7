"""``recall``: what a task has said, word for word, also what is folded away: by number, by fold, or by words.

The log is never shortened, so there is no time after which something cannot be recalled. An answer is bounded: of a
message that is longer than the room, a piece is given, and ``next`` says where the rest begins; put together, the
pieces are the original. Earlier recalls are not found again by words: they hold every word that was ever asked for.
Only reads, without a lease, also while an agent works on the task.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from orihon.errors import InvalidInput, NoSuchMessage
from orihon.search.documents import find_document
from orihon.search.history import fold_of
from orihon.search.query import Query, parse_query
from orihon.search.task_search import ranked_messages
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, StoredMessage, TaskStore, read_anew, reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.values.records import Fold

#: Characters of one answer, and messages of one.
CHARACTERS, MOST_CHARACTERS = 20_000, 200_000
MOST_MESSAGES = 200
#: Of those that have the words, so many are given.
_MOST_BY_WORDS = 10
_MOST_WORDS = 16
_SECONDS = 30.0
#: Tools whose results repeat what somebody asked for, under whatever prefix a client gives their names.
_ECHO = re.compile(r"(?:.*[_./:-])?(?:recall|search_history)")


@dataclass(frozen=True, slots=True)
class RecalledCall:
    """A call of a tool that a message makes; ``arguments`` as the model wrote them, or a piece of that."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class RecalledMessage(AsJson):
    """A message, or a piece of it: who said it, when, and where it stands in the view now."""

    seq: int
    role: str
    name: str  # of the speaker or the tool, where it has one
    time: str
    tokens: int
    fold: int | None  # the fold that stands for it in the view, if one does
    text: str
    calls: tuple[RecalledCall, ...]
    answers: str | None  # the id of the call whose result it is
    attachments: tuple[str, ...]  # parts that are no text, by their type
    start: int  # where the piece begins, and how long all is: text and arguments one after another, in characters
    length: int


@dataclass(frozen=True, slots=True)
class Rest(AsJson):
    """Where an answer goes on: ask for this run from this character of its first message on."""

    seq: str
    offset: int


@dataclass(frozen=True, slots=True)
class Recalled(AsJson):
    """What was recalled. ``matches`` is how many messages there are of what was asked for."""

    task: str
    last_seq: int  # how long the log is
    matches: int
    messages: tuple[RecalledMessage, ...]
    next: Rest | None


@read_anew
def recall(
    base: OpenBase,
    task: str,
    *,
    seq: str | int | None = None,
    words: str | None = None,
    fold: int | None = None,
    offset: int = 0,
    characters: int = CHARACTERS,
) -> Recalled:
    """Messages of a task by exactly one of ``seq`` (``12``, ``"12-20"``, ``"12-"``), ``words`` and ``fold``.

    At most so many ``characters`` and ``MOST_MESSAGES`` messages; ``offset`` leaves out the beginning of the first one.
    """
    if sum(given is not None for given in (seq, words, fold)) != 1:
        raise InvalidInput("recall_one_of")
    room = max(1, min(characters, MOST_CHARACTERS))
    uuid = base.resolve(task)
    with reading_task(base, uuid) as (store, row):
        view = ViewReading(store, row, base.settings)
        if words is not None:
            return _by_words(base, store, view, words, room)
        if fold is not None:
            found = view.fold(fold)
            return _run(store, view, found.start_seq, found.end_seq, offset, room)
        choice = Choice.parse(str(seq))
        if choice.first > view.last_seq:
            raise NoSuchMessage("seq", seq=choice.first, last=view.last_seq)
        return _run(store, view, choice.first, min(choice.last or view.last_seq, view.last_seq), offset, room)


def _run(store: TaskStore, view: ViewReading, first: int, last: int, offset: int, room: int) -> Recalled:
    told: list[RecalledMessage] = []
    following: Rest | None = None
    for stored in store.messages(first, last):
        if len(told) == MOST_MESSAGES or room <= 0:
            following = Rest(_span(stored.seq, last), 0)
            break
        piece, used = _piece(stored, view.folds, max(0, offset), room)
        told.append(piece)
        room -= max(1, used)  # an empty message takes room, too
        if piece.start + used < piece.length:
            following = Rest(_span(stored.seq, last), piece.start + used)
            break
        offset = 0
    return Recalled(store.name, view.last_seq, last - first + 1, tuple(told), following)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _by_words(base: OpenBase, store: TaskStore, view: ViewReading, words: str, room: int) -> Recalled:
    # A minus before a word is no wish of a model to leave it out.
    asked = " ".join(word.lstrip("-") for word in words.split())
    query = Query(parse_query(asked, any_term=True).terms[:_MOST_WORDS], any_term=True)
    if not query.terms:
        raise InvalidInput("recall_no_words")
    until = time.monotonic() + _SECONDS
    ranked = ranked_messages(store, base.settings, query, check=lambda: _check(until))
    seqs = [seq for seq in ranked.seqs if seq <= view.last_seq]
    told: list[RecalledMessage] = []
    for seq in islice(_not_echoed(store, seqs), _MOST_BY_WORDS):
        if room <= 0:
            break
        piece, used = _piece(store.message(seq), view.folds, 0, room)
        told.append(piece)
        room -= max(1, used)
    return Recalled(store.name, view.last_seq, len(seqs), tuple(told), None)


def _check(until: float) -> None:
    if time.monotonic() > until:
        raise InvalidInput("recall_slow", seconds=_SECONDS)


def _not_echoed(store: TaskStore, seqs: list[int]) -> Iterator[int]:
    for seq in seqs:
        document = find_document(store, "message", seq)
        if document is not None and not any(_ECHO.fullmatch(tool) for tool in document.tools):
            yield seq


def _piece(stored: StoredMessage, folds: Sequence[Fold], offset: int, room: int) -> tuple[RecalledMessage, int]:
    """What fits of a message from ``offset`` on, and how many characters that is."""
    message = stored.message
    texts = [message.text, *(call.arguments for call in message.tool_calls)]
    length = sum(map(len, texts))
    start = min(offset, length)
    skip, left = start, room
    pieces = []
    for one in texts:
        piece = one[skip : skip + left]
        pieces.append(piece)
        skip, left = max(0, skip - len(one)), left - len(piece)
    calls = (RecalledCall(call.id, call.name, said) for call, said in zip(message.tool_calls, pieces[1:], strict=True))
    attachments = (str(part.data.get("type", part.kind)) for part in message.parts or () if not part.text)
    recalled = RecalledMessage(
        stored.seq,
        message.role,
        message.name or message.tool_name or "",
        stored.timestamp,
        stored.tokens,
        fold_of(stored.seq, folds),
        pieces[0],
        tuple(calls),
        message.answers,
        tuple(attachments),
        start,
        length,
    )
    return recalled, room - left
