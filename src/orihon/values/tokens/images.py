"""Images: how large they are, and how many tokens that costs.

Owns the providers' published rules and the reading of sizes from the headers of PNG, JPEG, GIF and WebP,
without any imaging package. Only headers are looked at: the first 64 KiB of a file nearly always do. What
cannot be read has no size (``None``) and costs the most that the provider ever charges for one image, so
that a budget errs to the safe side. Nothing here raises on bad data.
"""

from __future__ import annotations

import math
import struct

OPENAI_BASE = 85
OPENAI_TILE = 170
# A fitted picture is at most 2048 x 768: four by two tiles.
OPENAI_MOST = OPENAI_BASE + 8 * OPENAI_TILE

# The dearest picture of Anthropic's table that is not scaled down: 784 x 1568 / 750.
ANTHROPIC_MOST = 1640

Size = tuple[int, int]


def image_tokens(width: int | None, height: int | None, *, provider: str, detail: str = "auto") -> int:
    """Tokens that one image costs.

    ``openai``: 85, and 170 for each 512-pixel tile once the image is fitted into 2048 x 2048 and its
    shorter side brought down to 768; ``detail="low"`` is always 85. ``anthropic``: width x height / 750
    after the longer side is brought down to 1568, at most 1,640. Any other provider: the dearer of the two.
    Size not known: the most.
    """
    size = (width, height) if width and height and min(width, height) > 0 else None
    if provider == "openai":
        return _openai_tokens(size, detail)
    if provider == "anthropic":
        return _anthropic_tokens(size)
    return max(_openai_tokens(size, detail), _anthropic_tokens(size))


def _openai_tokens(size: Size | None, detail: str) -> int:
    if detail == "low":
        return OPENAI_BASE
    if size is None:
        return OPENAI_MOST
    longer, shorter = _scaled(max(size), min(size), most=2048)
    shorter, longer = _scaled(shorter, longer, most=768)
    return OPENAI_BASE + OPENAI_TILE * math.ceil(longer / 512) * math.ceil(shorter / 512)


def _anthropic_tokens(size: Size | None) -> int:
    if size is None:
        return ANTHROPIC_MOST
    longer, shorter = _scaled(max(size), min(size), most=1568)
    return min(math.ceil(longer * shorter / 750), ANTHROPIC_MOST)


def _scaled(side: int, other: int, *, most: int) -> Size:
    """Both sides, scaled down alike so that the first is no longer than ``most``; never scaled up."""
    if side <= most:
        return side, other
    return most, max(1, round(other * most / side))


def image_size(data: bytes) -> Size | None:
    """Width and height in pixels, from the header of a PNG, JPEG, GIF or WebP file; ``None`` for others."""
    try:
        size = _read_size(data)
    except (struct.error, IndexError):
        # The header is cut short.
        return None
    return size if size is not None and min(size) > 0 else None


def _read_size(data: bytes) -> Size | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return _pair(">II", data, 16)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _pair("<HH", data, 6)
    if data.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp_size(data)
    return None


def _pair(layout: str, data: bytes, at: int) -> Size:
    first, second = struct.unpack_from(layout, data, at)
    return int(first), int(second)


# Markers C0 to CF begin a frame, which carries the size, except for tables (C4, CC) and the reserved C8.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_SCAN = 0xDA
_JPEG_FILL = 0xFF


def _jpeg_size(data: bytes) -> Size | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _JPEG_FILL:
            at += 1
        elif marker in _JPEG_FRAMES:
            height, width = _pair(">HH", data, at + 5)
            return width, height
        elif marker == _JPEG_SCAN:
            return None
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = _pair("<HH", data, 26)
        # The two upper bits are a scaling hint.
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and len(data) >= 25 and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None
