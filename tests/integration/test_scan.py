"""``orihon scan``: secrets of old histories are found and taken out, and the history stays provable."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, scan_tasks
from orihon.audit import AuditFilter, audit_records
from orihon.catalogue.outbox import NewNotice
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold

SECRET = "ghp_" + "a1B2" * 9
KEY = TaskKey("test", "a", "b", "issue", "1")
BACKENDS = ("files", "sqlite", "postgres")


@pytest.fixture(params=BACKENDS)
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings for one back end, masking as it was before anybody thought of it."""
    storage: dict[str, Any] = {"backend": request.param, "blob_bytes": 4096}
    if request.param == "postgres":
        postgres = request.getfixturevalue("emptied_postgres")
        return {"database": postgres.settings, "context_storage": storage}
    return {"context_storage": storage}


def settings_of(config: dict[str, Any], *, masking: bool) -> Settings:
    return load_settings({**config, "masking": {"enabled": masking}}, environ={})


def leaky_task(base: Path, config: dict[str, Any]) -> str:
    """A task that was written without a guard: a secret in messages, a blob, a fold, a tool record, its row."""
    with TaskContextManager(base, KEY, settings_of(config, masking=False), uuid="old-1") as context:
        store = context.message_store
        store.add_message("system", "You help.")
        store.add_message("user", f"my token is {SECRET}")
        store.add_message("assistant", "noted")
        store.add_message("user", f"{SECRET} " + "long " * 4000)
        store.add_message("assistant", "done")
        store.folding.compress([PlannedFold(2, 3, f"the user gave {SECRET}")])
        context.tool_store.add_tool_call("curl", {"header": SECRET}, {"ok": True}, None)
        context.catalogue.tasks.update(context.uuid, metadata={"title": f"with {SECRET}"})
        context.stop()
        return context.uuid


def places_with_the_secret(base: Path, config: dict[str, Any]) -> list[str]:
    """The files below the base folder, and the tables, that still have it."""
    files = [path for path in sorted(base.rglob("*")) if path.is_file()]
    found = [str(path.relative_to(base)) for path in files if SECRET.encode() in path.read_bytes()]
    if "database" not in config:
        return found
    import psycopg

    schema = config["database"]["schema"]
    with psycopg.connect(config["database"]["url"]) as connection:
        named = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        for (table,) in connection.execute(named, (schema,)).fetchall():
            rows = connection.execute(f'SELECT t::text FROM "{schema}"."{table}" t').fetchall()
            found += [table for (row,) in rows if SECRET in row]
    return found


