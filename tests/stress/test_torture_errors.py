"""Operations that the campaigns of ``orihon torture`` once failed at, at every call that can fail so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.upkeep.torture.campaign import Arena
from orihon.upkeep.torture.faults import DisturbedOperation
from orihon.upkeep.torture.nursery import Nursery
from tests.helpers import SomeSteps

pytestmark = pytest.mark.stress


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    nursery = Nursery()
    yield Arena(tmp_path, "files", random.Random(1), nursery, {})
    nursery.close()


@pytest.mark.parametrize(
    ("operation", "fault", "kind"),
    [
        ("complete", "ENOSPC", "write"),  # a task that is completed has its final summary
        ("archive", "EIO", "unlink"),  # what cannot be removed is left for the next run
        ("migrate", "EIO", "unlink"),  # and nobody takes it for a part of the task
    ],
)
def test_every_call_of_a_kind(arena: Arena, operation: str, fault: str, kind: str, some_steps: SomeSteps) -> None:
    disturbed = DisturbedOperation(arena, operation)
    points = [number for number, one in enumerate(disturbed.kinds, 1) if one == kind]
    assert points
    failed = [disturbed.tried(arena, number, fault).seen for number in some_steps(points[-30:])]
    assert [seen for seen in failed if seen] == []
