"""Tasks move between back ends whole, once, and whatever is killed on the way."""

from __future__ import annotations

import base64
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orihon.base import Base
from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.errors import InvalidId, InvalidInput, OrihonError, StaleWriter, StorageUnavailable, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store.contract import STREAMS
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.editing import changing_task
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify
from orihon.transfer.migrate import MigrationReport, migrate_tasks
from orihon.upkeep.doctor import examine, repair
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.cutting_proxy import CuttingProxy
from tests.damage import KEY, edit_record, replaced, start_task
from tests.helpers import SomeSteps, refused
from tests.integration.killing import ended
from tests.integration.run_supervisor import eventually
from tests.services import Database

PAIRS = [
    ("files", "sqlite"),
    ("sqlite", "files"),
    ("files", "postgres"),
    ("sqlite", "postgres"),
    ("postgres", "files"),
    ("postgres", "sqlite"),
]
IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8).decode()
KILLED = 9
# A live writer of the same name would have been told in one of these ways.
REFUSALS = (StaleWriter, StorageUnavailable)


@dataclass(frozen=True)
class World:
    """A base folder, perhaps a database, and a way to go."""

    base: Path
    source: str
    target: str
    database: Database | None
    lease_seconds: float = 60.0
    db_timeout: float = 30.0

    def settings(self, backend: str) -> Settings:
        """As somebody has them whose tasks are in this back end."""
        storage = {
            "backend": backend,
            "blob_bytes": 1024,
            "lease_seconds": self.lease_seconds,
            "db_timeout": self.db_timeout,
        }
        if backend == "postgres":
            assert self.database is not None
            return load_settings({"context_storage": storage, "database": self.database.settings}, environ={})
        return load_settings({"context_storage": storage}, environ={})

    @property
    def both(self) -> Settings:
        """Settings that know all places."""
        return self.settings(self.source if self.database is None else "postgres")

    def migrate(self, *tasks: str, **more: Any) -> MigrationReport:
        names = {"source": self.source, "target": self.target}
        return migrate_tasks(self.base, self.both, tasks=tasks or None, **{**names, **more})

    def back(self, *tasks: str) -> MigrationReport:
        return self.migrate(*tasks, source=self.target, target=self.source)

    def start(self, uuid: str | None = None, key: TaskKey = KEY) -> TaskContextManager:
        """A task with a bit of everything, in the source."""
        task = start_task(self.base, self.settings(self.source), uuid=uuid, key=key)
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
        task.message_store.add_message("user", [{"type": "text", "text": "これは何?"}, image])
        task.task_store.records.keep_file("outputs/1.txt", b"a long output\n" * 100)
        return task

    def paused(self) -> str:
        task = self.start()
        task.stop()
        task.catalogue.close()
        return task.uuid

    @contextmanager
    def catalogue(self, backend: str) -> Iterator[Catalogue]:
        with open_catalogue(self.base, self.settings(backend)) as catalogue:
            yield catalogue

    def rows(self, uuid: str) -> dict[str, TaskRow]:
        """The task's rows by the back end whose catalogue they are in."""
        kinds = ("files",) if self.database is None else ("files", "postgres")
        found = {}
        for kind in kinds:
            with self.catalogue(kind) as catalogue:
                row = catalogue.tasks.find(uuid)
            if row is not None:
                found[kind] = row
        return found

    def contents(self, uuid: str) -> dict[str, Any]:
        """Every byte that must survive, read where the task is found."""
        place = folders_of(self.base, self.both).find(uuid)
        assert place is not None
        with closing(open_for_reading(place.folder, self.both, name=uuid)) as store:
            records = store.records
            return {
                **{stream: list(records.read(stream)) for stream in STREAMS},
                "blobs": {digest: records.get_blob(digest) for digest in records.blob_digests()},
                "files": {name: records.kept_file(name) for name in records.kept_files()},
                "view": list(store.view_lines()),
            }

    def files(self) -> list[str]:
        """Every file but those that SQLite makes and removes by itself."""
        return sorted(str(path) for path in self.base.rglob("*") if not path.name.endswith(("-wal", "-shm")))

    def backend(self, uuid: str) -> str:
        place = folders_of(self.base, self.both).find(uuid)
        assert place is not None
        if place.is_in_database:
            return "postgres"
        return "sqlite" if (place.folder / "context.db").exists() else "files"

    def arrived(self, uuid: str) -> TaskRow:
        """The task is at the target and nowhere else, and nothing is wrong with it."""
        assert self.backend(uuid) == self.target
        home = "postgres" if self.target == "postgres" else "files"
        rows = self.rows(uuid)
        assert list(rows) == [home]
        row = rows[home]
        assert (row.backend, row.lease_owner, row.requested) == (self.target, None, None)
        place = folders_of(self.base, self.both).find(uuid)
        assert place is not None
        wrong = {"files": ["context.db", "context.db-wal"], "sqlite": ["messages.jsonl", "writer.json"]}
        assert not [name for name in wrong.get(self.target, []) if (place.folder / name).exists()]
        assert verify(OpenBase(self.base, self.settings(self.target)), uuid) == []
        if self.target != "postgres":
            assert examine(OpenBase(self.base, self.settings(self.target))) == []
        if self.source == "postgres":
            assert self.in_database(uuid) == 0
        return row

    def in_database(self, uuid: str) -> int:
        import psycopg

        assert self.database is not None
        with psycopg.connect(self.database.url) as connection:
            statement = f"SELECT count(*) FROM {self.database.schema}.task_logs WHERE uuid LIKE %s"
            row = connection.execute(statement.encode(), (f"{uuid}%",)).fetchone()
            return 0 if row is None else int(row[0])


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    source, target = request.param
    database = request.getfixturevalue("emptied_postgres") if "postgres" in request.param else None
    return World(tmp_path / "contexts", source, target, database)


