"""A history read as what may be quoted of it: units with who said them, what they are, and a first worth.

Users' messages and the assistant's prose are cut into whole units, calls are told in one line with their outcome, what
tools printed stays lines. A message of role "user" that only carries the output of a command (agents without tools get
it that way) is output. The worth is a prior: what a successor asks first is worth more, however seldom its words are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from orihon.compression.notes import cues
from orihon.compression.notes.calls import CallLine, program_of, read_call, read_command, restored_by
from orihon.compression.notes.layout import is_notes, noted_lines
from orihon.compression.notes.reader import (
    LineMark,
    LineSource,
    SourceLine,
    bare_joined,
    others_words,
    own_parts,
    speaker_of,
)
from orihon.compression.notes.units import Unit, units_of
from orihon.system.patterns import lazy_re
from orihon.texts import language
from orihon.values.message.message import Message

_COMMAND = lazy_re(
    r"```(?:bash|sh|shell|console|zsh|\w+_command)?[ \t]*\n(.*?)\n?```"
    r"|<(?:execute_)?bash>((?:[^<]++|<(?!/?(?:execute_)?bash>))*+)</(?:execute_)?bash>",
    re.S,
)
_TAG = lazy_re(r"\s*</?[\w-]+>\s*")
_TOPIC_WORD = lazy_re(r"[A-Za-z]{5,}")
_KANA, _HAN = lazy_re(r"[\u3040-\u30ff]"), lazy_re(r"[\u3400-\u9fff]")
_LATIN, _OTHER = lazy_re(r"[A-Za-z]"), lazy_re(r"[^\W\d_A-Za-z\u3040-\u30ff\u3400-\u9fff]")
_ENGLISH = lazy_re(r"\b(?i:the|and|to|of|in|is|it|you|for|that|with|this|on|please|do|not|are|be)\b")

_ANOTHER = lazy_re(  # the commonest words of other languages in Latin letters
    r"\b(?i:le|la|les|des|est|que|qui|une|pas|il|pour|und|der|das|ist|nicht|ein|eine|mit|el|los|las|una|por|para|con"
    r"|che|di|non|per|não|uma|com|een|het|niet|og|att|och|är)\b"
)

_SHORT_ANSWER = 80  # characters
_ANSWER = 2.0
_WHOLE = 240  # characters of a user's message that is one unit
_FEWEST_PAIRS = 3  # of command and output, before a user's messages are taken for output
_SAME = 0.5  # of the outputs that begin or end alike
_TALK = 12  # one of so many assistant's messages at most does some work
_OPENING = 2.5  # times: with its first sentences a long request says what it is about
_OPENING_SENTENCES = 3
_LONG = 6  # units of a message whose parts are not equally wanted
_CALLS = {"edit": 1.2, "command": 0.7, "plan": 1.0, "look": 0.2}
_FAILED, _TOLD, _DONE = 0.6, 0.2, 0.5
_BEFORE = 0.4  # of a call's worth, when the same was done again later
_REPORTED = 2.0
_TOPIC = 0.5
_TOPIC_WORDS = 10
_READ_FOR_TOPIC = 2000  # characters of each message


class NotedHistory:
    """Messages, read for what may be quoted of them."""

    def __init__(self, messages: Sequence[Message], seqs: Sequence[int]) -> None:
        self.messages = messages
        self.seqs = seqs
        self.outputs = _outputs(messages)
        self.is_talk = not self.outputs and _is_talk(messages)
        self.users = [at for at, message in enumerate(messages) if message.role == "user" and at not in self.outputs]
        is_first = not any(is_notes(message.role, message.text) for message in messages)  # or a fold has the first
        first = next((at for at in self.users if len(messages[at].text) > 40), next(iter(self.users), -1))
        self._first = first if is_first else -1
        self._newest = self.users[-1] if self.users else -1
        self._calls = self._read_calls()
        self._subjects = self._by_subject()
        self._programs = {program_of(call): place for place, calls in self._calls.items() for call in calls}
        self._undone = self._find_undone()

    def role(self, place: int) -> str:
        """Whose words a message has."""
        return "tool" if place in self.outputs else self.messages[place].role

    def lines(self, place: int) -> Iterator[SourceLine]:
        """What may be quoted of one message."""
        message, seq, role = self.messages[place], self.seqs[place], self.role(place)
        if is_notes(message.role, message.text):
            yield from noted_lines(message.text, place, seq)
            return
        speaker = speaker_of(message.tool_name or message.name) if message.role == "tool" else role
        source = LineSource(place, seq, speaker, role)
        said = message.text
        if role == "user":
            said = "\n".join(own_parts(said))
            for name, told in others_words(message.text).items():
                yield from self._shown(told, LineSource(place, seq, name, "tool"))
        if self.is_talk:
            yield from self._talk(said, source)
        elif role == "user":
            yield from self._said_by_user(said, source)
        elif role == "assistant":
            yield from self._said_by_assistant(message.text, source)
        else:
            yield from self._shown(message.text, source)
        yield from self._done(source)

    def files(self, start: int, end: int) -> dict[str, list[int]]:
        """The files that were written by the calls of these places, and the numbers of the messages."""
        found: dict[str, list[int]] = {}
        for place in range(start, end):
            for call in self._calls.get(place, ()):
                if (restored := restored_by(call)) is not None:
                    found = {path: at for path, at in found.items() if restored and path not in restored}
                for path in call.paths:
                    found.setdefault(path, []).append(self.seqs[place])
        return found

    @cached_property
    def language(self) -> str:
        """The language of the people: en, ja, zh, nothing where it is another; the program's where nobody can say."""
        said = " ".join(self.messages[at].text[:400] for at in self.users[:40]) or " ".join(
            message.text[:200] for message in self.messages[:40] if message.role == "assistant"
        )
        kana, han, latin, other = (len(one.findall(said)) for one in (_KANA, _HAN, _LATIN, _OTHER))
        if kana + han > latin / 6:
            return "ja" if kana * 8 > han else "zh"
        if other > latin / 4:
            return ""
        english, another = len(_ENGLISH.findall(said)), len(_ANOTHER.findall(said))
        if another > english:
            return ""
        return "en" if english else language()

    # ---- what was said -------------------------------------------------------------------------------------------

    def _talk(self, said: str, source: LineSource) -> Iterator[SourceLine]:
        for part, is_bare in bare_joined(said.split("\n")):
            is_end = source.place in (self._first, self._newest) and not cues.is_reaction(part)
            asks = source.role == "user" and not is_bare and (is_end or cues.ASKS.search(part))
            mark = (
                LineMark("user", 2.0 + (source.place == self._first))
                if asks
                else LineMark("talk", factor=cues.of_talk(part))
            )
            yield part, source, is_bare, mark

    def _said_by_user(self, said: str, source: LineSource) -> Iterator[SourceLine]:
        units = units_of(_unescaped(said))
        if len(said) <= _WHOLE and "```" not in said and units:
            units = [Unit(said.strip() if len(units) > 1 else units[0].text, 0)]
        prose = [at for at, unit in enumerate(units) if _opens(unit)][:_OPENING_SENTENCES]
        opening = prose[-1] if prose else -1
        for at, unit in enumerate(units):
            worth = self._demand(unit, source.place, is_alone=len(units) == 1)
            if len(units) > _LONG and at <= opening:
                worth *= _OPENING
            elif len(units) > _LONG and not cues.STRICT.search(unit.text):
                worth *= 1.3 - 0.5 * at / len(units)
            is_shown = unit.is_code or (len(units) > _LONG and not cues.is_prose(unit.text))
            factor = 0.05 if not worth else 0.3 if is_shown else 1.0
            is_newest = source.place == self._newest
            is_firm = is_newest or bool(cues.STRICT.search(unit.text) or cues.CORRECTS.search(unit.text))
            yield unit.text, source, False, replace(_mark("user", units, unit, worth, factor), is_firm=is_firm)

    def _demand(self, unit: Unit, place: int, *, is_alone: bool) -> float:
        if unit.is_code:
            return 0.12
        if _TAG.fullmatch(unit.text) or (unit.is_heading and not is_alone):
            return 0.0  # it comes along with what it announces
        worth = cues.demand(unit.text) * (1.0 if is_alone or cues.is_prose(unit.text) else 0.4)
        if is_alone and len(unit.text) <= _SHORT_ANSWER and not cues.is_reaction(unit.text):
            worth = max(worth, _ANSWER)  # a short answer decides something
        if place == self._first:
            return worth * 2.0
        return worth * 1.6 if place == self._newest else worth * self._recency(place)

    def _said_by_assistant(self, said: str, source: LineSource) -> Iterator[SourceLine]:
        """Prose by sentence, code by line."""
        units = units_of(_COMMAND.sub("\n", said) if source.place + 1 in self.outputs else _unescaped(said))
        code: list[str] = []
        for unit in units:
            if unit.is_code:
                code += unit.text.split("\n")
                continue
            yield from ((part, source, is_bare, None) for part, is_bare in bare_joined(code))
            code = []
            worth = cues.statement(unit.text) * self._recency(source.place) if cues.is_prose(unit.text) else 0.1
            heading = "decisions" if cues.DECIDED.search(unit.text) else "open" if cues.NEXT.match(unit.text) else ""
            yield unit.text, source, False, _mark("statement", units, unit, worth, heading=heading)
        yield from ((part, source, is_bare, None) for part, is_bare in bare_joined(code))

    def _shown(self, said: str, source: LineSource) -> Iterator[SourceLine]:
        for part, is_bare in bare_joined(said.split("\n")):
            factor = cues.shown(part)
            mark = None if factor == 1.0 else LineMark("shown", factor=factor)
            if source.role != "tool" and cues.REPORTS.match(part) and not self._is_undone(part):
                mark = LineMark("call", _REPORTED * self._recency(source.place))
            elif factor == 1.0 and self._topic is not None and len(part) < 300:
                hits = len({*self._topic.findall(part.lower())})
                mark = LineMark("shown", _TOPIC * min(hits - 1, 3) * self._recency(source.place)) if hits > 1 else None
            yield part, source, is_bare, mark

    def _recency(self, place: int) -> float:
        return 0.7 + 0.6 * place / len(self.messages)

    @cached_property
    def _topic(self) -> re.Pattern[str] | None:
        """The rarer words of what was asked first and last: lines that have several of them are about it."""
        asked = " ".join(self.messages[at].text[:600] for at in dict.fromkeys((self._first, self._newest)) if at >= 0)
        words = {word.lower() for word in _TOPIC_WORD.findall(asked)}
        if len(words) < 2:
            return None
        sample = " ".join(message.text[:_READ_FOR_TOPIC].lower() for message in self.messages)
        often = {word: sample.count(word) for word in sorted(words)}
        rarest = sorted((word for word in often if often[word] > 1), key=often.__getitem__)[:_TOPIC_WORDS]
        return re.compile("|".join(map(re.escape, rarest))) if len(rarest) > 1 else None

    # ---- what was done -------------------------------------------------------------------------------------------

    def _done(self, source: LineSource) -> Iterator[SourceLine]:
        for call in self._calls.get(source.place, ()):
            called = replace(source, speaker=speaker_of(call.tool))  # what came of it is the tool's word
            yield self._told(call, source.place), called, False, self._call_mark(call, source.place)
            yield call.brief, called, False, LineMark("call")  # where neither change nor outcome matters
            for written in call.written:
                yield from ((part, source, is_bare, None) for part, is_bare in bare_joined(written.split("\n")))

    def _told(self, call: CallLine, place: int) -> str:
        """The call; where the same was done before, how often and where it failed."""
        times = self._subjects[call.subject]
        if call.kind == "edit" or len(times) < 2 or times[-1][0] != place:
            return call.text
        failed = [str(self.seqs[at]) for at, has_failed in times[:-1] if has_failed]
        return f"{call.text} ({len(times)} ×{', ✗ ' + ', '.join(failed) if failed else ''})"

    def _call_mark(self, call: CallLine, place: int) -> LineMark:
        is_last = self._subjects[call.subject][-1][0] == place
        is_over = self._programs.get(program_of(call), place) != place
        has_failed = call.outcome is not None and call.outcome.has_failed
        worth = _CALLS[call.kind]
        worth += _FAILED if has_failed else _TOLD if call.outcome is not None and call.outcome.line else 0.0
        worth += _DONE if call.kind == "command" and (call.paths or cues.DOES.search(call.said)) else 0.0
        is_problem = has_failed and call.kind == "command" and not is_over
        heading = "open" if call.kind == "plan" else "problems" if is_problem else ""
        return LineMark(
            "call",
            worth * (1.0 if is_last else _BEFORE) * self._recency(place),
            factor=0.5,
            heading=heading if is_last else "",
        )

    def _read_calls(self) -> dict[int, list[CallLine]]:
        results: dict[str | None, Message] = {}  # of the calls before: an id may come again
        calls: dict[int, list[CallLine]] = {}
        for place in reversed(range(len(self.messages))):
            message = self.messages[place]
            if message.answers:
                results[message.answers] = message
            answers = [results.pop(call.id, None) for call in message.tool_calls]
            found = [
                read_call(call.name, call.arguments, answer.text if answer is not None else None)
                for call, answer in zip(message.tool_calls, answers, strict=True)
            ]
            if place + 1 in self.outputs:
                output = self.messages[place + 1].text
                commands = dict.fromkeys(one[1] or one[2] or "" for one in _COMMAND.finditer(message.text))
                found += [read_command(command, result=output) for command in commands if command.strip()]
            if found:
                calls[place] = found
        return dict(sorted(calls.items()))

    def _find_undone(self) -> frozenset[str]:
        """Ids of what was done and taken back."""
        texts = (message.text for at, message in enumerate(self.messages) if self.role(at) not in ("user", "assistant"))
        return frozenset(found[:7] for said in texts for found in cues.UNDONE.findall(said))

    def _is_undone(self, said: str) -> bool:
        return bool(self._undone) and any(found[:7] in self._undone for found in cues.HASH.findall(said))

    def _by_subject(self) -> dict[str, list[tuple[int, bool]]]:
        """Where each thing was done, and whether it failed there."""
        subjects: dict[str, list[tuple[int, bool]]] = {}
        for place, calls in self._calls.items():
            for call in calls:
                has_failed = call.outcome is not None and bool(call.outcome.has_failed)
                subjects.setdefault(call.subject, []).append((place, has_failed))
        return subjects


