"""What an exploration found: decisions, reasons, rejected options; collected by rule and written as short lines.

Reads the blocks of sections in order and quotes from them; see ``choices`` and ``statements`` for the rules of a
single sentence. Here is what takes more than one: a list after "for these reasons:", a heading that names the option
a sentence is about or says that everything below it is open, "nothing is decided yet" after a sentence, options beside
the chosen one, a row of attempts. A sentence that has to stay and fits no label is quoted whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from orihon.compression.documents.choices import (
    announces_reasons,
    announces_rejections,
    decided,
    is_kept,
    is_non_past,
    is_open_title,
    is_option_title,
    mentions_choice,
    reason,
    rejection,
    retracts,
    takes_back,
    with_reason,
)
from orihon.compression.documents.markdown import MarkdownBlock, MarkdownSection
from orihon.compression.documents.statements import (
    cut_off,
    failed,
    hints,
    is_approval,
    is_bare_failure,
    is_chosen_row,
    is_rule,
    labelled,
    language_of,
    paths,
    row_statements,
    says_nothing,
    sentences,
    statements,
    succeeded,
    trimmed,
)
from orihon.system.patterns import lazy_re
from orihon.texts import text

_EXPLORATION = lazy_re(
    r"調査|検討|比較|探索|試行|選定|実験|検証|リサーチ|候補|選択肢|调研|比较|选型"
    r"|(?i:\b(?:explor\w+|research\w*|investigat\w+|trials?|attempts?|experiment\w*|comparisons?|comparing|evaluat\w+|"
    r"alternatives|options|brainstorm\w*|spikes?|surveys?)\b)"
)
_CONCLUSION = lazy_re(r"結論|まとめ|総括|结论|(?i:\b(?:conclusions?|outcome|verdict)\b)")
_REASONS = lazy_re(r"理由|根拠|(?i:\b(?:reasons?|rationale)\b)")
_REJECTED = lazy_re(r"却下|不採用|見送り|否决|(?i:\b(?:rejected|discarded)\b)")
_TRIAL = lazy_re(
    r"\W*(?:第\s?)?(?:試行|尝试|(?i:trial|attempt|try))\s?[#＃]?\s?\d{1,3}|\W*[\d一二三四五六七八九十]{1,3}\s?[回度]目|\W*第[\d一二三四五六七八九十]{1,3}次"
)
_MARK = lazy_re(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(\[ \](?=[ \t])|>)")
_SEPARATOR = lazy_re(r"[\s|:-]*-[\s|:-]*")

_ONE_LINE = 100  # characters of a reason in its one line
_MOST_OPTIONS = 100  # headings of one question; more are chapters
_MOST_PATHS = 20
_MOST_CHANGES = 50  # sentences among which one is looked for that takes an earlier one back


@dataclass(slots=True)
class Quotations:
    """One list of quotations for each label, the sentences that fit none, and rows of tables."""

    summary: list[str] = field(default_factory=list)
    decision: list[str] = field(default_factory=list)
    conclusion: list[str] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    considered: list[str] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    lang: str = "en"
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
        return "; " if self.lang == "en" else "、"

    def lines(self, end: str, *, barest: bool = False) -> str:
        """The findings as ``- **Label**: value`` lines, then the sentences and the tables.

        ``barest``: what was rejected only where nothing was chosen, and one line of reasons.
        """
        comma = self.comma
        rows: list[tuple[str, str]] = [("summary", value) for value in self.summary]
        rows += [("decision", value) for value in self.decision]
        rows += [("conclusion", value) for value in self.conclusion if not self.decision]
        reasons = comma.join(self.reason)
        rows.append(("reason", cut_off(reasons, _ONE_LINE) if barest else reasons))
        if not barest or not self.decision:
            rows.append(("rejected", comma.join(self.rejected)))
        if not barest:
            rows.append(("considered", comma.join(self.considered)))
        rows.append(("trials", comma.join(self.trials)))
        written = "\n".join([*(value for _, value in rows), *self.sentences, *self.tables])
        rows.append(("paths", comma.join(path for path in self.paths if path not in written)))
        rows += [(kind, value) for kind in ("code", "details") for value in getattr(self, kind)]
        rows.append(("left_out", comma.join(self.left_out)))
        lines = [f"- **{label(kind, self.lang)}**: {value}{end}" for kind, value in rows if value]
        lines += [f"- {sentence}{end}" for sentence in self.sentences]
        return "".join(lines) + "".join((end if lines or at else "") + table for at, table in enumerate(self.tables))


def label(kind: str, lang: str, **fields: object) -> str:
    """How a label is written in a document of this language."""
    if lang == "zh":
        return text(f"sections.zh.{kind}", lang="ja", **fields)
    return text(f"sections.{kind}", lang=lang, **fields)


def is_exploration(section: MarkdownSection) -> bool:
    return _EXPLORATION.search(section.title) is not None


def is_conclusion(section: MarkdownSection) -> bool:
    return _CONCLUSION.search(section.title) is not None


def is_extract(section: MarkdownSection) -> bool:
    """Does the section hold nothing but findings already?"""
    blocks = [block for block in section.blocks if block.kind != "blank"]
    said = [statements(block)[:1] for block in blocks]
    is_labelled = [bool(first) and labelled(first[0]) is not None for first in said]
    return any(is_labelled[:1]) and all(
        known or block.kind in ("item", "table") for known, block in zip(is_labelled, blocks, strict=True)
    )


def section_decisions(section: MarkdownSection) -> Iterator[str]:
    """The decisions in a section's heading and directly below it."""
    yield from title_decisions(section)
    for decisions in _settled(section).values():
        yield from decisions


