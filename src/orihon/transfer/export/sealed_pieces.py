"""What was sealed leaves Orihon sealed: an export in JSON Lines as pieces that only the master key opens again.

The first line is ``{"orihon_export": 2, "sealed": …}``: a data key made for this export, wrapped by the master key.
Then one line for each piece, ``{"piece": number, "sealed": …}``; opened and put together they are the plain export. The
number of a piece, and whether it is the last one, are part of what was sealed: a piece that was changed, moved or taken
away does not go unnoticed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from orihon.errors import DamagedStore
from orihon.guard.encryption.keys import DataKeys, KeyDocument
from orihon.system import jsonio

VERSION = 2
_PIECE_BYTES = 256 << 10
_PLACE, _LAST_PLACE = "export", "end of export"


def seal_lines(lines: Iterator[bytes], keys: DataKeys, task: str) -> Iterator[bytes]:
    """The lines of a sealed export of these lines."""
    document, sealer = keys.key_for_export(task)
    yield b'{"orihon_export":%d,"sealed":%s}\n' % (VERSION, document.encode())
    number = 0
    held = bytearray()
    for line in lines:
        held += line
        while len(held) > _PIECE_BYTES:  # something stays: the last piece is known to be the last
            number += 1
            yield _line(number, sealer.seal(_PLACE, number, bytes(held[:_PIECE_BYTES])))
            del held[:_PIECE_BYTES]
    yield _line(number + 1, sealer.seal(_LAST_PLACE, number + 1, bytes(held)))


def open_lines(lines: Iterator[bytes], sealed: object, keys: DataKeys) -> Iterator[bytes]:
    """The lines of the plain export again; ``sealed`` is what the first line says."""
    document = KeyDocument.decode(jsonio.encode(sealed), _key_id(sealed), _PLACE)
    sealer = keys.opened(document)
    begun: list[bytes] = []  # of a line that goes on in the next piece
    for number, (line, is_last) in enumerate(_with_last(lines), start=1):
        piece = sealer.open(_LAST_PLACE if is_last else _PLACE, number, _sealed_in(line, document.task, number))
        *whole, rest = piece.split(b"\n")
        for end in whole:
            yield b"".join((*begun, end, b"\n"))
            begun = []
        begun.append(rest)
    if any(begun):
        yield b"".join(begun)


def _line(number: int, sealed: bytes) -> bytes:
    return b'{"piece":%d,"sealed":"%s"}\n' % (number, base64.b64encode(sealed))


def _key_id(sealed: object) -> str:
    return str(sealed.get("id")) if isinstance(sealed, dict) else ""


def _with_last(lines: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each line, and whether it is the last one; empty lines are none."""
    held: bytes | None = None
    for line in lines:
        if not line.strip():
            continue
        if held is not None:
            yield held, False
        held = line
    if held is not None:
        yield held, True


def _sealed_in(line: bytes, task: str, number: int) -> bytes:
    try:
        value: Any = jsonio.decode(line)
        return base64.b64decode(value["sealed"], validate=True)
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise DamagedStore("sealed", task=task, place=_PLACE, number=number) from error
