"""A history read as statements: its lines, each once, with what they are about and who uses that.

The reading is done once and in time linear in the text: messages are cut into lines (over-long ones at a natural
place), every line into the *features* it is about (facts and words), and every feature is counted: in how many messages
it stands, in how many of the agent's own, where last. Lines keep their wording. Knows nothing of worth or budgets.

A user's message may bring the words of others, such as comments on an issue. Each line of those says whose it is
(``told_by``), so that whatever is cut, copied, exported or imported of it, nobody takes it for the user's own.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from orihon.compression.notes.facts import PIECE, FactKind, names_in
from orihon.system.patterns import lazy_re
from orihon.texts import LANGUAGES, text

LONGEST = 600  # characters of a statement
_LEAST_CUT = 420  # of the parts of an over-long line
_LONGEST_JOINED = 120
#: A statement of fewer words is a bare name: it says nothing about it.
FEWEST_WORDS = 3
_LONGEST_BARE = 80  # characters

_LATIN_WORD = lazy_re(r"[A-Za-z0-9_]{2,}")
_THREE_WORDS = lazy_re(rf"(?:(?:[^A-Za-z0-9_]|\b[A-Za-z0-9_]\b)*+[A-Za-z0-9_]{{2,}}+){{{FEWEST_WORDS}}}", re.A)
_WORD = lazy_re(r"[A-Za-z]{2,}|[0-9]+|[\u3400-\u9fff々]+|[\u30a0-\u30ff]{2,}|[\uac00-\ud7af]{2,}")
_PLAIN_WORD = lazy_re(r"[a-z]{2,}")
_ASCII_WORD = lazy_re(r"[a-z]{2,}|[0-9]+")
_HAN = lazy_re(r"[\u3400-\u9fff々]")
_CJK = lazy_re(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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
_NOT_IN_NAMES = lazy_re(r"[\s:]+")
_SPEAKERS = ("user", "assistant", "system", "developer")
# Of a call's JSON only that is resolved which parts its lines or hides its letters.
_ESCAPED = lazy_re(r'\\(?:(n)|(")|u([0-9a-fA-F]{4})|.)')
_BLANK_ESCAPE = lazy_re(r"\\[nrt]")


#: A line of somebody who may order nothing, and the line that announces a comment of anybody.
_OTHERS = lazy_re(r"> @([^\s:()]+) \([^()\n]*\):(?: (.*))?")
_ANNOUNCED = lazy_re(r"--- @[^\s:()]+ \([^()\n]*\)")
_NOT_IN_LOGINS = lazy_re(r"[^\w.\[\]-]", re.ASCII)
_LIKE_ANNOUNCED = lazy_re(r"\s*[-\u2010-\u2015\u2212\uff0d]{2,}\s*@")
_LIKE_TOLD = lazy_re(r"\s*>\s*@")
_QUOTED = lazy_re(r" {0,3}>+ ?")
_LONGEST_TOLD = 400  # characters of a line: what is cut off behind it has its speaker, too


def login_of(name: str) -> str:
    """A name at a service, in letters that nothing else is made of."""
    return _NOT_IN_LOGINS.sub("_", name)[:64] or "unknown"


def announced(name: str, association: str) -> str:
    """The line before a comment."""
    return f"--- @{login_of(name)} ({login_of(association)})"


def told_by(name: str, association: str, said: str) -> str:
    """The words of somebody who may order nothing, line by line, whatever ends the lines."""
    head = f"> @{login_of(name)} ({login_of(association)}):"
    pieces = (line[at : at + _LONGEST_TOLD] for line in said.splitlines() for at in _starts(line))
    return "\n".join(f"{head} {_as_nobodys(piece)}".rstrip() for piece in pieces)


def said_by_user(said: str) -> str:
    """The words of a user, who cannot announce somebody else either; what a user quotes is somebody's, not theirs."""
    return "\n".join(_said(line) for line in said.splitlines())


def _said(line: str) -> str:
    if _OTHERS.match(line):
        return line
    quote = _QUOTED.match(line)
    return told_by("somebody", "quoted", line[quote.end() :]) if quote else _as_nobodys(line)


def _as_nobodys(line: str) -> str:
    """A line that looks as if it said who speaks, so that it does not."""
    return f"\\{line}" if _LIKE_ANNOUNCED.match(line) or _LIKE_TOLD.match(line) else line


def _starts(line: str) -> range:
    return range(0, len(line) or 1, _LONGEST_TOLD)


