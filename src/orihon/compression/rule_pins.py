"""Pins by rule: lines that match a pattern, sections under matching headings, messages of some roles.

They hold for the compression at hand and are found again for the next one, also inside the folds that carry them on;
nothing is recorded. A pattern that begins with ``^#`` is compared with headings as ``## Title``, any other with every
line; where a heading matches, its whole section is pinned, subsections too. Tool results are left out: what they quote
is nobody's rule, and does not become one when an agent repeats it or a fold has it from there. So are the words of
others in a user's message, also where all of a user's messages are pinned. So is the system prompt,
which is never folded, and so are the headings that a fold has of its own. No pattern takes more than its time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from orihon.compression.documents.markdown import parse
from orihon.compression.notes.layout import is_tools, numbered
from orihon.compression.notes.reader import others_words, own_parts
from orihon.compression.pages import Pages, pinned_headings
from orihon.compression.trust import QUOTE
from orihon.guard.masking.patterns import TimedPatterns
from orihon.system.patterns import lazy_re
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Pin

_OF_HEADINGS = lazy_re(r"(?:\(\?[a-z]+\))?\^#")
_MAY_HAVE_HEADINGS = lazy_re(r"^ {0,3}(?:#|=+[ \t\r]*$|-+[ \t\r]*$)", re.M)

_SPEAKERS = ("user", "assistant", "system", "developer")


def rule_pins(pages: Pages, patterns: Sequence[str], roles: Sequence[str]) -> tuple[Pin, ...]:
    """The pins that the rules give for these pages, beside those that are recorded."""
    found: dict[Pin, None] = {}
    rules = _Rules.of(patterns)
    recorded = frozenset(pages.view.pins)
    head = pages.view.head
    printed = _Printed(pages.messages)
    for entry, message in zip(pages.view.entries[head:], pages.messages[head:], strict=True):
        if message.role not in _SPEAKERS:
            continue
        if entry.fold is None and message.role in roles:
            parts = own_parts(message.text) if message.role == "user" and others_words(message.text) else [""]
            found.update((Pin(entry.start, part.strip()), None) for part in parts)
        elif patterns:
            is_fold = entry.fold is not None and entry.fold.form == "summary"
            pinned = rules.in_fold(message.text) if is_fold else rules.in_message(message)
            is_agent = message.role == "assistant"
            found.update((Pin(entry.start, part), None) for part in pinned if not (is_agent and part in printed))
    return tuple(pin for pin in found if pin not in recorded)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns, by what they are compared with."""

    headings: TimedPatterns
    lines: TimedPatterns

    @classmethod
    def of(cls, patterns: Sequence[str]) -> _Rules:
        headings = [pattern for pattern in patterns if _OF_HEADINGS.match(pattern)]
        lines = [pattern for pattern in patterns if not _OF_HEADINGS.match(pattern)]
        return cls(TimedPatterns(headings), TimedPatterns(lines))

    def in_message(self, message: Message) -> Iterator[str]:
        """What is pinned of a message, in order."""
        parts = own_parts(message.text) if message.role == "user" else [message.text]
        return (pinned for part in parts for pinned in self._pinned(part, self._matches_heading))

    def in_fold(self, said: str) -> Iterator[str]:
        """What is pinned of a fold; sections only where a fold carries what was pinned, the others are its own."""
        own, marker, carried = _divided(said.removeprefix(SUMMARY_PREFIX))
        if self.lines:
            yield from self._pinned(_said_by_people(own), lambda heading: False)
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
        return self.headings.search(heading) or self.lines.search(heading)

    def _matching_lines(self, said: str) -> Iterator[str]:
        if self.lines:
            for line in said.splitlines():
                if line.strip() and self.lines.search(line):
                    yield line.strip()


class _Printed:
    """The lines that tools have printed, read when somebody asks."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __contains__(self, part: str) -> bool:
        """Whether all of this, line by line, is what a tool has printed."""
        return self._lines.issuperset(line.strip() for line in part.splitlines() if line.strip())

    @cached_property
    def _lines(self) -> frozenset[str]:
        texts = [message.text for message in self._messages if message.role not in _SPEAKERS]
        told = (others_words(message.text).values() for message in self._messages if message.role == "user")
        return frozenset(line.strip() for text in chain(texts, *told) for line in text.splitlines())


def _said_by_people(notes: str) -> str:
    """Notes without what they have from tools, and without message numbers: a pattern may want a line's beginning."""
    kept: list[str] = []
    speaker = ""
    for line in notes.split("\n"):
        named, said = numbered(line)
        speaker = "" if line.startswith("#") else named or speaker
        if not (speaker and is_tools(speaker)) and not said.lstrip(" -*•").startswith(QUOTE):
            kept.append(said)
    return "\n".join(kept)


def _divided(fold: str) -> tuple[str, str, str]:
    """The text of a fold before, at and after the last heading below which it carries what was pinned."""
    places = {fold.rfind(f"\n{marker}\n"): marker for marker in pinned_headings()}
    last = max(places)
    if last < 0:
        return fold, "", ""
    return fold[:last], places[last], fold[last + len(places[last]) + 2 :]
