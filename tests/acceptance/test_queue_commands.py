"""``orihon enqueue``, ``worker``, ``pause``, ``resume``, ``cancel`` and ``retry``, by the real executable."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from orihon.runtime.queue import TaskQueue
from orihon.values.task import TaskStatus
from tests.acceptance.test_cli import ORIHON, PATIENCE, environment, run
from tests.conformance.child import ROOT
from tests.integration.run_supervisor import eventually
from tests.integration.worker_handlers import HANDLER

COMMANDS = ("enqueue", "worker", "pause", "resume", "cancel", "retry")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert english.out != japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command} " in (ROOT / page).read_text(encoding="utf-8")


def test_a_task_is_queued_and_worked_off(base: Path) -> None:
    first = run("--base-dir", base, "enqueue", "steps 2 0", "--user", "me").out.strip()
    second = json.loads(
        run("--base-dir", base, "enqueue", "fail", "--repository", "o/r", "--type", "issue", "--id", "7", "--json").out
    )
    assert (second["status"], second["requested"], second["owner"]) == ("queued", None, None)
    assert f"{first} is queued and rests" in run("--base-dir", base, "pause", first[:8]).out
    run("--base-dir", base, "cancel", second["uuid"])
    assert f"{first} (queued) is in line." in run("--base-dir", base, "resume", first).out
    ended = run("--base-dir", base, "worker", "-n", "2", "--until-empty", "--handler", HANDLER, PYTHONPATH=str(ROOT))
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines() == [
        f"Workers: 2, on {base}. Ctrl-C lets them finish their steps; twice ends them at once.",
        "Completed: 1, failed or dead: 0, waiting: 0.",
    ]
    queue = TaskQueue(base, {})
    assert queue.catalogue.tasks.get(first).status is TaskStatus.COMPLETED
    row = queue.catalogue.tasks.get(second["uuid"])
    assert (row.status, row.key.label) == (TaskStatus.CANCELLED, "cli:o/r#7")
    assert json.loads(run("--base-dir", base, "retry", row.uuid, "--json").out)["status"] == "queued"
    queue.close()
    run("--base-dir", base, "cancel", row.uuid)
    nothing = run("--base-dir", base, "worker", "--until-empty", "--handler", HANDLER, PYTHONPATH=str(ROOT))
    assert nothing.err.splitlines()[-1] == "Completed: 0, failed or dead: 0, waiting: 0.", "only what was done now"


def test_ctrl_c_drains_and_what_runs_is_asked(base: Path) -> None:
    uuid = run("--base-dir", base, "enqueue", "steps 9000 0.02").out.strip()
    command = [str(ORIHON), "--base-dir", str(base), "worker", "--handler", HANDLER, "--json"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment("en", PYTHONPATH=str(ROOT)))
    queue = TaskQueue(base, {})
    try:
        eventually(lambda: queue.catalogue.tasks.get(uuid).lease_owner)
        assert "has been asked to pause" in run("--base-dir", base, "pause", uuid).out
        eventually(lambda: queue.catalogue.tasks.get(uuid).status is TaskStatus.PAUSED)
        run("--base-dir", base, "resume", uuid)
        eventually(lambda: queue.catalogue.tasks.get(uuid).status is TaskStatus.RUNNING)
        worker.send_signal(signal.SIGINT)
        out, _ = worker.communicate(timeout=PATIENCE)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0
    assert json.loads(out)["tasks"] == {"paused": 1}
    assert queue.catalogue.tasks.get(uuid).requested == "resume"
    queue.close()


def test_mistakes_are_said_in_one_line(base: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("do it")
    for arguments, words in (
        (["enqueue"], "the prompt is empty"),
        (["enqueue", "do it", "--file", tmp_path / "prompt.md"], "PROMPT and --file cannot be used together"),
        (["enqueue", "--file", tmp_path / "nowhere"], "is not a text that can be read"),
        (["enqueue", "--file", "/dev/zero"], "is not a text that can be read"),
        (["enqueue", "x", "--type", "gitlab_issue", "--source", "github"], "github"),
    ):
        ended = run("--base-dir", base, *arguments)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert words in ended.err
    assert not base.exists()
    assert run("--base-dir", base, "enqueue", "--file", tmp_path / "prompt.md").code == 0
    ended = run("--base-dir", base, "worker", "--handler", "nowhere:Nothing")
    assert ended.code == 2
    assert "'nowhere:Nothing' is no handler of tasks" in ended.err
    assert "The workers cannot work" in ended.err
