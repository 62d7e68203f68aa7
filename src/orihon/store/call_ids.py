"""Which tool call ids a task has used: a small filter of fixed size.

It answers "surely new" or "perhaps seen"; the caller then looks into the log. Memory does not grow with the history.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib

_BITS = 1 << 19
_HASHES = 4
_NUMBERS = struct.Struct(f">{_HASHES}I")


class CallIds:
    """A Bloom filter over tool call ids: 64 KiB, about 1 % doubt after 50,000 ids."""

    def __init__(self) -> None:
        self._bits = bytearray(_BITS // 8)

    @classmethod
    def from_text(cls, text: str) -> CallIds:
        """The filter that ``as_text`` wrote."""
        filled = cls()
        filled._bits[:] = zlib.decompress(base64.b64decode(text))
        return filled

    def as_text(self) -> str:
        """The whole filter; short while few ids are in it."""
        return base64.b64encode(zlib.compress(self._bits, 1)).decode()

    def add(self, call_id: str) -> None:
        for bit in _positions(call_id):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def perhaps_has(self, call_id: str) -> bool:
        return all(self._bits[bit >> 3] & (1 << (bit & 7)) for bit in _positions(call_id))

    def covers(self, other: CallIds) -> bool:
        """Does it know every id that the other one knows?"""
        # As two numbers: comparing byte by byte would take most of the time of ``verify``.
        mine, theirs = int.from_bytes(self._bits), int.from_bytes(other._bits)
        return mine & theirs == theirs


def _positions(call_id: str) -> list[int]:
    digest = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=4 * _HASHES).digest()
    return [number % _BITS for number in _NUMBERS.unpack(digest)]
