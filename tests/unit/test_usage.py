"""Calls of models in the catalogue, by task, day and model; in each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orihon.catalogue import Catalogue, UsageRow
from orihon.errors import StaleWriter, TaskNotFound
from orihon.values.task import TaskKey
from tests.catalogues import CataloguePlace
from tests.helpers import refused

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")
DAY = "2026-11-15"


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        yield opened


def test_calls_of_a_day_are_added_up_by_model(catalogue: Catalogue) -> None:
    for uuid in ("one", "two"):
        catalogue.tasks.register(KEY, uuid)
    catalogue.usage.add("one", "large", DAY, input=100, cached=60, output=7, saved=1000)
    catalogue.usage.add("one", "large", DAY, calls=2, input=50, output=3)
    catalogue.usage.add("one", "small", DAY, input=1)
    catalogue.usage.add("one", "large", "2026-11-14", input=5)
    catalogue.usage.add("two", "large", DAY, input=9)
    assert catalogue.usage.of_task("one") == [
        UsageRow("one", "2026-11-14", "large", 1, 5, 0, 0, 0, None),
        UsageRow("one", DAY, "large", 3, 150, 60, 10, 1000, None),
        UsageRow("one", DAY, "small", 1, 1, 0, 0, 0, None),
    ]
    assert catalogue.usage.of_task("none") == []


def test_costs_that_were_reported_are_added_apart_from_calls_without(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    for cost in (0.5, None, 0.25, None):
        catalogue.usage.add("one", "large", DAY, cost=cost)
    assert [(row.calls, row.cost) for row in catalogue.usage.of_task("one")] == [(2, None), (2, 0.75)]


def test_a_stale_owner_and_a_task_that_is_not_there_are_refused(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    lease = catalogue.leases.acquire("one")
    catalogue.leases.acquire("one", take_over=True)
    with refused(StaleWriter, "lease"):
        catalogue.usage.add("one", "large", DAY, epoch=lease.epoch)
    with refused(TaskNotFound, "uuid"):
        catalogue.usage.add("other", "large", DAY)
    assert catalogue.usage.of_task("one") == []


def test_tasks_are_found_by_their_key(catalogue: Catalogue) -> None:
    other = TaskKey("github", "acme", "rocket", "issue", "27", "taro")
    for uuid in ("one", "two", "three"):
        catalogue.tasks.register(KEY, uuid)
        catalogue.tasks.register(other, f"{uuid}-other")
    assert [row.uuid for row in catalogue.tasks.of_key(KEY)] == ["three", "two", "one"]
    assert [row.uuid for row in catalogue.tasks.of_key(KEY, 2)] == ["three", "two"]
    assert [row.uuid for row in catalogue.tasks.of_key(other, 1)] == ["three-other"]
