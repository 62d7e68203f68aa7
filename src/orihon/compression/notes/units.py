"""Prose cut into whole units: what is quoted together because it means something only together.

A sentence keeps its short afterthought ("Git config is pre-set. Do not modify."), a lead-in that ends in a colon keeps
the command, block or short list that it announces, a wrapped sentence is one. What is too long for that is cut, and
every part names the lead-in without which it says little. Words are never changed; only line ends and blanks are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orihon.compression.notes.reader import LONGEST, cut_long
from orihon.system.patterns import lazy_re

_LONGEST_BLOCK = 420  # of a block or list that stays with its lead-in
_LONGEST_JOINED = 4 * LONGEST  # a longer text is no wrapped sentence
_SHORT = 46  # width of an afterthought
_SHORTEST = 24  # of a sentence by itself
_ONE_UNIT = 90  # width of a line that is not cut

_FENCE = lazy_re(r"\s*(```|~~~)")
_ITEM = lazy_re(r"\s*(?:[-*+•・◦]|\(?\d{1,3}[.)、]|\(?[a-zA-Z][.)])\s+")
_LEAD_IN = lazy_re(r"[:：]\s*(?:\*{1,2}|_{1,2})?\s*$")
_SENTENCE_END = lazy_re(r"(?<=[.!?])[\"')\]*]?\s+(?=[^a-z])|(?<=[。!?！？])[」』）)]?(?=.)")
_WRAPPED = lazy_re(r"[a-z,;(]")
_ENDED = lazy_re(r"[.!?:;。！？：…]\W{0,3}$")
_HEADING = lazy_re(r"\s{0,3}#{1,6}\s|\*\*[^*]+\*\*:?\s*$")
_GOES_ON = lazy_re(
    r"(?:Instead|Also|That|This|It|They|These|Those|Then|But|And|Otherwise|However|So)\b|しかし|ただし|それ|但是|而且"
)
_CONTINUED = lazy_re(r"\\\s*$")
_ABBREVIATION = lazy_re(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|No|Mr|Mrs|Ms|Dr|St)\.|^\W*\d{1,3}\.)$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a text; ``lead`` is the place (among the units) of what announces it."""

    text: str
    paragraph: int  # units of one paragraph stand on one line again
    is_code: bool = False
    is_item: bool = False
    lead: int | None = None
    is_heading: bool = False


def units_of(said: str) -> list[Unit]:
    """The units of a text, in order."""
    return list(_Cutter(said).units)


class _Cutter:
    def __init__(self, said: str) -> None:
        self.units: list[Unit] = []
        self._paragraph = 0
        self._lead: int | None = None  # the lead-in or heading that announces what comes next
        self._heading: int | None = None
        self._is_announced = False
        for block, is_code in _blocks(said):
            self._add_code(block) if is_code else self._add_prose(block)

    def _add_code(self, lines: list[str]) -> None:
        whole = "\n".join(lines).strip("\n")
        if not whole.strip():
            return
        if self._is_announced and self._lead is not None:
            lead = self.units[self._lead]
            if len(lead.text) + len(whole) < _LONGEST_BLOCK and self._lead == len(self.units) - 1:
                self.units[self._lead] = Unit(f"{lead.text}\n{whole}", lead.paragraph, lead=lead.lead)
                return
        if len(whole) < _LONGEST_BLOCK and len(lines) <= 6:
            self._put(whole, is_code=True)
            return
        for line in lines:
            if line.strip():
                self._put(line.strip()[:LONGEST], is_code=True)

    def _add_prose(self, lines: list[str]) -> None:
        if self._is_announced and self._lead == len(self.units) - 1 and self._lead is not None:
            whole = "\n".join(line.rstrip() for line in lines)
            lead = self.units[self._lead]
            if all(map(_ITEM.match, lines)) and len(lead.text) + len(whole) < _LONGEST_BLOCK:
                self.units[self._lead] = Unit(f"{lead.text}\n{whole.strip()}", lead.paragraph, lead=lead.lead)
                self._is_announced = False
                return
        if not all(map(_ITEM.match, lines)):
            self._is_announced, self._lead = False, self._heading
        for line in _unwrapped(lines):
            is_item = _ITEM.match(line) is not None
            if not is_item and self._is_announced:
                self._is_announced, self._lead = False, self._heading
            self._paragraph += 1
            for at, sentence in enumerate(_sentences(line)):
                self._put(sentence, is_item=is_item, goes_on=at > 0 and _GOES_ON.match(sentence) is not None)
            last = len(self.units) - 1
            if _HEADING.match(line):
                self.units[last] = replace(self.units[last], is_heading=True)
                self._heading = self._lead = last
            elif _LEAD_IN.search(line):
                self._lead, self._is_announced = last, True

    def _put(self, text: str, *, is_code: bool = False, is_item: bool = False, goes_on: bool = False) -> None:
        if is_code:
            self._paragraph += 1
        lead = len(self.units) - 1 if goes_on else self._lead
        self.units.append(Unit(text, self._paragraph, is_code, is_item, lead))


def _blocks(said: str) -> Iterator[tuple[list[str], bool]]:
    """Runs of lines between blank ones, and whether a run is a fenced block."""
    block: list[str] = []
    is_code = False
    for line in said.split("\n"):
        if _FENCE.match(line):
            if block or is_code:
                yield block, is_code
            block, is_code = [], not is_code
        elif line.strip() or is_code:
            block.append(line)
        elif block:
            yield block, False
            block = []
    if block:
        yield block, is_code


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Lines with what they were wrapped into: a sentence goes on in small letters, a command behind a backslash."""
    joined = ""
    for raw in lines:
        line = raw.strip()
        goes_on = 0 < len(joined) < _LONGEST_JOINED
        if goes_on and _CONTINUED.search(joined):
            joined = f"{joined}\n{line}"
        elif goes_on and _width(joined) >= _SHORT and _WRAPPED.match(line) and not _ENDED.search(joined):
            joined = f"{joined} {line}"
        else:
            if joined:
                yield joined
            joined = line
    if joined:
        yield joined


def _sentences(line: str) -> list[str]:
    """The sentences of a line, short afterthoughts with what they belong to."""
    if _width(line) <= _ONE_UNIT or "\n" in line:
        return [line]
    starts = [0]
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    if not ends:
        return list(cut_long(line))
    for at, following in zip(ends, [*ends[1:], len(line)], strict=True):
        before = line[starts[-1] : at].rstrip()
        is_short = _width(line[at:following]) < _SHORT and _width(before) < 2 * _ONE_UNIT
        is_afterthought = is_short or _width(before) < _SHORTEST
        if not is_afterthought and not _ABBREVIATION.search(before):
            starts.append(at)
    sentences = (line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True))
    return [part for sentence in sentences for part in cut_long(sentence)]


def _width(text: str) -> int:
    """About as many as there are Latin letters, however the script is counted."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
