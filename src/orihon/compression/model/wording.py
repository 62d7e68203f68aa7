"""What a text is about and what it names, in a form in which two texts can be compared, whatever their languages.

Owns the rules by which words, languages, names and numbers are recognised in what models write: names are looked for
where they stand in a sentence, so that a capital that only a beginning or a title asks for makes none. Time is linear
in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from orihon.system.patterns import lazy_re

_STEM = 5
_ENDING = lazy_re(r"(?<=..)(?:([^\W\d_])\1?(?:ing|ed)|e)\Z")
_HUMP = lazy_re(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = lazy_re(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_CJK_RUN = lazy_re(r"[\u3400-\u9fff々]{2,}|[\u30a0-\u30ff]{2,}|[\uac00-\ud7af]{2,}")
_KANA = lazy_re(r"[\u3040-\u30ff]")
_HAN = lazy_re(r"[\u3400-\u9fff々]")
_HANGUL = lazy_re(r"[\uac00-\ud7af]")
_NUMBER_WORDS = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
)
#: Words that any talk has, without their plural: everyday ones, numbers, and those who talk.
_EVERYDAY = frozenset(
    re.findall(
        r"\w+",
        """
    about after again all also always an and another any are as at be because been before being between both but by
    came can come could did do does doing done down each even ever every few find first for from gave get give given go
    goes going good got had has have having he her here him his how however if in into is it its itself just keep kind
    know known last later least left less let like little long look made make many may maybe me mean might more most
    much must my need needs never new next no none nor not nothing now of off old on once one only onto or other our out
    over own part please put rather really right said same say says see seem set several shall she should show since so
    some something soon still such take taken tell than thank thanks that the their them then there these they thing
    things think this those through time to told too took toward true two under until up upon us use used uses using
    very want wanted wants was way we well went were what when where whether which while who whole whose why will with
    within without would year yes yet you your yours user assistant agent conversation message
    summary short brief""",
    )
).union(_NUMBER_WORDS)


def plain(said: str) -> str:
    """A text in the form in which texts are compared."""
    return unicodedata.normalize("NFKC", said).casefold()


def language_of(said: str) -> str:
    """``ja``, ``zh``, ``ko``, or nothing: a script that has blanks between its words."""
    kana, han, hangul = (len(pattern.findall(said)) for pattern in (_KANA, _HAN, _HANGUL))
    letters = sum(map(len, _WORD.findall(said)))
    if kana + han + hangul <= 0.15 * letters:  # names in Latin letters are long
        return ""
    if hangul > kana + han:
        return "ko"
    return "ja" if kana > 0.1 * (kana + han) else "zh"


def stems(said: str) -> Iterator[str]:
    """What tells what a text is about: beginnings of words; of scripts without blanks, neighbouring pairs."""
    spread = unicodedata.normalize("NFKC", _HUMP.sub(" ", said)).casefold()
    for word in _WORD.findall(spread):
        singular = word.removesuffix("s")
        if len(singular) > 2 and word not in _EVERYDAY and singular not in _EVERYDAY:
            yield _ENDING.sub(r"\1", singular)[:_STEM]
    for run in _CJK_RUN.findall(spread):
        yield from (run[at : at + 2] for at in range(len(run) - 1))


_NAMED = lazy_re(
    r"""
    (?P<url>[A-Za-z][A-Za-z0-9+.\-]{0,20}://[!#$%&*+,\-./0-9:;=?@A-Z_a-z~]+)
  | (?P<mail>[\w.+\-]{1,99}@[\w\-]{1,99}(?:\.[\w\-]{1,99})+)
  | (?P<path>(?:~|\.{1,2}|[A-Za-z]:)?/?(?:[\w.@+\-]{1,99}/){1,50}[\w.@+\-]{0,99}|(?<![\w.)\]<])[/~]\w[\w.@+\-]*)
  | (?P<option>(?<![\w\-])--[A-Za-z][\w\-]+)
  | (?P<number>[$€¥£]?(?<![\w.])\d{1,40}(?:[,._:\-]\d{1,40})*
        (?:\s?(?:%|[万億亿千]|[kK]\b|(?:ms|[smhdx]|px|[KMGT]i?B|st|nd|rd|th)\b))?(?![A-Za-z0-9_]))
  | (?P<name>
        [A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+                  # a.b, a::b, file.ext
      | _{0,9}[A-Za-z]+\w*_\w* | __?[A-Za-z]\w*                    # snake_case, CONST_CASE, _private
      | [A-Za-z]+[a-z0-9][A-Z]\w* | [A-Z]{2,}[a-z]\w*              # camelCase, HTTPServer
      | [A-Za-z]{1,99}-\d[\w.\-]*                                  # UTF-8
      | (?=[A-Za-z_]*\d)(?=[\d_]*[A-Za-z])\w{3,}                   # M05KNL, 3c2a7b9, sha256
      | [@$][A-Za-z_]\w+
    )
  | (?P<word>[A-Za-z][A-Za-z'\-]+)
    """,
    re.X | re.A,
)
_ABBREVIATION = lazy_re(r"(?:[a-z]\.){1,3}[a-z]?\Z|etc\b|vs\b|cf\b", re.I)
_TWO_WORDS = lazy_re(r"[A-Za-z]+/[A-Za-z]+")  # and/or
_LONG_RUN = lazy_re(r"[!-~]{200,}")
_SMALL_WORD = "(?:a|an|and|as|at|by|for|from|in|of|on|or|the|to|vs|with|&)"
#: A title, all of whose words have a capital.
_TITLE = lazy_re(rf"(?:\A|\*\*|__)\W*[A-Z][\w'\-]*(?:[ ,/]+(?:[A-Z(][\w'\-)]*|{_SMALL_WORD}))+\W*?(?:[:：]|\*\*|__|\Z)")
#: Before a capital that says nothing: a beginning, or a heading.
_STARTS = lazy_re(r"(?:\A|[.!?:;…\"'“‘(\[*_`/|>→—–-]|\d[.)])\s*[\"'“‘(\[*_`]*\Z|\A#")
_STARTS_REACH = 12  # characters
#: Names that belong to any talk about programs, and those who talk.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
    api apis ascii assistant agent ai bash boolean chinese ci cli cpu css csv dns docs english false get git github
    gpu html http https id ids ide io ip japanese java javascript json linux llm macos markdown none null ok pdf post pr
    prs put python ram readme regex rest sdk sql ssh ssl system tcp tls todo tool true typescript ui unicode unix uri
    url urls user users utc utf uuid windows xml yaml""",
    )
)


@dataclass(frozen=True, slots=True)
class NamedThing:
    """Something that a text names."""

    kind: str
    text: str
    follows: str  # what stands behind it, a few characters

    @property
    def plain(self) -> str:
        return plain(self.text)


def named_things(said: str) -> Iterator[NamedThing]:
    """Everything in a text that only its source can give: numbers, paths, names; of words those with a name's capital.

    In a text without blanks between its words, all words in Latin letters.
    """
    said = unescaped(unicodedata.normalize("NFKC", said))
    is_latin = not language_of(said)
    titles = [found.span() for found in _TITLE.finditer(said)] if is_latin else []
    for found in _NAMED.finditer(said):
        kind, name, start = found.lastgroup or "", found[0].rstrip(".,:;-!?*'"), found.start()
        follows = said[found.end() : found.end() + _STARTS_REACH]
        is_pair = kind == "path" and _TWO_WORDS.fullmatch(name) is not None
        if kind == "word" or is_pair:
            has_no_capital = is_latin and _STARTS.search(said, max(start - _STARTS_REACH, 0), start) is not None
            if not has_no_capital and not any(first <= start < last for first, last in titles):
                words = (word for word in name.split("/") if len(word) > 2 and plain(word) not in _COMMON)
                yield from (NamedThing("word", word, follows) for word in words if word[0].isupper() or not is_latin)
        elif name and not (kind == "name" and _ABBREVIATION.match(name)):
            yield NamedThing(kind, name, follows)


def unescaped(said: str) -> str:
    """Line ends of JSON as such; other backslashes as the slashes of a path; without what is too long for a name."""
    return _LONG_RUN.sub(" ", said.replace("\\n", "\n").replace("\\", "/"))


_NUMBER = lazy_re(r"\d+(?:[,_]\d{3})*(?:\.\d+)*")
_SCALED = lazy_re(r"(?<!\d)(\d{1,15}(?:\.\d{1,9})?)\s?([万億亿千kK])")
_SCALES = {"千": 10**3, "k": 10**3, "万": 10**4, "億": 10**8, "亿": 10**8}
_KANJI_NUMBER = lazy_re(r"[一二三四五六七八九十百千]+")
_KANJI = {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}
_KANJI_UNITS = {"十": 10, "百": 100, "千": 1000}
_LONGEST_NUMBER = 300  # digits; of a longer one there is no second way to write it


def numbers_in(said: str) -> Iterator[str]:
    """The numbers of a text, each in all the ways in which it may be written again."""
    words: set[str] = set()
    for line in said.splitlines():  # a list of everything in a long history would take ten times its size
        yield from _numbers_on(line)
        words.update(_WORD.findall(line))
    yield from (str(at if at <= 20 else (at - 18) * 10) for at, word in enumerate(_NUMBER_WORDS) if word in words)


def _numbers_on(line: str) -> Iterator[str]:
    for written in _NUMBER.findall(line):
        bare = written.replace(",", "").replace("_", "")
        yield bare
        yield from (part.lstrip("0") or "0" for part in bare.split("."))
        if bare.count(".") == 1 and len(bare) < _LONGEST_NUMBER:
            value = float(bare)
            yield from (f"{value:.{digits}f}" for digits in range(3))
            yield f"{value * 100:.0f}"
            yield bare.rstrip("0").rstrip(".")
    for digits, scale in _SCALED.findall(line):
        yield f"{float(digits) * _SCALES[scale.lower()]:.0f}"
    for written in _KANJI_NUMBER.findall(line):
        yield str(_kanji_value(written))


def _kanji_value(written: str) -> int:
    total = digit = 0
    for sign in written:
        if sign in _KANJI:
            digit = _KANJI[sign]
        else:
            total, digit = total + (digit or 1) * _KANJI_UNITS[sign], 0
    return total + digit


def stands(name: str, text: str) -> bool:
    """Whether a name stands in a text as a whole."""
    at = text.find(name) if name else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_joins(before, name[0]) or _joins(name[-1], after)):
            return True
        at = text.find(name, at + 1)
    return False


def _joins(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word; scripts without blanks have no such borders."""
    return (left + right).isascii() and left.isalnum() and right.isalnum()


_SENTENCE_END = lazy_re(r"(?<=[.!?])\s+(?=[\"'(\[`*]*[A-Z0-9])|(?<=[。！？])(?!\s*\Z)")


def sentences_in(line: str) -> list[str]:
    """The sentences of a line."""
    return [one for one in _SENTENCE_END.split(line) if one.strip()]
