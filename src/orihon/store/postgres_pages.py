"""Records of a task in the database, brought page by page.

Promises that no connection is kept while the caller thinks, and that a number that is missing is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orihon.errors import DamagedStore
from orihon.store.contract import OPEN_END, StreamRange
from orihon.store.record_check import is_whole

#: Records, and bytes but for the last one, that a round trip brings: more than a view should have, less than a memory.
_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024

#: Place of the run (from 1), number and text of each record.
RecordPage = list[tuple[int, int, str]]

#: Gives the rows of the statement ``read`` for these values.
Ask = Callable[[Mapping[str, object]], list[tuple[Any, ...]]]


def first_page(
    ask: Ask, task: str, runs: Sequence[StreamRange], *, most: int = _PAGE
) -> tuple[tuple[int, int], RecordPage]:
    """How many compressions and messages there are, and the first records of the runs."""
    values = {
        "uuid": task,
        "streams": [stream for stream, _, _ in runs],
        "firsts": [first for _, first, _ in runs],
        # No further than a page reaches: the database sorts all that is in a run before it takes the first of it.
        "lasts": [min(last, first + _PAGE - 1) for _, first, last in runs],
        "page": most,
        "bytes": _PAGE_BYTES,
    }
    head, *rows = ask(values) or [(0, 0, "0")]
    return (head[1], int(head[2])), rows


def records_from(ask: Ask, task: str, runs: Sequence[StreamRange], page: RecordPage, *, where: str) -> Iterator[bytes]:
    """The records of a page and of those that follow it; ``where`` names the task when one is missing."""
    ended: list[StreamRange] = []  # before their last number; where the log ends, or where something is missing
    while True:
        place, expected, size = 0, 0, 0
        for found, number, record in page:
            if found != place:
                ended += _left(runs, place, expected, found)
                place, expected = found, runs[found - 1][1]
            if number != expected:
                stream, _, _ = runs[place - 1]
                raise DamagedStore("line", path=where, number=expected, offset=stream)
            line = record.encode()
            if not is_whole(line):
                raise DamagedStore("check", path=where, stream=runs[place - 1][0], number=number)
            size += len(line)
            yield line
            expected += 1
        if len(page) < _PAGE and size < _PAGE_BYTES:
            ended += _left(runs, place, expected, len(runs) + 1)
            break
        stream, _, last = runs[place - 1]
        runs = [(stream, expected, last), *runs[place:]]
        _, page = first_page(ask, task, runs)
    for stream, number, _ in ended:
        _, page = first_page(ask, task, [(stream, number, OPEN_END)], most=1)
        if page and page[0][1] != number:  # else it was added in this moment
            raise DamagedStore("line", path=where, number=number, offset=stream)


def _left(runs: Sequence[StreamRange], place: int, expected: int, found: int) -> Iterator[StreamRange]:
    """What was not found of the runs before ``found``, of which ``place`` was the last to be seen."""
    if place and expected <= runs[place - 1][2] < OPEN_END:
        yield runs[place - 1][0], expected, runs[place - 1][2]
    yield from (run for run in runs[place : found - 1] if run[1] <= run[2] < OPEN_END)
