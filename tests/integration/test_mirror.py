"""A live task mirrored to an object storage: another machine goes on with it, and the first one is refused."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from orihon import S3MessageStore, TaskContextManager, archive_task, fetch_mirror
from orihon.drivers.objects import FolderStorage, ObjectInfo, ObjectStorage
from orihon.errors import DamagedStore, InvalidId, StaleWriter, StorageUnavailable
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.tasks.mirror import Mirror
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskKey, TaskStatus
from orihon.values.view import PlannedFold
from tests.conformance.child import ROOT
from tests.damage import BACKENDS
from tests.helpers import Child, logged, refused
from tests.integration.object_server import Bucket

KEY = TaskKey("github", "owner", "repo", "issue", "27")


@pytest.fixture(params=["file", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The section ``archive`` for each kind of storage."""
    if request.param == "file":
        return {"url": f"file://{tmp_path}/shelf", "mirror_every": 4}
    bucket: Bucket = request.getfixturevalue("bucket")
    return {**bucket.archive, "mirror_every": 4}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(archive: dict[str, Any], backend: str) -> dict[str, Any]:
    return {"archive": archive, "context_storage": {"backend": backend}}


def taken_over(base: Path, uuid: str, config: dict[str, Any]) -> TaskContextManager:
    """What a machine without the task's folder does."""
    assert fetch_mirror(load_settings(config), uuid, base / "running" / uuid)
    return TaskContextManager(base, KEY, config, uuid=uuid)


def talk(task: TaskContextManager, first: int, last: int) -> None:
    for number in range(first, last + 1):
        task.message_store.add_message("user" if number % 2 else "assistant", f"message {number}")


# ---- another machine -----------------------------------------------------------------------------------------------


def test_another_machine_goes_on_at_exactly_the_view_of_a_paused_task(tmp_path: Path, config: dict[str, Any]) -> None:
    one = TaskContextManager(tmp_path / "one", KEY, config)
    one.message_store.add_message("system", "be brief")
    talk(one, 1, 11)
    one.message_store.add_message("user", "large " + "x" * (2 << 20))  # lies in a blob
    one.message_store.folding.compress([PlannedFold(3, 8, "what was said")])
    one.message_store.folding.pin(10)
    one.tool_store.add_tool_call("t", {"a": 1}, "result", duration_ms=3)
    one.planning_store.add_plan("plan", {"steps": [1, 2]})
    view, tokens = one.message_store.get_messages_for_llm(), one.message_store.get_current_token_count()
    one.stop()
    two = taken_over(tmp_path / "two", one.uuid, config)
    assert two.message_store.get_messages_for_llm() == view
    assert two.message_store.get_current_token_count() == tokens
    assert [stored.message.content for stored in two.message_store.get_messages(2, 3)] == ["message 1", "message 2"]
    assert two.tool_store.count_tool_calls() == 1
    assert two.planning_store.get_latest_plan() is not None
    two.message_store.folding.undo()
    two.message_store.add_message("assistant", "going on")
    two.complete()
    assert verify(OpenBase(tmp_path / "two", load_settings(config)), one.uuid) == []


