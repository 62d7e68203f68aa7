"""A history read as statements: its lines, each once, with what they are about and who uses that.

Owns the reading, which is done once and in time linear in the text: messages are cut into lines (over-long ones at a
natural place), every line into the *features* it is about (facts and words), and every feature is counted: in how many
messages it stands, in how many of the agent's own, where last. Lines keep their wording. Knows nothing of worth,
budgets or headings.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orihon.compression.facts import PIECE, FactKind, names_in
from orihon.message import Message

LONGEST = 600  # characters of a statement
_LONGEST_JOINED = 160
#: A statement of fewer words is a bare name: it says nothing about it.
FEWEST_WORDS = 3

_LATIN_WORD = re.compile(r"[A-Za-z0-9_]{2,}")
_WORD = re.compile(r"[A-Za-z]{2,}|[0-9]+|[\u3400-\u9fff々]+|[\u30a0-\u30ff]{2,}|[\uac00-\ud7af]{2,}")
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
# Of a call's JSON only that is resolved which parts its lines or hides its letters.
_ESCAPED = re.compile(r'\\(?:(n)|(")|u([0-9a-fA-F]{4})|.)')
_BLANK_ESCAPE = re.compile(r"\\[nrt]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a history and where it stands."""

    place: int  # the message's place in the history, from 0
    seq: int  # the number it is quoted by
    speaker: str  # a role, or the tool that answered
    role: str
    text: str
    heading: str = ""  # where an earlier summary had put it
    is_bare: bool = False  # nothing but names


@dataclass(frozen=True, slots=True)
class Statement:
    """A line and the features it is about."""

    line: Line
    features: tuple[int, ...]
    order: int  # its place among all lines


def call_text(name: str, arguments: str) -> str:
    """A tool call as lines: line ends, quotes and letters of its JSON resolved, nothing else changed."""
    return f"{name} {_ESCAPED.sub(_unescape, arguments) if chr(92) in arguments else arguments}"


def lines_of(message: Message, place: int, seq: int) -> Iterator[Line]:
    """The lines of a message and of its tool calls, blanks around them cut off."""
    speaker = message.tool_name or message.name or "tool" if message.role == "tool" else message.role
    texts = [message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)]
    for text in texts:
        for part, is_bare in _joined(text.split("\n")):
            yield Line(place, seq, speaker, message.role, part, is_bare=is_bare)


class Reading:
    """All statements of a history and the statistics of their features."""

    def __init__(self) -> None:
        self.places = 0
        self.kinds: list[FactKind | None] = []  # of each feature; None is a word
        self.names: list[str] = []
        self.messages = array("L")  # messages that have the feature
        self.agent_messages = array("L")  # of them, the agent's own
        self.last = array("L")  # where it was seen last
        self.from_user = bytearray()
        self.from_agent_first = bytearray()
        self._lines: dict[str, Line] = {}
        self._features: dict[str, tuple[int, ...]] = {}
        self._ids: dict[tuple[FactKind | None, str], int] = {}
        self._pieces: dict[str, tuple[int, ...]] = {}

    def add(self, lines: Iterable[Line], role: str) -> None:
        """The next message. A line that stood before counts as said now."""
        seen: set[int] = set()
        for line in lines:
            features = self._features.get(line.text)
            if features is None:
                features = self._features[line.text] = self._find(line.text)
            self._lines.pop(line.text, None)  # so that the lines stay in the order of the text
            self._lines[line.text] = line
            seen.update(features)
        is_agent, is_user = role == "assistant", role == "user"
        for feature in seen:
            if not self.messages[feature]:
                self.from_agent_first[feature] = is_agent
            self.messages[feature] += 1
            self.last[feature] = self.places
            if is_agent:
                self.agent_messages[feature] += 1
            elif is_user:
                self.from_user[feature] = 1
        self.places += 1

    def statements(self) -> Iterator[Statement]:
        """Every distinct line at the last place where it stands."""
        for order, (text, line) in enumerate(self._lines.items()):
            yield Statement(line, self._features[text], order)

    def features_of(self, text: str, among: Sequence[int]) -> tuple[int, ...]:
        """Those features of ``among`` that a part of the line is about."""
        known = set(among)
        return tuple(feature for feature in self._find(text, learn=False) if feature in known)

    def _find(self, text: str, *, learn: bool = True) -> tuple[int, ...]:
        if "\\" in text:
            text = _BLANK_ESCAPE.sub(" ", text)
        found: list[int] = []
        for piece in PIECE.findall(text):
            features = self._pieces.get(piece)
            if features is None:
                features = self._read_piece(piece) if learn else ()
            found += features
        return tuple(dict.fromkeys(found))

    def _read_piece(self, piece: str) -> tuple[int, ...]:
        features = [self._number(kind, name) for kind, name in names_in(piece)]
        features += [self._number(None, word) for word in _words(piece)]
        result = self._pieces[piece] = tuple(dict.fromkeys(features))
        return result

    def _number(self, kind: FactKind | None, name: str) -> int:
        key = (kind, name)
        feature = self._ids.get(key)
        if feature is None:
            feature = self._ids[key] = len(self.names)
            self.kinds.append(kind)
            self.names.append(name)
            for counts in (self.messages, self.agent_messages, self.last):
                counts.append(0)
            self.from_user.append(0)
            self.from_agent_first.append(0)
        return feature


def _words(piece: str) -> Iterator[str]:
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
    if len(text) > 80:
        return False
    words = len(_LATIN_WORD.findall(text))
    return words < FEWEST_WORDS and words + len(_CJK.findall(text)) // 2 < FEWEST_WORDS


def _cut(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        cuts = ((line.rfind(separator, start + LONGEST // 2, end), len(separator)) for separator in _SEPARATORS)
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
