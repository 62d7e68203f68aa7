"""What a document states: its sentences, and by rule the outcomes, approvals, rules and paths in them.

The rules know English, Japanese and simplified Chinese; ``choices`` has those for decisions. A line such as
``**Label**: value`` states its value exactly as it stands; that is how an extract of an extract stays the same.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files

from orihon.compression.documents.markdown import MarkdownBlock
from orihon.system.patterns import lazy_re

LABELS = {
    "summary": ("要約", "summary", "摘要"),
    "decision": (
        *("決定", "決定事項", "最終決定", "採用", "採用案", "選定結果", "决定", "最终决定", "采用"),
        *("decision", "final decision", "decided", "chosen", "adopted", "selected"),
    ),
    "conclusion": ("結論", "まとめ", "conclusion", "outcome", "结论"),
    "reason": ("理由", "選定理由", "採用理由", "根拠", "reason", "reasons", "rationale", "原因"),
    "rejected": (
        *("却下", "却下案", "不採用", "見送り", "拒绝", "否决"),
        *("rejected", "rejected options", "not chosen", "discarded"),
    ),
    "considered": ("検討した他の案", "also considered", "其他方案"),
    "trials": ("試行", "trials", "尝试"),
    "paths": ("パス", "paths", "路径"),
    "left_out": ("省略", "left out"),
    "code": ("コード", "code", "代码"),
    "details": ("詳細", "details", "详情"),
}
_KIND_OF_LABEL = {label: kind for kind, labels in LABELS.items() for label in labels}
_LABEL = lazy_re(
    r"(?:\*\*|__)?([^:：*_\s][^:：*_]{0,30}?)(?:\*\*|__)?\s?(?:：(?:\*\*|__)?|:(?:\*\*|__)?(?=\s|$|[^\x00-\x7f]))"
)

_SENTENCE_END = lazy_re(r"(?<=[。！？])(?![。！？」』）)])|(?<=[.!?])\s+")
_MARKERS = lazy_re(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)|\[[ xX]\][ \t]+)*")
_QUOTE_MARK = lazy_re(r"(?:[ \t]*>)+[ \t]?")
_CELL = lazy_re(r"(?<!\\)\|")
_WIDE = lazy_re(r"[\u3000-\u9fff\uff00-\uffef]")

# The rules ask several times about the same few blocks before they go on: so many answers are remembered, and only
# those about short texts, so that no document outlives its compression by much.
REMEMBERED = 1024
REMEMBERED_LENGTH = 2000

EDGES = " \t　。．.！!、，,;；:："

_BESIDE_LABEL = lazy_re(r"\s?[（(][^（）()]*[）)]$")
_PART = lazy_re(r"@(\w+)@")
_KANA = lazy_re(r"[\u3041-\u30ff]")
_SIMPLIFIED = lazy_re(r"[们这为说时个来对开发经过还进选择决绝应该]")


@cache
def rule(name: str) -> re.Pattern[str]:
    """A rule of the grammar."""
    grammar = _grammar()
    expression = grammar["rules"][name]
    while (part := _PART.search(expression)) is not None:
        expression = expression.replace(part[0], f"(?:{grammar['parts'][part[1]]})")
    return re.compile(expression)


@cache
def _grammar() -> dict[str, dict[str, str]]:
    tables = tomllib.loads(files(__package__).joinpath("grammar.toml").read_text(encoding="utf-8"))
    return {
        table: {name: value.replace("\\\n ", "").strip("\n").replace("\n", "|") for name, value in rules.items()}
        for table, rules in tables.items()
    }


@cache
def _words(name: str) -> tuple[str, ...]:
    return tuple(_grammar()["hints"][name].split("|"))


def hints(text: str, kind: str) -> bool:
    """A cheap look: may the text say something of this kind at all?

    Plain words in lowered text are found ten times faster than by alternation.
    """
    return any(map(text.lower().__contains__, _words(kind)))


def collapsed(lines: tuple[str, ...] | list[str]) -> str:
    """The lines as one; Japanese needs no blank where they meet."""
    result = ""
    for line in lines:
        words = " ".join(line.split())
        if result and words and not (_WIDE.match(result[-1]) and _WIDE.match(words[0])):
            result += " "
        result += words
    return result


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the bullets and numbers before them."""
    return [stripped for piece in _SENTENCE_END.split(text) if (stripped := unmarked(piece).strip())]


