"""The three ways of rewriting a document: light, standard, aggressive. Pure functions from a tree to a text.

A heading goes only together with everything below it, so the sections that stay keep their extent; AGGRESSIVE leaves
none with nothing below it. What is protected is copied. Blocks stay apart: where something was left out, a blank line
stands. Each of them may be applied to its own result. Whether a result is taken is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from orihon.compression.documents.brief import barest_code, brief, depth, join, shorter_quote
from orihon.compression.documents.findings import (
    Quotations,
    collect,
    is_conclusion,
    is_exploration,
    is_extract,
    section_decisions,
    title_decisions,
)
from orihon.compression.documents.markdown import MarkdownBlock, MarkdownSection
from orihon.compression.documents.statements import cut_off, statements, trimmed

_SAME_FROM = 40  # characters from which a repeated text is an explanation and not a phrase
_LONG_QUOTE = 8
_FIRST_WORDS = 120
_MOST_TITLES = 20  # of sections that are gone
_NAMING = 20  # characters of a line that names them, beside their titles


@dataclass(frozen=True, slots=True)
class Manner:
    """What the rewriting needs to know beside the document."""

    line_end: str = "\n"
    archive: str = ""  # where the whole text lies


# A heading is handed on as its lines, everything else as text: see ``_assembled``.
_Piece = str | tuple[str, ...]


# ---- light ---------------------------------------------------------------------------------------------------------


def light(root: MarkdownSection, manner: Manner) -> str:
    """Without repeated explanations, runs of blank lines and the middle of long quotations."""
    return _assembled(_light(root, manner, set()), manner)


def _light(section: MarkdownSection, manner: Manner, seen: set[str]) -> Iterator[_Piece]:
    yield section.heading
    if section.protected:
        seen.update(map(_sameness, section.blocks))
        yield section.own_text
    elif section.blocks:
        yield join(
            section.blocks, [_lighter(block, below, seen) for block, below in _pairs(section.blocks)], manner.line_end
        )
    for child in section.children:
        yield from _light(child, manner, seen)


def _lighter(block: MarkdownBlock, below: MarkdownBlock | None, seen: set[str]) -> str:
    if block.kind in ("paragraph", "quote") or (block.kind == "item" and not _holds(block, below)):
        same = _sameness(block)
        if len(same) >= _SAME_FROM and same in seen:
            return ""
        seen.add(same)
    return shorter_quote(block, _LONG_QUOTE) if block.kind == "quote" else block.text


def _sameness(block: MarkdownBlock) -> str:
    return " ".join(statements(block))


def _pairs(blocks: tuple[MarkdownBlock, ...]) -> Iterator[tuple[MarkdownBlock, MarkdownBlock | None]]:
    """Each block with the next one that is not blank."""
    filled = [block for block in blocks if block.kind != "blank"]
    after = iter([*filled[1:], None])
    for block in blocks:
        yield block, None if block.kind == "blank" else next(after)


def _holds(item: MarkdownBlock, below: MarkdownBlock | None) -> bool:
    """Does the next block lie inside this item?"""
    return below is not None and depth(below) > depth(item)


# ---- standard ------------------------------------------------------------------------------------------------------


def standard(root: MarkdownSection, manner: Manner) -> str:
    """Explorations as what they found, everything else brief."""
    return _assembled(_standard(root, manner), manner)


def _standard(section: MarkdownSection, manner: Manner) -> Iterator[_Piece]:
    if section.protected:
        yield from _copied(section)
        return
    if is_exploration(section) and not _is_title(section) and (explored := _explored(section, manner)):
        yield from explored
        return
    yield section.heading
    if section.blocks:
        yield brief(section.blocks, manner.line_end)
    for child in section.children:
        yield from _standard(child, manner)


def _is_title(section: MarkdownSection) -> bool:
    """Is the heading the title of a document, which has explorations among its chapters?"""
    return section.level == 1 and any(map(is_exploration, section.children))


def _copied(section: MarkdownSection) -> Iterator[_Piece]:
    for inner in section.walk():
        yield inner.heading
        yield inner.own_text


def _explored(section: MarkdownSection, manner: Manner) -> list[_Piece]:
    """What an exploration found, under its own heading and that of each topic; nothing when that is not shorter."""
    topics, rest = _topics(section)
    own = collect([section, *(inner for child in rest for inner in child.open_sections())])
    settled = own.settles_something
    if not settled and not topics and not own.summary:
        return []
    last = _without_children(section) if topics else section
    body = _found(own, last, manner) if settled or own.summary else brief(section.blocks, manner.line_end)
    pieces: list[_Piece] = [section.heading, body]
    for at, child in enumerate(section.children):
        if at in topics:
            pieces += _topic(child, topics[at], manner)
        else:
            pieces += _skeleton(child) if settled else _standard(child, manner)
    return pieces if sum(map(len, _flat(pieces))) < len(section.text) else []


def _topics(section: MarkdownSection) -> tuple[dict[int, list[MarkdownSection]], list[MarkdownSection]]:
    """Which subsections settle something, by themselves or in the conclusion that follows them; and the others.

    Several open subsections before a conclusion are the options of one question: they belong to the section itself.
    """
    topics: dict[int, list[MarkdownSection]] = {}
    rest: list[MarkdownSection] = []
    waiting: list[int] = []
    for at, child in enumerate(section.children):
        if child.protected:
            continue
        if is_conclusion(child) and len(waiting) == 1:
            topics[waiting.pop()] = [*section.children[at - 1].open_sections(), *child.open_sections()]
            topics[at] = []
        elif is_conclusion(child):
            rest += [*(section.children[option] for option in waiting), child]
            waiting = []
        elif is_extract(child) or (child.children and _decides(child)):
            topics[at] = list(child.open_sections())
        else:
            waiting.append(at)
    return topics, [*rest, *(section.children[at] for at in waiting)]


def _decides(section: MarkdownSection) -> bool:
    return any(True for inner in section.open_sections() for _ in section_decisions(inner))


def _topic(section: MarkdownSection, sections: list[MarkdownSection], manner: Manner) -> Iterator[_Piece]:
    """A topic with what was found about it; a conclusion that has gone into its topic leaves what is protected."""
    if not sections:
        yield from _skeleton(section)
        return
    findings = collect(sections)
    if not findings.settles_something:
        yield from _standard(section, manner)
        return
    yield section.heading
    yield _found(findings, sections[-1], manner)
    for child in section.children:
        yield from _skeleton(child)


def _found(findings: Quotations, section: MarkdownSection, manner: Manner) -> str:
    if manner.archive and not findings.details:
        findings.add("details", manner.archive)
    return findings.lines(manner.line_end) + _last_blank(section, manner)


def _skeleton(section: MarkdownSection) -> Iterator[_Piece]:
    """Of a section only what is protected, below the headings that lead there."""
    if section.protected:
        yield from _copied(section)
    elif any(True for _ in section.protected_sections()):
        yield section.heading
        for child in section.children:
            yield from _skeleton(child)


def _last_blank(section: MarkdownSection, manner: Manner) -> str:
    """A blank line at the end where the section had one."""
    last = next(reversed(list(section.open_sections()))).blocks[-1:]
    return manner.line_end if last and last[0].kind == "blank" else ""


# ---- aggressive ----------------------------------------------------------------------------------------------------


def aggressive(root: MarkdownSection, manner: Manner) -> str:
    """Decisions with one line of reasons, rules, approvals, outcomes and paths; the titles of the rest in one line."""
    pieces = _outline(root, manner, root)
    if not pieces:
        # A section of which there is nothing to say does not vanish when it is the only one.
        first = next((section for section in root.open_sections() if _says_something(section)), root)
        pieces = _outline(root, manner, first)
    return _assembled(pieces, manner)


def _outline(section: MarkdownSection, manner: Manner, first: MarkdownSection) -> list[_Piece]:
    """What is left of a section, with its heading; nothing where nothing below that is. Of ``first`` something is."""
    if section.protected:
        return list(_copied(section))
    outlines = [_outline(child, manner, first) for child in section.children]
    own = _barest(section, manner, is_first=section is first)
    if not own and not any(outlines):
        return []
    gone = [child for child, outline in zip(section.children, outlines, strict=True) if not outline]
    gone = [child for child in gone if any(map(_says_something, child.walk()))]
    if sum(len(child.title) + 2 for child in gone[:_MOST_TITLES]) + _NAMING < sum(len(child.text) for child in gone):
        own = _barest(section, manner, gone, is_first=section is first)
    else:  # to name them takes more than they do
        places = {id(child) for child in gone}
        outlines = [
            list(_copied(child)) if id(child) in places else outline
            for child, outline in zip(section.children, outlines, strict=True)
        ]
    return [section.heading, own, *(piece for outline in outlines for piece in outline)]


def _says_something(section: MarkdownSection) -> bool:
    return any(block.kind not in ("blank", "rule") for block in section.blocks)


def _barest(section: MarkdownSection, manner: Manner, gone: Sequence[MarkdownSection] = (), *, is_first: bool) -> str:
    """The body of a section at its barest, with the titles below it that are gone; as it was when that is shorter."""
    if not section.blocks and not gone and not any(title_decisions(section)):
        return ""
    findings = collect([_without_children(section)])
    if not findings.decision and not findings.conclusion:
        findings.reason.clear()
    if is_first and not findings.lines("", barest=True):
        said = (said for block in section.blocks for said in statements(block))
        if not (first := next(filter(_is_said, said), "")):
            return _first_code(section, manner)
        findings.add("sentences", cut_off(first, _FIRST_WORDS))
    for child in gone[:_MOST_TITLES]:
        findings.add("left_out", trimmed(cut_off(child.title, _FIRST_WORDS)))
    pointers = [findings.code]
    if manner.archive and not findings.code and not findings.details and _has_code(section):
        pointers = [[manner.archive], []]  # a long path must not be the reason to keep the code
    for pointer in pointers:
        findings.code = pointer
        lines = findings.lines(manner.line_end, barest=True)
        if lines:
            lines += manner.line_end if gone and not section.level else _last_blank(_without_children(section), manner)
        if len(lines) < len(section.own_text) or gone or not _says_something(section):
            return lines
    return section.own_text


def _has_code(section: MarkdownSection) -> bool:
    return any(block.kind == "fence" for block in section.blocks)


def _without_children(section: MarkdownSection) -> MarkdownSection:
    return replace(section, children=())


def _first_code(section: MarkdownSection, manner: Manner) -> str:
    """Of a text that is nothing but code, the beginning and the end of that."""
    code = next((block for block in section.blocks if block.kind == "fence"), None)
    return section.own_text if code is None else barest_code(code, manner.line_end)


def _is_said(statement: str) -> bool:
    return any(map(str.isalnum, statement))


# ---- joining -------------------------------------------------------------------------------------------------------


def _assembled(pieces: Iterable[_Piece], manner: Manner) -> str:
    """The pieces as one text.

    An underlined heading needs a blank line before it to be one, unless it is underlined with ``=`` and directly
    follows another heading.
    """
    result: list[str] = []
    after_heading = False
    for piece in pieces:
        if isinstance(piece, str):
            if piece:
                result.append(piece)
                after_heading = False
            continue
        underline = piece[1].lstrip()[0] if len(piece) == 2 else ""
        if underline and result and not _ends_blank(result[-1]) and not (underline == "=" and after_heading):
            result.append(manner.line_end)
        result += piece
        after_heading = True
    return "".join(result)


def _flat(pieces: Iterable[_Piece]) -> Iterator[str]:
    for piece in pieces:
        yield from piece if isinstance(piece, tuple) else (piece,)


def _ends_blank(text: str) -> bool:
    text = text.removesuffix("\n").removesuffix("\r")
    return not text[max(text.rfind("\n"), text.rfind("\r")) + 1 :].strip()
