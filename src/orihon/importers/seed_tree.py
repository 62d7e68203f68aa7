"""The tree of the first design: ``logs/contexts/{source}/{owner}/{repo}/{type}_{id}/context.db``.

Each database is one task; its place says which. A summary folds what came before its end, as that design showed it. The
database is only read, and may be in use. Of a database that anybody may have made, plain tables are read only.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_KNOWN = ("tool_calls", "tool_call_id", "name", "tool_name")


class SeedTree(Importer):
    """The reader of such databases."""

    name = "seed-tree"

    def recognises(self, head: bytes, path: Path) -> bool:
        return head.startswith(_MAGIC) and _MARK in head and b"token_count" in head

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        try:
            with reading_tables(path, "metadata", "messages", "summaries", "tool_calls") as connection:
                yield from _read(connection, path)
        except apsw.Error as error:
            yield Problem("schema", fields={"detail": str(error)})

    def ignores(self, path: Path) -> bool:
        return path.name in (f"{_NAME}-wal", f"{_NAME}-shm")


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
    summaries, tools = _rows(connection, "summaries"), _rows(connection, "tool_calls")
    summary, tool = next(summaries, None), next(tools, None)
    for row in _rows(connection, "messages"):
        seq = row[0]
        while summary is not None and _before(summary[0], seq):
            yield TranscriptEvent(thread.id, CompactionItem(words(summary[1]), timestamp=_time(summary[2])), seq)
            summary = next(summaries, None)
        yield _said(row, thread.id)
        while tool is not None and not _before(seq, tool[0]):
            yield TranscriptEvent(thread.id, _tool(tool), seq)
            tool = next(tools, None)
    while summary is not None:
        yield TranscriptEvent(thread.id, CompactionItem(words(summary[1]), timestamp=_time(summary[2])))
        summary = next(summaries, None)


def _rows(connection: apsw.Connection, name: str) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(statements("orihon.importers", "seed_tree.sql")[name].decode())


def _before(one: object, other: object) -> bool:
    return (number(one) or 0) < (number(other) or 0)


def _said(row: tuple[Any, ...], thread: str) -> TranscriptEvent | Problem:
    seq, role, content, moment, metadata = row
    more = fields(_decoded(metadata))
    rest = {key: value for key, value in more.items() if key not in _KNOWN}
    known = role if role in ROLES else "tool" if role == "function" else "user"
    if known != role:
        rest["role"] = role
    try:
        message = shaped(
            known,
            words(content),
            calls=[ToolCall.from_chat(call) for call in objects(more.get("tool_calls"))],
            call_id=words(more.get("tool_call_id")) or None,
            tool_name=words(more.get("tool_name")) or words(more.get("name")) or None,
            rest=rest,
        )
    except InvalidInput as error:
        return Problem("message", seq, {"detail": error.cause})
    return TranscriptEvent(thread, SaidItem(message, _time(moment)), seq)


def _tool(row: tuple[Any, ...]) -> ToolItem:
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
