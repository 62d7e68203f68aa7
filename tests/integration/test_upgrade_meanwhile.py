"""Tables that a newer Orihon gives more columns while another process works with them: that one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CataloguePlace
from tests.services import Database

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")
OFTEN = 10  # then the driver lets the server remember the statement, with the columns of that day


@pytest.fixture
def shared(tmp_path: Path, postgres: Database) -> CataloguePlace:
    return CataloguePlace(tmp_path / "contexts", postgres)


@pytest.mark.parametrize("is_reading", [True, False])
def test_a_new_column_does_not_trouble_who_reads_and_writes_all_the_time(
    shared: CataloguePlace, is_reading: bool
) -> None:
    with shared.open() as catalogue:
        catalogue.tasks.register(KEY, "one")
        for number in range(OFTEN):
            catalogue.tasks.add_statistics("one", messages=1)
            assert catalogue.tasks.get("one").total_messages == number + 1
        shared.change("ALTER TABLE tasks ADD COLUMN of_tomorrow text")
        if is_reading:
            assert catalogue.tasks.get("one").total_messages == OFTEN
        catalogue.tasks.add_statistics("one", messages=1)
        catalogue.tasks.change_status("one", TaskStatus.FAILED)
        assert (catalogue.tasks.get("one").total_messages, catalogue.tasks.get("one").status) == (
            OFTEN + 1,
            TaskStatus.FAILED,
        )
        assert [row.kind for row in catalogue.outbox.rows()] == ["failed"]
