"""The doctor finds what is wrong in a base folder, puts right what it can, deletes nothing, and then finds nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from orihon.catalogue import Catalogue
from orihon.errors import DamagedStore, StorageUnavailable
from orihon.store.kept_files import fields_in, stamped
from orihon.system.files import is_unfinished, unfinished_file
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.findings import Finding, Findings
from orihon.upkeep.doctor import examine, repair
from orihon.upkeep.doctor.repairs import REPAIRS
from orihon.values.task import TaskKey, TaskStatus
from tests.damage import (
    BACKENDS,
    KEY,
    edit_record,
    killed_task,
    paused_task,
    settings_for,
    start_task,
    tear,
    with_fields,
)
from tests.helpers import refused


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kinds(findings: list[Finding]) -> list[str]:
    return [f"{finding.check}.{finding.detail} {finding.repair}" for finding in findings]


def healed(base: Path, backend: str, *expected: str) -> None:
    """The doctor finds these things and no others, repairs them, and finds nothing any more."""
    settings = settings_for(backend)
    before = _everything(base)
    assert kinds(examine(OpenBase(base, settings))) == [f"{kind} possible" for kind in expected]
    assert _everything(base) == before, "looking changes nothing"
    assert sorted(kinds(repair(OpenBase(base, settings)))) == sorted(f"{kind} done" for kind in expected)
    assert examine(OpenBase(base, settings)) == []
    assert repair(OpenBase(base, settings)) == []


def _everything(base: Path) -> dict[str, bytes]:
    """Every file but those that SQLite tidies up by itself."""
    names = (path for path in base.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm", ".db")))
    return {str(path): path.read_bytes() for path in names}


def aside(folder: Path) -> list[str]:
    """What was put aside, without the random ends of the names."""
    return sorted(path.name.rpartition(".")[0] for path in (folder / "aside").iterdir())


def status_of(base: Path, uuid: str) -> TaskStatus:
    with Catalogue(base / "tasks.db") as catalogue:
        return catalogue.tasks.get(uuid).status


def goes_on(base: Path, uuid: str, backend: str) -> None:
    """The task can be resumed as if nothing had happened."""
    task = TaskContextManager.resume(base, uuid, settings_for(backend))
    assert task.message_store.add_message("user", "and on") == 14
    task.stop()
    assert examine(OpenBase(base, settings_for(backend))) == []


# ---- nothing to do -------------------------------------------------------------------------------------------------


def test_a_sound_folder_needs_no_doctor(tmp_path: Path, backend: str) -> None:
    paused_task(tmp_path, backend)
    start_task(tmp_path, backend).complete()
    start_task(tmp_path, backend).fail("a reason")
    running = start_task(tmp_path, backend)
    assert examine(OpenBase(tmp_path, running.settings)) == []
    assert repair(OpenBase(tmp_path, running.settings)) == []
    running.message_store.add_message("user", "the doctor has not touched me")
    running.close()


def test_an_empty_folder_stays_empty(tmp_path: Path) -> None:
    assert repair(OpenBase(tmp_path, settings_for("files"))) == []
    assert list(tmp_path.iterdir()) == []
    with refused(StorageUnavailable, "no_base_dir"):
        examine(OpenBase(tmp_path / "elsewhere", settings_for("files")))


# ---- the task's folder ---------------------------------------------------------------------------------------------


def test_a_torn_tail_is_cut_and_kept(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    torn = tear(folder)
    healed(tmp_path, "files", "stream.torn")
    (kept,) = (folder / "aside").iterdir()
    assert kept.read_bytes() == torn
    goes_on(tmp_path, uuid, "files")


def test_left_over_files_are_removed_in_one_run(tmp_path: Path, backend: str) -> None:
    _, folder = paused_task(tmp_path, backend)
    (folder / "aside").mkdir(mode=0o700)
    many = [f".current.jsonl.{number:08x}" for number in range(90)]
    for name in (*many, "request.json", ".metadata.json.0a1b2c3d", "blobs/.0123abcd.99999999", "aside/.x.00000001"):
        (folder / name).write_bytes(name.encode())
        (folder / name).chmod(0o600)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / ".a.tar.zst.00000002").write_bytes(b"half an archive")
    (tmp_path / ".mask.key.0a1b2c3d").write_bytes(b"half a key")
    (tmp_path / ".notes.0a1b2c3d").write_bytes(b"somebody else's")
    staged = tmp_path / "running" / ".fetched.0a1b2c3d"
    staged.mkdir(mode=0o700)
    os.utime(staged, (1, 1))
    with unfinished_file(tmp_path / "mask.key") as (being_written, _):
        healed(tmp_path, backend, "base.temporary", "folder.request", "folder.temporary")
        assert being_written.exists()
    left = [path.name for path in tmp_path.rglob("*") if is_unfinished(path.name)]
    assert left == [".notes.0a1b2c3d"], "the base folder may be anybody's"
    assert list((folder / "aside").iterdir()) == [], "nothing in them was ever acknowledged"


def test_more_of_a_kind_are_as_bad_as_those_that_are_shown() -> None:
    findings = Findings()
    for number in range(Findings.LIMIT + 3):
        findings.report(Finding("view", "counters", str(number), severity="warning"))
        findings.report(Finding("stream", "record", str(number)))
    more = [(one.where, one.severity, one.fields["count"]) for one in findings.about("task") if one.check == "more"]
    assert more == [("view.counters", "warning", 3), ("stream.record", "error", 3)]


def test_permissions_are_taken_back(tmp_path: Path, backend: str) -> None:
    _, folder = paused_task(tmp_path, backend)
    folder.chmod(0o755)
    (folder / "metadata.json").chmod(0o640)
    (tmp_path / "tasks.db").chmod(0o644)
    (tmp_path / "paused").chmod(0o755)
    healed(tmp_path, backend, "base.permissions", "folder.permissions")
    assert (folder / "metadata.json").stat().st_mode & 0o777 == 0o600


def test_a_file_of_somebody_else_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = paused_task(tmp_path, "files", uuid="a-foreign")
    _, second = paused_task(tmp_path, "files", uuid="b-mine")
    for folder in (first, second):
        (folder / "metadata.json").chmod(0o644)
    change_mode = Path.chmod

    def refusing(path: Path, mode: int) -> None:
        if path.parent == first:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        change_mode(path, mode)

    monkeypatch.setattr(Path, "chmod", refusing)
    outcome = repair(OpenBase(tmp_path, settings_for("files")))
    assert [(finding.task, finding.repair) for finding in outcome] == [("a-foreign", "failed"), ("b-mine", "done")]
    assert "No permission" in outcome[0].note


def test_derived_files_are_made_anew(tmp_path: Path) -> None:
    _, folder = paused_task(tmp_path, "files")
    view = folder / "current.jsonl"
    whole = view.read_bytes()
    view.write_bytes(b"something else\n")
    healed(tmp_path, "files", "view.unknown_lines")
    assert view.read_bytes() == whole
    assert aside(folder) == ["current.jsonl"]
    view.unlink()
    healed(tmp_path, "files", "view.missing")
    assert view.read_bytes() == whole


def test_a_view_older_than_the_last_fold_is_made_anew(tmp_path: Path) -> None:
    task = TaskContextManager(tmp_path, KEY, settings_for("files"))
    for number in range(13):
        task.message_store.add_message("user", f"message {number}")
    view = task.message_store.get_current_context_file()
    before_the_fold = view.read_bytes()
    task.message_store.create_summary(1, 10, "what came first")
    task.close()
    view.write_bytes(before_the_fold)
    healed(tmp_path, "files", "view.lines")
    goes_on(tmp_path, task.uuid, "files")


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, lambda path: path.symlink_to(path), lambda path: os.mkfifo(path, 0o600)],
    ids=["folder", "loop", "pipe"],
)
def test_what_stands_in_the_place_of_the_view_is_put_aside(tmp_path: Path, make: Callable[[Path], None]) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    view = folder / "current.jsonl"
    whole = view.read_bytes()
    view.unlink()
    make(view)
    if view.is_dir():
        view.chmod(0o700)
    healed(tmp_path, "files", "view.no_file")
    assert view.read_bytes() == whole
    goes_on(tmp_path, uuid, "files")


def test_counters_are_counted_again(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    task = TaskContextManager.resume(tmp_path, uuid, settings_for(backend))
    task.message_store.add_message("user", "one more")
    with task.task_store.changing() as tail:
        tail.log_tokens += 5
    task.stop()
    healed(tmp_path, backend, "view.counters")


def test_the_writers_place_can_be_lost(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    (folder / "writer.json").write_bytes(b"{half")
    healed(tmp_path, "files", "folder.writer")
    assert aside(folder) == ["writer.json"]
    goes_on(tmp_path, uuid, "files")


@pytest.mark.parametrize("content", [b"{", b'{"uuid": "another"}'])
def test_metadata_is_written_anew(tmp_path: Path, backend: str, content: bytes) -> None:
    _, folder = paused_task(tmp_path, backend)
    (folder / "metadata.json").write_bytes(content)
    healed(tmp_path, backend, "folder.metadata")
    assert aside(folder) == ["metadata.json"]
    (folder / "metadata.json").unlink()
    healed(tmp_path, backend, "folder.no_metadata")


def test_metadata_of_another_key(tmp_path: Path) -> None:
    _, folder = paused_task(tmp_path, "files")
    path = folder / "metadata.json"
    fields = fields_in(path.read_bytes())
    assert fields is not None
    path.write_bytes(stamped({**fields, "task_key": {**fields["task_key"], "task_id": "28"}}))
    healed(tmp_path, "files", "folder.other_key")
    assert b'"27"' in path.read_bytes()


# ---- catalogue and folders -----------------------------------------------------------------------------------------


def test_a_moved_folder_goes_back(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    (tmp_path / "completed").mkdir(mode=0o700)
    folder.rename(tmp_path / "completed" / uuid)
    healed(tmp_path, backend, "catalogue.misplaced")
    assert folder.is_dir()


def test_of_two_folders_the_longer_one_stays(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    (tmp_path / "completed").mkdir(mode=0o700)
    shutil.copytree(folder, tmp_path / "completed" / uuid)
    for number in (13, 12, 11):
        edit_record(folder, "messages", number, lambda line: None)
    (found,) = examine(OpenBase(tmp_path, settings_for(backend)))
    assert (found.check, found.detail) == ("catalogue", "two_folders")
    done = kinds(repair(OpenBase(tmp_path, settings_for(backend))))
    assert sorted(done) == ["catalogue.misplaced done", "catalogue.two_folders done"]
    assert examine(OpenBase(tmp_path, settings_for(backend))) == []
    assert aside(tmp_path) == [f"{uuid}.paused"]
    goes_on(tmp_path, uuid, backend)


def test_a_folder_without_a_row_gets_one(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    _execute(tmp_path, "DELETE FROM tasks WHERE uuid = ?", uuid)
    healed(tmp_path, backend, "catalogue.no_row")
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        row = catalogue.tasks.get(uuid)
    assert (row.key, row.status, row.backend) == (KEY, TaskStatus.PAUSED, backend)
    assert (row.total_messages, row.total_summaries, row.total_tool_calls, row.compression_count) == (13, 3, 1, 2)
    goes_on(tmp_path, uuid, backend)


def test_a_folder_that_tells_nothing_still_gets_a_row(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    _execute(tmp_path, "DELETE FROM tasks WHERE uuid = ?", uuid)
    (folder / "metadata.json").write_bytes(b'{"uuid": 1, "created_at": "yesterday"}')
    edit_record(folder, "messages", 13, lambda line: line.replace(b"seq", b"SEQ") if backend == "files" else line)
    done = {finding.kind: finding.repair for finding in repair(OpenBase(tmp_path, settings_for(backend)))}
    assert (done[("catalogue", "no_row")], done[("folder", "metadata")]) == ("done", "done")
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        row = catalogue.tasks.get(uuid)
    assert (row.task_source, row.task_id) == ("unknown", uuid)
    assert row.total_messages == (0 if backend == "files" else 13), "a damaged log gives no figures"


def test_a_row_without_a_folder_is_marked(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-backup"
    shutil.copytree(folder, elsewhere)
    shutil.rmtree(folder)
    healed(tmp_path, backend, "catalogue.no_folder")
    assert status_of(tmp_path, uuid) is TaskStatus.FAILED
    (tmp_path / "completed").mkdir(mode=0o700)
    shutil.copytree(elsewhere, tmp_path / "completed" / uuid)
    healed(tmp_path, backend, "catalogue.found_again")


def test_a_task_that_died_before_it_had_a_folder_is_no_finding(tmp_path: Path) -> None:
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        catalogue.tasks.register(KEY, "task-1", status=TaskStatus.RUNNING)
        catalogue.tasks.register(KEY, "task-2", status=TaskStatus.QUEUED)
    assert examine(OpenBase(tmp_path, settings_for("files"))) == []


def test_without_a_catalogue_it_is_made_from_the_folders(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    done = start_task(tmp_path, backend)
    done.complete()
    done.catalogue.close()
    for path in tmp_path.glob("tasks.db*"):
        path.unlink()
    settings = settings_for(backend)
    assert kinds(examine(OpenBase(tmp_path, settings))) == ["catalogue.missing possible"]
    assert not (tmp_path / "tasks.db").exists()
    assert kinds(repair(OpenBase(tmp_path, settings))) == ["catalogue.missing done", *["catalogue.no_row done"] * 2]
    assert examine(OpenBase(tmp_path, settings)) == []
    assert status_of(tmp_path, done.uuid) is TaskStatus.COMPLETED
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        (previous,) = catalogue.tasks.previous(KEY)
        assert (previous.uuid, catalogue.statistics.check_rollups()) == (done.uuid, [])
    goes_on(tmp_path, uuid, backend)


def test_a_catalogue_of_rubbish_is_kept_and_replaced(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    (tmp_path / "tasks.db").write_bytes(b"rubbish" * 1000)
    settings = settings_for(backend)
    assert kinds(examine(OpenBase(tmp_path, settings))) == ["catalogue.damaged possible"]
    assert kinds(repair(OpenBase(tmp_path, settings))) == ["catalogue.damaged done", "catalogue.no_row done"]
    assert examine(OpenBase(tmp_path, settings)) == []
    (kept,) = (tmp_path / "aside").glob("tasks.db.????????")
    assert kept.read_bytes() == b"rubbish" * 1000
    goes_on(tmp_path, uuid, backend)


def test_rows_that_can_be_read_outlive_a_damaged_catalogue(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        catalogue.tasks.register(TaskKey("local", "", "", "task", "2"), "only-a-row", status=TaskStatus.QUEUED)
    _break_page(tmp_path / "tasks.db", "tasks_by_key")
    settings = settings_for("files")
    assert kinds(repair(OpenBase(tmp_path, settings))) == ["catalogue.damaged done"]
    assert examine(OpenBase(tmp_path, settings)) == []
    assert status_of(tmp_path, "only-a-row") is TaskStatus.QUEUED
    assert status_of(tmp_path, uuid) is TaskStatus.PAUSED


def test_names_of_erased_tasks_stay_buried_when_the_catalogue_is_made_anew(tmp_path: Path) -> None:
    paused_task(tmp_path, "files")
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        catalogue.tombstones.bury("gone-1", erased_by="law")
        stones = catalogue.tombstones.all()
    _break_page(tmp_path / "tasks.db", "tasks_by_key")
    assert kinds(repair(OpenBase(tmp_path, settings_for("files")))) == ["catalogue.damaged done"]
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        assert catalogue.tombstones.all() == stones != []


def test_a_row_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    _execute(tmp_path, "UPDATE tasks SET status = 'asleep'")
    done = kinds(repair(OpenBase(tmp_path, settings_for("files"))))
    assert done == ["catalogue.damaged done", "catalogue.no_row done"]
    assert status_of(tmp_path, uuid) is TaskStatus.PAUSED


def test_a_damaged_catalogue_in_use_is_left_alone(tmp_path: Path) -> None:
    task = start_task(tmp_path, "files")
    task.catalogue.close()
    _break_page(tmp_path / "tasks.db", "tasks_by_key")
    (finding,) = repair(OpenBase(tmp_path, task.settings))
    assert (finding.kind, finding.repair) == (("catalogue", "damaged"), "failed")
    assert task.uuid in finding.note
    assert not (tmp_path / "aside").exists()
    task.close()


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "tasks.db"))) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    with refused(DamagedStore, "foreign"):
        repair(OpenBase(tmp_path, settings_for("files")))


def test_wrong_sums_are_added_up_again(tmp_path: Path) -> None:
    paused_task(tmp_path, "files")
    _execute(tmp_path, "UPDATE rollups SET messages = 1")
    healed(tmp_path, "files", "catalogue.rollups")


def test_a_catalogue_from_an_older_backup_catches_up(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    for _ in range(3):
        task = TaskContextManager.resume(tmp_path, uuid, settings_for(backend))
        task.planning_store.add_plan("revision", "the same")
        task.stop()
    _execute(tmp_path, "UPDATE tasks SET epoch = 1 WHERE uuid = ?", uuid)
    healed(tmp_path, backend, "catalogue.epoch")
    goes_on(tmp_path, uuid, backend)


# ---- owners --------------------------------------------------------------------------------------------------------


def test_a_dead_owners_lease_is_released(tmp_path: Path, backend: str) -> None:
    uuid = killed_task(tmp_path, backend)
    healed(tmp_path, backend, "catalogue.lease")
    assert status_of(tmp_path, uuid) is TaskStatus.RUNNING
    goes_on(tmp_path, uuid, backend)


def test_a_live_task_is_not_touched(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    (task.context_dir / "metadata.json").write_bytes(b"{")
    (task.context_dir / "request.json").write_bytes(b"{}")
    (task.context_dir / "request.json").chmod(0o600)
    assert kinds(examine(OpenBase(tmp_path, task.settings))) == ["folder.metadata none"]
    (finding,) = repair(OpenBase(tmp_path, task.settings))
    assert (finding.repair, finding.detail) == ("failed", "metadata")
    assert task.uuid in finding.note
    assert not (task.context_dir / "aside").exists()
    task.message_store.add_message("user", "still mine")
    task.close()


def test_a_live_writer_is_not_disturbed_when_the_catalogue_is_lost(tmp_path: Path) -> None:
    task = start_task(tmp_path, "files")
    task.catalogue.close()
    for path in tmp_path.glob("tasks.db*"):
        path.unlink()
    outcome = {finding.detail: finding for finding in repair(OpenBase(tmp_path, task.settings))}
    assert outcome["no_row"].repair == "failed"
    assert str(os.getpid()) in outcome["no_row"].note
    assert task.message_store.add_message("user", "still mine") == 14
    task.close()


# ---- for a person --------------------------------------------------------------------------------------------------


def test_lost_history_is_not_glossed_over(tmp_path: Path, backend: str) -> None:
    _, folder = paused_task(tmp_path, backend)
    edit_record(folder, "messages", 5, with_fields(content="another text"))
    edit_record(folder, "messages", 8, lambda line: None)
    settings = settings_for(backend)
    findings = examine(OpenBase(tmp_path, settings))
    assert {("log", "digest"), ("stream", "line")} <= {finding.kind for finding in findings}
    assert {finding.repair for finding in findings} == {"none"}
    before = _everything(tmp_path)
    assert kinds(repair(OpenBase(tmp_path, settings))) == kinds(findings)
    assert _everything(tmp_path) == before


def test_what_only_the_view_remembers_is_not_thrown_away(tmp_path: Path) -> None:
    _, folder = paused_task(tmp_path, "files")
    lines = (folder / "messages.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "messages.jsonl").write_bytes(b"".join(lines[:-2]))
    before = (folder / "current.jsonl").read_bytes()
    kept = {finding.kind: finding.repair for finding in repair(OpenBase(tmp_path, settings_for("files")))}
    assert kept[("view", "unknown_lines")] == "done"
    assert kept[("catalogue", "lost_messages")] == "none"
    (copy,) = (folder / "aside").iterdir()
    assert copy.read_bytes() == before


def test_a_folder_that_cannot_be_a_task_is_named(tmp_path: Path) -> None:
    paused_task(tmp_path, "files")
    (tmp_path / "paused" / "my notes\n").mkdir(mode=0o700)
    (finding,) = repair(OpenBase(tmp_path, settings_for("files")))
    assert (finding.kind, finding.repair, finding.where) == (("base", "foreign"), "none", "paused/my notes\\n")


def test_one_unreadable_task_does_not_hide_the_others(tmp_path: Path) -> None:
    first, folder = paused_task(tmp_path, "sqlite")
    second, other = paused_task(tmp_path, "files")
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        connection.execute("PRAGMA user_version = 99")
    tear(other)
    findings = {finding.task: finding.kind for finding in examine(OpenBase(tmp_path, settings_for("files")))}
    assert findings == {first: ("folder", "unreachable"), second: ("stream", "torn")}


@pytest.mark.parametrize("name", ["messages.jsonl", "tools.jsonl"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name, 0o600)
    (finding,) = examine(OpenBase(tmp_path, settings_for("files")))
    assert (finding.task, finding.kind) == (uuid, ("folder", "unreachable"))
    assert name in str(finding.fields["why"])


def test_progress_is_told(tmp_path: Path) -> None:
    paused_task(tmp_path, "files")
    paused_task(tmp_path, "files")
    steps: list[tuple[int, int]] = []
    examine(OpenBase(tmp_path, settings_for("files")), lambda done, of: steps.append((done, of)))
    assert steps == [(1, 2), (2, 2)]


def _execute(base: Path, statement: str, *values: str) -> None:
    with closing(apsw.Connection(str(base / "tasks.db"))) as connection:
        connection.execute(statement, values)


def _break_page(path: Path, table: str) -> None:
    """Spoil the page where a table or index of the database begins."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
        size = connection.execute("PRAGMA page_size").get
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(whole)


@pytest.mark.parametrize("page", ["docs/cli.md", "docs/ja/cli.md"])
def test_every_kind_of_finding_is_documented(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+\.\w+)` \|.*\| (.*)\|$", text, re.MULTILINE))
    known = tomllib.loads(files("orihon.texts").joinpath("en", "tasks.toml").read_text(encoding="utf-8"))["findings"]
    assert rows.keys() == {f"{check}.{detail}" for check, details in known.items() for detail in details}
    assert {kind for kind, repaired in rows.items() if repaired.strip()} == {".".join(kind) for kind in REPAIRS}
