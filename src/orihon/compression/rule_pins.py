"""Pins by rule: lines that match a pattern, sections under matching headings, messages of some roles.

They hold for the compression at hand and are found again for the next one, also inside the folds that carry them on;
nothing is recorded. A pattern that begins with ``^#`` is compared with headings as ``## Title``, any other with every
line; where a heading matches, its whole section is pinned, subsections too. Tool results are left out: what they quote
is nobody's rule. So is the system prompt, which is never folded, and so are the headings that a fold has of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orihon.compression.documents.markdown import parse
from orihon.compression.pages import Pages
from orihon.compression.pinned_lines import pinned_headings
from orihon.message import Message
from orihon.records import SUMMARY_PREFIX, Pin

_OF_HEADINGS = re.compile(r"(?:\(\?[a-z]+\))?\^#")
_MAY_HAVE_HEADINGS = re.compile(r"^ {0,3}(?:#|=+[ \t\r]*$|-+[ \t\r]*$)", re.M)

_LABEL = re.compile(r"^\d+ [^\s:]+: ")


def rule_pins(pages: Pages, patterns: Sequence[str], roles: Sequence[str]) -> tuple[Pin, ...]:
    """The pins that the rules give for these pages, beside those that are recorded."""
    found: dict[Pin, None] = {}
    rules = _Rules.of(patterns)
    recorded = frozenset(pages.view.pins)
    head = pages.view.head
    for entry, message in zip(pages.view.entries[head:], pages.messages[head:], strict=True):
        if message.role == "tool":
            continue
        if entry.fold is None and message.role in roles:
            found[Pin(entry.start)] = None
        elif patterns:
            is_fold = entry.fold is not None and entry.fold.form == "summary"
            pinned = rules.in_fold(message.text) if is_fold else rules.in_message(message)
            found.update((Pin(entry.start, part), None) for part in pinned)
    return tuple(pin for pin in found if pin not in recorded)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns, by what they are compared with."""

    headings: tuple[re.Pattern[str], ...]
    lines: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> _Rules:
        headings = [pattern for pattern in patterns if _OF_HEADINGS.match(pattern)]
        lines = [pattern for pattern in patterns if not _OF_HEADINGS.match(pattern)]
        return cls(tuple(map(re.compile, headings)), tuple(map(re.compile, lines)))

    def in_message(self, message: Message) -> Iterator[str]:
        """What is pinned of a message, in order."""
        return self._pinned(message.text, self._matches_heading)

    def in_fold(self, said: str) -> Iterator[str]:
        """What is pinned of a fold; sections only where a fold carries what was pinned, the others are its own."""
        own, marker, carried = _divided(said.removeprefix(SUMMARY_PREFIX))
        if self.lines:
            yield from self._pinned(_without_labels(own), lambda heading: False)
        if marker:
            yield from self._pinned(carried, self._matches_heading)

    def _pinned(self, said: str, is_pinned: Callable[[str], bool]) -> Iterator[str]:
        if not _MAY_HAVE_HEADINGS.search(said):
            yield from self._matching_lines(said)
            return
        rest = said
        for section in parse(said, is_pinned).protected_sections():
            before, whole, rest = rest.partition(section.text)
            yield from self._matching_lines(before)
            if pinned := whole.strip():
                yield pinned
        yield from self._matching_lines(rest)

    def _matches_heading(self, heading: str) -> bool:
        return any(pattern.search(heading) for pattern in (*self.headings, *self.lines))

    def _matching_lines(self, said: str) -> Iterator[str]:
        if self.lines:
            for line in said.splitlines():
                if line.strip() and any(pattern.search(line) for pattern in self.lines):
                    yield line.strip()


def _without_labels(notes: str) -> str:
    """Notes without message numbers and speakers: a pattern may want the beginning of a line."""
    return "\n".join(_LABEL.sub("", line) for line in notes.split("\n"))


def _divided(fold: str) -> tuple[str, str, str]:
    """The text of a fold before, at and after the last heading below which it carries what was pinned."""
    places = {fold.rfind(f"\n{marker}\n"): marker for marker in pinned_headings()}
    last = max(places)
    if last < 0:
        return fold, "", ""
    return fold[:last], places[last], fold[last + len(places[last]) + 2 :]
