"""The lines of a history as they may be quoted: trimmed, with heading, likely cost and what they are about.

Made once for a history and shared by every selection from it. Lines are numbered in the order of the text, so the lines
of neighbouring messages are neighbours. A line's tokens are counted only when it is about to be chosen; until then they
are guessed from its length by what its message costs.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from orihon.compression.notes.facts import is_constraint, is_decision, is_error, is_open
from orihon.compression.notes.reader import LineSource, LineStatistics
from orihon.values.message.message import Message
from orihon.values.tokens.tokens import Counter

#: Tokens for each line beside its text. More than its end and source take: few long lines say more than many short.
LINE_COST = 5
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?])(?=.)")
_MAY_HAVE_SENTENCES = re.compile(r"[.!?]\s|[。!?].")
_TRIMMED_FROM = 60  # characters; a shorter line is not worth cutting
_LEAST_OF_GUESS = 0.75  # no line is much cheaper than its message on an average
KEPT_WEIGHT = 0.62  # of a line's weight that trimming must leave, so that it still says the same
_SENTENCE_COST = 3  # characters' worth of tokens that any sentence costs
_QUESTION = 0.6
_BARE = 0.42  # a bare name is worth less: it shows little of what it is about
_BONUS = {"goal": 0.025, "constraints": 0.04, "decisions": 0.0125, "open": 0.0125, "problems": 0.0125}
_MOST_BONUS = {"tool": _BONUS["problems"]}
_MOST_BONUS_OF_ALL = max(_BONUS.values())


class Pool:
    """Lines by number, in parallel lists."""

    def __init__(
        self,
        messages: Sequence[Message],
        sizes: Sequence[int],
        count: Counter,
        reading: LineStatistics,
        worth: Sequence[float],
    ) -> None:
        self._count = count
        self._reading = reading
        self._worth = worth
        lines = reading.lines()
        self.lines = [line[0] for line in lines]
        self.texts = list(self.lines)  # what is quoted of them
        self.sources: list[LineSource] = [line[1] for line in lines]
        self.is_bare = [line[2] for line in lines]
        self.said = reading.features()  # what the lines are about
        self.features = list(self.said)  # what is left of it where they are trimmed
        self._rarity = [math.log2(1 + reading.places / (1 + count)) for count in range(reading.places + 1)]
        self.is_word = [kind is None for kind in reading.kinds()]
        for index, text in enumerate(self.texts):
            if len(text) >= _TRIMMED_FROM and _MAY_HAVE_SENTENCES.search(text):
                self._trim(index)
        token_lengths = list(map(_token_length, messages, sizes))
        self.least_costs = [
            len(text) / token_lengths[source.place] * _LEAST_OF_GUESS + LINE_COST
            for text, source in zip(self.texts, self.sources, strict=True)
        ]
        self.costs = [0] * len(lines)  # with the bonuses, for the lines that have been weighed
        self.bonuses = [0.0] * len(lines)
        self.factors = [
            (_BARE if is_bare else 1.0) * (_QUESTION if text.endswith(("?", "?")) else 1.0)
            for text, is_bare in zip(self.texts, self.is_bare, strict=True)
        ]
        self._headings: dict[int, str] = {}
        places = [source.place for source in self.sources]
        self._starts = [bisect_left(places, place) for place in range(reading.places + 1)]
        self._first_user = next((at for at, message in enumerate(messages) if message.role == "user"), -1)
        self._writing = {place for place, message in enumerate(messages) if _writes(message)}

    def between(self, start: int, end: int) -> range:
        """The lines of the messages at ``start`` up to but without ``end``."""
        return range(self._starts[start], self._starts[end])

    def features_at(self, place: int) -> set[int]:
        """Everything that the lines of one message are about, those apart that stand again later."""
        return set().union(*self.said[self._starts[place] : self._starts[place + 1]])

    def weigh(self, index: int) -> int:
        """Count a line's tokens, and find what it is worth beside its features."""
        cost = self.costs[index] = self._count(self.texts[index]) + LINE_COST
        self.bonuses[index] = _BONUS.get(self.heading(index), 0.0)
        return cost

    def most_bonus(self, index: int) -> float:
        """What its bonus is at most, known without reading the line."""
        return _MOST_BONUS.get(self.sources[index].role, _MOST_BONUS_OF_ALL)

    def heading(self, index: int) -> str:
        """Where a line belongs in the notes."""
        found = self._headings.get(index)
        if found is None:
            found = self._headings[index] = self._find_heading(self.sources[index], self.texts[index])
        return found

    def _find_heading(self, source: LineSource, text: str) -> str:
        if source.heading:
            return source.heading
        if source.role == "tool":
            return "problems" if is_error(text) else "notes"
        if source.role == "user" and is_constraint(text):
            return "constraints"
        if source.place == self._first_user:
            return "goal"
        return "changes" if source.place in self._writing else _said(text)

    def _trim(self, index: int) -> None:
        """Leave the emptiest sentences out, when what stays still says most of the line."""
        sentences = sentences_of(self.texts[index])
        features = [self._reading.features_of(sentence) for sentence in sentences]
        kept = self._weightiest(sentences, features)
        if not kept or len(kept) == len(sentences):
            return
        parts: list[str] = []
        for at, sentence in enumerate(sentences):
            if at in kept:
                parts.append(sentence.strip())
            elif parts and parts[-1] != "…":
                parts.append("…")
        self.texts[index] = " ".join(parts).removesuffix(" …")
        self.features[index] = tuple(dict.fromkeys(itertools.chain.from_iterable(features[at] for at in sorted(kept))))

    def _weightiest(self, sentences: Sequence[str], features: Sequence[tuple[int, ...]]) -> set[int]:
        weights = [self.weight(of_sentence) for of_sentence in features]
        worth = [sum(map(self._worth.__getitem__, of_sentence)) for of_sentence in features]
        best_first = sorted(range(len(sentences)), key=lambda at: -worth[at] / (len(sentences[at]) + _SENTENCE_COST))
        kept: set[int] = set()
        weight, enough = 0.0, KEPT_WEIGHT * sum(weights)
        for at in best_first:
            if weight >= enough:
                break
            kept.add(at)
            weight += weights[at]
        return kept

    def weight(self, features: Iterable[int]) -> float:
        """How much is said, by the rarity of the words."""
        messages = self._reading.messages
        return sum(self._rarity[messages[feature]] for feature in features if self.is_word[feature])


def sentences_of(line: str) -> list[str]:
    """The sentences of a line."""
    return [sentence for sentence in _SENTENCE_END.split(line) if sentence]


def _token_length(message: Message, tokens: int) -> float:
    """Characters of a token, on an average."""
    characters = len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return max(characters, 1) / max(tokens, 1)


def _said(text: str) -> str:
    for heading, applies in (("open", is_open), ("decisions", is_decision), ("problems", is_error)):
        if applies(text):
            return heading
    return "notes"


def _writes(message: Message) -> bool:
    """Whether a message's tool calls carry text of several lines: code or a file, not a question to the tool."""
    return any("\\n" in call.arguments for call in message.tool_calls)
