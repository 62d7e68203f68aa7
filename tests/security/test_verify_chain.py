"""M10: a log that was rewritten together with its digests is found by ``orihon verify``, by what the audit attests."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orihon import Base
from orihon.audit.verify import attestations
from orihon.errors import DamagedStore
from orihon.settings import Settings, load_settings
from orihon.store import contract, redaction
from orihon.store.record_check import REDACTED, StreamHead, checked, decode_record
from orihon.store.record_codec import pack, restored_body
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import verify
from orihon.transfer.backup import VaultKey, backup, restore_backup
from orihon.upkeep.doctor import examine
from orihon.upkeep.privacy import anonymize_task
from orihon.upkeep.scan import scan_tasks
from orihon.values.message.message import Message
from orihon.values.task import TaskKey
from tests.acceptance.test_cli import run
from tests.conformance.child import ROOT, unmeasured
from tests.helpers import Child
from tests.services import Database

KEY = TaskKey("github", "o", "r", "issue", "1", "ana")


@pytest.fixture(params=["files", "sqlite", "postgres", "sealed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Settings]:
    config: dict[str, object] = {"context_storage": {"backend": request.param, "blob_bytes": 1024}}
    if request.param == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        config |= {"database": {"url": database.url, "schema": database.schema}}
    if request.param == "sealed":
        master = tmp_path / "master.key"
        master.write_text("a" * 64)
        master.chmod(0o600)
        config |= {"context_storage": {"backend": "files"}, "encryption": {"enabled": True, "key": f"file:{master}"}}
    return tmp_path / "base", load_settings(config, environ={})


def worked_on(base: Path, settings: Settings, messages: int = 6, uuid: str = "task-1") -> str:
    with closing(TaskContextManager(base, KEY, settings, uuid=uuid)) as task:
        for number in range(messages):
            task.message_store.add_message("user", f"pay {number} EUR")
            task.message_store.add_message("assistant", f"paid {number}")
        task.tool_store.add_tool_call("pay", {"amount": 1}, "done", duration_ms=1.5)
        task.planning_store.add_plan("initial", {"steps": ["pay"]})
        task.message_store.create_summary(3, 4, "paid once")
        task.stop()
    return uuid


def found(base: Path, settings: Settings, uuid: str = "task-1") -> list[tuple[str, str]]:
    with OpenBase(base, settings) as opened:
        return [finding.kind for finding in verify(opened, uuid)]


def rewrite(base: Path, settings: Settings, stream: contract.Stream, number: int, change: Callable[[str], str]) -> None:
    """Put another record in a place of the history, through the library, with every digest and check made anew."""
    with changing(base, settings) as store:
        (line,) = store.records.read(stream, (number, number))
        record = decode_record(line)
        if stream != "messages":
            store.records.rewrite(stream, {number: checked(change(jsonio.encode(record).decode()).encode())})
            return
        pieces, _, _ = pack(
            Message.from_body(json.loads(change(json.dumps(restored_body(record, store.records.get_blob))))),
            seq=number,
            timestamp=record["timestamp"],
            epoch=record["epoch"],
            blob_bytes=store.blob_bytes,
            max_bytes=store.max_bytes,
            put_blob=store.records.put_blob,
        )
        kept = {name: record[name] for name in (REDACTED, "tokens") if name in record}
        store.records.rewrite(stream, {number: checked(jsonio.encode({**decode_record(b"".join(pieces)), **kept}))})


@contextmanager
def changing(base: Path, settings: Settings) -> Iterator[TaskStore]:
    """The task's writer, as whoever has all rights to the library is; what is derived is made anew at the end."""
    with OpenBase(base, settings) as opened:
        opened.open_catalogue()
        with opened.own("task-1") as owned:
            here = opened.folders.find("task-1")
            assert here is not None
            with closing(opened.store(here, epoch=owned.epoch)) as store:
                store.claim()
                yield store
                store.records.save("index", b"{}")
            with closing(opened.store(here, epoch=owned.epoch)) as again:
                again.change(lambda tail: again.save_index())


