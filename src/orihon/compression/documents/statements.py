"""What a document states: its sentences, and by rule the decisions, reasons and rejections among them.

Everything is quoted, nothing is worded anew. The rules know English and Japanese. They look for the verb first and
then at a bounded stretch around it, so that time stays linear in the text. A line ``**Label**: value`` states its
value exactly as it stands; that is how an extract of an extract stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from orihon.compression.documents.markdown import MarkdownBlock

LABELS = {
    "summary": ("要約", "summary"),
    "decision": (
        *("決定", "決定事項", "最終決定", "採用", "採用案", "選定結果"),
        *("decision", "final decision", "decided", "chosen", "adopted", "selected"),
    ),
    "conclusion": ("結論", "まとめ", "conclusion", "outcome"),
    "reason": ("理由", "選定理由", "採用理由", "根拠", "reason", "reasons", "rationale"),
    "rejected": ("却下", "却下案", "不採用", "見送り", "rejected", "rejected options", "not chosen", "discarded"),
    "considered": ("検討した他の案", "also considered"),
    "trials": ("試行", "trials"),
    "code": ("コード", "code"),
    "details": ("詳細", "details"),
}
_KIND_OF_LABEL = {label: kind for kind, labels in LABELS.items() for label in labels}
_LABEL = re.compile(
    r"(?:\*\*|__)?([^:：*_\s][^:：*_]{0,30}?)(?:\*\*|__)?\s?(?:：(?:\*\*|__)?|:(?:\*\*|__)?(?=\s|$|[^\x00-\x7f]))"
)

_SENTENCE_END = re.compile(r"(?<=[。！？])(?![。！？」』）)])|(?<=[.!?])\s+")
_MARKERS = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)|\[[ xX]\][ \t]+)*")
_QUOTE_MARK = re.compile(r"(?:[ \t]*>)+[ \t]?")
_CELL = re.compile(r"(?<!\\)\|")
_WIDE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")

_AROUND = 200  # characters beside a verb among which its object is looked for
# The rules ask several times about the same few blocks before they go on: so many answers are remembered, and only
# those about short texts, so that no document outlives its compression by much.
_REMEMBERED = 1024
_REMEMBERED_LENGTH = 2000

# A cheap look before the rules proper: plain words in lowered text are found ten times faster than by alternation.
_HINTS = (
    *("decision", "decided", "chose", "select", "adopt", "picked", "settled", "opted", "agreed", "went", "going"),
    *("決", "採", "選", "ことにし"),
)
_REJECTION = re.compile(
    r"不採用|却下|見送(?:る|り|った)|採用し(?:な|ませ)|採用せず|除外し(?:た|ま)"
    r"|(?i:\b(?:rejected|ruled out|discarded|decided against|decided not to|not (?:chosen|selected|adopted)|"
    r"(?:did not|didn't|do not|will not) (?:choose|select|adopt|use|pick))\b)"
)
_DECIDED_JA = re.compile(
    r"(?:を(?:採用|選択|選定|採択|選出)|に(?:決定|決ま|決め)|を(?:決定|決め))"
    r"(?=し(?!な|ませ|てい[なま]|よう)|す(?:る(?!か|べ|と|理由|場合|案|こと(?!に)))|と(?:した|し|する)|いたし|済|った|り|ま|た|て|。|$)(?:することに)?"
    r"|ことに(?:した|し(?:ま|て)|決め|決定)"
)
_CLAUSE_START = re.compile(r"[、，,:：;；。]")
_DECIDED_EN = re.compile(
    r"\b(?:(?:we|i|they|team|you|user|agent|human)\s+(?:have\s+|has\s+|finally\s+|then\s+|all\s+)?"
    r"(?:chose|selected|adopted|picked|chosen)|^(?:chose|selected|adopted|picked)"
    r"|(?:decided|agreed)\s+(?:to\s+(?:use|adopt|choose|go\s+with|pick)|on)|(?:decided|agreed)\s+to"
    r"|settled\s+on|opted\s+for|went\s+with|going\s+with)\s+",
    re.I,
)
_WAS_CHOSEN = re.compile(r"\s+(?:was|were|is|are|has been|have been)\s+(?:chosen|selected|adopted|picked)\b", re.I)
_OBJECT_END = re.compile(
    r",?\s+(?:because|since|due to|rather than|instead of|over|as it|so that|after"
    r"|(?:and|but) (?:rejected|discarded|not))\b|[;(（]|,\s|\.$",
    re.I,
)
_WHY_JA = r"(?P<why>[^。（）]{1,120}?)"
_NO_JA = r"(?:不採用|却下|見送|採用し(?:な|ませ)|採用せず|除外し)"
_NO_EN = r"(?:rejected|ruled out|discarded|not (?:chosen|selected|adopted))"
_REJECTION_RULES = [
    re.compile(
        rf"^(?P<what>[^。は]{{1,60}}?)[はを]、?{_NO_JA}[^（(]{{0,12}}[（(](?:理由[:：]\s*)?(?P<why>[^）)]{{1,120}})[）)]"
    ),
    re.compile(rf"^(?P<what>[^。、は]{{1,60}}?)は、?{_WHY_JA}の?(?:ため|ので|により|から)、?(?:採用を)?{_NO_JA}"),
    re.compile(rf"^{_WHY_JA}の?(?:ため|ので|により|から)、?(?P<what>[^。、は]{{1,60}}?)?[はを]?(?:採用を)?{_NO_JA}"),
    re.compile(rf"^(?:.{{0,60}}、)?(?P<what>[^。、は]{{1,60}}?)[はを]、?(?:採用を)?{_NO_JA}"),
    re.compile(
        rf"^(?P<what>.{{1,60}}?),? (?:was|were|is|are|has been|have been) {_NO_EN}"
        r"(?:,? (?:because of|because|due to|since|as|for) (?P<why>.{1,160}))?",
        re.I,
    ),
    re.compile(
        r"\b(?:rejected|ruled out|discarded|decided against|decided not to use|"
        r"(?:did not|didn't|do not|will not) (?:choose|select|adopt|use|pick))"
        r" (?P<what>(?!because|due|since|as |for ).{1,60}?)"
        r"(?:,? (?:because of|because|due to|since|as|for) (?P<why>.{1,160})|[.,;]|$)",
        re.I,
    ),
    re.compile(rf"\b{_NO_EN},? (?:because of|because|due to|since|as|for) (?P<why>.{{1,160}})", re.I),
]
_PRONOUNS = ("it", "this", "that", "they", "これ", "それ", "こちら")
_BECAUSE_EN = re.compile(r"\b(?:because(?:\s+of)?|due\s+to)\s+(.{2,300})", re.I)
_BECAUSE_JA = re.compile(r"の?(?:ため|ので)(?:、|に)")
_REASON_INTRO = re.compile(r"理由は|理由[:：]?$|根拠は|\breasons?\b[^.]{0,40}(?:[:：]|follow)|\bbecause:$", re.I)
_IMPORTANT = re.compile(
    r"必須|禁止|厳守|(?:なければ|ては|ねば)なら|べからず|制約|承認|エラー|失敗|例外|未解決|未対応|注意"
    r"|(?i:\b(?:must|never|required|forbidden|mandatory|approved|error|exception|failed|failure|warning|todo|unresolved|"
    r"blocked)\b)|\w(?:Error|Exception)\b"
)
_SUCCEEDED = re.compile(r"成功|うまくい|解決し|動作し|(?i:\b(?:succeeded|success|worked|works|passed|solved|fixed)\b)")
_DEFERRED = re.compile(r"(?i:\b(?:not yet|whether|if we|should we)\b)|かどうか|未定|べきか")
_EDGES = " \t　。．.！!、，,;；:：「」"


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
    if sum(map(len, block.lines)) > _REMEMBERED_LENGTH:
        return _statements(block)
    return list(_known_statements(block))


@lru_cache(maxsize=_REMEMBERED)
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
    kind = _KIND_OF_LABEL.get(found[1].strip().lower()) if found else None
    return (kind, trimmed(statement[found.end() :])) if found and kind else None


def trimmed(value: str) -> str:
    """A value without the marks and punctuation around it."""
    while True:
        before = value
        value = value.strip().rstrip("。．.;；、，,")
        for mark in ("**", "__"):
            value = value.removeprefix(mark).removesuffix(mark)
        if value == before:
            return value


def cut_off(words: str, longest: int) -> str:
    """The words, or as many of them as there is room for, and a sign that there were more."""
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def decisions(block: MarkdownBlock) -> Iterator[str]:
    """What a block says was decided."""
    if block.kind not in ("blank", "fence", "rule") and hints(block.text):
        for statement in statements(block):
            yield from decided(statement)


def hints(text: str) -> bool:
    """A cheap look: may the text decide something at all?"""
    return any(map(text.lower().__contains__, _HINTS))


def decided(statement: str) -> list[str]:
    """What a sentence says was decided, most often nothing."""
    return _decided(statement) if len(statement) > _REMEMBERED_LENGTH else list(_known_decided(statement))


@lru_cache(maxsize=_REMEMBERED)
def _known_decided(statement: str) -> tuple[str, ...]:
    return tuple(_decided(statement))


def _decided(statement: str) -> list[str]:
    if (label := labelled(statement)) is not None:
        kind, value = label
        if kind != "conclusion":
            return [value] if kind == "decision" and value else []
        statement = value
    if not hints(statement) or _DEFERRED.search(statement):
        return []
    objects = (trimmed(found.strip(_EDGES)) for found in (*_decided_ja(statement), *_decided_en(statement)))
    return [found for found in objects if found and not _REJECTION.search(found)]


def _decided_ja(statement: str) -> Iterator[str]:
    return (_clause_before(statement, found.start()) for found in _DECIDED_JA.finditer(statement))


def _decided_en(statement: str) -> Iterator[str]:
    for found in _DECIDED_EN.finditer(statement):
        rest = statement[found.end() : found.end() + _AROUND]
        end = _OBJECT_END.search(rest)
        yield rest[: end.start()] if end else rest
    for found in _WAS_CHOSEN.finditer(statement):
        yield _clause_before(statement, found.start())


def _clause_before(statement: str, end: int) -> str:
    return _CLAUSE_START.split(statement[max(0, end - _AROUND) : end])[-1]


def reason(statement: str) -> str:
    """The reason that a sentence gives for what it says, or nothing."""
    if (found := _BECAUSE_EN.search(statement)) is not None:
        return found[1].strip(_EDGES)
    if (found := _BECAUSE_JA.search(statement)) is not None:
        clause = re.split(r"[。]", statement[max(0, found.start() - _AROUND) : found.start()])[-1]
        return re.sub(r"^[^は]{1,20}は、?", "", clause).strip(_EDGES)
    return ""


def announces_reasons(statement: str) -> bool:
    return _REASON_INTRO.search(statement) is not None


def rejects(statement: str) -> bool:
    return labelled(statement) is None and _REJECTION.search(statement) is not None


def rejection(statement: str, option: str = "") -> str:
    """What a sentence rejects and why, as ``Godot (few resources)``; the sentence itself where that is not clear.

    ``option`` is what the sentence is about when it does not say so itself.
    """
    for rule in _REJECTION_RULES:
        if (found := rule.search(statement)) is None:
            continue
        named = found.groupdict()
        what = trimmed((named.get("what") or option).strip(_EDGES))
        if option and what.lower() in _PRONOUNS:
            what = option
        why = trimmed((named.get("why") or "").strip(_EDGES))
        if what:
            return with_reason(what, why)
    return trimmed(statement)


def with_reason(what: str, why: str) -> str:
    if not why:
        return what
    return f"{what}（{why}）" if is_wide(what + why) else f"{what} ({why})"


def succeeded(statement: str) -> bool:
    return _SUCCEEDED.search(statement) is not None


def is_key(statement: str) -> bool:
    """Is the sentence worth more than its neighbours?"""
    return _is_key(statement) if len(statement) > _REMEMBERED_LENGTH else _known_key(statement)


@lru_cache(maxsize=_REMEMBERED)
def _known_key(statement: str) -> bool:
    return _is_key(statement)


def _is_key(statement: str) -> bool:
    return (
        bool(decided(statement))
        or labelled(statement) is not None
        or rejects(statement)
        or _IMPORTANT.search(statement) is not None
        or bool(reason(statement))
    )


def is_wide(text: str) -> bool:
    """Is the text written in Japanese rather than in English?"""
    return _WIDE.search(text) is not None