def title_decisions(section: MarkdownSection) -> Iterator[str]:
    """The decisions in a section's heading."""
    if hints(section.title, "choice") and not _open_title(section):
        for statement in sentences(" ".join(section.title.split())):
            yield from decided(statement)


_Place = tuple[int, int]  # of a sentence: its block, its number there


def _settled(section: MarkdownSection) -> dict[_Place, list[str]]:
    """What the sentences below a heading decide, by their places.

    Labels hold wherever they stand. A sentence does not where it is quoted, in a table, in a box that nobody has
    checked, below a heading that leaves it open, or taken back by what follows.
    """
    found: dict[_Place, list[str]] = {}
    labels: set[_Place] = set()
    for at, block in enumerate(section.blocks):
        if block.kind in ("blank", "fence", "rule", "table") or not hints(block.text, "choice"):
            continue
        for number, statement in enumerate(statements(block)):
            if not (decisions := decided(statement)):
                continue
            if labelled(statement) is not None:
                labels.add((at, number))
            elif _mark(block) or _open_title(section, statement):
                continue
            found[at, number] = decisions
    return _without_retracted(found, labels, section) if len(found) > len(labels) else found


def _open_title(section: MarkdownSection, statement: str = "") -> str:
    """The heading that keeps a sentence below it from settling what it seems to settle, if there is one."""
    if is_option_title(section.title) and is_non_past(statement):
        return section.title
    return next((title for title in (section.title, *section.above) if is_open_title(title)), "")


def _mark(block: MarkdownBlock) -> str:
    """The sign before words that are somebody else's (``>``) or not done yet (``[ ]``)."""
    if block.kind == "quote":
        return "> "
    found = _MARK.match(block.lines[0]) if block.kind == "item" else None
    return f"{found[1]} " if found else ""


