"""Keys, ids and states of a task."""

from __future__ import annotations

import uuid as uuids
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import IllegalTransition, InvalidId, InvalidInput
from orihon.texts import text
from orihon.values.task import (
    FINISHED,
    LEGAL_CHANGES,
    TaskIdentity,
    TaskKey,
    TaskStatus,
    check_change,
    check_id,
    folder,
    new_uuid,
    parse_status,
)
from tests.helpers import Rule, refused

KEY = TaskKey("github", "notfolder", "coding_agent", "issue", "27", "notfolder")

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


def test_a_key_knows_its_names() -> None:
    assert KEY.identifier == "27"
    assert KEY.repository == "notfolder/coding_agent"
    assert KEY.label == "github:notfolder/coding_agent#27"
    assert KEY.combined_type == "github_issue"
    request = TaskKey("gitlab", "グループ/下位", "倉庫", "merge_request", "5")
    assert request.label == "gitlab:グループ/下位/倉庫!5"
    assert request.combined_type == "gitlab_mr"
    assert TaskKey("folder", "", "", "document", "plan").label == "folder:document#plan"


def test_the_uuid_is_no_part_of_equality() -> None:
    first, second = replace(KEY, uuid=new_uuid()), replace(KEY, uuid=new_uuid())
    assert first == second == KEY
    assert hash(first) == hash(second)
    assert replace(KEY, user="someone") != KEY


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("", "github_issue", ("github", "issue")),
        ("github", "github_issue", ("github", "issue")),
        ("", "gitlab_mr", ("gitlab", "merge_request")),
        ("", "github_pr", ("github", "pull_request")),
        ("", "github_pull_request", ("github", "pull_request")),
        ("gitlab", "mr", ("gitlab", "merge_request")),
        ("github", "pull_request", ("github", "pull_request")),
        ("folder", "folder_document", ("folder", "document")),
    ],
)
def test_combined_types_are_taken_apart(source: str, kind: str, expected: tuple[str, str]) -> None:
    key = TaskKey(source, "o", "r", kind, "1")
    assert (key.task_source, key.task_type) == expected
    assert TaskKey(key.task_source, "o", "r", key.combined_type, "1") == key


def test_a_key_comes_from_either_form_of_the_designs() -> None:
    files = {"task_source": "github", "owner": "notfolder", "repo": "coding_agent", "task_type": "issue", "task_id": 27}
    assert TaskKey.from_dict({**files, "user": "notfolder"}) == KEY
    detailed = {
        "task_type": "github_issue",
        "task_identifier": "27",
        "repository": "notfolder/coding_agent",
        "user": "notfolder",
        "uuid": "550e8400-e29b-41d4-a716-446655440000",
    }
    key = TaskKey.from_dict(detailed)
    assert key == KEY
    assert key.uuid == detailed["uuid"]
    nested = TaskKey.from_dict({"task_type": "gitlab_mr", "task_identifier": "1", "repository": "a/b/c", "user": None})
    assert (nested.owner, nested.repo, nested.user) == ("a/b", "c", "")


@given(names, names, names, names)
def test_a_key_survives_its_dict(owner: str, repo: str, number: str, user: str) -> None:
    key = TaskKey("github", owner, repo, "issue", number, user)
    assert TaskKey.from_dict(key.as_dict() | {"user": user}) == key


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_id": 27}, "field_type"),
        ({"owner": None}, "field_type"),
        ({"task_id": ""}, "empty_field"),
        ({"task_source": "", "task_type": "issue"}, "empty_field"),
        ({"task_type": ""}, "empty_field"),
        ({"repo": "a\0b"}, "field_text"),
        ({"user": "\udc80"}, "field_text"),
        ({"user": "名" * 201}, "field_long"),
        ({"task_source": "gitlab", "task_type": "github_issue"}, "two_sources"),
    ],
)
def test_a_bad_key_is_refused(changes: dict[str, Any], reason: str) -> None:
    with refused(InvalidInput, reason):
        replace(KEY, **changes)


@pytest.mark.parametrize(
    "value",
    ["", "../x", "/etc/passwd", "a/b", "a\0b", "x" * 65, "x" * 300, "日本", "a b", "a\n", ".", "a.b", None, 7, b"a"],
)
def test_an_id_that_is_a_path_is_refused(value: object) -> None:
    with refused(InvalidId, "unsafe") as caught:
        check_id(value)
    assert len(str(caught.value.fields["value"])) <= 80
    with refused(InvalidId, "unsafe"):
        replace(KEY, uuid="../x")


def test_ids_that_are_safe_are_taken() -> None:
    for value in ("a", "-", "A_b-9", "x" * 64, new_uuid()):
        assert check_id(value) == value


def test_new_uuids_are_version_4_and_differ() -> None:
    first, second = new_uuid(), new_uuid()
    assert uuids.UUID(first).version == 4
    assert first != second


EXPECTED = {
    "queued": "running cancelled",
    "running": "completed failed cancelled dead paused waiting",
    "paused": "running cancelled failed",
    "waiting": "running cancelled failed paused",
    "completed": "archived",
    "failed": "archived queued",
    "cancelled": "archived queued",
    "dead": "archived queued",
    "archived": "completed failed cancelled dead",
}


def test_only_the_changes_of_the_plan_are_legal() -> None:
    with Rule() as rule:
        for old, new in product(TaskStatus, TaskStatus):
            with rule.case(old, new):
                if new in EXPECTED[old].split():
                    check_change(old, new)
                    continue
                with refused(IllegalTransition, "change") as caught:
                    check_change(old, new)
                assert caught.value.fields["old"] == old.value
                japanese = text("errors.IllegalTransition.change.cause", lang="ja", **caught.value.fields)
                assert old.value in japanese
                assert new.value in japanese


def test_every_state_can_be_left_and_has_a_place() -> None:
    assert set(LEGAL_CHANGES) == set(TaskStatus)
    assert all(LEGAL_CHANGES.values())
    places = {status: folder(status) for status in TaskStatus}
    assert {status for status, place in places.items() if place is None} == {TaskStatus.QUEUED, TaskStatus.ARCHIVED}
    assert {status for status, place in places.items() if place == "completed"} == FINISHED
    assert places[TaskStatus.WAITING] == places[TaskStatus.PAUSED] == "paused"
    assert places[TaskStatus.RUNNING] == "running"


def test_a_status_is_found_by_name() -> None:
    assert parse_status("waiting") is TaskStatus.WAITING
    with refused(InvalidInput, "unknown_status"):
        parse_status("完了")


def test_a_task_gets_its_uuid_once() -> None:
    task = TaskIdentity(KEY)
    assert task.get_uuid() is None
    assert task.user == "notfolder"
    name = new_uuid()
    task.set_uuid(name)
    task.set_uuid(name)
    assert task.get_uuid() == name
    assert task.get_task_key() == KEY.as_dict()
    with refused(IllegalTransition, "renamed"):
        task.set_uuid(new_uuid())
    with refused(InvalidId, "unsafe"):
        TaskIdentity(KEY).set_uuid("../x")
    assert TaskIdentity(replace(KEY, uuid=name)).get_uuid() == name
