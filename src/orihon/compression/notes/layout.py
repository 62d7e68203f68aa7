"""Notes as they stand in a view: quoted lines under headings, each with its message number and speaker.

In the language of the conversation, which need not be the program's. Notes are read back, so that a later fold merges
an earlier one line by line; what stands between two numbers belongs to the first. Knows nothing of worth or budgets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from orihon.compression.notes.reader import LineMark, LineSource, SourceLine
from orihon.system.patterns import lazy_re
from orihon.texts import LANGUAGES, text
from orihon.values.records import SUMMARY_PREFIX

#: What a summary may say, in the order in which it does. ``said`` is what users said, word for word.
HEADINGS = ("goal", "constraints", "decisions", "changes", "problems", "open", "notes")
_SECTIONS = ("said", *HEADINGS)
_LOOK_UP = "look_up"
_ROLES = ("user", "assistant", "system", "developer")
_PROMPTERS = ("system", "developer")
_NUMBERED = lazy_re(r"(\d+) ([^\s:]+): (.*)", re.S)
_MORE = lazy_re(r"\(\+ [\d, –]+\)")
_ASKED_FIRST = 2.5  # times: the first request outlives every fold
_SETTLED = ("decisions", "open", "problems")
_SAID_AGAIN = 1.8  # what a fold has from a user is as much wanted as when it was said
#: Titles for conversations in a language that the program does not speak.
_OTHER_TITLES: Mapping[str, Mapping[str, str]] = {
    "zh": {
        "said": "用户说的话",
        "goal": "目标",
        "constraints": "约束",
        "decisions": "决定",
        "changes": "代码和文件改动",
        "problems": "问题",
        "open": "待办",
        "notes": "经过",
        "look_up": "查找",
    },
    "": {
        "said": ">",
        "goal": "!",
        "constraints": "!!",
        "decisions": "=",
        "changes": "+",
        "problems": "×",
        "open": "…",
        "notes": "*",
        "look_up": "→",
    },
}


@dataclass(frozen=True, slots=True)
class Note:
    """One unit of the notes."""

    heading: str
    seq: int
    speaker: str
    text: str
    order: int  # its place in the source
    paragraph: int = 0


@dataclass(frozen=True, slots=True)
class NotesFrame:
    """What notes have beside the quoted lines."""

    title: str
    language: str = "en"
    recall: str = ""  # how to get back what is not here
    unsaid: Sequence[int] = ()  # numbers of users' messages of which nothing is quoted
    files: Mapping[str, Sequence[int]] | None = None  # written, and in which messages
    hints: Sequence[tuple[int, str]] = ()  # message numbers, and words to look up there


def render(notes: Iterable[Note], around: NotesFrame) -> str:
    """Notes under a title."""
    sections: dict[str, list[str]] = {}
    by_heading: dict[str, list[Note]] = {}
    for note in notes:
        by_heading.setdefault(note.heading, []).append(note)
    for heading, found in by_heading.items():
        sections[heading] = list(_numbered(sorted(found, key=lambda note: note.order)))
    if around.unsaid:
        sections.setdefault("said", []).append(f"(+ {ranges(around.unsaid)})")
    for path, seqs in (around.files or {}).items():
        times = f" ({len(seqs)} ×: {ranges(seqs)})" if len(seqs) > 1 else ""
        sections.setdefault("changes", []).append(f"{seqs[-1]} assistant: {path}{times}")
    lines = [around.title, around.recall] if around.recall else [around.title]
    for heading in _SECTIONS:
        if heading in sections:
            lines += [_title(heading, around.language), *sections[heading]]
    if around.hints:
        hints = "; ".join(f"{seq}: {words}" for seq, words in _by_seq(around.hints))
        lines += [_title(_LOOK_UP, around.language), hints]
    return "\n".join(lines)


def ranges(seqs: Iterable[int], most: int = 12) -> str:
    """Numbers, neighbours together; of too many the last ones."""
    runs: list[list[int]] = []
    for seq in sorted({*seqs}):
        if runs and seq <= runs[-1][1] + 1:
            runs[-1][1] = seq
        else:
            runs.append([seq, seq])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs[-most:])


def title_of(first: int, last: int, language: str | None = None) -> str:
    """The title of the notes on messages ``first`` to ``last``."""
    return text("notes.title", lang=_spoken(language), first=first, last=last)


def recall_of(first: int, last: int, language: str | None = None) -> str:
    """How whoever has the tools gets the messages back."""
    return text("notes.recall", lang=_spoken(language), first=first, last=last)


def title_of_added(first: int, last: int, language: str | None = None) -> str:
    """The title of lines that are added to another text on these messages."""
    return text("notes.added", lang=_spoken(language), first=first, last=last)


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


@cache
def binding_headings() -> frozenset[str]:
    """The headings below which stands what is wanted, in every language."""
    languages = (*LANGUAGES, *_OTHER_TITLES)
    return frozenset(_title(key, language) for key in ("said", "goal", "constraints") for language in languages)


def is_own(line: str) -> bool:
    """Whether a line of notes is quoted from nobody: numbers of what is not there."""
    return _MORE.fullmatch(line.strip()) is not None


def noted_lines(content: str, place: int, seq: int) -> Iterator[SourceLine]:
    """The lines of an earlier fold, under the numbers, speakers and headings they had."""
    heading, number, speaker = "", seq, "system"
    asked_first: int | None = None
    for raw in content.removeprefix(SUMMARY_PREFIX).split("\n"):
        line = raw.strip()
        if line in _headings():
            heading = _headings()[line]
        elif heading == _LOOK_UP or not line or is_own(line) or _titles().fullmatch(line):
            continue
        else:
            if found := _NUMBERED.fullmatch(line):
                number, speaker, line = int(found[1]), found[2], found[3]
            role = "tool" if is_tools(speaker) else speaker
            source = LineSource(place, number, speaker, role, heading or "notes")
            if role == "user":
                asked_first = number if asked_first is None else asked_first
                worth = _SAID_AGAIN * (_ASKED_FIRST if number == asked_first else 1.0)
                yield line, source, False, LineMark("user", worth, is_firm=True)
            else:
                yield line, source, False, LineMark("statement", 1.0 if heading in _SETTLED else 0.0)


def _numbered(notes: Sequence[Note]) -> Iterator[str]:
    """Units of one paragraph stand on one line, with a mark where something was left out."""
    line, before = "", None
    for note in notes:
        is_same = before is not None and (note.seq, note.speaker) == (before.seq, before.speaker)
        source = f"{note.seq} {note.speaker}: "
        first, *rest = note.text.split("\n")
        said = "\n".join((first, *(source + one if _is_of_notes(one.strip()) else one for one in rest)))
        if is_same and before is not None and note.paragraph and note.paragraph == before.paragraph:
            line += f" {said}" if note.order == before.order + 1 else f" … {said}"
        else:
            if line:
                yield line
            line = said if is_same and not _is_of_notes(first) else source + said
        before = note
    if line:
        yield line


def _is_of_notes(said: str) -> bool:
    """Whether a line by itself would be read as another speaker's or as a heading: a page can say anything."""
    return said.startswith(("#", "(+")) or _NUMBERED.fullmatch(said) is not None


def _by_seq(hints: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    words: dict[int, list[str]] = {}
    for seq, word in sorted(hints):
        words.setdefault(seq, []).append(word)
    return ((seq, ", ".join(found)) for seq, found in words.items())


def _spoken(language: str | None) -> str | None:
    return language if language in LANGUAGES else None


def _title(heading: str, language: str) -> str:
    others = _OTHER_TITLES.get(language)
    return f"## {others[heading] if others is not None else text(f'notes.{heading}', lang=language)}"


@cache
def _headings() -> dict[str, str]:
    languages = (*_OTHER_TITLES, *LANGUAGES)
    return {_title(heading, language): heading for heading in (*_SECTIONS, _LOOK_UP) for language in languages}


@cache
def _titles() -> re.Pattern[str]:
    keys = ("notes.title", "notes.added", "notes.recall", "offload.omitted")
    blanks = dict.fromkeys(("first", "last", "count", "where"), "\0")
    titles = (re.escape(text(key, lang=lang, **blanks)) for key in keys for lang in LANGUAGES)
    return re.compile("|".join(title.replace(re.escape("\0"), "[^\n]+") for title in titles))
