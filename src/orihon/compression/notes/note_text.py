"""The text of a fold: chosen lines under structured headings, each with its message number and speaker.

Writes notes and reads them back, so that a later fold merges an earlier one line by line instead of summarising a
summary. A line quotes its source; only headings, numbers and speakers are ours. Lines of one message that follow each
other under a heading share one number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from orihon.compression.notes.reader import LineSource, SourceLine
from orihon.texts import LANGUAGES, text
from orihon.values.records import SUMMARY_PREFIX

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
