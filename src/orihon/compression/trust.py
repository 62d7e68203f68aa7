"""The provenance of summaries: one is trusted no more than the least trusted text that it was made of.

Text that a tool printed (a page, a file, a log) may have been written by anybody, and so may a comment on an issue that
comes with a user's message. To survive a compression as if the user had said it is what an injected instruction is
after. So every summary records the lowest trust of its sources; and a line of it that orders something, and comes from
tool output or from others and not from the user, is quoted: it is reported, not obeyed. So is whatever they put among
the goals and constraints, a line of theirs that a rule would pin, and a heading that would make rules of what follows.
What was quoted once stays quoted when a summary is folded again.

For comparing, texts are normalised to what their reader sees (``as_read``): an order in full-width letters, with a
zero-width space in its middle, with Cyrillic letters among the Latin or in tag characters is the same order to a model.
A paraphrase gets by.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from orihon.compression.notes.calls import OUTCOME
from orihon.compression.notes.layout import binding_headings, is_own, is_tools, numbered
from orihon.compression.notes.reader import others_words, own_parts
from orihon.compression.pages import Pages, pinned_headings
from orihon.guard.masking.patterns import TimedPatterns
from orihon.system.patterns import lazy_re
from orihon.texts import LANGUAGES, text
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Trust
from orihon.values.view import PlannedFold

# Characters that nobody sees, by first and last.
_UNSEEN = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0xE0000, 0xE001F), (0xE007F, 0xE007F), (0xE0100, 0xE01EF)),
)
_MARKS = (0x300, 0x36F)  # accents, once letters are taken apart
_TAGS = (0xE0020, 0xE007E)  # ASCII that is not shown
_LIKE_LATIN = dict(
    zip(
        "аеорсухіјѕһԁԛԝкмтвнАЕОРСУХІЈЅНКМТВαοινρυκτΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡℓ",
        "aeopcyxijshdqwkmtbhAEOPCYXIJSHKMTBaoivpuktABEZHIKMNOPTYXigl",
        strict=True,
    )
)
_TABLE: dict[int, str | None] = {
    **{code: None for first, last in (*_UNSEEN, _MARKS) for code in range(first, last + 1)},
    **{code: chr(code - 0xE0000) for code in range(_TAGS[0], _TAGS[1] + 1)},
    **{ord(like): plain for like, plain in _LIKE_LATIN.items()},
    0x2028: "\n",
    0x2029: "\n",
    0x85: "\n",
}
_LINE_ENDS = str.maketrans("\r\v\f\x1c\x1d\x1e", "\n\n\n\n\n\n")


def as_read(said: str) -> str:
    """The text in plain letters."""
    if not said.isascii():
        taken_apart = unicodedata.normalize("NFKD", said.translate(_TABLE)).translate(_TABLE)
        said = unicodedata.normalize("NFC", taken_apart)
    return said.translate(_LINE_ENDS)


#: From the highest to the lowest.
LEVELS: tuple[Trust, ...] = ("system", "user", "assistant", "tool")
QUOTE = "> "
_OF_ROLE: dict[str, Trust] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_WHO_ORDER = ("user", "system", "developer")
_ORDERS = lazy_re(
    r"(?i:\b(?:ignore|disregard|forget|override|bypass)\b.{0,60}"
    r"\b(?:previous|prior|above|earlier|all|rules?|instructions?|prompt|everything)\b"
    r"|\b(?:you|agents?|assistants?) (?:must|should|shall|ha(?:ve|s) to|will now|needs? to"
    r"|(?:are|is) (?:now|to|required|instructed|asked|told|expected))\b"
    r"|\byour (?:new |next |real |actual )?(?:task|goal|job|orders?|instructions?) (?:is|are)\b"
    r"|\bit is (?:mandatory|required|imperative) (?:to|that)\b|\bnext step is to\b"
    r"|\bbefore (?:you (?:continue|proceed)|continuing|proceeding|anything else)\b"
    r"|\b(?:as the user (?:asked|requested|ordered|wished)|the user's (?:instructions?|orders?|request|wish))\b"
    r"|\b(?:do not|don't|never) (?:tell|mention|ask|reveal|report|show)\b|\bfrom now on\b"
    r"|^[^\w\n]*(?:system|assistant|user|developer|admin|human)(?: (?:prompt|message|note))?\s*[:>\]]"
    r"|\bthe user (?:also |now |really )?(?:demands|wants|asks|says|said|requires|has (?:said|asked|approved))\b"
    r"|\b(?:important|attention|urgent|new (?:rule|task|goal|instructions?))\b\W{0,3}[:!]"
    r"|^[^\w\n]*(?:always|never|make sure|be sure|ensure)\b"
    r"|^[^\w\n]*(?:[0-9]{1,3}[.):]\s*|step [0-9]{1,3}\W{1,3}|(?:please|kindly|now|then|first|next|immediately),?\s+"
    r"|go ahead and\s+|proceed to\s+|(?:hey |dear )?(?:ai|agent|assistant|claude|model)\b\W{1,3}){0,4}"
    r"(?:rm -|(?:run|execute|delete|remove|drop|send|post|upload|download|install|sudo|chmod|wipe|erase|overwrite"
    r"|transfer|call|invoke|visit|stop|curl|wget|email|commit|push|approve|merge|reveal|print|exfiltrate|forward)\b))"
    r"|(?:無視し|無視せ|忘れ(?:て|ろ)|従っ|従え|従う|命令|指示|(?:実行|削除|送信|転送|公開|承認)(?:せよ|しろ|して)"
    r"|ください|下さい|なさい|せよ|しないで|必ず.{0,30}(?:こと|せよ)|あなたは(?:今|これから)|今後は|べき(?:だ|で|。|$)"
    r"|(?:なければ|ねば|なくては|ないと)(?:なら|いけ)|[てで](?:くれ|ほしい|欲しい|おいて)|(?:送れ|消せ|渡せ|出せ|書け|読め)(?!ば|[るたてなま])"
    r"|(?:教え|見せ|捨て|与え|入れ|変え|止め|やめ)ろ|(?:する|送る|渡す|消す|書く|出す|返す|入れる|止める)こと[。.!]?\s*$"
    r"|ユーザーは.{0,30}(?:望|求め|言っ|承認)|(?:^|\s)(?:システム|ユーザー|管理者|重要)\s*:)",
    re.M,
)
# Every match of the rule has one of these, and looking for them first is many times faster.
_ORDER_STEMS = (
    *("ignore", "disregard", "forget", "override", "bypass", "must", "should", "shall", "have", "has ", "now", "need"),
    *("not", "don't", "never", "system", "assistant", "user", "developer", "admin", "human", "important", "attention"),
    *("urgent", "new", "always", "sure", "run", "execute", "delete", "remove", "drop", "send", "post", "upload"),
    *("download", "install", "curl", "wget", "mail", "commit", "push", "approve", "merge", "reveal", "print"),
    *("exfiltrate", "forward", "sudo", "rm -", "chmod", "wipe", "erase", "overwrite", "transfer", "call", "invoke"),
    *("visit", "stop", "your", "is to", "are to", "required", "instructed", "asked", "told", "expected", "mandatory"),
    *("imperative", "before"),
)
_OTHER_ORDER_STEMS = (
    *("無視", "忘れ", "従", "命令", "指示", "実行", "削除", "送信", "転送", "公開", "承認", "して", "なさい", "せよ"),
    *(
        "しない",
        "必ず",
        "あなた",
        "今後",
        "ユーザー",
        "システム",
        "管理者",
        "重要",
        "ださい",
        "下さい",
        "べき",
        "なければ",
    ),
    *("ねば", "なくては", "ないと", "くれ", "ほしい", "欲しい", "おいて", "送れ", "消せ", "渡せ", "出せ"),
    *("書け", "読め", "ろ", "こと"),
)
#: What notes put before a line: a mark, the number and the speaker of a message.
_HEAD = lazy_re(r"^(?P<head>\s*(?:[-*•]\s+)?(?:[0-9]{1,12} [^\s:]{1,64}:\s)?)(?P<rest>.*)$", re.DOTALL)
_IS_HEADING = lazy_re(r"^\s{0,3}(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_BINDING = ("rule", "instruction", "requirement", "must", "ルール", "規則", "指示", "要件", "目標")
_WORDS = lazy_re(r"\w+")
_SHINGLE = 3
_ENOUGH = 0.6  # of a line's runs of words that tool output has, and what others said has not
_MOST_LINES = 3  # over which an order may be spread


class Sources:
    """What a run of the view says, by who may be believed."""

    def __init__(self, messages: Sequence[Message], trusts: Iterable[Trust]) -> None:
        self._messages = messages
        self.trust: Trust = max((*map(_trust_of, messages), *trusts), key=LEVELS.index, default="system")
        self._shingles: dict[tuple[bool, int], set[tuple[str, ...]]] = {}

    @cached_property
    def _printed(self) -> list[list[str]]:
        return [_words(part) for message in self._messages for part in _untrusted(message)]

    @cached_property
    def _said(self) -> list[list[str]]:
        return [_words(part) for message in self._messages for part in _ordered(message)]

    def has_only_printed(self, line: str) -> bool:
        """Does this come from tool output, and from nobody who may order something?"""
        words = _words(line)
        size = min(_SHINGLE, len(words))
        if not size:
            return False
        asked = _shingles([words], size)
        own = asked - self._of(is_printed=False, size=size)
        return len(own & self._of(is_printed=True, size=size)) >= _ENOUGH * len(asked)

    def _of(self, *, is_printed: bool, size: int) -> set[tuple[str, ...]]:
        found = self._shingles.get((is_printed, size))
        if found is None:
            found = self._shingles[is_printed, size] = _shingles(self._printed if is_printed else self._said, size)
        return found


def shielded(pages: Pages, fold: PlannedFold, pin_patterns: Sequence[str] = ()) -> PlannedFold:
    """The fold with its trust, and with what tool output orders as quotations."""
    run = pages.run_of(fold)
    if fold.form != "summary":
        return replace(fold, trust=Sources(pages.messages[run.start : run.end], ()).trust)
    folds = (entry.fold for entry in pages.entries(run) if entry.fold is not None)
    sources = Sources(pages.messages[run.start : run.end], [one.trust for one in folds if one.trust])
    if sources.trust != "tool":
        return replace(fold, trust=sources.trust)
    said = quoted(fold.text, sources, pages.pinned_lines(run), TimedPatterns(pin_patterns))
    return replace(fold, text=said, trust="tool")


def quoted(summary: str, sources: Sources, pinned: Iterable[str] = (), rules: TimedPatterns | None = None) -> str:
    """The text, in which lines that tool output orders are marked as such."""
    kept = {line for pin in pinned for line in pin.split("\n")}
    lines = [_Line.of(line) for line in summary.split("\n")]
    orders = _orders(lines, rules or TimedPatterns(()))
    carried = _carried(lines, kept)
    marked = [
        line.quoted
        if at in orders and not line.is_one_of(kept) and at != carried and _is_printed(line, sources)
        else line.whole
        for at, line in enumerate(lines)
    ]
    if all(new == line.whole for new, line in zip(marked, lines, strict=True)):
        return summary
    note = text("compression.quoted")
    return "\n".join(marked if note in marked else (*marked, note))


def quoted_lines(said: str) -> str:
    """A text of others, with a mark before each line of it, whatever ends its lines."""
    return "\n".join(f"{QUOTE}{line}".rstrip() for line in said.splitlines())


def quoted_if_order(said: str) -> str:
    """One line that a tool printed, marked when it orders something."""
    return f"{QUOTE}{said}" if _ORDERS.search(as_read(said)) and not said.startswith(QUOTE) else said


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a summary."""

    whole: str
    head: str
    rest: str
    plain: str  # the rest, as it is read

    @classmethod
    def of(cls, line: str) -> _Line:
        found = _HEAD.match(line)
        head, rest = (found["head"], found["rest"]) if found else ("", line)
        return cls(line, head, rest, as_read(rest))

    @property
    def quoted(self) -> str:
        return f"{self.head}{QUOTE}{self.rest}"

    @property
    def is_quoted(self) -> bool:
        return self.rest.startswith(QUOTE)

    @property
    def is_heading(self) -> bool:
        return _IS_HEADING.match(self.whole) is not None

    def is_one_of(self, kept: set[str]) -> bool:
        return self.whole in kept or self.rest in kept


