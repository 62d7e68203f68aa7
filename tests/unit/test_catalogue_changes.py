"""Which tasks have changed, in both databases that hold a catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orihon.catalogue import Catalogue, TaskRow
from orihon.system.clock import utc_now
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CataloguePlace

KEY = TaskKey("cli", "o", "r", "issue", "1")


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        yield opened


def changed(catalogue: Catalogue, since: str = "") -> list[str]:
    return [task.uuid for task in catalogue.changes.tasks(since)]


def test_who_was_worked_on_is_told_oldest_first(catalogue: Catalogue) -> None:
    for uuid in ("done", "paused", "running", "held"):
        catalogue.tasks.register(KEY, uuid)
    catalogue.tasks.register(KEY, "queued", status=TaskStatus.QUEUED)
    catalogue.tasks.change_status("done", TaskStatus.COMPLETED)
    catalogue.tasks.change_status("paused", TaskStatus.PAUSED)
    catalogue.tasks.change_status("held", TaskStatus.COMPLETED)
    lease = catalogue.leases.acquire("held", seconds=60)
    before = utc_now()
    assert changed(catalogue) == ["done", "paused", "running", "held", "queued"]
    assert changed(catalogue, before) == ["running", "held"]  # they may go on without a word
    assert [task.uuid for task in catalogue.changes.tasks(before) if task.is_live] == ["running", "held"]
    catalogue.leases.release(lease)
    catalogue.tasks.change_status("paused", TaskStatus.RUNNING)
    catalogue.tasks.change_status("paused", TaskStatus.FAILED)
    catalogue.tasks.change_status("running", TaskStatus.PAUSED)
    assert changed(catalogue, before) == ["paused", "running"]
    assert catalogue.changes.tasks(before)[0].state.startswith("failed ")


def test_a_change_long_after_the_end_is_told(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "marked")
    catalogue.tasks.change_status("marked", TaskStatus.COMPLETED)
    before = utc_now()
    assert changed(catalogue, before) == []
    catalogue.tasks.update("marked", metadata={"cleaned": {"at": "x"}})
    long_ago = "2024-01-01T00:00:00.000000+00:00"
    times = {"created_at": long_ago, "started_at": long_ago, "completed_at": long_ago, "updated_at": utc_now()}
    catalogue.tasks.adopt(TaskRow.of(KEY, "imported", TaskStatus.COMPLETED, **times))
    assert changed(catalogue, before) == ["imported", "marked"]


def test_a_task_that_was_cleaned_up_is_told_as_such(catalogue: Catalogue) -> None:
    for uuid, metadata in (("cleaned", {"cleaned": {"at": "x"}}), ("not", {"note": '"cleaned"'}), ("plain", {})):
        catalogue.tasks.register(KEY, uuid, metadata=metadata)
    assert {task.uuid: task.is_cleaned for task in catalogue.changes.tasks()} == {
        "cleaned": True,
        "not": False,
        "plain": False,
    }
    one = catalogue.changes.task("cleaned")
    assert one is not None
    assert one.is_cleaned
    assert one == next(task for task in catalogue.changes.tasks() if task.uuid == "cleaned")
    assert catalogue.changes.task("nobody") is None