class Steps(logging.Handler):
    """Hears which steps a move takes; at one of them it does something, such as to end the process."""

    def __init__(self, step: str = "", act: Callable[[], object] = lambda: os._exit(KILLED)) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []
        self._step = step
        self._act = act

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.DEBUG and isinstance(record.args, tuple):
            self.seen.append(str(record.args[-1]))
            if self.seen[-1] == self._step:
                self._act()


@contextmanager
def listening(handler: Steps) -> Iterator[Steps]:
    logger = logging.getLogger("orihon.migration")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def killed_at(step: str, world: World, uuid: str) -> None:
    """Another process moves the task and dies at a step."""
    child = os.fork()
    if child == 0:
        try:
            with listening(Steps(step)):
                world.migrate(uuid)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(ended(child)) == KILLED


# ---- the way -------------------------------------------------------------------------------------------------------


def test_everything_survives_byte_for_byte_and_the_task_goes_on(world: World) -> None:
    uuid = world.paused()
    before, epoch = world.contents(uuid), next(iter(world.rows(uuid).values())).epoch
    report = world.migrate()
    assert [(task.uuid, task.outcome) for task in report.tasks] == [(uuid, "moved")]
    row = world.arrived(uuid)
    assert world.contents(uuid) == before
    assert row.epoch > epoch
    task = TaskContextManager.resume(world.base, uuid, world.settings(world.target))
    store = task.message_store
    store.folding.undo()
    store.folding.redo()
    assert list(task.task_store.view_lines()) == before["view"]
    seq = store.add_message("assistant", "こちらで続けます")
    task.complete()
    task.catalogue.close()
    assert world.migrate().tasks == ()
    assert [task.outcome for task in world.back().tasks] == ["moved"]
    after = world.contents(uuid)
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert len(after["messages"]) == seq
    assert "final_summary.txt" in after["files"]
    assert world.backend(uuid) == world.source


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(world: World) -> None:
    uuid = world.paused()
    before, rows = world.contents(uuid), world.rows(uuid)
    report = world.migrate(dry_run=True)
    assert [(task.uuid, task.outcome) for task in report.tasks] == [(uuid, "moved")]
    assert (world.contents(uuid), world.rows(uuid)) == (before, rows)
    assert world.backend(uuid) == world.source