def _orders(lines: Sequence[_Line], rules: TimedPatterns) -> set[int]:
    """Which lines order something: by themselves, by their heading, together with the next ones, or by rule."""
    found: set[int] = set()
    is_binding = False
    may_order = [_may_order(line.plain) for line in lines]
    for at, line in enumerate(lines):
        if line.is_heading:
            is_binding = _is_binding(line.plain)
            if line.whole.strip() in pinned_headings() or rules.search(line.whole):
                found.add(at)
            continue
        if is_binding or (may_order[at] and _ORDERS.search(line.plain)) or rules.search(line.rest):
            found.add(at)
            continue
        if not any(may_order[at : at + _MOST_LINES]):
            continue
        for end in range(at + 2, min(at + _MOST_LINES, len(lines)) + 1):
            # A line with a number of its own, or a heading, begins something new.
            if lines[end - 1].is_heading or (lines[end - 1].head.strip() and lines[end - 1].head.strip() not in "-*•"):
                break
            if _ORDERS.search(" ".join(one.plain.strip() for one in lines[at:end])):
                found.update(range(at, end))
                break
    return {at for at in found if not lines[at].is_quoted and not is_own(lines[at].whole)}


def _may_order(said: str) -> bool:
    lowered = said.lower()
    if any(map(lowered.__contains__, _ORDER_STEMS)):
        return True
    return not said.isascii() and any(map(lowered.__contains__, _OTHER_ORDER_STEMS))


