"""The list of tasks, what happened by day, slow tools: as pages show them, from either catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from orihon import TaskContextManager, TaskKey
from orihon.catalogue import Catalogue
from orihon.catalogue.rows import CLEANED
from orihon.errors import InvalidInput
from orihon.reports.statistics import span_report, tool_times
from orihon.reports.task_list import WantedTasks, meter_of, page_of_tasks, tasks_by_uuid, title_of
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.catalogues import CataloguePlace
from tests.conformance.backends import BACKENDS
from tests.helpers import lasting_day, refused


def register(catalogue: Catalogue, uuid: str, status: TaskStatus = TaskStatus.RUNNING, **columns: object) -> None:
    """A task that has come to this status."""
    key = TaskKey("github", "acme", "shop", "issue", uuid, "mika")
    start = TaskStatus.QUEUED if status is TaskStatus.QUEUED else TaskStatus.RUNNING
    catalogue.tasks.register(key, uuid, status=start, context_length=100_000, **columns)  # type: ignore[arg-type]
    if status is not start:
        catalogue.tasks.change_status(uuid, status)


def names(place: CataloguePlace, wanted: WantedTasks, limit: int = 50) -> list[str]:
    return [
        task.row.uuid for task in page_of_tasks(OpenBase(place.base_dir, place.settings), wanted, limit=limit).tasks
    ]


def test_what_runs_and_what_waits_stands_first(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with place.open() as catalogue:
        for uuid, status in (("a", "running"), ("b", "waiting"), ("c", "completed"), ("d", "queued"), ("e", "failed")):
            register(catalogue, uuid, TaskStatus(status))
    assert names(place, WantedTasks()) == ["a", "b", "e", "d", "c"]
    assert names(place, WantedTasks(user="mika")) == ["e", "d", "c", "b", "a"]
    assert names(place, WantedTasks(status="failed")) == ["e"]
    assert names(place, WantedTasks(search="SHOP#c")) == ["c"]
    assert names(place, WantedTasks(before="c")) == ["b", "a"]
    with refused(InvalidInput, "typed_time"):
        names(place, WantedTasks(since="soon"))


def test_pages_follow_each_other_without_a_gap(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with place.open() as catalogue:
        for number in range(7):
            register(catalogue, f"t{number}", TaskStatus.COMPLETED)
    found, wanted = [], WantedTasks(repository="acme/shop")
    while True:
        page = page_of_tasks(OpenBase(place.base_dir, place.settings), wanted, limit=3)
        found.append([task.row.uuid for task in page.tasks])
        if page.next is None:
            break
        wanted = WantedTasks(repository="acme/shop", before=page.next)
    assert found == [["t6", "t5", "t4"], ["t3", "t2", "t1"], ["t0"]]
    assert page.counts == {"completed": 7}


def test_a_line_says_how_full_the_context_is_and_what_it_cost(place: CataloguePlace) -> None:
    today = lasting_day()
    place.base_dir.mkdir()
    with place.open() as catalogue:
        register(catalogue, "one", metadata={"title": "Mend the shop"}, llm_provider="openai", prompt="long\ntext")
        register(catalogue, "two", prompt="\n  First line\nsecond")
        register(catalogue, "three", metadata={CLEANED: {"at": "-"}})
        catalogue.tasks.set_totals("one", view_tokens=48_000)
        catalogue.usage.add("one", "gpt-4o", today, input=1_000_000, output=0)
        catalogue.usage.add("one", "gpt-4o", today, input=0, output=100_000)
        catalogue.usage.add("two", "homemade", today, input=10, output=5)
    three, two, one = tasks_by_uuid(OpenBase(place.base_dir, place.settings), ["one", "two", "three", "no"])
    assert (one.title, two.title, three.is_cleaned, one.is_cleaned) == ("Mend the shop", "First line", True, False)
    assert one.meter is not None
    assert two.meter is None
    assert one.meter.usage == pytest.approx(48_000 / one.meter.budget)
    assert one.cost is not None
    assert one.cost.cost == pytest.approx(2.5 + 1.0)
    assert one.cost.calls == 2
    assert two.cost is not None
    assert two.cost.cost is None
    assert two.cost.unpriced_models == ("homemade",)
    assert three.cost is None


def test_a_task_that_nobody_works_on_is_marked(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with place.open() as catalogue:
        for uuid in ("held", "left"):
            register(catalogue, uuid)
            catalogue.leases.acquire(uuid, seconds=3600)
        register(catalogue, "queued", TaskStatus.QUEUED)
        place.change("UPDATE tasks SET lease_until = lease_heartbeat - 1 WHERE uuid = ?", "left")
    marked = {
        task.row.uuid: task.is_orphaned
        for task in page_of_tasks(OpenBase(place.base_dir, place.settings), WantedTasks()).tasks
    }
    assert marked == {"held": False, "left": True, "queued": False}


def test_rungs_are_where_the_ladder_reaches_them(tmp_path: Path) -> None:
    settings = load_settings(
        {"compression": {"preset": "default", "threshold": 0.5}, "context_storage": {"base_dir": str(tmp_path)}},
        environ={},
    )
    with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1", "me"), settings) as task:
        task.message_store.add_message("user", "Hello")
        row = task.catalogue.tasks.get(task.uuid)
        window, budget = task.message_store.gauge.budget.window, task.message_store.gauge.budget.tokens
        task.catalogue.tasks.set_totals(task.uuid, view_tokens=7)
        meter = meter_of(task.catalogue.tasks.get(task.uuid), settings)
    assert meter is not None
    assert meter.rungs == (round(0.5 * window / budget, 4), round(0.9 * window / budget, 4), 1.0)
    assert title_of(row) == ""


def test_a_span_names_every_day_and_adds_up(place: CataloguePlace) -> None:
    today = lasting_day()
    place.base_dir.mkdir()
    with place.open() as catalogue:
        register(catalogue, "one", TaskStatus.COMPLETED, llm_provider="openai")
        register(catalogue, "two", TaskStatus.FAILED)
        catalogue.usage.add("one", "gpt-4o", "2026-03-02", input=1_000_000, saved=500_000)
        catalogue.usage.add("one", "gpt-4o", "2026-03-04", input=1_000_000)
        catalogue.counters.add(
            {"context_compression_failures_total": 1, 'context_compression_duration_seconds_bucket{le="1"}': 4}
        )
    report = span_report(OpenBase(place.base_dir, place.settings), "2026-03-01", "2026-03-05", "user")
    assert [day.day[-2:] for day in report.days] == ["01", "02", "03", "04", "05"]
    assert [day.cost.cost for day in report.days] == [0.0, 2.5, 0.0, 2.5, 0.0]
    assert report.days[1].cost.saved_cost == pytest.approx(1.25)
    assert [line.name for line in report.groups.lines] == ["mika"]
    assert report.total.cost == 5.0
    assert (report.compressions, report.compression_success, report.ended) == (0, None, {})
    now = span_report(OpenBase(place.base_dir, place.settings), today)
    assert now.days[-1].ended == now.ended == {"completed": 1, "failed": 1}
    assert (now.compressions, now.compression_failures, now.compression_success) == (4, 1, 0.75)
    ever = span_report(OpenBase(place.base_dir, place.settings))
    assert ever.days[-1].day == today
    assert len(ever.days) <= 400
    with refused(InvalidInput, "days_backwards"):
        span_report(OpenBase(place.base_dir, place.settings), "2026-03-05", "2026-03-01")
    # Days that nobody has lived to see have no figures; and there is an end to days.
    for since, until, days in ((today, "9999-12-31", [today]), ("9999-12-30", "9999-12-31", [])):
        report = span_report(OpenBase(place.base_dir, place.settings), since, until)
        assert [one.day for one in report.days] == days
    oldest = span_report(OpenBase(place.base_dir, place.settings), None, "0001-01-01")
    assert oldest.days == ()


def test_slow_tools_are_named_with_what_was_read(kind: str, tmp_path: Path) -> None:
    settings = load_settings(BACKENDS[kind].config(), environ={})
    slow, quick = f"run_{tmp_path.name}", f"read_{tmp_path.name}"  # others may use the same database
    for number in range(2):
        with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", slow, str(number)), settings) as task:
            for took in (10.0, 30.0, 5000.0 * number):
                task.tool_store.add_tool_call(slow, {}, "ok", duration_ms=took)
            task.tool_store.add_tool_call(quick, {}, None, "no such file", duration_ms=2)
            task.tool_store.add_tool_call("untimed", {}, "ok")
            task.update_statistics(tool_calls=5)
            last = task.uuid
    found = tool_times(OpenBase(tmp_path, settings), limit=1000)
    tools = {tool.name: tool for tool in found.tools}
    assert [(tools[name].calls, tools[name].errors) for name in (slow, quick)] == [(6, 0), (2, 2)]
    assert (tools[slow].median_ms, tools[slow].slowest_ms, tools[slow].slowest_task) == (20.0, 5000.0, last)
    assert "untimed" not in tools
    assert found.tasks >= 2
    assert found.calls == sum(tool.calls for tool in found.tools)