def test_only_the_named_tasks_are_moved_and_progress_is_told(world: World) -> None:
    first, second = world.paused(), world.paused()
    told: list[tuple[int, int]] = []
    world.migrate(first[:13], progress=lambda done, of: told.append((done, of)))
    assert (world.backend(first), world.backend(second)) == (world.target, world.source)
    assert told == [(1, 1)]
    with refused(TaskNotFound, "uuid"):
        world.migrate(new_uuid())
    with refused(InvalidId, "unsafe"):
        world.migrate("../etc")
    assert world.migrate(first).tasks == ()


# ---- crashes -------------------------------------------------------------------------------------------------------


def test_a_crash_at_any_step_leaves_the_task_in_one_place_and_a_second_run_goes_on(
    world: World, some_steps: SomeSteps
) -> None:
    uuid = world.paused()
    with listening(Steps()) as steps:
        world.migrate(uuid)
    assert {"held", "marked", "sealed", "copied_messages", "checked", "switched", "unmarked"} <= set(steps.seen)
    for step in some_steps(steps.seen):
        uuid = world.paused()
        before = world.contents(uuid)
        killed_at(step, world, uuid)
        assert world.contents(uuid) == before, step
        rows = world.rows(uuid)
        assert rows, step
        marks = [(row.requested or "").startswith("migrate:") for row in rows.values()]
        assert len(rows) == 1 or all(marks), f"{step}: two workers could have the task"
        outcomes = [task.outcome for task in world.migrate().tasks]
        assert outcomes in ([], ["moved"], ["finished"]), step
        world.arrived(uuid)
        assert world.contents(uuid) == before, step
    assert not (world.base / "moving").exists()


@pytest.mark.parametrize("world", [PAIRS[1], PAIRS[2], PAIRS[4]], indirect=True)
def test_whoever_opens_the_base_after_a_crash_can_go_on_with_the_task(world: World, some_steps: SomeSteps) -> None:
    """Nobody has to run ``migrate`` again; a command opens it, a page, a worker, as a program does."""
    uuid = world.paused()
    with listening(Steps()) as steps:
        world.migrate(uuid)
    for step in some_steps(steps.seen):
        uuid = world.paused()
        before = world.contents(uuid)
        killed_at(step, world, uuid)
        for settings in (world.both, world.settings("files")):
            with OpenBase(world.base, settings) as base:
                base.open_catalogue()
        assert world.contents(uuid) == before, step
        ((kind, row),) = world.rows(uuid).items()
        assert row.requested is None, step
        settings = world.settings(kind)
        assert (kind == "postgres") == (world.backend(uuid) == "postgres"), step
        task = TaskContextManager.resume(world.base, uuid, settings)
        task.message_store.add_message("user", "one more")
        task.stop()
        task.catalogue.close()
        assert world.contents(uuid)["messages"][: len(before["messages"])] == before["messages"]
        assert verify(OpenBase(world.base, settings), uuid) == [], step
        assert [task.outcome for task in world.migrate(uuid).tasks] in ([], ["moved"], ["finished"]), step
        world.arrived(uuid)


@pytest.mark.parametrize("world", PAIRS[:2], indirect=True)
@pytest.mark.parametrize("step", ["marked", "copied", "switched", "row_updated"])
def test_a_task_in_line_is_claimed_again_after_a_crash(world: World, step: str) -> None:
    uuid = world.paused()
    with OpenBase(world.base, world.both) as base:
        TaskQueue(base).resume(uuid)
    killed_at(step, world, uuid)
    with closing(TaskQueue(world.base, world.both)) as queue:
        taken = queue.dequeue()
        assert taken is not None
        assert taken.uuid == uuid


