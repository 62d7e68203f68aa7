"""The tree of the first design: ``logs/contexts/{source}/{owner}/{repo}/{type}_{id}/context.db``.

Each database is one task; its place says which. A summary folds what came before its end, as that design showed it. Its
results of tools name no call: the row of the call that belongs to a message says which tool it was, and the answer
before it what was asked (``function_call``). The database is only read, and may be in use; what its own maintenance has
packed (``context.db.gz``) is unpacked beside, up to a limit, and read there. Of a database that anybody may have made,
plain tables are read only.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw

from orihon.drivers.postgres import statements
from orihon.errors import InvalidInput
from orihon.importers.lines import reading_tables
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    Problem,
    SaidItem,
    Thread,
    ToolItem,
    TranscriptEvent,
    TranscriptPart,
)
from orihon.importers.shapes import fields, number, objects, title, when, words
from orihon.importers.shapes import message as shaped
from orihon.system import jsonio
from orihon.values.message.message import ROLES, ToolCall
from orihon.values.task import TaskKey

_NAME = "context.db"
_MAGIC = b"SQLite format 3\0"
#: The table of messages as no other design has it.
_MARK = b"is_summarized"
#: Words in a message's metadata that a message has its own places for.
_KNOWN = ("tool_calls", "tool_call_id", "name", "tool_name", "function_call")
_TABLES = ("metadata", "messages", "summaries", "tool_calls")
_PACKED = f"{_NAME}.gz"
_GZIP = b"\x1f\x8b"
_MOST_UNPACKED = 1 << 30  # bytes: a small file may stand for a very large one
_PIECE = 1 << 20


class SeedTree(Importer):
    """The reader of such databases."""

    name = "seed-tree"

    def recognises(self, head: bytes, path: Path) -> bool:
        if path.name == _PACKED and head.startswith(_GZIP):
            head = _beginning(head)
        return head.startswith(_MAGIC) and _MARK in head and b"token_count" in head

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        try:
            if path.name == _PACKED:
                with tempfile.TemporaryDirectory(prefix="orihon-") as folder:
                    plain = Path(folder) / _NAME
                    _unpack(path, plain)
                    with reading_tables(plain, *_TABLES) as connection:
                        yield from _read(connection, path)
                return
            with reading_tables(path, *_TABLES) as connection:
                yield from _read(connection, path)
        except (apsw.Error, OSError, EOFError, zlib.error) as error:
            yield Problem("schema", fields={"detail": str(error)})

    def ignores(self, path: Path) -> bool:
        return path.name in (f"{_NAME}-wal", f"{_NAME}-shm")


def _beginning(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(packed, _PIECE)
    except zlib.error:
        return b""


def _unpack(packed: Path, plain: Path) -> None:
    """Into a file of ours, which is gone afterwards; ``OSError`` when it becomes too large."""
    size = 0
    with gzip.open(packed) as source, plain.open("xb") as target:
        while piece := source.read(_PIECE):
            size += target.write(piece)
            if size > _MOST_UNPACKED:
                raise OSError(f"{packed.name}: more than {_MOST_UNPACKED >> 20} MB")


def _read(connection: apsw.Connection, path: Path) -> Iterator[TranscriptPart]:
    key = key_from(path)
    about = dict(_rows(connection, "metadata"))
    first = next(_rows(connection, "first_prompt"), None)
    thread = Thread(
        id="/".join(path.absolute().parts[-5:-1]),
        title=title(first[0]) if first else "",
        created_at=_time(about.get("created_at")),
        key=key,
        about={str(name): value for name, value in about.items() if isinstance(value, str)},
    )
    yield thread
    summaries, tools = _rows(connection, "summaries"), _tool_rows(connection)
    summary, tool = next(summaries, None), next(tools, None)
    waiting: list[ToolCall] = []  # for their results
    for row in _rows(connection, "messages"):
        seq = row[0]
        while summary is not None and _before(summary[0], seq):
            yield TranscriptEvent(thread.id, CompactionItem(words(summary[1]), timestamp=_time(summary[2])), seq)
            summary = next(summaries, None)
        made: list[tuple[Any, ...]] = []
        while tool is not None and not _before(seq, tool[0]):
            made += tool[1]
            tool = next(tools, None)
        said, call_id = _said(row, thread.id, waiting, made)
        yield said
        for index, one in enumerate(made):
            yield TranscriptEvent(thread.id, _tool(one, call_id if index == 0 else None), seq)
    while summary is not None:
        yield TranscriptEvent(thread.id, CompactionItem(words(summary[1]), timestamp=_time(summary[2])))
        summary = next(summaries, None)


def _rows(connection: apsw.Connection, name: str) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(statements("orihon.importers", "seed_tree.sql")[name].decode())


def _tool_rows(connection: apsw.Connection) -> Iterator[tuple[Any, list[tuple[Any, ...]]]]:
    """The calls that belong to one message after the other."""
    for message, rows in groupby(_rows(connection, "tool_calls"), key=lambda row: row[0]):
        yield message, list(rows)


def _before(one: object, other: object) -> bool:
    return (number(one) or 0) < (number(other) or 0)


def _said(
    row: tuple[Any, ...], thread: str, waiting: list[ToolCall], made: Sequence[tuple[Any, ...]]
) -> tuple[TranscriptEvent | Problem, str | None]:
    """The message, and the call that it is the result of. ``made``: the calls that belong to it."""
    seq, role, content, moment, metadata = row
    more = fields(_decoded(metadata))
    rest = {key: value for key, value in more.items() if key not in _KNOWN}
    known = role if role in ROLES else "tool" if role == "function" else "user"
    if known != role:
        rest["role"] = role
    try:
        calls = [ToolCall.from_chat(call) for call in objects(more.get("tool_calls"))] or _asked(more, seq)
        tool = words(more.get("tool_name")) or words(more.get("name")) or (words(made[0][1]) if made else "") or None
        call_id = words(more.get("tool_call_id")) or None
        if known == "tool" and call_id is None:
            call_id = _answered(waiting, tool) or f"call_{seq}"
        message = shaped(known, words(content), calls=calls, call_id=call_id, tool_name=tool, rest=rest)
    except InvalidInput as error:
        return Problem("message", seq, {"detail": error.cause}), None
    waiting += calls
    return TranscriptEvent(thread, SaidItem(message, _time(moment)), seq), call_id


def _asked(more: Mapping[str, Any], seq: int) -> list[ToolCall]:
    """The one call of an answer, in the old form."""
    function = fields(more.get("function_call"))
    name, arguments = words(function.get("name")), function.get("arguments")
    written = arguments if isinstance(arguments, str) else jsonio.encode(arguments or {}).decode()
    return [ToolCall(f"call_{seq}", name, written)] if name else []


def _answered(waiting: list[ToolCall], tool: str | None) -> str | None:
    """The oldest call of that tool that waits for its result."""
    found = next((call for call in waiting if tool is None or call.name == tool), None)
    if found is None:
        return None
    waiting.remove(found)
    return found.id


def _tool(row: tuple[Any, ...], call_id: str | None) -> ToolItem:
    _, name, arguments, result, duration, status, error, moment = row
    asked = _decoded(arguments)
    spent = number(duration)
    return ToolItem(
        words(name),
        arguments=asked if isinstance(asked, dict) else {"unreadable": words(arguments)},
        result=_decoded(result),
        error=words(error) or None,
        status=words(status) or None,
        duration_ms=None if spent is None else float(spent),
        timestamp=_time(moment),
        call_id=call_id,
    )


def _decoded(written: object) -> Any:
    try:
        return jsonio.decode(written) if isinstance(written, str) else None
    except ValueError:
        return written


def _time(value: object) -> str | None:
    """SQLite's own times have a space in the middle and are UTC."""
    return when(value.replace(" ", "T") if isinstance(value, str) else value)


def key_from(path: Path) -> TaskKey | None:
    """The task whose database this is, by its place in the tree."""
    parts = path.absolute().parts[-5:-1]
    if len(parts) < 4:
        return None
    source, owner, repo, task = parts
    kind, _, name = task.rpartition("_")
    try:
        return TaskKey(source, owner, repo, kind, name)
    except InvalidInput:
        return None
