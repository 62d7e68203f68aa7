"""What a text says that cannot be guessed again: paths, identifiers, numbers, URLs, hashes, and the lines that matter.

Owns the rules by which facts are recognised, in English, Japanese, Chinese and code, in time linear in the text. A fact
is quoted, never made up: its text stands in the text it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from orihon.system.patterns import lazy_re


class FactKind(StrEnum):
    """What a fact is. The last four are whole lines."""

    URL = "url"
    PATH = "path"
    IDENTIFIER = "identifier"
    HASH = "hash"
    NUMBER = "number"
    ERROR = "error"
    DECISION = "decision"
    CONSTRAINT = "constraint"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, word for word."""

    kind: FactKind
    text: str


# A text is first cut at blanks, quotes and brackets; the finer rules look at each distinct piece once.
PIECE = lazy_re(r"[^\s\"'`<>()\[\]{};|\\,、。,「」『』()【】]+(?:,\d{3})*")
_LONGEST_PIECE = 512

_FACT = lazy_re(
    r"""
    (?P<url>[a-z][a-z0-9+.\-]*://[^\s]+)
  | (?P<path>~?(?:[\w.@\-]*/)+[\w.@\-]*[\w\-])
  | (?P<hash>\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b | \#[0-9A-Fa-f]{3,8}\b)
  | (?P<identifier>
        \b[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+           # a.b, a::b, file.ext
      | \b_*[A-Za-z]+\d*(?:_+[A-Za-z0-9]+)+\b | \b__?[A-Za-z]\w*\b  # snake_case, CONST_CASE, _private
      | \b[A-Za-z]+[a-z0-9][A-Z]\w*\b | \b[A-Z]{2,}[a-z]\w*\b     # camelCase, PascalCase, HTTPServer
      | \b[A-Z]\w*\d\w*\b | \b(?=[A-Z0-9]*[A-Z])[A-Z0-9]{4,}\b      # M05KNL, SELECT
      | (?<![\w-])--?[a-z][\w\-]+                                   # --option
      | [@$][A-Za-z_]\w+                                            # @name, $NAME
    )
  | (?P<number>[$€¥£]?\d[\d.,:\-]*\d%?|\#\d+|\d+%|[$€¥£]\d+)
    """,
    re.X | re.A,
)
_KIND_OF_GROUP = {kind.value: kind for kind in FactKind}
_SHORTEST_FACT = 3

_ERROR = lazy_re(
    r"\b[A-Z]\w*(?:Error|Exception|Warning|Fault)\b|\b(?i:errors?|failed|failure|fatal|exception|panic(?:ked)?|denied"
    r"|refused|traceback|timed out|cannot|can't|unable to|not found|undefined|segfault)\b"
    r"|エラー|失敗|例外|警告|見つかりません|できません|できない|错误|失败|异常|警告|无法|找不到"
)
# Stems of what the pattern looks for: most lines have none, and plain searches are many times faster.
_ERROR_STEMS = (
    *("error", "exception", "warning", "fault", "fail", "fatal", "panic", "denied", "refused", "traceback"),
    *("timed out", "cannot", "can't", "unable", "not found", "undefined", "segfault"),
    *("エラー", "失敗", "例外", "警告", "ません", "できない", "错误", "失败", "异常", "无法", "找不到"),
)
_CONSTRAINT = lazy_re(
    r"\b(?i:must(?: not)?|never|always|do not|don't|only if|make sure|ensure|required?|requirements?|should not"
    r"|shouldn't|at least|at most|no more than|without|except|forbidden|not allowed|policy|prefer|important)\b"
    r"|必ず|絶対|しないで|禁止|してはいけない|以内|以上|以下|だけ|してほしい|してください|不可|必須|条件|制約"
    r"|必须|不要|不能|不得|务必|禁止|至少|最多|只能|一定要"
)
_DECISION = lazy_re(
    r"\b(?i:decid\w+|decision|chose|choose|chosen|we(?:'ll| will)|I(?:'ll| will)|I(?:'m| am) going to|let's|let us"
    r"|instead|agreed?|approved?|confirm\w*|the (?:fix|solution|plan|approach|root cause|issue|problem) is"
    r"|turns out|because|so that|switch(?:ed)? to|works now|now works|fixed|resolved|conclusion)\b"
    r"|決め|決定|にする|ことにし|ことにする|採用|方針|了解|承認|なので|つまり|原因|解決|修正し"
    r"|决定|采用|改用|方案|同意|批准|确认|原因|解决|修复"
)
# Every match of a rule has one of its stems, and looking for those first is many times faster.
_DECISION_STEMS = (
    *("decid", "decision", "chose", "choose", "'ll", " will", "going to", "let's", "let us", "instead", "agree"),
    *("approve", "confirm", "the fix is", "the solution is", "the plan is", "the approach is", "the root cause is"),
    *("the issue is", "the problem is", "turns out", "because", "so that", "switch", "works now", "now works"),
    *("fixed", "resolved", "conclusion", "決", "にする", "ことに", "採用", "方針", "了解", "承認", "なので", "つまり"),
    *("原因", "解決", "修正し", "决定", "采用", "改用", "方案", "同意", "批准", "确认", "解决", "修复"),
)


def names_in(piece: str) -> list[tuple[FactKind, str]]:
    """The facts inside one piece of text that ``PIECE`` found."""
    found: list[tuple[FactKind, str]] = []
    for match in _FACT.finditer(piece, 0, _LONGEST_PIECE):
        name = match[0].rstrip(".,:;-!?*")
        if len(name) >= _SHORTEST_FACT and match.lastgroup is not None:
            found.append((_KIND_OF_GROUP[match.lastgroup], name))
    return found


def is_error(line: str) -> bool:
    """Whether a line reports that something went wrong."""
    return _has_any(line, _ERROR_STEMS) and _ERROR.search(line) is not None


def is_constraint(line: str) -> bool:
    """Whether a line says what must, or must not, be."""
    return _CONSTRAINT.search(line) is not None


def is_decision(line: str) -> bool:
    """Whether a line says what was chosen, found out or agreed."""
    return _has_any(line, _DECISION_STEMS) and _DECISION.search(line) is not None


def _has_any(line: str, stems: tuple[str, ...]) -> bool:
    return any(map(line.lower().__contains__, stems))


def line_kinds(line: str, role: str = "") -> Iterator[FactKind]:
    """What a whole line is, said by someone in this role."""
    if is_error(line):
        yield FactKind.ERROR
    if role in ("", "user", "system", "developer") and is_constraint(line):
        yield FactKind.CONSTRAINT
    if role in ("", "user", "assistant") and is_decision(line):
        yield FactKind.DECISION
