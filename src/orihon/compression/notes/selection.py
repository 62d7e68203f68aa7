"""Choosing lines within a budget: each next one adds the most worth for its tokens.

Greedy weighted coverage: a feature that a chosen line is about is worth little in the next one, so redundancy costs
itself out. Worth only ever sinks, so a line is looked at again only when it comes to the top (lazy evaluation).
Deterministic: ties go to the line that stands first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from orihon.compression.notes.pool import Pool

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
