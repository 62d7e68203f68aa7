"""Tasks of a real folder come into the queue once, whoever dies in between, and are worked on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.errors import SourceError
from orihon.runtime.poller import SourcePoller
from orihon.runtime.queue import TaskQueue
from orihon.runtime.sources.base import SourceTask
from orihon.runtime.sources.folder import FolderSource
from orihon.values.task import TaskStatus
from tests.integration.run_supervisor import eventually


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TaskQueue]:
    opened = TaskQueue(tmp_path / "contexts")
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tasks"
    path.mkdir()
    for number in (1, 2):
        (path / f"fix-{number}.md").write_text(f"Fix part {number}.\n", encoding="utf-8")
    return path


def source(folder: Path) -> FolderSource:
    return FolderSource(folder, settle_seconds=0)


class Unreachable(FolderSource):
    """A source that is away."""

    name = "away"

    def poll(self) -> Iterator[SourceTask]:
        raise SourceError("unreachable", service="away", address="http://away", detail="no route")

    def claimed(self) -> Iterator[SourceTask]:
        return iter(())


class Broken(Unreachable):
    """A source with a mistake in it."""

    name = "broken"

    def poll(self) -> Iterator[SourceTask]:
        raise ZeroDivisionError("a mistake")


def test_a_source_with_a_mistake_does_not_end_the_looking(
    queue: TaskQueue, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    poller = SourcePoller(queue, [Broken(folder), source(folder)], 60)
    assert len(poller.poll_once()) == 2
    assert "broken: the source is broken" in caplog.text
    assert "a mistake" in caplog.text


def test_what_a_source_has_is_put_in_line_once(queue: TaskQueue, folder: Path) -> None:
    poller = SourcePoller(queue, [source(folder)], 60)
    uuids = poller.poll_once()
    rows = [queue.catalogue.tasks.get(uuid) for uuid in uuids]
    assert [(row.key.task_id, row.status, row.source) for row in rows] == [
        ("fix-1", TaskStatus.QUEUED, "folder"),
        ("fix-2", TaskStatus.QUEUED, "folder"),
    ]
    assert "Fix part 1." in rows[0].prompt
    assert poller.poll_once() == []
    assert SourcePoller(queue, [source(folder)], 60).poll_once() == [], "another process finds them open"


def test_what_was_claimed_by_a_process_that_died_is_taken_up(queue: TaskQueue, folder: Path) -> None:
    dying = source(folder)
    assert dying.claim(next(dying.poll()))
    (first, second) = SourcePoller(queue, [source(folder)], 60).poll_once()
    assert queue.catalogue.tasks.get(first).key.task_id == "fix-1"
    assert queue.catalogue.tasks.get(second).key.task_id == "fix-2"


def test_a_source_that_is_away_does_not_keep_the_others_waiting(
    queue: TaskQueue, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    poller = SourcePoller(queue, [Unreachable(folder), source(folder)], 60)
    assert len(poller.poll_once()) == 2
    assert "away" in caplog.text


def test_looking_in_the_background_ends_when_it_is_told_to(queue: TaskQueue, folder: Path) -> None:
    poller = SourcePoller(queue, [source(folder)], 0.01)
    poller.start()
    eventually(lambda: queue.depth() == 2)
    poller.stop(timeout=300)
    (folder / "fix-3.md").write_text("Fix part 3.\n", encoding="utf-8")
    assert queue.depth() == 2
