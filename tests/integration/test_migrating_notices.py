"""Notifications go along with the tasks that they are about: none is lost, none is sent twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.notifications.webhook import Webhook, deliver
from orihon.transfer.migrate import rows
from orihon.values.task import TaskStatus, new_uuid
from tests.damage import KEY
from tests.integration.test_migration import World, killed_at
from tests.receivers import PATIENCE, Receiver, closed_port, receiving
from tests.services import Database

STEPS = ("row_copied", "notices_copied", "notice_removed", "row_removed", "unmarked")


@pytest.fixture(params=[("files", "postgres"), ("postgres", "sqlite")], ids=lambda pair: f"{pair[0]}-{pair[1]}")
def crossing(request: pytest.FixtureRequest, tmp_path: Path, emptied_postgres: Database) -> World:
    source, target = request.param
    (tmp_path / "contexts").mkdir()
    return World(tmp_path / "contexts", source, target, emptied_postgres)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("orihon.notifications.webhook.TIMEOUT", PATIENCE)  # on a busy machine its answer takes longer
    with receiving() as server:
        yield server


def tell(catalogue: Catalogue, event: str, task: str | None) -> None:
    assert catalogue.outbox.add(NewNotice(event, "approval_asked", "info", task, {"checkpoint": 1, "name": "計画"}))


def told_task(world: World, *events: str) -> str:
    """A queued task that something was told about, in the old catalogue."""
    with world.catalogue(world.source) as catalogue:
        uuid = catalogue.tasks.register(KEY, new_uuid(), status=TaskStatus.QUEUED).uuid
        for event in events:
            tell(catalogue, event, uuid)
    return uuid


def states(world: World, backend: str) -> list[tuple[str, str, int]]:
    with world.catalogue(backend) as catalogue:
        return [(row.event, row.webhook, row.attempts) for row in catalogue.outbox.rows()]


def sent(world: World, receiver: Receiver) -> list[str]:
    """What the webhook has got after everybody has sent what they could."""
    for backend in (world.source, world.target):
        with world.catalogue(backend) as catalogue:
            deliver(catalogue, Webhook(receiver.url), early=True)
    return sorted(body["id"] for body in receiver.bodies)


def test_they_arrive_as_they_were_and_a_second_run_changes_nothing(crossing: World, receiver: Receiver) -> None:
    uuid = told_task(crossing, "delivered")
    with crossing.catalogue(crossing.source) as catalogue:
        deliver(catalogue, Webhook(receiver.url))
        tell(catalogue, "failed", uuid)
        deliver(catalogue, Webhook(f"http://127.0.0.1:{closed_port()}/"))
        tell(catalogue, "new", uuid)
        tell(catalogue, "of_no_task", None)
        before = catalogue.outbox.rows()
    crossing.migrate()
    wanted = [
        ("delivered", "delivered", 1),
        ("failed", "pending", 1),
        ("new", "pending", 0),
        ("of_no_task", "pending", 0),
    ]
    assert states(crossing, crossing.target) == wanted
    assert states(crossing, crossing.source) == []
    with crossing.catalogue(crossing.target) as catalogue:
        after = catalogue.outbox.rows(limit=10)
    told = [[(row.created_at, row.task, row.kind, row.type, row.body) for row in rows] for rows in (before, after)]
    assert told[0] == told[1]
    crossing.migrate()
    assert states(crossing, crossing.target) == wanted
    assert sent(crossing, receiver) == ["delivered", "failed", "new", "of_no_task"]
    crossing.back()
    assert [event for event, _, _ in states(crossing, crossing.source)] == [event for event, _, _ in wanted]
    assert len(sent(crossing, receiver)) == 4


@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_is_killed_loses_none_and_sends_none_twice(crossing: World, receiver: Receiver, step: str) -> None:
    uuid = told_task(crossing, "one", "two")
    killed_at(step, crossing, uuid)
    assert len(sent(crossing, receiver)) == len(set(sent(crossing, receiver))), "while nobody has run it again"
    crossing.migrate()
    assert sent(crossing, receiver) == ["one", "two"]
    assert [state for _, state, _ in states(crossing, crossing.target)] == ["delivered", "delivered"]
    assert states(crossing, crossing.source) == []


def test_what_stays_keeps_its_own(crossing: World) -> None:
    gone, stays = told_task(crossing, "gone"), told_task(crossing, "stays")
    with crossing.catalogue(crossing.source) as catalogue:
        tell(catalogue, "of_no_task", None)
    crossing.migrate(gone, dry_run=True)
    assert states(crossing, crossing.target) == []
    crossing.migrate(gone)
    assert [event for event, _, _ in states(crossing, crossing.target)] == ["gone"]
    assert [event for event, _, _ in states(crossing, crossing.source)] == ["stays", "of_no_task"]
    crossing.migrate(stays)
    assert states(crossing, crossing.source) == []


def test_one_that_is_being_sent_is_left_to_its_sender(crossing: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told_task(crossing, "on_its_way")
    monkeypatch.setattr(rows, "_PATIENCE", 0.0)
    with crossing.catalogue(crossing.source) as catalogue:
        taken = catalogue.outbox.take(*catalogue.outbox.due())
        assert taken is not None
        crossing.migrate()
        assert states(crossing, crossing.target) == []
        assert catalogue.outbox.settle(taken, "delivered")
    crossing.migrate()
    assert states(crossing, crossing.target) == [("on_its_way", "delivered", 1)]


def test_an_event_that_was_told_in_both_is_there_once_and_sent_once(crossing: World, receiver: Receiver) -> None:
    uuid = told_task(crossing, "again")
    with crossing.catalogue(crossing.source) as catalogue:
        deliver(catalogue, Webhook(receiver.url))
    with crossing.catalogue(crossing.target) as catalogue:
        tell(catalogue, "again", uuid)
    crossing.migrate()
    assert states(crossing, crossing.target) == [("again", "delivered", 1)]
    assert sent(crossing, receiver) == ["again"]


@pytest.mark.parametrize("side", ["source", "target"])
def test_old_ones_are_sent_only_where_their_own_catalogue_had_a_webhook(
    crossing: World, receiver: Receiver, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_hours_ago = (datetime.now(UTC) - timedelta(hours=2)).isoformat(timespec="microseconds")
    with monkeypatch.context() as patch:
        patch.setattr("orihon.catalogue.outbox.utc_now", lambda: two_hours_ago)
        told_task(crossing, "old")
    with crossing.catalogue(getattr(crossing, side)) as catalogue:
        catalogue.outbox.begin_webhook("")
    crossing.migrate()
    assert sent(crossing, receiver) == (["old"] if side == "source" else [])
