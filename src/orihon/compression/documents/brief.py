"""Blocks made brief: the first sentence, the first items, the first rows, and whatever is worth more than the rest.

Blocks stay apart: where something was left out, a blank line stands. A block that would not get shorter stays as it
is, and what was made brief stays so when it is made brief again.
"""

from __future__ import annotations

from collections.abc import Iterator

from orihon.compression.documents.choices import is_kept, is_key
from orihon.compression.documents.markdown import MarkdownBlock
from orihon.compression.documents.statements import cut_off, markers, paths, row_statements, sentences, statements

_SHORT_QUOTE = 4
_QUOTE_LINE = 800
_LONG_TEXT = 160
_LONG_LIST = 6
_LONG_TABLE = 9
_LONG_CODE = 14
_BAREST_CODE = 4
_CODE_LINE = 120
_OMISSION = "- […]"


def join(blocks: tuple[MarkdownBlock, ...], shortened: list[str], end: str) -> str:
    """The blocks in their new form, with one blank line where there were some or where a block was left out.

    Items of one list need none between them: they stay apart by their bullets.
    """
    pieces: list[str] = []
    blank = left_out = in_list = False
    for block, piece in zip(blocks, shortened, strict=True):
        if block.kind == "blank" or not piece:
            blank |= block.kind == "blank"
            left_out |= block.kind != "blank"
            in_list &= block.kind in ("blank", "item")
            continue
        if blank or (left_out and not (in_list and block.kind == "item")):
            pieces.append(end)
        pieces.append(piece)
        blank = left_out = False
        in_list = block.kind == "item"
    if blank:
        pieces.append(end)
    return "".join(pieces)


def depth(block: MarkdownBlock) -> int:
    first = block.lines[0].expandtabs(4)
    return len(first) - len(first.lstrip(" "))


def brief(blocks: tuple[MarkdownBlock, ...], end: str) -> str:
    shortened = [_briefer(block, end) for block in blocks]
    for run in _lists(blocks):
        _shorten_list(blocks, run, shortened, end)
    return join(blocks, shortened, end)


def _briefer(block: MarkdownBlock, end: str) -> str:
    match block.kind:
        case "paragraph":
            brief = _as_bullets(block, end)
        case "item":
            brief = _shorter_item(block, end)
        case "quote":
            brief = shorter_quote(block, _SHORT_QUOTE)
        case "table":
            brief = _shorter_table(block, end)
        case "fence":
            brief = _shorter_code(block, end)
        case "rule":
            return ""
        case _:
            return block.text
    return brief if len(brief) < len(block.text) else block.text


def _kept_sentences(block: MarkdownBlock) -> list[str]:
    """The first sentence and those worth more than their neighbours; none when there is nothing to leave out."""
    said = statements(block)
    if len(said) < 2 or len(block.text) <= _LONG_TEXT:
        return []
    kept = [said[0], *(one for one in said[1:] if is_key(one) or paths(one))]
    if len(kept) == len(said) or any(statement.startswith(("```", "~~~")) for statement in kept):
        return []
    return kept


def _as_bullets(block: MarkdownBlock, end: str) -> str:
    kept = _kept_sentences(block)
    indent = block.lines[0][: len(block.lines[0]) - len(block.lines[0].lstrip(" \t"))]
    return "".join(f"{indent}- {statement}{end}" for statement in kept) if kept else block.text


def _shorter_item(block: MarkdownBlock, end: str) -> str:
    kept = _kept_sentences(block)
    if not kept:
        return block.text
    first = block.lines[0]
    said = "".join(one if one.endswith(("。", "！", "？")) else one + " " for one in kept).rstrip()
    return f"{first[: markers(first)]}{said}{end}"


def shorter_quote(block: MarkdownBlock, longest: int) -> str:
    """The beginning and the end of a quotation, and what has to stay."""
    lines = [_shorter_line(line) for line in block.lines]
    if len(lines) <= longest:
        return "".join(lines)
    head = longest // 2
    kept = [line for line in lines[head:-1] if _has_to_stay(line.lstrip(" \t>"))]
    end = lines[0][len(lines[0].rstrip("\r\n")) :]
    return "".join([*lines[:head], f"> […]{end}", *kept, lines[-1]])


def _shorter_line(line: str) -> str:
    if len(line) <= _QUOTE_LINE:
        return line
    words = line.rstrip("\r\n")
    cut = words[: _QUOTE_LINE // 2].rstrip() + " […]"
    return line if _has_to_stay(words.lstrip(" \t>")) or _has_to_stay(cut.lstrip(" \t>")) else cut + line[len(words) :]


def _has_to_stay(words: str) -> bool:
    return any(map(is_kept, sentences(" ".join(words.split()))))


def _shorter_table(block: MarkdownBlock, end: str) -> str:
    """Head, first rows, and rows worth more."""
    if len(block.lines) <= _LONG_TABLE:
        return block.text
    head = 6
    kept = [line for line in block.lines[head:] if any(map(is_key, row_statements(line)))]
    return "".join([*block.lines[:head], f"| … |{end}", *kept])


def _shorter_code(block: MarkdownBlock, end: str) -> str:
    if len(block.lines) <= _LONG_CODE:
        return block.text
    return "".join([*block.lines[:7], f"…{end}", *block.lines[-3:]])


def barest_code(block: MarkdownBlock, end: str) -> str:
    """The first lines of a fence and the last one, long lines cut off."""
    opener, *code, closer = block.lines
    if len(code) > _BAREST_CODE:
        code = [*code[: _BAREST_CODE - 2], f"…{end}", code[-1]]
    shortened = (cut_off(words := line.rstrip("\r\n"), _CODE_LINE) + line[len(words) :] for line in code)
    return "".join([opener, *shortened, closer])


def _lists(blocks: tuple[MarkdownBlock, ...]) -> Iterator[list[int]]:
    """The places of the items of each list; blank lines do not end a list."""
    run: list[int] = []
    for at, block in enumerate(blocks):
        if block.kind == "item":
            run.append(at)
        elif block.kind != "blank" and run:
            yield run
            run = []
    if run:
        yield run


def _shorten_list(blocks: tuple[MarkdownBlock, ...], run: list[int], shortened: list[str], end: str) -> None:
    """Of a long list the first outer items and those worth more; one line says that others were left out."""
    if len(run) <= _LONG_LIST:
        return
    outermost = min(depth(blocks[at]) for at in run)
    outer = [at for at in run if depth(blocks[at]) == outermost and blocks[at].text.strip() != _OMISSION]
    first = set(outer[: _LONG_LIST - 1])
    left_out = [at for at in run if at not in first and not any(map(is_key, statements(blocks[at])))]
    omission = f"{' ' * outermost}{_OMISSION}{end}"
    if sum(len(shortened[at]) for at in left_out) > len(omission):
        for at in left_out:
            shortened[at] = ""
        after_first = (at for at in left_out if at > max(first))
        shortened[next(after_first, left_out[-1])] = omission
