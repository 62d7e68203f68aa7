"""A history read as statements: its lines, each once, with what they are about and who uses that; notes of them.

The reading is done once and in time linear in the text: messages are cut into lines (over-long ones at a natural
place), every line into the *features* it is about (facts and words), and every feature is counted: in how many messages
it stands, in how many of the agent's own, where last. Notes are chosen lines under headings, each with its message
number and speaker; they are read back, so that a later fold merges an earlier one line by line. Lines keep their
wording. Knows nothing of worth or budgets.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from orihon.compression.notes.facts import PIECE, FactKind, names_in
from orihon.texts import LANGUAGES, text
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX

LONGEST = 600  # characters of a statement
_LEAST_CUT = 420  # of the parts of an over-long line
_LONGEST_JOINED = 120
#: A statement of fewer words is a bare name: it says nothing about it.
FEWEST_WORDS = 3
_LONGEST_BARE = 80  # characters

_LATIN_WORD = re.compile(r"[A-Za-z0-9_]{2,}")
_THREE_WORDS = re.compile(rf"(?:(?:[^A-Za-z0-9_]|\b[A-Za-z0-9_]\b)*+[A-Za-z0-9_]{{2,}}+){{{FEWEST_WORDS}}}", re.A)
_WORD = re.compile(r"[A-Za-z]{2,}|[0-9]+|[\u3400-\u9fff々]+|[\u30a0-\u30ff]{2,}|[\uac00-\ud7af]{2,}")
_PLAIN_WORD = re.compile(r"[a-z]{2,}")
_ASCII_WORD = re.compile(r"[a-z]{2,}|[0-9]+")
_HAN = re.compile(r"[\u3400-\u9fff々]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        the a an and or of to in on at for with is was were are be been it we they he she you my your his her our this
        that so just really have has had do did not as but if about from what when how me him them its there then also
        very can will would im am let us all any some one out up get got go no yes oh hey wow
        """,
    )
)
# Where an over-long line is best cut, the best first.
_SEPARATORS = (". ", "。", "}, ", "; ", ", ", " ")
_NOT_IN_NAMES = re.compile(r"[\s:]+")
_SPEAKERS = ("user", "assistant", "system", "developer")
# Of a call's JSON only that is resolved which parts its lines or hides its letters.
_ESCAPED = re.compile(r'\\(?:(n)|(")|u([0-9a-fA-F]{4})|.)')
_BLANK_ESCAPE = re.compile(r"\\[nrt]")


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where a line stands and who said it."""

    place: int  # the message's place in the history, from 0
    seq: int  # the number it is quoted by
    speaker: str  # a role, or the tool that answered
    role: str
    heading: str = ""  # where an earlier summary had put it


#: A line, its source, and whether it is nothing but names. A bare tuple: a long history has very many of them.
SourceLine = tuple[str, LineSource, bool]


def call_text(name: str, arguments: str) -> str:
    """A tool call as lines: line ends, quotes and letters of its JSON resolved, nothing else changed."""
    return f"{name} {_ESCAPED.sub(_unescape, arguments) if chr(92) in arguments else arguments}"


def lines_of(message: Message, place: int, seq: int) -> Iterator[SourceLine]:
    """The lines of a message and of its tool calls, blanks around them cut off."""
    speaker = _tool_of(message) if message.role == "tool" else message.role
    source = LineSource(place, seq, speaker, message.role)
    for said in [message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)]:
        for part, is_bare in _joined(said.split("\n")):
            yield part, source, is_bare


def _tool_of(message: Message) -> str:
    """The tool's name as notes can have it: one word, and nobody else's."""
    name = _NOT_IN_NAMES.sub("_", message.tool_name or message.name or "tool")
    return "tool" if name.lower() in _SPEAKERS else name


def shown_lines(text: str) -> Iterator[str]:
    """Every line of a text as it stands, and then the bare names that are read together."""
    raw = text.split("\n")
    yield from raw
    yield from (names for names, is_bare in _joined(raw) if is_bare)


class LineStatistics:
    """All lines of a history and the statistics of their features, which are numbered from 0."""

    def __init__(self) -> None:
        self.places = 0
        self.messages: Counter[int] = Counter()  # messages that have the feature
        self.agent_messages: Counter[int] = Counter()  # of them, the agent's own
        self.last: dict[int, int] = {}  # where it was seen last
        self.from_user: set[int] = set()
        self.from_agent_first: set[int] = set()
        self._lines: dict[str, SourceLine] = {}
        self._features: dict[str, tuple[int, ...]] = {}
        self._ids: defaultdict[str | tuple[FactKind, str], int] = defaultdict(itertools.count().__next__)
        self._pieces = _Pieces(self._ids)
        self._kinds: list[FactKind | None] = []
        self._names: list[str] = []

    def add(self, lines: Iterable[SourceLine], role: str) -> None:
        """The next message. A line that stood before counts as said now."""
        found: list[tuple[int, ...]] = []
        first_new = len(self._ids)
        for line in lines:
            text = line[0]
            features = self._features.get(text)
            if features is None:
                features = self._features[text] = self._find(text)
            else:
                self._lines.pop(text)  # so that the lines stay in the order of the text
            self._lines[text] = line
            found.append(features)
        seen = set().union(*found)
        if role == "assistant":
            self.from_agent_first.update(range(first_new, len(self._ids)))
            self.agent_messages.update(seen)
        elif role == "user":
            self.from_user |= seen
        self.messages.update(seen)
        self.last.update(dict.fromkeys(seen, self.places))
        self.places += 1

    def lines(self) -> list[SourceLine]:
        """Every distinct line at the last place where it stands, in the order of the places."""
        return list(self._lines.values())

    def features(self) -> list[tuple[int, ...]]:
        """What each of the lines is about."""
        return [self._features[text] for text in self._lines]

    def kinds(self) -> list[FactKind | None]:
        """The kind of each feature; a word has none."""
        if len(self._kinds) < len(self._ids):
            self._kinds = [None if isinstance(key, str) else key[0] for key in self._ids]
        return self._kinds

    def names(self) -> list[str]:
        """The text of each feature."""
        if len(self._names) < len(self._ids):
            self._names = [key if isinstance(key, str) else key[1] for key in self._ids]
        return self._names

    def features_of(self, text: str) -> tuple[int, ...]:
        """What a text is about, as far as it has been read of before: the features of another text or of a part."""
        found: list[int] = []
        for piece in PIECE.findall(_without_escapes(text)):
            known = dict.get(self._pieces, piece)
            found += (self._ids[key] for key in _keys(piece) if key in self._ids) if known is None else known
        return tuple(dict.fromkeys(found))

    def _find(self, text: str) -> tuple[int, ...]:
        pieces = map(self._pieces.__getitem__, PIECE.findall(_without_escapes(text)))
        return tuple(dict.fromkeys(itertools.chain.from_iterable(pieces)))


class _Pieces(dict[str, tuple[int, ...]]):
    """The features of each piece of text, found when it is first asked for."""

    def __init__(self, ids: defaultdict[str | tuple[FactKind, str], int]) -> None:
        super().__init__()
        self._ids = ids

    def __missing__(self, piece: str) -> tuple[int, ...]:
        found = self[piece] = tuple(dict.fromkeys(map(self._ids.__getitem__, _keys(piece))))
        return found


def _keys(piece: str) -> Iterable[str | tuple[FactKind, str]]:
    if _PLAIN_WORD.fullmatch(piece):
        return () if piece in _COMMON else (piece,)
    return itertools.chain(names_in(piece), _words(piece))


def _without_escapes(text: str) -> str:
    return _BLANK_ESCAPE.sub(" ", text) if "\\" in text else text


def _words(piece: str) -> Iterable[str]:
    if piece.isascii():
        return itertools.filterfalse(_COMMON.__contains__, _ASCII_WORD.findall(piece.lower()))
    return _words_of_any_script(piece)


def _words_of_any_script(piece: str) -> Iterator[str]:
    for word in _WORD.findall(piece):
        if not _HAN.match(word):
            lowered = word.lower()
            if lowered not in _COMMON:
                yield lowered
        elif len(word) <= 2:
            yield word
        else:  # Chinese has no blanks between words: neighbouring pairs stand for them
            yield from (word[at : at + 2] for at in range(len(word) - 1))


def _joined(raw_lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Stripped lines, and whether they are bare names; those (fields, members, imports) go together with neighbours."""
    names = ""
    for raw in raw_lines:
        line = raw.strip()
        if line and _is_bare(line) and len(names) + len(line) < _LONGEST_JOINED:
            names = f"{names} {line}" if names else line
            continue
        if names:
            yield names, True
            names = ""
        if len(line) > LONGEST:
            yield from ((part, False) for part in _cut(line))
        elif line:
            yield line, False
    if names:
        yield names, True


