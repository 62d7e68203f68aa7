"""What people ask a catalogue: tasks by source, time and words, tasks about a subject, and what they take up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orihon.catalogue import Catalogue
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.statistics import Position
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CataloguePlace

ISSUE = TaskKey("github", "owner", "repo", "issue", "27", "Ana")
REQUEST = TaskKey("gitlab", "group", "project", "merge_request", "27", "ben")
NOTES = TaskKey("cli", "", "", "task", "notes")


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    """Three tasks, the oldest first; they have a title, a prompt, nothing."""
    with open_catalogue(place.base_dir, place.settings) as opened:
        opened.tasks.register(ISSUE, "issue-1", metadata={"title": "Fix 100% of the Überläufe"})
        opened.tasks.register(REQUEST, "request-1")
        opened.tasks.register(NOTES, "notes-1", status=TaskStatus.QUEUED, prompt="タスクを 書く_now")
        yield opened


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["fix"], ["issue-1"]),
        (["100%", "OF"], ["issue-1"]),
        (["github:owner/repo#27"], ["issue-1"]),
        (["project!27"], ["request-1"]),
        (["27"], ["request-1", "issue-1"]),
        (["27", "ana"], ["issue-1"]),
        (["タスク"], ["notes-1"]),
        (["書く_now"], ["notes-1"]),
        (["cli:task#notes"], ["notes-1"]),
        (["'; DROP TABLE tasks; --"], []),
        (["%"], ["issue-1"]),
        ([], ["notes-1", "request-1", "issue-1"]),
    ],
)
def test_words_in_key_user_prompt_and_title(catalogue: Catalogue, words: list[str], found: list[str]) -> None:
    assert [row.uuid for row in catalogue.tasks.page(words=words)] == found


def test_source_and_time(catalogue: Catalogue) -> None:
    assert [row.uuid for row in catalogue.tasks.page(source="gitlab")] == ["request-1"]
    second = catalogue.tasks.get("request-1").created_at
    assert [row.uuid for row in catalogue.tasks.page(since=second)] == ["notes-1", "request-1"]
    assert catalogue.tasks.page(since="2099-01-01", source="cli") == []


def test_tasks_about_a_subject(catalogue: Catalogue) -> None:
    def about(number: str, **more: object) -> list[str]:
        return [row.uuid for row in catalogue.tasks.about(number, **more)]  # type: ignore[arg-type]  # a few of each

    assert about("27") == ["issue-1"]
    assert about("27", is_merge_request=True) == ["request-1"]
    assert about("27", place="owner/repo", source="github") == ["issue-1"]
    assert about("27", place="owner/other") == []
    assert about("notes", place="task") == ["notes-1"]


def test_what_tasks_take_up(catalogue: Catalogue) -> None:
    assert [row.uuid for row in catalogue.statistics.unmeasured_tasks(10)] == ["request-1", "issue-1"]
    for uuid, size in (("issue-1", 300), ("request-1", 500)):
        catalogue.tasks.change_status(uuid, TaskStatus.COMPLETED, statistics={"size_bytes": size, "total_summaries": 2})
    catalogue.tasks.change_status("request-1", TaskStatus.ARCHIVED, statistics={"size_bytes": 90})
    assert [(row.uuid, row.size_bytes) for row in catalogue.statistics.largest_tasks(10)] == [
        ("issue-1", 300),
        ("request-1", 90),
    ]
    assert sorted(catalogue.statistics.sizes_by_position("2020"), key=lambda one: one.name) == [
        Position("active", 2, 300, 0, 2),
        Position("archived", 1, 90, 0, 2),
    ]
    assert {one.name: one.tasks for one in catalogue.statistics.sizes_by_position("2099")} == {"active": 1, "old": 2}
    catalogue.tasks.set_totals("request-1", size_bytes=0)
    assert "cleaned" in {one.name for one in catalogue.statistics.sizes_by_position("2099")}
