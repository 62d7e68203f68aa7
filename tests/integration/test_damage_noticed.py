"""Random damage to the records of a task, by every kind that a disk or a person brings about: none goes unnoticed.

``verify`` names it, and no read gives anything that was not written.
"""

from __future__ import annotations

import random
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from orihon.errors import OrihonError
from orihon.store.contract import STREAMS, Stream
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import unprotected_records, verify
from orihon.upkeep.doctor import repair
from orihon.values.records import FINAL_SUMMARY
from tests.damage import BACKENDS, KEY, paused_task, settings_for, start_task

ROUNDS = 60


def damaged(whole: bytes, generator: random.Random) -> bytes:
    """The file with one damage."""
    lines = whole.splitlines(keepends=True)
    kind = generator.choice(("flip", "zeros", "hole", "end", "swap", "delete", "double"))
    at, other = generator.randrange(len(whole)), generator.randrange(len(lines))
    size = generator.randrange(1, 200)
    if kind == "flip":
        return whole[:at] + bytes([whole[at] ^ (1 << generator.randrange(8))]) + whole[at + 1 :]
    if kind == "zeros":
        return whole[:at] + bytes(min(size, len(whole) - at)) + whole[at + size :]
    if kind == "hole":
        return whole[:at] + whole[at + size :]
    if kind == "end":
        return b"".join(lines[:other])
    if kind == "swap":
        second = generator.randrange(len(lines))
        lines[other], lines[second] = lines[second], lines[other]
    elif kind == "delete":
        del lines[other]
    else:
        lines.insert(other, lines[other])
    return b"".join(lines)


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream != "checkpoints"])
def test_no_damage_to_a_stream_goes_unnoticed(tmp_path: Path, stream: Stream) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    settings = settings_for("files")
    base = OpenBase(tmp_path, settings)
    path = folder / f"{stream}.jsonl"
    whole = path.read_bytes()
    written = {line.rstrip(b" ") for line in whole.splitlines()}
    generator = random.Random(f"damage {stream}")
    for turn in range(ROUNDS):
        wrong = damaged(whole, generator)
        if wrong == whole:
            continue
        path.write_bytes(wrong)
        assert verify(base, uuid), (turn, wrong)
        with closing(open_for_reading(folder, settings, name=uuid)) as store, suppress(OrihonError):
            for line in store.records.read(stream):
                assert line in written, turn
    path.write_bytes(whole)
    assert verify(base, uuid) == []


def test_no_damage_to_a_database_goes_unnoticed(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "sqlite")
    settings = settings_for("sqlite")
    base = OpenBase(tmp_path, settings)
    path = folder / "context.db"
    whole = path.read_bytes()
    with closing(open_for_reading(folder, settings, name=uuid)) as store:
        written = {stream: set(store.records.read(stream)) for stream in STREAMS}
    places = [(stream, line) for stream in STREAMS for line in sorted(written[stream]) if whole.count(line) == 1]
    generator = random.Random("damage sqlite")
    for turn in range(ROUNDS):
        _, line = generator.choice(places)
        at = whole.index(line) + generator.randrange(len(line))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << generator.randrange(8))]) + whole[at + 1 :])
        assert verify(base, uuid), turn
        with closing(open_for_reading(folder, settings, name=uuid)) as store:
            for stream in STREAMS:
                with suppress(OrihonError):
                    assert set(store.records.read(stream)) <= written[stream], turn


@pytest.mark.parametrize("stream", ["tools", "planning", "compressions"])
def test_records_that_are_gone_are_told_also_after_somebody_went_on(tmp_path: Path, stream: Stream) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    path = folder / f"{stream}.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    for _ in range(2):
        with closing(TaskContextManager.resume(tmp_path, uuid, settings_for("files"))) as task:
            task.message_store.add_message("user", "goes on")
            task.planning_store.add_plan("revision", {"steps": ["and on " * 50]})
        found = [finding.kind for finding in verify(OpenBase(tmp_path, settings_for("files")), uuid)]
        assert ("stream", "short") in found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_final_summary_that_is_gone_is_found(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.complete()
    base = OpenBase(tmp_path, settings_for(backend))
    assert verify(base, task.uuid) == []
    (task.context_dir / FINAL_SUMMARY).unlink()
    assert [finding.kind for finding in verify(base, task.uuid)] == [("folder", "file")]


@pytest.mark.parametrize("damage", [b"", b"{}", b"\0" * 90, b"half"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_final_summary_that_nothing_protects_any_more_is_told(tmp_path: Path, backend: str, damage: bytes) -> None:
    task = start_task(tmp_path, backend)
    task.complete()
    base, digests = OpenBase(tmp_path, settings_for(backend)), task.context_dir / "digests.json"
    assert unprotected_records(base, task.uuid) == {}
    digests.write_bytes(digests.read_bytes()[:90] if damage == b"half" else damage)
    (found,) = verify(base, task.uuid)
    assert (found.kind, found.severity) == (("folder", "digests"), "warning")
    assert [finding.repair for finding in repair(base)] == ["done"]
    assert verify(base, task.uuid) == []
    assert unprotected_records(base, task.uuid) == {FINAL_SUMMARY: 1}


def test_the_file_of_another_task_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    (first, one), (_, two) = (paused_task(tmp_path, "files", key=replace(KEY, task_id=name)) for name in "12")
    for stream in STREAMS:
        mine, other = one / f"{stream}.jsonl", two / f"{stream}.jsonl"
        if mine.exists():
            kept = mine.read_bytes()
            mine.write_bytes(other.read_bytes())
            assert mine.stat().st_size == len(kept)
            assert verify(OpenBase(tmp_path, settings_for("files")), first), stream
            mine.write_bytes(kept)
    assert verify(OpenBase(tmp_path, settings_for("files")), first) == []
