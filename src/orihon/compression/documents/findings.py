"""What an exploration found: decisions, reasons, rejected options; collected by rule and written as short lines.

Reads the blocks of sections in order and quotes from them; see ``statements`` for the rules of a single sentence.
Here is what takes more than one: a list after "for these reasons:", a heading that names the option a sentence is
about, options beside the chosen one, a row of attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orihon.compression.documents.markdown import MarkdownBlock, MarkdownSection
from orihon.compression.documents.statements import (
    announces_reasons,
    cut_off,
    decided,
    decisions,
    hints,
    is_wide,
    labelled,
    reason,
    rejection,
    rejects,
    sentences,
    statements,
    succeeded,
    trimmed,
    with_reason,
)
from orihon.texts import text

_EXPLORATION = re.compile(
    r"調査|検討|比較|探索|試行|選定|実験|検証|リサーチ|候補|選択肢"
    r"|(?i:\b(?:explor\w+|research\w*|investigat\w+|trials?|attempts?|experiment\w*|comparisons?|comparing|evaluat\w+|"
    r"alternatives|options|brainstorm\w*|spikes?|surveys?)\b)"
)
_CONCLUSION = re.compile(r"結論|まとめ|総括|(?i:\b(?:conclusions?|outcome|verdict)\b)")
_REASONS = re.compile(r"理由|根拠|(?i:\b(?:reasons?|rationale)\b)")
_REJECTED = re.compile(r"却下|不採用|見送り|(?i:\b(?:rejected|discarded)\b)")
_TRIAL = re.compile(r"\W*(?:第\s?)?(?:試行|(?i:trial|attempt|try))\s?[#＃]?\s?\d{1,3}|\W*\d{1,3}\s?回目")

_ONE_LINE = 100  # characters of a reason in its one line
_MOST_OPTIONS = 100  # headings of one question; more are chapters


@dataclass(slots=True)
class Quotations:
    """One list of quotations for each label."""

    summary: list[str] = field(default_factory=list)
    decision: list[str] = field(default_factory=list)
    conclusion: list[str] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    considered: list[str] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    wide: bool = False  # written in Japanese
    _added: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def add(self, kind: str, value: str) -> None:
        """Once each, and never nothing."""
        if value and (kind, value) not in self._added:
            self._added.add((kind, value))
            values: list[str] = getattr(self, kind)
            values.append(value)

    @property
    def settles_something(self) -> bool:
        return bool(self.decision or self.conclusion or self.rejected or self.trials)

    @property
    def comma(self) -> str:
        return "、" if self.wide else "; "

    def lines(self, end: str, *, barest: bool = False) -> str:
        """The findings as ``- **Label**: value`` lines; ``barest``: decisions, one line of reasons, pointers."""
        comma = self.comma
        rows: list[tuple[str, str]] = [("summary", value) for value in self.summary]
        rows += [("decision", value) for value in self.decision]
        rows += [("conclusion", value) for value in self.conclusion if not self.decision]
        reasons = comma.join(self.reason)
        rows.append(("reason", cut_off(reasons, _ONE_LINE) if barest else reasons))
        if not barest:
            rows += [(kind, comma.join(getattr(self, kind))) for kind in ("rejected", "considered", "trials")]
        rows += [(kind, value) for kind in ("code", "details") for value in getattr(self, kind)]
        lang = "ja" if self.wide else "en"
        return "".join(f"- **{text(f'sections.{kind}', lang=lang)}**: {value}{end}" for kind, value in rows if value)


def is_exploration(section: MarkdownSection) -> bool:
    return _EXPLORATION.search(section.title) is not None


def is_conclusion(section: MarkdownSection) -> bool:
    return _CONCLUSION.search(section.title) is not None


def is_extract(section: MarkdownSection) -> bool:
    """Does the section hold nothing but findings already?"""
    said = [statements(block)[:1] for block in section.blocks if block.kind != "blank"]
    return bool(said) and all(first and labelled(first[0]) is not None for first in said)


def section_decisions(section: MarkdownSection) -> Iterator[str]:
    """The decisions in a section's heading and directly below it."""
    yield from title_decisions(section)
    for block in section.blocks:
        yield from decisions(block)


def title_decisions(section: MarkdownSection) -> Iterator[str]:
    """The decisions in a section's heading."""
    if hints(section.title):
        for statement in sentences(" ".join(section.title.split())):
            yield from decided(statement)