@pytest.mark.parametrize("world", PAIRS[2:5:2], indirect=True)
@pytest.mark.parametrize("step", ["marked", "row_copied", "row_removed"])
@pytest.mark.parametrize("opener", ["source", "target"])
def test_a_task_that_nobody_has_begun_is_claimed_again_once(world: World, step: str, opener: str) -> None:
    """It has no records, only a row, which is in one catalogue or in both."""
    with closing(TaskQueue(world.base, world.settings(world.source))) as queue:
        uuid = queue.enqueue(KEY, prompt="hello")
    killed_at(step, world, uuid)
    order = ("postgres", "files") if (opener == "source") == (world.source == "postgres") else ("files", "postgres")
    taken = []
    for backend in order:
        with closing(TaskQueue(world.base, world.settings(backend))) as queue:
            taken += [one.uuid for one in [queue.dequeue()] if one is not None]
    assert taken == [uuid]


@pytest.mark.parametrize(
    ("world", "step"),
    [
        *((pair, "copied") for pair in PAIRS),
        *((pair, "moved_in") for pair in PAIRS[1:4]),  # the others have no such step
    ],
    indirect=["world"],
)
def test_a_task_that_went_on_after_a_crash_is_moved_as_it_is_then(world: World, step: str) -> None:
    uuid = world.paused()
    killed_at(step, world, uuid)
    task = TaskContextManager.resume(world.base, uuid, world.settings(world.source))
    task.message_store.add_message("user", "one more, at the old place")
    task.stop()
    task.catalogue.close()
    before = world.contents(uuid)
    assert [task.outcome for task in world.migrate().tasks] == ["moved"]
    world.arrived(uuid)
    assert world.contents(uuid) == before


def test_a_task_that_went_on_at_the_target_is_only_tidied_up(world: World) -> None:
    uuid = world.paused()
    killed_at("unmarked", world, uuid)
    task = TaskContextManager.resume(world.base, uuid, world.settings(world.target))
    task.message_store.add_message("user", "one more, at the new place")
    task.stop()
    task.catalogue.close()
    before = world.contents(uuid)
    world.migrate()
    world.arrived(uuid)
    assert world.contents(uuid) == before


@pytest.mark.parametrize("world", [PAIRS[0], PAIRS[4]], indirect=True)
def test_what_is_left_of_the_source_is_not_removed_when_it_is_something_else(world: World) -> None:
    uuid = world.paused()
    killed_at("unmarked", world, uuid)
    place = folders_of(world.base, world.both).find(uuid)
    assert place is not None
    edit_record(place.folder, "messages", 1, replaced(b"careful", b"careles"))
    before = world.files()
    (outcome,) = world.migrate().tasks
    assert outcome.outcome == "failed"
    assert f"different records in {world.source} and in {world.target}" in outcome.why
    assert world.files() == before
    if world.source == "postgres":
        assert world.in_database(uuid) == 1


@pytest.mark.parametrize("step", ["sealed", "copied_messages", "checked", "switched", "row_copied", "row_removed"])
@pytest.mark.parametrize("way", [("sqlite", "postgres"), ("postgres", "files")], ids=["there", "back"])
def test_a_server_that_goes_away_is_said_and_a_second_run_goes_on(
    tmp_path: Path, emptied_postgres: Database, way: tuple[str, str], step: str
) -> None:
    with CuttingProxy.before(emptied_postgres.url) as proxy:
        through = dataclasses.replace(emptied_postgres, url=proxy.url(emptied_postgres.url))
        world = World(tmp_path / "contexts", *way, through)
        uuid = world.paused()
        before = world.contents(uuid)
        # Only who meets a server that is away is impatient, with an audit of its own: a busy one may take its time.
        apart = dataclasses.replace(through, url=f"{through.url}&application_name=hasty")
        hasty = dataclasses.replace(world, database=apart, lease_seconds=1.0, db_timeout=0.5)
        with listening(Steps(step, proxy.stop)), refused(StorageUnavailable, "server_unreachable"):
            hasty.migrate()
        proxy.start()
        assert world.contents(uuid) == before
        eventually(lambda: not world.migrate().left)  # a lease that could not be given back has to run out
        world.arrived(uuid)
        assert world.contents(uuid) == before


# ---- former owners, live owners, damage ----------------------------------------------------------------------------