def _unescaped(said: str) -> str:
    """A text that was put into JSON as a whole, with its line ends as such."""
    return said.replace("\\n", "\n").replace('\\"', '"') if said.lstrip()[:1] in '{["' and "\\n" in said else said


def _mark(
    kind: str, units: Sequence[Unit], unit: Unit, worth: float, factor: float = 1.0, heading: str = ""
) -> LineMark:
    lead = units[unit.lead].text if unit.lead is not None and (kind == "user" or unit.is_item) else ""
    return LineMark(kind, worth, unit.paragraph, lead, heading, factor)


def _opens(unit: Unit) -> bool:
    return not unit.is_code and cues.is_prose(unit.text) and not unit.text.endswith((":", "："))


def _is_talk(messages: Sequence[Message]) -> bool:
    """Whether people talk, and nothing is worked on: hardly a call, hardly a block of code."""
    said = [message for message in messages if message.role == "assistant"]
    return _TALK * sum(bool(message.tool_calls) or "```" in message.text for message in said) < len(said)


def _outputs(messages: Sequence[Message]) -> frozenset[int]:
    """Places of users' messages that carry the output of a command which the agent has written as text."""
    answers = [
        at
        for at in range(1, len(messages))
        if messages[at].role == "user"
        and messages[at - 1].role == "assistant"
        and not messages[at - 1].tool_calls
        and _COMMAND.search(messages[at - 1].text)
    ]
    if len(answers) < _FEWEST_PAIRS:
        return frozenset()
    begins = Counter(messages[at].text.lstrip()[:8] for at in answers)
    ends = Counter(_last_line(messages[at].text) for at in answers)

    def is_output(at: int) -> bool:
        said = messages[at].text
        alike = max(begins[said.lstrip()[:8]], ends[_last_line(said)])
        return alike >= _SAME * len(answers) or not cues.is_prose(said[:400])

    return frozenset(filter(is_output, answers))


def _last_line(said: str) -> str:
    return said.rstrip().rsplit("\n", 1)[-1]
