"""The ``sqlite`` back end behaves as a store must."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.backends import SqliteBackend
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task
from tests.conformance.stores import StoreConformance


class TestSqlite(StoreConformance):
    backend = SqliteBackend()

    def test_a_fork_keeps_nothing_that_the_parent_closes(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder) as other:
            assert other.ask("write_with_a_fork", rounds=20) == 41
            assert len(other.ask("contents")) == 41
        check_task(self.backend.open(folder))
