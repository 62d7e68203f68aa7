"""What in a text tells who somebody is: names, addresses, telephone numbers, e-mail addresses.

Names are found where something says that they are names (``Author:``, "my name is", 様, さん, 氏名), or because they
were told: no list of all names exists, and a guess at every capitalised word would ruin code. The same text always
becomes the same placeholder, so that a conversation stays readable. Linear time on any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from orihon.guard.masking.vault import PLACEHOLDER

_NAME = r"[A-Z][A-Za-z'’.-]{1,30}(?:[ \t][A-Z][A-Za-z'’.-]{1,30}){0,3}"
_KANJI_NAME = r"[\u4e00-\u9fff々ヶ]{1,4}[ \u3000]?[\u4e00-\u9fff々\u3041-\u3096\u30a1-\u30fa]{1,4}"
_KANA_NAME = r"[\u30a1-\u30faー]{2,12}(?:[・ \u3000][\u30a1-\u30faー]{2,12})?"
_JAPANESE_NAME = rf"(?:{_KANJI_NAME}|{_KANA_NAME})"

#: Kind and expression; the group ``it`` is what is replaced, the whole match where there is none.
_RULES: tuple[tuple[str, str], ...] = (
    (
        "EMAIL",
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])",
    ),
    (
        "NAME",
        rf"(?m)^[ \t]{{0,8}}(?:Author|Committer|From|Signed-off-by|Reviewed-by|Co-authored-by):[ \t]+(?P<it>{_NAME})",
    ),
    ("NAME", rf"\b(?:[Mm]y name is|I am called|[Nn]ame:|[Dd]ear|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)[ \t]+(?P<it>{_NAME})"),
    ("NAME", rf"(?:氏名|お名前|名前|担当者?|署名)[ \t\u3000]*[:：は][ \t\u3000]*(?P<it>{_JAPANESE_NAME})"),
    ("NAME", rf"(?:私は|わたしは|こちらは)[ \t\u3000]*(?P<it>{_JAPANESE_NAME})(?=です|と申し|といい)"),
    ("NAME", rf"(?P<it>{_JAPANESE_NAME})(?=(?:様|さん|氏|先生|殿)(?![\u4e00-\u9fff]))"),
    ("PHONE", r"(?<![\w.+-])\+[0-9]{1,3}[ .-]?(?:\(?[0-9]{1,4}\)?[ .-]?){2,5}[0-9]{2,4}(?![\w-])"),
    ("PHONE", r"(?<![\w.-])0[0-9]{1,4}[-‐－ ][0-9]{1,4}[-‐－ ][0-9]{3,4}(?![\w-])"),
    ("PHONE", r"(?<![\w.-])(?:\([0-9]{3}\)[ ]?|[0-9]{3}[.-])[0-9]{3}[.-][0-9]{4}(?![\w-])"),
    ("ADDRESS", r"〒?[0-9]{3}-[0-9]{4}[ \u3000]*[\u4e00-\u9fff]{2,4}[都道府県][^\s、。,]{2,40}"),
    (
        "ADDRESS",
        r"[\u4e00-\u9fff]{2,3}[都道府県][\u4e00-\u9fff]{1,8}[市区町村郡][^\s、。,「」()（）]{1,40}[0-9０-９]+(?:[-－丁目番地号の0-9０-９]{0,12})",
    ),
    ("ADDRESS", rf"\b[0-9]{{1,5}}[ ]{_NAME}[ ](?:St|Street|Ave|Avenue|Rd|Road|Blvd|Lane|Ln|Drive|Dr|Court|Ct)\b\.?"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)
#: Shorter names stand in too many other words.
_SHORTEST_NAME = 2

Named = Callable[[str, str], str]


def anonymize_personal_data(content: str, named: Named, names: Iterable[str] = ()) -> str:
    """``content`` with ``named(kind, text)`` in the place of each text that tells who somebody is; and of ``names``."""
    spans = _found(content, names)
    if not spans:
        return content
    pieces: list[str] = []
    done = 0
    for start, end, kind in spans:
        pieces += (content[done:start], named(kind, content[start:end]))
        done = end
    return "".join((*pieces, content[done:]))


def is_placeholder(text: str) -> bool:
    """Does this stand in the place of something already?"""
    return PLACEHOLDER.fullmatch(text) is not None


def _found(content: str, names: Iterable[str]) -> list[tuple[int, int, str]]:
    """Spans in order that do not overlap, outside of placeholders."""
    taken = [(match.start(), match.end(), "") for match in PLACEHOLDER.finditer(content)]
    found: list[tuple[int, int, str]] = []
    for kind, pattern in (*_told(names), *_COMPILED):
        for match in pattern.finditer(content):
            group = "it" if "it" in pattern.groupindex else 0
            found.append((match.start(group), match.end(group), kind))
    kept: list[tuple[int, int, str]] = []
    end = 0
    for span in sorted([*taken, *found], key=lambda one: (one[0], -one[1])):
        if span[0] >= end:
            end = span[1]
            kept += [span] if span[2] else []
    return kept


def _told(names: Iterable[str]) -> list[tuple[str, re.Pattern[str]]]:
    wanted = sorted({name.strip() for name in names if len(name.strip()) >= _SHORTEST_NAME}, key=len, reverse=True)
    if not wanted:
        return []
    # A name in Latin letters has to stand alone; one in others has no edges to go by.
    each = (
        rf"(?<![A-Za-z0-9_])(?i:{re.escape(name)})(?![A-Za-z0-9_])" if name.isascii() else re.escape(name)
        for name in wanted
    )
    return [("NAME", re.compile("|".join(each)))]
