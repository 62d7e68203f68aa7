"""Disks that fail: half-written files, full and read-only folders, lost permissions, errors from the system.

Each gives one error of the tree, changes nothing that was acknowledged, and the task can be used afterwards.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from orihon.errors import DamagedStore, NewerSchema, StorageUnavailable
from orihon.store import MessageStore
from tests.conformance.backends import BACKENDS, Backend, FilesBackend, SqliteBackend
from tests.conformance.behaviour import add_conversation, texts
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task
from tests.helpers import refused

FILES = FilesBackend()
SQLITE = SqliteBackend()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "task"


@pytest.fixture(params=BACKENDS.values(), ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    given: Backend = request.param
    return given


def filled(backend: Backend, folder: Path) -> list[str | None]:
    """A task with a few messages, closed; what its log says."""
    store = backend.open(folder)
    add_conversation(store, 3)
    said = texts(store)
    store.close()
    return said


# ---- what a crash leaves behind --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "torn", [b'{"seq":17,"role":"us', b"\x00" * 300, b"{", '{"seq":17,"content":"あ'.encode()[:-1]]
)
def test_a_torn_last_line_is_cut_off_and_kept(folder: Path, torn: bytes, caplog: pytest.LogCaptureFixture) -> None:
    said = filled(FILES, folder)
    with (folder / "messages.jsonl").open("ab") as log:
        log.write(torn)
    store = FILES.open(folder)
    assert texts(store) == said
    assert store.count_messages() == len(said)
    check_task(store)
    assert not (folder / "aside").exists(), "readers change nothing"
    with caplog.at_level(logging.WARNING, "orihon"):
        assert store.add_message("user", "goes on") == len(said) + 1
    (kept,) = (folder / "aside").iterdir()
    assert kept.read_bytes() == torn
    assert str(kept) in caplog.text
    assert kept.stat().st_mode & 0o777 == 0o600
    check_task(store)
    store.close()


@pytest.mark.parametrize("stream", ["summaries", "tools", "planning", "compressions"])
def test_a_torn_line_of_another_file_is_cut_off_too(folder: Path, stream: str) -> None:
    filled(FILES, folder)
    with (folder / f"{stream}.jsonl").open("ab") as file:
        file.write(b'{"id":1,"ki')
    store = FILES.open(folder)
    check_task(store)
    store.create_summary(2, 6, "first turn")
    (kept,) = (folder / "aside").iterdir()
    assert kept.read_bytes() == b'{"id":1,"ki'
    check_task(store)
    store.close()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.unlink(), id="deleted"),
        pytest.param(lambda path: path.write_bytes(b"\xff\x00 garbage"), id="garbage"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-30]), id="short"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes().split(b"\n", 3)[-1]), id="lines missing"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b'{"role":"user"}\n'), id="one line too many"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b'{"role":"us'), id="half a line too many"),
    ],
)
@pytest.mark.parametrize("folded", [False, True])
def test_the_derived_view_is_made_anew(folder: Path, spoil: Callable[[Path], object], folded: bool) -> None:
    said = filled(FILES, folder)
    if folded:
        store = FILES.open(folder)
        store.create_summary(2, 6, "first turn")
        store.close()
    spoil(folder / "current.jsonl")
    store = FILES.open(folder)
    assert store.add_message("user", "goes on") == len(said) + 1
    check_task(store)
    store.close()


def test_an_emptied_log_is_not_taken_for_an_empty_task(folder: Path) -> None:
    filled(FILES, folder)
    (folder / "messages.jsonl").write_bytes(b"")
    view = (folder / "current.jsonl").read_bytes()
    store = FILES.open(folder)
    for _ in range(2):
        with refused(DamagedStore, "log_shorter"):
            store.add_message("user", "goes on")
    assert (folder / "messages.jsonl").read_bytes() == b""
    assert (folder / "current.jsonl").read_bytes() == view
    store.close()
    (folder / "current.jsonl").rename(folder / "current.aside")
    assert store.add_message("user", "without it") == 1


def test_a_shortened_log_is_noticed(folder: Path) -> None:
    filled(FILES, folder)
    FILES.forget(folder, after=10)
    with refused(DamagedStore, "log_shorter"):
        FILES.open(folder).add_message("user", "goes on")
    assert (folder / "current.jsonl").read_bytes().count(b"\n") == 16


@pytest.mark.parametrize("act", ["fold", "undo"])
def test_a_crash_between_a_fold_and_its_view(folder: Path, act: str) -> None:
    """The compression record counts from the moment it is stored; the view is then a line too long or too short."""
    filled(FILES, folder)
    store = FILES.open(folder)
    if act == "undo":
        store.create_summary(2, 11, "two turns")
    old_view = store.get_current_context_file().read_bytes()
    store.create_summary(2, 11, "two turns") if act == "fold" else store.folding.undo()
    new_view = store.get_current_context_file().read_bytes()
    store.close()
    (folder / "current.jsonl").write_bytes(old_view)
    store = FILES.open(folder)
    store.add_message("user", "goes on")
    assert (folder / "current.jsonl").read_bytes() == new_view + b'{"role":"user","content":"goes on"}\n'
    check_task(store)
    store.close()


def test_who_writes_must_be_readable(folder: Path) -> None:
    filled(FILES, folder)
    (folder / "writer.json").write_bytes(b"\xff?")
    store = FILES.open(folder)
    with refused(DamagedStore, "writer"):
        store.add_message("user", "goes on")
    assert len(texts(store)) == 16
    (folder / "writer.json").unlink()
    assert store.add_message("user", "goes on") == 17
    store.close()


# ---- databases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"this is no database, not at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5_000]
)
def test_a_database_that_is_none(folder: Path, content: bytes) -> None:
    folder.mkdir()
    (folder / "context.db").write_bytes(content)
    store = SQLITE.open(folder)
    for act in (store.count_messages, store.get_messages_for_llm, lambda: store.add_message("user", "x")):
        with refused(DamagedStore, "database"):
            act()
    store.close()
    assert (folder / "context.db").read_bytes() == content


def test_a_database_with_broken_pages(folder: Path) -> None:
    filled(SQLITE, folder)
    pages = bytearray((folder / "context.db").read_bytes())
    for page in range(1, len(pages) // 4096):
        pages[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    (folder / "context.db").write_bytes(pages)
    store = SQLITE.open(folder)
    for act in (store.get_messages_for_llm, lambda: store.add_message("user", "x"), lambda: list(store.get_messages())):
        with pytest.raises(DamagedStore) as caught:
            act()
        assert caught.value.remedy
    store.close()


def test_a_database_of_a_newer_orihon(folder: Path) -> None:
    filled(SQLITE, folder)
    connection = apsw.Connection(str(folder / "context.db"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = SQLITE.open(folder)
    for act in (store.count_messages, lambda: store.add_message("user", "x")):
        with refused(NewerSchema, "database") as caught:
            act()
        assert "99" in str(caught.value)
    store.close()


def test_an_empty_database_file_is_a_new_task(folder: Path) -> None:
    folder.mkdir()
    (folder / "context.db").write_bytes(b"")
    store = SQLITE.open(folder)
    assert store.add_message("user", "hello") == 1
    check_task(store)
    store.close()


# ---- permissions -----------------------------------------------------------------------------------------------

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that a user without rights can get to; pytest's own are closed to others."""
    base = Path(tempfile.mkdtemp(prefix="orihon-test-"))
    base.chmod(0o777)
    yield base
    for path in base.rglob("*"):
        path.chmod(0o700)
    shutil.rmtree(base)