def collect(sections: Iterable[MarkdownSection]) -> Quotations:
    """What these sections (each without its subsections) found together."""
    sections = list(sections)
    found = Quotations(wide=any(is_wide(section.title) or is_wide(section.own_text) for section in sections))
    for section in sections:
        for decision in section_decisions(section):
            found.add("decision", decision)
        _Collector(found, section).collect()
    _count_trials(found, sections)
    _add_other_options(found, sections)
    return found


class _Collector:
    """Goes through the blocks of one section; ``_listing`` is what the items of a list that follows are."""

    def __init__(self, found: Quotations, section: MarkdownSection) -> None:
        self._found = found
        self._section = section
        self._about = self._kind_of_section()
        self._listing = ""

    def collect(self) -> None:
        for block in self._section.blocks:
            if block.kind == "blank":
                continue
            if block.kind != "item":
                self._listing = ""
            self._take(block)

    def _kind_of_section(self) -> str:
        for kind, title in (("reason", _REASONS), ("rejected", _REJECTED), ("conclusion", _CONCLUSION)):
            if title.search(self._section.title):
                return kind
        return ""

    def _take(self, block: MarkdownBlock) -> None:
        said = statements(block)
        if not said:
            return
        listed = self._listing if block.kind == "item" else ""
        if (label := labelled(said[0])) is not None:
            self._take_label(*label, said)
        elif (kind := listed or self._about) in ("reason", "rejected"):
            self._take_listed(kind, said[0])
        else:
            if kind == "conclusion" and not self._found.conclusion and not rejects(said[0]):
                self._found.add("conclusion", trimmed(said[0]))
            self._take_sentences(said)
        if block.kind != "item" or said[-1].endswith((":", "：")):
            self._listing = self._announced(said[-1])

    def _take_label(self, kind: str, value: str, said: list[str]) -> None:
        """A label holds for its whole line, but for what the line decides."""
        more = [trimmed(statement) for statement in said[1:] if not decided(statement)]
        if kind == "decision":
            self._take_sentences(said[1:])
        elif not decided(said[0]):
            self._found.add(kind, self._found.comma.join(filter(None, [value, *more])))

    def _take_listed(self, kind: str, statement: str) -> None:
        if decided(statement):
            return
        value = trimmed(statement)
        if kind == "rejected":
            what, colon, why = value.partition("：" if "：" in value else ": ")
            value = (
                rejection(value) if rejects(value) else with_reason(what.strip("* "), why.strip()) if colon else value
            )
        self._found.add(kind, value)

    def _take_sentences(self, said: list[str]) -> None:
        for statement in said:
            if rejects(statement):
                self._found.add("rejected", rejection(statement, self._section.title))
            elif decided(statement):
                self._found.add("reason", trimmed(reason(statement)))

    def _announced(self, statement: str) -> str:
        label = labelled(statement)
        if label is not None:
            kind, value = label
            return kind if kind in ("reason", "rejected") and not value else ""
        if statement.endswith((":", "：")) and rejects(statement):
            return "rejected"
        return "reason" if announces_reasons(statement) else ""


def _count_trials(found: Quotations, sections: list[MarkdownSection]) -> None:
    """Attempts that are numbered, and the last word about success: "after three attempts, Y worked"."""
    attempts = sum(_TRIAL.match(section.title) is not None for section in sections)
    said = [statement for section in sections for block in section.blocks for statement in statements(block)]
    attempts = attempts or sum(_TRIAL.match(statement) is not None for statement in said)
    if attempts < 2 or found.trials:
        return
    worked = [statement for statement in said if succeeded(statement)]
    lang = "ja" if found.wide else "en"
    count = text("sections.attempts", lang=lang, count=attempts)
    found.add("trials", f"{count} → {trimmed(worked[-1])}" if worked else count)


def _add_other_options(found: Quotations, sections: list[MarkdownSection]) -> None:
    """Headings beside one that names what was chosen are the options that were not."""
    settled = " ".join(found.rejected + found.considered).casefold()
    chosen = "\n".join(found.decision).casefold()
    for parent in sections:
        titles = [child.title for child in parent.children if not child.protected and not _is_talk(child)]
        if len(titles) <= _MOST_OPTIONS and any(_names(title, chosen) for title in titles):
            for title in titles:
                if not _names(title, chosen) and title.casefold() not in settled:
                    found.add("considered", title)


def _is_talk(section: MarkdownSection) -> bool:
    return any(pattern.search(section.title) for pattern in (_CONCLUSION, _REASONS, _REJECTED, _EXPLORATION))


def _names(title: str, chosen: str) -> bool:
    return len(title) > 1 and title.casefold() in chosen
