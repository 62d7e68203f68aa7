"""What crashes and restored backups leave behind: torn lines, a lost view, an emptied log, a broken database.

Each gives one error of the tree or is put right, changes nothing that was acknowledged, and the task goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from orihon.errors import DamagedStore, NewerSchema, StorageUnavailable
from tests.conformance.backends import FilesBackend, SqliteBackend
from tests.conformance.behaviour import filled, texts
from tests.conformance.invariants import check_task
from tests.helpers import refused

FILES = FilesBackend()
SQLITE = SqliteBackend()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "task"


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


@pytest.mark.parametrize("left", [0, 10])
def test_lines_that_a_shortened_log_has_lost_are_kept_aside(
    folder: Path, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What is derived decides nothing: the task opens, and nothing that somebody may want is thrown away."""
    filled(FILES, folder)
    view = (folder / "current.jsonl").read_bytes()
    FILES.forget(folder, after=left)
    store = FILES.open(folder)
    assert store.add_message("user", "goes on") == left + 1
    check_task(store)
    store.close()
    (kept,) = (folder / "aside").iterdir()
    assert kept.read_bytes() == view
    assert str(kept) in caplog.text


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


def test_a_database_that_somebody_else_works_on(folder: Path) -> None:
    """The error is ours, and the writer does not stay in the middle of a transaction."""
    store = SQLITE.open(folder)
    store.add_message("user", "one")
    connection = apsw.Connection(str(folder / "context.db"))
    connection.execute("ALTER TABLE fence RENAME TO hidden")
    for _ in range(2):
        with refused(StorageUnavailable, "io"):
            store.add_message("user", "two")
    connection.execute("ALTER TABLE hidden RENAME TO fence")
    connection.close()
    assert store.add_message("user", "two") == 2
    check_task(store)
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