def as_nobody(backend: Backend, folder: Path) -> OtherProcess:
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("needs root and setpriv: to become a user whom permissions bind")
    return OtherProcess(backend, folder, before=NOBODY, plain_environment=True)


def _chmod(folder: Path, folders: int, files: int) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(folders if path.is_dir() else files)


def test_a_read_only_folder(backend: Backend, shared_folder: Path) -> None:
    folder = shared_folder / "task"
    with as_nobody(backend, folder) as other:
        other.ask("append", texts=["one", "two"])
        other.ask("close")
        before = backend.raw_log(folder)
        _chmod(folder, 0o500, 0o400)
        with pytest.raises(StorageUnavailable) as caught:
            other.ask("append", texts=["three"])
        assert caught.value.reason in ("denied", "read_only")
        assert caught.value.remedy
        assert backend.raw_log(folder) == before
        _chmod(folder, 0o700, 0o600)
        assert other.ask("append", texts=["three"]) == [3]
        other.ask("check")


def test_a_permission_that_is_lost_between_two_messages(backend: Backend, shared_folder: Path) -> None:
    folder = shared_folder / "task"
    with as_nobody(backend, folder) as other:
        other.ask("append", texts=["one"])
        _chmod(folder, 0o000, 0o000)
        with suppress(StorageUnavailable):  # what is open stays open: not every change needs the folder
            other.ask("fold", start=1, end=1, text="s")
        _chmod(folder, 0o700, 0o600)
        assert other.ask("append", texts=["two"]) == [2]
        other.ask("check")


