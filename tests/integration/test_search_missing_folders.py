"""The history search where many tasks have no folder: those that were never begun, and those that have lost it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orihon import TaskContextManager, TaskKey, search_history
from orihon.catalogue import Catalogue
from orihon.catalogue.connect import open_catalogue
from orihon.search import SearchResults, catch_up
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus, new_uuid
from tests.services import own_schema

#: To wait 6 ms for each of so many takes longer than a search is given.
MANY, SECONDS = 400, 2.0


@dataclass(frozen=True)
class Place:
    """A base folder, and the word that is looked for."""

    base: Path
    settings: Settings
    word: str

    def key(self, number: str) -> TaskKey:
        return TaskKey("cli", "owner", "repo", "issue", number)

    def told(self, number: str) -> str:
        """A finished task in which the word was said; its UUID."""
        with TaskContextManager(self.base, self.key(number), self.settings) as task:
            task.message_store.add_message("user", self.word)
        return task.uuid

    def search(self, **more: Any) -> SearchResults:
        return search_history(self.base, self.settings, self.word, **more)

    def without_folder(self, begun: Callable[[Catalogue, str], object], count: int) -> None:
        """Tasks that are only rows; ``begun`` brings each to where it stands."""
        with open_catalogue(self.base, self.settings) as catalogue:
            for number in range(count):
                uuid = new_uuid()
                catalogue.tasks.register(self.key(f"row{number}"), uuid, status=TaskStatus.QUEUED)
                begun(catalogue, uuid)


@pytest.fixture
def schema() -> Iterator[dict[str, str]]:
    for database in own_schema():
        yield database.settings


@pytest.fixture(params=["files", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    config: dict[str, Any] = {"context_storage": {"backend": request.param, "durability": "os"}}
    if request.param == "postgres":
        config["database"] = request.getfixturevalue("schema")
    (tmp_path / "contexts").mkdir()
    return Place(tmp_path / "contexts", load_settings(config, environ={}), "theword")


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(tmp_path / "contexts", load_settings({}, environ={}), "theword")


def _in_line(catalogue: Catalogue, uuid: str) -> None:
    """As it is."""


def _claimed(catalogue: Catalogue, uuid: str) -> None:
    assert catalogue.queue.claim(uuid) is not None


def _cancelled(catalogue: Catalogue, uuid: str) -> None:
    catalogue.tasks.change_status(uuid, TaskStatus.CANCELLED)


def _lost(catalogue: Catalogue, uuid: str) -> None:
    claim = catalogue.queue.claim(uuid)
    assert claim is not None
    catalogue.tasks.update(uuid, epoch=claim[1].epoch, backend="files")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause that is made, in seconds: how long a look takes depends on the machine, these do not."""
    made: list[float] = []
    sleep = time.sleep

    def noted(seconds: float) -> None:
        made.append(seconds)
        sleep(seconds)

    monkeypatch.setattr("time.sleep", noted)
    return made


@pytest.mark.parametrize("begun", [_in_line, _claimed, _cancelled, _lost])
def test_tasks_without_a_folder_are_not_waited_for_one_by_one(
    place: Place, begun: Callable[[Catalogue, str], object], pauses: list[float]
) -> None:
    place.without_folder(begun, 100)
    told = set[str]()
    for number in ("1", "2"):
        told.add(place.told(number))
        pauses.clear()
        results = place.search(seconds=60)
        assert ({hit.uuid for hit in results.hits}, results.is_current, results.problems) == (told, True, {})
        assert sum(pauses) < 0.1


@pytest.mark.parametrize("place", ["files", "sqlite"], indirect=True)
def test_many_that_were_never_begun_do_not_use_up_the_time(place: Place) -> None:
    place.without_folder(_claimed, MANY)
    uuid = place.told("1")
    assert [hit.uuid for hit in place.search(seconds=SECONDS).hits] == [uuid]


def test_what_was_never_begun_is_looked_at_last(place: Place) -> None:
    for begun in (_in_line, _claimed):
        place.without_folder(begun, 2)
    uuid = place.told("1")

    def use_up_the_time(done: int, of: int) -> None:
        time.sleep(SECONDS)

    results = place.search(seconds=SECONDS, progress=use_up_the_time)
    assert ([hit.uuid for hit in results.hits], results.is_current) == ([uuid], False)


def test_lost_folders_are_noted_bit_by_bit(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost_and_failed(catalogue: Catalogue, uuid: str) -> None:
        _lost(catalogue, uuid)
        catalogue.tasks.change_status(uuid, TaskStatus.FAILED)

    local.without_folder(lost_and_failed, 10)
    uuid = local.told("1")
    monkeypatch.setattr("orihon.search.indexer._TOGETHER", 2)
    runs = 1
    while not _catch_up_in_looks(local, 7, monkeypatch):  # one at each of them takes more
        runs += 1
        assert runs <= 10
    assert runs > 1
    assert [hit.uuid for hit in local.search(seconds=0).hits] == [uuid]


def _catch_up_in_looks(place: Place, looks: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """By a clock that goes on at every look."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__, sleep=time.sleep)
    with monkeypatch.context() as patch:
        patch.setattr("orihon.search.indexer.time", clock)
        return catch_up(OpenBase(place.base, place.settings), seconds=looks)


def test_a_folder_on_the_move_is_looked_for_again_after_the_others(local: Place) -> None:
    moved, other = local.told("1"), local.told("2")
    here, away = local.base / "completed" / moved, local.base / "away"
    here.rename(away)
    seen: list[tuple[int, int]] = []

    def put_back(done: int, of: int) -> None:
        seen.append((done, of))
        if away.exists():
            away.rename(here)

    results = local.search(progress=put_back)
    assert ({hit.uuid for hit in results.hits}, results.is_current) == ({moved, other}, True)
    assert seen == [(1, 2), (2, 2)]


def test_a_task_is_found_as_soon_as_something_is_said_in_it(place: Place) -> None:
    uuid = new_uuid()
    with open_catalogue(place.base, place.settings) as catalogue:
        catalogue.tasks.register(place.key("1"), uuid, status=TaskStatus.QUEUED)
        assert place.search().hits == ()
        claim = catalogue.queue.claim(uuid)
        assert claim is not None
        assert place.search().hits == ()
        with TaskContextManager(place.base, None, place.settings, uuid=uuid, lease=claim[1]) as task:
            assert place.search().hits == ()
            task.message_store.add_message("user", place.word)
            assert [hit.uuid for hit in place.search().hits] == [uuid]
