"""A derived file never shuts a task: whatever stands in its place, it is made anew, and the report says so.

Whoever opens the task (a writer, a reader, ``verify``, the doctor) meets no other error than Orihon's, and in the end
none at all.
"""

from __future__ import annotations

import errno
import json
import os
import random
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from orihon import MessageStore
from orihon.catalogue.metadata import is_about, read_metadata
from orihon.errors import StorageUnavailable
from orihon.store.documents import exact_view_tokens
from orihon.store.writer_place import NOBODY, holder_in, line_of
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import verify
from orihon.upkeep.doctor import examine, repair
from tests.damage import KEY, edit_record, paused_task, settings_for, with_fields
from tests.helpers import refused

DERIVED = {
    "files": ("current.jsonl", "index.json", "counts.json", "writer.json", "writer.lock", "metadata.json"),
    "sqlite": ("metadata.json", "current.jsonl"),
}
PLACES = [(backend, name) for backend, names in DERIVED.items() for name in names]
MESSAGES = 13


def random_json(chance: random.Random, depth: int = 0) -> object:
    plain: list[Callable[[], object]] = [
        lambda: None,
        lambda: chance.random() < 0.5,
        lambda: chance.choice([0, -1, 1 << 40, 1 << 70, 0.5, -1e308]),
        lambda: chance.choice(["", "epoch", "\u3042" * 3, "\ud800", "x" * 2000]),
    ]
    names = ["epoch", "pid", "host", "uuid", "task_key", "config", "check", "body", "seq", "role", "content", "user"]
    nested: list[Callable[[], object]] = [
        lambda: [random_json(chance, depth + 1) for _ in range(chance.randrange(4))],
        lambda: {chance.choice(names): random_json(chance, depth + 1) for _ in range(chance.randrange(8))},
    ]
    return chance.choice(nested if depth == 0 else [*plain, *nested] if depth < 3 else plain)()


def spoilt(chance: random.Random, whole: bytes) -> bytes:
    """The file as a bad disk, a power cut or somebody's editor may leave it."""
    ways: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: chance.randbytes(chance.randrange(1, 300)),
        lambda: b"\0" * len(whole),
        lambda: whole[: chance.randrange(len(whole) + 1)],
        lambda: flipped(chance, whole),
        lambda: json.dumps(random_json(chance)).encode() + b"\n" * chance.randrange(2),
        lambda: with_other_value(chance, whole),
        lambda: whole * 3,
        lambda: b"[" * 3000,
    ]
    return chance.choice(ways)()


def flipped(chance: random.Random, whole: bytes) -> bytes:
    if not whole:
        return b"\xff"
    place = chance.randrange(len(whole))
    return whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :]


def with_other_value(chance: random.Random, whole: bytes) -> bytes:
    try:
        said = jsonio.decode(whole.partition(b"\n")[0])
        said[chance.choice(sorted(said))] = random_json(chance, 1)
    except (ValueError, TypeError, IndexError):
        return b"null"
    return json.dumps(said).encode()


def opened_by_all(base: Path, uuid: str, backend: str) -> None:
    """By a reader, by ``verify``, by the doctor who only looks, by a writer, and by the doctor who repairs."""
    settings = settings_for(backend)
    with OpenBase(base, settings) as opened:
        opened.open_catalogue()
        place = opened.folders.find(uuid)
        assert place is not None
        with closing(opened.read_store(place)) as store:
            assert store.tail.seq == MESSAGES
            assert len(list(store.view_messages())) == store.tail.view_entries
            exact_view_tokens(store, "o200k_base")
        verify(opened, uuid)
        examine(opened)
    task = TaskContextManager.resume(base, uuid, settings)
    assert task.message_store.count_messages() == MESSAGES
    view = [json.loads(line) for line in task.message_store.get_current_context_file().read_bytes().splitlines()]
    assert view == task.message_store.get_messages_for_llm()
    task.stop()
    with OpenBase(base, settings) as opened:
        repair(opened)
        assert examine(opened) == []
    with closing(TaskContextManager.resume(base, uuid, settings)) as task:
        assert is_about(read_metadata(task.task_store.records) or {}, uuid)
        task.stop()