def test_whoever_wrote_before_the_move_is_refused_after_it(world: World) -> None:
    world = dataclasses.replace(world, lease_seconds=1.0)
    stale = world.start()
    stale.message_store.add_message("user", "acknowledged")
    stale._ownership.rest()  # as if the process stood still
    eventually(lambda: not stale.catalogue.leases.is_held(stale.catalogue.tasks.get(stale.uuid)))
    assert [task.outcome for task in world.migrate().tasks] == ["moved"]
    before = world.contents(stale.uuid)
    with refused(StaleWriter, "taken_over" if world.source != "postgres" else "moved"):
        stale.message_store.add_message("user", "late")
    for _ in range(2):
        with pytest.raises(REFUSALS):
            stale.message_store.add_message("user", "later")
    if world.target == "postgres":  # a new folder would hide what is in the database
        with pytest.raises(REFUSALS):
            stale.task_store.records.keep_file("outputs/2.txt", b"late")
    errors: list[OrihonError] = []
    thread = threading.Thread(target=_append, args=(stale, errors))
    thread.start()
    thread.join(120)
    assert [isinstance(error, REFUSALS) for error in errors] == [True]
    assert world.contents(stale.uuid) == before
    world.arrived(stale.uuid)


def _append(task: TaskContextManager, errors: list[OrihonError]) -> None:
    try:
        task.message_store.add_message("user", "from a thread with a connection of its own")
    except OrihonError as error:
        errors.append(error)


def test_nobody_changes_a_task_beside_its_move(world: World) -> None:
    """Where several may write, a command joins the owner of a running task; a move is no owner to join."""
    task = world.start()
    task._ownership.rest()
    task.catalogue.leases.release(task.lease)  # as if its process were dead
    seen: list[OrihonError] = []

    def undo() -> None:
        try:
            with changing_task(OpenBase(world.base, world.settings(world.source)), task.uuid) as changing:
                changing.messages.folding.undo()
        except OrihonError as error:
            seen.append(error)

    before = world.contents(task.uuid)
    for step in ("copied", "switched"):
        with listening(Steps(step, undo)):
            report = world.migrate() if step == "copied" else world.back()
        assert [one.outcome for one in report.tasks] == ["moved"]
        assert world.contents(task.uuid) == before
    assert len(seen) == 2


def test_a_live_task_is_skipped_and_its_owner_notices_nothing(world: World) -> None:
    live, resting = world.start(), world.paused()
    report = world.migrate()
    assert {task.uuid: task.outcome for task in report.tasks} == {live.uuid: "skipped", resting: "moved"}
    assert [task.uuid for task in report.left] == [live.uuid]
    assert f"process {os.getpid()}" in report.left[0].why
    live.message_store.add_message("user", "still here")
    live.stop()
    live.catalogue.close()
    assert [task.outcome for task in world.migrate().tasks] == ["moved"]
    world.arrived(live.uuid)


@pytest.mark.parametrize("world", PAIRS[:4], indirect=True)
def test_a_damaged_task_is_reported_and_left(world: World) -> None:
    damaged, sound = world.paused(), world.paused()
    place = folders_of(world.base, world.both).find(damaged)
    assert place is not None
    edit_record(place.folder, "messages", 5, lambda line: line.replace(b"tokens", b"tokenz"))
    report = world.migrate()
    assert {task.uuid: task.outcome for task in report.tasks} == {damaged: "failed", sound: "moved"}
    assert world.backend(damaged) == world.source
    (row,) = world.rows(damaged).values()
    assert (row.status, row.requested, row.lease_owner) == (TaskStatus.PAUSED, None, None)
    found = [finding.kind for finding in examine(OpenBase(world.base, world.settings("files")))]
    assert ("catalogue", "epoch") not in found


# ---- rows ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[("files", "postgres"), ("postgres", "sqlite")], ids=lambda pair: f"{pair[0]}-{pair[1]}")
def crossing(request: pytest.FixtureRequest, tmp_path: Path, emptied_postgres: Database) -> World:
    source, target = request.param
    return World(tmp_path / "contexts", source, target, emptied_postgres)


