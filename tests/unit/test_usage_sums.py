"""Sums over the calls of a log."""

from __future__ import annotations

from orihon.catalogue import UsageRow
from orihon.tasks.usage_sums import UsageSums
from orihon.values.records import ModelCall, Usage

DAY, NEXT_DAY = "2026-11-15", "2026-11-16"


def test_calls_are_added_up_by_day_model_and_purpose() -> None:
    sums = UsageSums("one")
    sums.said(f"{DAY}T23:00:00", 10, None)
    sums.said(f"{DAY}T23:00:01", 5, ModelCall("large", Usage(100, 60, 7)))
    sums.said(f"{DAY}T23:00:02", 5, ModelCall("large", Usage(50, 0, 3)))
    sums.said(f"{NEXT_DAY}T00:00:00", 5, ModelCall("large", Usage(1, 0, 1)))
    sums.summarised(ModelCall("small"), f"{DAY}T23:00:03")
    assert sums.rows() == [
        UsageRow("one", DAY, "large", 2, 150, 60, 10, 0, None),
        UsageRow("one", DAY, "small", 1, 0, 0, 0, 0, None, "summary"),
        UsageRow("one", NEXT_DAY, "large", 1, 1, 0, 1, 0, None),
    ]


def test_what_has_a_cost_is_apart_from_what_has_none() -> None:
    sums = UsageSums("one")
    for cost in (0.5, None, 0.25):
        sums.said(DAY, 0, ModelCall("large", Usage(1, 0, 1), cost))
    assert [(row.calls, row.cost) for row in sums.rows()] == [(1, None), (2, 0.75)]


def test_without_figures_the_view_and_the_answer_count_and_folding_has_saved_the_rest() -> None:
    sums = UsageSums("one")
    sums.said(DAY, 1000, None)
    sums.view_changed(100)
    sums.said(DAY, 20, ModelCall("large"))
    assert sums.rows() == [UsageRow("one", DAY, "large", 1, 100, 0, 20, 900, None)]


def test_a_view_that_is_longer_than_its_log_has_saved_nothing() -> None:
    sums = UsageSums("one")
    sums.view_changed(100)
    sums.said(DAY, 20, ModelCall("large"))
    assert [row.saved_tokens for row in sums.rows()] == [0]
