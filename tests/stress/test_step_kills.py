"""``kill -9`` at every change that an answer, a restore, a rewind, a fork, an archive, a cleanup or a backup makes.

Another process does it and is killed just before one of its changes; whoever comes next does the same once more. Then
it has been done once, all is whole and in one place, and ``verify`` is content. ``--crash-every 1`` tries each change.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from orihon import (
    Settings,
    TaskContextManager,
    archive_task,
    delete_old_contexts,
    fork_task,
    load_settings,
    restore_task,
)
from orihon.errors import IllegalTransition, NotWaiting
from orihon.store.copy import StoreContents, contents_of
from orihon.store.factory import open_for_reading
from orihon.store.files import FilesRecords
from orihon.store.writer_place import holder_in
from orihon.tasks.approvals.answers import approve, reject, sweep
from orihon.tasks.approvals.phase_restore import restore_phase
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import changing_task
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify
from orihon.transfer.backup import VaultKey, backup, check_backups, list_backups, restore_backup
from orihon.transfer.backup.vault import Memory
from orihon.upkeep.doctor import examine, repair
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.damage import paused_task, settings_for, start_task
from tests.helpers import SomeSteps
from tests.integration.killing import count_changes, killed_at_change
from tests.integration.test_approvals import Loop
from tests.services import Database

pytestmark = pytest.mark.stress

Subject = TypeVar("Subject")
#: Changes that a sample is about; setting everything up anew for each takes its time.
SAMPLE = 3
REASON = "Look at Godot again."


@dataclass(frozen=True)
class World:
    """Where the tasks of a test are, with one of the back ends."""

    base: Path
    config: dict[str, Any]

    @property
    def settings(self) -> Settings:
        return load_settings(self.config, environ={})

    def contents(self, uuid: str) -> StoreContents | None:
        """Everything of a task that has a folder, or is in the database."""
        place = folders_of(self.base, self.settings).find(uuid)
        if place is None:
            return None
        with closing(open_for_reading(place.folder, self.settings, name=uuid)) as store:
            return contents_of(store)

    def view(self, uuid: str) -> list[bytes]:
        place = folders_of(self.base, self.settings).find(uuid)
        assert place is not None
        with closing(open_for_reading(place.folder, self.settings, name=uuid)) as store:
            return list(store.view_lines())

    def check(self, uuid: str) -> None:
        """Nothing is wrong but what a process that dies may leave: a temporary file, a view to be made anew."""
        found = verify(OpenBase(self.base, self.settings), uuid)
        assert [finding for finding in found if finding.severity != "warning"] == []

    def finished(self) -> str:
        task = start_task(self.base, self.settings, key=TaskKey("cli", "", "", "task", new_uuid()))
        task.complete()
        task.catalogue.close()
        return task.uuid

    def paused(self) -> str:
        task = start_task(self.base, self.settings, key=TaskKey("cli", "", "", "task", new_uuid()))
        task.stop()
        task.catalogue.close()
        return task.uuid


@pytest.fixture
def world(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> World:
    config: dict[str, Any] = {"context_storage": {"backend": kind, "blob_bytes": 1024}}
    if kind == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        config |= {"database": database.settings, "archive": {"url": f"file://{tmp_path}/shelf"}}
    return World(tmp_path / "contexts", config)


def at_each_change(
    some_steps: SomeSteps,
    prepare: Callable[[], Subject],
    act: Callable[[Subject], object],
    check: Callable[[Subject], None],
) -> None:
    """Prepare, have somebody killed at a change while acting, and check; for some of all changes."""
    subject = prepare()
    changes = count_changes(lambda: act(subject))
    check(subject)
    assert changes > 5
    wanted = some_steps(range(1, changes + 1))
    for number in wanted if len(wanted) == changes else wanted[:: max(1, len(wanted) // SAMPLE)]:
        subject = prepare()
        if killed_at_change(number, lambda: act(subject)):  # noqa: B023  it is over when the next one begins
            check(subject)


# ---- the view --------------------------------------------------------------------------------------------------------


def folded(world: World) -> Loop:
    """A task whose exploration was approved and is folded."""
    loop = Loop(world.base, world.config)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    return loop


def test_a_rejection(world: World, some_steps: SomeSteps) -> None:
    def prepare() -> Loop:
        loop = folded(world)
        loop.resume().message_store.add_message("assistant", "## Plan\n\n- Unity")
        loop.ask("plan")
        return loop

    def check(loop: Loop) -> None:
        sweep(OpenBase(loop.base, loop.settings))
        with suppress(NotWaiting):  # the answer of the one who died counts
            reject(OpenBase(loop.base, loop.settings), loop.uuid, by="ann", reason=REASON)
        assert loop.row().status is TaskStatus.PAUSED
        assert "GDScript" in loop.shown()
        answers = [one.answer for one in loop.ledger().checkpoints]
        assert [answer and answer.decision for answer in answers] == ["approve", "reject"]
        assert loop.shown().count(REASON) == 1
        world.check(loop.uuid)

    at_each_change(
        some_steps,
        prepare,
        lambda loop: reject(OpenBase(loop.base, loop.settings), loop.uuid, by="ann", reason=REASON),
        check,
    )


def test_a_section_that_is_restored(world: World, some_steps: SomeSteps) -> None:
    def restore(loop: Loop) -> None:
        restore_phase(OpenBase(loop.base, loop.settings), loop.uuid, section="Godot")

    def check(loop: Loop) -> None:
        world.check(loop.uuid)
        restore(loop)
        assert "GDScript" in loop.shown()
        assert loop.row().status is TaskStatus.PAUSED
        with changing_task(OpenBase(loop.base, loop.settings), loop.uuid) as task:
            task.messages.folding.undo()
        assert "GDScript" not in loop.shown(), "it was opened once"
        world.check(loop.uuid)

    at_each_change(some_steps, lambda: folded(world), restore, check)


def test_a_rewind(world: World, some_steps: SomeSteps) -> None:
    def rewind(uuid: str) -> None:
        with changing_task(OpenBase(world.base, world.settings), uuid) as task:
            task.messages.folding.unpin(8)
            task.messages.rewind(7)

    def check(uuid: str) -> None:
        world.check(uuid)
        with TaskContextManager.resume(world.base, uuid, world.settings) as task:
            records = task.message_store.compressions()
            if not any(record.strategy == "rewind" for record in records):
                if records[-1].pins:
                    task.message_store.folding.unpin(8)
                task.message_store.rewind(7)
            rewound = [record for record in task.message_store.compressions() if record.strategy == "rewind"]
            assert len(rewound) == 1
            assert task.message_store.count_messages() == 13, "nothing is lost"
            assert len(task.message_store.view().entries) == 8, "the first seven, and the notice"
            task.message_store.folding.undo()
            task.message_store.add_message("user", "goes on")
        world.check(uuid)

    at_each_change(some_steps, world.paused, rewind, check)


def test_the_place_of_a_writer(tmp_path: Path) -> None:
    """Whoever comes next can read who wrote, and with which epoch, whatever was killed."""

    def claim() -> None:
        with closing(FilesRecords(tmp_path)) as records:
            records.claim()

    claim()
    for number in range(1, count_changes(claim) + 1):
        assert killed_at_change(number, claim)
        assert (holder_in((tmp_path / "writer.json").read_bytes()) or {}).get("epoch"), number


# ---- whole tasks -----------------------------------------------------------------------------------------------------


def test_a_fork(world: World, some_steps: SomeSteps) -> None:
    names = count()

    def prepare() -> tuple[str, str]:
        return world.paused(), f"fork-{next(names)}"

    def check(both: tuple[str, str]) -> None:
        old, new = both
        before = world.contents(old)
        assert {finding.detail for finding in examine(OpenBase(world.base, world.settings))} <= {"no_row"}
        assert all(finding.repair == "done" for finding in repair(OpenBase(world.base, world.settings)))
        with suppress(IllegalTransition):  # it is there already
            fork_task(world.base, old, world.settings, 10, name=new)
        assert world.contents(old) == before
        world.check(old)
        world.check(new)
        with TaskContextManager.resume(world.base, new, world.settings) as task:
            assert task.message_store.count_messages() == 10

    at_each_change(
        some_steps, prepare, lambda both: fork_task(world.base, both[0], world.settings, 10, name=both[1]), check
    )


def test_an_archive_and_its_restoring(world: World, some_steps: SomeSteps) -> None:
    def prepare(*, packed: bool) -> tuple[str, StoreContents | None]:
        uuid = world.finished()
        before = world.contents(uuid)
        if packed:
            archive_task(world.base, uuid, world.settings)
        return uuid, before

    def check(task: tuple[str, StoreContents | None]) -> None:
        uuid, before = task
        if world.contents(uuid) is not None:
            assert world.contents(uuid) == before, "half of a task is never to be seen"
        archive_task(world.base, uuid, world.settings)
        assert world.contents(uuid) is None
        restore_task(world.base, uuid, world.settings)
        assert world.contents(uuid) == before
        assert len(places_of(world, uuid)) == 1
        world.check(uuid)

    at_each_change(
        some_steps, lambda: prepare(packed=False), lambda task: archive_task(world.base, task[0], world.settings), check
    )
    at_each_change(
        some_steps, lambda: prepare(packed=True), lambda task: restore_task(world.base, task[0], world.settings), check
    )


def places_of(world: World, uuid: str) -> list[Path]:
    """Every file or folder that bears a task's name, the folders of the database left out."""
    found = [path for path in world.base.parent.rglob(f"*{uuid}*") if "scratch" not in path.parts]
    return found or [Path("database")]