def _is_printed(line: _Line, sources: Sources) -> bool:
    """What came of a call stands behind it: there, too, a page may have put its orders."""
    outcome = line.rest.rpartition(OUTCOME)[2]
    return line.whole.strip() in pinned_headings() or any(map(sources.has_only_printed, {line.rest, outcome}))


def _carried(lines: Sequence[_Line], kept: set[str]) -> int:
    """Where the heading stands below which pinned lines are carried on; -1 when there are none."""
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].whole in pinned_headings()), -1)
    below = [line.whole for line in lines[last + 1 :] if line.whole.strip()]
    return last if below and kept.issuperset(below[:1]) else -1


@cache
def _binding_titles() -> tuple[str, ...]:
    keys = ("notes.goal", "notes.constraints")
    return (*_BINDING, *(text(key, lang=lang).lower() for key in keys for lang in LANGUAGES))


def _is_binding(heading: str) -> bool:
    """Whether what stands below is what is wanted, and what must and must not be."""
    lower = heading.lower()
    return heading.strip() in binding_headings() or any(title in lower for title in _binding_titles())


def is_summary(message: Message) -> bool:
    """Whether a message is the text of a fold."""
    return message.role == "system" and message.text.startswith(SUMMARY_PREFIX)


def _trust_of(message: Message) -> Trust:
    if is_summary(message):
        return "tool" if any(_untrusted(message)) else "assistant"
    if message.role == "user" and others_words(message.text):
        return "tool"
    return _OF_ROLE.get(message.role, "tool")


