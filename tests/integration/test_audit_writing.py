"""When the audit is written: by processes, threads and forks at once, and through crashes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orihon.audit import AuditFilter, audit_of, audit_records, verify_audit
from orihon.audit.record import read_line
from orihon.catalogue.connect import open_catalogue
from orihon.errors import StorageUnavailable
from orihon.settings import load_settings
from tests.audits import SINKS, AuditPlace
from tests.integration.killing import ended
from tests.services import Database


@pytest.fixture(params=SINKS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> AuditPlace:
    database: Database | None = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    return AuditPlace.made(tmp_path / "base", database)


_WRITER = """
import json, os, sys
from orihon.audit import audit_of
from orihon.settings import load_settings
base, config, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
trail = audit_of(base, load_settings(config, environ={}))
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    trail.record("compress", f"task-{os.getpid()}", details={"compression": number})
print("done", flush=True)
sys.stdin.readline()
"""


def _writer(place: AuditPlace, count: int) -> subprocess.Popen[str]:
    config = {} if place.database is None else {"database": place.database.settings}
    arguments = [sys.executable, "-c", _WRITER, str(place.base), json.dumps(config), str(count)]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_processes_that_write_at_once_do_not_disturb_each_other(place: AuditPlace) -> None:
    children = [_writer(place, 40) for _ in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate("\n", timeout=240)
    report = place.verify()
    assert report.is_sound
    for child in children:
        mine = audit_records(place.base, place.settings, AuditFilter(task=f"task-{child.pid}"))
        assert [one.details["compression"] for one in mine] == list(range(40))
    assert report.chains <= 3


def test_a_recorded_change_survives_the_death_of_its_process(place: AuditPlace) -> None:
    child = _writer(place, 3)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "done\n"
    child.send_signal(signal.SIGKILL)
    child.wait(60)
    child.stdin.close()
    child.stdout.close()
    assert len(audit_records(place.base, place.settings, AuditFilter(action="compress"))) == 3
    assert place.verify().is_sound


_KILLED = """
import json, os, signal, sys
from orihon.audit import audit_of, trail as trails
from orihon.settings import load_settings
trails._PATIENCE = 3600.0  # however long the machine lets this process wait, the moment is not over before its end
base, config, actions = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
trail = audit_of(base, load_settings(config, environ={}))
for action in actions:
    trail.record(action, f"task-{action}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("lost", ["append", "read", "search"])
def test_what_a_killed_process_may_lose_is_what_the_docs_say(place: AuditPlace, lost: str) -> None:
    """Every change is written when it is made; reads, and in PostgreSQL added messages, wait for a moment."""
    config = {"audit": {"level": "all"}} | ({} if place.database is None else {"database": place.database.settings})
    kept = ["compress", "undo", "approve", "export", "delete", "open", "write", "end"]
    arguments = [str(place.base), json.dumps(config), json.dumps([*kept, lost])]
    ended = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    is_lost = place.database is not None or lost != "append"
    found = [one.action for one in audit_records(place.base, place.settings)]
    assert found == ["configure", *kept, *([] if is_lost else [lost])]
    assert place.verify().is_sound


def test_a_change_of_the_configuration_that_could_not_be_recorded_is_recorded_later(
    place: AuditPlace, tmp_path: Path
) -> None:
    """Nothing may be kept for the next comparison before the record is written."""
    file = tmp_path / "config.yaml"
    database = {} if place.database is None else {"database": place.database.settings}
    for threshold in (0.5, 0.6):
        file.write_text(json.dumps({**database, "compression": {"threshold": threshold}}), encoding="utf-8")
        trail = audit_of(place.base, load_settings(file, environ={}))
        if threshold == 0.5:
            trail.record("undo", "task-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(trail.sink), "append", _fails)
        with pytest.raises(StorageUnavailable):
            trail.record("undo", "task-1")
    again = audit_of(place.base, load_settings(file, environ={}))
    again.record("undo", "task-1")
    found = audit_records(place.base, place.settings, AuditFilter(action="configure"))
    assert found[-1].details["keys"] == ["compression.threshold"]
    again.record("undo", "task-1")
    assert len(audit_records(place.base, place.settings, AuditFilter(action="configure"))) == len(found)


def _fails(*_: object, **__: object) -> None:
    raise StorageUnavailable("full", path="audit", detail="-")


def test_threads_share_a_chain(place: AuditPlace) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: place.trail.record("undo", f"task-{number}"), range(40)))
    report = place.verify()
    assert (report.is_sound, report.chains) == (True, 1)
    assert len(audit_records(place.base, place.settings, AuditFilter(action="undo"))) == 40


def test_a_forked_child_writes_what_is_its_own(place: AuditPlace) -> None:
    settings = place.settings.replace(**{"audit.level": "all"})
    trail = audit_of(place.base, settings)
    trail.record("read", "parents")
    child = os.fork()
    if not child:  # pragma: no cover - another process
        try:
            trail.record("undo", "childs")
            os._exit(0)
        finally:
            os._exit(1)
    assert ended(child) == 0
    tasks = [one.task for one in audit_records(place.base, settings) if one.action != "configure"]
    assert sorted(tasks) == ["childs", "parents"]
    assert verify_audit(place.base, settings).is_sound


def test_what_waits_is_written_in_a_moment(place: AuditPlace) -> None:
    trail = audit_of(place.base, place.settings.replace(**{"audit.level": "all"}))
    trail.record("undo", "task-1")
    trail.record("read", "task-1")
    give_up = time.monotonic() + 60
    while not any(b'"read"' in line for line in place.lines()):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    assert place.verify().is_sound


@pytest.mark.parametrize("left", [1, 50])
def test_a_torn_last_line_is_no_tampering_and_is_put_right(tmp_path: Path, left: int) -> None:
    place = AuditPlace.made(tmp_path, None)
    place.record(2)
    path = tmp_path / "audit" / f"{place.chain()}.jsonl"
    torn = place.lines()[-1][:left]
    with path.open("ab") as file:
        file.write(torn)
    assert place.verify().is_sound, "nobody was ever told that it is there"
    place.record(1)
    assert [read_line(line)["action"] for line in place.lines()] == [
        "configure",
        *["compress"] * 2,
        "repair",
        "compress",
    ]
    assert place.verify().is_sound
    (kept,) = (tmp_path / "audit" / "aside").iterdir()
    assert kept.read_bytes() == torn


def test_a_writer_that_finds_a_cut_tail_says_so_for_good(tmp_path: Path) -> None:
    place = AuditPlace.made(tmp_path, None)
    place.record(4)
    place.put(place.lines()[:3])
    place.record(3)
    assert place.kinds() == {"cut"}
    assert len(audit_records(tmp_path, place.settings, AuditFilter(action="cut"))) == 1


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_a_process_goes_on_in_a_place_that_was_removed_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("orihon.audit.files_sink._PEOPLE_SECONDS", seconds)
    place = AuditPlace.made(tmp_path / "contexts", None)
    place.record(3)
    shutil.rmtree(place.base)
    with pytest.raises(StorageUnavailable, match="is not there"):
        place.record(1)
    place.base.mkdir()
    open_catalogue(place.base, place.settings).close()
    place.record(2)
    assert place.kinds() == set()
    assert len(audit_records(place.base, place.settings)) == 2


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place = AuditPlace.made(tmp_path, None, anchor_file=str(tmp_path / "anchors.jsonl"))
        place.record(1)
    finally:
        os.umask(before)
    folder = tmp_path / "audit"
    assert folder.stat().st_mode & 0o777 == 0o700
    files = [*folder.iterdir(), tmp_path / "anchors.jsonl"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
