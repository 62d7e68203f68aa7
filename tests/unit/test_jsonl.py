"""One JSON Lines file: found by number, read while it grows, damage noticed."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.errors import DamagedStore, StorageUnavailable
from orihon.store.jsonl import JsonlFile
from orihon.system import jsonio
from tests.helpers import refused


def line(number: int, size: int = 10) -> bytes:
    return b'{"seq":%d,"content":"%b"}' % (number, b"x" * size)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.jsonl"


@pytest.fixture
def file(path: Path) -> JsonlFile:
    return JsonlFile(path, "seq")


def test_a_missing_file_is_empty(file: JsonlFile) -> None:
    assert list(file.read(1)) == []
    assert file.last() == 0
    assert file.torn_tail() == b""


def test_a_file_whose_folder_has_moved_away_is_not_empty(path: Path) -> None:
    """Once, whoever watched a task at its end took the log for empty."""
    file = JsonlFile(path.parent / "moved" / path.name, "seq")
    for look in (lambda: list(file.read(1)), file.last, file.torn_tail):
        with refused(StorageUnavailable, "gone"):
            look()


@pytest.mark.parametrize("left", [b"\n", b"\n\n\n", b"\n{half"])
def test_what_stands_after_the_last_whole_line(file: JsonlFile, path: Path, left: bytes) -> None:
    path.write_bytes(line(1) + b"\n" + line(2) + b"\n" + left)
    assert file.last() == 2
    assert list(file.read(1)) == [line(1), line(2)]
    assert file.torn_tail() == left


@pytest.mark.parametrize("blank", [b"\n", b"\n\n"])
def test_a_file_of_empty_lines_is_empty(file: JsonlFile, path: Path, blank: bytes) -> None:
    path.write_bytes(blank)
    assert file.last() == 0
    assert list(file.read(1)) == []
    assert file.torn_tail() == blank


def test_an_empty_file(file: JsonlFile, path: Path) -> None:
    path.write_bytes(b"")
    assert list(file.read(1)) == []
    assert file.last() == 0


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 10, 500, 70_000, 150_000]), min_size=1, max_size=40),
    first=st.integers(-2, 50),
    count=st.integers(-1, 50),
    tail=st.sampled_from([b"", b"{", b'{"seq":99,"content":"half', b"\0" * 100_000]),
)
def test_any_range_of_any_file(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], first: int, count: int, tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "messages.jsonl"
    lines = [line(number, size) for number, size in enumerate(sizes, start=1)]
    path.write_bytes(b"".join(each + b"\n" for each in lines) + tail)
    file = JsonlFile(path, "seq")
    assert file.last() == len(lines)
    assert file.torn_tail() == tail
    start = max(first, 1)
    assert list(file.read(start, start + count)) == lines[start - 1 : start + count]
    assert list(file.read(start)) == lines[start - 1 :]


def test_a_large_file_is_searched_not_read(file: JsonlFile, path: Path) -> None:
    path.write_bytes(b"".join(line(number, 1_000) + b"\n" for number in range(1, 5_001)))
    spoiled = bytearray(path.read_bytes())
    # Damage far from what is asked for is not met on the way: a search looks at a few lines only.
    position = spoiled.index(b'{"seq":4321,')
    spoiled[position : position + 20] = b"#" * 20
    path.write_bytes(spoiled)
    assert [each[:12] for each in file.read(1_234, 1_235)] == [b'{"seq":1234,', b'{"seq":1235,']
    with refused(DamagedStore, "line"):
        list(file.read(4_300, 4_400))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([line(1), line(3)], id="gap"),
        pytest.param([line(1), line(1)], id="twice"),
        pytest.param([line(1), b"", line(2)], id="empty line"),
        pytest.param([line(1), b'{"id":2}', line(3)], id="other field"),
        pytest.param([line(1), b'{"seq":"2"}', line(3)], id="not a number"),
        pytest.param([line(1), b'{"seq":2', line(3)], id="cut"),
        pytest.param([line(2), line(3)], id="does not begin at one"),
    ],
)
def test_damage_raises(file: JsonlFile, path: Path, broken: list[bytes]) -> None:
    path.write_bytes(b"\n".join(broken) + b"\n")
    with refused(DamagedStore, "line") as caught:
        list(file.read(1))
    assert str(path) in str(caught.value)


def test_a_last_line_that_has_no_number(file: JsonlFile, path: Path) -> None:
    path.write_bytes(line(1) + b"\nnot json\n")
    assert file.last() == 1  # nothing is known but that it cannot be read: it may never have been finished
    assert file.torn_tail() == b"not json\n"
    settled = {path.stem: path.stat().st_size}
    check = zlib.crc32(jsonio.encode(settled))
    path.with_name("settled.json").write_bytes(jsonio.encode({"check": check, "body": settled}))
    with refused(DamagedStore, "line"):
        file.last()


def test_what_is_appended_while_reading_is_not_missed_nor_halved(file: JsonlFile, path: Path) -> None:
    path.write_bytes(line(1) + b"\n" + line(2) + b"\n")
    reading = file.read(1)
    assert next(reading) == line(1)
    with path.open("ab") as log:
        log.write(line(3) + b"\n" + line(4)[:8])
    assert list(reading) == [line(2)]
    assert list(file.read(1)) == [line(1), line(2), line(3)]


def test_errors_of_the_system_are_wrapped(tmp_path: Path) -> None:
    folder = tmp_path / "messages.jsonl"
    folder.mkdir()
    with refused(StorageUnavailable, "io"):
        JsonlFile(folder, "seq").last()


def test_a_writer_that_finishes_its_line_and_settles_while_somebody_reads(
    file: JsonlFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, whoever looked at a task that was just paused was told that its log is damaged."""
    path.write_bytes(line(1) + b"\n" + line(2)[:9])

    def settled_meanwhile(folder: Path) -> dict[str, Any]:
        with path.open("ab") as log:
            log.write((line(2) + b"\n")[path.stat().st_size - len(line(1)) - 1 :])
        return {path.stem: path.stat().st_size}

    monkeypatch.setattr("orihon.store.jsonl.settled_sizes", settled_meanwhile)
    assert list(file.read(1)) == [line(1), line(2)]
