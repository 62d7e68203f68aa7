"""Output of tools that is longer than a model should be given at once.

``cut_in_the_middle`` keeps head and tail at line ends; ``KeptOutputs`` keeps the whole text, masked, with the
task as ``outputs/…``, from where ``context_read`` gives any lines of it back. ``excerpt`` takes some
lines of a text without having the rest in memory. All three promise never to give more than the limit they are told.
"""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from orihon.errors import ToolFailed
from orihon.store import MessageStore
from orihon.texts import text

FOLDER = "outputs"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}\.txt")
_NOTE_BYTES = 512  # room for the line that says what is missing
_LONGEST_LINE = 1 << 16  # characters of one line that are read at once


def cut_in_the_middle(content: str, limit: int, note: Callable[[int], str]) -> str:
    """Head and tail with ``note(missing lines)`` between them, at most ``limit`` bytes."""
    raw = content.rstrip("\n").encode(errors="replace")
    half = max((limit - _NOTE_BYTES) // 2, 0)
    head, tail = _head(raw, half), _tail(raw, half)
    missing = raw[len(head) : len(raw) - len(tail)].strip(b"\n")
    return "\n".join(
        piece.decode(errors="ignore").strip("\n") for piece in (head, note(missing.count(b"\n") + 1).encode(), tail)
    )


def _head(raw: bytes, size: int) -> bytes:
    """The first bytes up to the end of a line; in the middle of a line when that is longer than all of them."""
    end = raw.rfind(b"\n", 0, size) + 1
    return raw[: end or size]


def _tail(raw: bytes, size: int) -> bytes:
    start = raw.find(b"\n", len(raw) - size) + 1 if size else len(raw)
    return raw[start or len(raw) - size :]


class KeptOutputs:
    """``outputs/`` of one task."""

    def __init__(self, messages: MessageStore) -> None:
        self._messages = messages

    def masked(self, content: str) -> str:
        """The text as it may touch the disk."""
        redactor = self._messages.task_store.redactor
        return redactor.mask(content) if redactor.enabled else content

    def keep(self, tool: str, content: str) -> str:
        """Keep a masked text; returns the name to read it back by."""
        name = f"{tool}-{secrets.token_hex(4)}.txt"
        self._messages.task_store.records.keep_file(f"{FOLDER}/{name}", content.encode(errors="replace"))
        return name

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a kept text. Only names that ``keep`` gives are looked for."""
        bare = name.removeprefix(f"{FOLDER}/")
        is_name = _NAME.fullmatch(bare) is not None
        kept = self._messages.task_store.records.kept_file(f"{FOLDER}/{bare}") if is_name else None
        if kept is None:
            raise ToolFailed("no_output", name=name)
        return _lines_of(kept.decode(errors="replace"))


def _lines_of(content: str) -> Iterator[str]:
    """The lines of a text, one at a time; a very long one comes in pieces."""
    file = io.StringIO(content, newline="\n")
    while line := file.readline(_LONGEST_LINE):
        yield line.removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a text."""

    lines: tuple[str, ...]
    first: int
    is_cut: bool  # the limit was reached before the last line that was asked for

    def told(self) -> str:
        """The lines, and how to get the next ones."""
        body = "\n".join(self.lines)
        if not self.is_cut:
            return body
        last = self.first + len(self.lines) - 1
        return f"{body}\n{text('tools.more_lines', first=self.first, last=last, next=last + 1)}"


def excerpt(lines: Iterable[str], first: int, last: int | None, limit: int) -> Excerpt:
    """Lines ``first`` to ``last`` as far as ``limit`` bytes reach; at least a part of the first one."""
    room = limit - _NOTE_BYTES
    taken: list[str] = []
    for number, line in enumerate(lines, start=1):
        if number < first:
            continue
        if last is not None and number > last:
            break
        size = len(line.encode(errors="replace")) + 1
        if size > room:
            if not taken:
                taken.append(line.encode(errors="replace")[: max(room, 0)].decode(errors="ignore"))
            return Excerpt(tuple(taken), first, is_cut=True)
        taken.append(line)
        room -= size
    return Excerpt(tuple(taken), first, is_cut=False)
