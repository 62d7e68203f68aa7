"""Which messages of a log the other agent never had, so that its counts can be told in ours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field


@dataclass(slots=True)
class Additions:
    """Numbers of messages that were added to make a history legal."""

    _numbers: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """This message is ours."""
        insort(self._numbers, number)

    def reach(self, end: int, count: int) -> int:
        """How many messages up to number ``end`` hold the last ``count`` of the other agent's."""
        wanted = max(count, 0)
        if not wanted:
            return 0
        length = wanted
        while (full := wanted + self._between(end - length, end)) != length:
            length = full
        return length

    def _between(self, after: int, end: int) -> int:
        return bisect_right(self._numbers, end) - bisect_left(self._numbers, after + 1)
