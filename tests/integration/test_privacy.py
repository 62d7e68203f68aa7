"""A person's data: handed out whole, erased without a trace, refused to come back; the audit stays provable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orihon import (
    TaskContextManager,
    anonymize_task,
    archive_task,
    erase_user,
    export_user,
    import_transcripts,
    list_grants,
    new_grant,
    search_history,
)
from orihon.audit import verify_audit
from orihon.errors import IllegalTransition, OrihonError, TaskBusy, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.verify.verify import verify
from orihon.upkeep.privacy import GDPRCompliantStorage, anonymize_personal_data
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from tests.helpers import refused
from tests.services import Database

CANARY = "kanariya-58213"


@pytest.fixture(params=["files", "sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Each back end; archives and mirrors are elsewhere."""
    config: dict[str, Any] = {
        "context_storage": {"backend": request.param, "blob_bytes": 1024},
        "archive": {"url": f"file://{tmp_path}/shelf"},
    }
    if request.param == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        config |= {"database": database.settings}
    return load_settings(config)


def task_of(user: str, base: Path, settings: Settings, canary: str = CANARY) -> TaskContextManager:
    """A task that says the canary wherever a text can stand."""
    key = TaskKey("github", "me", "project", "issue", canary, user)
    task = TaskContextManager(base, key, settings)
    store = task.message_store
    for number in range(6):
        store.add_message("user", f"{canary} {number} " + "x" * (2000 if number == 3 else 10))
        store.add_message("assistant", f"answer {canary} {number}")
    store.folding.compress([PlannedFold(1, 4, f"summary {canary}")])
    task.tool_store.add_tool_call("read", {"path": canary}, canary, duration_ms=1.0)
    task.planning_store.add_plan("plan", {"step": canary})
    return task


def places_of(canary: str, folder: Path, settings: Settings) -> list[str]:
    """Where a text stands: in files by their names, in the database by its tables."""
    # Another process looks: to close a database file here would drop SQLite's locks on it.
    listed = subprocess.run(["grep", "-rlaF", canary, str(folder)], capture_output=True, text=True, check=False)
    found = listed.stdout.splitlines()
    if settings.database.url is not None:
        with psycopg.connect(settings.database.url) as connection:
            schema = settings.database.schema
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
            )
            for (table,) in tables.fetchall():
                text = f'SELECT count(*) FROM "{schema}"."{table}" AS t WHERE t::text LIKE %s'
                hits = connection.execute(text.encode(), (f"%{canary}%",)).fetchone()
                found += [str(table)] if hits and hits[0] else []
    return found


def test_nothing_is_left_of_a_person_and_nothing_is_missing_of_another(
    base: Path, settings: Settings, tmp_path: Path
) -> None:
    other = "another-77123"
    done = task_of("ann-7731", base, settings)
    done.complete()
    packed = task_of("ann-7731", base, settings)
    packed.complete()
    archive_task(base, packed.uuid, settings)
    paused = task_of("ann-7731", base, settings)
    paused.stop()
    kept = task_of("ben", base, settings, canary=other)
    kept.complete()
    new_grant(base, settings, user="ann-7731", role="read")
    chat = tmp_path / "chat.jsonl"
    chat.write_bytes(jsonio.encode({"messages": [{"role": "user", "content": CANARY}]}) + b"\n")
    import_transcripts(base, settings, [chat], user="ann-7731")
    chat.unlink()
    assert search_history(base, settings, CANARY).hits
    assert places_of(CANARY, base.parent, settings)

    erasure = erase_user(base, settings, "ann-7731", by="law")

    assert erasure.is_complete
    assert {done.uuid, packed.uuid, paused.uuid} < set(erasure.tasks)
    assert len(erasure.tasks) == 4
    assert places_of(CANARY, base.parent, settings) == []
    assert places_of("ann-7731", base.parent, settings) == []
    assert not search_history(base, settings, CANARY).hits
    assert [grant.user for grant in list_grants(base, settings)] == []
    assert places_of(other, base.parent, settings)
    assert verify_audit(base, settings).is_sound
    assert "ann-7731" not in {record.user for record in _audit(base, settings)}


def _audit(base: Path, settings: Settings) -> list[Any]:
    from orihon.audit import AuditFilter, audit_records

    return list(audit_records(base, settings, AuditFilter()))


