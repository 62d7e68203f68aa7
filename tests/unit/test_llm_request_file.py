"""Requests are made file to file, whole, private, and gone afterwards."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import DamagedStore, StorageUnavailable
from orihon.llm.request_file import FileLines, body, instructed_lines, list_lines, messages_of, request_file
from orihon.system import jsonio
from orihon.system.files import is_unfinished, remove_leftovers
from tests.helpers import refused

TEXTS = st.lists(st.text(max_size=200), max_size=20)


def write_view(folder: Path, texts: list[str]) -> Path:
    path = folder / "current.jsonl"
    path.write_bytes(b"".join(jsonio.encode({"role": "user", "content": text}) + b"\n" for text in texts))
    return path


@given(texts=TEXTS)
def test_lines_are_joined_into_a_list(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    view = FileLines(write_view(tmp_path_factory.mktemp("view"), texts))
    made = json.loads(b"".join(body({"model": "m"}, [("messages", view.joined())])))
    assert [message["content"] for message in made["messages"]] == texts
    assert [message["content"] for message in messages_of(view)] == texts


@pytest.mark.parametrize("size", [65_500, 65_535, 65_536, 65_537, 131_072])
def test_a_block_may_end_anywhere(tmp_path: Path, size: int) -> None:
    empty = len(jsonio.encode({"role": "user", "content": ""}))
    for short in range(3):  # the line feed is the last byte of a block, or the first of the next
        texts = ["x" * (size - empty - short), "日本語", ""]
        view = FileLines(write_view(tmp_path, texts))
        made = json.loads(b"[" + b"".join(view.joined()) + b"]")
        assert [message["content"] for message in made] == texts


def test_a_list_in_memory_gives_the_same(tmp_path: Path) -> None:
    texts = ["a", "日本"]
    in_memory = list_lines([{"role": "user", "content": text} for text in texts])
    on_disk = FileLines(write_view(tmp_path, texts))
    assert b"".join(in_memory.joined()) == b"".join(on_disk.joined())


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([], [("system", "more")]),
        ([("user", "hi")], [("system", "more"), ("user", "hi")]),
        ([("system", "prompt"), ("user", "hi")], [("system", "prompt\n\nmore"), ("user", "hi")]),
    ],
)
def test_instructions_go_into_the_system_prompt(messages: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> None:
    view = instructed_lines(list_lines([{"role": role, "content": text} for role, text in messages]), "more")
    assert [(message["role"], message["content"]) for message in messages_of(view)] == wanted
    assert len(json.loads(b"[" + b"".join(view.joined()) + b"]")) == len(wanted)


@pytest.mark.parametrize("line", [b"{broken", b"[]", b"{}", b"null", b'{"role":"user"}'])
def test_a_damaged_line_is_named(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "current.jsonl"
    path.write_bytes(line + b"\n")
    with refused(DamagedStore, "record"):
        list(messages_of(FileLines(path)))


def test_the_file_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with request_file(tmp_path, [b"{", b"}"]) as path:
        assert path == tmp_path / "request.json"
        assert path.read_bytes() == b"{}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


def test_the_file_goes_when_its_making_or_its_use_fails(tmp_path: Path) -> None:
    def pieces() -> object:
        yield b"{"
        raise DamagedStore("record", stream="current", where="x", start=b"")

    with pytest.raises(DamagedStore), request_file(tmp_path, pieces()):  # type: ignore[arg-type]
        pytest.fail("it must not be used")
    with pytest.raises(KeyError), request_file(tmp_path, [b"{}"]):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_two_who_hold_a_task_do_not_disturb_each_other(tmp_path: Path) -> None:
    with request_file(tmp_path, [b"A" * 100]) as first:
        with request_file(tmp_path, [b"B" * 50]) as second:
            assert first.read_bytes() == b"A" * 100
            assert second.read_bytes() == b"B" * 50
            assert stat.S_IMODE(second.stat().st_mode) == 0o600
            assert is_unfinished(second.name), "doctor has to know it"
            assert remove_leftovers(tmp_path).files == 0, "it is in use"
        assert first.read_bytes() == b"A" * 100
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_crash_left_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_bytes(b"x" * 100)
    (tmp_path / "request.json").chmod(0o644)
    with request_file(tmp_path, [b"{}"]) as path:
        assert path.read_bytes() == b"{}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")
    (tmp_path / "request.json").symlink_to(precious)
    with refused(StorageUnavailable, "io"), request_file(tmp_path, [b"{}"]):
        pass
    assert precious.read_bytes() == b"keep"
