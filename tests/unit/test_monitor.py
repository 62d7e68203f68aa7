"""The monitor: what it calls wrong, that it says so once, and the report on a month; in each database."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon import TaskContextManager, TaskKey, list_notifications, monthly_report
from orihon.catalogue import Catalogue, TaskRow, sqlite_db
from orihon.drivers import sqlite as database
from orihon.drivers.sqlite import LockErrors
from orihon.errors import InvalidInput, StorageUnavailable
from orihon.reports.monitor import ContextMonitor, MonitorSnapshot
from orihon.reports.notifications import maintain_notifications
from orihon.system.counters import COMPRESSION_FAILURES, COMPRESSION_SECONDS, LOCK_ERRORS, Counts
from orihon.tasks.base import OpenBase
from orihon.transfer.archive.archive import ended_before
from orihon.values.task import TaskStatus
from tests.catalogues import CataloguePlace
from tests.helpers import lasting_day, raw_database, refused

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    place.base_dir.mkdir()
    with place.open() as opened:
        yield opened


def monitor(place: CataloguePlace, **limits: float) -> ContextMonitor:
    return ContextMonitor(base_dir=place.base_dir, settings=place.config | {"monitor": limits})


def look(place: CataloguePlace, **limits: float) -> MonitorSnapshot:
    return monitor(place, **limits).check()


def value(place: CataloguePlace, name: str, **limits: float) -> tuple[float | None, bool]:
    (found,) = [check for check in look(place, **limits).checks if check.name == name]
    return found.value, found.is_wrong


def feed(place: CataloguePlace) -> list[tuple[str, str]]:
    return [(one.kind, one.message) for one in list_notifications(place.base_dir, place.settings)]


def count(catalogue: Catalogue, **amounts: int) -> None:
    """As a task at work does it."""
    counts = Counts()
    for _ in range(amounts.get("compressions", 0)):
        counts.observe(COMPRESSION_SECONDS, 0.2)
    counts.add(COMPRESSION_FAILURES, amounts.get("failures", 0), reason="model")
    counts.add(LOCK_ERRORS, amounts.get("locks", 0))
    catalogue.counters.add(counts.take())


def made_earlier(place: CataloguePlace, **span: float) -> None:
    """Everything that was counted by time was counted so much earlier."""
    moment = (datetime.now(UTC) - timedelta(**span)).isoformat()[:15]
    place.change("UPDATE counters SET name = '@' || ? || substr(name, 17) WHERE name >= '@' AND name < 'A'", moment)


# ---- what is wrong -------------------------------------------------------------------------------------------------


def test_a_quiet_folder_is_fine(place: CataloguePlace, catalogue: Catalogue) -> None:
    found = look(place)
    names = ["disk_free", "size", "old_tasks", "stale_leases", "compression_failures", "write_age", "lock_errors"]
    assert [check.name for check in found.checks] == names
    assert (found.wrong, found.raised, found.ended) == ((), (), ())
    assert feed(place) == []


def test_a_folder_without_a_catalogue_has_a_disk_and_a_size(tmp_path: Path) -> None:
    place = CataloguePlace(tmp_path, None)
    assert [check.name for check in look(place).checks] == ["disk_free", "size"]
    assert [check.name for check in look(place, min_free_gb=10**9).wrong] == ["disk_free"]
    assert [path.name for path in tmp_path.iterdir()] == ["sizes.json"]
    with refused(StorageUnavailable, "no_base_dir"):
        ContextMonitor(base_dir=tmp_path / "nowhere").check()


def test_the_disk_and_the_size(place: CataloguePlace, catalogue: Catalogue) -> None:
    (place.base_dir / "large").write_bytes(b"x" * 3_000_000)
    assert value(place, "size", max_size_gb=0.001)[1]
    assert value(place, "disk_free", min_free_gb=10**9)[1]
    if not place.is_shared:
        assert not value(place, "size", max_size_gb=1)[1]


def test_old_tasks_are_those_that_nobody_has_packed_or_wants_kept(place: CataloguePlace, catalogue: Catalogue) -> None:
    for uuid in ("old", "kept", "packed", "new", "running"):
        catalogue.tasks.register(KEY, uuid)
    for uuid in ("old", "kept", "packed", "new"):
        catalogue.tasks.change_status(uuid, TaskStatus.COMPLETED)
    catalogue.tasks.change_status("packed", TaskStatus.ARCHIVED)
    catalogue.tasks.update("kept", keep=True)
    long_ago = (datetime.now(UTC) - timedelta(days=31)).isoformat(timespec="microseconds")
    place.change("UPDATE tasks SET completed_at = ? WHERE uuid IN ('old', 'kept', 'packed')", long_ago)
    assert value(place, "old_tasks") == (1, False)
    assert value(place, "old_tasks", max_old=0) == (1, True)
    assert value(place, "old_tasks", max_old=0, old_days=32) == (0, False)
    assert value(place, "old_tasks", max_old=0, old_days=10**12) == (0, False)


def test_what_was_just_imported_is_not_old(place: CataloguePlace, catalogue: Catalogue) -> None:
    long_ago, now = ((datetime.now(UTC) - timedelta(days=n)).isoformat(timespec="microseconds") for n in (400, 0))
    times = {"created_at": long_ago, "completed_at": long_ago}
    origin = {"import": {"format": "claude-code", "at": now}}
    catalogue.tasks.adopt(TaskRow.of(KEY, "new", TaskStatus.COMPLETED, **times, updated_at=now, metadata=origin))
    assert value(place, "old_tasks", max_old=0) == (0, False)
    assert [one.name for one in catalogue.statistics.sizes_by_position(now)] == ["active"]
    assert not ended_before(catalogue.tasks.get("new"), datetime.now(UTC) - timedelta(days=30))
    place.change("UPDATE tasks SET updated_at = ?", long_ago)
    assert value(place, "old_tasks", max_old=0) == (1, True)
    catalogue.tasks.update("new", metadata={"import": {"format": "claude-code", "at": long_ago}})
    assert ended_before(catalogue.tasks.get("new"), datetime.now(UTC) - timedelta(days=30))


def test_running_tasks_without_a_process(place: CataloguePlace, catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "held")
    lease = catalogue.leases.acquire("held")
    assert value(place, "stale_leases") == (0, False)
    catalogue.leases.release(lease)
    assert value(place, "stale_leases") == (1, True)
    assert value(place, "stale_leases", max_stale_leases=1) == (1, False)


def test_compressions_that_failed_are_judged_by_the_day(place: CataloguePlace, catalogue: Catalogue) -> None:
    count(catalogue, compressions=4, failures=4)
    assert value(place, "compression_failures") == (None, False)  # too few to say
    count(catalogue, compressions=36, failures=0)
    assert value(place, "compression_failures") == (10.0, True)
    assert value(place, "compression_failures", max_compression_failures=0.1) == (10.0, False)
    made_earlier(place, hours=25)
    assert value(place, "compression_failures") == (None, False)


def test_locked_databases_are_judged_by_the_hour(place: CataloguePlace, catalogue: Catalogue) -> None:
    count(catalogue, locks=11)
    assert value(place, "lock_errors") == (11, True)
    assert catalogue.counters.all()[LOCK_ERRORS] == 11
    made_earlier(place, hours=1.4)
    assert value(place, "lock_errors") == (0, False)
    assert catalogue.counters.all()[LOCK_ERRORS] == 11


def test_the_last_durable_write_is_looked_at_while_something_runs(place: CataloguePlace) -> None:
    ctx = TaskContextManager(place.base_dir, KEY, place.config)
    ctx.message_store.add_message("user", "Build a rocket.")
    age, is_wrong = value(place, "write_age")
    assert age is not None
    assert (age < 60, is_wrong) == (True, False)
    long_ago = time.time() - 7200
    for path in ctx.context_dir.iterdir():
        os.utime(path, (long_ago, long_ago))
    age, is_wrong = value(place, "write_age")
    assert age is not None
    assert (age > 7000, is_wrong) == (True, True)
    ctx.complete()
    assert value(place, "write_age") == (None, False)


class LocksOfThisThread(LockErrors):
    """Threads that other tests have left neither add to it nor take from it."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def note(self) -> None:
        if threading.get_ident() == self._thread:
            super().note()

    def take(self) -> int:
        return super().take() if threading.get_ident() == self._thread else 0


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> LockErrors:
    counted = LocksOfThisThread()
    for module in (database, sqlite_db):
        monkeypatch.setattr(module, "LOCKS", counted)
    return counted


