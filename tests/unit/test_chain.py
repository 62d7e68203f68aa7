"""The chain of tasks on one key; inheritance switched off for one task, or pointed at a given one; in each database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from orihon import ChainLink, Inherited, TaskContextManager, TaskKey, TaskQueue, archive_task, task_chain
from orihon.errors import IllegalTransition, InvalidId, InvalidInput, OrihonError, TaskNotFound
from orihon.runtime.handler import open_context
from orihon.settings import load_settings
from orihon.values.task import TaskStatus
from tests.catalogues import CataloguePlace
from tests.helpers import refused

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")
OTHER = TaskKey("github", "acme", "rocket", "issue", "28", "mika")


def finished(place: CataloguePlace, key: TaskKey = KEY, *, error: str | None = None, **wish: Any) -> str:
    """One task from start to end; its UUID."""
    ctx = TaskContextManager(place.base_dir, key, place.config, **wish)
    ctx.create_initial_context_with_inheritance("You build rockets.")
    ctx.message_store.add_message("user", f"Mend the valve of {key.task_id}.")
    ctx.message_store.add_message("assistant", "The valve is mended in tank.py.")
    ctx.planning_store.add_plan("initial", "look at tank.py")
    if error is None:
        ctx.complete()
    else:
        ctx.fail(error)
    return ctx.uuid


def chain(place: CataloguePlace, task: str, **options: Any) -> list[ChainLink]:
    return task_chain(place.base_dir, task, load_settings(place.config), **options)


def worked_off(queue: TaskQueue) -> TaskContextManager:
    """The next task, opened as a worker does."""
    task = queue.dequeue()
    assert task is not None
    return open_context(task, queue.base_dir, queue.settings)


@pytest.fixture
def queue(place: CataloguePlace) -> TaskQueue:
    return TaskQueue(place.base_dir, place.config)


# ---- the chain -------------------------------------------------------------------------------------------------------


def test_a_chain_says_what_each_task_has_from_whom(place: CataloguePlace, queue: TaskQueue) -> None:
    first = finished(place)
    finished(place, OTHER)
    second = finished(place, error="the pump is broken")
    third = finished(place)
    waiting = queue.enqueue(KEY)
    given_up = queue.enqueue(KEY)
    queue.cancel(given_up)
    links = chain(place, second)
    assert [link.uuid for link in links] == [first, second, third, waiting, given_up]
    assert [(link.heritage, link.inherits_from) for link in links] == [
        ("none", None),
        ("from", first),
        ("from", second),
        ("undecided", None),
        ("none", None),
    ]
    assert links[1].inherited == Inherited(final_summary=True, plans=1, open_problems=0, earlier=0)
    assert links[2].inherited == Inherited(final_summary=True, plans=1, open_problems=1, earlier=1)
    assert [link.status.value for link in links] == ["completed", "failed", "completed", "queued", "cancelled"]
    assert links[0].completed_at is not None
    assert (links[3].started_at, links[3].completed_at) == (None, None)
    assert [link.uuid for link in chain(place, first, limit=2)] == [waiting, given_up]


def test_a_chain_is_found_by_its_key(place: CataloguePlace, queue: TaskQueue) -> None:
    first = finished(place)
    bare = queue.enqueue(TaskKey("cli", "", "", "task", "9"))
    assert [link.uuid for link in chain(place, "github:acme/rocket#27")] == [first]
    assert [link.uuid for link in chain(place, "cli:task#9")] == [bare]
    with refused(TaskNotFound, "key"):
        chain(place, "github:acme/rocket#270")
    theirs = queue.enqueue(KEY, "taro")
    with refused(InvalidId, "many_keys") as refusal:
        chain(place, "github:acme/rocket#27")
    assert set(refusal.value.fields["matches"].split(", ")) == {theirs, first}
    assert [link.uuid for link in chain(place, first)] == [first]
    assert [link.uuid for link in chain(place, theirs)] == [theirs]


def test_an_archived_or_damaged_giver_is_named_but_not_read(place: CataloguePlace) -> None:
    first = finished(place)
    second = finished(place)
    third = finished(place)
    archive_task(place.base_dir, first, load_settings(place.config))
    folder = next(place.base_dir.glob(f"completed/**/{second}"))
    (folder / "metadata.json").write_bytes(b"{")
    links = chain(place, third)
    assert [(link.inherits_from, link.inherited) for link in links] == [(None, None), (first, None), (second, None)]
    assert links[0].status is TaskStatus.ARCHIVED


def test_no_catalogue_is_no_task(tmp_path: Path) -> None:
    with refused(TaskNotFound, "uuid"):
        task_chain(tmp_path, "abc", load_settings({}))
    assert list(tmp_path.iterdir()) == []


# ---- wishes ----------------------------------------------------------------------------------------------------------


def test_a_queued_task_without_inheritance_gets_none_from_any_worker(place: CataloguePlace, queue: TaskQueue) -> None:
    finished(place)
    uuid = queue.enqueue(KEY, inherit=False)
    with worked_off(queue) as ctx:
        assert ctx.uuid == uuid
        assert not ctx.has_inheritance_context()
        ctx.stop()
    with TaskContextManager.resume(place.base_dir, uuid, place.config) as again:
        assert not again.has_inheritance_context()
    assert [link.heritage for link in chain(place, uuid)] == ["none", "off"]


def test_a_queued_task_inherits_from_the_one_it_is_pointed_at(place: CataloguePlace, queue: TaskQueue) -> None:
    wanted = finished(place, OTHER)
    finished(place)
    uuid = queue.enqueue(KEY, inherit_from=wanted)
    with worked_off(queue) as ctx:
        inherited = ctx.get_inheritance_context()
        assert inherited is not None
        assert inherited.uuid == wanted
        ctx.create_initial_context_with_inheritance("You build rockets.")
        assert wanted in ctx.message_store.get_message(2).message.text
    assert chain(place, uuid)[-1].inherits_from == wanted


def test_a_program_says_the_same_of_its_task(place: CataloguePlace) -> None:
    wanted = finished(place, OTHER)
    last = finished(place)
    pointed, alone, usual = finished(place, inherit_from=wanted), finished(place, inherit=False), finished(place)
    heritages = {link.uuid: (link.heritage, link.inherits_from) for link in chain(place, last)}
    assert heritages[pointed] == ("from", wanted)
    assert heritages[alone] == ("off", None)
    assert heritages[usual] == ("from", alone)


def test_a_task_without_inheritance_stays_so_when_it_is_taken_up_again(place: CataloguePlace) -> None:
    finished(place)
    ctx = TaskContextManager(place.base_dir, KEY, place.config, inherit=False)
    ctx.stop()  # before its first message, when inheritance would still be looked for
    with TaskContextManager.resume(place.base_dir, ctx.uuid, place.config) as again:
        assert not again.has_inheritance_context()


def test_a_source_that_is_gone_is_replaced_by_no_other(
    place: CataloguePlace, queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = finished(place, OTHER)
    finished(place)
    queue.enqueue(KEY, inherit_from=wanted)
    shutil.rmtree(next(place.base_dir.glob(f"completed/**/{wanted}")))
    with worked_off(queue) as ctx:
        assert not ctx.has_inheritance_context()
    assert f"{wanted} has nothing to give here" in caplog.text


def test_a_source_that_cannot_give_is_refused_and_nothing_is_queued(place: CataloguePlace, queue: TaskQueue) -> None:
    running = queue.enqueue(OTHER)
    archived = finished(place)
    archive_task(place.base_dir, archived, load_settings(place.config))
    before = len(queue.catalogue.tasks.page())
    refusals: list[tuple[type[OrihonError], str, dict[str, Any]]] = [
        (TaskNotFound, "uuid", {"inherit_from": "nobody"}),
        (IllegalTransition, "inherit_unfinished", {"inherit_from": running}),
        (IllegalTransition, "inherit_archived", {"inherit_from": archived}),
        (InvalidInput, "options_together", {"inherit": False, "inherit_from": archived}),
    ]
    for kind, reason, wish in refusals:
        with refused(kind, reason):
            queue.enqueue(KEY, **wish)
        with refused(kind, reason):
            TaskContextManager(place.base_dir, KEY, place.config, **wish)
    assert len(queue.catalogue.tasks.page()) == before


def test_a_source_where_nothing_is_inherited_at_all_is_refused(place: CataloguePlace) -> None:
    wanted = finished(place)
    off = {**place.config, "inheritance": {"enabled": False}}
    with refused(InvalidInput, "inheritance_off"):
        TaskQueue(place.base_dir, off).enqueue(KEY, inherit_from=wanted)


def test_what_a_known_task_inherits_from_is_settled(place: CataloguePlace, queue: TaskQueue) -> None:
    first, second = finished(place, OTHER), finished(place)
    uuid = queue.enqueue(KEY, inherit_from=first)
    with refused(IllegalTransition, "inherit_settled"):
        TaskContextManager(place.base_dir, KEY, place.config, uuid=uuid, inherit_from=second)
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.QUEUED
    ctx = TaskContextManager(place.base_dir, KEY, place.config, uuid=uuid, inherit_from=first)
    assert ctx.has_inheritance_context()
    ctx.complete()
