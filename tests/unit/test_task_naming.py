"""Which task somebody means: by UUID, by the beginning of one, by key, or the newest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.catalogue import Catalogue
from orihon.errors import InvalidId, InvalidInput, OrihonError, TaskNotFound
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.tasks.task_name import NamedTask
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.catalogues import CataloguePlace
from tests.helpers import refused

ISSUE = TaskKey("github", "owner", "repo", "issue", "27", "ana")
REQUEST = TaskKey("gitlab", "group/sub", "project", "merge_request", "27", "ana")
LOCAL = TaskKey("cli", "", "", "task", "notes")
NAMED = TaskKey("local", "", "", "task", "my notes")


@pytest.fixture
def base(place: CataloguePlace) -> OpenBase:
    """Two tasks on an issue, one on a merge request, one without a repository: in this order."""
    place.base_dir.mkdir(exist_ok=True)
    base = OpenBase(place.base_dir, place.settings)
    catalogue = base.open_catalogue(create=True)
    assert catalogue is not None
    for key, uuid in ((ISSUE, "first-1"), (ISSUE, "second-1"), (REQUEST, "request-1"), (LOCAL, "local-1")):
        catalogue.tasks.register(key, uuid, status=TaskStatus.QUEUED if uuid == "second-1" else TaskStatus.RUNNING)
    return base


@pytest.mark.parametrize(
    ("name", "uuid", "of"),
    [
        ("first-1", "first-1", 1),
        ("sec", "second-1", 1),
        ("owner/repo#27", "second-1", 2),
        ("github:owner/repo#27", "second-1", 2),
        ("#27", "second-1", 2),
        ("group/sub/project!27", "request-1", 1),
        ("gitlab:group/sub/project!27", "request-1", 1),
        ("!27", "request-1", 1),
        ("cli:task#notes", "local-1", 1),
        ("@last", "local-1", 1),
        ("@last:queued", "second-1", 1),
    ],
)
def test_the_task_that_is_meant(base: OpenBase, name: str, uuid: str, of: int) -> None:
    with base:
        assert base.named(name) == NamedTask(uuid, name, of)
        assert base.resolve(name) == uuid


def test_a_name_that_a_program_gave_is_known_to_everybody(base: OpenBase) -> None:
    with base:
        catalogue = base.needed_catalogue()
        for uuid in ("named-1", "named-2"):
            catalogue.tasks.register(NAMED, uuid)
        assert base.named("my notes") == NamedTask("named-2", "my notes", 2)
        with refused(TaskNotFound, "uuid"):
            base.resolve("notes")
        with pytest.raises(InvalidId):
            base.resolve("my notes", user="ana")


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("nobody", TaskNotFound, "uuid"),
        ("owner/repo#28", TaskNotFound, "key"),
        ("owner/repo!27", TaskNotFound, "key"),
        ("gitlab:owner/repo#27", TaskNotFound, "key"),
        ("owner/repo#", TaskNotFound, "key"),
        ("@last:paused", TaskNotFound, "last"),
        ("@first", InvalidId, "unknown_mark"),
        ("@last:asleep", InvalidInput, "unknown_status"),
        ("../x", InvalidId, "unsafe"),
        ("", InvalidId, "unsafe"),
    ],
)
def test_what_names_no_task_is_refused(base: OpenBase, name: str, kind: type[OrihonError], reason: str) -> None:
    with base, refused(kind, reason):
        base.named(name)


def test_tasks_of_two_users_are_not_guessed_between(base: OpenBase) -> None:
    other = TaskKey("github", "owner", "repo", "issue", "27", "ben")
    with base:
        assert base.catalogue is not None
        base.catalogue.tasks.register(other, "ben-1")
        with refused(InvalidId, "many_keys") as caught:
            base.named("owner/repo#27")
    assert "ben-1" in str(caught.value)
    assert "second-1" in str(caught.value)


def test_a_folder_that_the_catalogue_does_not_know_has_a_name_too(tmp_path: Path) -> None:
    uuid = new_uuid()
    with OpenBase(tmp_path, load_settings(None, environ={})) as base:
        with refused(TaskNotFound, "last"):
            base.named("@last")
        assert not (tmp_path / "tasks.db").exists(), "looking at nothing makes nothing"
        assert base.open_catalogue(create=True) is not None
        (tmp_path / "running" / uuid).mkdir(parents=True)
        (tmp_path / "completed" / "lost-1").mkdir(parents=True)
        assert base.resolve(uuid) == uuid
        assert base.resolve(uuid[:7]) == uuid
        assert base.resolve("lost") == "lost-1"


def test_a_damaged_catalogue_hides_no_folder(tmp_path: Path) -> None:
    (tmp_path / "running" / "kept-1").mkdir(parents=True)
    (tmp_path / "tasks.db").write_bytes(b"rubbish" * 1000)
    with OpenBase(tmp_path, load_settings(None, environ={})) as base:
        assert base.resolve("kept") == "kept-1"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    Catalogue(folder / "tasks.db").close()
    return folder


@given(name=st.one_of(st.text(max_size=40), st.from_regex(r"[@#!:/a-z0-9]{1,20}", fullmatch=True)))
def test_any_text_is_answered_with_an_error_of_ours(name: str, empty: Path) -> None:
    with OpenBase(empty, load_settings(None, environ={})) as base, pytest.raises(OrihonError):
        base.named(name)