def test_somebody_elses_task(backend: Backend, shared_folder: Path) -> None:
    folder = shared_folder / "task"
    filled(backend, folder)
    with as_nobody(backend, folder) as other:
        for command in ("count", "view"):
            with refused(StorageUnavailable, "denied"):
                other.ask(command)


# ---- full disks ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB."""
    point = tmp_path / "disk"
    point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(point)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def fill_up(disk: Path) -> Path:
    """Use up what is left of the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    if file.write(b"\0" * size) < size:
                        break
            except OSError:
                continue
    return ballast


def test_a_full_disk(backend: Backend, small_disk: Path) -> None:
    folder = small_disk / "task"
    store = backend.open(folder)
    add_conversation(store, 3)
    said = texts(store)
    ballast = fill_up(small_disk)
    acts = [
        lambda: store.add_message("user", "x" * 20_000),
        lambda: store.add_message("user", "x" * 1_500_000),
        lambda: store.create_summary(2, 6, "y" * 20_000),
    ]
    for act in acts:
        with refused(StorageUnavailable, "full"):
            act()
        assert texts(store) == said
        assert store.compressions() == []
    ballast.unlink()
    assert store.add_message("user", "goes on") == len(said) + 1
    store.create_summary(2, 6, "first turn")
    check_task(store)
    store.close()


def test_a_limit_on_the_size_of_files(backend: Backend, folder: Path) -> None:
    limited = ("prlimit", "--fsize=200000")
    if shutil.which(limited[0]) is None:
        pytest.skip("needs prlimit")
    with OtherProcess(backend, folder, before=limited, plain_environment=True) as other:
        said = [f"message {number} " + "x" * 1_000 for number in range(5)]
        other.ask("append", texts=said)
        with pytest.raises(StorageUnavailable) as caught:
            other.ask("append", texts=["y" * 50_000] * 30)
        assert caught.value.reason in ("full", "io")
        kept = other.ask("contents")
        assert kept[:5] == said
        other.ask("check")
    store = backend.open(folder)
    assert texts(store) == kept
    store.add_message("user", "goes on")
    check_task(store)
    store.close()


# ---- errors of the system --------------------------------------------------------------------------------------


def under_strace(backend: Backend, folder: Path, injection: str, **options: object) -> OtherProcess:
    if shutil.which("strace") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("strace is needed in CI")
        pytest.skip("needs strace")
    strace = (
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={injection.partition(':')[0]}",
        "-e",
        f"inject={injection}",
    )
    return OtherProcess(backend, folder, before=strace, plain_environment=True, **options)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(("backend", "call"), [(FILES, "fsync"), (SQLITE, "fsync"), (SQLITE, "fdatasync")])
def test_a_failing_sync_is_reported_and_nothing_of_the_append_stays(
    backend: Backend, call: str, folder: Path, number: int
) -> None:
    said = ["one", "two", "three", "four"]
    acknowledged = []
    with under_strace(backend, folder, f"{call}:error=EIO:when={number}") as other:
        for text in said:
            try:
                other.ask("append", texts=[text])
                acknowledged.append(text)
            except StorageUnavailable as error:
                assert error.remedy
        kept = other.ask("contents")
        assert kept == acknowledged
        other.ask("append", texts=["five"])
        other.ask("check")
    store = backend.open(folder)
    assert texts(store) == [*acknowledged, "five"]
    check_task(store)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_a_short_write_leaves_nothing(folder: Path, number: int) -> None:
    acknowledged = []
    with under_strace(FILES, folder, f"writev:retval=3:when={number}") as other:
        for text in ("one", "two", "three"):
            try:
                other.ask("append", texts=[text])
                acknowledged.append(text)
            except StorageUnavailable as error:
                assert error.reason == "full"
        assert other.ask("contents") == acknowledged
        assert len(acknowledged) == 2
        other.ask("append", texts=["four"])
        other.ask("check")


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(("backend", "call"), [(FILES, "rename"), (FILES, "pwrite64"), (SQLITE, "pwrite64")])
def test_other_errors_while_folding(backend: Backend, call: str, folder: Path, number: int) -> None:
    filled(backend, folder)
    with under_strace(backend, folder, f"{call}:error=ENOSPC:when={number}") as other:
        done = 0
        for start in (2, 7, 12):
            try:
                other.ask("fold", start=start, end=start + 4, text=f"turn at {start}")
                done += 1
            except StorageUnavailable as error:
                assert error.remedy
        other.ask("check")
        shown = len([line for line in other.ask("view") if "turn at" in str(line["content"])])
        # A fold counts once it is recorded, also when the derived view could not be put in its place.
        assert shown == done or (call == "rename" and shown == done + 1)
    store = backend.open(folder)
    store.add_message("user", "goes on")
    check_task(store)
    store.close()