def _queued(world: World) -> tuple[str, TaskRow]:
    with world.catalogue(world.source) as catalogue:
        row = catalogue.tasks.register(
            TaskKey("github", "owner", "repo", "issue", "7", "someone"),
            new_uuid(),
            status=TaskStatus.QUEUED,
            metadata={"a": [1, "二"]},
            priority=3,
            max_retries=2,
            source="github",
            prompt="直してください",
            parent_uuid=new_uuid(),
        )
        return row.uuid, row


def test_a_queued_task_is_a_row_and_moves_with_all_its_columns(crossing: World) -> None:
    (crossing.base).mkdir(exist_ok=True)
    uuid, before = _queued(crossing)
    assert [(task.uuid, task.outcome) for task in crossing.migrate().tasks] == [(uuid, "row")]
    (after,) = crossing.rows(uuid).values()
    changed = ("epoch", "updated_at", "process_id", "hostname")
    kept = [field.name for field in dataclasses.fields(TaskRow) if field.name not in changed]
    assert {name: getattr(after, name) for name in kept} == {name: getattr(before, name) for name in kept}
    assert after.epoch >= before.epoch
    for kind in ("files", "postgres"):
        with crossing.catalogue(kind) as catalogue:
            assert catalogue.statistics.check_rollups() == []


def test_no_worker_gets_a_queued_task_twice_when_its_move_is_killed(crossing: World) -> None:
    (crossing.base).mkdir(exist_ok=True)
    for step in ("held", "marked", "row_copied", "row_removed", "unmarked"):
        uuid, _ = _queued(crossing)
        killed_at(step, crossing, uuid)
        claimed = []
        for kind in ("files", "postgres"):
            with crossing.catalogue(kind) as catalogue:
                found = catalogue.queue.claim_next()
                if found is not None:
                    claimed.append(found[0].uuid)
        assert claimed in ([], [uuid]), step
        if not claimed:
            crossing.migrate()
            with crossing.catalogue(crossing.target) as catalogue:
                found = catalogue.queue.claim_next()
            assert found is not None, step
            assert found[0].uuid == uuid


@pytest.mark.parametrize("healer", ["base", "doctor"])
@pytest.mark.parametrize("step", ["switched", "row_copied"])
def test_a_move_that_was_killed_behind_the_switch_ends_by_itself(crossing: World, step: str, healer: str) -> None:
    """Into the database; out of it, ``tasks.db`` may be all that the next program is told of."""
    if crossing.target != "postgres":
        pytest.skip("the way into the database")
    uuid = crossing.paused()
    killed_at(step, crossing, uuid)
    settings = crossing.settings(crossing.target)
    if healer == "base":
        with Base(crossing.base, settings) as base:
            task = base.task(uuid)
            assert task.uuid == uuid
            task.close()
    else:
        repair(OpenBase(crossing.base, settings))
        assert examine(OpenBase(crossing.base, settings)) == []
    assert crossing.arrived(uuid).total_messages


@pytest.mark.parametrize("is_switched", [False, True])
def test_a_task_with_a_row_in_both_catalogues_is_moved_and_has_one(crossing: World, is_switched: bool) -> None:
    uuid = crossing.paused()
    row = crossing.rows(uuid)["files" if crossing.source != "postgres" else "postgres"]
    if is_switched:
        killed_at("switched", crossing, uuid)
    with crossing.catalogue(crossing.target) as catalogue:
        catalogue.tasks.adopt(dataclasses.replace(row, llm_call_count=0, prompt="", hostname=None, process_id=None))
    with crossing.catalogue(crossing.source) as catalogue:
        catalogue.tasks.add_statistics(uuid, llm_calls=5)
    assert [task.outcome for task in crossing.migrate().tasks] == ["finished" if is_switched else "moved"]
    assert crossing.arrived(uuid).llm_call_count == 5


