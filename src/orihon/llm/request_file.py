"""A request, made file to file: the lines of a view, what is put round them, and ``request.json``.

``request.json`` lies in the task's folder, for its owner only, while a call is in flight; what a crash leaves is swept
by ``orihon doctor``. While another process has one, as may be for a moment after it lost the task, it gets a name of
its own. Whatever the size of the view, a block or a line of it is in memory, never more.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore
from orihon.system import jsonio
from orihon.system.files import new_unfinished, open_private, wrapping
from orihon.values.message.provider_shapes import is_prompt, opened_by_user

NAME = "request.json"
_BLOCK = 1 << 16
_ROLE = re.compile(rb'\{"role":"([a-z]+)",')


class ViewLines:
    """A view: one OpenAI chat message per line, from the first on each time that it is asked for."""

    def __init__(self, lines: Callable[[], Iterator[bytes]]) -> None:
        self.lines = lines

    def joined(self) -> Iterator[bytes]:
        """The messages as the inside of a JSON list, in blocks."""
        return separated(self.lines())


class FileLines(ViewLines):
    """A view that lies in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(self._lines)
        self._path = path

    def _lines(self) -> Iterator[bytes]:
        with wrapping(self._path), self._path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\n")

    def joined(self) -> Iterator[bytes]:
        """A JSON text on one line has no raw line feed, so each of them ends a message: no line is looked at."""
        held = b""
        with wrapping(self._path), self._path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                yield held
                held = b"," if block.endswith(b"\n") else b""
                yield block[: len(block) - len(held)].replace(b"\n", b",")


def list_lines(messages: Iterable[Mapping[str, Any]]) -> ViewLines:
    """A view that is held in memory."""
    return ViewLines(lambda: map(jsonio.encode, messages))


def instructed_lines(view: ViewLines, instructions: str) -> ViewLines:
    """A view with something more in its system prompt."""

    def lines() -> Iterator[bytes]:
        rest = view.lines()
        first = next(rest, None)
        message = None if first is None else read_line(first)
        if message is not None and is_prompt(message) and isinstance(message["content"], str):
            yield jsonio.encode({**message, "content": f"{message['content']}\n\n{instructions}"})
        else:
            yield jsonio.encode({"role": "system", "content": instructions})
            yield from [] if first is None else [first]
        yield from rest

    return ViewLines(lines)


def view_with_user(view: ViewLines) -> ViewLines:
    """The view as every request has it: somebody speaks in it."""
    if any(map(_is_users, view.lines())):
        return view
    return ViewLines(lambda: map(jsonio.encode, opened_by_user(messages_of(view))))


def _is_users(line: bytes) -> bool:
    """Whether a user says it. Nearly always the role comes first: then a long message is not taken apart for it."""
    role = _ROLE.match(line)
    return (read_line(line)["role"] if role is None else role[1].decode()) == "user"


def read_line(line: bytes) -> dict[str, Any]:
    """The message on a line of a view."""
    try:
        message: dict[str, Any] = jsonio.decode(line)
        message["role"], message["content"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedStore("record", stream="current", where=NAME, start=line[:40]) from error
    return message


def messages_of(view: ViewLines) -> Iterator[dict[str, Any]]:
    """The messages of a view, one at a time."""
    return map(read_line, view.lines())


def separated(values: Iterable[bytes]) -> Iterator[bytes]:
    """JSON values with commas between them."""
    comma = b""
    for value in values:
        yield comma
        yield value
        comma = b","


def body(fields: Mapping[str, Any], lists: Sequence[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """A JSON object: small fields, then lists whose insides come in pieces."""
    yield jsonio.encode(fields)[:-1]
    for name, inside in lists:
        yield b',"%s":[' % name.encode()
        yield from inside
        yield b"]"
    yield b"}"


@contextmanager
def request_file(folder: Path, pieces: Iterable[bytes]) -> Iterator[Path]:
    """``request.json`` with these pieces, gone at the end of the block."""
    with wrapping(folder / NAME):
        path, fd = _own_file(folder)
    try:
        with wrapping(path), os.fdopen(fd, "wb", buffering=_BLOCK, closefd=False) as file:
            file.writelines(pieces)
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(fd)


def _own_file(folder: Path) -> tuple[Path, int]:
    """An empty file that nobody else uses: who uses one has locked it."""
    path = folder / NAME
    fd = open_private(path, os.O_WRONLY | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:  # its user has not just removed it
            os.ftruncate(fd, 0)
            return path, fd
    except BlockingIOError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return new_unfinished(path)