def test_an_erased_name_is_never_used_again_and_late_writes_are_refused(base: Path, settings: Settings) -> None:
    late = task_of("ann-7731", base, settings)
    uuid = late.uuid
    with OpenBase(base, settings) as folder:
        catalogue = folder.open_catalogue()
        assert catalogue is not None
        with pytest.raises(OrihonError):  # nothing is erased under a live writer's feet
            if erase_user(base, settings, "ann-7731", wait=0.0).failed:
                raise TaskBusy("view", uuid=uuid, owner="-", host="-", pid=0)
        # The writer is thought dead, as one is that was cut off from the catalogue for long.
        assert late._owned is not None
        catalogue.leases.release(late._owned.lease)
    assert erase_user(base, settings, "ann-7731", wait=0.0).is_complete
    with pytest.raises(OrihonError):
        late.message_store.add_message("user", f"late {CANARY}")
    with refused(IllegalTransition, "erased"):
        TaskContextManager(base, TaskKey("cli", "", "", "task", "1", "ann-7731"), settings, uuid=uuid)
    with OpenBase(base, settings) as folder:
        catalogue = folder.open_catalogue()
        assert catalogue is not None
        assert [stone.uuid for stone in catalogue.tombstones.all()] == [uuid]
        assert catalogue.tasks.find(uuid) is None
    assert places_of(CANARY, base.parent, settings) == []