def statements(block: MarkdownBlock) -> list[str]:
    """The sentences of a block; code, blank lines and dividing lines state nothing."""
    if block.kind in ("blank", "fence", "rule"):
        return []
    if sum(map(len, block.lines)) > REMEMBERED_LENGTH:
        return _statements(block)
    return list(_known_statements(block))


@lru_cache(maxsize=REMEMBERED)
def _known_statements(block: MarkdownBlock) -> tuple[str, ...]:
    return tuple(_statements(block))


def _statements(block: MarkdownBlock) -> list[str]:
    match block.kind:
        case "paragraph":
            return sentences(_joined(block.lines))
        case "item":
            return sentences(unmarked(_joined(block.lines)))
        case "quote":
            return [said for line in block.lines for said in sentences(_joined((_QUOTE_MARK.sub("", line, 1),)))]
        case "table":
            return [said for line in block.lines for said in row_statements(line)]
        case _:
            return []


def _joined(lines: tuple[str, ...]) -> str:
    return collapsed(lines) if len(lines) < 200 else " ".join(" ".join(lines).split())


def row_statements(line: str) -> list[str]:
    """The sentences in the cells of a table's row."""
    return [said for cell in _CELL.split(line) for said in sentences(" ".join(cell.split()))]


def unmarked(line: str) -> str:
    """A line of a list without its bullet, number or check box."""
    return line[markers(line) :]


def markers(line: str) -> int:
    """How many characters the bullet, number or check box of a line takes."""
    found = _MARKERS.match(line)
    return found.end() if found else 0


def labelled(statement: str) -> tuple[str, str] | None:
    """``(kind, value)`` of a line such as ``**Decision**: Unity``; the value may be empty."""
    found = _LABEL.match(statement)
    kind = _KIND_OF_LABEL.get(_BESIDE_LABEL.sub("", found[1]).strip().lower()) if found else None
    return (kind, trimmed(statement[found.end() :])) if found and kind else None


def says_nothing(value: str) -> bool:
    """Does the value of a label only say that there is none yet?"""
    return rule("no_value").fullmatch(value) is not None


def trimmed(value: str) -> str:
    """A value without the marks and punctuation around it."""
    while True:
        before = value
        value = value.strip().rstrip("。．.;；、，,")
        for mark in ("**", "__"):
            value = value.removeprefix(mark).removesuffix(mark)
        if value[:1] == "「" and value.find("」") == len(value) - 1:
            value = value[1:-1]
        if value == before:
            return value


def cut_off(words: str, longest: int) -> str:
    """The words, or as many of them as there is room for, and a sign that there were more."""
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def unquoted(statement: str) -> str:
    """The sentence, as long as it was, with letters that say nothing for what stands in quotation marks."""
    return rule("inside_quotes").sub(lambda quoted: "Q" * len(quoted[0]), statement)


def succeeded(statement: str) -> bool:
    """Does the sentence report a success?"""
    return _says(statement, "succeeded")


def failed(statement: str) -> bool:
    """Does the sentence report a failure or an error?"""
    return _says(statement, "failed")


def is_bare_failure(statement: str) -> bool:
    """Does the sentence say that something failed, and nothing else?"""
    return len(re.sub(r"\W", "", rule("failed").sub("", statement))) < 4


def is_rule(statement: str) -> bool:
    """Does the sentence say what has to be, or must not be?"""
    return _says(statement, "rule")


def is_approval(statement: str) -> bool:
    """Does the sentence report that somebody approved?"""
    return _says(statement, "approved")


def _says(statement: str, kind: str) -> bool:
    if not hints(statement, kind) or rule(kind).search(statement) is None:
        return False
    return rule(f"not_{kind}").search(statement) is None


def is_open_work(statement: str) -> bool:
    return rule("open_work").search(statement) is not None


def is_chosen_row(line: str) -> bool:
    """Does a cell of a table's row say that this one was chosen?"""
    return any(rule("chosen_cell").match(cell.strip()) for cell in _CELL.split(line) if cell.strip())


def paths(statement: str) -> list[str]:
    """The files, folders and addresses that a sentence names."""
    found = (match[0].rstrip(".,;:") for match in rule("path").finditer(statement))
    return [path for path in found if path.strip("./")]


def language_of(text: str) -> str:
    """``ja``, ``zh`` or ``en``: the language in which labels for the text are written."""
    if 10 * len(_WIDE.findall(text)) < len(text) or not is_wide(text):
        return "en"
    return "ja" if _KANA.search(text) or not _SIMPLIFIED.search(text) else "zh"


def is_wide(text: str) -> bool:
    """Is the text written in Japanese rather than in English?"""
    return _WIDE.search(text) is not None
