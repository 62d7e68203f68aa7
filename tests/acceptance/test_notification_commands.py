"""``orihon notifications`` and ``monitor``, by the real executable."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orihon import TaskContextManager, TaskKey
from scripts.json_forms import form_schema
from tests.acceptance.test_cli import ORIHON, PATIENCE, environment, run, run_on_terminal
from tests.conformance.child import ROOT
from tests.helpers import Child, lasting_day
from tests.receivers import Receiver, closed_port, receiving

WEBHOOK = "ORIHON_NOTIFICATIONS__WEBHOOK"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def failed(base: Path, number: int = 1) -> str:
    task = TaskContextManager(base, TaskKey("cli", "", "", "task", str(number)))
    task.fail("the pump is broken")
    return task.uuid


def hook(url: str) -> dict[str, Any]:
    """In the environment of a command."""
    return {WEBHOOK: url}


def matches(printed: str, command: str, form: str = "") -> None:
    checker = Draft202012Validator(form_schema(command, form))
    assert [error.message for error in checker.iter_errors(json.loads(printed))] == []


@contextmanager
def going_on(*arguments: object) -> Iterator[Iterator[str]]:
    """The lines of a command that goes on until it is interrupted."""
    with Child(
        [str(ORIHON), *map(str, arguments)], env=environment("en"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield iter(process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize("command", ["notifications", "monitor"])
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert english.out != japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command}" in (ROOT / page).read_text(encoding="utf-8")


# ---- notifications -------------------------------------------------------------------------------------------------


def test_the_feed_is_shown_in_both_languages_with_and_without_a_terminal(base: Path) -> None:
    base.mkdir()
    assert run("--base-dir", base, "notifications").err == "There are no notifications.\n"
    one, two = failed(base), failed(base, 2)
    number, when, *rest = run("--base-dir", base, "notifications").out.splitlines()[0].split("\t")
    assert (number, len(when), rest) == ("1", 32, [one, "failed", "The task has failed", "-"])
    sent = run("--base-dir", base, "notifications", **hook("http://127.0.0.1:9/"))
    assert sent.out.splitlines()[0].endswith("\tpending")
    only = run("--base-dir", base, "notifications", "--task", two[:8], language="ja")
    assert only.out.splitlines()[0].split("\t")[2:5] == [two, "failed", "タスクが失敗しました"]
    assert run("--base-dir", base, "notifications", "--since", "1").out.count("\n") == 1
    shown = run_on_terminal("--base-dir", base, "notifications", "-n", "1", language="ja").out
    assert ("タスクが失敗しました" in shown, two[:8] in shown, one[:8] in shown) == (True, True, False)


def test_delivery_by_hand(base: Path, receiver: Receiver) -> None:
    failed(base)
    assert run("--base-dir", base, "notifications", "--deliver").code == 2
    down = run("--base-dir", base, "notifications", "--deliver", **hook(f"http://127.0.0.1:{closed_port()}/"))
    assert (down.code, down.out) == (1, "delivered: 0, failed: 1, given up: 0, still waiting: 1\n")
    secret = hook(receiver.url) | {f"{WEBHOOK}_SECRET": "s3cret"}
    ended = run("--base-dir", base, "notifications", "--deliver", "--json", **secret)
    matches(ended.out, "notifications", "--deliver")
    assert (ended.code, json.loads(ended.out)["delivered"]) == (0, 1)
    assert receiver.requests[0][1]["X-Orihon-Signature"].startswith("sha256=")
    assert "s3cret" not in run("--base-dir", base, "-vv", "notifications", **secret).err
    (found,) = json.loads(run("--base-dir", base, "notifications", "--json").out)["notifications"]
    assert found["webhook"] == {"state": "delivered", "attempts": 2, "last_error": None}
    assert run("--base-dir", base, "notifications", "--deliver", "--follow").code == 2


def test_following_shows_what_comes_until_interrupted(base: Path) -> None:
    first = failed(base)
    with going_on("--base-dir", base, "notifications", "--follow", "--json") as lines:
        line = next(lines)
        matches(line, "notifications", "--follow")
        assert json.loads(line)["task"] == first
        second = failed(base, 2)
        assert json.loads(next(lines))["task"] == second


def test_maintain_sends_what_is_left(base: Path, receiver: Receiver) -> None:
    failed(base)
    ended = run("--base-dir", base, "maintain", **hook(receiver.url))
    assert ended.code == 0
    assert "Notifications sent: 1, still waiting: 0, old ones removed: 0." in ended.out
    assert [body["kind"] for body in receiver.bodies] == ["failed"]


# ---- monitor -------------------------------------------------------------------------------------------------------


def test_the_monitor_says_what_is_wrong_and_ends_with_1(base: Path) -> None:
    failed(base)
    none: dict[str, Any] = {"ORIHON_MONITOR__MIN_FREE_GB": "0"}  # whatever else is on the disk of this machine
    fine = run("--base-dir", base, "monitor", "--once", **none)
    assert (fine.code, fine.err) == (0, "")
    assert "lock_errors\t0\t10\tfine\n" in fine.out
    limit: dict[str, Any] = {"ORIHON_MONITOR__MIN_FREE_GB": "1000000000"}
    wrong = run("--base-dir", base, "-q", "monitor", language="ja", **limit)
    assert (wrong.code, wrong.err.startswith("ディスクの空き容量が")) == (1, True)
    again = run("--base-dir", base, "monitor", "--json", **limit)
    assert (again.code, json.loads(again.out)["raised"]) == (1, [])
    alerts = run("--base-dir", base, "notifications", "--since", "1").out.splitlines()
    assert [line.split("\t")[3] for line in alerts] == ["alert"]
    shown = run_on_terminal("--base-dir", base, "monitor", language="ja", **none).out
    assert ("正常" in shown, "異常" in shown) == (True, False)
    assert run("--base-dir", base, "monitor", "--once", "--report", "this").code == 2


def test_the_monitor_looks_again_and_again(base: Path) -> None:
    failed(base)
    with going_on("--base-dir", base, "monitor", "--every", "0.1", "--json") as lines:
        for _ in range(2):
            matches(next(lines), "monitor", "--every")


def test_a_month_is_reported(base: Path) -> None:
    lasting_day()
    failed(base)
    lines = dict(
        line.split("\t")[:2] for line in run("--base-dir", base, "monitor", "--report", "this").out.splitlines()
    )
    assert (lines["created"], lines["ended.failed"], lines["notifications.failed"]) == ("1", "1", "1")
    shown = run_on_terminal("--base-dir", base, "monitor", "--report", "this", language="ja").out
    assert "終了したタスク: failed" in shown
    assert run("--base-dir", base, "monitor", "--report", "soon").code == 2
