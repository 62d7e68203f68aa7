"""Markdown as a tree of sections, each made of blocks; the tree joined together is the text again, byte for byte.

Knows what a compressor has to know: headings (``#`` and underlined), fences, tables, lists, quotations and paragraphs;
nothing inside lines. Follows CommonMark but for two liberties in favour of damaged documents: a fence that is never
closed is plain text, so that it cannot hide the headings after it (in a protected section it keeps everything up to
the end, so that either reading holds); and a line underlined with ``---`` is a heading only after a blank line, since
without one a dividing line was meant. Time and memory are linear in the text, whatever it holds.

A reader of its own, and not markdown-it-py: that one, asked for blocks alone, takes two to three times as long for
documents of many headings (250,000: 12 s against 4 s), five times for long lists and ten for long paragraphs. It hides
all that follows a fence which is never closed, and to read such documents again behind each of them would take a time
that grows with the square.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from orihon.system.patterns import lazy_re

BlockKind = Literal["blank", "paragraph", "item", "table", "quote", "fence", "rule"]

_OPENER = lazy_re(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})([^\r\n]*)")
_ITEM = lazy_re(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = lazy_re(r"([-*_])(?:[ \t]*\1){2,}")
_BLANKS = " \t\r\n"
_MARKS = frozenset("#>|`~-*+_0123456789")


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """Lines that belong together, with their line ends."""

    kind: BlockKind
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.lines)


@dataclass(frozen=True, slots=True)
class MarkdownSection:
    """A heading, what stands directly below it, and its subsections; the root has no heading and level 0."""

    heading: tuple[str, ...]
    level: int
    title: str
    blocks: tuple[MarkdownBlock, ...]
    children: tuple[MarkdownSection, ...]
    protected: bool = False
    above: tuple[str, ...] = ()  # the titles of the sections in which it lies

    @property
    def text(self) -> str:
        """The section with everything below it, word for word."""
        return "".join(self._pieces())

    @property
    def own_text(self) -> str:
        """What stands directly below the heading."""
        return "".join(block.text for block in self.blocks)

    def _pieces(self) -> Iterator[str]:
        yield from self.heading
        for block in self.blocks:
            yield from block.lines
        for child in self.children:
            yield from child._pieces()

    def walk(self) -> Iterator[MarkdownSection]:
        """The section and everything below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()

    def open_sections(self) -> Iterator[MarkdownSection]:
        """The same without what is protected."""
        if not self.protected:
            yield self
            for child in self.children:
                yield from child.open_sections()

    def protected_sections(self) -> Iterator[MarkdownSection]:
        """The topmost protected sections."""
        if self.protected:
            yield self
        else:
            for child in self.children:
                yield from child.protected_sections()


@dataclass(slots=True)
class _Draft:
    heading: tuple[str, ...] = ()
    level: int = 0
    title: str = ""
    blocks: list[MarkdownBlock] = field(default_factory=list)
    open_fence: bool = False
    protected: bool = False
    above: tuple[str, ...] = ()


def parse(text: str, is_protected: Callable[[str], bool] = lambda heading: False) -> MarkdownSection:
    """The tree of a document; ``is_protected`` is asked with each heading as ``## Title``."""
    drafts = _Reader(list(io.StringIO(text, newline=""))).read()
    _mark_protected(drafts, is_protected)
    _mark_titles_above(drafts)
    return _tree(drafts)


def line_end(text: str) -> str:
    """The line end that the document uses."""
    first = text.find("\n")
    if first < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[first - 1 : first] == "\r" else "\n"