def test_an_erasure_that_was_killed_is_finished_by_the_next(base: Path, settings: Settings) -> None:
    """The process dies with each step in turn; the task is never half there afterwards."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from orihon.system import jsonio\n"
        "from orihon.transfer.archive.work import Work\n"
        "from orihon import erase_user\n"
        "from orihon.settings import load_settings\n"
        "base, wanted, config = Path(sys.argv[1]), sys.argv[2], jsonio.decode(sys.argv[3])\n"
        "def stop(self, step):\n"
        "    if step == wanted: os._exit(9)\n"
        "Work._done = stop\n"
        "erase_user(base, load_settings(config), 'ann-7731')\n"
    )
    config: dict[str, Any] = {
        "context_storage": {"backend": settings.context_storage.backend, "blob_bytes": 1024},
        "archive": {"url": settings.archive.url},
    }
    if settings.database.url is not None:
        config["database"] = {"url": settings.database.url, "schema": settings.database.schema}
    for step in ("buried", "taken off", "removed"):
        task = task_of("ann-7731", base, settings)
        task.complete()
        run = subprocess.run(
            [sys.executable, "-c", program, str(base), step, jsonio.encode(config).decode()], check=False
        )
        assert run.returncode == 9, step
        assert erase_user(base, settings, "ann-7731").is_complete
        assert places_of(CANARY, base.parent, settings) == []


def test_a_person_gets_everything_that_is_theirs_and_nothing_else(
    base: Path, settings: Settings, tmp_path: Path
) -> None:
    mine, other = task_of("ann-7731", base, settings), task_of("ben", base, settings, canary="another-77123")
    mine.complete()
    other.complete()
    done = export_user(base, settings, "ann-7731", tmp_path / "out")
    assert done.tasks == (mine.uuid,)
    about = jsonio.decode((tmp_path / "out" / "about.json").read_bytes())
    assert [row["uuid"] for row in about["tasks"]] == [mine.uuid]
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert CANARY.encode() in written
    assert b"another-77123" not in written
    with pytest.raises(OrihonError, match="out"):
        export_user(base, settings, "ann-7731", tmp_path / "out")
    queued = TaskQueue(base, settings)
    left = queued.enqueue(TaskKey("cli", "", "", "task", "2", "ann-7731"), prompt=CANARY)
    queued.close()
    assert export_user(base, settings, "ann-7731", tmp_path / "again").left == (left,)
    held = GDPRCompliantStorage(base, settings).export_user_data("ann-7731")
    assert CANARY in str(held["records"][mine.uuid])


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("Author: Jane Miller <jane@example.com>", ("Jane Miller", "jane@example.com")),
        ("Hello, my name is John Smith.", ("John Smith",)),
        ("氏名：山田太郎\n電話 03-1234-5678", ("山田太郎", "03-1234-5678")),
        ("田中様、〒100-0001 東京都千代田区千代田1-1 までお送りください。", ("田中", "千代田区")),
        ("call +81 90-1234-5678 or (555) 123-4567", ("90-1234-5678", "123-4567")),
        ("I live at 12 Elm Street in town", ("12 Elm Street",)),
        ("ask hanako about it", ("hanako",)),
    ],
)
def test_what_tells_who_somebody_is_is_replaced(said: str, hidden: tuple[str, ...]) -> None:
    changed = anonymize_personal_data(said, lambda kind, text: f"[{kind}]#{len(text):08x}", names=["hanako"])
    for text in hidden:
        assert text not in changed
    assert anonymize_personal_data(changed, lambda kind, text: "twice", names=["hanako"]) == changed


@pytest.mark.parametrize(
    "said",
    [
        "def name(self) -> str: return self.Name",
        "version 1.2.3-4567, build 20261115-1234-abcd",
        "Error: File Not Found at line 12",
        "東京都の天気を調べる関数を追加しました。",
        "2026-11-15T13:45:12",
    ],
)
def test_what_tells_nobody_stays(said: str) -> None:
    assert anonymize_personal_data(said, lambda kind, text: "changed") == said


def test_a_task_that_was_made_anonymous_tells_nobodys_name_and_is_sound(base: Path, settings: Settings) -> None:
    key = TaskKey("github", "me", "project", "issue", "27", "hanako")
    task = TaskContextManager(base, key, settings)
    store = task.message_store
    store.add_message("user", "Author: Jane Miller <jane@example.com>\nAsk hanako. 電話は 03-1234-5678 です。")
    store.add_message("assistant", "I have asked Jane Miller and Bartholomew.")
    for turn in range(4):
        store.add_message("user", f"go on {turn}")
    store.folding.compress([PlannedFold(1, 2, "Jane Miller and hanako agreed.")])
    task.complete()
    before = [record["digest"] for record in _records(base, settings, task.uuid)]

    done = anonymize_task(base, settings, task.uuid, names=["Bartholomew", "Jane Miller"])

    assert done.records >= 3
    # None is so short that it could stand in a key or in a check sum of a database by chance.
    for name in ("Jane", "jane@example.com", "hanako", "03-1234-5678", "Bartholomew"):
        assert places_of(name, base, settings) == [], name
    after = _records(base, settings, task.uuid)
    assert [record["seq"] for record in after] == list(range(1, 7))
    assert [record.get("redacted", {}).get("digest", record["digest"]) for record in after] == before
    assert [found for found in verify(OpenBase(base, settings), task.uuid) if found.severity == "error"] == []
    names = {word for record in after for word in str(record).split() if word.startswith("[NAME]")}
    assert len({name.rstrip(".,") for name in names}) >= 3


def _records(base: Path, settings: Settings, uuid: str) -> list[dict[str, Any]]:
    with reading_task(OpenBase(base, settings), uuid) as (store, _):
        return list(store.read("messages"))


@pytest.mark.parametrize("user", ["seq", "user", "A", "a%b'\"\n山"])
def test_a_person_may_be_called_as_a_field_is_and_a_second_run_changes_nothing(
    base: Path, settings: Settings, user: str
) -> None:
    task = task_of(user, base, settings)
    task.complete()
    anonymize_task(base, settings, task.uuid)
    name = _user_of(base, settings, task.uuid)
    assert name.startswith("[NAME]#")
    assert [str(found) for found in verify(OpenBase(base, settings), task.uuid)] == []
    assert anonymize_task(base, settings, task.uuid).records == 0
    assert _user_of(base, settings, task.uuid) == name
    assert [str(found) for found in verify(OpenBase(base, settings), task.uuid)] == []


def _user_of(base: Path, settings: Settings, uuid: str) -> str:
    with OpenBase(base, settings) as folder:
        folder.open_catalogue()
        row = folder.row(uuid)
        assert row is not None
        return row.user or ""


def test_a_task_that_cannot_be_made_anonymous_keeps_its_user_and_says_why(base: Path, settings: Settings) -> None:
    packed, busy = task_of("hanako", base, settings), task_of("hanako", base, settings)
    packed.complete()
    archive_task(base, packed.uuid, settings)
    with refused(TaskNotFound, "packed"):
        anonymize_task(base, settings, packed.uuid)
    with refused(TaskBusy, "view"):
        anonymize_task(base, settings, busy.uuid, names=[CANARY])
    assert [_user_of(base, settings, uuid) for uuid in (packed.uuid, busy.uuid)] == ["hanako", "hanako"]