def test_a_cleanup(world: World, some_steps: SomeSteps) -> None:
    def check(task: tuple[str, StoreContents | None]) -> None:
        uuid, before = task
        if world.contents(uuid) is not None:
            assert world.contents(uuid) == before
        run = delete_old_contexts(world.base, world.settings, days=0)
        assert run.left == {}
        assert world.contents(uuid) is None
        assert places_of(world, uuid) == [Path("database")], "which has nothing of it either, says the next line"
        assert verify(OpenBase(world.base, world.settings), uuid) == []

    def prepare() -> tuple[str, StoreContents | None]:
        uuid = world.finished()
        return uuid, world.contents(uuid)

    at_each_change(some_steps, prepare, lambda task: delete_old_contexts(world.base, world.settings, days=0), check)


# ---- the whole base folder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_backup_and_its_restoring(backend: str, tmp_path: Path, some_steps: SomeSteps) -> None:
    base, vault, copy, settings = tmp_path / "base", tmp_path / "vault", tmp_path / "copy", settings_for(backend)
    _, folder = paused_task(base, backend)
    backup(OpenBase(base, settings), vault)

    def prepare() -> str:
        notes = folder / "notes.txt"
        notes.write_text(new_uuid())
        notes.chmod(0o600)
        return list_backups(vault, settings)[-1].run

    def check(last: str) -> None:
        for run in {last, backup(OpenBase(base, settings), vault).run}:
            restore_backup(vault, copy, settings, run=run, key=VaultKey.of_base(base))
            assert examine(OpenBase(copy, settings)) == []
            shutil.rmtree(copy)
        backup(OpenBase(base, settings), vault, keep=1)
        looked = check_backups(vault, settings, key=VaultKey.of_base(base), newest=Memory(base).newest)
        assert (looked.damage, bool(looked.key)) == ((), True), "nothing looks like somebody else's"

    at_each_change(some_steps, prepare, lambda last: backup(OpenBase(base, settings), vault, keep=2), check)

    def restoring(last: str) -> None:
        restore_backup(vault, copy, settings, key=VaultKey.of_base(base))

    def restored(last: str) -> None:
        if copy.exists() and any(copy.iterdir()):
            assert examine(OpenBase(copy, settings)) == [], "whole or not at all"
            shutil.rmtree(copy)
        check(last)

    at_each_change(some_steps, prepare, restoring, restored)