class _Reader:
    """Reads blocks one after another."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._closers = {mark: _Closers(lines, mark) for mark in "`~"}
        self._drafts = [_Draft()]

    def read(self) -> list[_Draft]:
        at = 0
        while at < len(self._lines):
            at = self._read_block(at)
        return self._drafts

    def _read_block(self, at: int) -> int:
        if (heading := _hash_heading(self._lines[at])) is not None:
            return self._add_heading(at, 1, *heading)
        if (level := self._underlined(at)) is not None:
            return self._add_heading(at, 2, level, self._lines[at].strip())
        kind = self._kind(at)
        end = self._end_of(kind, at)
        draft = self._drafts[-1]
        draft.blocks.append(MarkdownBlock(kind, tuple(self._lines[at:end])))
        draft.open_fence |= kind in ("paragraph", "item") and any(map(_opener, self._lines[at:end]))
        return end

    def _add_heading(self, at: int, count: int, level: int, title: str) -> int:
        self._drafts.append(_Draft(tuple(self._lines[at : at + count]), level, title))
        return at + count

    def _underlined(self, at: int) -> int | None:
        """The level of the heading that a line is because of its underline."""
        if at + 1 >= len(self._lines) or not (mark := _underline(self._lines[at + 1])):
            return None
        line = self._lines[at]
        first = line.strip()[:1]
        if not first or _indent(line) > 3 or self._kind(at) != "paragraph":
            return None
        above = self._drafts[-1].blocks
        after_blank = at == 0 or (bool(above) and above[-1].kind in ("blank", "rule"))
        after_heading = at > 0 and not above
        if not (after_blank or (mark == "=" and after_heading)):
            return None
        return 1 if mark == "=" else 2

    def _kind(self, at: int) -> BlockKind:
        line = self._lines[at]
        stripped = line.strip()
        if not stripped:
            return "blank"
        if stripped[0] not in _MARKS:
            return "table" if "|" in stripped and self._is_table_head(at) else "paragraph"
        if self._fence_end(at) is not None:
            return "fence"
        match stripped[0]:
            case ">":
                return "quote"
            case "|":
                return "table"
        if _RULE.fullmatch(stripped):
            return "rule"
        return "item" if _ITEM.match(line) else "paragraph"

    def _end_of(self, kind: BlockKind, at: int) -> int:
        if kind == "fence":
            return (self._fence_end(at) or at) + 1
        end = at + 1
        if kind == "rule":
            return end
        goes_on: Callable[[int], bool] = {
            "blank": lambda line: not self._lines[line].strip(),
            "quote": lambda line: self._lines[line].lstrip()[:1] == ">",
            "table": lambda line: "|" in self._lines[line] and not self._starts_other_than_table(line),
        }.get(kind, self._continues)
        while end < len(self._lines) and goes_on(end):
            end += 1
        return end

    def _continues(self, at: int) -> bool:
        """Does the paragraph or item go on with this line?"""
        first = self._lines[at].strip()[:1]
        if not first:
            return False
        if first not in _MARKS:
            return True
        return _hash_heading(self._lines[at]) is None and self._kind(at) == "paragraph"

    def _starts_other_than_table(self, at: int) -> bool:
        return _hash_heading(self._lines[at]) is not None or self._kind(at) in ("fence", "quote", "item")

    def _is_table_head(self, at: int) -> bool:
        if at + 1 >= len(self._lines):
            return False
        below = self._lines[at + 1].strip()
        return "|" in below and "-" in below and not below.strip("|:- \t")

    def _fence_end(self, at: int) -> int | None:
        """The line that closes the fence which this line opens."""
        mark = _opener(self._lines[at])
        return self._closers[mark[0]].after(at, len(mark)) if mark else None


class _Closers:
    """The lines that may close a fence of one kind."""

    def __init__(self, lines: list[str], mark: str) -> None:
        three = mark * 3
        found = [(at, line.strip()) for at, line in enumerate(lines) if three in line]
        bare = [(at, len(line)) for at, line in found if not line.strip(mark)]
        self._at = [at for at, _ in bare]
        self._lengths = [length for _, length in bare]
        # The longest from here on: tells at once, without a search, that a fence is never closed.
        self._longest = list(accumulate(reversed(self._lengths), max))[::-1]

    def after(self, at: int, length: int) -> int | None:
        index = bisect_right(self._at, at)
        if index == len(self._at) or self._longest[index] < length:
            return None
        while self._lengths[index] < length:
            index += 1
        return self._at[index]


def _opener(line: str) -> str:
    """The marks with which a line opens a fence (in a list item too), or nothing."""
    if "```" not in line and "~~~" not in line:
        return ""
    found = _OPENER.match(line)
    if found is None or (found[1][0] == "`" and "`" in found[2]):
        return ""
    return found[1]


def _hash_heading(line: str) -> tuple[int, str] | None:
    stripped = line.strip(_BLANKS)
    if stripped[:1] != "#" or _indent(line) > 3:
        return None
    rest = stripped.lstrip("#")
    level = len(stripped) - len(rest)
    if level > 6 or (rest and rest[0] not in " \t"):
        return None
    title = rest.strip()
    without_tail = title.rstrip("#")
    if not without_tail or without_tail[-1] in " \t":
        title = without_tail.rstrip()
    return level, title


def _underline(line: str) -> str:
    stripped = line.strip(_BLANKS)
    for mark in "=-":
        if stripped and not stripped.strip(mark) and _indent(line) <= 3:
            return mark
    return ""


def _indent(line: str) -> int:
    if line[:1] not in (" ", "\t"):
        return 0
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blanks.expandtabs(4))


def _mark_protected(drafts: list[_Draft], is_protected: Callable[[str], bool]) -> None:
    above: int | None = None  # the level of the protected section that is open
    to_the_end = False
    for draft in drafts[1:]:
        if above is not None and draft.level <= above:
            above = None
        if above is None and is_protected(f"{'#' * draft.level} {draft.title}"):
            above = draft.level
        draft.protected = to_the_end or above is not None
        to_the_end |= draft.protected and draft.open_fence


def _mark_titles_above(drafts: list[_Draft]) -> None:
    above: list[_Draft] = []
    for draft in drafts[1:]:
        while above and above[-1].level >= draft.level:
            above.pop()
        draft.above = tuple(outer.title for outer in above)
        above.append(draft)


def _tree(drafts: list[_Draft]) -> MarkdownSection:
    """The flat list as a tree, built from its end: what is deeper has been finished by then."""
    finished: list[MarkdownSection] = []
    for draft in reversed(drafts):
        children = []
        while finished and finished[-1].level > draft.level:
            children.append(finished.pop())
        finished.append(
            MarkdownSection(
                draft.heading,
                draft.level,
                draft.title,
                tuple(draft.blocks),
                tuple(children),
                draft.protected,
                draft.above,
            )
        )
    return finished[0]