def test_m10_a_message_rewritten_with_its_digest_is_found(place: tuple[Path, Settings]) -> None:
    base, settings = place
    worked_on(base, settings)
    assert found(base, settings) == []
    rewrite(base, settings, "messages", 5, lambda said: said.replace("pay 2", "pay 9"))
    assert found(base, settings) == [("chain", "changed")]


@pytest.mark.parametrize("stream", ["tools", "planning", "summaries"])
def test_m10_the_other_streams_are_attested_too(tmp_path: Path, stream: contract.Stream) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    words = {"tools": ("done", "none"), "planning": ("pay", "bet"), "summaries": ("paid", "lost")}[stream]
    rewrite(base, settings, stream, 1, lambda said: said.replace(*words))
    assert ("chain", "changed") in found(base, settings)


def test_m10_by_the_command(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    clean = run("--base-dir", base, "verify", "task-1")
    assert (clean.code, "The audit attests the records 1 times" in clean.out) == (0, True)
    rewrite(base, settings, "messages", 5, lambda said: said.replace("pay 2", "pay 9"))
    told = run("--base-dir", base, "verify", "task-1")
    assert (told.code, "rewritten together with its digest" in told.out) == (1, True)
    assert "書き換えられています" in run("--base-dir", base, "verify", "task-1", language="ja").out


def test_m10_what_comes_later_does_not_cover_it_up(place: tuple[Path, Settings]) -> None:
    """Whoever goes on with the task attests it again: what was attested before still counts."""
    base, settings = place
    worked_on(base, settings)
    rewrite(base, settings, "messages", 5, lambda said: said.replace("pay 2", "pay 9"))
    for lost in (False, True):
        if lost and settings.database.url is None:
            with OpenBase(base, settings) as opened:
                here = opened.folders.find("task-1")
                assert here is not None
                (here.folder / "heads.json").unlink(missing_ok=True)
        with closing(TaskContextManager.resume(base, "task-1", settings)) as task:
            task.message_store.add_message("user", "and on")
            task.stop()
        assert ("chain", "changed") in found(base, settings)


def test_m10_a_cut_end_is_found(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    folder = base / "paused" / "task-1"
    log = folder / "messages.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))
    for name in ("settled.json", "index.json", "heads.json", "current.jsonl"):
        (folder / name).unlink(missing_ok=True)
    assert ("chain", "cut") in found(base, settings)


def test_m10_a_killed_worker_has_attested_what_it_did(tmp_path: Path) -> None:
    """Every so many messages, not only at the end: of 450, four hundred."""
    base, settings = tmp_path / "base", load_settings({"context_storage": {"durability": "os"}}, environ={})
    program = """
import os, signal, sys
from orihon import TaskContextManager, TaskKey, load_settings
settings = load_settings({"context_storage": {"durability": "os"}}, environ={})
task = TaskContextManager(sys.argv[1], TaskKey("github", "o", "r", "issue", "1", "ana"), settings, uuid="task-1")
for number in range(450):
    task.message_store.add_message("user", f"pay {number} EUR")
os.kill(os.getpid(), signal.SIGKILL)
"""
    with Child[bytes]([sys.executable, "-c", program, str(base)], cwd=ROOT, env=unmeasured()) as process:
        process.wait()
    told = attestations(base, settings, "task-1").attestations
    assert [one.heads["messages"][0] for one in told] == [200, 400]
    assert found(base, settings) == []
    rewrite(base, settings, "messages", 300, lambda said: said.replace("pay 299", "pay 999"))
    with OpenBase(base, settings) as opened:
        findings = {one.kind: one.fields for one in verify(opened, "task-1")}
    assert findings["chain", "changed"]["first"] == 201


def test_m10_a_kill_between_the_audit_and_the_note_is_no_finding(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    heads = base / "paused" / "task-1" / "heads.json"
    for state in (None, b"nonsense", heads.read_bytes()):
        if state is None:
            heads.unlink()
        else:
            heads.write_bytes(state)
        with closing(TaskContextManager.resume(base, "task-1", settings)) as task:
            task.message_store.add_message("user", "and on")
            task.stop()
        assert found(base, settings) == []


# ---- what is allowed to change -------------------------------------------------------------------------------------


def secret_task(base: Path, settings: Settings) -> None:
    plain = settings.replace(**{"masking.enabled": False})
    with closing(TaskContextManager(base, KEY, plain, uuid="task-1")) as task:
        task.message_store.add_message("user", "the key is sk-proj-" + "Ab1" * 16)
        task.message_store.add_message("assistant", "Dear John Miller, noted")
        task.tool_store.add_tool_call("use", {"key": "sk-proj-" + "Cd2" * 16}, "done", duration_ms=1.0)
        task.stop()


def test_m10_a_redaction_is_no_finding_and_what_it_left_is_attested(place: tuple[Path, Settings]) -> None:
    base, settings = place
    secret_task(base, settings)
    assert found(base, settings) == []
    with OpenBase(base, settings) as opened:
        (done,) = scan_tasks(opened, ["task-1"], fix=True)
        assert done.hits
    assert found(base, settings) == []
    with OpenBase(base, settings) as opened:
        anonymize_task(opened, "task-1")
    assert found(base, settings) == []
    rewrite(base, settings, "messages", 1, lambda said: said.replace("the key is", "no key was"))
    assert found(base, settings) == [("chain", "redacted")]


def test_m10_a_redaction_that_is_not_on_the_record_is_found(place: tuple[Path, Settings]) -> None:
    """Whoever marks a record as redacted may say anything in it, and has its former hash."""
    base, settings = place
    worked_on(base, settings)
    silent = settings.replace(**{"audit.enabled": False})
    with changing(base, silent) as store:
        redaction.Redaction(store, lambda said: said.replace("pay 2", "pay 9"), by="evil").apply()
    assert found(base, settings) == [("chain", "redacted")]


def test_m10_a_redaction_that_died_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    secret_task(base, settings)
    program = """
import os, signal, sys
from orihon.settings import load_settings
from orihon.store.files import FilesRecords
from orihon.tasks.base import OpenBase
from orihon.upkeep.scan import scan_tasks
rewrite = FilesRecords.rewrite
def and_die(self, stream, records):
    rewrite(self, stream, records)
    os.kill(os.getpid(), signal.SIGKILL)
FilesRecords.rewrite = and_die
with OpenBase(sys.argv[1], load_settings({}, environ={})) as base:
    scan_tasks(base, ["task-1"], fix=True)
"""
    with Child[bytes]([sys.executable, "-c", program, str(base)], cwd=ROOT, env=unmeasured()) as process:
        process.wait()
    assert [kind for kind in found(base, settings) if kind[0] == "chain"] == []
    with closing(TaskContextManager.resume(base, "task-1", settings)) as task:
        task.message_store.add_message("user", "and on")
        task.stop()
    assert [kind for kind in found(base, settings) if kind[0] == "chain"] == []


def test_m10_moves_forks_archives_and_backups_are_no_findings(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    with Base(base, settings) as opened:
        forked = opened.fork("task-1", 4)
        opened.migrate("files", "sqlite")
        assert verify(opened, "task-1") == []
        opened.migrate("sqlite", "files")
        assert verify(opened, "task-1") == []
        assert verify(opened, forked) == []
    with closing(TaskContextManager.resume(base, "task-1", settings)) as task:
        task.complete()
    with Base(base, settings) as opened:
        opened.archive("task-1")
        opened.unarchive("task-1")
        assert verify(opened, "task-1") == []
        backup(opened, tmp_path / "vault")
    restore_backup(tmp_path / "vault", tmp_path / "copy", settings, key=VaultKey.of_base(base))
    assert found(tmp_path / "copy", settings) == []
    rewrite(tmp_path / "copy", settings, "messages", 5, lambda said: said.replace("pay 2", "pay 9"))
    assert ("chain", "changed") in found(tmp_path / "copy", settings)


def test_m10_a_backup_while_a_worker_goes_on_attests_nothing_that_it_lacks(tmp_path: Path) -> None:
    """The audit is copied before the tasks: else it would know of messages that the copy of the log has not."""
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    with closing(TaskContextManager.resume(base, "task-1", settings)) as task:

        def more(done: int, of: int) -> None:
            for number in range(250):
                task.message_store.add_message("user", f"more {number}")

        backup(OpenBase(base, settings), tmp_path / "vault", more)
        task.stop()
    assert len(attestations(base, settings, "task-1").attestations) >= 3
    restore_backup(tmp_path / "vault", tmp_path / "copy", settings, key=VaultKey.of_base(base))
    assert [kind for kind in found(tmp_path / "copy", settings) if kind[0] == "chain"] == []


# ---- the audit -------------------------------------------------------------------------------------------------------


def test_m10_a_changed_attestation_is_found(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({}, environ={})
    worked_on(base, settings)
    (chain,) = (base / "audit").glob("*.jsonl")
    lines = chain.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"attest"' in line)
    chain.write_bytes(
        b"".join((*lines[:at], lines[at].replace(b'"messages":[12,', b'"messages":[10,'), *lines[at + 1 :]))
    )
    assert found(base, settings) == [("chain", "audit")]
    chain.write_bytes(b"".join((*lines[:at], *lines[at + 1 :])))
    assert run("--base-dir", base, "audit", "verify").code == 1, "one that is gone, the chain misses"


def test_m10_without_the_audit_it_is_said_that_nothing_is_attested(tmp_path: Path) -> None:
    base, settings = tmp_path / "base", load_settings({"audit": {"enabled": False}}, environ={})
    worked_on(base, settings)
    told = run("--base-dir", base, "verify", "task-1")
    assert (told.code, "The audit attests nothing about this task" in told.out) == (0, True)
    assert json.loads(run("--base-dir", base, "verify", "task-1", "--json").out)["attested"] is None


def test_m10_a_head_is_the_same_however_it_was_come_to() -> None:
    lines = [checked(jsonio.encode({"seq": number, "content": "x" * number})) for number in range(1, 30)]
    whole = StreamHead().after(lines)
    assert StreamHead().after(lines[:11]).after(lines[11:]) == whole
    assert StreamHead.from_list(jsonio.decode(jsonio.encode(whole.as_list()))) == whole
    assert StreamHead().after([*lines[:5], *lines[6:]]) != whole
    assert StreamHead().after([lines[1], lines[0], *lines[2:]]) != whole


@pytest.mark.parametrize("is_audited", [True, False])
def test_a_folder_that_is_put_back_as_it_was_is_found_with_and_without_the_audit(
    tmp_path: Path, is_audited: bool
) -> None:
    """The catalogue knows how much was acknowledged: the task does not open, and doctor and verify say so."""
    settings = load_settings({"audit": {"enabled": is_audited}}, environ={})
    base, earlier = tmp_path / "base", tmp_path / "earlier"
    with Base(base, settings) as opened:
        task = opened.task("one")
        task.add("user", "first")
        task.stop()
    folder = next((base / "paused").iterdir())
    shutil.copytree(folder, earlier)
    with Base(base, settings) as opened:
        task = opened.task("one")
        task.add("user", "second")
        task.stop()
    shutil.rmtree(folder)
    earlier.rename(folder)
    with Base(base, settings) as opened, pytest.raises(DamagedStore, match="1 messages, but 2 were acknowledged"):
        opened.task("one")
    with OpenBase(base, settings) as looked_at:
        told = [finding.kind for finding in examine(looked_at) if finding.severity == "error"]
    assert len(told) == 1
    assert ("chain", "cut") not in told
    proved = found(base, settings, folder.name)
    assert told[0] in proved
    assert (("chain", "cut") in proved) is is_audited
