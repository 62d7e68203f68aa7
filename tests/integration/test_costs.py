"""Costs over all tasks: by whom and what, at whose prices, what has none, and what folding saved."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from orihon.catalogue import Catalogue, UsageRow
from orihon.errors import InvalidInput, StaleWriter, StorageUnavailable, TaskNotFound
from orihon.reports.costs import GROUPS, CostLine, CostReport, cost_report, costs_of_task
from orihon.settings import Settings, load_settings
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.catalogues import CataloguePlace
from tests.helpers import raw_database, refused

MILLION = 1_000_000
JAPAN = timezone(timedelta(hours=9))
near: Any = pytest.approx
#: 1 for a million tokens that are new, 0.1 for those in the cache, 10 for the answer.
PRICES = {"house": {"input": 1, "cached": 0.1, "output": 10}}


class Books:
    """A catalogue with tasks and what they have used."""

    def __init__(self, place: CataloguePlace) -> None:
        place.base_dir.mkdir(exist_ok=True)
        self.base = place.base_dir
        self.settings = load_settings({**place.config, "prices": PRICES}, environ={})
        self.catalogue: Catalogue = place.open()

    def task(self, number: int, user: str = "mia", repo: str = "shop", provider: str = "openai") -> str:
        key = TaskKey("github", "acme", repo, "issue", str(number), user)
        return self.catalogue.tasks.register(key, new_uuid(), status=TaskStatus.RUNNING, llm_provider=provider).uuid

    def report(self, by: str = "task", *days: str, **options: Any) -> CostReport:
        return cost_report(self.base, self.settings, by, *days, **options)

    def lines(self, by: str, *days: str) -> dict[str, CostLine]:
        return {line.name: line for line in self.report(by, *days).lines}


@pytest.fixture
def books(place: CataloguePlace) -> Any:
    made = Books(place)
    yield made
    made.catalogue.close()


def test_costs_of_each_group_and_their_sum(books: Books) -> None:
    first, second = books.task(1), books.task(2, "ken", "till")
    add = books.catalogue.usage.add
    add(first, "house-1", "2026-03-01", calls=2, input=MILLION, cached=MILLION // 2, output=MILLION // 10)
    add(first, "house-1", "2026-03-02", input=MILLION)
    add(second, "house-2", "2026-03-02", input=2 * MILLION)
    dear = 0.5 * 0.1 + 0.5 * 1 + 0.1 * 10
    expected = {
        "task": {first: dear + 1, second: 2.0},
        "user": {"mia": dear + 1, "ken": 2.0},
        "repository": {"acme/shop": dear + 1, "acme/till": 2.0},
        "model": {"house-1": dear + 1, "house-2": 2.0},
        "day": {"2026-03-01": dear, "2026-03-02": 3.0},
    }
    assert set(expected) == set(GROUPS)
    for by, costs in expected.items():
        report = books.report(by)
        assert {line.name: line.cost for line in report.lines} == near(costs)
        assert report.total.cost == near(dear + 3)
        assert (report.total.calls, report.total.input_tokens) == (4, 4 * MILLION)
    assert [line.name for line in books.report("day").lines] == ["2026-03-01", "2026-03-02"]
    assert books.report("task").lines[0].label == "github:acme/shop#1", "the dearest first, and what it is about"
    assert costs_of_task(books.catalogue, books.settings, first).cost == near(dear + 1)


def test_days_are_included_and_a_limit_leaves_the_sum_alone(books: Books) -> None:
    uuid = books.task(1)
    for day in range(1, 6):
        books.catalogue.usage.add(uuid, "house", f"2026-03-0{day}", input=MILLION)
    report = books.report("day", "2026-03-02", "2026-03-04", limit=2)
    assert [line.name for line in report.lines] == ["2026-03-02", "2026-03-03"]
    assert (report.left_out, report.total.cost) == (1, near(3))
    assert (report.since, report.until) == ("2026-03-02", "2026-03-04")
    same = cost_report(books.base, books.settings, "day", date(2026, 3, 2), "2026-03-04T12:00:00Z", limit=2)
    assert same == report
    assert books.report("day", "2027-01-01").lines == ()


@pytest.mark.parametrize("moment", ["2026-03-02T00:30:00+09:00", datetime(2026, 3, 2, 0, 30, tzinfo=JAPAN)])
def test_a_time_of_another_zone_is_taken_for_its_day_in_utc(tmp_path: Path, moment: datetime | str) -> None:
    assert cost_report(tmp_path, Settings(), since=moment).since == "2026-03-01"


def test_a_model_without_a_price_is_counted_and_named_and_never_free(books: Books) -> None:
    known, unknown = books.task(1), books.task(2)
    books.catalogue.usage.add(known, "house", "2026-03-01", input=MILLION)
    books.catalogue.usage.add(known, "mystery", "2026-03-01", calls=3, input=5, saved=7)
    books.catalogue.usage.add(unknown, "mystery", "2026-03-01", input=9)
    lines = books.lines("task")
    assert (lines[unknown].cost, lines[unknown].unpriced_calls) == (None, 1)
    assert (lines[known].cost, lines[known].unpriced_calls) == (near(1), 3)
    assert lines[known].unpriced_models == ("mystery",)
    assert [line.name for line in books.report("task").lines] == [known, unknown], "without a price behind all others"
    total = books.report("model").total
    assert (total.cost, total.unpriced_calls, total.unpriced_models) == (near(1), 4, ("mystery",))
    assert total.saved_cost == 0, "what nobody can price saves no money that anybody knows"


def test_calls_that_used_nothing_cost_nothing_whoever_made_them(books: Books) -> None:
    uuid = books.task(1)
    books.catalogue.usage.add(uuid, "<synthetic>", "2026-03-01", calls=2)
    assert books.report("model").total == CostLine("", "", calls=2, cost=0.0)


def test_a_model_at_home_costs_nothing_unless_the_settings_say_so(books: Books) -> None:
    home = books.task(1, provider="ollama")
    books.catalogue.usage.add(home, "llama3", "2026-03-01", input=MILLION)
    books.catalogue.usage.add(home, "house", "2026-03-01", input=MILLION)
    costs = {line.name: line.cost for line in books.report("model").lines}
    assert costs == {"llama3": 0.0, "house": near(1)}


def test_a_reported_cost_wins_and_only_for_the_calls_that_came_with_it(books: Books) -> None:
    uuid = books.task(1)
    books.catalogue.usage.add(uuid, "house", "2026-03-01", input=MILLION, cost=7.0)
    books.catalogue.usage.add(uuid, "house", "2026-03-01", input=MILLION, cost=0.5)
    books.catalogue.usage.add(uuid, "house", "2026-03-01", input=MILLION)
    books.catalogue.usage.add(uuid, "mystery", "2026-03-01", input=MILLION, cost=0.25)
    total = books.report().total
    assert total.cost == near(7.5 + 1 + 0.25)
    assert (total.reported_cost, total.unpriced_calls) == (near(7.75), 0)


def test_what_folding_saved_less_what_its_summaries_cost(books: Books) -> None:
    uuid = books.task(1)
    add = books.catalogue.usage.add
    # Three quarters came from the cache: a token of input cost 0.75 * 0.1 + 0.25 * 1 = 0.325 of a new one.
    add(uuid, "house", "2026-03-01", input=4 * MILLION, cached=3 * MILLION, saved=2 * MILLION)
    add(uuid, "house", "2026-03-01", calls=2, input=MILLION // 10, output=1000, purpose="summary")
    line = books.lines("task")[uuid]
    assert (line.saved_tokens, line.saved_cost) == (2 * MILLION, near(0.65))
    assert (line.summary_calls, line.summary_cost) == (2, near(0.11))
    assert line.net_saved_cost == near(0.54)
    assert line.cost == near(4 * 0.325 + 0.11), "the summaries are among the costs"


def test_a_stale_owner_adds_nothing(books: Books) -> None:
    uuid = books.task(1)
    lease = books.catalogue.leases.acquire(uuid)
    books.catalogue.leases.acquire(uuid, take_over=True)
    with pytest.raises(StaleWriter):
        books.catalogue.usage.add(uuid, "house", "2026-03-01", epoch=lease.epoch)
    assert books.catalogue.usage.of_task(uuid) == []
    with pytest.raises(TaskNotFound):
        books.catalogue.usage.replace("00000000-0000-4000-8000-000000000000", [])


def test_rows_that_are_set_replace_what_was_there(books: Books) -> None:
    uuid = books.task(1)
    books.catalogue.usage.add(uuid, "house", "2026-03-01", input=5)
    rows = [
        UsageRow(uuid, "2026-03-01", "house", 2, 10, 4, 3, 1, None),
        UsageRow(uuid, "2026-03-02", "house", 1, 1, 0, 0, 0, 0.5, "summary"),
    ]
    books.catalogue.usage.replace(uuid, rows)
    assert books.catalogue.usage.of_task(uuid) == rows


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    settings = Settings()
    with refused(InvalidInput, "cost_group"):
        cost_report(tmp_path, settings, "colour")
    for no_day in ("yesterday", "", "2026-03-01 or so", "2026-02-30", "0001-01-01T00:00+09:00"):
        with refused(InvalidInput, "not_a_day"):
            cost_report(tmp_path, settings, since=no_day)
    with refused(InvalidInput, "days_backwards"):
        cost_report(tmp_path, settings, since="2026-03-02", until="2026-03-01")
    with refused(StorageUnavailable, "no_base_dir"):
        cost_report(tmp_path / "nowhere", settings)
    assert cost_report(tmp_path, settings).total == CostLine("", "")
    assert list(tmp_path.iterdir()) == [], "looking makes no catalogue"


def test_sums_over_days_and_models_read_one_index_only(tmp_path: Path) -> None:
    """They are asked for over all tasks: no sorting, and not a row of the table is touched."""
    from orihon.catalogue.tasks_db import queries

    Catalogue(tmp_path / "tasks.db").close()
    text = queries("sqlite")["usage_by_day"]
    with raw_database(tmp_path / "tasks.db") as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN " + text, {"first_day": "", "last_day": ""}).fetchall()
    (detail,) = [str(detail) for *_, detail in plan]
    assert "COVERING INDEX usage_by_day" in detail
