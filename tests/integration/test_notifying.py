"""Notifications of tasks as they happen: none is lost by a kill, none holds up the work; in each database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import Notification, TaskContextManager, TaskKey, Waiting, deliver_notifications, list_notifications
from orihon.catalogue.outbox import NewNotice
from orihon.notifications import sender
from orihon.notifications.sender import send_soon, wait_until_sent
from orihon.notifications.webhook import Delivery
from orihon.runtime.queue import QueueLimits
from orihon.runtime.worker import WorkerProcess
from orihon.settings import Settings, load_settings
from orihon.tasks.approvals.answers import approve, reject, sweep
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.catalogues import CataloguePlace
from tests.conformance.child import ROOT
from tests.helpers import Child, SomeSteps, logged
from tests.integration.killing import count_changes, ended, killed_at_change
from tests.integration.run_supervisor import LIMITS, eventually
from tests.integration.worker_handlers import HANDLER
from tests.receivers import PATIENCE, Receiver, closed_port, receiving

KEY = TaskKey("cli", "acme", "rocket", "issue", "27", "mika")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("orihon.notifications.webhook.TIMEOUT", PATIENCE)  # on a busy machine an answer takes longer


def config_of(place: CataloguePlace, url: str | None = None, **more: Any) -> dict[str, Any]:
    return place.config | {"notifications": {} if url is None else {"webhook": url}} | more


def settings_of(place: CataloguePlace, url: str | None = None) -> Settings:
    return load_settings(config_of(place, url), environ={})


def feed(place: CataloguePlace, **options: Any) -> list[Notification]:
    return list_notifications(place.base_dir, place.settings, **options)


def kinds(place: CataloguePlace) -> list[tuple[str, dict[str, Any]]]:
    return [(one.kind, dict(one.body)) for one in feed(place)]


# ---- kills ---------------------------------------------------------------------------------------------------------


def test_a_kill_at_any_change_leaves_the_failure_with_its_notice_or_neither(
    place: CataloguePlace, receiver: Receiver, some_steps: SomeSteps
) -> None:
    TaskContextManager(place.base_dir, KEY, place.config).complete()

    def act(uuid: str) -> None:
        TaskContextManager(place.base_dir, KEY, place.config, uuid=uuid).fail("the pump is broken")

    last = count_changes(lambda: act("task-0"))
    kills = 0
    # Only the last changes: before them the task is opened, which is tested elsewhere.
    for number in some_steps(range(max(1, last - 24), last + 1)):
        uuid = f"task-{number}"
        was_killed = killed_at_change(number, lambda: act(uuid))  # noqa: B023 - it is over when the next one begins
        kills += was_killed
        with place.open() as catalogue:
            is_failed = catalogue.tasks.get(uuid).status.value == "failed"
        assert was_killed or is_failed, "who had to ask a slow server again was counted with more changes"
        assert len(feed(place, task=uuid)) == is_failed
    assert kills
    deliver_notifications(place.base_dir, settings_of(place, receiver.url))
    assert sorted(body["id"] for body in receiver.bodies) == sorted(one.id for one in feed(place))
    assert {one.webhook for one in feed(place)} == {"delivered"}


#: Another process waits as long for an answer, also at its end.
_PATIENT = f"""
from orihon.notifications import sender, webhook
sender._LAST_SECONDS = webhook.TIMEOUT = {PATIENCE}
"""
_SENDS_AND_WAITS = f"""{_PATIENT}
import json, sys
from pathlib import Path
from orihon import TaskContextManager, TaskKey
config = json.loads(sys.argv[2])
TaskContextManager(sys.argv[1], TaskKey("cli", "acme", "rocket", "issue", "1"), config, uuid="doomed").fail("x")
print("failed", flush=True)
sys.stdin.read()
"""


def test_who_is_killed_while_sending_leaves_it_to_the_next_process(place: CataloguePlace, receiver: Receiver) -> None:
    receiver.gate.clear()
    command = [sys.executable, "-c", _SENDS_AND_WAITS, str(place.base_dir), json.dumps(config_of(place, receiver.url))]
    environment = os.environ | {"no_proxy": "*"}
    with Child(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "failed\n"  # the work is over; the receiver has not answered yet
        receiver.wait_for_arrival()
        child.send_signal(signal.SIGKILL)
    receiver.gate.set()
    settings = settings_of(place, receiver.url)
    assert deliver_notifications(place.base_dir, settings, early=True) == Delivery(waiting=1)
    place.change("UPDATE notifications SET due = due - 61")
    assert deliver_notifications(place.base_dir, settings) == Delivery(delivered=1)
    first, second = receiver.bodies
    assert first == second
    assert (first["kind"], first["task"], first["message"]) == ("failed", "doomed", "The task has failed")


# ---- in the background ---------------------------------------------------------------------------------------------


def test_a_process_sends_what_it_writes_and_does_not_wait_for_it(place: CataloguePlace, receiver: Receiver) -> None:
    receiver.gate.clear()
    config = config_of(place, receiver.url, compression={"keep_recent": 2, "min_to_compress": 2})
    ctx = TaskContextManager(place.base_dir, KEY, config)
    for number in range(12):
        ctx.message_store.add_message("user" if number % 2 else "assistant", f"{number}: " + "words and more. " * 60)
    seen: list[str] = []
    ctx.compressor.notifier.subscribe(lambda notice: seen.append(notice.kind))
    ctx.compressor.compress(strategy="summarize", target=0.05)
    ctx.complete()  # while the receiver keeps its first request
    assert seen == ["compressed"]
    assert [one.kind for one in feed(place, task=ctx.uuid)] == ["compressed"]
    receiver.gate.set()
    assert wait_until_sent(place.base_dir, settings_of(place, receiver.url), PATIENCE)
    (told,) = receiver.bodies
    assert told["details"]["before_tokens"] > told["details"]["after_tokens"]
    assert told["actions"]["undo"] == f"orihon undo {ctx.uuid} --compression 1"
    assert "words and more" not in json.dumps(told)
    with place.open() as catalogue:
        assert catalogue.counters.counted("2000-01-01T")["compressions"] == 1  # what the monitor judges by


def test_the_thread_comes_back_while_a_receiver_does_not_answer(
    place: CataloguePlace, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="orihon.notifications")
    monkeypatch.setattr(sender, "_FIRST_REST", 0.01)
    monkeypatch.setattr("orihon.notifications.webhook.FIRST_PAUSE", 0.001)
    receiver.answers = [500, 503, 429]
    TaskContextManager(place.base_dir, KEY, config_of(place, receiver.url)).fail("x")
    deadline = time.monotonic() + PATIENCE
    again = f"webhook {receiver.url.removesuffix('/hook')} takes notifications again"
    while again not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (feed(place)[0].webhook, feed(place)[0].attempts, len(receiver.bodies)) == ("delivered", 4, 4)
    messages = [record.getMessage() for record in logged(caplog, "orihon.notifications")]
    said = [message for message in messages if receiver.url.removesuffix("/hook") in message]
    assert [sentence.partition("; ")[0].rpartition("/")[2].partition(" ")[2] for sentence in said] == [
        "does not take notifications",
        "takes notifications again",
    ]


def test_a_thread_that_is_woken_before_a_notice_is_due_again_does_not_leave_it_behind(
    place: CataloguePlace, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="orihon.notifications")
    monkeypatch.setattr(sender, "_FIRST_REST", 0.01)
    monkeypatch.setattr("orihon.notifications.webhook.FIRST_PAUSE", 3600.0)  # not due before the test says so
    receiver.answers = [500]
    settings = settings_of(place, receiver.url)
    TaskContextManager(place.base_dir, KEY, config_of(place, receiver.url)).fail("x")
    assert wait_until_sent(place.base_dir, settings, PATIENCE)
    send_soon(place.base_dir, settings)
    assert wait_until_sent(place.base_dir, settings, PATIENCE)
    assert f"{receiver.url.removesuffix('/hook')} takes notifications again" not in caplog.text
    place.change("UPDATE notifications SET due = due - 7200")
    eventually(lambda: feed(place)[0].webhook == "delivered")
    assert len(receiver.bodies) == 2


def test_what_is_given_up_does_not_keep_the_thread_from_the_rest(
    place: CataloguePlace, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_FIRST_REST", 0.01)
    settings = load_settings(config_of(place, receiver.url))
    receiver.answers = [410, 410, 410]
    place.base_dir.mkdir()
    with place.open() as catalogue:
        for number in range(4):
            catalogue.outbox.add(NewNotice(f"e{number}", "alert", "warning", None, {}))
        catalogue.outbox.begin_webhook("")
        place.change("UPDATE notifications SET attempts = 8")  # as often tried, so that e3 comes last
        place.change("UPDATE notifications SET created_at = '2026-01-01' WHERE event <> 'e3'")
        send_soon(place.base_dir, settings)
        for _ in range(4):
            receiver.wait_for_arrival()
    assert [one.webhook for one in feed(place)][:3] == ["given_up"] * 3
    assert receiver.bodies[-1]["id"] == "e3"
    eventually(lambda: feed(place)[-1].webhook == "delivered")  # its thread is not left to the next test


def test_an_address_that_is_none_and_a_catalogue_that_is_away_stop_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = CataloguePlace(tmp_path / "contexts", None)
    TaskContextManager(place.base_dir, KEY, config_of(place, "http://h:99999/x")).fail("x")
    assert "notifications are not sent" in caplog.text
    settings = settings_of(place, f"http://127.0.0.1:{closed_port()}/")
    send_soon(tmp_path / "gone", settings)
    assert wait_until_sent(tmp_path / "gone", settings, PATIENCE)
    assert not (tmp_path / "gone").exists()
    (tmp_path / "tasks.db").write_bytes(b"no database" * 1000)
    send_soon(tmp_path, settings)
    assert wait_until_sent(tmp_path, settings, PATIENCE)
    assert "notifications were not sent" in caplog.text


_ENDS_AT_ONCE = f"""{_PATIENT}
import json, sys
from orihon import TaskContextManager, TaskKey
config = json.loads(sys.argv[2])
TaskContextManager(sys.argv[1], TaskKey("cli", "acme", "rocket", "issue", "1"), config).fail("x")
"""


def test_a_short_program_delivers_before_it_ends(tmp_path: Path, receiver: Receiver) -> None:
    place = CataloguePlace(tmp_path / "contexts", None)
    command = [sys.executable, "-c", _ENDS_AT_ONCE, str(place.base_dir), json.dumps(config_of(place, receiver.url))]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"no_proxy": "*"}, check=True)
    assert [body["kind"] for body in receiver.bodies] == ["failed"]
    assert feed(place)[0].webhook == "delivered"


def test_a_forked_child_sends_for_itself(tmp_path: Path, receiver: Receiver) -> None:
    place = CataloguePlace(tmp_path / "contexts", None)
    settings = settings_of(place, receiver.url)
    TaskContextManager(place.base_dir, KEY, config_of(place, receiver.url)).fail("x")
    assert wait_until_sent(place.base_dir, settings, PATIENCE)
    child = os.fork()
    if child == 0:
        try:
            TaskContextManager(place.base_dir, KEY, config_of(place, receiver.url)).fail("y")
            os._exit(0 if wait_until_sent(place.base_dir, settings, PATIENCE) else 1)
        finally:
            os._exit(2)
    assert ended(child) == 0
    assert [one.webhook for one in feed(place)] == ["delivered", "delivered"]


def test_an_idle_worker_sends_what_others_have_left(place: CataloguePlace, receiver: Receiver) -> None:
    TaskContextManager(place.base_dir, KEY, place.config).fail("x")
    assert feed(place)[0].webhook == "pending"
    config = config_of(place, receiver.url)
    WorkerProcess(
        1, config, base_dir=place.base_dir, handler=HANDLER, limits=QueueLimits(**LIMITS), until_empty=True
    ).run()
    assert wait_until_sent(place.base_dir, settings_of(place, receiver.url), PATIENCE)
    assert [body["kind"] for body in receiver.bodies] == ["failed"]


# ---- questions -----------------------------------------------------------------------------------------------------


def asked(place: CataloguePlace, name: str, **options: Any) -> TaskContextManager:
    ctx = TaskContextManager(place.base_dir, KEY, place.config)
    ctx.message_store.add_message("user", "Build a rocket.")
    with pytest.raises(Waiting):
        ctx.checkpoint(name, "May I use the secret fuel?", **options)
    return ctx


def test_questions_and_answers_are_told_once_each_and_without_their_words(place: CataloguePlace) -> None:
    yes = asked(place, "plan")
    no = asked(place, "fuel")
    approve(OpenBase(place.base_dir, place.settings), yes.uuid, by="mika", reason="the secret is safe")
    reject(OpenBase(place.base_dir, place.settings), no.uuid, by="taro", reason="no secret")
    sweep(OpenBase(place.base_dir, place.settings))
    assert kinds(place) == [
        ("approval_asked", {"checkpoint": 1, "name": "plan"}),
        ("approval_asked", {"checkpoint": 1, "name": "fuel"}),
        ("approval_answered", {"checkpoint": 1, "name": "plan", "decision": "approve", "by": "mika"}),
        ("approval_answered", {"checkpoint": 1, "name": "fuel", "decision": "reject", "by": "taro"}),
    ]
    assert feed(place)[3].message == "fuel was answered by taro: rejected"
    assert "secret" not in str(feed(place))


def test_a_task_that_waits_again_for_the_same_answer_tells_it_once(place: CataloguePlace) -> None:
    ctx = asked(place, "plan")
    with place.open() as catalogue:
        catalogue.tasks.change_status(ctx.uuid, TaskStatus.PAUSED)
    again = TaskContextManager.resume(place.base_dir, ctx.uuid, place.config)
    with pytest.raises(Waiting):
        again.wait_if_asked()
    assert [kind for kind, _ in kinds(place)] == ["approval_asked"]


def test_reminders_and_time_limits_are_told(place: CataloguePlace) -> None:
    asked(place, "plan", remind_every=0.001, timeout=3600)
    sweep(OpenBase(place.base_dir, place.settings))
    sweep(OpenBase(place.base_dir, place.settings))
    asked(place, "fuel", timeout=0.001)
    sweep(OpenBase(place.base_dir, place.settings))
    told = [kind for kind, _ in kinds(place)]
    assert told.count("approval_reminded") == 3
    assert told.count("approval_expired") == 1
    reminders = [body["reminder"] for kind, body in kinds(place) if kind == "approval_reminded"]
    assert reminders == [1, 2, 3]
    (expired,) = [one for one in feed(place) if one.kind == "approval_expired"]
    assert expired.message == "Nobody has answered fuel in time: rejected"
