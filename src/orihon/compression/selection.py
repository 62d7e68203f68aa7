"""Choosing statements within a budget: each next one adds the most worth for its tokens.

Greedy weighted coverage: a feature that a chosen statement is about is worth little in the next one, so redundancy
costs itself out. Worth only ever sinks, so a statement is looked at again only when it comes to the top (lazy
evaluation), and its tokens are counted only then. Deterministic: ties go to the statement given first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orihon.compression.reading import Statement
from orihon.tokens import Counter

AGAIN = 0.15  # what a feature is still worth after it was shown once
LINE_COST = 3  # tokens that a line needs beside its text: line end and part of its source
_BARE = 0.3  # a bare name is worth less, and shows little of what it is about
_BARE_AGAIN = 0.6
_MOST_CHARACTERS_PER_TOKEN = 4.5
_LEAST_ROOM = 6
_NEARLY_BEST = 0.9  # as good as the best: saves looking at most statements again
_PASSED_OVER = 300


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement that may be chosen. ``bonus`` is what it is worth beside its features."""

    statement: Statement
    text: str
    heading: str
    features: tuple[int, ...]  # those that are worth anything
    bonus: float = 0.0
    factor: float = 1.0


class Selection:
    """Statements chosen so far, and the worth that is left in the others."""

    def __init__(
        self, candidates: Sequence[Candidate], worth: Sequence[float], count: Counter, shown: Iterable[int] = ()
    ) -> None:
        self.chosen: list[Candidate] = []
        self.least_density = float("inf")
        self._candidates = candidates
        self._full_worth = worth
        self._worth = list(worth)
        self._count = count
        self._costs: dict[int, int] = {}
        for feature in shown:
            self._worth[feature] *= AGAIN
        self._heap = [
            (-density, index) for index, density in enumerate(map(self._likely_density, candidates)) if density
        ]
        heapq.heapify(self._heap)

    def worth_of(self, features: Iterable[int]) -> float:
        """What these features are still worth."""
        return sum(map(self._worth.__getitem__, features))

    def is_unseen(self, feature: int) -> bool:
        """Whether nothing that is shown or chosen is about this feature."""
        return self._worth[feature] >= self._full_worth[feature]

    def take(self, room: int) -> None:
        """Choose more, for about ``room`` tokens."""
        passed_over: list[tuple[float, int]] = []
        while self._heap and room > _LEAST_ROOM:
            _, index = heapq.heappop(self._heap)
            cost = self._cost(index)
            density = self._worth_now(self._candidates[index]) / cost
            if self._heap and density < -self._heap[0][0] * _NEARLY_BEST:
                heapq.heappush(self._heap, (-density, index))
            elif cost <= room:
                room -= cost
                self._choose(self._candidates[index], density)
            elif len(passed_over) < _PASSED_OVER:
                passed_over.append((-density, index))
            else:
                break
        for entry in passed_over:
            heapq.heappush(self._heap, entry)

    def tokens_by_place(self) -> dict[int, int]:
        """What the chosen statements of each message cost."""
        costs: dict[int, int] = {}
        for candidate in self.chosen:
            place = candidate.statement.line.place
            costs[place] = costs.get(place, 0) + self._count(candidate.text) + LINE_COST
        return costs

    def give_back(self) -> Candidate:
        """Take the statement chosen last out again; it does not come back."""
        return self.chosen.pop()

    def _choose(self, candidate: Candidate, density: float) -> None:
        self.chosen.append(candidate)
        self.least_density = min(self.least_density, density)
        still = _BARE_AGAIN if candidate.statement.line.is_bare else AGAIN
        for feature in candidate.features:
            self._worth[feature] *= still

    def _cost(self, index: int) -> int:
        cost = self._costs.get(index)
        if cost is None:
            cost = self._costs[index] = self._count(self._candidates[index].text) + LINE_COST
        return cost

    def _worth_now(self, candidate: Candidate) -> float:
        worth = self.worth_of(candidate.features) + candidate.bonus
        return worth * candidate.factor * (_BARE if candidate.statement.line.is_bare else 1.0)

    def _likely_density(self, candidate: Candidate) -> float:
        return self._worth_now(candidate) / (len(candidate.text) / _MOST_CHARACTERS_PER_TOKEN + LINE_COST)