@pytest.mark.usefixtures("locks")
def test_what_a_process_could_not_write_while_the_database_was_locked_is_counted_with_its_next_change(
    tmp_path: Path,
) -> None:
    place = CataloguePlace(tmp_path, None)
    with Catalogue(tmp_path / "tasks.db", timeout=0.01, max_retries=1, retry_delay=0.0) as catalogue:
        blocker = apsw.Connection(str(tmp_path / "tasks.db"))
        blocker.execute("BEGIN IMMEDIATE")
        with refused(StorageUnavailable, "locked"):
            catalogue.tasks.register(KEY, "one")
        blocker.execute("ROLLBACK")
        blocker.close()
        catalogue.tasks.register(KEY, "one")
        assert catalogue.counters.all()[LOCK_ERRORS] == 2  # the attempt, and the retry
        with pytest.raises(InvalidInput):
            catalogue.tasks.update("one", color="red")
        catalogue.tasks.register(KEY, "two")
        assert catalogue.counters.all()[LOCK_ERRORS] == 2
    assert value(place, "lock_errors", max_lock_errors=1) == (2, True)


def test_counts_of_a_change_that_is_rolled_back_are_not_lost(tmp_path: Path, locks: LockErrors) -> None:
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        locks.note()
        with pytest.raises(RuntimeError), catalogue._db.write():
            raise RuntimeError
        catalogue.tasks.register(KEY, "one")
        assert catalogue.counters.all()[LOCK_ERRORS] == 1