@cache
def _result_head() -> re.Pattern[str]:
    """How the result of a call in words begins, in every language."""
    heads = [re.escape(text("prompts.text_result", lang=lang, name="NAME", result="")) for lang in LANGUAGES]
    return re.compile("|".join(head.replace("NAME", r"([\w.:/-]{1,200})") for head in heads))


def own_parts(said: str) -> list[str]:
    """What of a user's message is the user's own, in runs of lines that stand together."""
    if said.startswith("[") and _result_head().match(said):
        return []
    if "> @" not in said and "--- @" not in said:
        return [said]
    runs: list[list[str]] = [[]]
    for line in said.split("\n"):
        if _OTHERS.match(line) or _ANNOUNCED.match(line):
            runs.append([])
        else:
            runs[-1].append(line)
    return [part for run in runs if (part := "\n".join(run)).strip()]


def others_words(said: str) -> dict[str, str]:
    """What others say in a user's message, by speaker: ``@name``, which is no role and no tool.

    A tool does so too, where the model writes its calls into its text and gets the results as messages.
    """
    if said.startswith("[") and (result := _result_head().match(said)):
        return {f"@{result[1] or result[2]}": said[result.end() :]}
    if "> @" not in said:
        return {}
    found: dict[str, list[str]] = {}
    for line in said.split("\n"):
        if told := _OTHERS.match(line):
            found.setdefault(f"@{told[1]}", []).append(told[2] or "")
    return {speaker: "\n".join(lines) for speaker, lines in found.items()}


def each_speaker(said: str, change: Callable[[str, bool], str]) -> str:
    """A user's message with what each speaker says in it changed as a text of its own; it stays that speaker's.

    ``change`` gets the text, and whether it is the user's own.
    """
    pieces: list[str] = []
    for head, lines in itertools.groupby(said.split("\n"), _head_of):
        if head is None:  # who announces a comment is not part of it
            pieces += lines
            continue
        words = "\n".join(line.removeprefix(head).removeprefix(" " if head else "") for line in lines)
        changed = change(words, not head).split("\n") if words.strip() else [words]
        pieces += (f"{head} {line}".rstrip() if head else line for line in changed)
    return "\n".join(pieces)


def _head_of(line: str) -> str | None:
    if _ANNOUNCED.match(line):
        return None
    told = _OTHERS.match(line)
    return line[: line.index("):") + 2] if told else ""


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where a line stands and who said it."""

    place: int  # the message's place in the history, from 0
    seq: int  # the number it is quoted by
    speaker: str  # a role, or the tool that answered
    role: str
    heading: str = ""  # where an earlier summary had put it


@dataclass(frozen=True, slots=True)
class LineMark:
    """What a line is beside its words, where that is known."""

    kind: str  # user, statement, call, shown, talk
    worth: float = 0.0  # before anything is known of its words
    paragraph: int = 0  # units of one paragraph stand on one line again
    lead: str = ""  # the line that announces it
    heading: str = ""
    factor: float = 1.0  # of what its words are worth
    is_firm: bool = False  # worth as much when its words have been said before


#: A line, its source, whether it is nothing but names, and its mark. A bare tuple: a long history has very many.
SourceLine = tuple[str, LineSource, bool, LineMark | None]


def call_text(name: str, arguments: str) -> str:
    """A tool call as lines: line ends, quotes and letters of its JSON resolved, nothing else changed."""
    return f"{name} {_ESCAPED.sub(_unescape, arguments) if chr(92) in arguments else arguments}"


def speaker_of(tool: str | None) -> str:
    """A tool's name as notes can have it: one word, and nobody else's."""
    name = _NOT_IN_NAMES.sub("_", tool or "tool")
    return "tool" if name.lower() in _SPEAKERS else name


def shown_lines(text: str) -> Iterator[str]:
    """Every line of a text as it stands, and then the bare names that are read together."""
    raw = text.split("\n")
    yield from raw
    yield from (names for names, is_bare in bare_joined(raw) if is_bare)


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
                self._lines[text] = line
            elif line[1].role == role == "user" or self._lines[text][1].role != "user":  # a user's words stay so
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


def bare_joined(raw_lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
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
            yield from ((part, False) for part in cut_long(line))
        elif line:
            yield line, False
    if names:
        yield names, True


def _is_bare(text: str) -> bool:
    if len(text) > _LONGEST_BARE or _THREE_WORDS.match(text):
        return False
    return text.isascii() or len(_LATIN_WORD.findall(text)) + len(_CJK.findall(text)) // 2 < FEWEST_WORDS


def cut_long(line: str) -> Iterator[str]:
    """An over-long line in parts, cut at natural places."""
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
