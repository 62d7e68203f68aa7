"""Backups of a base folder in which others work, to a folder and to a real S3 server, and what can go wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orihon import archive_task
from orihon.catalogue.connect import open_catalogue
from orihon.errors import DamagedStore, InvalidInput, InvalidSettings, OrihonError, StorageUnavailable
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.place import PLACES, folders_of
from orihon.tasks.verify.findings import Finding
from orihon.transfer.backup import BackupReport, VaultKey, backup, check_backups, list_backups, restore_backup, snapshot
from orihon.transfer.backup.manifest import BASE, Chunk, FileEntry, ManifestWriter, read_manifest
from orihon.transfer.backup.vault import BackupRepository, storage_at
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskStatus
from tests.conformance.child import ROOT, Lines
from tests.damage import BACKENDS, KEY, paused_task, settings_for, start_task
from tests.helpers import refused
from tests.integration.object_server import Bucket

DERIVED = {
    *("current.jsonl", "index.json", "counts.json", "heads.json", "settled.json"),
    *("writer.json", "writer.lock", "request.json"),
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass(frozen=True)
class Target:
    """A place for backups, and the settings to reach it."""

    address: str
    endpoint: str | None = None

    def settings(self, backend: str = "files") -> Settings:
        config = {"context_storage": {"backend": backend, "blob_bytes": 1024}, "archive": {"endpoint": self.endpoint}}
        # That a backup was made is recorded, and is new in the next one: here it is counted what else is.
        return load_settings({**config, "audit": {"enabled": False}}, environ={})

    @property
    def vault(self) -> BackupRepository:
        return BackupRepository(storage_at(self.address, self.endpoint))

    def names(self, folder: str) -> list[str]:
        return sorted(storage_at(self.address, self.endpoint).names(folder))


@pytest.fixture
def folder_target(tmp_path: Path) -> Target:
    return Target(str(tmp_path / "vault"))


@pytest.fixture(params=["folder", "file-url", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return Target(bucket.url, bucket.endpoint)
    vault = tmp_path / "vault"
    return Target(str(vault) if request.param == "folder" else f"file://{vault}")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a task that are its own."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if name not in DERIVED and not name.startswith("context.db")
    }


def view_of(base: Path, uuid: str, settings: Settings) -> bytes:
    here = folders_of(base, settings).find(uuid)
    assert here is not None
    with closing(open_for_reading(here.folder, settings)) as store:
        return b"".join(line + b"\n" for line in store.view_lines())


def errors_in(base: Path, settings: Settings) -> list[Finding]:
    """What is wrong; a task that was caught while it was being started may lack a file, which is a warning."""
    return [finding for finding in examine(OpenBase(base, settings)) if finding.severity == "error"]


def restored(target: Target, base: Path, settings: Settings) -> Path:
    """The newest backup in a folder of its own; nothing is wrong with it."""
    number = len(list(base.parent.glob("restored-*")))
    folder = base.parent / f"restored-{number}"
    restore_backup(target.address, folder, settings, key=VaultKey.of_base(base))
    assert examine(OpenBase(folder, settings)) == []
    return folder


# ---- there and back ------------------------------------------------------------------------------------------------


def test_a_backup_restores_to_the_same_tasks(base: Path, backend: str, target: Target) -> None:
    settings = target.settings(backend)
    paused, paused_folder = paused_task(base, backend)
    finished = start_task(base, backend)
    finished.complete()
    running = start_task(base, backend)
    seen: list[tuple[int, int]] = []
    report = backup(OpenBase(base, settings), target.address, lambda done, of: seen.append((done, of)))
    assert (report.tasks, seen[-1]) == (3, (3, 3))
    assert report.new_pieces > 0
    assert [info.run for info in list_backups(target.address, settings)] == [report.run]
    copy = restored(target, base, settings)
    assert contents(copy / "paused" / paused) == contents(paused_folder)
    assert contents(copy / "completed" / finished.uuid) == contents(finished.context_dir)
    assert (copy / "completed" / finished.uuid / "final_summary.txt").exists()
    assert (copy / "mask.key").read_bytes() == (base / "mask.key").read_bytes()
    for uuid in (paused, finished.uuid, running.uuid):
        assert view_of(copy, uuid, settings) == view_of(base, uuid, settings)
    # The one that runs here, in this very process, has no owner there.
    with TaskContextManager.resume(copy, running.uuid, settings) as again:
        again.message_store.add_message("user", "going on in the copy")
    running.message_store.add_message("user", "and here")
    running.stop()
    assert examine(OpenBase(copy, settings)) == []


def test_what_has_not_changed_is_not_sent_again(base: Path, backend: str, target: Target) -> None:
    settings = target.settings(backend)
    paused_task(base, backend)
    first = backup(OpenBase(base, settings), target.address)
    assert backup(OpenBase(base, settings), target.address).sent == 0
    for path in base.rglob("*"):  # as if nobody had touched it for long: then files are not even read
        os.utime(path, (1_000_000_000, 1_000_000_000))
    pieces = target.names("pieces")
    for _ in range(2):
        again = backup(OpenBase(base, settings), target.address)
        assert (again.sent, again.new_pieces, again.size) == (0, 0, first.size)
    assert target.names("pieces") == pieces
    assert len(list_backups(target.address, settings)) == 4
    restored(target, base, settings)


def test_of_a_log_only_the_new_bytes_are_sent(base: Path, target: Target) -> None:
    settings = target.settings()
    # A lease that is renewed meanwhile would be something new, too.
    alone = {"context_storage.lease_seconds": 3600.0, "audit.enabled": False}
    task = start_task(base, settings_for("files").replace(**alone))
    backup(OpenBase(base, settings), target.address)
    log = task.context_dir / "messages.jsonl"
    for number in range(3):
        before = log.stat().st_size
        task.message_store.add_message("user", f"message {number} " * 50)
        report = backup(OpenBase(base, settings), target.address)
        assert (report.sent, report.new_pieces) == (log.stat().st_size - before, 1)
    copy = restored(target, base, settings)
    assert (copy / "running" / task.uuid / "messages.jsonl").read_bytes() == log.read_bytes()
    task.stop()
    assert backup(OpenBase(base, settings), target.address).new_pieces == 1, (
        "of the task that was moved, only its row is new"
    )
    restored(target, base, settings)


def test_a_file_that_was_written_anew_with_the_same_size_is_noticed(base: Path, folder_target: Target) -> None:
    settings = folder_target.settings()
    _, folder = paused_task(base, "files")
    backup(OpenBase(base, settings), folder_target.address)
    old = (folder / "metadata.json").read_bytes()
    (folder / "metadata.json").write_bytes(old.replace(b"user", b"resu"))
    (folder / "metadata.json").write_bytes(old[:-1] + b" ")
    assert backup(OpenBase(base, settings), folder_target.address).sent >= len(old)


def test_equal_contents_are_kept_once(base: Path, folder_target: Target) -> None:
    settings = folder_target.settings()
    paused_task(base, "files")
    backup(OpenBase(base, settings), folder_target.address)
    paused_task(base, "files")  # the same blobs in another task
    blobs = [path for path in base.rglob("blobs/*") if path.is_file()]
    assert len(blobs) > len({path.name for path in blobs})
    backup(OpenBase(base, settings), folder_target.address)
    kept = {Path(name).name for name in folder_target.names("pieces")}
    assert {path.name for path in blobs} <= kept


def test_nothing_but_what_is_orihons_is_backed_up(base: Path, folder_target: Target) -> None:
    settings = folder_target.settings()
    _, folder = paused_task(base, "files")
    (base / "letters.txt").write_text("private")
    (base / "running").mkdir(exist_ok=True)
    (base / "running" / "not a task!").mkdir()
    (folder / ".messages.jsonl.0123abcd").write_text("half")
    (folder / "request.json").write_text("{}")
    (folder / "link").symlink_to("/etc/hostname")
    with (folder / "messages.jsonl").open("ab") as file:
        file.write(b'{"seq":99,"role":"us')
    backup(OpenBase(base, settings), folder_target.address)
    copy = restored(folder_target, base, settings)
    assert sorted(path.name for path in copy.iterdir()) == ["audit", "mask.key", "paused", "tasks.db"]
    names = {path.name for path in copy.rglob("*")}
    assert not names & {".messages.jsonl.0123abcd", "request.json", "link", "letters.txt"}


def test_archived_tasks_are_backed_up_packed(base: Path, backend: str, folder_target: Target) -> None:
    settings = folder_target.settings(backend)
    with start_task(base, backend) as task:
        pass
    packed = archive_task(base, task.uuid, settings)
    backup(OpenBase(base, settings), folder_target.address)
    copy = restored(folder_target, base, settings)
    assert (copy / packed.key).read_bytes() == (base / packed.key).read_bytes()


def test_a_base_folder_without_a_catalogue_is_backed_up_too(base: Path, folder_target: Target) -> None:
    settings = folder_target.settings()
    uuid, folder = paused_task(base, "files")
    for path in base.glob("tasks.db*"):
        path.unlink()
    assert backup(OpenBase(base, settings), folder_target.address).tasks == 1
    restore_backup(folder_target.address, base.parent / "copy", settings, key=VaultKey.of_base(base))
    assert contents(base.parent / "copy" / "paused" / uuid) == contents(folder)


# ---- others work meanwhile -------------------------------------------------------------------------------------------


def test_what_happens_between_the_catalogue_and_the_tasks(base: Path, backend: str, folder_target: Target) -> None:
    """The catalogue has been copied and one task too: the others are taken over, ended, archived, started."""
    settings = folder_target.settings(backend)
    names = [f"task-{number}" for number in range(6)]
    tasks = {name: start_task(base, backend, uuid=name) for name in names}
    tasks["task-5"].complete()
    tasks["task-4"].stop()
    happened: list[str] = []

    def meanwhile(done: int, of: int) -> None:
        if happened:
            return
        happened.append("all of it")
        taken = TaskContextManager.resume(base, "task-1", settings, take_over=True)
        taken.message_store.add_message("user", "taken over")
        tasks["task-2"].complete()
        tasks["task-3"].message_store.add_message("user", "one more")
        tasks["task-3"].stop()
        TaskContextManager.resume(base, "task-4", settings).complete()
        archive_task(base, "task-5", settings)
        start_task(base, backend, uuid="task-9").stop()
        taken.close()

    report = backup(OpenBase(base, settings), folder_target.address, meanwhile)
    assert happened
    copy = restored(folder_target, base, settings)
    with open_catalogue(copy, settings) as catalogue:
        rows = {row.uuid: row for row in catalogue.tasks.page()}
    # Because of the one that was archived a second round began, which has seen everything.
    assert rows["task-5"].status is TaskStatus.ARCHIVED
    assert rows["task-2"].status is TaskStatus.COMPLETED
    assert report.tasks == 6
    assert set(rows) == {*names, "task-9"}
    tasks["task-0"].stop()
    for uuid in ("task-1", "task-3"):
        assert view_of(copy, uuid, settings) == view_of(base, uuid, settings)


def test_a_task_that_is_archived_while_it_is_read_is_not_half_of_it(
    base: Path, backend: str, folder_target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records were read when its folder was taken away; the large contents were about to be listed."""
    settings = folder_target.settings(backend)
    start_task(base, backend, uuid="task-1").complete()
    walk = snapshot._walk
    archived: list[object] = []

    def archive_and_walk(place: int, prefix: str = "") -> Iterator[str]:
        if not archived:
            archived.append(archive_task(base, "task-1", settings))
        return walk(place, prefix)

    monkeypatch.setattr(snapshot, "_walk", archive_and_walk)
    backup(OpenBase(base, settings), folder_target.address)
    assert archived
    copy = restored(folder_target, base, settings)
    with open_catalogue(copy, settings) as catalogue:
        assert catalogue.tasks.get("task-1").status is TaskStatus.ARCHIVED
    assert {path.name for path in (copy / "archive").iterdir()} == {"task-1.json", "task-1.tar.zst"}