# ---- alerts --------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_although_the_catalogue_cannot_be_used(tmp_path: Path) -> None:
    """The one time when the monitor is needed most."""
    (tmp_path / "tasks.db").mkdir()  # cannot be opened, whoever runs this
    place = CataloguePlace(tmp_path, None)
    found = look(place, min_free_gb=10**9)
    assert [check.name for check in found.checks] == ["disk_free", "size"]
    assert [check.name for check in found.wrong] == ["disk_free"]
    with refused(StorageUnavailable, "denied"):
        look(place)


def test_what_is_wrong_is_said_although_the_alert_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = CataloguePlace(tmp_path, None)
    hurried = {"context_storage": {"db_timeout": 0.05, "max_retries": 1, "retry_delay": 0.01}}
    watching = ContextMonitor(base_dir=tmp_path, settings=hurried | {"monitor": {"min_free_gb": 10**9}})
    with place.open() as catalogue, raw_database(tmp_path / "tasks.db") as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        found = watching.check()
        assert ([check.name for check in found.wrong], found.raised) == (["disk_free"], ())
        assert "alerts could not be written" in caplog.text
        somebody.execute("ROLLBACK")
        assert watching.check().raised == ("disk_free",)
        assert list(catalogue.outbox.alerts()) == ["disk_free"]


def test_an_alert_is_told_when_it_begins_and_when_it_ends(place: CataloguePlace, catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "alone")
    first, second = look(place), look(place)
    assert (first.raised, second.raised) == (("stale_leases",), ())
    assert [check.name for check in second.wrong] == ["stale_leases"]
    wrong = "1 running tasks are without a live process; at most 0 may be"
    assert feed(place) == [("alert", f"Alert: {wrong}")]
    lease = catalogue.leases.acquire("alone")
    third, fourth = look(place), look(place)
    assert (third.ended, fourth.ended) == (("stale_leases",), ())
    assert feed(place)[1:] == [("alert_over", f"No longer so: {wrong}")]
    catalogue.leases.release(lease)
    assert look(place).raised == ("stale_leases",)
    assert [kind for kind, _ in feed(place)] == ["alert", "alert_over", "alert"]


def test_of_several_monitors_one_tells(place: CataloguePlace, catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "alone")
    with ThreadPoolExecutor() as pool:
        looks = list(pool.map(lambda _: look(place), range(4)))
    assert sorted(found.raised for found in looks) == [(), (), (), ("stale_leases",)]
    assert len(feed(place)) == 1


