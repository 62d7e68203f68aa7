"""``orihon migrate``, ``workers`` and ``stats``, by the real executable, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orihon.catalogue.connect import open_catalogue
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.system import jsonio
from tests.acceptance.test_cli import ORIHON, PATIENCE, UNHURRIED, Ended, environment, run, run_on_terminal
from tests.conformance.child import ROOT
from tests.damage import edit_record, paused_task, start_task
from tests.integration.run_supervisor import eventually
from tests.integration.worker_handlers import HANDLER
from tests.services import Database

#: Longer than a worker ever stands still; that one is dead is seen by its process.
LEASE_SECONDS = 600.0


class Cluster:
    """A base folder, and a configuration that says where its catalogue is."""

    def __init__(self, base: Path, config: Path, settings: dict[str, Any]) -> None:
        self.base = base
        self._config = config
        self.settings: Settings = load_settings(settings, environ={})
        config.write_bytes(jsonio.encode(settings))  # JSON is YAML

    @property
    def options(self) -> list[object]:
        return ["--base-dir", self.base, "--config", self._config]

    def run(self, *arguments: object) -> Ended:
        return run(*self.options, *arguments)

    def json(self, *arguments: object) -> Any:
        ended = self.run(*arguments, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, base: Path, tmp_path: Path) -> Cluster:
    settings: dict[str, Any] = {"context_storage": {"lease_seconds": LEASE_SECONDS}}
    if request.param == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        settings["database"] = database.settings
    base.mkdir()
    return Cluster(base, tmp_path / "config.yaml", settings)


@pytest.mark.parametrize("command", ["migrate", "workers", "stats"])
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert english.out != japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command} " in (ROOT / page).read_text(encoding="utf-8")


# ---- migrate -------------------------------------------------------------------------------------------------------


def test_tasks_move_and_those_that_cannot_are_named(base: Path) -> None:
    moved, _ = paused_task(base, "files")
    damaged, place = paused_task(base, "files")
    edit_record(place, "messages", 5, lambda line: line.replace(b"tokens", b"tokenz"))
    live = start_task(base, "files")
    way = ("--base-dir", base, "migrate", "--from", "files", "--to", "sqlite")
    dry = run(*way, "--dry-run")
    assert dry.code == 1, "one is in use"
    assert f"would move\t{moved}" in dry.out.splitlines()
    assert "nothing was changed: to move 2," in dry.out
    assert f"移動予定\t{moved}" in run(*way, "--dry-run", language="ja").out.splitlines()
    ended = run(*way, language="ja")
    live.stop()
    live.catalogue.close()
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert [line.split("\t")[:2] for line in sorted(lines[:-1])] == sorted([["失敗", damaged], ["見送り", live.uuid]])
    assert lines[-1].startswith("files から sqlite へ: 移動 1 件")
    assert (base / "paused" / moved / "context.db").exists()
    assert not (base / "paused" / damaged / "context.db").exists()
    last = run(*way, live.uuid[:12], "--json")
    assert last.code == 0
    assert json.loads(last.out) == {
        "from": "files",
        "to": "sqlite",
        "dry_run": False,
        "moved": [live.uuid],
        "rows": [],
        "finished": [],
        "skipped": [],
        "failed": [],
    }
    assert run("--base-dir", base, "verify", moved).code == 0


def test_a_base_folder_moves_to_the_database_and_back(base: Path, tmp_path: Path, postgres: Database) -> None:
    uuid, _ = paused_task(base, "files")
    queued = run("--base-dir", base, "enqueue", "do it").out.strip()
    view = run("--base-dir", base, "view", uuid, "--full").out
    cluster = Cluster(base, tmp_path / "config.yaml", {"database": postgres.settings})
    there = cluster.json("migrate", "--from", "files", "--to", "postgres")
    assert (there["moved"], there["rows"]) == ([uuid], [queued])
    assert not (base / "paused" / uuid).exists()
    assert cluster.run("view", uuid, "--full").out == view
    assert cluster.json("stats")["tasks"] == {"paused": 1, "queued": 1}
    back = cluster.json("migrate", "--from", "postgres", "--to", "files")
    assert (back["moved"], back["rows"]) == ([uuid], [queued])
    assert run("--base-dir", base, "view", uuid, "--full").out == view
    assert json.loads(run("--base-dir", base, "stats", "--json").out)["tasks"] == {"paused": 1, "queued": 1}
    assert run("--base-dir", base, "doctor").code == 0


def test_a_quick_move_needs_no_bar(base: Path) -> None:
    paused_task(base, "files")
    way = ("--from", "files", "--to", "sqlite")
    there = run_on_terminal("--base-dir", base, "migrate", *way, program=UNHURRIED)
    assert there.code == 0
    assert "━" not in there.out
    back = run("--base-dir", base, "migrate", "--from", "sqlite", "--to", "files")
    assert (back.code, back.err) == (0, "")
    assert back.out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "english", "japanese"),
    [
        (["--from", "files", "--to", "files"], "Name two different back ends", "異なるバックエンドを指定"),
        (["--from", "files", "--to", "postgres"], "Set database.url", "database.url に"),
        (["--from", "files", "--to", "mongo"], "Use one of: files, sqlite, postgres", "files, sqlite, postgres"),
        (["--from", "files", "--to", "sqlite", "nothing"], "nothing", "nothing"),
    ],
)
def test_mistakes_are_said_in_one_line(base: Path, arguments: list[str], english: str, japanese: str) -> None:
    base.mkdir()
    for language, words in (("en", english), ("ja", japanese)):
        ended = run("--base-dir", base, "migrate", *arguments, language=language)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert words in ended.err
    assert run("--base-dir", base, "migrate", "--to", "sqlite").code == 2


# ---- workers and stats ---------------------------------------------------------------------------------------------


def test_an_empty_base_folder_has_no_workers_and_gets_no_files(base: Path) -> None:
    base.mkdir()
    workers, stats = run("--base-dir", base, "workers"), run("--base-dir", base, "stats")
    assert (workers.code, workers.out, workers.err) == (0, "", "No workers and no leases.\n")
    assert "queue.waiting\t0" in stats.out.splitlines()
    assert list(base.iterdir()) == []
    ended = run("--base-dir", base / "nowhere", "stats")
    assert (ended.code, ended.err.count("\n")) == (2, 1)


def test_workers_and_what_they_hold_are_shown_while_they_work_and_when_they_are_dead(cluster: Cluster) -> None:
    uuid = cluster.run("enqueue", "steps 9000 0.02").out.strip()
    command = [str(ORIHON), *map(str, cluster.options), "worker", "--handler", HANDLER]
    inherited = environment("en", PYTHONPATH=str(ROOT))
    supervisor = subprocess.Popen(command, env=inherited, stderr=subprocess.DEVNULL)
    queue = TaskQueue(cluster.base, cluster.settings)
    try:
        eventually(lambda: queue.catalogue.tasks.get(uuid).lease_owner)
        at_work = cluster.json("workers")
        figures = cluster.json("stats")
        japanese = run_on_terminal(*cluster.options, "workers", language="ja")
    finally:
        supervisor.send_signal(signal.SIGSTOP)  # or it would start another worker at once
        for row in queue.catalogue.workers.all(PATIENCE):
            if row.state != "dead":
                os.kill(row.pid, signal.SIGKILL)
        supervisor.kill()
        supervisor.wait(PATIENCE)
    (worker,), (lease,), (host,) = at_work["workers"], at_work["leases"], at_work["hosts"]
    assert (worker["state"], worker["task_uuid"], worker["host"]) == ("working", uuid, os.uname().nodename)
    assert 0 <= worker["heartbeat_age"] < PATIENCE
    assert (lease["uuid"], lease["is_stale"], lease["host"]) == (uuid, False, worker["host"])
    assert 0 < lease["seconds_left"] <= LEASE_SECONDS
    assert (host["workers"], host["working"], host["leases"]) == (1, 1, 1)
    assert (figures["workers"], figures["leases"]) == ({"working": 1}, {"held": 1, "stale": 0})
    assert figures["queue"] == {"waiting": 0, "put_off": 0, "to_resume": 0, "running": 1}
    assert "作業中" in japanese.out
    assert "リースの持ち主" in japanese.out
    eventually(lambda: queue.catalogue.leases.stale())
    queue.close()
    lines = [line.split("\t") for line in cluster.run("workers").out.splitlines()]
    assert [line[0] for line in lines] == ["worker", "lease"]
    assert lines[0][3] == "dead"
    assert lines[1][-1].endswith(" stale")
    assert "(stale)" in run_on_terminal(*cluster.options, "workers").out
    assert cluster.json("stats")["leases"] == {"held": 0, "stale": 1}


def test_take_overs_and_the_line_are_counted(cluster: Cluster) -> None:
    queue = TaskQueue(cluster.base, cluster.settings)
    catalogue = queue.catalogue
    first = cluster.run("enqueue", "steps 1 0").out.strip()
    claimed = catalogue.queue.claim_next(owner="gone", seconds=0.1)
    assert claimed is not None
    assert claimed[0].uuid == first
    eventually(lambda: catalogue.leases.stale())
    again = catalogue.queue.claim_next(owner="heir", abandoned=True)
    assert again is not None
    assert (again[0].uuid, cluster.json("stats")["take_overs"]) == (first, 1)
    catalogue.queue.put_back(first, epoch=again[1].epoch, error_message="later", delay=600)
    cluster.run("enqueue", "steps 1 0")
    figures = cluster.json("stats")
    assert figures["queue"] == {"waiting": 1, "put_off": 1, "to_resume": 0, "running": 0}
    assert figures["tasks"] == {"queued": 2}
    catalogue.tasks.add_statistics(first, llm_calls=3, tool_calls=2, tokens=1234, compressions=1, messages=9)
    queue.close()
    shown = dict(line.split("\t") for line in cluster.run("stats").out.splitlines() if line.count("\t") == 1)
    assert (shown["sums.tokens"], shown["sums.llm_calls"], shown["sums.compressions"]) == ("1234", "3", "1")
    on_terminal = run_on_terminal(*cluster.options, "stats")
    assert "1,234" in on_terminal.out
    assert "take-overs" in on_terminal.out


def test_a_narrow_terminal_leaves_no_field_out(cluster: Cluster) -> None:
    worker = "worker-1@a-host-with-a-very-long-name:123"
    with open_catalogue(cluster.base, cluster.settings) as catalogue:
        catalogue.workers.add(worker, "1")
        host = catalogue.workers.all(60)[0].host
    for language in ("en", "ja"):
        shown = run_on_terminal(*cluster.options, "workers", language=language, COLUMNS="40", NO_COLOR="1").out
        assert worker in "".join(shown.split())
        figures = run_on_terminal(*cluster.options, "stats", language=language, COLUMNS="40", NO_COLOR="1").out
        assert f": {host}" in figures


def test_tasks_that_a_newly_named_database_does_not_show_are_spoken_of(
    base: Path, tmp_path: Path, postgres: Database
) -> None:
    base.mkdir()
    run("--base-dir", base, "enqueue", "one")
    cluster = Cluster(base, tmp_path / "config.yaml", {"database": postgres.settings})
    for command in ("list", "stats"):
        ended = cluster.run(command)
        assert ended.code == 0
        assert "tasks.db" in ended.err
        assert "orihon migrate" in ended.err
        assert "orihon migrate" not in run("--base-dir", base, command).err
    cluster.run("migrate", "--from", "files", "--to", "postgres")
    assert cluster.run("list").err == ""
