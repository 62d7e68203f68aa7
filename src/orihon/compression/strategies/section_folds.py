"""``sections``: old texts, each compressed by itself as a document, so that decisions and protected sections stay.

What users and assistants wrote, and results of tools that are Markdown, are compressed at a level (see ``sections``)
and stand as previews in their own envelopes: of an assistant message with tool calls only the text gets shorter.
Messages with pictures or files are left alone, and so is a message that would lose a pinned line. Oldest first, until
the goal is reached. A preview made at this level or a stronger one is not compressed again, nor are other previews.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from orihon.compression.documents.sections import PRESERVED_PATTERNS, CompressionLevel, compress_document
from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.offload import single_places
from orihon.values.view import PlannedFold

_LEAST_GAIN = 0.1  # of a text that must go, or it is not touched
_SHORTEST = 160  # characters: in a shorter text there is nothing to leave out
_ROLES = ("user", "assistant", "tool")
_MARKDOWN = re.compile(r"^ {0,3}##{1,5} \S|\A\s*# \S[^\n]*\n\s*\n", re.M)
_REASON = "sections:"


@dataclass(frozen=True, slots=True)
class SectionFolds:
    """The strategy."""

    level: CompressionLevel = CompressionLevel.STANDARD
    preserved_patterns: tuple[str, ...] = PRESERVED_PATTERNS
    details: str = ""  # where the whole text lies
    name: ClassVar[str] = "sections"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        places = [place for place in single_places(pages, aim) if self._may_get_shorter(pages, place)]
        if not places:
            return NothingToFold(self.name, WhyNot.NOTHING_OLD)
        folds: list[PlannedFold] = []
        over = pages.tokens - aim.goal
        for place in places:
            if over <= 0:
                break
            if short := self._shortened(pages, place):
                over -= pages.view.entries[place].tokens - pages.preview_tokens(place, short)
                folds.append(pages.preview(place, short, reason=f"{_REASON}{self.level.name.lower()}"))
        return FoldPlan(self.name, tuple(folds)) if folds else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _may_get_shorter(self, pages: Pages, place: int) -> bool:
        """Tells what cannot, without reading it as a document."""
        message, fold = pages.messages[place], pages.view.entries[place].fold
        if fold is None and any(part.kind != "text" for part in message.parts or ()):
            return False
        if fold is not None and not self._is_lighter(fold.reason):
            return False
        said = _said(pages, place)
        if len(said) < _SHORTEST or message.role not in _ROLES:
            return False
        return message.role != "tool" or _MARKDOWN.search(said) is not None

    def _is_lighter(self, reason: str) -> bool:
        """Whether a preview was made here, at a lighter level than this one."""
        lighter = (level for level in CompressionLevel if level.value < self.level.value)
        return any(reason == f"{_REASON}{level.name.lower()}" for level in lighter)

    def _shortened(self, pages: Pages, place: int) -> str:
        """The compressed text; empty when too little is gained or a pinned line is lost."""
        said = _said(pages, place)
        patterns = self.preserved_patterns
        short = compress_document(said, self.level, preserved_patterns=patterns, details=self.details).text
        if not short.strip() or pages.count(short) > (1 - _LEAST_GAIN) * pages.count(said):
            return ""
        if any(line not in short for line in pages.pinned_lines(FoldedRun(place, place + 1))):
            return ""
        return short if pages.preview_tokens(place, short) < pages.view.entries[place].tokens else ""


def _said(pages: Pages, place: int) -> str:
    """The text as it stands in the view."""
    fold = pages.view.entries[place].fold
    return pages.messages[place].text if fold is None else fold.text
