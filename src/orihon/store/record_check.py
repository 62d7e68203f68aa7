"""The check of a record: ``{"seq":4,"crc32":"9a0b3c4d",…``, the CRC-32 of all its other bytes.

Looked at whenever a record is read, so that what a disk has changed is damage and never data. It costs next to nothing,
unlike the digest of a message, which proves to others what was said. It stands in front, before fields without which a
record cannot be used: whatever part of a record is lost, either the check is still there or they are not. Records that
were written before there was a check have none; they have to be JSON at least.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

from orihon.store.contract import Pieces
from orihon.system import jsonio

FIELD = "crc32"
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
