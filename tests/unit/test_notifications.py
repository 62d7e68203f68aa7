"""Notices about compressions: the table of the design in both languages, and a webhook that never gets in the way."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from orihon.errors import InvalidSettings
from orihon.notifications import sender, webhook
from orihon.notifications.notification import CompressionNotification, NotificationDetails
from orihon.notifications.notifier import Notifier
from orihon.texts import set_language, text
from tests.helpers import Child, logged
from tests.receivers import PATIENCE, Receiver, closed_port, receiving

TASK = "0f0e0d0c-1111-4222-8333-444455556666"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy between the test and its own server, which may take its time; retries follow at once."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(sender, "PAUSES", (0.01, 0.01))
    monkeypatch.setattr(webhook, "TIMEOUT", 2 * PATIENCE)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="orihon.notifications")
    return caplog


@pytest.fixture(params=["en", "ja"])
def spoken(request: pytest.FixtureRequest) -> Iterator[str]:
    set_language(request.param)
    yield request.param
    set_language(None)


def compressed(notifier: Notifier, number: int = 1, *, usage_after: float = 0.34) -> None:
    """One compression, told apart by its number."""
    notifier.compressed(9200, 3400, 0.92, usage_after, compression=number, folds=[7, 8])


def numbers(receiver: Receiver) -> list[int]:
    return [int(body["actions"]["undo"].rpartition(" ")[2]) for body in receiver.bodies]


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in logged(log, "orihon.notifications") if one.levelno == logging.WARNING]


# ---- the table ------------------------------------------------------------------------------------------------------

TABLE = {  # 通知タイミング: 状況, 通知内容
    "コンテキスト80%到達": {"ja": "圧縮を推奨します", "en": "Compression is recommended"},
    "自動圧縮実行": {
        "ja": "コンテキストを圧縮しました（92% → 34%）",
        "en": "The context was compressed (92% → 34%)",
    },
    "圧縮後も90%超": {"ja": "追加の圧縮が必要です", "en": "Further compression is needed"},
}


def test_at_80_percent_compression_is_recommended(spoken: str) -> None:
    told: list[CompressionNotification] = []
    notifier = Notifier(TASK, callbacks=[told.append])
    notifier.usage(7999, 0.7999)
    assert told == []
    notifier.usage(8000, 0.8)
    assert [notice.message for notice in told] == [TABLE["コンテキスト80%到達"][spoken]]
    assert (told[0].type, told[0].kind) == ("warning", "recommended")
    assert told[0].details == NotificationDetails(8000, 8000, 1.0, ())
    assert (told[0].actions.view_archive, told[0].actions.undo) == ("", "")
    assert told[0].usage_before == told[0].usage_after == 0.8


def test_a_compression_is_told_with_both_percentages(spoken: str) -> None:
    told: list[CompressionNotification] = []
    compressed(Notifier(TASK, callbacks=[told.append]), 5)
    assert [notice.message for notice in told] == [TABLE["自動圧縮実行"][spoken]]
    assert (told[0].type, told[0].kind) == ("success", "compressed")
    assert told[0].actions.view_archive == f"orihon view {TASK} --fold 7"
    assert told[0].actions.undo == f"orihon undo {TASK} --compression 5"


def test_over_90_percent_after_it_more_is_needed(spoken: str) -> None:
    told: list[CompressionNotification] = []
    notifier = Notifier(TASK, callbacks=[told.append])
    compressed(notifier, usage_after=0.9)
    assert [notice.kind for notice in told] == ["compressed"]
    told.clear()
    compressed(notifier, usage_after=0.901)
    assert [(notice.type, notice.kind) for notice in told] == [("info", "compressed"), ("warning", "still_full")]
    assert told[1].message == TABLE["圧縮後も90%超"][spoken]
    assert told[1].actions == told[0].actions
    assert told[1].details == told[0].details


def test_the_record_has_the_fields_of_the_design_and_ours() -> None:
    told: list[CompressionNotification] = []
    compressed(Notifier(TASK, callbacks=[told.append]))
    fields = told[0].as_dict()
    assert fields.pop("created_at") == told[0].created_at > "2024"
    assert fields == {
        "type": "success",
        "message": "The context was compressed (92% → 34%)",
        "details": {
            "before_tokens": 9200,
            "after_tokens": 3400,
            "compression_ratio": 3400 / 9200,
            "archived_items": ["7", "8"],
        },
        "actions": {"view_archive": f"orihon view {TASK} --fold 7", "undo": f"orihon undo {TASK} --compression 1"},
        "kind": "compressed",
        "task": TASK,
        "usage_before": 0.92,
        "usage_after": 0.34,
    }


def test_without_folds_there_is_nothing_to_view_and_an_empty_view_has_a_ratio() -> None:
    told: list[CompressionNotification] = []
    Notifier(TASK, callbacks=[told.append]).compressed(0, 0, 0.0, 0.0, compression=3, folds=[])
    assert told[0].actions.view_archive == ""
    assert told[0].actions.undo.endswith("--compression 3")
    assert told[0].details == NotificationDetails(0, 0, 1.0, ())


# ---- when -----------------------------------------------------------------------------------------------------------


def test_compression_is_recommended_once_for_each_time_the_view_fills_up() -> None:
    told: list[CompressionNotification] = []
    notifier = Notifier(TASK, callbacks=[told.append], warn_at=0.5)
    for usage in (0.4, 0.5, 0.6, 0.7):
        notifier.usage(100, usage)
    assert len(told) == 1
    for usage in (0.49, 0.51, 0.6):
        notifier.usage(100, usage)
    assert len(told) == 2


@pytest.mark.parametrize(("usage_after", "recommended"), [(0.79, 1), (0.8, 0)])
def test_a_compression_arms_the_recommendation_when_it_brings_the_view_below(
    usage_after: float, recommended: int
) -> None:
    told: list[CompressionNotification] = []
    notifier = Notifier(TASK)
    notifier.usage(100, 0.85)
    compressed(notifier, usage_after=usage_after)
    notifier.subscribe(told.append)
    notifier.usage(100, 0.85)
    assert len(told) == recommended


# ---- log and callbacks ----------------------------------------------------------------------------------------------


def test_every_notice_is_logged_with_its_commands(log: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(TASK)
    notifier.usage(8000, 0.8)
    compressed(notifier)
    assert [(record.levelname, record.getMessage()) for record in logged(log, "orihon.notifications")] == [
        ("INFO", f"{TASK}: Compression is recommended"),
        (
            "INFO",
            f"{TASK}: The context was compressed (92% → 34%)"
            f" [orihon view {TASK} --fold 7] [orihon undo {TASK} --compression 1]",
        ),
    ]


def test_a_callback_that_raises_is_logged_and_the_others_run(log: pytest.LogCaptureFixture) -> None:
    def broken(notice: CompressionNotification) -> None:
        raise RuntimeError("no ears")

    told: list[CompressionNotification] = []
    notifier = Notifier(TASK, callbacks=[broken])
    notifier.subscribe(told.append)
    compressed(notifier)
    assert len(told) == 1
    assert warnings(log) == [f"{TASK}: a callback for notifications failed"]
    assert "no ears" in log.text


def test_a_callback_may_use_the_notifier() -> None:
    told: list[str] = []

    def nested(notice: CompressionNotification) -> None:
        told.append(notice.kind)
        if notice.kind == "recommended":
            compressed(notifier)

    notifier = Notifier(TASK, callbacks=[nested])
    notifier.usage(100, 0.9)
    assert told == ["recommended", "compressed"]


# ---- webhook --------------------------------------------------------------------------------------------------------


def test_the_webhook_gets_the_record_as_json(receiver: Receiver) -> None:
    told: list[CompressionNotification] = []
    notifier = Notifier(TASK, callbacks=[told.append], webhook=receiver.url)
    compressed(notifier, usage_after=0.95)
    assert notifier.close(PATIENCE)
    ids = [headers["X-Orihon-Id"] for _, headers in receiver.requests]
    assert receiver.bodies == [{"id": event, **notice.as_dict()} for event, notice in zip(ids, told, strict=True)]
    assert len(set(ids)) == 2
    assert [body["kind"] for body in receiver.bodies] == ["compressed", "still_full"]
    path, headers = receiver.requests[0]
    assert path == "/hook"
    assert headers["Content-Type"] == "application/json"


def test_a_webhook_is_used_again_after_a_rest(receiver: Receiver) -> None:
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier, 1)
    receiver.wait_for_arrival()
    compressed(notifier, 2)
    receiver.wait_for_arrival()
    assert notifier.close(PATIENCE)
    assert numbers(receiver) == [1, 2]


def test_a_slow_server_does_not_block_and_the_oldest_waiting_notices_go(
    receiver: Receiver, log: pytest.LogCaptureFixture
) -> None:
    receiver.gate.clear()
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier, 0)
    receiver.wait_for_arrival()
    for number in range(1, 36):
        compressed(notifier, number)
    assert numbers(receiver) == [0]  # the first is still without an answer
    assert len(warnings(log)) == 3
    assert "the oldest notification is dropped" in warnings(log)[0]
    receiver.gate.set()
    assert notifier.close(PATIENCE)
    assert numbers(receiver) == [0, *range(4, 36)]


def test_close_gives_up_in_time_and_says_so(receiver: Receiver, log: pytest.LogCaptureFixture) -> None:
    receiver.gate.clear()
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier, 1)
    receiver.wait_for_arrival()
    compressed(notifier, 2)
    assert not notifier.close(0.01)
    assert warnings(log)[-1].endswith("closed with 2 notifications unsent")
    receiver.gate.set()
    compressed(notifier, 3)
    assert notifier.close(PATIENCE)
    assert numbers(receiver) == [1]


def test_close_without_a_webhook_has_nothing_to_wait_for() -> None:
    assert Notifier(TASK).close(0)


def test_a_server_that_fails_once_is_tried_again(receiver: Receiver, log: pytest.LogCaptureFixture) -> None:
    receiver.answers = [500, 200]
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier)
    assert notifier.close(PATIENCE)
    assert len(receiver.bodies) == 2
    assert receiver.bodies[0] == receiver.bodies[1]
    assert warnings(log) == []


def test_an_outage_is_logged_once_and_so_is_its_end(receiver: Receiver, log: pytest.LogCaptureFixture) -> None:
    receiver.answers = [500, 503, 429, 502, 500, 500, 200, 500, 500, 500]
    notifier = Notifier(TASK, webhook=receiver.url)
    for number in range(4):
        compressed(notifier, number)
    assert notifier.close(PATIENCE)
    assert numbers(receiver) == [0, 0, 0, 1, 1, 1, 2, 3, 3, 3]
    shown = f"{TASK}: webhook http://127.0.0.1:{receiver.server_port}"
    about = [record.getMessage() for record in log.records if "webhook" in record.getMessage()]
    assert about == [
        f"{shown}: not delivered: HTTP 429",
        f"{shown} answers again; not delivered: 2",
        f"{shown}: not delivered: HTTP 500",
    ]


@pytest.mark.parametrize("answer", [400, 404, 302, 307])
def test_what_would_fail_again_is_not_retried_and_no_redirect_followed(
    receiver: Receiver, log: pytest.LogCaptureFixture, answer: int
) -> None:
    receiver.answers = [answer]
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier)
    assert notifier.close(PATIENCE)
    assert [path for path, _ in receiver.requests] == ["/hook"]
    assert warnings(log)[0].endswith(f"not delivered: HTTP {answer}")


def test_a_server_that_is_down_is_logged_once_and_without_secrets(log: pytest.LogCaptureFixture) -> None:
    port = closed_port()
    notifier = Notifier(TASK, webhook=f"http://ann:hunter2@127.0.0.1:{port}/services/s3cret?token=t0ken")
    compressed(notifier, 1)
    compressed(notifier, 2)
    assert notifier.close(PATIENCE)
    assert warnings(log) == [f"{TASK}: webhook http://127.0.0.1:{port}: not delivered: Connection refused"]
    for secret in ("ann", "hunter2", "s3cret", "t0ken"):
        assert secret not in log.text


def test_a_server_that_never_answers_is_tried_three_times(
    receiver: Receiver, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 0.05)
    receiver.gate.clear()
    notifier = Notifier(TASK, webhook=receiver.url)
    compressed(notifier)
    assert notifier.close(PATIENCE)
    until = time.monotonic() + PATIENCE
    while receiver.connections < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert receiver.connections == 3  # a request whose time is up before it is sent does not arrive
    assert set(numbers(receiver)) <= {1}
    assert warnings(log)[0].endswith("not delivered: TimeoutError")


def test_user_and_password_go_into_the_header(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    address = receiver.url.replace("http://", "http://ann:p%40ss@") + "?token=t0ken#part"
    notifier = Notifier(TASK, webhook=address)
    compressed(notifier)
    assert notifier.close(PATIENCE)
    path, headers = receiver.requests[0]
    assert path == "/hook?token=t0ken"
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"ann:p@ss").decode()
    assert headers["Host"] == f"127.0.0.1:{receiver.server_port}"
    assert f"http://127.0.0.1:{receiver.server_port}" in caplog.text  # the library's own log
    assert not [secret for secret in ("/hook", "t0ken", "p@ss", "ann") if secret in caplog.text]


def test_an_address_with_brackets_is_an_address() -> None:
    assert Notifier(TASK, webhook="https://[::1]:8443/hook").close(0)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ftp://ann:hunter2@example.com/x", "ftp://example.com"),
        ("file:///etc/hunter2", "?"),
        ("example.com/hunter2", "?"),
        ("", "?"),
        ("http://", "?"),
        ("http://ann:hunter2@:80/", "?"),
        ("http://example.com:hunter2/", "?"),
        ("http://[hunter2/", "?"),
        ("https://example.com/hunter2 x", "https://example.com"),
        ("https://example.com/hunter2\r\nX-Other: 1", "https://example.com"),
        ("https://example.com/hunter2/道", "https://example.com"),
    ],
)
def test_other_addresses_are_refused_without_showing_secrets(address: str, shown: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Notifier(TASK, webhook=address)
    assert caught.value.fields == {"address": shown}
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "hunter2" not in str(caught.value)
    assert shown in text("errors.InvalidSettings.webhook.cause", lang="ja", address=shown)


# ---- processes ------------------------------------------------------------------------------------------------------

LEAVES = """
import sys
from orihon.notifications import webhook
from orihon.notifications.notifier import Notifier

