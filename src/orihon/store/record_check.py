"""The check of a record: ``{"seq":4,"crc32":"9a0b3c4d",…``, the CRC-32 of all its other bytes.

Looked at whenever a record is read, so that what a disk has changed is damage and never data. It costs next to nothing,
unlike the digest of a message, which proves to others what was said. It stands in front, before fields without which a
record cannot be used: whatever part of a record is lost, either the check is still there or they are not. Records that
were written before there was a check have none; they have to be JSON at least.

``StreamHead``: what a stream says up to some record, in one hash that each record adds to. Over all bytes of a record
but its check, so that it is the same in every back end, sealed or not. A record that was redacted counts as what it was
before, which it keeps as a hash: so the chain goes on through redactions, and a second hash, over what redacted records
say now, tells whether they are still what the redaction has made of them.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orihon.store.contract import Pieces
from orihon.system import jsonio

FIELD = "crc32"
#: The field of a record that says that something was taken out of it; in it, what the record was before.
REDACTED = "redacted"
LEAF = "leaf"
_NAME = b'"%s":"' % FIELD.encode()
_DIGITS = 8
_SIZE = len(_NAME) + _DIGITS + 2
#: How a record without a check begins; what might be left of the name of one does not count.
_OLD = re.compile(rb'\{"(?:seq|id)":[0-9]+(?:,"(?![cr]+")[a-z_]+":|\})')


def with_check(head: bytes, *rest: bytes | memoryview) -> Pieces:
    """A record in pieces, of which the first ends with the comma after its number, with its check."""
    check = zlib.crc32(head)
    for piece in rest:
        check = zlib.crc32(piece, check)
    return (b'%s%s%08x",' % (head, _NAME, check), *rest)


def checked(record: bytes) -> bytes:
    """A record, which has no check yet, with one."""
    place = record.index(b",") + 1
    return b"".join(with_check(record[:place], memoryview(record)[place:]))


def has_check(line: bytes) -> bool:
    """Was this record written with a check?"""
    return line.startswith(_NAME, line.find(b",") + 1)


def is_whole(line: bytes) -> bool:
    """Is this record what was written? One without a check: can it be what was written?"""
    place = line.find(b",") + 1
    end = place + _SIZE
    check = b'%08x",' % zlib.crc32(memoryview(line)[end:], zlib.crc32(line[:place]))
    fits = line[end - _DIGITS - 2 : end] == check
    if line.startswith(_NAME, place):
        return fits
    # The right digits where a check has its own: only the name before them was changed.
    return not fits and _OLD.match(line) is not None and _is_old(line)


def leaf_of(line: bytes) -> str:
    """The hash that stands for a record: for a redacted one, that of what it was."""
    was = (_redacted(line) or {}).get(LEAF)
    return was if isinstance(was, str) and _HASH.fullmatch(was) else _hash(line).hex()


def _hash(line: bytes) -> bytes:
    place = line.find(b",") + 1
    if not line.startswith(_NAME, place):
        return hashlib.sha256(line).digest()
    hasher = hashlib.sha256(line[:place])
    hasher.update(memoryview(line)[place + _SIZE :])
    return hasher.digest()


def _redacted(line: bytes) -> dict[str, Any] | None:
    """What the record says of what was taken out of it."""
    noted = decode_record(line).get(REDACTED) if b'"redacted":' in line else None
    return noted if isinstance(noted, dict) else None


_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StreamHead:
    """A stream up to its record ``count``: all that was ever in it, and what its redacted records say now."""

    count: int = 0
    chain: str = "0" * 64
    redacted: str = ""

    def after(self, lines: Iterable[bytes]) -> StreamHead:
        """The head when these records have followed."""
        count, chain, redacted = self.count, bytes.fromhex(self.chain), self.redacted
        for line in lines:
            count += 1
            leaf = _hash(line)
            if _redacted(line) is not None:
                redacted = hashlib.sha256(f"{redacted}{count} {leaf.hex()}".encode()).hexdigest()
                leaf = bytes.fromhex(leaf_of(line))
            chain = hashlib.sha256(chain + leaf).digest()
        return StreamHead(count, chain.hex(), redacted)

    @classmethod
    def from_list(cls, fields: Any) -> StreamHead | None:
        """What ``as_list`` gave; ``None`` for anything else."""
        match fields:
            case [int(count), str(chain), str(redacted)] if count >= 0 and _HASH.fullmatch(chain):
                return cls(count, chain, redacted)
        return None

    def as_list(self) -> list[int | str]:
        return [self.count, self.chain, self.redacted]


def decode_record(line: bytes) -> Any:
    """What a record says, without its check."""
    record = jsonio.decode(line)
    if isinstance(record, dict):
        record.pop(FIELD, None)
    return record


def _is_old(line: bytes) -> bool:
    try:
        record = jsonio.decode(line)
    except ValueError:
        return False
    return isinstance(record, dict) and FIELD not in record
