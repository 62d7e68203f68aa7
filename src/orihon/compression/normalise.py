"""Normalises a text to what its reader sees: nothing that is invisible, wide and look-alike letters as the plain ones.

For comparing only, never for keeping. An order in full-width letters, with a zero-width space in its middle, with
Cyrillic letters among the Latin or in tag characters, which no screen shows, is the same order to a model.
"""

from __future__ import annotations

import unicodedata

# Characters that nobody sees, by first and last.
_UNSEEN = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0xE0000, 0xE001F), (0xE007F, 0xE007F), (0xE0100, 0xE01EF)),
)
_MARKS = (0x300, 0x36F)  # accents, once letters are taken apart
_TAGS = (0xE0020, 0xE007E)  # ASCII that is not shown
_LIKE_LATIN = dict(
    zip(
        "аеорсухіјѕһԁԛԝкмтвнАЕОРСУХІЈЅНКМТВαοινρυκτΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡℓ",
        "aeopcyxijshdqwkmtbhAEOPCYXIJSHKMTBaoivpuktABEZHIKMNOPTYXigl",
        strict=True,
    )
)
_TABLE: dict[int, str | None] = {
    **{code: None for first, last in (*_UNSEEN, _MARKS) for code in range(first, last + 1)},
    **{code: chr(code - 0xE0000) for code in range(_TAGS[0], _TAGS[1] + 1)},
    **{ord(like): plain for like, plain in _LIKE_LATIN.items()},
    0x2028: "\n",
    0x2029: "\n",
    0x85: "\n",
}
_LINE_ENDS = str.maketrans("\r\v\f\x1c\x1d\x1e", "\n\n\n\n\n\n")


def as_read(said: str) -> str:
    """The text in plain letters."""
    if not said.isascii():
        taken_apart = unicodedata.normalize("NFKD", said.translate(_TABLE)).translate(_TABLE)
        said = unicodedata.normalize("NFC", taken_apart)
    return said.translate(_LINE_ENDS)
