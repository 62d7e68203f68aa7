"""A task goes out with ``orihon export`` and comes back the same; an export that was tampered with does not."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orihon import export_task, import_transcripts
from orihon.catalogue.connect import open_catalogue
from orihon.importers.report import ImportReport
from orihon.settings import Settings, load_settings
from orihon.store.copy import contents_of
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.place import folders_of
from orihon.transfer.staging import unfinished_in_database
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskStatus
from tests.damage import BACKENDS, KEY, paused_task, settings_for, start_task
from tests.helpers import SomeSteps
from tests.integration.killing import count_changes, ended, killed_at_change
from tests.services import Database


def contents(base: Path, uuid: str, settings: Settings) -> Any:
    folder = folders_of(base, settings).find(uuid)
    assert folder is not None
    with closing(open_for_reading(folder.folder, settings, name=uuid)) as store:
        found = contents_of(store)
    return (
        found.streams,
        found.blobs,
        found.view,
        {name: one for name, one in found.files.items() if "metadata" not in name},
    )


def exported(base: Path, uuid: str, settings: Settings, to: Path) -> Path:
    export_task(base, uuid, settings, "jsonl", to)
    return to


def bring(base: Path, path: Path, settings: Settings, **options: Any) -> ImportReport:
    return import_transcripts(base, settings, [path], **options)


@pytest.mark.parametrize("there", BACKENDS)
@pytest.mark.parametrize("here", BACKENDS)
def test_the_identical_task_comes_back(tmp_path: Path, here: str, there: str) -> None:
    ours, theirs = settings_for(here), settings_for(there)
    uuid, _ = paused_task(tmp_path / "here", here)
    first = exported(tmp_path / "here", uuid, ours, tmp_path / "a.jsonl")
    report = bring(tmp_path / "there", first, theirs)
    assert (report.is_clean, report.new_tasks) == (True, 1)
    assert contents(tmp_path / "there", uuid, theirs) == contents(tmp_path / "here", uuid, ours)
    second = exported(tmp_path / "there", uuid, theirs, tmp_path / "b.jsonl")
    assert records_in(second) == records_in(first)
    assert (metadata_in(second).pop("import")["format"], "import" in metadata_in(first)) == ("orihon", False)
    with open_catalogue(tmp_path / "there", theirs) as catalogue:
        row = catalogue.tasks.get(uuid)
    assert (row.key, row.status, row.total_messages, row.backend) == (KEY, TaskStatus.PAUSED, 13, there)
    assert examine(OpenBase(tmp_path / "there", theirs)) == []
    with TaskContextManager.resume(tmp_path / "there", uuid, theirs) as again:
        again.message_store.add_message("user", "go on")
        again.message_store.folding.undo()


def records_in(export: Path) -> list[bytes]:
    """Everything but who it is about, which says afterwards that it was imported."""
    return [line for line in export.read_bytes().splitlines()[1:] if b'"metadata.json"' not in line]


def metadata_in(export: Path) -> dict[str, Any]:
    (line,) = (line for line in export.read_bytes().splitlines() if line.startswith(b'{"file":"metadata.json"'))
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(line)["base64"]))
    return found


def test_into_a_database_and_out_again(tmp_path: Path, postgres: Database) -> None:
    ours = settings_for("files")
    theirs = load_settings({"context_storage": {"backend": "postgres"}, "database": postgres.settings}, environ={})
    task = start_task(tmp_path / "here", "files")
    task.complete()
    first = exported(tmp_path / "here", task.uuid, ours, tmp_path / "a.jsonl")
    assert bring(tmp_path / "there", first, theirs).new_tasks == 1
    assert contents(tmp_path / "there", task.uuid, theirs) == contents(tmp_path / "here", task.uuid, ours)
    assert bring(tmp_path / "there", first, theirs).new_tasks == 0
    assert examine(OpenBase(tmp_path / "there", theirs)) == []


def test_an_import_into_a_database_that_is_killed_leaves_nothing_that_counts(
    tmp_path: Path, postgres: Database
) -> None:
    theirs = load_settings({"context_storage": {"backend": "postgres"}, "database": postgres.settings}, environ={})
    task = start_task(tmp_path / "here", "files")
    task.complete()
    path = exported(tmp_path / "here", task.uuid, settings_for("files"), tmp_path / "a.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orihon.transfer.staging.StagedRecords.publish", lambda *_: os._exit(9))
        child = os.fork()
        if not child:
            bring(tmp_path / "there", path, theirs)
            os._exit(1)
        assert os.waitstatus_to_exitcode(ended(child)) == 9
    folders = folders_of(tmp_path / "there", theirs)
    assert folders.find(task.uuid) is None
    assert [place.uuid for place in unfinished_in_database(folders)] == [f"{task.uuid}.import"]
    assert [one.uuid for one in bring(tmp_path / "there", path, theirs).tasks] == [task.uuid]
    assert list(unfinished_in_database(folders)) == []
    assert examine(OpenBase(tmp_path / "there", theirs)) == []


def test_a_task_that_is_there_already_comes_not_twice(tmp_path: Path) -> None:
    settings = settings_for("files")
    task = start_task(tmp_path / "here", "files")
    path = exported(tmp_path / "here", task.uuid, settings, tmp_path / "a.jsonl")
    assert bring(tmp_path / "here", path, settings).new_tasks == 0
    task.message_store.add_message("user", "one more")
    later = exported(tmp_path / "here", task.uuid, settings, tmp_path / "b.jsonl")
    assert bring(tmp_path / "there", path, settings).new_tasks == 1
    other = bring(tmp_path / "there", later, settings)  # the UUID is taken, by an earlier state of it
    assert other.new_tasks == 1
    assert other.tasks[0].uuid != task.uuid
    assert bring(tmp_path / "there", later, settings).new_tasks == 0
    os.utime(later)
    assert bring(tmp_path / "there", later, settings).new_tasks == 0
    assert examine(OpenBase(tmp_path / "there", settings)) == []


def test_many_tasks_in_one_file_and_one_of_them_damaged(tmp_path: Path) -> None:
    settings = settings_for("files")
    lines = []
    for name in ("one", "two", "three"):
        paused_task(tmp_path / "here", "files", uuid=name)
        lines.append(exported(tmp_path / "here", name, settings, tmp_path / f"{name}.jsonl").read_bytes().splitlines())
    lines[1][4] = lines[1][4].replace(b"Step", b"Stop")
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"\n".join(line for task in lines for line in task) + b"\n")
    report = bring(tmp_path / "there", path, settings)
    assert [task.uuid for task in report.tasks] == ["one", "three"]
    assert [problem.cause for problem in report.problems] == ["export_incomplete"]
    assert sorted(path.name for path in (tmp_path / "there" / "paused").iterdir()) == ["one", "three"]


def _without_last(lines: list[Any]) -> None:
    lines.pop()


def _other_text(lines: list[Any]) -> None:
    next(line for line in lines if line.get("stream") == "messages")["record"]["content"] = "other words"


def _gap(lines: list[Any]) -> None:
    del lines[next(number for number, line in enumerate(lines) if line.get("stream") == "messages")]


def _file(name: str) -> Callable[[list[Any]], None]:
    def add(lines: list[Any]) -> None:
        lines.insert(1, {"file": name, "base64": base64.b64encode(b"x").decode()})
        lines[0]["contents"]["files"] += 1

    return add


def _blob(lines: list[Any]) -> None:
    next(line for line in lines if "blob" in line)["base64"] = base64.b64encode(b"other").decode()


def _newer(lines: list[Any]) -> None:
    lines[0]["orihon_export"] = 3


@pytest.mark.parametrize(
    "spoil",
    [
        *(_without_last, _other_text, _gap, _blob, _newer),
        *map(_file, ("../evil", "/etc/evil", "a/../../evil", "messages.jsonl", "blobs/x", "context.db", "..", ".", "")),
    ],
)
def test_an_export_that_was_tampered_with_is_refused(tmp_path: Path, spoil: Callable[[list[Any]], None]) -> None:
    settings = settings_for("files")
    uuid, _ = paused_task(tmp_path / "here", "files")
    path = exported(tmp_path / "here", uuid, settings, tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    spoil(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    report = bring(tmp_path / "there", path, settings)
    assert [problem.cause for problem in report.problems] == [
        "export_version" if spoil is _newer else "export_incomplete"
    ]
    assert report.new_tasks == 0
    assert not list(tmp_path.rglob("*evil*"))
    assert not [file for file in (tmp_path / "there").rglob("*") if uuid in file.name or ".import" in file.name]


def test_lines_that_somebody_wrote_anew(tmp_path: Path) -> None:
    """``jq`` puts spaces in and keeps the meaning."""
    settings = settings_for("files")
    uuid, _ = paused_task(tmp_path / "here", "files")
    path = exported(tmp_path / "here", uuid, settings, tmp_path / "a.jsonl")
    lines = [json.dumps(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert bring(tmp_path / "there", path, settings).is_clean
    assert contents(tmp_path / "there", uuid, settings)[2] == contents(tmp_path / "here", uuid, settings)[2]


def test_a_crash_leaves_the_whole_task_or_nothing(tmp_path: Path, some_steps: SomeSteps) -> None:
    settings = settings_for("files").replace(**{"context_storage.durability": "os"})
    uuid, _ = paused_task(tmp_path / "here", "files")
    path = exported(tmp_path / "here", uuid, settings, tmp_path / "a.jsonl")
    whole = contents(tmp_path / "here", uuid, settings)
    changes = count_changes(lambda: bring(tmp_path / "counted", path, settings))
    for number in some_steps(some_steps(range(1, changes + 1))):
        there = tmp_path / f"killed-{number}"
        killed_at_change(number, lambda there=there: bring(there, path, settings))  # type: ignore[misc]
        assert bring(there, path, settings).is_clean
        assert contents(there, uuid, settings) == whole
        with open_catalogue(there, settings) as catalogue:
            assert catalogue.tasks.get(uuid).total_messages == 13


def test_a_task_becomes_that_of_the_user_who_is_named(tmp_path: Path) -> None:
    settings, there = settings_for("files"), tmp_path / "there"
    uuid, _ = paused_task(tmp_path / "here", "files")
    path = exported(tmp_path / "here", uuid, settings, tmp_path / "a.jsonl")
    assert KEY.user not in ("", "bob", "eve")
    (mine,) = bring(there, path, settings, user="bob").tasks
    assert mine.uuid == uuid
    assert bring(there, path, settings, user="bob").new_tasks == 0
    os.utime(path)
    assert bring(there, path, settings, user="bob").new_tasks == 0
    assert bring(there, path, settings).new_tasks == 0  # nobody is named: it is there, whosever it is
    (another,) = bring(there, path, settings, user="eve").tasks  # one of her own
    os.utime(path)
    assert bring(there, path, settings, user="eve").new_tasks == 0
    with OpenBase(there, settings) as base:
        base.open_catalogue()
        for task, user in ((uuid, "bob"), (another.uuid, "eve")):
            row, place = base.row(task), base.folders.find(task)
            assert row is not None
            assert place is not None
            assert row.key == replace(KEY, user=user)
            assert json.loads((place.folder / "metadata.json").read_bytes())["user"] == user
    assert contents(there, another.uuid, settings) == contents(there, uuid, settings)
    assert examine(OpenBase(there, settings)) == []
