"""What is sealed opens where it belongs, and nowhere else; and nothing that is no seal makes it stumble."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import DamagedStore
from orihon.guard.sealer import Sealer, is_sealed_file, is_sealed_record, is_sealed_text
from tests.helpers import refused

SEALER = Sealer(b"k" * 32, "task-1")
PLACES = st.sampled_from(["messages", "tools", "file final_summary.txt", "日本"])


@given(st.binary(max_size=300), PLACES, st.integers(0, 1 << 60))
def test_bytes_come_back(plain: bytes, place: str, number: int) -> None:
    sealed = SEALER.seal(place, number, plain)
    assert SEALER.open(place, number, sealed) == plain
    assert SEALER.seal(place, number, plain) != sealed  # nobody sees that the same was said twice
    assert len(sealed) == len(plain) + 28


@given(st.binary(min_size=1, max_size=100), PLACES, PLACES, st.integers(0, 9), st.integers(0, 9))
def test_they_open_in_their_own_place_only(plain: bytes, here: str, there: str, one: int, other: int) -> None:
    sealed = SEALER.seal(here, one, plain)
    if (here, one) != (there, other):
        with refused(DamagedStore, "sealed"):
            SEALER.open(there, other, sealed)
    for stranger in (Sealer(b"k" * 32, "task-2"), Sealer(b"K" * 32, "task-1")):
        with refused(DamagedStore, "sealed"):
            stranger.open(here, one, sealed)


@given(st.binary(max_size=60), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_bit_is_found(plain: bytes, place: int, flip: int) -> None:
    sealed = bytearray(SEALER.seal("messages", 3, plain))
    sealed[place % len(sealed)] ^= flip
    with refused(DamagedStore, "sealed"):
        SEALER.open("messages", 3, bytes(sealed))


@given(st.binary(max_size=80))
def test_a_record_and_a_file_come_back(plain: bytes) -> None:
    line = SEALER.seal_record("messages", "seq", 12, plain)
    assert line.startswith(b'{"seq":12,"sealed":"')
    assert is_sealed_record(line)
    assert SEALER.open_record("messages", line) == plain
    content = SEALER.seal_file("a.txt", plain)
    assert is_sealed_file(content)
    assert SEALER.open_file("a.txt", content) == plain
    with refused(DamagedStore, "sealed"):
        SEALER.open_file("b.txt", content)


@given(st.text(max_size=60))
def test_a_text_comes_back(text: str) -> None:
    sealed = SEALER.seal_text("prompt", "uuid a", text)
    assert is_sealed_text(sealed)
    assert sealed.isascii()
    assert SEALER.open_text("prompt", "uuid a", sealed) == text
    for column, row in (("error_message", "uuid a"), ("prompt", "uuid b"), ("prompt", "event a")):
        with refused(DamagedStore, "sealed"):
            SEALER.open_text(column, row, sealed)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: b'{"seq":1,"sealed":"' + rest + b'"}'))
def test_what_is_no_seal_is_refused(anything: bytes) -> None:
    for open_it in (
        lambda: SEALER.open("messages", 1, anything),
        lambda: SEALER.open_record("messages", anything),
        lambda: SEALER.open_file("a.txt", anything),
        lambda: SEALER.open_text("prompt", "uuid a", anything.decode("utf-8", "replace")),
    ):
        with pytest.raises(DamagedStore):
            open_it()


def test_a_plain_record_that_talks_of_seals_is_plain() -> None:
    assert not is_sealed_record(b'{"seq":1,"role":"user","content":"x","sealed":"y"}')
    assert not is_sealed_record(b'{"seq":"1","sealed":"y"}')


def test_names_of_contents_tell_nothing_and_differ_from_task_to_task() -> None:
    digest = "ab" * 32
    assert SEALER.blob_name(digest) == Sealer(b"k" * 32, "task-1").blob_name(digest)
    assert SEALER.blob_name(digest) not in (digest, Sealer(b"q" * 32, "task-1").blob_name(digest))