def _without_retracted(
    found: dict[_Place, list[str]], labels: set[_Place], section: MarkdownSection
) -> dict[_Place, list[str]]:
    """Without what the next sentence takes back, or a later one by its name."""
    said = {
        (at, number): statement
        for at, block in enumerate(section.blocks)
        for number, statement in enumerate(statements(block))
    }
    following = dict(pairwise(said))
    changes = [place for place, statement in said.items() if place not in labels and takes_back(statement)]

    def holds(place: _Place) -> bool:
        if place in labels:
            return True
        if place in following and retracts(said[following[place]]):
            return False
        at = bisect_right(changes, place)
        later = "\n".join(said[change] for change in changes[at : at + _MOST_CHANGES]).casefold()
        return not any(decision.casefold() in later for decision in found[place])

    return {place: decisions for place, decisions in found.items() if holds(place)}


def collect(sections: Iterable[MarkdownSection]) -> Quotations:
    """What these sections (each without its subsections) found together."""
    sections = list(sections)
    prose = (block.text for section in sections for block in section.blocks if block.kind != "fence")
    found = Quotations(lang=language_of("".join([*(section.title for section in sections), *prose])))
    for section in sections:
        for decision in section_decisions(section):
            found.add("decision", decision)
        _Collector(found, section, is_inner=section is not sections[0]).collect()
    _count_trials(found, sections)
    _add_other_options(found, sections)
    return found


