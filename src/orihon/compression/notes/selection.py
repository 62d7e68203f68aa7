"""Choosing lines within a budget: each next one adds the most worth for its tokens.

A feature's worth is how likely the agent needs it again: a small logistic model, fitted to public agent transcripts.
What the agent itself has used it will use again; what a user named is likely to matter; what stands everywhere needs no
note; age takes away little. How often this agent goes back to what its tools showed is measured in the history at hand.

The pool has the lines as they may be quoted, in the order of the text, and is made once for a history. A line's tokens
are counted only when it is about to be chosen; until then they are guessed from its length.

Greedy weighted coverage: a feature that a chosen line is about is worth little in the next one, so redundancy costs
itself out. Worth only ever sinks, so a line is looked at again only when it comes to the top (lazy evaluation).
Deterministic: ties go to the line that stands first.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from orihon.compression.notes.facts import FactKind, is_constraint, is_decision, is_error, is_open
from orihon.compression.notes.reader import LineSource, LineStatistics
from orihon.values.message.message import Message
from orihon.values.tokens.tokens import Counter

_BIAS = -2.5
_USED = 1.5
_PER_AGENT_USE = 1.0  # for each doubling of the agent's messages that have it
_PER_MESSAGE = -0.4  # for each doubling of all messages that have it
_PER_AGE = -0.04  # for each doubling of its age
_BY_USER = 1.2
_MEASURED_REUSE = 0.7
_USUAL_REUSE = -2.5  # log-odds
_LEAST_REUSE = -3.5
_SMOOTHING = 8
_NUMBER = 0.7  # numbers are often made up again: counts, line numbers, times
_WORD = 0.008
_FEW_FACTS = 0.1  # of all features: with fewer facts it is a talk, and words weigh more
_MOST_LACK = 6.0
_WORTHLESS = 0.00025  # a word that stands everywhere


def feature_worth(reading: LineStatistics) -> list[float]:
    """The worth of each feature of a history."""
    reuse = _measured_reuse(reading)
    total = max(reading.places, 1)
    rarest = math.log2(1 + total)
    word = _WORD * _lack_of_facts(reading)
    worth = []
    for feature, kind in enumerate(reading.kinds()):
        if kind is None:
            of_word = word * math.log2(total / reading.messages[feature]) / rarest
            worth.append(of_word if of_word > _WORTHLESS else 0.0)
        else:
            chance = 1 / (1 + math.exp(-_log_odds(reading, feature, reuse[kind])))
            worth.append(chance * _NUMBER if kind is FactKind.NUMBER else chance)
    return worth


def _lack_of_facts(reading: LineStatistics) -> float:
    """How much more words weigh here than in a history full of facts."""
    kinds = reading.kinds()
    facts = len(kinds) - kinds.count(None)
    return min(max(_FEW_FACTS * len(kinds) / max(facts, 1), 1.0), _MOST_LACK)


def _log_odds(reading: LineStatistics, feature: int, reuse: float) -> float:
    uses = reading.agent_messages[feature]
    age = max(reading.places - reading.last[feature], 1)
    odds = _BIAS + _PER_AGENT_USE * math.log2(1 + uses) + _PER_AGE * math.log2(age)
    odds += _PER_MESSAGE * math.log2(reading.messages[feature]) + _BY_USER * (feature in reading.from_user)
    return odds + (_USED if uses else _MEASURED_REUSE * (reuse - _USUAL_REUSE))


def _measured_reuse(reading: LineStatistics) -> dict[FactKind, float]:
    """Log-odds, for each kind, that the agent takes up a fact which others brought in."""
    shown = dict.fromkeys(FactKind, 0)
    taken_up = dict.fromkeys(FactKind, 0)
    for feature, kind in enumerate(reading.kinds()):
        if kind is not None and feature not in reading.from_agent_first:
            shown[kind] += 1
            taken_up[kind] += reading.agent_messages[feature] > 0
    overall = (sum(taken_up.values()) + 1) / (sum(shown.values()) + 10)
    shares = {kind: (taken_up[kind] + _SMOOTHING * overall) / (shown[kind] + _SMOOTHING) for kind in FactKind}
    return {kind: max(math.log(share / (1 - share)), _LEAST_REUSE) for kind, share in shares.items()}


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


# What is still worth something after it was shown once: a fact is known by then, a word may stand for something else.
_FACT_AGAIN = 0.06
_WORD_AGAIN = 0.15
_BARE_AGAIN = 0.4
_LEAST_ROOM = 6
_NEARLY_BEST = 0.95  # as good as the best: saves looking at most lines again
_PASSED_OVER = 300


class Selection:
    """Lines chosen so far, by number, and the worth that is left in the others."""

    def __init__(self, pool: Pool, lines: Iterable[int], worth: Sequence[float], shown: Iterable[int] = ()) -> None:
        self.chosen: list[int] = []
        self.least_density = float("inf")
        self._pool = pool
        self._full_worth = worth
        self._worth = list(worth)
        self._again = [_WORD_AGAIN if is_word else _FACT_AGAIN for is_word in pool.is_word]
        for feature in shown:
            self._worth[feature] *= self._again[feature]
        self._heap = self._likely_densities(lines)
        heapq.heapify(self._heap)

    def worth_of(self, features: Iterable[int]) -> float:
        """What these features are still worth."""
        return sum(map(self._worth.__getitem__, features))

    def is_unseen(self, feature: int) -> bool:
        """Whether nothing that is shown or chosen is about this feature."""
        return self._worth[feature] >= self._full_worth[feature]

    def take(self, room: float) -> None:
        """Choose more, for about ``room`` tokens."""
        heap, costs, weigh = self._heap, self._pool.costs, self._pool.weigh
        passed_over: list[tuple[float, int]] = []
        while heap and room > _LEAST_ROOM:
            _, index = heapq.heappop(heap)
            cost = costs[index] or weigh(index)
            density = self._worth_now(index) / cost
            if heap and density < -heap[0][0] * _NEARLY_BEST:
                heapq.heappush(heap, (-density, index))
            elif cost <= room:
                room -= cost
                self._choose(index, density)
            elif len(passed_over) < _PASSED_OVER:
                passed_over.append((-density, index))
            else:
                break
        for entry in passed_over:
            heapq.heappush(heap, entry)

    def tokens_by_place(self) -> dict[int, int]:
        """What the chosen lines of each message cost."""
        costs: dict[int, int] = {}
        for index in self.chosen:
            place = self._pool.sources[index].place
            costs[place] = costs.get(place, 0) + self.tokens_of(index)
        return costs

    def tokens(self) -> int:
        """What all chosen lines take."""
        return sum(map(self.tokens_of, self.chosen))

    def tokens_of(self, index: int) -> int:
        """What a chosen line takes."""
        return self._pool.costs[index]

    def give_back(self) -> int:
        """Take the line chosen last out again; it does not come back."""
        return self.chosen.pop()

    def _choose(self, index: int, density: float) -> None:
        self.chosen.append(index)
        self.least_density = min(self.least_density, density)
        is_bare = self._pool.is_bare[index]
        for feature in self._pool.features[index]:
            self._worth[feature] *= _BARE_AGAIN if is_bare else self._again[feature]

    def _worth_now(self, index: int) -> float:
        pool = self._pool
        return (sum(map(self._worth.__getitem__, pool.features[index])) + pool.bonuses[index]) * pool.factors[index]

    def _likely_densities(self, lines: Iterable[int]) -> list[tuple[float, int]]:
        """Never less than the real ones: what would need a look at the words is taken for granted."""
        pool, worth = self._pool, self._worth.__getitem__
        return [
            (
                -(sum(map(worth, pool.features[index])) + pool.most_bonus(index))
                * pool.factors[index]
                / pool.least_costs[index],
                index,
            )
            for index in lines
        ]