def test_what_a_lost_machine_had_mirrored_is_there_and_it_is_refused_when_it_comes_back(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    one = TaskContextManager(tmp_path / "one", KEY, config)
    talk(one, 1, 10)  # mirrored after 4 and after 8
    two = taken_over(tmp_path / "two", one.uuid, config)
    assert two.message_store.count_messages() == 8
    talk(two, 9, 9)
    two.message_store.add_message("assistant", "two goes on")
    mirror = Mirror(ObjectStorage.of(load_settings(config)), one.uuid)
    before = mirror.manifest()
    assert before is not None
    assert before.epoch > one.lease.epoch
    with refused(StaleWriter, "mirror"):
        talk(one, 11, 20)
    with refused(StaleWriter, "mirror"):  # and again, before anything is stored
        one.message_store.add_message("user", "still here?")
    count = one.message_store.count_messages()
    one.stop()
    assert count == 12
    assert mirror.manifest() == before, "nothing of the newer mirror was overwritten"
    two.complete()
    three = tmp_path / "three"
    assert fetch_mirror(load_settings(config), one.uuid, three / "running" / one.uuid)
    with TaskContextManager(three, KEY, config, uuid=one.uuid) as last:
        assert [message["content"] for message in last.message_store.get_messages_for_llm()][-2:] == [
            "message 9",
            "two goes on",
        ]


def test_a_killed_machine_loses_only_what_came_after_its_last_mirror(tmp_path: Path, config: dict[str, Any]) -> None:
    program = """
import json, sys
from orihon import TaskContextManager
from orihon.values.task import TaskKey
task = TaskContextManager(sys.argv[1], TaskKey("github", "owner", "repo", "issue", "27"), json.loads(sys.argv[2]))
for number in range(1, 8):
    task.message_store.add_message("user", f"message {number}")
print(task.uuid, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "one"), json.dumps(config)]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as machine:
        assert machine.stdout is not None
        uuid = machine.stdout.readline().strip()
        machine.send_signal(signal.SIGKILL)
    two = taken_over(tmp_path / "two", uuid, config)
    said = [message["content"] for message in two.message_store.get_messages_for_llm()]
    assert said == [f"message {number}" for number in range(1, 5)]
    talk(two, 5, 9)
    two.complete()
    assert verify(OpenBase(tmp_path / "two", load_settings(config)), uuid) == []


def test_a_machine_that_gets_its_own_task_back_goes_on_from_the_newer_history(
    tmp_path: Path, archive: dict[str, Any]
) -> None:
    config = {"archive": archive}
    one = TaskContextManager(tmp_path / "one", KEY, config)
    talk(one, 1, 6)
    one.close()
    two = taken_over(tmp_path / "two", one.uuid, config)
    talk(two, 7, 12)
    two.close()
    back = tmp_path / "back"
    three = taken_over(back, one.uuid, config)
    assert three.message_store.count_messages() == 12
    three.complete()


def test_a_history_that_has_parted_from_the_mirror_replaces_it(tmp_path: Path) -> None:
    """The catalogue has given the task back to a machine whose folder the mirror does not continue."""
    storage = FolderStorage(tmp_path / "shelf")
    folder, other = tmp_path / "folder", tmp_path / "other"
    for place, text in ((folder, b"mine"), (other, b"theirs, and longer")):
        place.mkdir()
        (place / "messages.jsonl").write_bytes(b'{"seq":1}\n' + text + b"\n")
    Mirror(storage, "task").write(other, 2)
    Mirror(storage, "task").write(folder, 3)
    Mirror(storage, "task").fetch(tmp_path / "out")
    assert (tmp_path / "out" / "messages.jsonl").read_bytes() == (folder / "messages.jsonl").read_bytes()


def test_of_two_machines_that_take_over_at_once_the_second_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    one = TaskContextManager(tmp_path / "one", KEY, config)
    talk(one, 1, 5)
    settings = load_settings(config)
    for name in ("two", "three"):  # both before either has begun
        assert fetch_mirror(settings, one.uuid, tmp_path / name / "running" / one.uuid)
    two = TaskContextManager(tmp_path / "two", KEY, config, uuid=one.uuid)
    with refused(StaleWriter, "mirror"):
        TaskContextManager(tmp_path / "three", KEY, config, uuid=one.uuid)
    two.complete()
    one.close()


def test_an_archived_task_has_no_mirror_any_more(tmp_path: Path, config: dict[str, Any]) -> None:
    with TaskContextManager(tmp_path / "one", KEY, config) as one:
        talk(one, 1, 9)
    settings = load_settings(config)
    storage = ObjectStorage.of(settings)
    assert list(storage.names(f"mirror/{one.uuid}"))
    archive_task(tmp_path / "one", one.uuid, settings)
    assert list(storage.names(f"mirror/{one.uuid}")) == []
    assert not fetch_mirror(settings, one.uuid, tmp_path / "two")


def test_without_the_settings_nothing_is_mirrored(tmp_path: Path) -> None:
    for archive in ({"url": f"file://{tmp_path}/shelf"}, {"mirror_every": 2}):
        with TaskContextManager(tmp_path / "one", KEY, {"archive": archive}) as one:
            talk(one, 1, 4)
    assert not (tmp_path / "shelf").exists()
    assert not fetch_mirror(load_settings({}), one.uuid, tmp_path / "two")


# ---- the storage says no -------------------------------------------------------------------------------------------


def test_a_storage_that_is_away_fails_no_append_and_is_caught_up_with(
    tmp_path: Path, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "archive": {"url": f"file://{tmp_path}/shelf/deep", "mirror_every": 3},
        "context_storage": {"backend": backend},
    }
    (tmp_path / "shelf").write_text("a file where the storage should be")
    with caplog.at_level(logging.WARNING, "orihon.mirror"):
        one = TaskContextManager(tmp_path / "one", KEY, config)
        talk(one, 1, 7)
    assert one.message_store.count_messages() == 7
    assert len(logged(caplog, "orihon.mirror")) == 3, "at the start, after 3 and after 6"
    (tmp_path / "shelf").unlink()
    talk(one, 8, 9)
    two = taken_over(tmp_path / "two", one.uuid, config)
    assert two.message_store.count_messages() == 9
    two.close()
    one.close()


def test_a_pause_that_could_not_be_mirrored_is_told_and_is_a_pause(
    tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"archive": {"url": bucket.url, "endpoint": "http://127.0.0.1:9", "mirror_every": 100}}
    one = TaskContextManager(tmp_path / "one", KEY, config)
    talk(one, 1, 3)
    with caplog.at_level(logging.ERROR, "orihon.mirror"):
        one.stop()
    (told,) = [record for record in logged(caplog, "orihon.mirror") if record.levelname == "ERROR"]
    assert "the last messages are not mirrored" in told.getMessage()
    assert one.catalogue.tasks.get(one.uuid).status is TaskStatus.PAUSED
    resumed = TaskContextManager.resume(tmp_path / "one", one.uuid, {"archive": {**bucket.archive, "mirror_every": 1}})
    assert Mirror(ObjectStorage.of(resumed.settings), one.uuid).fetch(tmp_path / "two")
    assert len((tmp_path / "two" / "messages.jsonl").read_text().splitlines()) == 3
    resumed.stop()


class LosesAnswers(FolderStorage):
    """A storage that does what it is asked, and whose answer never arrives."""

    loses = 0

    def replace(self, key: str, data: bytes, etag: str | None = None) -> ObjectInfo:
        info = super().replace(key, data, etag)
        if self.loses:
            self.loses -= 1
            raise StorageUnavailable("object_unreachable", key=key, place=self.place, detail="no answer")
        return info


def test_a_manifest_whose_answer_was_lost_keeps_its_segments(tmp_path: Path) -> None:
    storage, folder = LosesAnswers(tmp_path / "shelf"), tmp_path / "folder"
    folder.mkdir()
    mirror = Mirror(storage, "task")
    for number in range(1, 6):
        with (folder / "messages.jsonl").open("a") as file:
            file.write(f'{{"seq":{number}}}\n')
        storage.loses = number % 2
        if number in (3, 5):
            with refused(StorageUnavailable, "object_unreachable"):
                mirror.write(folder, 1)
        else:
            mirror.write(folder, 1)
        assert Mirror(storage, "task").fetch(tmp_path / f"out{number}")
        assert (tmp_path / f"out{number}" / "messages.jsonl").read_text() == (folder / "messages.jsonl").read_text()


# ---- cost ----------------------------------------------------------------------------------------------------------


class Counting(FolderStorage):
    """A storage that knows how much was sent to it."""

    sent = 0
    calls = 0

    def create(self, key: str, source: Path | bytes) -> ObjectInfo:
        info = super().create(key, source)
        self.sent += info.size
        self.calls += 1
        return info

    def replace(self, key: str, data: bytes, etag: str | None = None) -> ObjectInfo:
        self.sent += len(data)
        return super().replace(key, data, etag)


def test_the_cost_follows_what_is_new(tmp_path: Path) -> None:
    storage, folder = Counting(tmp_path / "shelf"), tmp_path / "folder"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / "b").write_bytes(os.urandom(5 << 20))
    (folder / "messages.jsonl").write_bytes(b"x" * 100_000_00 + b"\n")  # a long history
    mirror = Mirror(storage, "task")
    mirror.write(folder, 1)
    assert storage.sent > 15_000_000
    storage.sent = 0
    lines = 0
    for number in range(200):
        line = b"%06d" % number + b"y" * 2000 + b"\n"
        with (folder / "messages.jsonl").open("ab") as file:
            file.write(line)
        lines += len(line)
        manifest = mirror.write(folder, 1)
    assert storage.sent < 12 * lines, "each byte goes up as often as its segment doubles"
    assert len(manifest.files["messages.jsonl"]) <= 12
    storage.sent = storage.calls = 0
    assert mirror.write(folder, 1) == manifest, "nothing is new: nothing is sent"
    Mirror(storage, "task").write(folder, 2)
    assert storage.calls == 0, "a new owner sends its manifest, no file"
    assert storage.sent < 10_000
    assert len(list(storage.names("mirror/task"))) == len(list(manifest.segments())) + 1, "no segment is left over"


def test_of_a_database_only_the_changed_blocks_go_up(tmp_path: Path) -> None:
    storage = Counting(tmp_path / "shelf")
    config = {"context_storage": {"backend": "sqlite"}}
    with TaskContextManager(tmp_path / "one", KEY, config) as task:
        for number in range(40):
            task.message_store.add_message("user", hashlib.sha256(b"%d" % number).hexdigest() * 3000)
        mirror = Mirror(storage, "task")
        mirror.write(task.context_dir, 1)
        first, storage.sent = storage.sent, 0
        task.message_store.add_message("user", "one more")
        mirror.write(task.context_dir, 1)
    assert first > 7_000_000
    assert storage.sent < 4_500_000


# ---- building a folder ---------------------------------------------------------------------------------------------


@pytest.fixture
def mirrored(tmp_path: Path) -> FolderStorage:
    storage, folder = FolderStorage(tmp_path / "shelf"), tmp_path / "folder"
    folder.mkdir()
    (folder / "messages.jsonl").write_bytes(b'{"seq":1}\n{"seq":2}\n{"seq":3')
    (folder / "metadata.json").write_bytes(b"{}")
    (folder / "mask.key").write_bytes(b"secret")
    (folder / "request.json").write_bytes(b"{}")
    (folder / ".metadata.json.abcd").write_bytes(b"half")
    (folder / "link").symlink_to("/etc/passwd")
    Mirror(storage, "task").write(folder, 1)
    return storage


def test_what_is_mirrored_is_whole_lines_and_nothing_secret(mirrored: FolderStorage, tmp_path: Path) -> None:
    assert Mirror(mirrored, "task").fetch(tmp_path / "out")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"messages.jsonl": b'{"seq":1}\n{"seq":2}\n', "metadata.json": b"{}"}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    with refused(StorageUnavailable, "folder_exists"):
        Mirror(mirrored, "task").fetch(tmp_path / "out")


def test_a_mirror_is_fetched_whole_or_not_at_all(mirrored: FolderStorage, tmp_path: Path) -> None:
    mirror = Mirror(mirrored, "task")
    manifest = mirror.manifest()
    assert manifest is not None
    segment = manifest.files["messages.jsonl"][0]
    path = mirrored.root / segment.key
    sound = path.read_bytes()
    for damaged in (sound[:-1], sound + b"x", sound.replace(b"1", b"7")):
        path.write_bytes(damaged)
        with refused(DamagedStore, "mirror"):
            mirror.fetch(tmp_path / "out")
    path.unlink()
    with refused(DamagedStore, "mirror"):
        mirror.fetch(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../x": []}},
        {"files": {"/x": []}},
        {"files": {"a": [{"key": "mirror/other/x", "size": 1, "sha256": ""}]}},
        {"files": {"a": [{"key": "mirror/task/../x", "size": 1, "sha256": ""}]}},
        {"files": {"a": [{"key": "mirror/task/x", "size": -1, "sha256": ""}]}},
        {"files": []},
        {"name": "other"},
        {"version": 2},
        {"epoch": "x"},
    ],
)
def test_a_hostile_manifest_is_refused(mirrored: FolderStorage, tmp_path: Path, change: dict[str, Any]) -> None:
    path = mirrored.root / "mirror" / "task" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with refused(DamagedStore, "mirror"):
        Mirror(mirrored, "task").fetch(tmp_path / "out")
    with refused(DamagedStore, "mirror"):
        Mirror(mirrored, "task").write(tmp_path / "folder", 9)
    assert not (tmp_path / "out").exists()


def test_fetching_while_the_owner_writes_gives_a_whole_folder(tmp_path: Path) -> None:
    storage, folder = FolderStorage(tmp_path / "shelf"), tmp_path / "folder"
    folder.mkdir()
    ended = threading.Event()

    def write() -> None:
        mirror = Mirror(storage, "task")
        try:
            for number in range(1, 150):
                with (folder / "messages.jsonl").open("a") as file:
                    file.write(f'{{"seq":{number}}}\n')
                mirror.write(folder, 1)
        finally:
            ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    fetched = 0
    while not ended.is_set() or not fetched:
        target = tmp_path / f"out{fetched}"
        try:
            if not Mirror(storage, "task").fetch(target):
                continue
        except StorageUnavailable as error:
            if error.reason != "object_changed":  # the owner was quicker several times in a row
                raise
            continue
        lines = (target / "messages.jsonl").read_text().splitlines()
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
        fetched += 1
    writer.join(300)
    assert fetched


# ---- S3MessageStore ------------------------------------------------------------------------------------------------


def test_a_store_in_a_bucket_goes_on_elsewhere(tmp_path: Path, bucket: Bucket, backend: str) -> None:
    one = S3MessageStore(
        bucket.name, "github/o/r.x/issue_27", endpoint=bucket.endpoint, local_dir=tmp_path / "one", backend=backend
    )
    for number in range(1, 14):
        assert one.add_message("user", f"message {number}", origin="test") == number
    assert one.object_key == "contexts/github/o/r.x/issue_27/manifest.json"
    two = S3MessageStore(
        bucket.name, "github/o/r.x/issue_27", endpoint=bucket.endpoint, local_dir=tmp_path / "two", backend=backend
    )
    assert two.count_messages() == 10, "it is mirrored after every ten messages"
    two.add_message("user", "from two")
    with refused(StaleWriter, "mirror"):
        for number in range(14, 30):
            one.add_message("user", f"message {number}")
    one.close()
    two.close()
    back = S3MessageStore(
        bucket.name, "github/o/r.x/issue_27", endpoint=bucket.endpoint, local_dir=tmp_path / "one", backend=backend
    )
    assert [message["content"] for message in back.get_messages_for_llm()][-2:] == ["message 10", "from two"]
    (aside,) = tmp_path.glob("one.*.aside")
    assert aside.is_dir(), "what was added on the stale machine is kept"
    back.add_message("user", "from one")
    back.close()
    again = S3MessageStore(
        bucket.name, "github/o/r.x/issue_27", endpoint=bucket.endpoint, local_dir=tmp_path / "one", backend=backend
    )
    assert again.count_messages() == 12
    assert len(list(tmp_path.glob("one.*.aside"))) == 1, "its own folder was the newest"
    again.close()


def test_a_store_in_a_folder_takes_the_keywords_of_its_parent(tmp_path: Path) -> None:
    store = S3MessageStore(
        f"file://{tmp_path}/shelf",
        "task",
        {"context_storage": {"base_dir": str(tmp_path / "base")}},
        mirror_every=2,
        context_length=1234,
    )
    assert store.context_length == 1234
    assert store.local_cache == tmp_path / "base" / "mirrored" / "task"
    store.add_message("user", "a")
    store.add_message("user", "b")
    Mirror(FolderStorage(tmp_path / "shelf"), "task", "contexts").fetch(tmp_path / "out")
    assert len((tmp_path / "out" / "messages.jsonl").read_text().splitlines()) == 2
    store.close()


@pytest.mark.parametrize("key", ["../x", "/x", "a//b", "", ".x", "a/../b", "a b"])
def test_a_task_key_that_leads_elsewhere_is_refused(tmp_path: Path, key: str) -> None:
    with refused(InvalidId, "unsafe"):
        S3MessageStore(f"file://{tmp_path}/shelf", key, local_dir=tmp_path / "local")
