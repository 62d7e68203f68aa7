"""Reading a stream that may be damaged: every record that can be read, and a finding for each that cannot.

And what the audit attests of the streams, made again from their first records on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from orihon.audit.verify import Attested
from orihon.errors import DamagedStore, OrihonError
from orihon.store.contract import NUMBER_FIELD, STREAMS, RecordStore, Stream
from orihon.store.reader import Record
from orihon.store.record_check import StreamHead, decode_record
from orihon.store.record_codec import unpack_record
from orihon.tasks.verify.findings import Finding, Report

_Made = TypeVar("_Made")

_TO_THE_END = (1 << 62) - 1
#: From then on a stream counts as unreadable: nobody reads a thousand findings of one kind.
_MOST_BROKEN = 20


def records_of(records: RecordStore, stream: Stream, report: Report) -> Iterator[tuple[int, Record | None]]:
    """Numbers and records in order; ``None`` for one that cannot be read, which is reported."""
    number, broken = 1, 0
    while True:
        try:
            for line in records.read(stream, (number, _TO_THE_END)):
                record = _decoded(line, stream, number)
                if record is None:
                    broken += 1
                    report(Finding("stream", "record", f"{stream} {number}", fields={"start": ascii(line[:40])}))
                yield number, record
                number += 1
            return
        except DamagedStore as error:
            broken += 1
            where, why = f"{stream} {number}", error.cause
            if error.fields.get("number") != number or broken > _MOST_BROKEN:
                report(Finding("stream", "unreadable", where, fields={"why": why}))
                yield number, None
                return
            report(Finding("stream", "check" if error.reason == "check" else "line", where, fields={"why": why}))
            yield number, None
            number += 1


def check_other_streams(records: RecordStore, report: Report) -> None:
    """Tool calls, plans and checkpoints: numbered without gaps, readable, their blobs whole."""
    streams: tuple[Stream, ...] = ("tools", "planning", "checkpoints")
    for stream in streams:
        for number, record in records_of(records, stream, report):
            if record is not None:
                made_of(partial(unpack_record, record, records.get_blob), f"{stream} {number}", report)


def made_of(make: Callable[[], _Made], where: str, report: Report) -> _Made | None:
    """What ``make`` makes of a record; ``None``, with a finding, when the record or its blob does not allow it."""
    try:
        return make()
    except DamagedStore as error:
        report(Finding("stream", "blob", where, fields={"why": error.cause}))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # a record of the wrong shape
        why = error.cause if isinstance(error, OrihonError) else f"{type(error).__name__}: {error}"
        report(Finding("stream", "fields", where, fields={"why": why}))
    return None


def _decoded(line: bytes, stream: Stream, number: int) -> Record | None:
    try:
        record = decode_record(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get(NUMBER_FIELD[stream]) == number else None


def check_attested(records: RecordStore, attested: Attested, report: Report) -> None:
    """Does every stream say what the audit attests, each time? Records that cannot be read are reported elsewhere."""
    if attested.broken:
        report(Finding("chain", "audit", "audit", fields={"count": attested.broken}))
    for stream in STREAMS:
        heads = [
            (one.time, head) for one in attested.attestations if (head := StreamHead.from_list(one.heads.get(stream)))
        ]
        _check_heads(records, stream, heads, attested.redacted_at, report)


def _check_heads(
    records: RecordStore, stream: Stream, heads: list[tuple[str, StreamHead]], redacted_at: str, report: Report
) -> None:
    newest = max(heads, default=("", StreamHead()), key=lambda one: one[0])
    present = StreamHead()
    for time, head in sorted(heads, key=lambda one: one[1].count):
        first = present.count + 1
        try:
            present = present.after(records.read(stream, (first, head.count)))
        except DamagedStore:
            return
        where, known = f"{stream} {head.count}", {"time": time, "count": present.count}
        if present.count < head.count:
            report(Finding("chain", "cut", where, fields={**known, "attested": head.count}))
            return
        if present.chain != head.chain:
            report(Finding("chain", "changed", where, fields={**known, "first": min(first, head.count)}))
            return
        if (time, head) == newest and time > redacted_at and present.redacted != head.redacted:
            report(Finding("chain", "redacted", where, fields=known))
