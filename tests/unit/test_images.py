"""Sizes from headers, and the providers' prices for them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.values.tokens.images import ANTHROPIC_MOST, OPENAI_BASE, OPENAI_MOST, image_size, image_tokens

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 640, 480, 8, 6, 0, 0, 0)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + b"\xf7\0\0"
JPEG = (
    b"\xff\xd8"
    + b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    + b"\xff\xc4\x00\x04\0\0"  # a table, whose marker lies in the range of the frames
    + b"\xff\xff\xc2\x00\x0b\x08"  # a fill byte, then a progressive frame
    + struct.pack(">HH", 1080, 1920)
    + b"\x03\x01\x22\0"
)
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0" + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 800 | 0x4000, 600)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", (1024 - 1) | (768 - 1) << 14)
WEBP_EXTENDED = (
    b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0" + (4000 - 1).to_bytes(3, "little") + (3000 - 1).to_bytes(3, "little")
)

PICTURES = [
    pytest.param(PNG, (640, 480), id="png"),
    pytest.param(GIF, (320, 200), id="gif"),
    pytest.param(JPEG, (1920, 1080), id="jpeg"),
    pytest.param(WEBP_LOSSY, (800, 600), id="webp-lossy"),
    pytest.param(WEBP_LOSSLESS, (1024, 768), id="webp-lossless"),
    pytest.param(WEBP_EXTENDED, (4000, 3000), id="webp-extended"),
]


@pytest.mark.parametrize(("data", "size"), PICTURES)
def test_size_is_read_from_the_header(data: bytes, size: tuple[int, int]) -> None:
    assert image_size(data + b"pixels") == size


@pytest.mark.parametrize(("data", "size"), PICTURES)
def test_a_header_that_is_cut_short_has_no_size(data: bytes, size: tuple[int, int]) -> None:
    assert {image_size(data[:length]) for length in range(len(data))} <= {None, size}
    assert image_size(data[:12]) is None or size == (320, 200)


def test_other_data_has_no_size() -> None:
    assert image_size(b"") is None
    assert image_size(b"%PDF-1.7") is None
    assert image_size(b"RIFF\0\0\0\0WEBPjunk" + bytes(40)) is None


def test_a_jpeg_whose_scan_comes_before_its_frame_has_no_size() -> None:
    assert image_size(b"\xff\xd8\xff\xda\x00\x02\xff\xc0" + bytes(20)) is None
    assert image_size(b"\xff\xd8\xff\xe0\x00\x02 not a marker") is None


def test_an_empty_picture_has_no_size() -> None:
    assert image_size(PNG.replace(struct.pack(">II", 640, 480), bytes(8))) is None


@given(st.sampled_from([b"", PNG[:8], GIF[:6], JPEG[:2], WEBP_LOSSY[:16]]), st.binary(max_size=200))
def test_damaged_headers_never_raise(start: bytes, rest: bytes) -> None:
    size = image_size(start + rest)
    assert size is None or min(size) > 0


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (512, 512, 255),
        (513, 512, 425),
        (1024, 1024, 765),
        (2048, 4096, 1105),
        (4096, 2048, 1105),
        (1, 1, 255),
        (100_000, 10, 85 + 4 * 170),
    ],
)
def test_openai_counts_tiles(width: int, height: int, tokens: int) -> None:
    assert image_tokens(width, height, provider="openai") == tokens
    assert image_tokens(width, height, provider="openai", detail="high") == tokens


def test_openai_low_detail_is_the_base() -> None:
    assert image_tokens(4096, 8192, provider="openai", detail="low") == OPENAI_BASE
    assert image_tokens(None, None, provider="openai", detail="low") == OPENAI_BASE


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(200, 200, 54), (1000, 1000, 1334), (1092, 1092, 1590), (3136, 100, 105), (3000, 3000, ANTHROPIC_MOST)],
)
def test_anthropic_counts_area(width: int, height: int, tokens: int) -> None:
    assert image_tokens(width, height, provider="anthropic") == tokens


@pytest.mark.parametrize("size", [(None, None), (100, None), (None, 100), (0, 100), (-5, 100)])
def test_an_unknown_size_costs_the_most(size: tuple[int | None, int | None]) -> None:
    assert image_tokens(*size, provider="openai") == OPENAI_MOST
    assert image_tokens(*size, provider="anthropic") == ANTHROPIC_MOST
    assert image_tokens(*size, provider="somebody") == ANTHROPIC_MOST


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_no_picture_costs_more_than_the_most_and_turning_it_changes_nothing(width: int, height: int) -> None:
    openai = image_tokens(width, height, provider="openai")
    anthropic = image_tokens(width, height, provider="anthropic")
    assert OPENAI_BASE < openai <= OPENAI_MOST
    assert 0 < anthropic <= ANTHROPIC_MOST
    assert image_tokens(width, height, provider="somebody") == max(openai, anthropic)
    assert image_tokens(height, width, provider="openai") == openai
    assert image_tokens(height, width, provider="anthropic") == anthropic