def test_a_task_that_went_on_by_the_other_catalogue_keeps_the_row_of_that_one(crossing: World) -> None:
    uuid = crossing.paused()
    (row,) = crossing.rows(uuid).values()
    with crossing.catalogue(crossing.target) as catalogue:
        catalogue.tasks.adopt(row)
        catalogue.tasks.set_totals(uuid, total_messages=row.total_messages)
    with crossing.catalogue(crossing.source) as catalogue:
        catalogue.tasks.set_totals(uuid, total_messages=row.total_messages - 1)
    assert crossing.migrate().left == []
    assert crossing.arrived(uuid).total_messages == row.total_messages


def test_another_task_of_the_same_name_is_found_before_anything_is_moved(crossing: World) -> None:
    uuid = crossing.paused()
    before = crossing.rows(uuid)
    with crossing.catalogue(crossing.target) as catalogue:
        catalogue.tasks.register(TaskKey("github", "o", "r", "issue", "other"), uuid, status=TaskStatus.QUEUED)
    (task,) = crossing.migrate().tasks
    assert task.outcome == "failed"
    assert "other" in task.why
    assert crossing.backend(uuid) == crossing.source
    for kind, row in before.items():
        assert crossing.rows(uuid)[kind] == row


def test_the_doctor_makes_no_second_row_for_a_task_that_tasks_db_knows(tmp_path: Path, postgres: Database) -> None:
    world = World(tmp_path / "contexts", "files", "postgres", postgres)
    uuid = world.paused()
    for found in (examine(OpenBase(world.base, world.both)), repair(OpenBase(world.base, world.both))):
        about = [finding for finding in found if finding.task == uuid]
        assert [(finding.kind, finding.repair) for finding in about] == [(("catalogue", "not_moved"), "none")]
        assert "orihon migrate" in about[0].remedy
    assert [finding.detail for finding in verify(OpenBase(world.base, world.both), uuid)] == ["not_moved"]
    assert list(world.rows(uuid)) == ["files"]
    world.migrate()
    world.arrived(uuid)


def test_what_was_wanted_of_a_task_is_wanted_after_the_move(crossing: World) -> None:
    uuid = crossing.paused()
    with crossing.catalogue(crossing.source) as catalogue:
        assert catalogue.queue.request(uuid, "resume", TaskStatus.PAUSED)
    killed_at("switched", crossing, uuid)
    repair(
        OpenBase(crossing.base, crossing.settings(crossing.source))
    )  # finds no loss in a row whose records have gone ahead
    crossing.migrate()
    (row,) = crossing.rows(uuid).values()
    assert (row.requested, row.status) == ("resume", TaskStatus.PAUSED)


def test_rows_stay_in_the_database_when_only_the_messages_leave_it(tmp_path: Path, postgres: Database) -> None:
    world = World(tmp_path / "contexts", "postgres", "files", postgres)
    uuid = world.paused()
    settings = world.settings("postgres").replace(**{"context_storage.backend": "files"})
    report = migrate_tasks(world.base, settings, source="postgres", target="files")
    assert [task.outcome for task in report.tasks] == ["moved"]
    rows = world.rows(uuid)
    assert list(rows) == ["postgres"]
    assert rows["postgres"].backend == "files"
    assert (world.base / "paused" / uuid / "messages.jsonl").exists()
    task = TaskContextManager.resume(world.base, uuid, settings)
    task.message_store.add_message("user", "goes on")
    task.stop()
    task.catalogue.close()
    assert [task.outcome for task in world.back().tasks] == ["moved"]
    assert world.backend(uuid) == "postgres"


# ---- mistakes ------------------------------------------------------------------------------------------------------


def test_mistakes_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    for source, target, reason in (
        ("files", "files", "same_backend"),
        ("files", "mongo", "unknown_backend"),
        ("files", "postgres", "migrate_database_url"),
        ("postgres", "sqlite", "migrate_database_url"),
    ):
        with refused(InvalidInput, reason):
            migrate_tasks(tmp_path, {}, source=source, target=target)
    with refused(StorageUnavailable, "no_base_dir"):
        migrate_tasks(tmp_path / "nowhere", {}, source="files", target="sqlite")
    assert list(tmp_path.iterdir()) == []