webhook.TIMEOUT = 600
Notifier("task", webhook=sys.argv[1]).compressed(100, 50, 1.0, 0.5, compression=1, folds=[1])
sys.stdin.readline()
"""

FORKS = """
import os, sys
from orihon.notifications import webhook
from orihon.notifications.notifier import Notifier

webhook.TIMEOUT = 600
notifier = Notifier("task", webhook=sys.argv[1])
for number in (1, 2):
    notifier.compressed(100, 50, 1.0, 0.5, compression=number, folds=[1])
sys.stdin.readline()
child = os.fork()
if child == 0:
    notifier.compressed(100, 50, 1.0, 0.5, compression=3, folds=[1])
    os._exit(0 if notifier.close(60) else 1)
assert os.waitpid(child, 0)[1] == 0
assert notifier.close(60)
"""


def _start(program: str, receiver: Receiver) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, receiver.url]
    return Child(command, stdin=subprocess.PIPE, text=True, env={**os.environ, "no_proxy": "*"})


def test_the_interpreter_does_not_wait_for_a_server_that_does_not_answer(receiver: Receiver) -> None:
    receiver.gate.clear()
    with _start(LEAVES, receiver) as process:
        receiver.wait_for_arrival()
        process.communicate("leave\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert len(receiver.bodies) == 1


def test_a_forked_child_sends_its_own_notices_and_none_of_its_parent(receiver: Receiver) -> None:
    receiver.gate.clear()
    with _start(FORKS, receiver) as process:
        receiver.wait_for_arrival()  # the parent's first is on its way, its second waits
        assert process.stdin is not None
        process.stdin.write("fork\n")
        process.stdin.flush()
        receiver.wait_for_arrival()
        receiver.gate.set()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert sorted(numbers(receiver)) == [1, 2, 3]
