"""A section that a power cut has torn: every part of it that may be on the disk, for every stream.

The task always opens, every acknowledged record is there, the others are whole or gone, and what was cut off is
reported and kept aside. Damage to what was acknowledged is never taken for that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from orihon.errors import DamagedStore
from orihon.store.contract import NUMBER_FIELD, STREAMS, Stream
from orihon.store.files import FilesRecords
from orihon.store.jsonl import CONTINUED
from orihon.store.record_check import checked
from orihon.system.files import make_private_folder
from tests.helpers import refused

ACKNOWLEDGED = 3


def record(stream: Stream, number: int, size: int) -> bytes:
    return checked(b'{"%s":%d,"text":"%s"}' % (NUMBER_FIELD[stream].encode(), number, b"x" * size))


def written(folder: Path, stream: Stream, sizes: Sequence[int]) -> tuple[list[bytes], int]:
    """A writer that acknowledges some records and dies in the section after them: all records, and where it begins."""
    make_private_folder(folder)
    writer = FilesRecords(folder)
    writer.claim(1)
    lines = [record(stream, number, 40) for number in range(1, ACKNOWLEDGED + 1)]
    for number, line in enumerate(lines, start=1):
        with writer.writing():
            writer.append(stream, number, [(line,)])
    start = (folder / f"{stream}.jsonl").stat().st_size
    more = [record(stream, number, size) for number, size in enumerate(sizes, start=ACKNOWLEDGED + 1)]
    with writer.writing():
        writer.append(stream, ACKNOWLEDGED + 1, [(line,) for line in more])
    writer._drop_handles()  # as its end would
    return lines + more, start


def images(whole: bytes, start: int, end: int, page: int) -> Iterator[bytes]:
    """The file with each subset of the pages from ``start`` to ``end``; the others are empty, or hold anything."""
    generator = random.Random(17)
    first = start // page
    places = [(max(start, at * page), min(end, (at + 1) * page)) for at in range(first, (end - 1) // page + 1)]
    for there in product((True, False), repeat=len(places)):
        for filling in (bytes, generator.randbytes, lambda size: b"\n" * size):
            parts = [
                whole[low:high] if kept else filling(high - low)
                for (low, high), kept in zip(places, there, strict=True)
            ]
            yield whole[:start] + b"".join(parts)
        kept_to = max((high for (_, high), kept in zip(places, there, strict=True) if kept), default=start)
        yield (whole[:start] + b"".join(parts))[:kept_to]  # the file may be as long as what has reached the disk


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("sizes", "page"), [((1800,), 512), ((14_000,), 4096), ((200, 300, 400, 100), 512)])
def test_whatever_is_left_of_the_last_section(tmp_path: Path, stream: Stream, sizes: Sequence[int], page: int) -> None:
    folder = tmp_path / "task"
    lines, start = written(folder, stream, sizes)
    path = folder / f"{stream}.jsonl"
    whole = path.read_bytes()
    last = len(whole) - len(lines[-1]) - 1
    assert whole[start:last].count(CONTINUED) == len(sizes) - 1
    possible = [*images(whole, last, len(whole), page), *(images(whole, start, last, page) if last > start else ())]
    settled = (folder / "settled.json").read_bytes()
    assert len(possible) > 30
    for image in possible if stream == "messages" else possible[::9]:
        path.write_bytes(image)
        (folder / "settled.json").write_bytes(settled)
        with closing(FilesRecords(folder)) as reader:
            seen = list(reader.read(stream))
            assert seen in (lines[:ACKNOWLEDGED], lines)
            assert reader.last(stream) == len(seen)
        with closing(FilesRecords(folder)) as writer:
            _, torn = writer.claim()
            cut = image[sum(len(line) + 1 for line in seen) + (len(seen) > ACKNOWLEDGED + 1) * (len(sizes) - 1) :]
            assert [(tail.stream, tail.kept_in.read_bytes()) for tail in torn] == ([(stream, cut)] if cut else [])
            with writer.writing():
                writer.append(stream, len(seen) + 1, [(record(stream, len(seen) + 1, 5),)])
            assert list(writer.read(stream)) == [*seen, record(stream, len(seen) + 1, 5)]
        for kept in (folder / "aside").glob("*"):
            kept.unlink()


@pytest.mark.parametrize("stream", STREAMS)
def test_damage_to_what_was_acknowledged_is_not_cut_off(tmp_path: Path, stream: Stream) -> None:
    folder = tmp_path / "task"
    _, start = written(folder, stream, [50, 50])
    path = folder / f"{stream}.jsonl"
    whole = path.read_bytes()
    # Before a section that was finished, whoever wrote it.
    path.write_bytes(whole[: start - 20] + bytes(10) + whole[start - 10 :])
    with closing(FilesRecords(folder)) as writer:
        assert writer.claim()[1] == []
        with refused(DamagedStore, "check") as caught:
            list(writer.read(stream))
        assert (caught.value.fields["stream"], caught.value.fields["number"]) == (stream, ACKNOWLEDGED)
    # At the very end, after the writer has let go of the task.
    path.write_bytes(whole)
    FilesRecords(folder).close()
    with closing(FilesRecords(folder)) as writer:
        writer.claim()
    for damaged in (whole[:-20] + bytes(10) + whole[-10:], whole[:start] + bytes(len(whole) - start)):
        path.write_bytes(damaged)
        with closing(FilesRecords(folder)) as writer, pytest.raises(DamagedStore):
            assert writer.claim()[1] == []
            list(writer.read(stream))
        assert path.read_bytes() == damaged


def test_without_what_is_known_of_the_disk_one_line_at_most_is_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    lines, start = written(folder, "messages", [50])
    path = folder / "messages.jsonl"
    whole = path.read_bytes()
    (folder / "settled.json").unlink()
    path.write_bytes(whole.replace(b"xx", b"yy"))
    with closing(FilesRecords(folder)) as writer, pytest.raises(DamagedStore):
        assert writer.claim()[1] == []
        list(writer.read("messages"))
    (folder / "settled.json").unlink()
    path.write_bytes(whole[:-20] + bytes(10) + whole[-10:])
    with closing(FilesRecords(folder)) as writer:
        assert [tail.size for tail in writer.claim()[1]] == [len(whole) - start]
        assert list(writer.read("messages")) == lines[:ACKNOWLEDGED]