def test_the_loop_goes_on_and_stops_when_told(place: CataloguePlace, catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "alone")
    stop, looks = threading.Event(), []

    def note(found: MonitorSnapshot) -> None:
        looks.append(found)
        if len(looks) == 3:
            stop.set()

    watching = ContextMonitor(0.001, base_dir=place.base_dir, settings=place.config)
    watching.monitor(stop=stop, on_look=note)
    assert [found.raised for found in looks] == [("stale_leases",), (), ()]
    assert [alert["type"] for alert in watching.alerts] == ["stale_leases"]


def test_a_look_that_fails_does_not_end_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "tasks.db").write_bytes(b"no database" * 1000)
    stop = threading.Event()
    watching = ContextMonitor(0.001, base_dir=base)
    thread = threading.Thread(target=lambda: watching.monitor(stop=stop, on_look=lambda _: stop.set()))
    thread.start()
    deadline = time.monotonic() + 60
    while "could not check" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.005)
    (base / "tasks.db").unlink()
    thread.join(60)
    assert stop.is_set()


def test_the_interval_is_the_settings_unless_told() -> None:
    assert ContextMonitor(settings={"monitor": {"interval": 7}}).check_interval == 7
    assert ContextMonitor(3, settings={"monitor": {"interval": 7}}).check_interval == 3


# ---- a month -------------------------------------------------------------------------------------------------------


def test_a_month_has_its_tasks_tokens_compressions_and_locks(place: CataloguePlace, catalogue: Catalogue) -> None:
    today = lasting_day()
    for number, status in enumerate((TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.COMPLETED)):
        uuid = f"task-{number}"
        catalogue.tasks.register(KEY, uuid)
        catalogue.tasks.add_statistics(uuid, tokens=100 * number, messages=number)
        catalogue.tasks.change_status(uuid, status)
    catalogue.usage.add("task-1", "large", today, input=50, output=5, saved=7)
    catalogue.usage.add("task-1", "large", "2020-02-29", input=1)
    count(catalogue, compressions=6, failures=2, locks=3)
    found = monthly_report(place.base_dir, place.settings, "this")
    assert found.month == today[:7]
    assert (found.created, found.ended) == (3, {"completed": 2, "failed": 1})
    assert (found.calls, found.input_tokens, found.output_tokens, found.saved_tokens) == (1, 50, 5, 7)
    assert (found.compressions, found.compression_failures, found.lock_errors) == (6, 2, 3)
    assert found.notifications == {"failed": 1}
    assert [(task.uuid, task.tokens, task.messages) for task in found.biggest] == [
        ("task-2", 200, 2),
        ("task-1", 100, 1),
        ("task-0", 0, 0),
    ]
    leap = monthly_report(place.base_dir, place.settings, "2020-02")
    assert (leap.created, leap.ended, leap.compressions, leap.input_tokens) == (0, {}, 0, 1)
    assert monthly_report(place.base_dir, place.settings, "last").created == 0
    assert monthly_report(place.base_dir, place.settings, "2019-12").month == "2019-12"


@pytest.mark.parametrize("month", ["", "2026", "2026-13", "2026-1", "9999-12", "0000-01", "next", "２０２６-11"])
def test_what_is_no_month_is_refused(tmp_path: Path, month: str) -> None:
    with refused(InvalidInput, "month"):
        monthly_report(tmp_path, CataloguePlace(tmp_path, None).settings, month)


def test_a_month_of_an_empty_folder_is_empty(tmp_path: Path) -> None:
    found: dict[str, Any] = monthly_report(tmp_path, CataloguePlace(tmp_path, None).settings, "2026-11").as_dict()
    assert not any(value for name, value in found.items() if name != "month")


def test_figures_by_time_are_forgotten_after_two_months(place: CataloguePlace, catalogue: Catalogue) -> None:
    count(catalogue, locks=1)
    made_earlier(place, days=61)
    maintain_notifications(OpenBase(place.base_dir, place.settings))
    assert catalogue.counters.counted("2000-01-01T")["lock_errors"] == 1
    made_earlier(place, days=63)
    maintain_notifications(OpenBase(place.base_dir, place.settings))
    assert catalogue.counters.counted("2000-01-01T")["lock_errors"] == 0
