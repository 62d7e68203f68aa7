"""The images of a disk after a power cut are those that a disk may hold, and a promise that was not kept is seen."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orihon.upkeep.torture.campaign import Trial
from orihon.upkeep.torture.cuts import DiskRecord, Portion, image, look_at, record_life, write_image
from orihon.upkeep.torture.hooks import DiskCall
from orihon.upkeep.torture.nursery import Nursery
from orihon.upkeep.torture.play import STORAGE, failed_in

# A file is written beside another one, synced, and takes its name; then the folder is synced.
REPLACED = DiskRecord(
    names={1: {"a": 2}},
    contents={2: b"old"},
    calls=[
        DiskCall("create", 3, ((1, ".a"),)),
        DiskCall("write", 3, at=0, data=b"new and long"),
        DiskCall("sync", 3),
        DiskCall("rename", 3, ((1, ".a"), (1, "a"))),
        DiskCall("sync", 1),
    ],
)


def images(record: DiskRecord, position: int, names: Portion, data: Portion) -> list[dict[str, bytes | None]]:
    """All that chance comes to."""
    found = [image(record, position, names, data, random.Random(seed)) for seed in range(60)]
    return [one for number, one in enumerate(found) if one not in found[:number]]


@pytest.mark.parametrize(
    ("position", "names", "data", "expected"),
    [
        (2, "none", "none", [{"a": b"old"}]),
        (2, "all", "none", [{"a": b"old", ".a": b""}]),
        (3, "none", "none", [{"a": b"old"}]),
        (4, "none", "all", [{"a": b"old"}]),
        (4, "all", "none", [{"a": b"new and long"}]),
        (5, "none", "none", [{"a": b"new and long"}]),
    ],
)
def test_what_a_disk_holds(position: int, names: Portion, data: Portion, expected: list[dict[str, bytes]]) -> None:
    assert images(REPLACED, position, names, data) == expected


def test_a_rename_is_kept_whole_or_not_at_all() -> None:
    found = images(REPLACED, 4, "some", "none")
    assert sorted(map(sorted, (one.items() for one in found))) == [
        [(".a", b"new and long"), ("a", b"old")],
        [("a", b"new and long")],
        [("a", b"old")],
    ]


def test_without_its_sync_a_new_file_may_have_its_name_and_nothing_in_it() -> None:
    hasty = replace(REPLACED, calls=[call for call in REPLACED.calls if call.file != 3 or call.kind != "sync"])
    assert images(hasty, 4, "all", "none") == [{"a": b""}]
    assert {one["a"] for one in images(hasty, 4, "none", "some")} == {b"", b"\0" * 12, b"new and long"}


def test_pages_reach_the_disk_one_by_one() -> None:
    pages = DiskRecord(
        names={1: {"a": 2}}, contents={2: b"o" * 1024}, calls=[DiskCall("write", 2, at=0, data=b"n" * 1024)]
    )
    found = {one["a"] for one in images(pages, 1, "none", "some")}
    assert found == {first * 512 + second * 512 for first in (b"o", b"n") for second in (b"o", b"n")}


def test_a_file_that_is_cut_has_its_pages_or_its_new_size_and_one_that_grows_may_have_zeros() -> None:
    record = DiskRecord(names={1: {"a": 2}}, contents={2: b"o" * 1024})
    cut = replace(record, calls=[DiskCall("truncate", 2, at=512)])
    assert {one["a"] for one in images(cut, 1, "none", "some")} == {b"o" * 1024, b"o" * 512}
    grown = replace(record, calls=[DiskCall("write", 2, at=1024, data=b"n" * 512)])
    found = {one["a"] for one in images(grown, 1, "none", "some")}
    assert found == {b"o" * 1024, b"o" * 1024 + b"\0" * 512, b"o" * 1024 + b"n" * 512}


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_disk_that_does_not_sync_is_seen(backend: str, nursery: Nursery, tmp_path: Path) -> None:
    """The control: with syncs that do nothing, acknowledged messages are lost, and the judge says so."""
    config = {"context_storage": {"backend": backend, **STORAGE}}
    trial = Trial()
    failed_in(nursery.start(record_life, str(tmp_path / "life"), str(tmp_path / "record"), config).wait(), trial)
    assert trial.is_clean
    record: DiskRecord = pickle.loads((tmp_path / "record").read_bytes())
    at, _, state = record.acknowledged[15]
    lying = [
        replace(call, file=0) if call.kind == "sync" and "tasks.db" not in call.path else call for call in record.calls
    ]
    write_image(image(replace(record, calls=lying), at, "all", "none", random.Random(1)), tmp_path / "base")
    failed_in(nursery.start(look_at, str(tmp_path / "base"), config, state, state).wait(), trial)
    assert trial.lost
