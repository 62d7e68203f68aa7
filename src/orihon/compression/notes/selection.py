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
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from orihon.compression.notes.facts import FactKind
from orihon.compression.notes.reader import LineSource, LineStatistics
from orihon.system.patterns import lazy_re
from orihon.values.message.message import Message
from orihon.values.tokens.tokens import TokenCounter

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
_SENTENCE_END = lazy_re(r"(?<=[.!?])\s+|(?<=[。！？])(?=.)")
_MAY_HAVE_SENTENCES = lazy_re(r"[.!?]\s|[。！？].")
_TRIMMED_FROM = 60  # characters; a shorter line is not worth cutting
_LEAST_OF_GUESS = 0.75  # no line is much cheaper than its message on an average
KEPT_WEIGHT = 0.62  # of a line's weight that trimming must leave, so that it still says the same
_SENTENCE_COST = 3  # characters' worth of tokens that any sentence costs
_QUESTION = 0.5
_BARE = 0.42  # a bare name is worth less: it shows little of what it is about


class Pool:
    """Lines by number, in parallel lists."""

    def __init__(
        self,
        messages: Sequence[Message],
        sizes: Sequence[int],
        count: TokenCounter,
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
        self.marks = [line[3] for line in lines]
        self.said = reading.features()  # what the lines are about
        self.features = list(self.said)  # what is left of it where they are trimmed
        self._rarity = [math.log2(1 + reading.places / (1 + count)) for count in range(reading.places + 1)]
        self.is_word = [kind is None for kind in reading.kinds()]
        for index, text in enumerate(self.texts):
            mark = self.marks[index]
            is_unit = mark is not None and mark.kind in ("user", "statement", "call")  # cut already, and whole
            if not is_unit and len(text) >= _TRIMMED_FROM and _MAY_HAVE_SENTENCES.search(text):
                self._trim(index)
        token_lengths = list(map(_token_length, messages, sizes))
        self.least_costs = [
            len(text) / token_lengths[source.place] * _LEAST_OF_GUESS + LINE_COST
            for text, source in zip(self.texts, self.sources, strict=True)
        ]
        self.costs = [0] * len(lines)  # of the lines that have been weighed
        self.factors = [
            (_BARE if is_bare else 1.0 if mark is None else mark.factor)
            * (_QUESTION if text.endswith(("?", "？")) else 1.0)
            for text, _, is_bare, mark in lines
        ]
        #: Lines that are worth something for what they are, with their marks.
        self.told = {index: mark for index, mark in enumerate(self.marks) if mark is not None and mark.worth}
        announced = {mark.lead for mark in self.told.values() if mark.lead}
        announcing = {text: index for index, text in enumerate(self.lines) if text in announced}
        self._leads = {index: announcing[mark.lead] for index, mark in self.told.items() if mark.lead in announcing}
        places = [source.place for source in self.sources]
        self._starts = [bisect_left(places, place) for place in range(reading.places + 1)]

    def between(self, start: int, end: int) -> range:
        """The lines of the messages at ``start`` up to but without ``end``."""
        return range(self._starts[start], self._starts[end])

    def features_at(self, place: int) -> set[int]:
        """Everything that the lines of one message are about, those apart that stand again later."""
        return set().union(*self.said[self._starts[place] : self._starts[place + 1]])

    def weigh(self, index: int) -> int:
        """A line's tokens."""
        cost = self.costs[index]
        if not cost:
            cost = self.costs[index] = self._count(self.texts[index]) + LINE_COST
        return cost

    def lead(self, index: int) -> int | None:
        """The line that announces this one."""
        found = self._leads.get(index)
        return None if found == index else found

    def heading(self, index: int) -> str:
        """Where a line belongs in the notes. Only who may speak gets a heading of his own."""
        source, mark = self.sources[index], self.marks[index]
        if source.heading and not (source.role == "user" and source.heading in ("goal", "constraints")):
            return source.heading
        if source.role == "user":
            return "said"
        return mark.heading if mark is not None and mark.heading else "notes"

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


# What is still worth something after it was shown once: a fact is known by then, a word may stand for something else.
_FACT_AGAIN = 0.06
_WORD_AGAIN = 0.15
_BARE_AGAIN = 0.4
_LEAST_ROOM = 6
_NEARLY_BEST = 0.95  # as good as the best: saves looking at most lines again
_PASSED_OVER = 300
_SAYS_NOTHING = 0.1  # a factor up to which a line is not worth even the room that is left over


# Of the room for notes, as a share of it, and as so many tokens with a smaller share of what a larger room has.
_SAID_SHARE = 0.45
_SAID_IN_TALK = 0.2
_OF_ONE_MESSAGE = (300, 0.15)
_DONE_SHARE = 0.5
_DONE = (300, 0.25)
LEAST_DEMAND = 1.5  # below, what a user said is chosen like anything else
_LONGER = 0.85  # worth grows nearly with length, or only short units would be taken
_KNOWN = 0.3  # of its worth that a unit keeps when all of it has been said
# A user's sentence about what is worked on goes before one about anything else; of the others that is known already.
_NAMED = {"user": 10.0}
_NAMED_BY_OTHERS = 1.0


class Selection:
    """Lines chosen so far, by number, and the worth that is left in the others."""

    def __init__(
        self,
        pool: Pool,
        lines: Iterable[int],
        worth: Sequence[float],
        shown: Iterable[int] = (),
        *,
        is_talk: bool = False,
    ) -> None:
        self.chosen: list[int] = []
        self.least_density = float("inf")
        self._pool = pool
        self._full_worth = worth
        self._worth = list(worth)
        self._again = [_WORD_AGAIN if is_word else _FACT_AGAIN for is_word in pool.is_word]
        for feature in shown:
            self._worth[feature] *= self._again[feature]
        candidates = list(lines)
        self._heap = self._likely_densities(candidates)
        heapq.heapify(self._heap)
        self._taken: set[int] = set()
        self._told = [index for index in candidates if index in pool.told]
        self._said_share = _SAID_IN_TALK if is_talk else _SAID_SHARE
        self._has_begun = False

    def worth_of(self, features: Iterable[int]) -> float:
        """What these features are still worth."""
        return sum(map(self._worth.__getitem__, features))

    def is_unseen(self, feature: int) -> bool:
        """Whether nothing that is shown or chosen is about this feature."""
        return self._worth[feature] >= self._full_worth[feature]

    def take(self, room: float) -> None:
        """Choose more, for about ``room`` tokens: at first what was said and done, then what covers the rest."""
        if not self._has_begun:
            self._has_begun = True
            whole = room
            room -= self._take_told(("user",), whole * self._said_share, _of(_OF_ONE_MESSAGE, whole), LEAST_DEMAND)
            done = min(whole * _DONE_SHARE, _of(_DONE, whole))
            room -= self._take_told(("statement", "call", "shown"), done, done)
        self._take_covering(room)

    def _take_told(self, kinds: Collection[str], room: float, of_one: float, least: float = 0.0) -> float:
        """Choose by what a unit is, as long as it says something new, so much of one message; answers the tokens."""
        pool, used = self._pool, 0.0
        of_message: dict[int, float] = {}
        heap = [
            (-self._told_density(index, pool.least_costs[index]), index)
            for index in self._told
            if pool.told[index].kind in kinds and pool.told[index].worth >= least
        ]
        heapq.heapify(heap)
        while heap and used < room - _LEAST_ROOM:
            _, index = heapq.heappop(heap)
            if index in self._taken:
                continue
            cost, seq = pool.weigh(index), pool.sources[index].seq
            density = self._told_density(index, cost)
            if heap and density < -heap[0][0] * _NEARLY_BEST:
                heapq.heappush(heap, (-density, index))
            elif cost <= room - used and of_message.get(seq, 0.0) + cost <= of_one:
                taken = self._choose(index, density)
                of_message[seq] = of_message.get(seq, 0.0) + taken
                used += taken
        return used

    def _told_density(self, index: int, cost: float) -> float:
        mark = self._pool.told[index]
        named = _NAMED.get(mark.kind, _NAMED_BY_OTHERS) * self._worth_now(index)
        told: float = mark.worth * (1.0 if mark.is_firm else self._novelty(index)) * cost**_LONGER
        return (told + named) / cost

    def _novelty(self, index: int) -> float:
        features = self._pool.features[index]
        full = sum(map(self._full_worth.__getitem__, features))
        return _KNOWN + (1 - _KNOWN) * self.worth_of(features) / full if full else _KNOWN

    def _take_covering(self, room: float) -> None:
        """Choose lines that are about what will be needed and has not been said."""
        heap, weigh = self._heap, self._pool.weigh
        passed_over: list[tuple[float, int]] = []
        while heap and room > _LEAST_ROOM:
            _, index = heapq.heappop(heap)
            if index in self._taken:
                continue
            cost = weigh(index)
            density = self._worth_now(index) / cost
            if heap and density < -heap[0][0] * _NEARLY_BEST:
                heapq.heappush(heap, (-density, index))
            elif cost <= room:
                room -= self._choose(index, density)
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

    def _choose(self, index: int, density: float) -> int:
        """Choose a line, and what announces it; answers the tokens."""
        lead = self._pool.lead(index)
        self._taken.add(index)
        used = self._choose(lead, density) if lead is not None and lead not in self._taken else 0
        self.chosen.append(index)
        self.least_density = min(self.least_density, density)
        is_bare = self._pool.is_bare[index]
        for feature in self._pool.features[index]:
            self._worth[feature] *= _BARE_AGAIN if is_bare else self._again[feature]
        return used + self._pool.weigh(index)

    def _worth_now(self, index: int) -> float:
        return self.worth_of(self._pool.features[index]) * self._pool.factors[index]

    def _likely_densities(self, lines: Iterable[int]) -> list[tuple[float, int]]:
        """Never less than the real ones: a line's tokens are guessed from its length."""
        pool = self._pool
        return [
            (-self._worth_now(index) / pool.least_costs[index], index)
            for index in lines
            if pool.factors[index] > _SAYS_NOTHING
        ]


def _of(room: tuple[int, float], whole: float) -> float:
    tokens, share = room
    return tokens + share * whole
