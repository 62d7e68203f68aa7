"""A person whose tasks are sealed is erased without the master key too: to remove what is sealed needs none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from orihon import archive_task, erase_user, export_user, fork_task
from orihon.catalogue.connect import open_catalogue
from orihon.errors import IllegalTransition, KeyUnavailable
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import verify
from orihon.upkeep.keys import erase_key, keys_overview
from orihon.values.task import TaskKey
from tests.acceptance.test_cli import run
from tests.integration.test_privacy import places_of
from tests.sealing import SAID, ask, sealed_settings, start_sealed, write_key

ANN, BEN = "ann-7731", "ben-4402"
TASKS = ("asking-1", "done-1", "failed-1", "no-row-1", "packed-1")


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


class Sealed:
    """A base folder with sealed tasks of two people."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.base, self.settings = folder, folder / "contexts", settings
        for uuid in ("done-1", "packed-1"):
            self.start(uuid, ANN).complete()
        archive_task(self.base, "packed-1", settings)
        self.start("failed-1", ANN).fail(SAID)
        ask(self.start("asking-1", ANN))
        with closing(TaskQueue(self.base, settings)) as queue:
            self.queued = queue.enqueue(TaskKey("cli", "", "", "task", "q", ANN), prompt=SAID)
        self.start("kept-1", BEN).fail(SAID)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("orihon.catalogue.tasks.Tasks.adopt", _die)
            patch.setattr("orihon.transfer.fork._Fork.remove", _die)
            fork_task(self.base, "done-1", settings, 4, name="no-row-1")

    def start(self, uuid: str, user: str) -> TaskContextManager:
        return start_sealed(self.base, self.settings, uuid, TaskKey("cli", "", "", "task", uuid, user))


@pytest.fixture(params=["files", "sqlite", "postgres"])
def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> Sealed:
    database = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    shelf = {"url": f"file://{tmp_path}/shelf"}
    return Sealed(tmp_path, sealed_settings(write_key(tmp_path / "master"), request.param, database, archive=shelf))


def lost(sealed: Sealed) -> Settings:
    (sealed.folder / "master").unlink()
    return sealed.settings


def wrong(sealed: Sealed) -> Settings:
    return sealed.settings.replace(**{"encryption.key": write_key(sealed.folder / "other", "b")})


def unnamed(sealed: Sealed) -> Settings:
    return sealed.settings.replace(**{"encryption.enabled": False, "encryption.key": None})


def lost_and_off(sealed: Sealed) -> Settings:
    return lost(sealed).replace(**{"encryption.enabled": False})


def damaged(sealed: Sealed) -> Settings:
    """The data key of the catalogue's texts is gone; the master key is there."""
    assert erase_key(OpenBase(sealed.base, sealed.settings), "catalogue")
    return sealed.settings


@pytest.mark.parametrize("without", [lost, wrong, unnamed, lost_and_off])
def test_all_of_a_person_goes_and_nothing_of_another(sealed: Sealed, without: Callable[[Sealed], Settings]) -> None:
    settings = without(sealed)
    everything = {*TASKS, sealed.queued}
    assert set(erase_user(sealed.base, settings, ANN, dry_run=True).tasks) == everything

    erasure = erase_user(sealed.base, settings, ANN, by="the office")

    assert erasure.is_complete, erasure
    assert set(erasure.tasks) == everything
    assert [task for task, _ in erasure.unread] == ["packed-1"]  # the only one of which something is noted
    assert places_of(ANN, sealed.folder, settings) == []
    assert [path for path in (sealed.folder / "shelf").rglob("*") if path.is_file()] == []
    again = erase_user(sealed.base, settings, ANN)
    assert (again.tasks, again.is_complete, again.unread) == ((), True, ())

    write_key(sealed.folder / "master")  # found again: it opens nothing of what was erased, and all of the rest
    with open_catalogue(sealed.base, sealed.settings) as catalogue:
        stones = {stone.uuid: stone.erased_by for stone in catalogue.tombstones.all()}
        kept = catalogue.tasks.get("kept-1")
    assert stones == dict.fromkeys(everything, "the office")
    assert (kept.user, kept.error_message) == (BEN, SAID)
    assert verify(OpenBase(sealed.base, sealed.settings), "kept-1") == []
    assert keys_overview(OpenBase(sealed.base, sealed.settings)).erased == len(TASKS)
    with pytest.raises(IllegalTransition):
        sealed.start("done-1", ANN)


def test_with_the_key_nothing_is_unread(sealed: Sealed) -> None:
    erasure = erase_user(sealed.base, sealed.settings, ANN)
    assert erasure.is_complete
    assert erasure.unread == ()


def test_the_texts_of_the_catalogue_have_lost_their_own_key(sealed: Sealed) -> None:
    erasure = erase_user(sealed.base, damaged(sealed), ANN)
    assert erasure.is_complete, erasure
    assert set(erasure.tasks) == {*TASKS, sealed.queued}


def test_the_command_says_what_it_could_not_look_at(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, sealed_settings(write_key(tmp_path / "master")))
    (tmp_path / "master").unlink()
    config = tmp_path / "orihon.yaml"
    config.write_text(f"encryption: {{enabled: true, key: 'file:{tmp_path}/master'}}\n", encoding="utf-8")
    done = run("--config", config, "--base-dir", sealed.base, "privacy", "erase", ANN, "--yes")
    assert done.code == 0, done.err
    assert "packed-1" in done.err
    assert f"file:{tmp_path}/master" in done.err


def test_nobody_else_passes_over_what_is_sealed(sealed: Sealed, tmp_path: Path) -> None:
    """To hand out less than there is would be a lie; to write a row back without its texts would lose them."""
    settings = lost(sealed)
    with pytest.raises(KeyUnavailable):
        export_user(sealed.base, settings, ANN, tmp_path / "out")
    with OpenBase(sealed.base, settings) as base, pytest.raises(KeyUnavailable):
        base.open_catalogue()
        list(base.rows())
