"""Whether a summary rests on its source: what it is about, and every name, number and path in it.

Owns two questions. *Related*: does the text speak of what the source speaks of? Where both are in one language, its
rarer words have to stand together somewhere in the source, so that words which any long text has do not count; where
they are not, names, numbers and paths that survive a translation have to be shared, as far as the source has any.
*Grounded*: a sentence goes when it names something that the source does not have, or when it says that a user has
allowed or asked for something of which no user has said a word. Spelling is taken generously: case, full-width letters,
thousands separators, parts of a path, numbers of messages, small counts.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from orihon.compression.model.wording import (
    NamedThing,
    language_of,
    named_things,
    numbers_in,
    plain,
    sentences_in,
    stands,
    stems,
    unescaped,
)
from orihon.compression.notes.reader import own_parts
from orihon.system.patterns import lazy_re
from orihon.values.message.message import Message

# ---- what is said of users -------------------------------------------------------------------------------------------

_USER = (
    r"\b(?:users?|customers?|clients?|owners?|operators?|maintainers?|humans?)\b"
    r"|ユーザー?|利用者|依頼者|顧客|お客|用户|客户"
)
_YES = (
    r"\b(?:approv\w*|agree[ds]?|agreement|consent\w*|authori[sz]\w*|permit\w*|permission|allow\w*|accept\w*|grant\w*"
    r"|confirm\w*|okay\w*|ok|ok'd|green.?li\w+|sign(?:ed|s)? off|sign-off|blessing|gave the go)\b"
    r"|承認|許可|同意|了承|承諾|認め|批准|允许|授权|许可|准许|答应|确认"
)
_WISH = (
    r"\b(?:want\w*|wish\w*|ask\w*|request\w*|sa(?:id|ys?)|t(?:old|ells?)|instruct\w*|demand\w*|insist\w*|prefer\w*"
    r"|requir\w*|decid\w*|cho(?:se|oses?)|order(?:ed|s)|stated?|states)\b"
    r"|依頼|要求|指示|希望|求め|望[みむん]|要望|決め|決定|選[びん択]|述べ|言[いっわ]|頼[みん]|想要?|说|表示|选择|决定"
)
_OF_USER = lazy_re(_USER, re.I)
_A_YES = lazy_re(_YES, re.I)
_A_WISH = lazy_re(_WISH, re.I)
_CLAIM = lazy_re(rf"{_USER}|{_YES}|{_WISH}", re.I)
#: Somebody's yes, without saying whose.
_BARE_YES = lazy_re(
    r"\b(?:approval|permission|consent|authori[sz]ation)\b.{0,60}\b(?:given|granted|received|obtained)\b"
    r"|\b(?:been|is|was|are|were|got) (?:approved|authori[sz]ed|permitted|green-?lit)\b"
    r"|(?-i:\b[A-Z][a-z]+) (?:has |had )?(?:approved|authori[sz]ed|consented|signed off)\b"
    r"|(?:承認|許可|了承)(?:済み|され(?:た|ている|ました)|を得(?:た|て|ている|ました)|が(?:出|下り))|(?:已|获得?|经)(?:批准|授权|许可|同意)",
    re.I,
)
#: Around a yes that is still to come, or that was not given.
_NOT_YET_BEFORE = lazy_re(
    r"\b(?:await\w*|wait\w*|ask(?:s|ed|ing)?|needs?|needed|request\w*|pending|without|until|before|requires?|seek\w*|not"
    r"|never|no|if|unless|whether|should|must|may|can|could)\b|n['’]t\b|等待|需要|尚未|未经?|没有|请求|不",
    re.I,
)
_NOT_YET_AFTER = lazy_re(
    r"\s*(?:is|was|still)?\s*\b(?:needed|required|pending|missing|outstanding|awaited)\b"
    r"|待ち|を?待|が?必要|を求め|前に|まで|なし|(?:し|され|を得)て(?:い|お)?(?:ない|りません)|しなか|せず|まだ",
    re.I,
)
_REACH = 60  # characters between a user and what is said of them
_NEAR = 30  # and before a yes
_MAIN_CLAUSE = lazy_re(r"[;；]|\s[—–-]\s|, (?:and|but|so)\b")
_CLAUSE = lazy_re(r"[,;:，、；：]|\b(?:but|and|then)\b")
_NEGATION = lazy_re(
    r"\b(?:not|never|no|none|neither|without|stop|refuse\w*|forbid\w*|den(?:y|ied)|reject\w*)\b|n['’]t\b|ない|ません|禁止|だめ|駄目"
    r"|いいえ|やめ|却下|拒否|不|别|没|勿|拒绝",
    re.I,
)
_SAYS_YES = lazy_re(
    r"\b(?:yes|yep|yeah|ok(?:ay)?|sure|fine|please|do it|go (?:ahead|on|for it)|proceed|continue|agreed?|approved?|lgtm"
    r"|sounds good|correct|exactly|right|good|great|perfect|allowed?|may)\b"
    r"|はい|ええ|うん|了解|承認|許可|お願い|進めて|いいで|良い|よい|構い|大丈夫|その通り|オーケー|ok|好|可以|行|同意|批准|允许|继续|没问题|确认|[👍✅🆗👌🙆]",
    re.I,
)
_BRIEF = 60  # characters of what says yes or no to something said before it
_LEAST_WISHED = 0.25  # of what a sentence says that users want, by weight, that one of them must have said
_LEAST_ALLOWED = 0.6


@dataclass(frozen=True, slots=True)
class _Statement:
    """Something that a user said, with what it was an answer to."""

    text: str
    stems: frozenset[str]
    is_no: bool


def _statement(said: str, answers: str = "") -> _Statement:
    whole = f"{answers}\n{said}"
    return _Statement(plain(whole), frozenset(stems(whole)), _NEGATION.search(said) is not None)


# ---- the source ------------------------------------------------------------------------------------------------------

_CHUNK = 1500  # characters in which the words of one sentence should stand together
_LEAST_SUPPORT = 0.3  # of what a summary is about, by weight
_FEW_NAMES = 3
_SHARED_NAMES = 0.3  # of the names that a text of its length would have if it were as full of them as the source
_LEAST_DENSITY = 0.1  # names for each sentence; of a source that has fewer a text may well have none
_KNOWN_NAMES = 0.5
_SMALL = 12  # numbers up to it are counts that anybody may make
_SHORT_WORD = lazy_re(r"\b[^\W\d_]{2,3}\b")
_PREFIX = lazy_re(
    r"\s*(?:[-*•>]\s+|\d{1,3}[.)]\s+)*(?:\[?\d+(?:[-–]\d+)?(?:\s+(?P<speaker>[\w.\-]+))?(?:\s+\w+)?\]?\s*[:：]\s*)?"
)
_FENCE = lazy_re(r"\s*(?:```|~~~)")


_COUNTED = lazy_re(
    r"\s*(?:(?:more|other|further|failed|failing|passing|new|different)\s+)?(?:times|files|tests|messages|calls|attempts"
    r"|tries|steps|errors|lines|items|commits|edits|questions|cases|failures|commands|turns)\b|[回件個つ行次个条項]",
    re.I,
)
_OF_MESSAGES = lazy_re(
    r"(?:\b(?:messages?|msgs?\.?|seqs?|turns?|steps?|no\.)|#|メッセージ|消息|第)\s*#?(\d+(?:\s*(?:[-–—~〜,、と&]|to|and)\s*\d+)*)(?![A-Za-z0-9_]|\.\d)"
    r"|[(\[（【](\d+(?:\s*[-–,、]\s*\d+)*)[)\]）】]",
    re.I,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EXTENSION = lazy_re(r"\.[A-Za-z]\w{0,7}\Z")
_SEPARATORS = lazy_re(r"[\s_\-]+")
_HASH = lazy_re(r"[0-9a-f]{7,64}")
_DATE = lazy_re(r"\d{4}-\d\d-\d\d|\b\d\d?/\d\d?\b")


@dataclass(frozen=True, slots=True)
class Grounded:
    """A text without what has no ground."""

    text: str
    struck: float  # share of its characters
    invented: tuple[str, ...]  # what was named without ground


class Ground:
    """Everything that a summary may rest on: messages, their calls, and earlier notes."""

    def __init__(self, messages: Sequence[Message], seqs: Sequence[int], earlier: str = "") -> None:
        self._messages = messages
        self._seqs = seqs
        self._earlier = earlier

    # ---- related -------------------------------------------------------------------------------------------------

    def is_related(self, said: str, instructions: str) -> bool:
        """Whether a text speaks of the same things as its source; ``instructions`` are words that prove nothing.

        A source without words or names cannot tell.
        """
        lines = (_labelled(line)[2] for line in said.splitlines() if not _level(line))
        sentences = [sentence for line in lines for sentence in sentences_in(line)]
        if not self._is_in_one_language_with(said):
            return self._shares_names(sentences)
        ours = {*stems(instructions)}
        if self._chunks.stems.keys() <= ours:
            return True
        found = [self._chunks.support({*stems(sentence)} - ours) for sentence in sentences]
        is_supported = sum(weight for weight, _ in found) > _LEAST_SUPPORT * sum(of for _, of in found)
        return is_supported or self._knows_all_names(sentences)

    def _is_in_one_language_with(self, said: str) -> bool:
        language = language_of(said)
        if language or self._language:
            return language == self._language
        small = {*_SHORT_WORD.findall(plain(said))}
        # Every text of some length has most of its language's smallest words.
        return len(small) < 6 or len(self._people) < 1000 or len(small & self._small_words) > len(small) / 3

    def _knows_all_names(self, sentences: Sequence[str]) -> bool:
        """Whether a text has several names and the source all of them: it may be in another language after all."""
        told = {named.plain: named for sentence in sentences for named in _carried(sentence)}
        return len(told) >= _FEW_NAMES and all(map(self.is_known, told.values()))

    def _shares_names(self, sentences: Sequence[str]) -> bool:
        of_source = {named.plain for named in _carried(self._people)}
        told = {named.plain: named for sentence in sentences for named in _carried(sentence)}
        known = sum(map(self.is_known, told.values()))
        if known < _KNOWN_NAMES * len(told) and len(told) >= _FEW_NAMES:
            return False
        density = min(len(of_source) / max(len(sentences_in(self._people)), 1), 1)
        if len(of_source) < _FEW_NAMES or density < _LEAST_DENSITY:
            return True
        return known >= math.ceil(_SHARED_NAMES * len(sentences) * density)

    # ---- grounded ------------------------------------------------------------------------------------------------

    def checked(self, said: str) -> Grounded:
        """The text without its sentences that have no ground."""
        kept: list[str] = []
        invented: list[str] = []
        struck = 0
        for unit in _units(said):
            label, speaker, body = _labelled(unit)
            sentences = sentences_in(body)
            wrong = [self.invented(sentence) or self._unsaid(sentence, speaker) for sentence in sentences]
            good = [sentence for sentence, names in zip(sentences, wrong, strict=True) if not names]
            invented += (name for names in wrong for name in names)
            struck += sum(map(len, sentences)) - sum(map(len, good))
            if len(good) == len(sentences):
                kept.append(unit)
            elif good:
                kept.append(label + ("" if language_of(body) else " ").join(good))
        return Grounded(_without_empty_headings(kept), struck / max(len(said), 1), tuple(invented))

    def invented(self, sentence: str) -> list[str]:
        """What a sentence names and the source does not have."""
        told = named_things(_OF_MESSAGES.sub(self._without_seqs, sentence))
        if self._language:  # which may have a name in other letters
            is_translated = not language_of(sentence)
            told = (named for named in told if named.kind != "word" or (named.text[0].isupper() and not is_translated))
        return [named.text for named in told if not self.is_known(named)]

    def _without_seqs(self, found: re.Match[str]) -> str:
        """Blanks for numbers of messages."""
        first, last = min(self._seqs, default=1), max(self._seqs, default=0)
        numbers = re.findall(r"\d+", found[0])
        are_seqs = all(len(number) < 9 and 1 <= int(number) <= max(first, last) for number in numbers)
        return " " * len(found[0]) if are_seqs else found[0]

    def is_known(self, named: NamedThing) -> bool:
        """Whether the source has something by that name, or as good as."""
        name = named.plain
        match named.kind:
            case "number":
                return self._knows_number(named)
            case "word":
                return self._knows_word(name)
            case "path":
                return self._knows_path(name.removeprefix("./").rstrip("/"))
            case "option":
                return name in self._plain or self._has(name.lstrip("-"))
        name = name.lstrip("@$")
        bare = _SEPARATORS.sub("", name)
        if self._has(name) or (len(bare) > 7 and bare in self._compact):
            return True
        if _HASH.fullmatch(name):
            return name in self._plain  # the beginning of a longer one
        parts = [part for part in re.split(r"\.|::|->", name) if part]
        return named.kind == "name" and len(parts) > 1 and all(map(self._has, parts))

    def _has(self, name: str) -> bool:
        return stands(name, self._plain)

    def _knows_word(self, name: str) -> bool:
        if name[:3] in _MONTHS and _DATE.search(self._plain):
            return True
        return self._has(name) or all(stem in self._chunks.stems for stem in stems(name))

    def _knows_path(self, name: str) -> bool:
        if self._has(name) or self._has(name.lstrip("~/")):
            return True
        *folders, last = name.strip("~/").split("/")
        has_all = all(map(self._has, (*(folder for folder in folders if folder != ".."), last)))
        # Elsewhere a file is spoken of by its name alone; a word is no file.
        return has_all and (_EXTENSION.search(last) is not None or "_" in last or not name.startswith(("/", "~")))

    def _knows_number(self, named: NamedThing) -> bool:
        written = named.plain
        digits = re.sub(r"[^\d.:\-,_]", "", written).strip(".:-,_")
        bare = re.sub(r"[,_]", "", digits)
        if not self._numbers.isdisjoint((bare, bare.lstrip("0") or "0", *numbers_in(written))) or self._has(bare):
            return True
        if len(parts := re.split(r"[:\-]", bare)) > 1:  # dates, times, ranges
            return all(part.lstrip("0") in self._numbers or _is_small(part) for part in parts if part.isdigit())
        if not bare.isdigit() or len(bare) > 9:
            return False
        is_amount = written != digits and not written[-1:].isalpha()
        is_count = int(bare) <= len(self._messages) and _COUNTED.match(named.follows) is not None
        return is_count or (_is_small(bare) and not is_amount)

    def _unsaid(self, sentence: str, speaker: str) -> list[str]:
        """What a sentence says of users without their having said so."""
        is_users = bool(said_of := _said_of_users(_A_YES, sentence))
        bare = _BARE_YES.search(sentence)
        claimed = said_of or ([bare.span()] if bare else [])
        if any(not _is_still_to_come(sentence, *span) for span in claimed):
            statements = self._users_yes if is_users else [*self._users_yes, *self._agents_yes]
            claim = _clause_around(sentence, *claimed[0])
            return [] if self._is_allowed(claim, statements) else [claim]
        wishes = (sentence[slice(*span)] for span in _said_of_users(_A_WISH, sentence))
        if speaker.casefold() == "user" or any(_OF_USER.match(said) or said.endswith("by the user") for said in wishes):
            return [] if self._is_wished(sentence) else [sentence]
        return []

    def _is_allowed(self, sentence: str, statements: Sequence[_Statement]) -> bool:
        names = [named.plain for named in named_things(sentence) if named.kind != "number"]
        about = {*stems(_CLAIM.sub(" ", sentence))}
        is_no = _NEGATION.search(sentence) is not None
        is_translated = not self._is_in_one_language_with(sentence)
        if not names and (is_translated or not about):
            return any(_SAYS_YES.search(statement.text) and not statement.is_no for statement in statements)
        for statement in statements:
            found, of = self._chunks.weight(about & statement.stems), self._chunks.weight(about)
            has_names = all(stands(name.rstrip("/").rpartition("/")[2], statement.text) for name in names)
            if has_names and (is_no or not statement.is_no) and (is_translated or found >= _LEAST_ALLOWED * of):
                return True
        return False

    def _is_wished(self, sentence: str) -> bool:
        names = [named.plain for named in named_things(sentence) if named.kind != "number"]
        about = {*stems(_CLAIM.sub(" ", sentence))}
        of = self._chunks.weight(about)
        if not self._is_in_one_language_with(sentence):
            return not names or any(stands(name, statement.text) for name in names for statement in self._users_words)
        return not about or any(
            self._chunks.weight(about & statement.stems) >= _LEAST_WISHED * of for statement in self._users_words
        )

    # ---- what was said, read once ----------------------------------------------------------------------------------

    @cached_property
    def _texts(self) -> list[str]:
        calls = (f"{call.name} {call.arguments}" for message in self._messages for call in message.tool_calls)
        return [self._earlier, *(message.text for message in self._messages), *calls]

    @cached_property
    def _plain(self) -> str:
        """All of it, as names are compared."""
        return unescaped(plain("\n".join(self._texts)))

    @cached_property
    def _compact(self) -> str:
        """Without what different ways of writing a name differ in."""
        return _SEPARATORS.sub("", self._plain)

    @cached_property
    def _numbers(self) -> set[str]:
        return {*numbers_in(self._plain)}

    @cached_property
    def _people(self) -> str:
        """What was said by those who talk, without what tools printed."""
        said = (message.text for message in self._messages if message.role in ("user", "assistant"))
        return "\n".join((*said, self._earlier))

    @cached_property
    def _small_words(self) -> set[str]:
        return {*_SHORT_WORD.findall(plain(self._people))}

    @cached_property
    def _language(self) -> str:
        return language_of(self._people)

    @cached_property
    def _chunks(self) -> _Chunks:
        return _Chunks(_pieces(self._texts))

    @cached_property
    def _users_words(self) -> list[_Statement]:
        """Each message of a user, a brief one with what it answers; the earlier notes speak for those before them."""
        told = [_statement(said, before if _is_brief(said) else "") for said, before in self._exchanges()]
        return [*told, *map(_statement, self._earlier.splitlines())]

    @cached_property
    def _users_yes(self) -> list[_Statement]:
        """Each sentence of a user and each of its clauses; a brief one at the beginning with what it answers."""
        statements: list[_Statement] = []
        for said, before in self._exchanges():
            sentences = [sentence for line in said.splitlines() for sentence in sentences_in(line)]
            statements += (_statement(first, before) for first in sentences[:1] if _is_brief(first))
            parts = (part for sentence in sentences for part in {sentence, *_CLAUSE.split(sentence)})
            statements += map(_statement, parts)
        return [*statements, *map(_statement, self._earlier.splitlines())]

    @cached_property
    def _agents_yes(self) -> list[_Statement]:
        said = (message.text for message in self._messages if message.role == "assistant")
        lines = (line for text in said for line in text.splitlines() if _A_YES.search(line))
        return [_statement(sentence) for line in lines for sentence in sentences_in(line)]

    def _exchanges(self) -> Iterator[tuple[str, str]]:
        """What users said, each with the message before it."""
        before = ""
        for message in self._messages:
            if message.role == "user":
                yield "\n".join(own_parts(message.text)), before
            elif message.text:
                before = message.text


def _said_of_users(verbs: re.Pattern[str], sentence: str) -> list[tuple[int, int]]:
    """Where a sentence says such a thing of a user, from the first of the two to the end of the second."""
    users = [found.span() for found in _OF_USER.finditer(sentence)]
    found: list[tuple[int, int]] = []
    for verb in verbs.finditer(sentence) if users else ():
        at = bisect_left(users, verb.span())
        for start, end in users[max(at - 1, 0) : at + 1]:
            if max(verb.start() - end, start - verb.end()) <= _REACH:
                found.append((min(start, verb.start()), max(end, verb.end())))
    return found


def _clause_around(sentence: str, start: int, end: int) -> str:
    first = max((found.end() for found in _MAIN_CLAUSE.finditer(sentence, 0, start)), default=0)
    last = _MAIN_CLAUSE.search(sentence, end)
    return sentence[first : last.start() if last else len(sentence)]


def _is_still_to_come(sentence: str, start: int, end: int) -> bool:
    """Whether a yes is only asked for, or was not given."""
    clause = _CLAUSE.split(sentence[max(start - _NEAR, 0) : start])[-1]
    return bool(_NOT_YET_BEFORE.search(clause + sentence[start:end]) or _NOT_YET_AFTER.match(sentence, end))


def _is_small(written: str) -> bool:
    return len(written) < 9 and written.isdigit() and int(written) <= _SMALL


def _is_brief(said: str) -> bool:
    return len(said) <= (_BRIEF // 2 if language_of(said) else _BRIEF)


def _carried(said: str) -> Iterator[NamedThing]:
    """What a text names that stays the same in any language."""
    is_latin = not language_of(said)
    for named in named_things(said):
        if not (named.kind == "word" and is_latin) and not (named.kind == "number" and _is_small(named.plain)):
            yield named


class _Chunks:
    """Pieces of the source, and which words stand in which."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.stems: dict[str, list[int]] = {}
        self._count = 0
        for at, piece in enumerate(pieces):
            self._count = at + 1
            for stem in {*stems(piece)}:
                self.stems.setdefault(stem, []).append(at)

    def support(self, wanted: set[str]) -> tuple[float, float]:
        """The weight of those words that stand together in one piece, and of all of them."""
        found: dict[int, float] = defaultdict(float)
        for stem in wanted:
            for chunk in self.stems.get(stem, ()):
                found[chunk] += self._weight(stem)
        return max(found.values(), default=0.0), self.weight(wanted)

    def weight(self, wanted: set[str]) -> float:
        return sum(map(self._weight, wanted))

    def _weight(self, stem: str) -> float:
        """The rarer the more; most of all what is in no piece."""
        return math.log(1 + self._count / (len(self.stems.get(stem, ())) or 0.5))


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """The texts in pieces of about one size: short ones together, long ones cut."""
    piece = ""
    for said in texts:
        for at in range(0, len(said), _CHUNK):
            piece += "\n" + said[at : at + _CHUNK]
            if len(piece) >= _CHUNK:
                yield piece
                piece = ""
    if piece:
        yield piece


def _labelled(line: str) -> tuple[str, str, str]:
    """A line's bullet or number, the speaker that it names, and what it says."""
    found = _PREFIX.match(line)
    if found is None or _level(line):
        return "", "", line
    return found[0], found["speaker"] or "", line[found.end() :]


def _units(said: str) -> Iterator[str]:
    """The lines of a text; a block of code is one."""
    block: list[str] = []
    for line in said.split("\n"):
        if _FENCE.match(line):
            block.append(line)
            if len(block) > 1:
                yield "\n".join(block)
                block = []
        elif block:
            block.append(line)
        else:
            yield line
    if block:
        yield "\n".join(block)


def _without_empty_headings(lines: Sequence[str]) -> str:
    """A heading under which nothing is left goes."""
    kept: list[str] = []
    level_below = 1  # of the heading that comes next; more than any when there is text in between
    for line in reversed(lines):
        level = _level(line)
        if not level or level < level_below:
            kept.append(line)
        if line.strip():
            level_below = level or 99
    return "\n".join(reversed(kept)).strip()


def _level(line: str) -> int:
    stripped = line.lstrip()
    return len(stripped) - len(stripped.lstrip("#")) if stripped.startswith("#") else 0
