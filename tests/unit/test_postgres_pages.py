"""Pages of records from the database: how much of a long run one round trip asks for."""

from __future__ import annotations

from collections.abc import Mapping

from orihon.store.postgres_pages import first_page


def test_a_page_asks_for_no_more_than_it_can_bring() -> None:
    asked: list[Mapping[str, object]] = []

    def ask(values: Mapping[str, object]) -> list[tuple[int, int, str]]:
        asked.append(values)
        return []

    first_page(ask, "task", [("messages", 500, 100_000), ("tools", 5, 7)])
    assert asked[0]["firsts"] == [500, 5]
    assert asked[0]["lasts"] == [1499, 7]
