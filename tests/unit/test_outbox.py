"""The outbox in the catalogue: what is written, who sends it, and what becomes of it; in each database."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from orihon import deliver_notifications, list_notifications
from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.errors import InvalidSettings
from orihon.notifications import webhook as webhook_module
from orihon.notifications.notification import KINDS, Notification, said
from orihon.notifications.notifier import Outbox, event_of
from orihon.notifications.webhook import Delivery, Webhook, deliver, pause_after, signed_headers
from orihon.reports.notifications import follow_notifications, maintain_notifications
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.texts import set_language
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CataloguePlace
from tests.helpers import logged, refused
from tests.receivers import PATIENCE, Receiver, closed_port, dripping, receiving

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(webhook_module, "TIMEOUT", 2 * PATIENCE)  # the receiver may take its time


def add(catalogue: Catalogue, name: str = "plan", *, event: str | None = None, task: str | None = "one") -> bool:
    body = {"checkpoint": 1, "name": name}
    return catalogue.outbox.add(NewNotice(event or event_of(name, task), "approval_asked", "info", task, body))


def put_off(place: CataloguePlace, seconds: float) -> None:
    """As if so much time had passed since the attempts."""
    place.change("UPDATE notifications SET due = due - ?", seconds)


def made_ago(place: CataloguePlace, days: float) -> None:
    moment = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    place.change("UPDATE notifications SET created_at = ?", moment)


def with_webhook(place: CataloguePlace, url: str, **more: Any) -> Settings:
    return load_settings(place.config | {"notifications": {"webhook": url, **more}}, environ={})


def states(catalogue: Catalogue) -> list[tuple[str, int]]:
    return [(row.webhook, row.attempts) for row in catalogue.outbox.rows()]


# ---- what is written -----------------------------------------------------------------------------------------------


def test_a_task_that_fails_dies_or_is_taken_over_is_told_with_the_change_itself(catalogue: Catalogue) -> None:
    for uuid in ("failed", "dead", "fine", "paused"):
        catalogue.tasks.register(KEY, uuid)
    catalogue.tasks.change_status("failed", TaskStatus.FAILED, error_message="secret words")
    catalogue.tasks.change_status("dead", TaskStatus.DEAD)
    catalogue.tasks.change_status("fine", TaskStatus.COMPLETED)
    catalogue.tasks.change_status("paused", TaskStatus.PAUSED)
    catalogue.tasks.register(KEY, "line", status=TaskStatus.QUEUED)
    claimed = catalogue.queue.claim_next("one")
    assert claimed is not None
    catalogue.leases.release(claimed[1])
    again = catalogue.queue.claim_next("two", abandoned=True)
    assert again is not None
    rows = catalogue.outbox.rows()
    assert [(row.task, row.kind, row.type) for row in rows] == [
        ("failed", "failed", "error"),
        ("dead", "dead", "error"),
        ("line", "taken_over", "warning"),
    ]
    assert rows[2].body == {"attempts": 2, "retries": 1}
    assert rows[0].created_at == catalogue.tasks.get("failed").updated_at
    assert len({row.event for row in rows}) == 3
    assert "secret" not in str(rows)


def test_a_task_that_comes_back_from_the_archive_has_not_failed_again(catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    for status in (TaskStatus.FAILED, TaskStatus.ARCHIVED, TaskStatus.FAILED):
        catalogue.tasks.change_status("one", status)
    assert [row.kind for row in catalogue.outbox.rows()] == ["failed"]


def test_an_event_that_is_told_again_is_one_notice(catalogue: Catalogue) -> None:
    assert add(catalogue)
    assert not add(catalogue)
    assert [row.body["name"] for row in catalogue.outbox.rows()] == ["plan"]


def test_the_feed_goes_on_from_a_number(catalogue: Catalogue) -> None:
    for number in range(5):
        add(catalogue, f"n{number}", task="even" if number % 2 == 0 else None)
    rows = catalogue.outbox.rows()
    assert [row.body["name"] for row in rows] == ["n0", "n1", "n2", "n3", "n4"]
    assert catalogue.outbox.rows(limit=2) == rows[-2:]
    assert catalogue.outbox.rows(since=rows[1].id, limit=2) == rows[2:4]
    assert catalogue.outbox.rows(since=0) == rows
    assert catalogue.outbox.rows(task="even") == rows[::2]
    assert catalogue.outbox.rows(task="even", limit=1) == [rows[4]]
    assert catalogue.outbox.rows(since=rows[0].id, task="even") == [rows[2], rows[4]]
    assert catalogue.outbox.rows(task="other") == []


def test_who_follows_the_feed_misses_nothing_while_many_write(place: CataloguePlace, catalogue: Catalogue) -> None:
    """Numbers come in the order of the commits, also where several connections write at once."""
    stop = threading.Event()

    def write(number: int) -> None:
        for step in range(15):
            uuid = f"{number}-{step}"
            if step % 2:
                add(catalogue, uuid)
            else:  # written by a trigger, in the transaction of something else
                catalogue.tasks.register(KEY, uuid)
                catalogue.tasks.change_status(uuid, TaskStatus.FAILED)

    def follow() -> list[str]:
        seen: list[str] = []
        last = 0
        while True:
            is_over = stop.is_set()
            for row in catalogue.outbox.rows(since=last):
                last = row.id
                seen.append(row.event)
            if is_over:
                return seen

    with ThreadPoolExecutor() as pool:
        following = pool.submit(follow)
        list(pool.map(write, range(4)))
        stop.set()
        seen = following.result()
    assert sorted(seen) == sorted(row.event for row in catalogue.outbox.rows(since=0))
    assert len(seen) == 60


def test_a_catalogue_that_cannot_be_written_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = CataloguePlace(tmp_path, None)
    with place.open() as catalogue:
        place.change("DROP TABLE notifications")
        Outbox(catalogue, place.base_dir, place.settings).add("compressed", "info", "one", {})
    (record,) = logged(caplog, "orihon.notifications")
    assert "could not be written" in record.getMessage()


# ---- how it is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_every_kind_is_said_in_each_language(lang: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "dead": {"attempts": 3},
        "compressed": {"usage_before": 0.92, "usage_after": 0.34},
        "approval_asked": {"name": "plan"},
        "approval_reminded": {"name": "plan"},
        "approval_answered": {"name": "plan", "by": "mika", "decision": "approve"},
        "approval_expired": {"name": "plan", "by": "orihon", "decision": "reject"},
        "alert": {"name": "disk_free", "figures": {"value": 0.5, "limit": 1.0}},
        "alert_over": {"name": "disk_free", "figures": {"value": 0.5, "limit": 1.0}},
    }
    set_language(lang)
    try:
        said_now = {kind: said(kind, bodies.get(kind, {})) for kind in KINDS}
        unknown = said("x", {}).replace("x", "")
    finally:
        set_language(None)
    assert len(set(said_now.values())) == len(KINDS)
    assert not [kind for kind, sentence in said_now.items() if unknown in sentence]
    assert all("mika" in said_now[kind] for kind in ("approval_answered",))


def test_a_row_of_another_version_is_shown_all_the_same() -> None:
    assert said("eclipse", {}) == "A notification of the kind eclipse"
    assert said("approval_asked", {}) == "A notification of the kind approval_asked"
    assert said("compressed", {"usage_before": 0.9}) == "A notification of the kind compressed"
    assert "?" in said("compressed", {"usage_before": 0.9, "usage_after": None})


# ---- the signature -------------------------------------------------------------------------------------------------


def test_the_signature_is_the_one_of_the_documentation() -> None:
    body = b'{"id":"9f86d081884c7d65","kind":"failed"}'
    headers = signed_headers("s3cret", "9f86d081884c7d65", body, 1763200000)
    assert headers == {
        "X-Orihon-Id": "9f86d081884c7d65",
        "X-Orihon-Timestamp": "1763200000",
        "X-Orihon-Signature": "sha256=4c5f93241d53a1722b61c101ce5a02d12ececfbdf35b6628e7ffd28446a919e3",
    }


@pytest.mark.parametrize("secret", [None, ""])
def test_without_a_secret_nothing_is_signed(secret: str | None) -> None:
    assert set(signed_headers(secret, "x", b"{}", 1)) == {"X-Orihon-Id", "X-Orihon-Timestamp"}


def test_a_receiver_can_check_what_it_gets(catalogue: Catalogue, receiver: Receiver) -> None:
    add(catalogue)
    assert deliver(catalogue, Webhook(receiver.url, "s3cret")) == Delivery(delivered=1)
    headers, raw = receiver.requests[0][1], receiver.raw[0]
    signed = f"{headers['X-Orihon-Timestamp']}.".encode() + raw
    digest = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert headers["X-Orihon-Signature"] == f"sha256={digest}"
    row = catalogue.outbox.rows()[0]
    assert headers["X-Orihon-Id"] == row.event == receiver.bodies[0]["id"]
    assert receiver.bodies[0] == Notification.of(row).payload()
    assert receiver.bodies[0]["message"] == "The task waits for an answer: plan"


# ---- delivery ------------------------------------------------------------------------------------------------------


def test_what_fails_is_put_off_and_tried_again(catalogue: Catalogue, place: CataloguePlace, receiver: Receiver) -> None:
    add(catalogue)
    receiver.answers = [500, 404, 302]
    hook = Webhook(receiver.url)
    for attempt in (1, 2, 3):
        before = catalogue._db.moment().seconds
        assert deliver(catalogue, hook) == Delivery(failed=1, waiting=1)
        row = catalogue.outbox.rows()[0]
        assert row.last_error == ("HTTP 500", "HTTP 404", "HTTP 302")[attempt - 1]
        assert row.due is not None
        assert before + pause_after(attempt) <= row.due <= catalogue._db.moment().seconds + pause_after(attempt)
        put_off(place, -1000)  # so that it is not due while this is looked at, however long that takes
        assert deliver(catalogue, hook) == Delivery(waiting=1)  # not yet
        put_off(place, 1000 + pause_after(attempt))
    assert deliver(catalogue, hook) == Delivery(delivered=1)
    assert states(catalogue) == [("delivered", 4)]
    assert len({headers["X-Orihon-Id"] for _, headers in receiver.requests}) == 1
    assert catalogue.outbox.rows()[0].last_error is None


def test_pauses_grow_to_an_hour() -> None:
    pauses = [pause_after(attempt) for attempt in range(1, 60)]
    assert pauses[:4] == [5, 10, 20, 40]
    assert max(pauses) == pauses[-1] == 3600


def test_after_a_day_it_is_given_up_and_that_is_said(
    catalogue: Catalogue, place: CataloguePlace, caplog: pytest.LogCaptureFixture
) -> None:
    add(catalogue)
    hook = Webhook(f"http://127.0.0.1:{closed_port()}/secret-path")
    deliver(catalogue, hook)
    made_ago(place, 1.1)
    for _ in range(6):
        assert deliver(catalogue, hook, early=True).failed == 1
    assert deliver(catalogue, hook, early=True) == Delivery(given_up=1)
    assert states(catalogue) == [("given_up", 8)]
    errors = [one.getMessage() for one in logged(caplog, "orihon.notifications") if one.levelname == "ERROR"]
    assert len(errors) == 1
    assert "given up after 8 attempts" in errors[0]
    assert "secret-path" not in errors[0]


def test_a_receiver_that_is_down_is_left_alone_after_three_failures(catalogue: Catalogue) -> None:
    for number in range(5):
        add(catalogue, f"n{number}")
    hook = Webhook(f"http://127.0.0.1:{closed_port()}/")
    assert deliver(catalogue, hook) == Delivery(failed=3, waiting=5)
    assert [attempts for _, attempts in states(catalogue)] == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("early", [False, True])
def test_three_rows_that_always_fail_keep_no_other_from_being_sent(
    catalogue: Catalogue, place: CataloguePlace, receiver: Receiver, early: bool
) -> None:
    for number in range(5):
        add(catalogue, f"n{number}")
    hook = Webhook(receiver.url)
    receiver.answers = [500, 500, 500]
    assert deliver(catalogue, hook, early=early) == Delivery(failed=3, waiting=5)
    put_off(place, 10)  # due again, before the others in the feed
    receiver.answers = [204, 204, 500, 500, 500]
    assert deliver(catalogue, hook, early=early) == Delivery(delivered=2, failed=3, waiting=3)
    assert states(catalogue) == [("pending", 2)] * 3 + [("delivered", 1)] * 2


def test_a_receiver_that_does_not_answer_fails_in_time(
    catalogue: Catalogue, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_module, "TIMEOUT", 0.05)
    add(catalogue)
    receiver.gate.clear()
    assert deliver(catalogue, Webhook(receiver.url)) == Delivery(failed=1, waiting=1)


@pytest.mark.parametrize("piece", [b"x", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_receiver_that_drips_fails_in_time_too(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    """Each piece would begin a new time limit of the socket, and the next sender would come to the same row."""
    monkeypatch.setattr(webhook_module, "TIMEOUT", 0.1)
    add(catalogue)
    with dripping(repeat(piece, 600), pause=0.02) as address:
        assert deliver(catalogue, Webhook(address)) == Delivery(failed=1, waiting=1)
    assert [row.last_error for row in catalogue.outbox.rows()] == ["TimeoutError"]


def test_two_deliverers_at_once_send_each_once(place: CataloguePlace, receiver: Receiver) -> None:
    with place.open() as catalogue:
        for number in range(12):
            add(catalogue, f"n{number}")

    def work(_: int) -> Delivery:
        with place.open() as mine:
            return deliver(mine, Webhook(receiver.url))

    with ThreadPoolExecutor() as pool:
        done = list(pool.map(work, range(3)))
    assert sum(one.delivered for one in done) == 12
    assert len(receiver.bodies) == len({body["id"] for body in receiver.bodies}) == 12


def test_a_row_whose_sender_died_is_sent_by_the_next_one_and_its_late_word_is_not_heard(
    catalogue: Catalogue, place: CataloguePlace, receiver: Receiver
) -> None:
    add(catalogue)
    taken = catalogue.outbox.take(*catalogue.outbox.due())
    assert taken is not None
    hook = Webhook(receiver.url)
    assert deliver(catalogue, hook, early=True) == Delivery(waiting=1)  # it may be on its way
    put_off(place, 61)
    assert deliver(catalogue, hook) == Delivery(delivered=1)
    assert not catalogue.outbox.settle(taken, "pending", error="late")
    assert states(catalogue) == [("delivered", 2)]


def test_a_boot_or_a_clock_that_was_set_keeps_nothing_back(
    catalogue: Catalogue, place: CataloguePlace, receiver: Receiver
) -> None:
    for name in ("boot", "clock"):
        add(catalogue, name)
    hook = Webhook(f"http://127.0.0.1:{closed_port()}/")
    assert deliver(catalogue, hook).failed == 2
    place.change(
        "UPDATE notifications SET era = 'earlier' WHERE attempts = 1 AND id = (SELECT min(id) FROM notifications)"
    )
    place.change("UPDATE notifications SET due = due + 1000000 WHERE era <> 'earlier'")
    assert deliver(catalogue, Webhook(receiver.url)) == Delivery(delivered=2)


def test_the_first_webhook_ever_does_not_get_what_was_told_long_before(
    catalogue: Catalogue, place: CataloguePlace, receiver: Receiver
) -> None:
    add(catalogue, "old")
    made_ago(place, 2)
    add(catalogue, "new")
    assert deliver(catalogue, Webhook(receiver.url)) == Delivery(delivered=1)
    assert [body["name"] for body in receiver.bodies] == ["new"]
    assert states(catalogue) == [("none", 0), ("delivered", 1)]
    add(catalogue, "over the weekend")
    made_ago(place, 3)
    assert deliver(catalogue, Webhook(receiver.url)) == Delivery(delivered=1)


# ---- the feed ------------------------------------------------------------------------------------------------------


def test_the_library_lists_follows_delivers_and_forgets(place: CataloguePlace, receiver: Receiver) -> None:
    settings = with_webhook(place, receiver.url)
    place.base_dir.mkdir()
    if not place.is_shared:
        assert list_notifications(place.base_dir, settings) == []
        assert deliver_notifications(place.base_dir, settings) == Delivery()
        assert list(place.base_dir.glob("*")) == []
    with place.open() as catalogue:
        catalogue.tasks.register(KEY, "one-task")
        add(catalogue, "first", task="one-task")
        add(catalogue, "second")
    found = list_notifications(place.base_dir, settings)
    assert [one.message for one in found] == [f"The task waits for an answer: {name}" for name in ("first", "second")]
    assert list_notifications(place.base_dir, settings, task="one-t") == found[:1]
    assert list_notifications(place.base_dir, settings, since=found[0].number) == found[1:]
    with refused(InvalidSettings, "no_webhook"):
        deliver_notifications(place.base_dir, place.settings)
    assert deliver_notifications(place.base_dir, settings) == Delivery(delivered=2)
    assert [one.webhook for one in list_notifications(place.base_dir, settings)] == ["delivered", "delivered"]
    assert maintain_notifications(OpenBase(place.base_dir, settings)).as_dict()["removed"] == 0
    made_ago(place, 31)
    assert maintain_notifications(OpenBase(place.base_dir, settings)).removed == 2
    assert list_notifications(place.base_dir, settings) == []


def test_following_goes_on_with_what_comes(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with place.open() as catalogue:
        add(catalogue, "first")
        following = follow_notifications(
            OpenBase(place.base_dir, place.settings), wait=lambda _: add(catalogue, "second", task=None)
        )
        assert [next(following).body["name"] for _ in range(2)] == ["first", "second"]
        following.close()


def test_following_goes_on_in_a_catalogue_that_was_made_anew(tmp_path: Path) -> None:
    place = CataloguePlace(tmp_path / "contexts", None)
    with place.open() as catalogue:
        for name in ("first", "second"):
            add(catalogue, name)

    def make_anew(_: float) -> None:
        for path in place.base_dir.glob("tasks.db*"):
            path.unlink()
        with place.open() as anew:
            add(anew, "third")

    following = follow_notifications(OpenBase(place.base_dir, place.settings), wait=make_anew)
    assert [next(following).body["name"] for _ in range(3)] == ["first", "second", "third"]
    following.close()


def test_nothing_is_looked_after_without_a_catalogue_or_with_an_address_that_is_none(
    place: CataloguePlace, caplog: pytest.LogCaptureFixture
) -> None:
    base = OpenBase(place.base_dir, with_webhook(place, "http://h:99999/x"), create=True)
    assert maintain_notifications(base).removed == 0
    assert "not sent" in caplog.text


def test_an_address_that_is_none_keeps_nothing_from_being_forgotten(place: CataloguePlace) -> None:
    place.base_dir.mkdir()
    with place.open() as catalogue:
        add(catalogue)
    made_ago(place, 31)
    assert maintain_notifications(OpenBase(place.base_dir, with_webhook(place, "http://h:99999/x"))).removed == 1


def test_what_the_webhook_has_not_got_is_not_forgotten_before_it_is_given_up(place: CataloguePlace) -> None:
    """Also where nobody wants to keep anything: a receiver may be down while somebody cleans up."""
    place.base_dir.mkdir()
    settings = with_webhook(place, f"http://127.0.0.1:{closed_port()}/", keep_days=0)
    with place.open() as catalogue:
        add(catalogue)
        assert maintain_notifications(OpenBase(place.base_dir, settings)).as_dict() == Delivery(
            failed=1, waiting=1
        ).as_dict() | {"removed": 0}
        made_ago(place, 3)
        assert maintain_notifications(OpenBase(place.base_dir, settings)).removed == 1
        add(catalogue, "again")
        assert maintain_notifications(
            OpenBase(place.base_dir, place.settings.replace(**{"notifications.keep_days": 0}))
        ).removed
        forever = place.settings.replace(**{"notifications.keep_days": 10**12})
        assert maintain_notifications(OpenBase(place.base_dir, forever)).removed == 0


def test_a_slow_receiver_gets_so_much_time_and_no_more(catalogue: Catalogue, receiver: Receiver) -> None:
    for number in range(3):
        add(catalogue, f"n{number}")
    assert deliver(catalogue, Webhook(receiver.url), seconds=0) == Delivery(waiting=3)
    assert deliver(catalogue, Webhook(receiver.url), seconds=600) == Delivery(delivered=3)
