"""Counts of another agent in a log that has more messages than that agent had."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orihon.importers.answers import Additions


@given(st.sets(st.integers(1, 40)), st.integers(1, 40), st.integers(0, 40))
def test_the_last_ones_of_the_other_agent_are_reached_over_ours(ours: set[int], end: int, count: int) -> None:
    additions = Additions()
    for number in ours:
        additions.add(number)
    reached = additions.reach(end, count)
    theirs = [number for number in range(end - reached + 1, end + 1) if number not in ours]
    assert len(theirs) == count
    if count:
        assert end - reached + 1 not in ours