@pytest.mark.parametrize(("backend", "name"), PLACES)
def test_whatever_bytes_stand_there(tmp_path: Path, backend: str, name: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    chance = random.Random(f"{backend} {name}")
    for _ in range(5):
        path = folder / name
        path.write_bytes(spoilt(chance, path.read_bytes() if path.exists() else b""))
        path.chmod(0o600)
        opened_by_all(tmp_path, uuid, backend)


@pytest.mark.parametrize(("backend", "name"), PLACES)
@pytest.mark.parametrize(
    "make",
    [Path.mkdir, lambda path: path.symlink_to("/etc/passwd"), lambda path: path.symlink_to(path), os.mkfifo],
    ids=["folder", "link", "loop", "pipe"],
)
def test_something_else_stands_there(tmp_path: Path, backend: str, name: str, make: Callable[[Path], None]) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    opened_by_all(tmp_path, uuid, backend)
    assert list((folder / "aside").iterdir()) or not (folder / name).exists()


def test_an_older_and_longer_view_that_survived_a_power_cut(tmp_path: Path) -> None:
    """A view is renamed without a sync, so an older one may be there afterwards. The log has all that it says."""
    settings = settings_for("files")
    task = TaskContextManager(tmp_path, KEY, settings)
    for number in range(MESSAGES):
        task.message_store.add_message("user", f"message {number}")
    view = task.message_store.get_current_context_file()
    old = view.read_bytes()
    task.message_store.create_summary(1, 4, "what came first")
    task.message_store.create_summary(5, 9, "what came then")
    new = view.read_bytes()
    task.close()
    view.write_bytes(old)
    with OpenBase(tmp_path, settings) as base:
        (finding,) = [found for found in examine(base) if found.check == "view"]
        assert (finding.kind, finding.severity, finding.repair) == (("view", "lines"), "warning", "possible")
    resumed = TaskContextManager.resume(tmp_path, task.uuid, settings)
    assert resumed.message_store.get_current_context_file().read_bytes() == new
    assert resumed.message_store.add_message("user", "goes on") == MESSAGES + 1
    resumed.stop()
    with OpenBase(tmp_path, settings) as base:
        assert examine(base) == []
    assert list(tmp_path.rglob("aside")) == []


def test_the_doctor_names_the_copy_of_a_view_with_other_lines(tmp_path: Path) -> None:
    _, folder = paused_task(tmp_path, "files")
    view = folder / "current.jsonl"
    other = view.read_bytes() + b'{"role":"user","content":"lost"}\n' * 2
    view.write_bytes(other)
    with OpenBase(tmp_path, settings_for("files")) as base:
        (finding,) = repair(base)
        assert (finding.kind, finding.repair) == (("view", "unknown_lines"), "done")
        assert examine(base) == []
    (kept,) = (folder / "aside").iterdir()
    assert kept.read_bytes() == other
    assert f"aside/{kept.name}" in finding.note


def test_the_last_right_copy_of_a_fold_is_never_replaced(tmp_path: Path) -> None:
    _, folder = paused_task(tmp_path, "files")
    view = (folder / "current.jsonl").read_bytes()
    assert b"two steps were done" in view
    line = (folder / "summaries.jsonl").read_bytes()
    (folder / "summaries.jsonl").write_bytes(line.replace(b"two steps were done", b"two steps were DONE"))
    with OpenBase(tmp_path, settings_for("files")) as base:
        repair(base)
        found = [
            path for path in (folder / "current.jsonl", *(folder / "aside").glob("*")) if path.read_bytes() == view
        ]
        assert found, "it is where it was, or aside"


@pytest.mark.parametrize("content", [b"", b"{half", b'{"epoch":1}', line_of({**NOBODY, "epoch": 3})[:-9] + b"7}\n"])
def test_a_new_place_has_no_lower_epoch_than_the_records(tmp_path: Path, content: bytes) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    for number in (11, 12, 13):
        edit_record(folder, "messages", number, with_fields(epoch=7))
    (folder / "current.jsonl").unlink()
    (folder / "writer.json").write_bytes(content)
    task = TaskContextManager.resume(tmp_path, uuid, settings_for("files"))
    holder = holder_in((tmp_path / "running" / uuid / "writer.json").read_bytes())
    assert holder is not None
    assert holder["epoch"] >= 7
    task.stop()


def test_a_line_without_a_check_is_still_read() -> None:
    old = b'{"epoch":3,"host":"h","pid":12,"start":5,"boot":"b","space":"s","token":"t"}\n'
    assert holder_in(old) == {**jsonio.decode(old)}
    new = line_of({**jsonio.decode(old)})
    assert holder_in(new + b"the end of a longer line") == jsonio.decode(new)
    wrong = [new[:place] + bytes([new[place] ^ 1]) + new[place + 1 :] for place in range(len(new) - 1)]
    assert [line for line in wrong if holder_in(line) is not None] == []


@pytest.mark.parametrize("name", ["index", "counts"])
def test_whatever_a_document_of_the_database_says(tmp_path: Path, name: str) -> None:
    uuid, folder = paused_task(tmp_path, "sqlite")
    chance = random.Random(name)
    unfit = {"check": zlib.crc32(b"[1]"), "body": [1]}, {"check": zlib.crc32(b'{"seq":"x"}'), "body": {"seq": "x"}}
    for body in (*(jsonio.encode(document) for document in unfit), *(spoilt(chance, b'{"check":1}') for _ in range(6))):
        with closing(apsw.Connection(str(folder / "context.db"))) as connection:
            connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (name, body))
        opened_by_all(tmp_path, uuid, "sqlite")


def test_the_writers_place_is_written_whole_or_not_the_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is finished; after one that failed nobody is the writer, and the next claim makes the line anew."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, bytes(data[:7]), offset))
    store = MessageStore(tmp_path / "task")
    assert store.add_message("user", "one") == 1
    store.close()
    holder = holder_in((tmp_path / "task" / "writer.json").read_bytes())
    assert holder is not None
    assert (holder["epoch"], holder["pid"]) == (1, 0)

    def failing(fd: int, data: bytes, offset: int) -> int:
        if offset:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pwrite(fd, bytes(data[:30]), offset)

    monkeypatch.setattr(os, "pwrite", failing)
    for _ in range(2):
        with refused(StorageUnavailable, "io"):
            store.add_message("user", "two")
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert store.add_message("user", "two") == 2
    store.close()
    assert (holder_in((tmp_path / "task" / "writer.json").read_bytes()) or {})["epoch"] >= 2