def test_a_fix_takes_the_secret_out_of_what_was_kept_aside(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    uuid = leaky_task(base, config)
    folder = base / "paused" / uuid
    view = folder / "current.jsonl"
    view.write_bytes(view.read_bytes() + b'{"role":"user","content":"of a lost record"}\n' * 2)
    with closing(OpenBase(base, settings_of(config, masking=True))) as opened:
        with closing(opened.store(opened.folders.places(uuid)[0])) as store:
            store.claim()
        assert SECRET.encode() in next((folder / "aside").iterdir()).read_bytes()
    scan_tasks(base, settings_of(config, masking=True), fix=True)
    assert places_with_the_secret(base, config) == []


def test_a_fix_takes_the_secret_out_and_keeps_the_proof(tmp_path: Path, config: dict[str, Any]) -> None:
    base = tmp_path / "base"
    uuid = leaky_task(base, config)
    settings = settings_of(config, masking=True)
    with closing(open_for_reading(base_place(base, uuid, settings), settings, name=uuid)) as store:
        before = [json.loads(line) for line in store.records.read("messages")]

    [found] = scan_tasks(base, settings)
    assert not found.is_fixed
    places = {(hit.where, hit.number) for hit in found.hits}
    assert {("messages", 2), ("messages", 4), ("summaries", 1), ("tools", 1), ("catalogue", 0)} <= places
    assert SECRET not in json.dumps(found.as_dict())
    assert places_with_the_secret(base, config)

    [fixed] = scan_tasks(base, settings, fix=True)
    assert fixed.is_fixed
    redacted = audit_records(base, settings, AuditFilter(action="redact"))
    assert [(one.task, one.result) for one in redacted] == [(uuid, "begun"), (uuid, "ok")]
    assert places_with_the_secret(base, config) == []
    assert verify(OpenBase(base, settings), uuid) == []
    [again] = scan_tasks(base, settings)
    assert again.hits == ()

    with closing(open_for_reading(base_place(base, uuid, settings), settings, name=uuid)) as store:
        after = [json.loads(line) for line in store.records.read("messages")]
    assert [record["seq"] for record in after] == [1, 2, 3, 4, 5]
    assert [record["tokens"] for record in after] == [record["tokens"] for record in before]
    assert after[1]["redacted"]["digest"] == before[1]["digest"]
    assert after[1]["redacted"]["kinds"] == ["GITHUB_TOKEN"]
    assert after[0] == before[0]

    with TaskContextManager.resume(base, uuid, settings) as context:
        context.message_store.add_message("user", "it goes on")
        assert context.message_store.get_messages_for_llm()[-1]["content"] == "it goes on"


def base_place(base: Path, uuid: str, settings: Settings) -> Path:
    from orihon.tasks.place import folders_of

    found = folders_of(base, settings).find(uuid)
    assert found is not None
    return found.folder


def test_a_task_at_work_is_not_touched(tmp_path: Path, config: dict[str, Any]) -> None:
    base = tmp_path / "base"
    uuid = leaky_task(base, config)
    settings = settings_of(config, masking=True)
    with TaskContextManager.resume(base, uuid, settings_of(config, masking=False)):
        [left] = scan_tasks(base, settings, fix=True)
    assert (left.is_fixed, left.left_out) == (False, "busy")
    assert left.hits
    assert places_with_the_secret(base, config)


def test_a_task_at_work_keeps_nobody_from_mending_the_others(tmp_path: Path, config: dict[str, Any]) -> None:
    base = tmp_path / "base"
    settings, unmasked = settings_of(config, masking=True), settings_of(config, masking=False)
    leaky_task(base, config)
    with TaskContextManager(base, KEY, unmasked, uuid="at-work-1") as busy:
        busy.message_store.add_message("user", f"use {SECRET}")
        scanned = {one.task: one for one in scan_tasks(base, settings, fix=True)}
        assert scanned["at-work-1"].left_out == "busy"
        assert [one.is_fixed for task, one in scanned.items() if task != "at-work-1"] == [True]
    # What was fixed is out of what is derived, too.
    [left] = [one for one in scan_tasks(base, settings) if one.hits]
    assert left.task == "at-work-1"
    scan_tasks(base, settings, fix=True)
    assert places_with_the_secret(base, config) == []


def test_notices_about_a_task_and_prompts_in_the_queue_are_mended(tmp_path: Path, config: dict[str, Any]) -> None:
    base = tmp_path / "base"
    settings, unmasked = settings_of(config, masking=True), settings_of(config, masking=False)
    queue = TaskQueue(base, unmasked)
    queued = queue.enqueue(KEY, prompt=f"use {SECRET}")
    queue.close()
    with TaskContextManager(base, KEY, unmasked, uuid="told-1") as context:
        context.message_store.add_message("user", "hello")
        context.catalogue.outbox.add(NewNotice("e1", "canary", "info", "told-1", {"text": f"use {SECRET}"}))
    scanned = {one.task: one for one in scan_tasks(base, settings, fix=True)}
    assert {hit.where for hit in scanned["told-1"].hits} == {"notice"}
    assert {hit.where for hit in scanned[queued].hits} == {"catalogue"}
    assert places_with_the_secret(base, config) == []


def test_nothing_found_is_nothing_changed(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with TaskContextManager(base, KEY, load_settings(None, environ={}), uuid="clean-1") as context:
        context.message_store.add_message("user", "task-12 は完了")
    settings = load_settings(None, environ={})
    contents = {path: path.read_bytes() for path in base.rglob("messages.jsonl")}
    [scanned] = scan_tasks(base, settings, fix=True)
    assert (scanned.hits, scanned.is_fixed) == ((), False)
    assert {path: path.read_bytes() for path in base.rglob("messages.jsonl")} == contents
