"""Which tool call ids a task has used: a small filter of fixed size.

It answers "surely new" or "perhaps seen"; the caller then looks into the log. Memory does not grow with the history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

_BITS = 1 << 19
_HASHES = 4


class CallIds:
    """A Bloom filter over tool call ids: 64 KiB, about 1 % doubt after 50,000 ids."""

    def __init__(self, state: bytes | None = None) -> None:
        self._bits = bytearray(state) if state is not None and len(state) * 8 == _BITS else bytearray(_BITS // 8)

    def add(self, call_id: str) -> None:
        for bit in _positions(call_id):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def perhaps_has(self, call_id: str) -> bool:
        return all(self._bits[bit >> 3] & (1 << (bit & 7)) for bit in _positions(call_id))

    def state(self) -> bytes:
        return bytes(self._bits)


def _positions(call_id: str) -> Iterator[int]:
    digest = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=4 * _HASHES).digest()
    for start in range(0, len(digest), 4):
        yield int.from_bytes(digest[start : start + 4], "big") % _BITS
