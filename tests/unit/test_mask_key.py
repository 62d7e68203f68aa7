"""The key of the placeholders: healed from its copy, replaced by a person, and made anew only when somebody says so."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orihon.errors import DamagedStore
from orihon.guard import KEY_COPY, KEY_FILE, load_key
from orihon.guard.mask_key import key_trouble
from orihon.system.files import create_file, folder_size
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.upkeep.doctor import examine, repair
from tests.damage import paused_task, settings_for
from tests.helpers import refused


def test_any_wrong_byte_of_either_file_is_found_and_healed(tmp_path: Path) -> None:
    key = load_key(tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in (KEY_FILE, KEY_COPY)}
    for name, content in whole.items():
        for place in range(len(content)):
            spoilt = bytearray(content)
            spoilt[place] ^= 1
            (tmp_path / name).write_bytes(spoilt)
            assert key_trouble(tmp_path) == (name, "damaged"), place
            assert load_key(tmp_path) == key, place
            assert {one: (tmp_path / one).read_bytes() for one in whole} == whole
            assert key_trouble(tmp_path) is None


@pytest.mark.parametrize("name", [KEY_FILE, KEY_COPY])
@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0" * 65),
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to(path),
    ],
    ids=["missing", "empty", "zeros", "folder", "pipe", "loop"],
)
def test_whatever_stands_there(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    key = load_key(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    make(tmp_path / name)
    assert load_key(tmp_path) == key
    assert (tmp_path / name).read_bytes() == content


def test_a_key_that_somebody_has_put_there_counts(tmp_path: Path) -> None:
    key = load_key(tmp_path / "one")
    other = load_key(tmp_path / "other")
    shutil.copy(tmp_path / "one" / KEY_FILE, tmp_path / "other" / KEY_FILE)
    assert key_trouble(tmp_path / "other") is None
    assert load_key(tmp_path / "other") == key != other
    (tmp_path / "other" / KEY_FILE).unlink()
    assert load_key(tmp_path / "other") == key, "the copy has followed"


def test_a_key_of_before_gets_a_copy(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"0123456789abcdef" * 4)
    assert key_trouble(tmp_path) is None
    assert load_key(tmp_path) == bytes.fromhex("0123456789abcdef" * 4)
    (tmp_path / KEY_FILE).write_bytes(b"0123456789abcdee" * 4 + b"\n")
    assert load_key(tmp_path) == bytes.fromhex("0123456789abcdef" * 4)


def test_one_wrong_byte_stops_no_task(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    path = tmp_path / KEY_FILE
    whole = path.read_bytes()
    path.write_bytes(b"?" + whole[1:])
    settings = settings_for("files")
    (finding,) = examine(OpenBase(tmp_path, settings))
    assert (finding.kind, finding.severity, finding.repair) == (("mask_key", "damaged"), "warning", "possible")
    task = TaskContextManager.resume(tmp_path, uuid, settings)
    task.message_store.add_message("user", "goes on")
    task.stop()
    assert path.read_bytes() == whole
    assert examine(OpenBase(tmp_path, settings)) == []


def test_a_lost_key_is_told_and_made_anew_on_request(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    settings = settings_for("files")
    (tmp_path / KEY_FILE).write_bytes(b"nothing")
    (tmp_path / KEY_COPY).write_bytes(b"")
    with refused(DamagedStore, "mask_key"):
        TaskContextManager.resume(tmp_path, uuid, settings)
    (finding,) = examine(OpenBase(tmp_path, settings))
    assert (finding.kind, finding.severity, finding.repair) == (("mask_key", "lost"), "error", "possible")
    assert "no longer match" in finding.remedy
    (finding,) = repair(OpenBase(tmp_path, settings))
    assert finding.repair == "done"
    assert {path.read_bytes() for path in (tmp_path / "aside").iterdir()} == {b"nothing", b""}
    task = TaskContextManager.resume(tmp_path, uuid, settings)
    task.message_store.add_message("user", "goes on")
    task.stop()
    assert examine(OpenBase(tmp_path, settings)) == []
    assert folder_size(tmp_path / KEY_COPY)


def test_a_key_that_another_process_is_just_making_is_no_damage(tmp_path: Path) -> None:
    """Whoever looks twice, whether it is a file and whether anything is there, could say so of a sound one."""
    is_over = threading.Event()

    def make_and_remove() -> None:
        while not is_over.is_set():
            create_file(tmp_path / KEY_FILE, [b"0" * 64, b"\n"])
            (tmp_path / KEY_FILE).unlink()

    other = threading.Thread(target=make_and_remove)
    other.start()
    try:
        assert {key_trouble(tmp_path) for _ in range(20_000)} == {None}
    finally:
        is_over.set()
        other.join()
