"""Rows, states and figures of the catalogue, in each database that can hold it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orihon.catalogue import Catalogue, TokenUsage, postgres_db
from orihon.catalogue.tasks_db import queries
from orihon.errors import (
    IllegalTransition,
    InvalidId,
    InvalidInput,
    StaleWriter,
    TaskNotFound,
)
from orihon.values.task import LEGAL_CHANGES, TaskKey, TaskStatus, new_uuid
from tests.catalogues import CataloguePlace
from tests.helpers import Rule, raw_database, refused

KEY = TaskKey("github", "notfolder", "coding_agent", "issue", "27", "花子")


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    """An empty catalogue, whose sums must be right at the end."""
    with place.open() as opened:
        yield opened
        assert opened.statistics.check_rollups() == []


# ---- rows ----------------------------------------------------------------------------------------------------------


def test_a_registered_task_comes_back_as_it_went_in(catalogue: Catalogue) -> None:
    name = new_uuid()
    row = catalogue.tasks.register(
        KEY,
        name,
        llm_provider="openai",
        model="gpt-4o",
        context_length=128_000,
        backend="files",
        metadata={"題": "直す", "wide": 2**70, "lone": "\udc80"},
        inherits_from="earlier",
    )
    assert row == catalogue.tasks.get(name) == catalogue.tasks.find(name)
    assert row.key == KEY
    assert row.key.uuid == name
    assert (row.task_identifier, row.repository, row.user) == ("27", "notfolder/coding_agent", "花子")
    assert row.status is TaskStatus.RUNNING
    assert row.started_at == row.created_at == row.updated_at
    assert (row.process_id, row.epoch, row.keep, row.correction) == (os.getpid(), 0, False, 1.0)
    assert row.metadata == {"題": "直す", "wide": 2**70, "lone": "\udc80"}


def test_a_queued_task_has_not_started(catalogue: Catalogue) -> None:
    row = catalogue.tasks.register(KEY, new_uuid(), status=TaskStatus.QUEUED)
    assert (row.status, row.started_at, row.process_id) == (TaskStatus.QUEUED, None, None)


def test_what_cannot_be_registered_is_refused(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    with refused(IllegalTransition, "exists"):
        catalogue.tasks.register(KEY, "one")
    with refused(InvalidId, "unsafe"):
        catalogue.tasks.register(KEY, "../one")
    with refused(IllegalTransition, "change"):
        catalogue.tasks.register(KEY, "two", status=TaskStatus.COMPLETED)
    assert [row.uuid for row in catalogue.tasks.page()] == ["one"]


def test_an_unknown_task_is_named(catalogue: Catalogue) -> None:
    assert catalogue.tasks.find("nobody") is None
    for ask in (
        lambda: catalogue.tasks.get("nobody"),
        lambda: catalogue.tasks.change_status("nobody", TaskStatus.FAILED),
        lambda: catalogue.tasks.add_statistics("nobody", tokens=1),
        lambda: catalogue.tasks.set_totals("nobody", total_messages=1),
        lambda: catalogue.tasks.update("nobody", model="m"),
    ):
        with refused(TaskNotFound, "uuid"):
            ask()


def test_the_doctor_can_take_in_a_row_as_it_is(catalogue: Catalogue, tmp_path: Path) -> None:
    name = new_uuid()
    catalogue.tasks.register(KEY, name)
    catalogue.leases.acquire(name)
    catalogue.tasks.change_status(name, TaskStatus.FAILED, error_message="直せない", statistics={"total_messages": 7})
    row = catalogue.tasks.get(name)
    with Catalogue(tmp_path / "other" / "tasks.db") as other:
        assert other.tasks.adopt(row) == row
        assert other.statistics.check_rollups() == []


def test_tasks_are_found_by_the_beginning_of_their_uuid(catalogue: Catalogue) -> None:
    for name in ("abc-1", "abc_2", "abd", "ABC", "abcdef"):
        catalogue.tasks.register(KEY, name)
    assert [row.uuid for row in catalogue.tasks.find_by_prefix("abc")] == ["abc-1", "abc_2", "abcdef"]
    assert [row.uuid for row in catalogue.tasks.find_by_prefix("abc_")] == ["abc_2"]
    assert len(catalogue.tasks.find_by_prefix("a", limit=2)) == 2
    with refused(InvalidId, "unsafe"):
        catalogue.tasks.find_by_prefix("a%")


def test_pages_hold_every_task_once_newest_first(catalogue: Catalogue) -> None:
    keys = [replace(KEY, repo=repo, user=user) for repo in ("a", "b") for user in ("花子", "taro")]
    names = [new_uuid() for _ in range(24)]
    for number, name in enumerate(names):
        status = TaskStatus.QUEUED if number % 3 == 0 else TaskStatus.RUNNING
        catalogue.tasks.register(keys[number % 4], name, status=status)
    seen: list[str] = []
    while page := catalogue.tasks.page(limit=7, before=seen[-1] if seen else None):
        seen += [row.uuid for row in page]
    assert seen == names[::-1]
    some = catalogue.tasks.page(status=TaskStatus.QUEUED, user="taro", repository="notfolder/b")
    assert [row.uuid for row in some] == [n for i, n in reversed(list(enumerate(names))) if i % 3 == 0 and i % 4 == 3]
    page = catalogue.tasks.page(user="花子", limit=5)
    following = catalogue.tasks.page(user="花子", limit=100, before=page[-1].uuid)
    assert len(following) == 7
    assert not {row.uuid for row in page} & {row.uuid for row in following}


def test_previous_tasks_are_the_finished_ones_on_the_key(catalogue: Catalogue) -> None:
    for name, end in (("1", "completed"), ("2", "failed"), ("3", "cancelled"), ("4", "completed"), ("5", None)):
        catalogue.tasks.register(KEY, name)
        if end:
            catalogue.tasks.change_status(name, TaskStatus(end))
    for other in (replace(KEY, user="taro"), replace(KEY, task_id="28"), replace(KEY, task_type="pull_request")):
        name = new_uuid()
        catalogue.tasks.register(other, name)
        catalogue.tasks.change_status(name, TaskStatus.COMPLETED)
    assert [row.uuid for row in catalogue.tasks.previous(KEY)] == ["4", "2", "1"]
    assert [row.uuid for row in catalogue.tasks.previous(KEY, limit=1)] == ["4"]


# ---- changes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", TaskStatus)
def test_only_legal_changes_happen(catalogue: Catalogue, old: TaskStatus) -> None:
    base = catalogue.tasks.register(KEY, "base")
    for new in TaskStatus:
        name = f"{old}-{new}"
        before = catalogue.tasks.adopt(replace(base, uuid=name, status=old, completed_at=None))
        if new in LEGAL_CHANGES[old]:
            assert catalogue.tasks.change_status(name, new).status is new
        else:
            with refused(IllegalTransition, "change"):
                catalogue.tasks.change_status(name, new, error_message="no", statistics={"total_messages": 9})
            assert catalogue.tasks.get(name) == before


def test_times_and_messages_follow_the_state(catalogue: Catalogue, place: CataloguePlace) -> None:
    catalogue.tasks.register(KEY, "one", status=TaskStatus.QUEUED)
    started = catalogue.tasks.change_status("one", TaskStatus.RUNNING).started_at
    assert started is not None
    catalogue.tasks.change_status("one", TaskStatus.PAUSED)
    assert catalogue.tasks.change_status("one", TaskStatus.RUNNING).started_at == started
    failed = catalogue.tasks.change_status("one", TaskStatus.FAILED, error_message="no \udc80 \0 luck")
    assert failed.completed_at is not None
    assert failed.completed_at >= started
    nul = "\\x00" if place.is_shared else "\0"  # which PostgreSQL cannot store
    assert failed.error_message == f"no \\udc80 {nul} luck"
    again = catalogue.tasks.change_status("one", TaskStatus.QUEUED)
    assert (again.started_at, again.completed_at, again.retry_count) == (None, None, 1)
    assert again.error_message == failed.error_message
    catalogue.tasks.change_status("one", TaskStatus.RUNNING)
    done = catalogue.tasks.change_status("one", TaskStatus.COMPLETED)
    assert done.error_message is None
    catalogue.tasks.change_status("one", TaskStatus.ARCHIVED)
    assert catalogue.tasks.change_status("one", TaskStatus.COMPLETED).completed_at == done.completed_at


def test_a_stale_owner_cannot_change_the_status(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    old = catalogue.leases.acquire("one")
    new = catalogue.leases.acquire("one", take_over=True)
    with refused(StaleWriter, "lease"):
        catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=old.epoch, statistics={"total_messages": 5})
    assert catalogue.tasks.get("one").total_messages == 0
    assert catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=new.epoch).status is TaskStatus.COMPLETED


def test_a_stale_owner_changes_nothing_of_the_row(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one", model="m")
    old = catalogue.leases.acquire("one")
    new = catalogue.leases.acquire("one", take_over=True)
    before = catalogue.tasks.get("one")
    for change in (
        lambda epoch: catalogue.tasks.add_statistics("one", tokens=5, epoch=epoch),
        lambda epoch: catalogue.tasks.set_totals("one", total_messages=5, epoch=epoch),
        lambda epoch: catalogue.tasks.update("one", model="n", epoch=epoch),
    ):
        with refused(StaleWriter, "lease"):
            change(old.epoch)
        assert catalogue.tasks.get("one") == before
    catalogue.tasks.add_statistics("one", tokens=5, epoch=new.epoch)
    catalogue.tasks.set_totals("one", total_messages=5, epoch=new.epoch)
    row = catalogue.tasks.update("one", model="n", epoch=new.epoch)
    assert (row.total_tokens, row.total_messages, row.model) == (5, 5, "n")


def test_numbers_that_cannot_be_are_not_believed(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    catalogue.tasks.register(KEY, "two")
    for tokens in (2**63 - 1, 2**70, 10**9 + 1, -5):
        catalogue.tasks.add_statistics("one", llm_calls=1, tokens=tokens)
    catalogue.tasks.add_statistics("two", llm_calls=1, tokens=10**9)
    one, two = catalogue.tasks.get("one"), catalogue.tasks.get("two")
    assert (one.llm_call_count, one.total_tokens, two.total_tokens) == (4, 0, 10**9)
    catalogue.tasks.change_status("one", TaskStatus.COMPLETED)
    assert catalogue.statistics.check_rollups() == []


def test_figures_grow_and_totals_are_set(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    catalogue.tasks.add_statistics("one", llm_calls=1, tokens=100, messages=2)
    catalogue.tasks.add_statistics("one", llm_calls=2, tool_calls=3, compressions=1, tokens=11)
    row = catalogue.tasks.get("one")
    assert (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count) == (3, 3, 111, 1)
    assert row.total_messages == 2
    catalogue.tasks.set_totals("one", total_messages=9, final_token_count=70)
    catalogue.tasks.set_totals("one", total_summaries=1, total_tool_calls=4, final_message_count=5, view_tokens=66)
    row = catalogue.tasks.get("one")
    assert (row.total_messages, row.total_summaries, row.total_tool_calls) == (9, 1, 4)
    assert (row.final_token_count, row.final_message_count, row.view_tokens) == (70, 5, 66)


def test_columns_are_set_by_name_and_no_others(catalogue: Catalogue) -> None:
    before = catalogue.tasks.register(KEY, "one", model="m", context_length=10)
    row = catalogue.tasks.update("one", keep=True, metadata={"a": [1]}, inherits_from="zero", correction=1.25)
    assert (row.keep, row.metadata, row.inherits_from, row.correction) == (True, {"a": [1]}, "zero", 1.25)
    assert (row.model, row.context_length) == ("m", 10)
    assert catalogue.tasks.update("one", inherits_from=None).inherits_from is None
    for column in ("status", "uuid", "model = 'x' --", "lease_owner"):
        given: dict[str, Any] = {column: 1}
        with refused(InvalidInput, "column"):
            catalogue.tasks.update("one", **given)
        with refused(InvalidInput, "column"):
            catalogue.tasks.set_totals("one", **given)
    with refused(InvalidInput, "column_value"):
        catalogue.tasks.update("one", context_length="long")
    with refused(InvalidInput, "column_value"):
        catalogue.tasks.update("one", context_length=2**70)
    assert catalogue.tasks.get("one").context_length == 10
    assert catalogue.tasks.get("one").created_at == before.created_at


# ---- figures -------------------------------------------------------------------------------------------------------


def test_the_queries_of_the_designs(catalogue: Catalogue) -> None:
    assert catalogue.statistics.average_minutes() is None
    assert catalogue.statistics.token_usage() == TokenUsage(0, None)
    base = catalogue.tasks.register(KEY, "running")
    for number, minutes in enumerate((10, 20)):
        done = replace(
            base,
            uuid=f"done-{number}",
            status=TaskStatus.COMPLETED,
            started_at="2024-12-07T03:00:00.000000+00:00",
            completed_at=f"2024-12-07T03:{minutes}:00.000000+00:00",
            total_tokens=1000 * minutes,
        )
        catalogue.tasks.adopt(done)
    untimed = replace(base, uuid="untimed", status=TaskStatus.COMPLETED, started_at=None, user="taro")
    catalogue.tasks.adopt(untimed)
    for number in range(12):
        catalogue.tasks.register(replace(KEY, user="taro"), f"failed-{number:02}")
        catalogue.tasks.change_status(f"failed-{number:02}", TaskStatus.FAILED, error_message=f"{number} 失敗")
    assert catalogue.statistics.average_minutes() == pytest.approx(15)
    assert catalogue.statistics.token_usage() == TokenUsage(30_000, 10_000)
    assert catalogue.statistics.count_by_status() == {"running": 1, "completed": 3, "failed": 12}
    assert catalogue.statistics.count_by_user_and_status() == {
        "花子": {"completed": 2, "running": 1},
        "taro": {"completed": 1, "failed": 12},
    }
    assert [row.uuid for row in catalogue.tasks.running()] == ["running"]
    failed = catalogue.tasks.failed()
    assert [row.error_message for row in failed] == [f"{number} 失敗" for number in range(11, 1, -1)]


def test_a_clock_that_was_set_back_gives_no_negative_time(catalogue: Catalogue) -> None:
    base = catalogue.tasks.register(KEY, "one")
    early, late = "2024-12-07T03:00:00.000000+00:00", "2024-12-07T05:00:00.000000+00:00"
    catalogue.tasks.adopt(replace(base, uuid="two", status=TaskStatus.COMPLETED, started_at=late, completed_at=early))
    assert catalogue.statistics.average_minutes() == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.sampled_from(["花子", "taro", ""]), st.sampled_from(["a", "b"])),
        st.tuples(st.just("change"), st.integers(0, 9), st.sampled_from(TaskStatus)),
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 2**40)),
        st.tuples(st.just("totals"), st.integers(0, 9), st.integers(0, 2**40)),
        st.tuples(st.just("claim"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_rollups_are_what_a_scan_adds_up(
    catalogue: Catalogue, place: CataloguePlace, plan: list[tuple[str, object, object]]
) -> None:
    place.change("DELETE FROM tasks")  # of the example before
    assert catalogue.statistics.rollups() == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_db, "WRITES_PER_MERGE", 3)
        for number, (kind, first, second) in enumerate(plan):
            _step(catalogue, number, kind, first, second)
    assert catalogue.statistics.check_rollups() == []
    rows = catalogue.tasks.page(limit=1000)
    assert sum(catalogue.statistics.count_by_status().values()) == len(rows)
    assert sum(rollup.tokens for rollup in catalogue.statistics.rollups()) == sum(row.total_tokens for row in rows)
    assert all(rollup.tasks for rollup in catalogue.statistics.rollups())


def _step(catalogue: Catalogue, number: int, kind: str, first: object, second: object) -> None:
    if kind == "register":
        status = TaskStatus.QUEUED if number % 2 else TaskStatus.RUNNING
        key = TaskKey("github", "o", str(second), "issue", "1", str(first))
        catalogue.tasks.register(key, f"task-{number}", status=status)
        return
    if kind == "claim":
        catalogue.queue.claim_next()
        return
    rows = catalogue.tasks.page()
    if not rows:
        return
    assert isinstance(first, int)
    row = rows[first % len(rows)]
    if kind == "add":
        assert isinstance(second, int)
        catalogue.tasks.add_statistics(row.uuid, tokens=second, messages=1, llm_calls=1, tool_calls=2, compressions=3)
    elif kind == "totals":
        assert isinstance(second, int)
        catalogue.tasks.set_totals(row.uuid, total_messages=second)
    elif second in LEGAL_CHANGES[row.status]:
        catalogue.tasks.change_status(row.uuid, TaskStatus(str(second)), statistics={"total_messages": number})


def test_rollups_that_went_wrong_are_found_and_rebuilt(catalogue: Catalogue, place: CataloguePlace) -> None:
    for name in ("one", "two"):
        catalogue.tasks.register(KEY, name)
    catalogue.statistics.merge_rollups()  # where there are parts, they may be merged by now or not
    table = "rollup_sums" if place.is_shared else "rollups"
    place.change(f"UPDATE {table} SET tokens = 5")
    place.change(f"INSERT INTO {table} VALUES ('x', 'y', 'running', 1, 0, 0, 0, 0, 0, 0, 0)")
    wrong, extra = sorted(catalogue.statistics.check_rollups(), key=lambda each: each.counted is None)
    assert wrong.stored is not None
    assert wrong.counted == replace(wrong.stored, tokens=0)
    assert extra.counted is None
    catalogue.statistics.rebuild_rollups()
    assert catalogue.statistics.check_rollups() == []
    place.change("DELETE FROM tasks WHERE uuid = 'one'")
    assert catalogue.statistics.count_by_status() == {"running": 1}


def test_no_statement_of_daily_work_scans_the_tasks_in_a_file(tmp_path: Path) -> None:
    Catalogue(tmp_path / "tasks.db").close()
    looks_at_all = [
        *("rollup_differences", "rebuild_rollups", "tasks_in_move", "states_of_tasks"),
        *("sizes_by_position", "largest_tasks", "unmeasured_tasks"),
        *("left_notifications", "movable_notifications"),  # of a migration; a single row ends the look
    ]
    # Indexes that hold only the tasks asked for.
    line = ("tasks_in_line", "tasks_put_off", "tasks_to_retry", "tasks_to_resume", "tasks_to_cancel")
    small = (*line, "tasks_leased", "tasks_claimed")
    with Rule() as rule, raw_database(tmp_path / "tasks.db") as connection:
        for name, query in queries("sqlite").items():
            if name.startswith(("having_", "older_")) or name in looks_at_all:
                continue
            with rule.case(name):
                text = query.replace("{conditions}", "status = :status AND user = :user")
                plan = connection.execute("EXPLAIN QUERY PLAN " + text, _AnyBindings()).fetchall()
                details = [str(detail) for *_, detail in plan]
                assert not [one for one in details if one.startswith("SCAN tasks") and not one.endswith(small)]
                if "in_line" in name or name == "any_claimable":
                    assert not [one for one in details if "tasks_by_status" in one or "TEMP" in one]


class _AnyBindings(dict[str, None]):
    """A value for every parameter."""

    def __missing__(self, name: str) -> None:
        return None
