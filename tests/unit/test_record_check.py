"""The check of a record: no change of it goes unnoticed, and old records without one stay readable."""

from __future__ import annotations

import random

import pytest

from orihon.store.record_check import checked, decode_record, has_check, is_whole, with_check
from orihon.system import jsonio

PLAIN = b'{"seq":17,"role":"user","content":"3 passed","error":"timedout"}'
LINE = checked(PLAIN)


def test_a_record_with_its_check_is_json_and_comes_back() -> None:
    assert list(jsonio.decode(LINE)) == ["seq", "crc32", "role", "content", "error"]
    assert has_check(LINE)
    assert is_whole(LINE)
    assert decode_record(LINE) == jsonio.decode(PLAIN)


def test_pieces_are_not_put_together_for_it() -> None:
    body = memoryview(PLAIN)[10:]
    head, *rest = with_check(PLAIN[:10], body[:20], body[20:])
    assert [bytes(piece) for piece in rest] == [bytes(body[:20]), bytes(body[20:])]
    assert b"".join((head, *rest)) == LINE


def test_every_flipped_bit_is_noticed() -> None:
    for place in range(len(LINE)):
        for bit in range(8):
            wrong = bytearray(LINE)
            wrong[place] ^= 1 << bit
            assert not is_whole(bytes(wrong)), (place, bit)


def test_every_part_that_is_empty_or_random_is_noticed() -> None:
    generator = random.Random(7)
    for first in range(len(LINE)):
        for last in range(first + 1, len(LINE) + 1):
            for filling in (bytes(last - first), generator.randbytes(last - first), b" " * (last - first)):
                wrong = LINE[:first] + filling + LINE[last:]
                assert wrong == LINE or not is_whole(wrong), (first, last)


def test_every_part_that_is_missing_is_noticed() -> None:
    for first in range(len(LINE)):
        for last in range(first + 1, len(LINE) + 1):
            cut = LINE[:first] + LINE[last:]
            # Without exactly its check it is what an older version wrote; without its first fields it cannot be used.
            assert not is_whole(cut) or cut == PLAIN or "role" not in decode_record(cut) or cut[:10] != LINE[:10]


def test_a_part_that_is_there_twice_is_noticed() -> None:
    for first in range(len(LINE)):
        for last in range(first + 1, len(LINE) + 1):
            assert not is_whole(LINE[:last] + LINE[first:]), (first, last)


@pytest.mark.parametrize("line", [PLAIN, b'{"id":1}', b'{"id":1,"model":"12345678"}'])
def test_a_record_of_an_older_version_is_taken_as_it_is(line: bytes) -> None:
    assert not has_check(line)
    assert is_whole(line)
    assert decode_record(line) == jsonio.decode(line)


@pytest.mark.parametrize("line", [b"", b"\n", b"{", b"[1]", b"17", bytes(40), b'{"id":1', b'{"id":1}}', b"\xff" * 30])
def test_what_is_no_object_is_no_record(line: bytes) -> None:
    assert not is_whole(line)
