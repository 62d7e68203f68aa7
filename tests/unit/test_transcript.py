"""Transcripts are read line by line, and a wrong line is named."""

from __future__ import annotations

import pytest

from orihon.compression.plain_history import read_transcript, write_transcript
from orihon.errors import InvalidInput

HELLO = b'{"role":"user","content":"\xe3\x81\x93\xe3\x82\x93\xe3\x81\xab\xe3\x81\xa1\xe3\x81\xaf\xe2\x80\xa8!"}\n'


def test_a_header_is_no_message() -> None:
    assert read_transcript(b'{"kind":"transcript","id":"x"}\n\n' + HELLO) == read_transcript(HELLO)


def test_what_is_read_is_written_again() -> None:
    assert write_transcript(read_transcript(HELLO * 3)) == HELLO * 3


@pytest.mark.parametrize("wrong", [b"{x", b"[1]", b'{"role":"nobody"}', b'{"content":"hi"}', b"\xff", b'"text"'])
def test_a_wrong_line_is_named(wrong: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_transcript(HELLO + wrong + b"\n")
    assert caught.value.reason == "transcript_line"
    assert caught.value.fields["line"] == 2