def _untrusted(message: Message) -> list[str]:
    """What of a message tools or strangers say: all of a result, what an earlier summary quotes or has from a tool."""
    if _OF_ROLE.get(message.role) is None:
        return [message.text]
    if message.role == "user":
        return list(others_words(message.text).values())
    return [said for speaker, said in _notes(message) if speaker and is_tools(speaker)] if is_summary(message) else []


def _ordered(message: Message) -> list[str]:
    """What of a message those have said who may order something."""
    if is_summary(message):
        return [said for speaker, said in _notes(message) if speaker in _WHO_ORDER]
    if message.role == "user":
        return own_parts(message.text)
    return [message.text] if message.role in _WHO_ORDER else []


def _notes(message: Message) -> Iterable[tuple[str, str]]:
    """The lines of an earlier summary by speaker: nobody where it names none, a tool where it quotes."""
    speaker = ""
    for line in message.text.removeprefix(SUMMARY_PREFIX).split("\n"):
        if _IS_HEADING.match(line):
            speaker = ""
            continue
        named, said = numbered(line)
        speaker = named or speaker
        found = _HEAD.match(line)
        is_quoted = found is not None and found["rest"].startswith(QUOTE)
        yield "tool" if is_quoted else speaker, said


def _words(said: str) -> list[str]:
    """The words of a text as it is read; of Japanese, which has no blanks, the characters. Each is held once."""
    words: list[str] = []
    known: dict[str, str] = {}
    for word in _WORDS.findall(as_read(said).lower()):
        words += [known.setdefault(word, word)] if word.isascii() else list(word)
    return words


def _shingles(texts: Iterable[Sequence[str]], size: int) -> set[tuple[str, ...]]:
    """Runs of so many words."""
    return {tuple(words[at : at + size]) for words in texts for at in range(len(words) - size + 1)}
