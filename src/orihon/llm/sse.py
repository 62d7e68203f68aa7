"""Server-sent events: the data of each event, from the lines of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The data of every event, in order. Comments, names and ids are left out; an event at the very end counts."""
    data: list[bytes] = []
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is allowed there
        if not line:
            if data:
                yield b"\n".join(data)
                data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    if data:
        yield b"\n".join(data)
