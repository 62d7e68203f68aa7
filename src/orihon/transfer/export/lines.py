"""JSON Lines for programs: a task complete, its log as chat messages, and what was sealed in pieces that stay sealed.

``json_lines`` is for ``orihon import`` and for other programs, record by record as it is stored. The first line is
``{"orihon_export": 1, "task": …, "contents": …}``: the task's row and how much of everything follows. Then one line for
each large content (``{"blob": sha256, "base64": …}``), each file (``{"file": name, "base64": …}``) and each record
(``{"stream": name, "record": …}``). Contents come before the records that mention them.

``seal_lines`` makes of that pieces which only the master key opens again (``open_lines``). The first line is
``{"orihon_export": 2, "sealed": …}``: a data key made for this export, wrapped by the master key. Then one line for
each piece, ``{"piece": number, "sealed": …}``; opened and put together they are the plain export. The number of a
piece, and whether it is the last one, are part of what was sealed: a piece that was changed, moved or taken away does
not go unnoticed.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from orihon.catalogue.metadata import key_in, read_metadata
from orihon.errors import DamagedStore
from orihon.guard.keys import DataKeys, KeyDocument
from orihon.system import jsonio
from orihon.transfer.export.story import OpenTask

VERSION = 1
#: What a row knows about the machine and the moment, not about the task.
_PASSING = frozenset(
    {"process_id", "hostname", "epoch", "claimed", "attempts", "requested", "available_at", "retry_due", "retry_boot"}
)
SEALED_VERSION = 2
_PIECE_BYTES = 256 << 10
_PLACE, _LAST_PLACE = "export", "end of export"


def json_lines(task: OpenTask) -> Iterator[bytes]:
    """The lines, each with its line feed."""
    records = task.records
    blobs, files = records.blob_digests(), records.kept_files()
    task.check_here()  # in a folder that has just moved away, there seem to be none
    contents = {"blobs": len(blobs), "files": len(files), **{str(name): last for name, last in task.lasts.items()}}
    yield _line({"orihon_export": VERSION, "task": _about(task), "contents": contents})
    for digest in blobs:
        yield _line({"blob": digest, "base64": _encoded(records.get_blob(digest))})
    for name in files:
        kept = records.kept_file(name)
        if kept is None:
            task.check_here()
        yield _line({"file": name, "base64": _encoded(kept or b"")})
    for stream, last in task.lasts.items():
        for record in records.read(stream, (1, last)) if last else ():
            # As it is stored, byte for byte: encoding it anew could only change it.
            yield b'{"stream":"%s","record":%s}\n' % (stream.encode(), record)


def _about(task: OpenTask) -> dict[str, Any]:
    """The row; where there is none, what the task's folder knows."""
    if task.row is not None:
        fields = dataclasses.asdict(task.row) | {"status": task.row.status.value}
        return {name: fields[name] for name in fields if not name.startswith("lease_") and name not in _PASSING}
    metadata = read_metadata(task.records) or {}
    key = key_in(metadata)
    known = {} if key is None else {**key.as_dict(), "user": key.user}
    return {"uuid": task.uuid, **known, "created_at": metadata.get("created_at")}


def _line(value: Mapping[str, Any]) -> bytes:
    return jsonio.encode(value) + b"\n"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def chat_lines(task: OpenTask) -> Iterator[bytes]:
    """The lines, each with its line feed. Folds are left out: the log has everything that they stand for."""
    last = task.lasts["messages"]
    for stored in task.store.messages(1, last) if last else ():
        yield jsonio.encode(stored.message.to_chat()) + b"\n"


def seal_lines(lines: Iterator[bytes], keys: DataKeys, task: str) -> Iterator[bytes]:
    """The lines of a sealed export of these lines."""
    document, sealer = keys.key_for_export(task)
    yield b'{"orihon_export":%d,"sealed":%s}\n' % (SEALED_VERSION, document.encode())
    number = 0
    held = bytearray()
    for line in lines:
        held += line
        while len(held) > _PIECE_BYTES:  # something stays: the last piece is known to be the last
            number += 1
            yield _piece_line(number, sealer.seal(_PLACE, number, bytes(held[:_PIECE_BYTES])))
            del held[:_PIECE_BYTES]
    yield _piece_line(number + 1, sealer.seal(_LAST_PLACE, number + 1, bytes(held)))


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


def _piece_line(number: int, sealed: bytes) -> bytes:
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
