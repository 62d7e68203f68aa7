"""Disks and systems that say no: permissions, full and read-only folders, system calls that fail.

Each gives one error of the tree, changes nothing that was acknowledged, and the task can be used afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orihon.errors import StorageUnavailable
from tests.conformance.backends import ON_DISK, Backend, FilesBackend, SqliteBackend
from tests.conformance.behaviour import add_conversation, filled, texts
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task
from tests.helpers import refused

FILES = FilesBackend()
SQLITE = SqliteBackend()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "task"


@pytest.fixture(params=ON_DISK.values(), ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    given: Backend = request.param
    return given


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


@cache
def _starts_as_nobody() -> bool:
    return subprocess.run([*NOBODY, sys.executable, "-c", "import orihon"], check=False).returncode == 0


def as_nobody(backend: Backend, folder: Path, **options: int) -> OtherProcess:
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("needs root and setpriv: to become a user whom permissions bind")
    if not _starts_as_nobody():
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"needs a Python that everybody may start: {sys.executable} lies where only its owner may look")
    return OtherProcess(backend, folder, before=NOBODY, plain_environment=True, umask=-1, **options)


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
    with as_nobody(backend, folder, blob_bytes=100) as other:
        other.ask("append", texts=["one", "long " * 100])
        _chmod(folder, 0o000, 0o000)
        with refused(StorageUnavailable, "denied"):
            other.ask("append", texts=["another one " * 100])
        for command in ("view", "view_file", "count"):
            with suppress(StorageUnavailable):  # what is open stays open: not every way needs the folder
                other.ask(command)
        with suppress(StorageUnavailable):
            other.ask("fold", start=1, end=1, text="s")
        _chmod(folder, 0o700, 0o600)
        assert other.ask("append", texts=["three"]) == [3]
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
    acts: list[Callable[[], object]] = [
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


def under_strace(backend: Backend, folder: Path, injection: str) -> OtherProcess:
    if shutil.which("strace") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("strace is needed in CI")
        pytest.skip("needs strace")
    calls = injection.partition(":")[0]
    quietly = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null")
    strace = (*quietly, "-e", f"trace={calls}", "-e", f"inject={injection}")
    return OtherProcess(backend, folder, before=strace, plain_environment=True)


def _name(value: Backend | str) -> str:
    return value.name if isinstance(value, Backend) else value


def refusal(other: OtherProcess, command: str, **arguments: Any) -> str:
    """Why the other process could not do it; empty when it could."""
    try:
        other.ask(command, **arguments)
    except StorageUnavailable as error:
        return error.reason if error.remedy else "no remedy"
    return ""


def test_every_append_is_synced_and_a_failing_sync_is_reported(backend: Backend, tmp_path: Path) -> None:
    """Nothing of the failed append stays, and the others are there."""
    said = ("one", "two", "three")
    failed: set[str] = set()
    for number in range(1, 30):
        folder = tmp_path / f"task-{number}"
        with under_strace(backend, folder, f"fsync,fdatasync:error=EIO:when={number}") as other:
            outcome = {text: refusal(other, "append", texts=[text]) for text in said}
            assert set(outcome.values()) <= {"", "io"}
            acknowledged = [text for text, reason in outcome.items() if not reason]
            assert other.ask("contents") == acknowledged
            other.ask("check")
        store = backend.open(folder)
        store.add_message("user", "goes on")
        assert texts(store) == [*acknowledged, "goes on"]
        check_task(store)
        store.close()
        failed |= set(said) - set(acknowledged)
        if failed == set(said) and number >= 6:
            return
    pytest.fail(f"only {failed} were synced")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_a_short_write_leaves_nothing(folder: Path, number: int) -> None:
    with under_strace(FILES, folder, f"writev:retval=3:when={number}") as other:
        outcome = {text: refusal(other, "append", texts=[text]) for text in ("one", "two", "three")}
        assert sorted(outcome.values()) == ["", "", "full"]
        assert other.ask("contents") == [text for text, reason in outcome.items() if not reason]
        other.ask("append", texts=["four"])
        other.ask("check")


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(("backend", "call"), [(FILES, "rename"), (FILES, "pwrite64"), (SQLITE, "pwrite64")], ids=_name)
def test_other_errors_while_folding(backend: Backend, call: str, folder: Path, number: int) -> None:
    filled(backend, folder)
    with under_strace(backend, folder, f"{call}:error=ENOSPC:when={number}") as other:
        outcome = [refusal(other, "fold", start=start, end=start + 4, text=f"turn at {start}") for start in (2, 7, 12)]
        assert set(outcome) <= {"", "full", "io"}
        other.ask("check")
        shown = len([line for line in other.ask("view") if "turn at" in str(line["content"])])
        # A fold counts once it is recorded, also when the derived view could not be put in its place.
        assert shown == outcome.count("") or (call == "rename" and shown == outcome.count("") + 1)
    store = backend.open(folder)
    store.add_message("user", "goes on")
    check_task(store)
    store.close()
