"""What is recorded in the audit, by whom, when it is written, and what is kept outside; on every back end."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orihon import (
    AuditLogger,
    ComplianceAuditLog,
    acting_as,
    delete_old_contexts,
    export_task,
    fork_task,
    keep_task,
    search_history,
)
from orihon.audit import AuditFilter, AuditRecord, audit_of, audit_records, forget_person, verify_audit
from orihon.errors import InvalidInput, NothingToUndo, StorageUnavailable, TaskNotFound, Waiting
from orihon.settings import Settings, load_settings
from orihon.tasks.approvals.answers import approve, reject
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.editing import changing_task
from orihon.tasks.reader import reading_task
from orihon.transfer.backup import VaultKey, backup, restore_backup
from tests.audits import SINKS, AuditPlace
from tests.damage import KEY
from tests.receivers import receiving
from tests.services import Database

CANARY = "correct-horse-battery-staple"


@pytest.fixture(params=("files", "sqlite", "postgres"))
def settings(request: pytest.FixtureRequest) -> Settings:
    """Settings for each back end."""
    config: dict[str, Any] = {"context_storage": {"backend": request.param}, "audit": {"user": "ana"}}
    if request.param == "postgres":
        config["database"] = request.getfixturevalue("emptied_postgres").settings
    return load_settings(config, environ={})


@pytest.fixture(params=SINKS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> AuditPlace:
    database: Database | None = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    return AuditPlace.made(tmp_path / "base", database)


def told(base: Path, settings: Settings, **wanted: str) -> list[tuple[str, str, str]]:
    """Action, task and result of each record, without those about settings, and without what is attested."""
    found = audit_records(base, settings, AuditFilter(**wanted))
    return [(one.action, one.task, one.result) for one in found if one.action not in ("configure", "attest")]


def begun_task(base: Path, settings: Settings, uuid: str = "task-1") -> TaskContextManager:
    task = TaskContextManager(base, KEY, settings, uuid=uuid)
    for number in range(6):
        task.message_store.add_message("user" if number % 2 == 0 else "assistant", f"{CANARY} {number}")
    return task


# ---- what is recorded ------------------------------------------------------------------------------------------------


def test_every_change_is_recorded_and_nothing_of_what_was_said(tmp_path: Path, settings: Settings) -> None:
    base = tmp_path / "base"
    task = begun_task(base, settings)
    task.message_store.create_summary(1, 2, f"{CANARY} folded")
    task.message_store.folding.undo()
    with pytest.raises(NothingToUndo):
        task.message_store.folding.undo()
    task.stop()
    with changing_task(OpenBase(base, settings), "task-1") as changing:
        changing.messages.folding.redo()
        changing.messages.folding.pin(3, CANARY)
    fork_task(base, "task-1", settings, 4, name="task-2")
    export_task(base, "task-1", settings, out=tmp_path / "out.jsonl")
    TaskContextManager.resume(base, "task-1", settings).complete()
    keep_task(base, "task-1", settings)
    keep_task(base, "task-1", settings, keep=False)
    delete_old_contexts(base, settings, 0)
    assert told(base, settings) == [
        *(("compress", "task-1", "ok"), ("undo", "task-1", "ok"), ("undo", "task-1", "NothingToUndo.no_undo")),
        *(("redo", "task-1", "ok"), ("pin", "task-1", "ok"), ("fork", "task-1", "ok")),
        *(("export", "task-1", "begun"), ("export", "task-1", "ok")),
        *(("keep", "task-1", "ok"), ("keep", "task-1", "ok")),
        *(("delete", "task-1", "begun"), ("delete", "task-1", "ok")),
    ]
    records = audit_records(base, settings)
    assert {(one.user, one.process, one.host) for one in records} == {("ana", os.getpid(), os.uname().nodename)}
    assert CANARY not in json.dumps([one.as_dict() for one in records])
    report = verify_audit(base, settings)
    assert (report.is_sound, report.records) == (True, len(records))


def test_answers_of_people_are_theirs(tmp_path: Path, settings: Settings) -> None:
    base = tmp_path / "base"
    task = begun_task(base, settings)
    with suppress(Waiting):
        task.checkpoint("concept", "Shall I?")
    task.catalogue.close()
    reject(OpenBase(base, settings), "task-1", by="bob", reason=CANARY)
    with pytest.raises(TaskNotFound):
        approve(OpenBase(base, settings), "nobody", by="bob")
    found = [one for one in audit_records(base, settings) if one.user == "bob"]
    assert [(one.action, one.result) for one in found] == [("reject", "ok"), ("approve", "TaskNotFound.uuid")]


def test_with_level_all_reads_and_messages_are_recorded_too(tmp_path: Path, settings: Settings) -> None:
    base, settings = tmp_path / "base", settings.replace(**{"audit.level": "all"})
    begun_task(base, settings).stop()
    with acting_as("bob", "192.0.2.7"), reading_task(OpenBase(base, settings), "task-1"):
        pass
    search_history(base, settings, CANARY)
    actions = [(one.action, one.user, one.address) for one in audit_records(base, settings)][1:]
    assert actions == [
        ("open", "ana", None),
        *[("append", "ana", None)] * 6,
        ("end", "ana", None),
        ("attest", "ana", None),
        ("read", "bob", "192.0.2.7"),
        ("search", "ana", None),
    ]
    (search,) = audit_records(base, settings, AuditFilter(action="search"))
    assert (search.details["hits"] > 0, search.details["tasks"]) == (True, ["task-1"])
    assert CANARY not in json.dumps([one.as_dict() for one in audit_records(base, settings)])
    assert verify_audit(base, settings).is_sound


def test_records_are_found_by_task_user_action_and_time(place: AuditPlace) -> None:
    place.record(2, "task-1")
    place.record(1, "task-2")
    with acting_as("bob"):
        place.trail.record("undo", "task-2")
    base, settings = place.base, place.settings
    assert len(told(base, settings, task="task-1")) == 2
    assert told(base, settings, user="bob") == [("undo", "task-2", "ok")] == told(base, settings, action="undo")
    last = audit_records(base, settings)[-1]
    assert told(base, settings, since=last.time) == [("undo", "task-2", "ok")]
    assert [one.action for one in audit_records(base, settings, limit=2)] == ["compress", "undo"]
    assert audit_records(base, settings, AuditFilter(since="2999")) == []


def test_a_changed_configuration_is_recorded_when_it_is_first_used(place: AuditPlace, tmp_path: Path) -> None:
    def used(**values: Any) -> list[list[str]]:
        file = tmp_path / "config.yaml"
        database = {} if place.database is None else {"database": place.database.settings}
        file.write_text(json.dumps({**database, **values}), encoding="utf-8")
        audit_of(place.base, load_settings(file, environ={})).record("undo", "task-1")
        found = audit_records(place.base, place.settings, AuditFilter(action="configure"))
        return [[key for key in one.details["keys"] if not key.startswith("database.")] for one in found]

    first = used(compression={"threshold": 0.5})
    assert first[-1][:1] == ["compression.threshold"]
    assert used(compression={"threshold": 0.5}) == first
    assert used(compression={"threshold": 0.6}) == [*first, ["compression.threshold"]]
    secret = {"llm": {"openai": {"api_key": CANARY}}}
    assert used(compression={"threshold": 0.6}, **secret)[-1] == ["llm.openai.api_key"]
    assert CANARY.encode() not in place.everything()


def test_nothing_is_recorded_or_made_where_nothing_is(tmp_path: Path) -> None:
    settings = load_settings(None, environ={})
    audit_of(tmp_path, settings).record("undo", "task-1")
    with pytest.raises(TaskNotFound):
        export_task(tmp_path, "task-1", settings)
    assert audit_records(tmp_path, settings) == []
    assert verify_audit(tmp_path, settings).is_sound
    assert forget_person(tmp_path, settings, "ana") == 0
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_switched_off(tmp_path: Path, settings: Settings) -> None:
    settings = settings.replace(**{"audit.enabled": False})
    task = begun_task(tmp_path, settings)
    task.message_store.create_summary(1, 2, "folded")
    task.stop()
    assert audit_records(tmp_path, settings) == []


# ---- the names of the first design -----------------------------------------------------------------------------------


def test_programs_record_accesses_of_their_own(place: AuditPlace) -> None:
    AuditLogger(place.base, place.settings).log_context_access(
        "worker-7", "github/owner/repo/issue/27", "read", {"why": "a look", "key": "sk-proj-" + "a1B2" * 12}
    )
    log = ComplianceAuditLog(place.base, place.settings)
    with acting_as("nobody", "192.0.2.9"):
        log.log_data_access("bob", "task-1", "read", "personal")
    log.log_data_access("bob", "task-1", "delete", "code", "192.0.2.10")
    first, second, third = audit_records(place.base, place.settings)[1:]
    assert (first.process, first.task, first.action) == ("worker-7", "github/owner/repo/issue/27", "read")
    assert (first.details["why"], first.details["key"][:12]) == ("a look", "[OPENAI_KEY]")
    assert (second.user, second.address, second.details) == ("bob", "192.0.2.9", {"category": "personal"})
    assert (third.user, third.address, third.action) == ("bob", "192.0.2.10", "delete")
    assert place.verify().is_sound
    with pytest.raises(InvalidInput):
        AuditLogger(place.base, place.settings).log_context_access("1", "task-1", "read", {"text": "x" * 20_000})


def test_a_logger_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        AuditLogger(tmp_path / "nowhere", load_settings(None, environ={})).log_context_access("1", "t", "read", {})


# ---- what cannot be recorded -----------------------------------------------------------------------------------------


def test_a_change_that_cannot_be_recorded_is_refused_and_a_look_is_not(tmp_path: Path) -> None:
    settings = load_settings({"audit": {"user": "ana"}}, environ={})
    begun_task(tmp_path, settings).complete()
    shutil.rmtree(tmp_path / "audit")
    (tmp_path / "audit").write_text("in the way", encoding="utf-8")
    with pytest.raises(StorageUnavailable):
        keep_task(tmp_path, "task-1", settings)
    out = tmp_path / "out.jsonl"
    export_task(tmp_path, "task-1", settings, out=out)
    out.unlink()
    with pytest.raises(StorageUnavailable):
        export_task(tmp_path, "task-1", settings.replace(**{"audit.required": True}), out=out)
    assert not out.exists()


def test_a_backup_has_the_audit_and_is_in_it(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings(None, environ={})
    task = begun_task(base, settings)
    task.message_store.create_summary(1, 2, "folded")
    task.stop()
    run = backup(OpenBase(base, settings), tmp_path / "vault").run
    copy = tmp_path / "copy"
    restore_backup(tmp_path / "vault", copy, settings, key=VaultKey.of_base(base))
    assert [(one.action, one.result, one.details.get("run")) for one in audit_records(base, settings)] == [
        ("compress", "ok", None),
        ("attest", "ok", None),
        ("backup", "begun", None),
        ("backup", "ok", run),
    ]
    assert [one.action for one in audit_records(copy, settings)] == ["compress", "attest", "backup", "restore"]
    assert verify_audit(copy, settings).is_sound


# ---- anchors ---------------------------------------------------------------------------------------------------------


def test_heads_are_posted_and_what_the_receiver_kept_proves_the_chain(place: AuditPlace, tmp_path: Path) -> None:
    with receiving() as receiver:
        anchored = {"audit.anchor_webhook": receiver.url, "audit.anchor_secret": "s3cret", "audit.anchor_every": 2}
        settings = place.settings.replace(**anchored)
        for _ in range(4):
            audit_of(place.base, settings).record("undo", "task-1")
        while 4 not in (body["number"] for body in receiver.bodies):
            receiver.wait_for_arrival()
    # In this order; what was answered too late on a busy machine is sent again.
    assert list(dict.fromkeys(body["number"] for body in receiver.bodies)) == [2, 4]
    assert all("X-Orihon-Signature" in headers for _, headers in receiver.requests)
    assert {body["event"] for body in receiver.bodies} == {"audit.anchor"}
    kept = tmp_path / "kept.jsonl"
    kept.write_bytes(b"".join(line + b"\n" for line in receiver.raw))
    assert place.verify([kept]).is_sound
    place.put(place.lines()[:3])
    place.fit_head()
    assert place.kinds([kept]) == {"cut"}


def test_anchors_that_are_none_are_named(place: AuditPlace, tmp_path: Path) -> None:
    place.record(1)
    file = tmp_path / "anchors.jsonl"
    file.write_text('{"chain": "1-00000000"}\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"anchors\.jsonl"):
        place.verify([file])


def test_who_cannot_anchor_works_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    place = AuditPlace.made(tmp_path / "base", None, anchor_file=str(tmp_path / "file" / "anchors.jsonl"))
    place.record(1)
    assert "could not be anchored" in caplog.text
    assert place.verify().is_sound


def test_records_read_as_json() -> None:
    record = AuditRecord("1-0", 1, "now", "undo", "t", "w", None, None, 1, "h", "ok", {"n": 1})
    assert record.as_dict()["details"] == {"n": 1}
