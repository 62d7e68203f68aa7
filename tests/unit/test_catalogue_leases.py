"""Leases and claims, fought over by real processes, in each database that can hold the catalogue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orihon.catalogue import Catalogue, Lease, leases
from orihon.catalogue.connect import catalogue_exists
from orihon.errors import StaleWriter, StorageUnavailable, TaskBusy, TaskNotFound
from orihon.system import clock
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CHILD, KINDS, CataloguePlace
from tests.helpers import raw_database, refused

KEY = TaskKey("github", "o", "r", "issue", "1", "花子")

OWNER = f"""{CHILD}
from orihon.errors import TaskBusy
print("ready", flush=True)
sys.stdin.readline()
try:
    print(catalogue.leases.acquire("one", owner="child", seconds=3600).epoch, flush=True)
except TaskBusy:
    print("busy", flush=True)
sys.stdin.readline()
"""

CLAIMER = f"""{CHILD}
print("ready", flush=True)
sys.stdin.readline()
while claimed := catalogue.queue.claim_next():
    print(claimed[0].uuid, claimed[1].epoch, flush=True)
"""


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        opened.tasks.register(KEY, "one")
        yield opened
        assert opened.statistics.check_rollups() == []


@contextmanager
def _processes(count: int, code: str, *arguments: object) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have said "ready" and wait for a line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for _ in range(count)
    ]
    try:
        for child in children:
            assert _said(child) == "ready"
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def _tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def _set(place: CataloguePlace, column: str, value: str | float) -> None:
    """Change a column of the lease, as another machine or an earlier boot would have left it."""
    assert column.startswith("lease_")
    place.change(f"UPDATE tasks SET {column} = ?", value)


def _now(catalogue: Catalogue) -> float:
    return catalogue._db.moment().seconds


def test_a_lease_names_its_owner_and_runs_on_the_clock_of_the_database(catalogue: Catalogue) -> None:
    before = _now(catalogue)
    lease = catalogue.leases.acquire("one", owner="worker-3", seconds=50)
    row = catalogue.tasks.get("one")
    assert before + 50 <= lease.until <= _now(catalogue) + 50
    assert row.lease_until == lease.until
    assert (lease.epoch, lease.owner, row.lease_owner, row.lease_pid) == (1, "worker-3", "worker-3", os.getpid())
    assert (row.hostname, row.process_id) == (row.lease_host, os.getpid())
    renewed = catalogue.leases.renew(lease)
    assert renewed.until >= lease.until
    assert catalogue.tasks.get("one").lease_until == renewed.until
    catalogue.leases.release(renewed)
    catalogue.leases.release(renewed)
    row = catalogue.tasks.get("one")
    assert (row.lease_owner, row.lease_until, row.lease_pid, row.epoch) == (None, None, None, 1)


def test_an_owned_task_is_busy_until_it_is_taken_by_force(catalogue: Catalogue) -> None:
    first = catalogue.leases.acquire("one", owner="first", seconds=600)
    with refused(TaskBusy, "lease") as caught:
        catalogue.leases.acquire("one")
    assert caught.value.fields["owner"] == "first"
    left = caught.value.fields["seconds_left"]
    assert isinstance(left, float)
    assert 0 < left <= 600
    second = catalogue.leases.acquire("one", take_over=True)
    assert second.epoch == first.epoch + 1
    with refused(StaleWriter, "lease"):
        catalogue.leases.renew(first)
    catalogue.leases.release(first)  # nothing of the new owner's
    assert catalogue.leases.renew(second).epoch == second.epoch
    with refused(TaskNotFound, "uuid"):
        catalogue.leases.acquire("nobody")


def test_a_lease_that_ran_out_is_free_and_renewable_while_nobody_took_it(catalogue: Catalogue) -> None:
    lease = catalogue.leases.acquire("one", seconds=0)
    assert [row.uuid for row in catalogue.leases.stale()] == ["one"]
    assert catalogue.leases.renew(lease).epoch == lease.epoch
    other = catalogue.leases.acquire("one", seconds=60)
    assert other.epoch == lease.epoch + 1
    assert catalogue.leases.stale() == []
    with refused(StaleWriter, "lease"):
        catalogue.leases.renew(lease)


def test_jumps_of_the_wall_clock_do_not_touch_leases(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = catalogue.leases.acquire("one", seconds=3600)
    for now in ("1999-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"):
        monkeypatch.setattr(leases, "utc_now", lambda now=now: now)
        with refused(TaskBusy, "lease"):
            catalogue.leases.acquire("one")
        lease = catalogue.leases.renew(lease)
        assert abs(lease.until - 3600 - _now(catalogue)) < 600


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lease_pid_start", 1),
        ("lease_pid", 2**31 - 1),
        ("lease_heartbeat", 1e12),  # before a boot, or before the server's clock was set back
    ],
)
def test_a_lease_of_a_dead_process_or_of_another_time_is_void(
    catalogue: Catalogue, place: CataloguePlace, column: str, value: str | float
) -> None:
    catalogue.leases.acquire("one", seconds=3600)
    _set(place, column, value)
    assert [row.uuid for row in catalogue.leases.stale()] == ["one"]
    assert catalogue.leases.acquire("one").epoch == 2


def test_an_earlier_boot_voids_a_lease_unless_it_may_be_another_machines(
    catalogue: Catalogue, place: CataloguePlace
) -> None:
    catalogue.leases.acquire("one", seconds=3600)
    _set(place, "lease_boot", "another boot")
    if place.is_shared:
        _set(place, "lease_pid", 2**31 - 1)
        assert catalogue.leases.stale() == []
        with refused(TaskBusy, "lease"):
            catalogue.leases.acquire("one")
        _set(place, "lease_until", _now(catalogue))
    assert [row.uuid for row in catalogue.leases.stale()] == ["one"]
    assert catalogue.leases.acquire("one").epoch == 2


@pytest.mark.parametrize(("column", "value"), [("lease_host", "elsewhere"), ("lease_pid_space", "pid:[1]")])
def test_a_process_that_cannot_be_seen_keeps_its_lease(
    catalogue: Catalogue, place: CataloguePlace, column: str, value: str
) -> None:
    catalogue.leases.acquire("one", seconds=3600)
    _set(place, column, value)
    _set(place, "lease_pid", 2**31 - 1)  # no such process here, which says nothing about there
    assert catalogue.leases.stale() == []
    with refused(TaskBusy, "lease"):
        catalogue.leases.acquire("one")
    assert catalogue.leases.is_held(catalogue.tasks.get("one"))
    _set(place, "lease_until", _now(catalogue))
    assert catalogue.leases.acquire("one").epoch == 2


def test_a_process_that_holds_many_tasks_is_looked_for_once(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[int] = []

    def is_alive(pid: int, start: int) -> bool:
        looked_for.append(pid)
        return clock.is_alive(pid, start)

    monkeypatch.setattr(leases, "is_alive", is_alive)
    catalogue.tasks.register(TaskKey("github", "acme", "shop", "issue", "2"), "two", status=TaskStatus.RUNNING)
    for uuid in ("one", "two"):
        catalogue.leases.acquire(uuid, seconds=3600)
    assert [lease.is_stale for lease in catalogue.leases.held()] == [False, False]
    assert looked_for == [os.getpid()]


def test_ending_or_pausing_gives_the_lease_back(catalogue: Catalogue) -> None:
    lease = catalogue.leases.acquire("one")
    catalogue.tasks.change_status("one", TaskStatus.PAUSED, epoch=lease.epoch)
    assert catalogue.tasks.get("one").lease_owner is None
    with refused(StaleWriter, "released"):
        catalogue.leases.renew(lease)  # a heartbeat that comes late must not own a paused task again
    lease = catalogue.leases.acquire("one")
    catalogue.tasks.change_status("one", TaskStatus.RUNNING, epoch=lease.epoch)
    assert catalogue.leases.renew(lease).epoch == 2
    catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=lease.epoch, keep_lease=True)
    with refused(TaskBusy, "lease"):
        catalogue.leases.acquire("one")
    catalogue.leases.release(lease)
    assert catalogue.leases.stale() == []


def test_a_running_task_without_owner_is_stale(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "two", status=TaskStatus.QUEUED)
    assert [row.uuid for row in catalogue.leases.stale()] == ["one"]


@pytest.mark.usefixtures("catalogue")
def test_of_eight_processes_one_gets_the_task(place: CataloguePlace) -> None:
    with _processes(8, OWNER, *place.arguments) as children:
        for child in children:
            _tell(child)
        answers = sorted(_said(child) for child in children)
    assert answers == ["1"] + ["busy"] * 7


def test_a_killed_owner_is_taken_over_and_its_lease_refused(catalogue: Catalogue, place: CataloguePlace) -> None:
    with _processes(1, OWNER, *place.arguments) as [child]:
        _tell(child)
        lost = Lease("one", int(_said(child)), "child", 3600, _now(catalogue) + 3600)
        with refused(TaskBusy, "lease"):
            catalogue.leases.acquire("one")
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        with refused(TaskBusy, "lease"):
            catalogue.leases.acquire("one")  # stopped is not dead
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        mine = catalogue.leases.acquire("one")
    assert mine.epoch == lost.epoch + 1
    with refused(StaleWriter, "lease"):
        catalogue.leases.renew(lost)
    with refused(StaleWriter, "lease"):
        catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=lost.epoch)


def test_queued_tasks_are_claimed_once_by_eight_processes(catalogue: Catalogue, place: CataloguePlace) -> None:
    names = {f"task-{number}" for number in range(200)}
    for name in names:
        catalogue.tasks.register(KEY, name, status=TaskStatus.QUEUED)
    claims: list[tuple[str, str]] = []
    with _processes(8, CLAIMER, *place.arguments) as children:
        for child in children:
            _tell(child)
        for child in children:
            assert child.stdout is not None
            for line in child.stdout:
                name, epoch = line.split()
                claims.append((name, epoch))
    assert len(claims) == 200
    assert dict(claims) == dict.fromkeys(names, "1")
    assert catalogue.statistics.count_by_status() == {"running": 201}


@pytest.mark.parametrize("kind", KINDS)
def test_eight_processes_may_make_the_catalogue_at_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = CataloguePlace(tmp_path, request.getfixturevalue("postgres") if kind == "postgres" else None)
    assert not catalogue_exists(place.base_dir, place.settings)
    code = "import sys; print('ready', flush=True); sys.stdin.readline()"
    code += f"{CHILD}print(catalogue.statistics.count_by_status(), flush=True)"
    with _processes(8, code, *place.arguments) as children:
        for child in children:
            _tell(child)
        assert [_said(child) for child in children] == ["{}"] * 8


def test_the_line_goes_by_priority_then_age_and_waits_for_its_time(catalogue: Catalogue) -> None:
    assert catalogue.queue.claim_next() is None
    past, future = "2000-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"
    for name, priority, available_at in (
        ("old", 0, None),
        ("young", 0, None),
        ("urgent", 5, None),
        ("put-off", 9, future),
        ("due", 9, past),
    ):
        catalogue.tasks.register(KEY, name, status=TaskStatus.QUEUED, priority=priority, available_at=available_at)
    order = []
    while claimed := catalogue.queue.claim_next("worker-1", seconds=30):
        row, lease = claimed
        assert (row.status, row.lease_owner, lease.epoch) == (TaskStatus.RUNNING, "worker-1", 1)
        assert row.started_at is not None
        order.append(row.uuid)
    assert order == ["due", "urgent", "old", "young"]
    assert catalogue.tasks.get("put-off").status is TaskStatus.QUEUED
    catalogue.tasks.update("put-off", available_at=None)
    assert catalogue.queue.claim_next() is not None


def test_a_retried_task_is_put_off_and_then_claimed_with_a_higher_epoch(catalogue: Catalogue) -> None:
    first = catalogue.leases.acquire("one")
    catalogue.tasks.change_status("one", TaskStatus.FAILED, epoch=first.epoch)
    later = "2999-01-01T00:00:00.000000+00:00"
    assert catalogue.tasks.change_status("one", TaskStatus.QUEUED, available_at=later).available_at == later
    assert catalogue.queue.claim_next() is None
    catalogue.tasks.update("one", available_at="2000-01-01T00:00:00.000000+00:00")
    claimed = catalogue.queue.claim_next()
    assert claimed is not None
    row, lease = claimed
    assert (row.retry_count, lease.epoch) == (1, 2)


def test_an_epoch_is_raised_by_the_owner_alone(catalogue: Catalogue) -> None:
    first = catalogue.leases.acquire("one")
    raised = catalogue.leases.raise_epoch(first, above=7)
    assert (raised.epoch, catalogue.tasks.get("one").epoch) == (8, 8)
    assert catalogue.leases.renew(raised).epoch == 8
    with refused(StaleWriter, "lease"):
        catalogue.leases.raise_epoch(first, above=20)
    catalogue.leases.release(raised)
    with refused(StaleWriter, "released"):
        catalogue.leases.raise_epoch(raised, above=20)
    assert catalogue.tasks.get("one").epoch == 8


def test_a_lease_that_could_not_be_given_back_binds_nobody_in_its_process(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with Catalogue(path, timeout=0.05, max_retries=1, retry_delay=0.01) as mine, Catalogue(path) as other:
        other.tasks.register(KEY, "one")
        first = mine.leases.acquire("one", seconds=3600)
        with raw_database(path) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageUnavailable):
                mine.leases.release(first)
        again = other.leases.acquire("one", seconds=3600)
        assert again.epoch > first.epoch
        with refused(TaskBusy, "lease"):
            mine.leases.acquire("one")