class _Collector:
    """Goes through the blocks of one section; ``_listing`` is what the items of a list that follows are."""

    def __init__(self, found: Quotations, section: MarkdownSection, *, is_inner: bool) -> None:
        self._found = found
        self._section = section
        self._title = section.title if is_inner and not _is_talk(section) else ""  # it goes with the heading
        self._settled = _settled(section)
        self._about = self._kind_of_section()
        self._option = "" if _is_talk(section) else section.title
        self._listing = ""
        self._has_failed = False

    def collect(self) -> None:
        for at, block in enumerate(self._section.blocks):
            if block.kind == "blank":
                continue
            if block.kind != "item":
                self._listing = ""
            if block.kind == "table":
                self._take_table(block)
            elif block.kind == "fence":
                self._take_paths(block.lines[0])
            elif mark := _mark(block):
                self._take_marked(mark, statements(block))
            else:
                self._take(at, block)

    def _kind_of_section(self) -> str:
        for kind, title in (("reason", _REASONS), ("rejected", _REJECTED), ("conclusion", _CONCLUSION)):
            if title.search(self._section.title):
                return kind
        return ""

    def _take(self, at: int, block: MarkdownBlock) -> None:
        said = statements(block)
        if not said:
            return
        listed = self._listing if block.kind == "item" else ""
        if (known := labelled(said[0])) is not None:
            self._take_label(at, *known, said)
        elif (kind := listed or self._about) in ("reason", "rejected"):
            self._take_listed(at, kind, block)
        else:
            if kind == "conclusion" and not self._found.conclusion and not is_kept(said[0]):
                self._found.add("conclusion", trimmed(said[0]))
            self._take_sentences(at, said)
        if block.kind != "item" or said[-1].endswith((":", "：")):
            self._listing = self._announced(said[-1])

    def _take_label(self, at: int, kind: str, value: str, said: list[str]) -> None:
        """A label holds for its whole line, but for what the line decides; one without a value is a sentence."""
        if kind == "decision" or (value and says_nothing(value)):
            self._take_sentences(at, said)
        elif (at, 0) not in self._settled:
            more = [trimmed(one) for number, one in enumerate(said) if number and (at, number) not in self._settled]
            self._found.add(kind, self._found.comma.join(filter(None, [value, *more])))

    def _take_listed(self, at: int, kind: str, block: MarkdownBlock) -> None:
        """The first sentence of what stands under "reasons" or "rejected", where it can be one or the other."""
        said = statements(block)
        value = trimmed(said[0])
        is_plain = (at, 0) not in self._settled and not mentions_choice(said[0])
        if kind == "reason" and (at, 0) not in self._settled:
            self._found.add("reason", value)
        elif kind == "rejected" and is_plain and block.kind == "item":
            what, colon, why = value.partition("：" if "：" in value else ": ")
            self._found.add("rejected", with_reason(what.strip("* "), why.strip()) if colon else value)
        else:
            self._take_sentences(at, said[:1])
        self._take_sentences(at, said, first=1)

    def _take_sentences(self, at: int, said: list[str], *, first: int = 0) -> None:
        for number, statement in enumerate(said[first:], first):
            self._take_paths(statement)
            named = self._rejection(statement, said[:number])
            self._found.add("rejected", named)
            is_settled = (at, number) in self._settled
            if is_settled:
                self._found.add("reason", trimmed(reason(statement)))
            if is_rule(statement) or is_approval(statement) or not (named or is_settled):
                self._take_as_it_is(statement)

    def _rejection(self, statement: str, before: list[str]) -> str:
        """What a sentence rejects; the option that the heading names only where it is still the one spoken of."""
        if _open_title(self._section, statement):
            return ""
        is_spoken_of = not before or any(self._section.title in said for said in before[-1:])
        return rejection(statement, self._option if is_spoken_of else "")

    def _take_as_it_is(self, statement: str) -> None:
        """A sentence that has to stay, with the heading that it needs to be understood; of failures one each."""
        if not is_kept(statement):
            return
        if failed(statement):
            if is_bare_failure(statement) or (self._has_failed and _TRIAL.match(self._section.title)):
                return
            self._has_failed = True
        title = _open_title(self._section, statement)
        if not (title and (decided(statement) or rejection(statement, self._option))):
            title = "" if self._title in statement else self._title
        statement = f"{title}: {statement}" if title and not retracts(statement) else statement
        if retracts(statement):  # of the sentence before it; the next one may be taken back with the same words
            self._found.sentences.append(statement)
        else:
            self._found.add("sentences", statement)

    def _take_marked(self, mark: str, said: list[str]) -> None:
        for statement in said:
            self._take_paths(statement)
            words = statement.removeprefix(mark.strip()).lstrip()
            if is_kept(words):
                self._found.add("sentences", mark + words)

    def _take_table(self, block: MarkdownBlock) -> None:
        """Of a table its head and the rows that say what was chosen, or else those worth more than their neighbours."""
        head = 2 if len(block.lines) > 1 and _SEPARATOR.fullmatch(block.lines[1]) else 0
        rows = block.lines[head:]
        kept = [row for row in rows if is_chosen_row(row) or any(map(is_rule, row_statements(row)))]
        kept = kept or [row for row in rows if any(map(is_kept, row_statements(row)))]
        for row in rows:
            self._take_paths(row)
        if kept:
            self._found.add("tables", "".join([*block.lines[:head], *kept]))

    def _take_paths(self, words: str) -> None:
        for path in paths(words):
            if len(self._found.paths) < _MOST_PATHS:
                self._found.add("paths", path)

    def _announced(self, statement: str) -> str:
        known = labelled(statement)
        if known is not None:
            kind, value = known
            return kind if kind in ("reason", "rejected") and not value else ""
        if announces_rejections(statement):
            return "rejected"
        return "reason" if announces_reasons(statement) else ""


def _count_trials(found: Quotations, sections: list[MarkdownSection]) -> None:
    """Attempts that are numbered, and the last word about success: "after three attempts, Y worked"."""
    attempts = sum(_TRIAL.match(section.title) is not None for section in sections)
    said = [statement for section in sections for block in section.blocks for statement in statements(block)]
    attempts = attempts or sum(_TRIAL.match(statement) is not None for statement in said)
    if attempts < 2 or found.trials:
        return
    worked = [statement for statement in said if succeeded(statement)][-1:]
    count = label("attempts", found.lang, count=attempts)
    found.add("trials", f"{count} → {trimmed(worked[0])}" if worked else count)
    found.sentences = [sentence for sentence in found.sentences if sentence not in worked]


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