def test_tasks_that_never_had_a_folder_are_not_waited_for(
    base: Path, folder_target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = folder_target.settings()
    with closing(TaskQueue(base, settings)) as queue:
        queue.cancel(queue.enqueue(KEY, prompt="never mind"))
    naps: list[float] = []
    me, sleep = threading.get_ident(), time.sleep

    def noted(seconds: float) -> None:
        if threading.get_ident() == me:
            naps.append(seconds)
        else:  # all threads have one clock
            sleep(seconds)

    monkeypatch.setattr("orihon.tasks.place.time.sleep", noted)
    assert backup(OpenBase(base, settings), folder_target.address).tasks == 0
    assert len(naps) <= 1


def test_rows_that_are_older_than_their_tasks_are_made_to_fit(base: Path, backend: str, folder_target: Target) -> None:
    settings = folder_target.settings(backend)
    tasks = [start_task(base, backend, uuid=f"task-{number}") for number in range(4)]
    happened: list[str] = []

    def meanwhile(done: int, of: int) -> None:
        if not happened:
            happened.append("all of it")
            taken = TaskContextManager.resume(base, "task-1", settings, take_over=True)
            taken.message_store.add_message("user", "taken over")
            taken.close()
            tasks[2].complete()
            tasks[3].stop()
            start_task(base, backend, uuid="task-9").stop()

    assert backup(OpenBase(base, settings), folder_target.address, meanwhile).tasks == 4, (
        "the youngest waits for the next one"
    )
    copy = restored(folder_target, base, settings)
    with open_catalogue(copy, settings) as catalogue, open_catalogue(base, settings) as original:
        rows = {row.uuid: row for row in catalogue.tasks.page()}
        assert {row.status for row in rows.values()} == {TaskStatus.RUNNING}
        assert rows["task-1"].epoch == original.tasks.get("task-1").epoch
    assert {path.name for path in (copy / "running").iterdir()} == set(rows)
    tasks[0].stop()
    with TaskContextManager.resume(copy, "task-1", settings) as again:
        assert again.message_store.get_message(14).message.content == "taken over"


@contextmanager
def writer(program: str, base: Path, backend: str) -> Iterator[Lines]:
    """Another process at work in the base folder; it ends when its input does."""
    command = [sys.executable, "-c", program, str(base), backend]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Lines(process.stdout)
        finally:
            process.stdin.close()
            process.stdout.close()
            process.terminate()


_SETTINGS = (
    "import sys, time; from pathlib import Path; from tests.damage import KEY, settings_for, start_task;"
    "from orihon.tasks.context import TaskContextManager; from orihon.values.view import foldable_runs;"
    "base, backend = Path(sys.argv[1]), sys.argv[2]\n"
)
APPENDING = (
    f"{_SETTINGS}"
    "task = TaskContextManager(base, KEY, settings_for(backend), uuid='writer')\n"
    "store = task.message_store\n"
    "number = 0\n"
    "while True:\n"
    "    number += 1\n"
    "    seq = store.add_message('user', f'message {number} ' + 'x' * (number * 37 % 3000))\n"
    "    if number % 7 == 0:\n"
    "        start, end = foldable_runs(store.view())[0]\n"
    "        store.create_summary(start, end, f'summary to {end}')\n"
    "    print(seq, flush=True)\n"
    "    time.sleep(0.01)\n"  # many times while one backup is made, but not thousands of times
)
ENDS = (TaskStatus.PAUSED, TaskStatus.ARCHIVED, TaskStatus.COMPLETED)
COMPLETING = (
    f"{_SETTINGS}"
    "from orihon import archive_task\n"
    "number = 0\n"
    "while True:\n"
    "    number += 1\n"
    "    task = start_task(base, backend, uuid=f'short-{number}')\n"
    "    (task.stop if number % 3 == 0 else task.complete)()\n"
    "    if number % 3 == 1:\n"
    "        archive_task(base, task.uuid, settings_for(backend))\n"
    "    print(number, flush=True)\n"
    "    time.sleep(0.03)\n"
)


def test_a_backup_while_others_write_holds_everything_acknowledged_before(
    base: Path, backend: str, folder_target: Target
) -> None:
    settings = folder_target.settings(backend)
    with writer(APPENDING, base, backend) as appending, writer(COMPLETING, base, backend) as completing:
        for _ in range(3):
            for _ in range(12):
                acknowledged = int(appending.next())
            for _ in range(3):
                completed = int(completing.next())
            report = backup(OpenBase(base, settings), folder_target.address)
            folder = base.parent / f"copy-{report.run}"
            restore_backup(folder_target.address, folder, settings, key=VaultKey.of_base(base))
            assert errors_in(folder, settings) == []
            here = folders_of(folder, settings).find("writer")
            assert here is not None
            with closing(open_for_reading(here.folder, settings)) as store:
                assert store.count("messages") >= acknowledged
            with open_catalogue(folder, settings) as catalogue:
                known = {row.uuid: row.status for row in catalogue.tasks.page(limit=10_000)}
            for number in range(1, completed + 1):
                assert known[f"short-{number}"] is ENDS[number % 3]


MOVING = (
    f"{_SETTINGS}"
    "while True:\n"
    "    task = TaskContextManager(base, KEY, settings_for(backend), uuid='restless')\n"
    "    seq = task.message_store.add_message('user', 'message ' * 20)\n"
    "    task.stop()\n"
    "    print(seq, flush=True)\n"
)


def test_a_folder_that_is_moved_all_the_time_is_found(base: Path, backend: str, folder_target: Target) -> None:
    settings = folder_target.settings(backend)
    with writer(MOVING, base, backend) as moving:
        for number in range(10):
            acknowledged = int(moving.next())
            backup(OpenBase(base, settings), folder_target.address)
            folder = base.parent / f"copy-{number}"
            restore_backup(folder_target.address, folder, settings, key=VaultKey.of_base(base))
            assert errors_in(folder, settings) == []
            here = folders_of(folder, settings).find("restless")
            assert here is not None
            with closing(open_for_reading(here.folder, settings)) as store:
                assert store.count("messages") >= acknowledged


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def vault_folder(base: Path, folder_target: Target) -> Path:
    paused_task(base, "files")
    backup(OpenBase(base, folder_target.settings()), folder_target.address)
    return Path(folder_target.address)


def no_restore(target: Target, base: Path, reason: str) -> OrihonError:
    """The restore is refused, and nothing of it stays."""
    before = sorted(base.parent.iterdir())
    with refused(DamagedStore, reason) as caught:
        restore_backup(
            target.address, base.parent / "copy", target.settings(), key=VaultKey.of_base(base), unverified=True
        )
    assert sorted(base.parent.iterdir()) == before
    return caught.value


def test_a_damaged_piece_is_named(base: Path, folder_target: Target, vault_folder: Path) -> None:
    log = next(base.rglob("messages.jsonl")).read_bytes()
    piece = next(path for path in vault_folder.rglob("pieces/*/*") if path.read_bytes() == log)
    piece.write_bytes(log[:-2] + b"?\n")
    error = no_restore(folder_target, base, "backup_chunk_changed")
    assert error.fields["key"] == f"pieces/{piece.name[:2]}/{piece.name}"
    assert error.fields["file"].endswith("/messages.jsonl")
    piece.unlink()
    assert no_restore(folder_target, base, "backup_chunk_missing").fields["key"].endswith(piece.name)
    backup(OpenBase(base, folder_target.settings()), folder_target.address)
    restored(folder_target, base, folder_target.settings())


def test_damage_is_found_by_a_check_and_what_was_removed_is_sent_again(
    base: Path, backend: str, target: Target
) -> None:
    settings = target.settings(backend)
    paused_task(base, backend)
    for path in base.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    for _ in range(2):
        report = backup(OpenBase(base, settings), target.address)
    clean = check_backups(target.address, settings)
    assert (clean.backups, clean.size, clean.damage) == (2, report.size, ())
    storage = storage_at(target.address, target.endpoint)
    first, second, *_ = target.names("pieces")
    sizes = sum(len(storage.read(name).data) for name in (first, second))
    storage.replace(first, storage.read(first).data[:-1])
    storage.delete(second)
    found = check_backups(target.address, settings)
    assert {(error.fields["key"], error.reason) for error in found.damage} == {
        (first, "backup_chunk_changed"),
        (second, "backup_chunk_missing"),
    }
    storage.delete(first)
    assert backup(OpenBase(base, settings), target.address).sent == sizes
    assert check_backups(target.address, settings).damage == ()
    restored(target, base, settings)


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_manifest_is_named(base: Path, folder_target: Target, vault_folder: Path, damage: str) -> None:
    (manifest,) = (vault_folder / "manifests").iterdir()
    if damage == "changed":
        manifest.write_bytes(manifest.read_bytes()[:-3])
    else:
        manifest.unlink()
    assert no_restore(folder_target, base, "backup_manifest").fields["run"] == manifest.name
    (found,) = check_backups(folder_target.address, folder_target.settings()).damage
    assert found.fields["run"] == manifest.name
    # A backup that cannot build upon it is a whole one.
    assert backup(OpenBase(base, folder_target.settings()), folder_target.address).new_pieces == 0
    restored(folder_target, base, folder_target.settings())


@pytest.mark.parametrize(
    "entry",
    [
        {"task": BASE, "place": "", "name": "../evil", "pieces": []},
        {"task": BASE, "place": "", "name": "/evil", "pieces": []},
        {"task": "..", "place": "paused", "name": "evil", "pieces": []},
        {"task": "abc", "place": "..", "name": "evil", "pieces": []},
        {"task": "abc", "place": "paused", "name": "x", "pieces": [["../../evil", 3]]},
        {"task": "abc", "place": "paused", "name": "x", "pieces": [["0" * 64, -1]]},
        {"task": "abc", "name": "x"},
    ],
)
def test_a_manifest_that_leads_out_of_the_folder_is_refused(
    base: Path, folder_target: Target, vault_folder: Path, entry: dict[str, object]
) -> None:
    import hashlib

    import zstandard

    with pytest.raises(ValueError, match=r"."):
        FileEntry.from_record(dict(entry))
    (run,) = (vault_folder / "runs").iterdir()
    forged = zstandard.ZstdCompressor().compress(jsonio.encode(entry) + b"\n")
    (vault_folder / "manifests" / run.stem).write_bytes(forged)
    described = jsonio.decode(run.read_bytes())
    run.write_bytes(jsonio.encode({**described, "manifest_sha256": hashlib.sha256(forged).hexdigest()}))
    no_restore(folder_target, base, "backup_manifest")


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    entries = [
        FileEntry("a", "paused", "messages.jsonl", (Chunk("0" * 64, 3), Chunk("f" * 64, 4)), "1-2-3"),
        FileEntry(BASE, "", "archive/日本.tar.zst", ()),
    ]
    with ManifestWriter(tmp_path / "m") as writer:
        for entry in entries:
            writer.add(entry)
    assert (writer.tasks, writer.files, writer.size) == (1, 2, 7)
    assert list(read_manifest(tmp_path / "m")) == entries


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_a_restore_goes_only_into_an_empty_folder(base: Path, folder_target: Target, vault_folder: Path) -> None:
    settings = folder_target.settings()
    used = base.parent / "used"
    used.mkdir()
    (used / "letter").write_text("mine")
    for place in (used, used / "letter", base):
        with refused(StorageUnavailable, "not_empty"):
            restore_backup(vault_folder, place, settings, key=VaultKey.of_base(base))
    assert [path.name for path in used.iterdir()] == ["letter"]
    (used / "letter").unlink()
    restore_backup(vault_folder, used, settings, key=VaultKey.of_base(base))
    assert examine(OpenBase(used, settings)) == []
    assert used.stat().st_mode & 0o777 == 0o700


def test_a_backup_that_is_not_there_cannot_be_restored(base: Path, folder_target: Target) -> None:
    settings = folder_target.settings()
    with refused(InvalidInput, "no_backup"):
        restore_backup(folder_target.address, base, settings)
    with refused(InvalidInput, "no_backup"):
        check_backups(folder_target.address, settings)
    paused_task(base, "files")
    run = backup(OpenBase(base, settings), folder_target.address).run
    with refused(InvalidInput, "unknown_backup"):
        restore_backup(folder_target.address, base.parent / "copy", settings, run=f"{run}x", key=VaultKey.of_base(base))
    restore_backup(folder_target.address, base.parent / "copy", settings, run=run, key=VaultKey.of_base(base))


def test_an_older_backup_can_be_restored(base: Path, target: Target) -> None:
    settings = target.settings()
    task = start_task(base, "files")
    first = backup(OpenBase(base, settings), target.address)
    task.message_store.add_message("user", "too late for the first one")
    backup(OpenBase(base, settings), target.address)
    restore_backup(target.address, base.parent / "copy", settings, run=first.run, key=VaultKey.of_base(base))
    assert b"too late" not in (base.parent / "copy" / "running" / task.uuid / "messages.jsonl").read_bytes()
    task.stop()


def test_a_catalogue_in_a_database_is_for_pg_dump(base: Path, folder_target: Target) -> None:
    paused_task(base, "files")
    settings = load_settings({"database": {"url": "postgresql://127.0.0.1:1/none", "schema": "ours"}}, environ={})
    for act in (
        lambda: backup(OpenBase(base, settings), folder_target.address),
        lambda: restore_backup(folder_target.address, base.parent / "copy", settings, key=VaultKey.of_base(base)),
    ):
        with refused(InvalidSettings, "backup_database") as caught:
            act()
        assert "pg_dump --schema=ours" in caught.value.remedy


@pytest.mark.parametrize("place", ["base", "base/vault", "."])
def test_a_backup_beside_its_tasks_is_refused(base: Path, place: str) -> None:
    paused_task(base, "files")
    with refused(InvalidInput, "backup_inside"):
        backup(OpenBase(base, Target("").settings()), base.parent / place)


def test_no_backup_at_all_cannot_be_kept(base: Path, folder_target: Target) -> None:
    paused_task(base, "files")
    with refused(InvalidInput, "no_backups_kept"):
        backup(OpenBase(base, folder_target.settings()), folder_target.address, keep=0)


# ---- older ones, and others ------------------------------------------------------------------------------------------


def test_older_backups_go_with_what_only_they_need(base: Path, target: Target) -> None:
    settings = target.settings()
    uuid, folder = paused_task(base, "files")
    reports: list[BackupReport] = []
    for number in range(4):
        (folder / "notes.txt").write_text(f"note {number} " * 100)
        reports.append(backup(OpenBase(base, settings), target.address))
    pieces = set(target.names("pieces"))
    (folder / "notes.txt").write_text("note 3 " * 100)
    last = backup(OpenBase(base, settings), target.address, keep=2)
    assert (last.removed_backups, last.removed_pieces) == (3, 3)
    assert [info.run for info in list_backups(target.address, settings)] == [reports[-1].run, last.run]
    assert len(target.names("manifests")) == 2
    assert set(target.names("pieces")) < pieces
    restored(target, base, settings)
    restore_backup(target.address, base.parent / "copy", settings, run=reports[-1].run, key=VaultKey.of_base(base))
    assert (base.parent / "copy" / "paused" / uuid / "notes.txt").read_text() == "note 3 " * 100


def test_one_backup_at_a_time(base: Path, target: Target) -> None:
    settings = target.settings()
    paused_task(base, "files")
    with target.vault.locked():
        with refused(StorageUnavailable, "backup_running") as caught:
            backup(OpenBase(base, settings), target.address, keep=1)
        assert caught.value.fields["pid"] == os.getpid()
    backup(OpenBase(base, settings), target.address)
    assert target.vault.runs()


@pytest.mark.parametrize(("minutes", "is_refused"), [(30, True), (90, False)])
def test_a_lock_of_another_machine_holds_for_an_hour(
    base: Path, folder_target: Target, minutes: int, is_refused: bool
) -> None:
    paused_task(base, "files")
    sign = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    there = {"token": "x", "at": sign, "host": "elsewhere", "pid": 1, "start": 0, "boot": "b", "space": "s"}
    storage_at(folder_target.address, None).create("lock.json", jsonio.encode(there))
    if is_refused:
        with refused(StorageUnavailable, "backup_running"):
            backup(OpenBase(base, folder_target.settings()), folder_target.address)
    else:
        backup(OpenBase(base, folder_target.settings()), folder_target.address)
        assert not (Path(folder_target.address) / "lock.json").exists()


def test_a_backup_that_was_taken_over_does_not_count(base: Path, folder_target: Target) -> None:
    paused_task(base, "files")
    lock = Path(folder_target.address) / "lock.json"

    def taken(done: int, of: int) -> None:
        lock.write_bytes(jsonio.encode({"token": "another"}))

    with refused(StorageUnavailable, "backup_taken_over"):
        backup(OpenBase(base, folder_target.settings()), folder_target.address, taken)
    assert list_backups(folder_target.address, folder_target.settings()) == []
    assert lock.exists(), "it is the other one's"


def test_what_a_backup_needs_is_not_removed_by_hand_alone(base: Path, folder_target: Target) -> None:
    """Pieces of a backup that never ended are no backup's, and go with the next cleaning."""
    settings = folder_target.settings()
    paused_task(base, "files")
    backup(OpenBase(base, settings), folder_target.address)
    vault = folder_target.vault
    vault.put(b"left by a backup that was killed")
    (Path(folder_target.address) / "manifests" / "000009-20200101T000000Z").write_bytes(b"half")
    report = backup(OpenBase(base, settings), folder_target.address, keep=5)
    assert (report.removed_backups, report.removed_pieces) == (0, 1)
    assert len(folder_target.names("manifests")) == 2
    key = VaultKey.of_base(base)
    shutil.rmtree(base)
    restore_backup(folder_target.address, base, settings, key=key)
    assert {place for place in PLACES if (base / place).exists()} == {"paused"}