def _is_bare(text: str) -> bool:
    if len(text) > _LONGEST_BARE or _THREE_WORDS.match(text):
        return False
    return text.isascii() or len(_LATIN_WORD.findall(text)) + len(_CJK.findall(text)) // 2 < FEWEST_WORDS


def _cut(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        cuts = ((line.rfind(separator, start + _LEAST_CUT, end), len(separator)) for separator in _SEPARATORS)
        end = next((at + length for at, length in cuts if at >= 0), end)
        if part := line[start:end].strip():
            yield part
        start = end
    if part := line[start:].strip():
        yield part


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return "\n"
    return chr(int(match[3], 16)) if match[3] else match[2] or match[0]


HEADINGS = ("goal", "constraints", "decisions", "changes", "problems", "open", "notes")
_LOOK_UP = "look_up"
_NUMBERED = re.compile(r"(\d+) ([^\s:]+): (.*)", re.S)
_ROLES = ("user", "assistant", "system", "developer")
_PROMPTERS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the notes."""

    heading: str
    seq: int
    speaker: str
    text: str
    order: int  # its place in the source


def render(title: str, notes: Iterable[Note], hints: Sequence[tuple[int, str]] = ()) -> str:
    """Notes under a title; ``hints`` are message numbers and words to look up there."""
    by_heading: dict[str, list[Note]] = {}
    for note in notes:
        by_heading.setdefault(note.heading, []).append(note)
    lines = [title]
    for heading in HEADINGS:
        if heading in by_heading:
            lines.append(_title(heading))
            lines += _numbered(sorted(by_heading[heading], key=lambda note: note.order))
    if hints:
        lines += [_title(_LOOK_UP), "; ".join(f"{seq}: {words}" for seq, words in _by_seq(hints))]
    return "\n".join(lines)


def title_of(first: int, last: int) -> str:
    """The title of the notes on messages ``first`` to ``last``."""
    return text("notes.title", first=first, last=last)


def title_of_added(first: int, last: int) -> str:
    """The title of lines that are added to another text on these messages."""
    return text("notes.added", first=first, last=last)


def is_notes(role: str, content: str) -> bool:
    """Whether a message is a fold that can be merged; a tool that prints the like of one makes none."""
    return role in _PROMPTERS and content.startswith(SUMMARY_PREFIX)


def is_tools(speaker: str) -> bool:
    """Whether a line of notes comes from a tool."""
    return speaker not in _ROLES


def numbered(line: str) -> tuple[str, str]:
    """The speaker whom a line of notes names, if any, and what it says."""
    found = _NUMBERED.fullmatch(line.strip())
    return (found[2], found[3]) if found else ("", line)


def read_back(content: str, place: int, seq: int) -> Iterator[SourceLine]:
    """The lines of an earlier fold, under the numbers, speakers and headings they had."""
    heading, number, speaker = "", seq, "system"
    for raw in content.removeprefix(SUMMARY_PREFIX).split("\n"):
        line = raw.strip()
        if line in _headings():
            heading = _headings()[line]
        elif heading == _LOOK_UP or not line or _titles().fullmatch(line):
            continue
        else:
            if found := _NUMBERED.fullmatch(line):
                number, speaker, line = int(found[1]), found[2], found[3]
            role = "tool" if is_tools(speaker) else speaker
            yield line, LineSource(place, number, speaker, role, heading or "notes"), False


def _numbered(notes: list[Note]) -> Iterator[str]:
    source: tuple[int, str] | None = None
    for note in notes:
        same = source == (note.seq, note.speaker) and not _is_of_notes(note.text)
        source = note.seq, note.speaker
        yield note.text if same else f"{note.seq} {note.speaker}: {note.text}"


def _is_of_notes(said: str) -> bool:
    """Whether a line by itself would be read as another speaker's or as a heading: a page can say anything."""
    return said.startswith("#") or _NUMBERED.fullmatch(said) is not None


def _by_seq(hints: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    words: dict[int, list[str]] = {}
    for seq, word in sorted(hints):
        words.setdefault(seq, []).append(word)
    return ((seq, ", ".join(found)) for seq, found in words.items())


def _title(heading: str, lang: str | None = None) -> str:
    return f"## {text(f'notes.{heading}', lang=lang)}"


@cache
def _headings() -> dict[str, str]:
    return {_title(heading, lang): heading for heading in (*HEADINGS, _LOOK_UP) for lang in LANGUAGES}


@cache
def _titles() -> re.Pattern[str]:
    keys = ("notes.title", "notes.added")
    titles = (re.escape(text(key, lang=lang, first="\0", last="\0")) for key in keys for lang in LANGUAGES)
    return re.compile("|".join(title.replace(re.escape("\0"), r"\d+") for title in titles))
