"""The prover says what is wrong, where, on both back ends; and nothing when all is well."""

from __future__ import annotations

import ast
import shutil
import tomllib
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

import orihon.tasks.verify.verify
from orihon import MessageStore
from orihon.catalogue.metadata import NAME as METADATA
from orihon.errors import DamagedStore, TaskNotFound
from orihon.store.contract import Stream
from orihon.store.factory import open_for_reading
from orihon.store.kept_files import trusted_file
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.inheritance import ContextInheritanceManager, PreviousContext
from orihon.tasks.verify.findings import Finding
from orihon.tasks.verify.folder import Exposed, check_metadata, open_to_others
from orihon.tasks.verify.verify import verify, verify_task
from orihon.upkeep.doctor.repairs import REPAIRS
from orihon.values.records import FINAL_SUMMARY
from orihon.values.view import PlannedFold
from tests.damage import (
    BACKENDS,
    BIG,
    KEY,
    add_record,
    edit_record,
    paused_task,
    read_record,
    replaced,
    settings_for,
    start_task,
    tear,
    with_fields,
)
from tests.helpers import refused

Editor = Callable[[bytes], bytes | None]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kinds(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.check, finding.detail, finding.where) for finding in findings]


def found(base: Path, uuid: str, backend: str) -> list[tuple[str, str, str]]:
    return kinds(verify(OpenBase(base, settings_for(backend)), uuid))


# ---- a sound task ----------------------------------------------------------------------------------------------


def test_a_sound_task_is_clean_in_every_state(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    assert verify(OpenBase(tmp_path, task.settings), task.uuid) == []
    assert verify_task(task.task_store, task.context_dir, in_use=True) == []
    task.stop()
    assert found(tmp_path, task.uuid, backend) == []
    task = start_task(tmp_path, backend)
    task.complete()
    assert found(tmp_path, task.uuid, backend) == []


def test_looking_changes_nothing(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    tear(folder)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "tasks.db" not in path.name}
    assert found(tmp_path, uuid, "files")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "tasks.db" not in path.name}
    assert after == before


def test_looking_makes_no_store_where_there_is_none(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    for path in folder.iterdir():
        if path.name != "metadata.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert ("catalogue", "lost_messages", "tasks.db") in found(tmp_path, uuid, backend)
    assert [path.name for path in folder.iterdir()] == ["metadata.json"]


def test_a_file_that_vanishes_while_we_look_is_no_finding(tmp_path: Path) -> None:
    readable = tmp_path / "messages.jsonl"
    readable.touch(0o644)
    listed = [tmp_path / ".index.json.0123abcd", readable]  # the first has been renamed since
    assert open_to_others(listed) == [Exposed(readable, 0o644, 0o600)]


def test_a_task_that_is_being_written_is_no_finding(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    (task.context_dir / "request.json").write_bytes(b"{}")
    (task.context_dir / "request.json").chmod(0o600)
    if backend == "files":
        tear(task.context_dir)
    assert found(tmp_path, task.uuid, backend) == []
    task.close()
    expected = [("folder", "request", "request.json")]
    if backend == "files":
        expected.insert(0, ("stream", "torn", "messages.jsonl"))
    assert found(tmp_path, task.uuid, backend) == expected


def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    with refused(TaskNotFound, "uuid"):
        verify(OpenBase(tmp_path, settings_for("files")), "no-such-task")


# ---- records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "number", "editor", "expected"),
    [
        ("messages", 5, lambda line: line.replace(b"Step 1", b"Step 7"), ("stream", "check", "messages 5")),
        ("messages", 5, replaced(b"Step 1", b"Step 7"), ("log", "digest", "messages 5")),
        ("messages", 5, lambda line: b'{"seq":5,' + b"\x00" * 30, ("stream", "check", "messages 5")),
        ("messages", 5, lambda line: line.replace(b"crc32", b"crc42"), ("stream", "check", "messages 5")),
        ("messages", 5, lambda line: None, ("stream", "line", "messages 5")),
        ("messages", 5, with_fields(role="wizard"), ("stream", "fields", "messages 5")),
        ("messages", 5, with_fields(epoch="first"), ("stream", "fields", "messages 5")),
        ("messages", 5, with_fields(digest="none"), ("log", "digest", "messages 5")),
        ("messages", 5, with_fields(tokens=1), ("log", "tokens", "messages 5")),
        ("messages", 5, with_fields(epoch=0), ("log", "epoch", "messages 5")),
        ("messages", 4, with_fields(tool_call_id="call_9"), ("log", "orphan", "messages 4")),
        ("messages", 4, with_fields(tool_call_id="call_9"), ("log", "unanswered", "messages 5")),
        ("tools", 1, lambda line: b"{", ("stream", "line", "tools 1")),
        ("planning", 1, lambda line: b'{"id":1,', ("stream", "check", "planning 1")),
        ("planning", 1, with_fields(id=2), ("stream", "line", "planning 1")),
        ("summaries", 1, with_fields(summary_tokens=1), ("folds", "tokens", "summaries 1")),
        ("summaries", 1, with_fields(start_seq="two"), ("stream", "fields", "summaries 1")),
        ("summaries", 1, with_fields(start_seq=1), ("folds", "head", "compressions 1")),
        ("summaries", 1, with_fields(end_seq=3), ("folds", "pair", "compressions 1")),
        ("summaries", 2, with_fields(end_seq=99), ("folds", "illegal", "compressions 2")),
        ("summaries", 2, with_fields(replaces=[]), ("folds", "illegal", "compressions 2")),
        ("compressions", 1, with_fields(folds=[9]), ("folds", "unknown", "compressions 1")),
        ("compressions", 1, with_fields(folds="all"), ("stream", "fields", "compressions 1")),
        ("compressions", 1, with_fields(visible=[]), ("folds", "visible", "compressions 1")),
        ("compressions", 1, with_fields(after_tokens=1), ("folds", "freed", "compressions 1")),
        ("compressions", 2, with_fields(removed=[]), ("folds", "change", "compressions 2")),
        ("compressions", 3, with_fields(parent=3), ("folds", "parent", "compressions 3")),
        ("compressions", 3, with_fields(kind="unfold"), ("folds", "parent", "compressions 3")),
        ("compressions", 4, with_fields(pins=[{"seq": 9}]), ("folds", "pins", "compressions 4")),
        ("compressions", 4, with_fields(pins=[{"seq": 3}]), ("folds", "hides_pin", "compressions 4")),
    ],
)
def test_each_kind_of_damage_has_a_name(
    tmp_path: Path, backend: str, stream: Stream, number: int, editor: Editor, expected: tuple[str, str, str]
) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    if expected[:2] == ("stream", "line") and backend == "sqlite" and stream != "messages":
        # A row keeps its number whatever is in it.
        expected = ("stream", "record" if stream == "planning" else "check", expected[2])
    edit_record(folder, stream, number, editor)
    assert expected in found(tmp_path, uuid, backend)


def test_one_damaged_message_does_not_hide_the_next(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    edit_record(folder, "messages", 9, replaced(b"call_2", b"call_7"))
    edit_record(folder, "messages", 3, lambda line: b'{"seq":3,"role":')
    names = found(tmp_path, uuid, backend)
    assert ("stream", "check", "messages 3") in names
    assert ("log", "digest", "messages 9") in names


def test_a_log_of_rubbish_gives_a_handful_of_findings(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    (folder / "messages.jsonl").write_bytes(b"rubbish\n" * 5000)
    names = found(tmp_path, uuid, "files")
    assert ("stream", "line", "messages 1") in names
    assert len(names) < 40


def test_the_same_finding_a_thousand_times_is_said_in_few_words(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task", settings_for("files"))
    for number in range(30):
        store.add_message("user", f"message {number}")
    store.close()
    log = tmp_path / "task" / "messages.jsonl"
    wrong = replaced(b"message", b"Message")
    log.write_bytes(b"".join(wrong(line) + b"\n" for line in log.read_bytes().splitlines()))
    findings = verify_task(store.task_store)
    assert len(findings) == 21
    assert (findings[-1].where, findings[-1].fields) == ("log.digest", {"count": 10})


def test_a_compression_that_nobody_made(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    record = read_record(folder, "compressions", 2)
    add_record(folder, "compressions", 6, with_fields(id=6)(record))
    names = found(tmp_path, uuid, backend)
    assert [name for name in names if name[0] == "folds"] == [("folds", "illegal", "compressions 6")]


def test_visible_folds_that_overlap_are_a_finding(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.message_store.folding.unfold(2)
    task.stop()
    last = task.task_store.count("compressions")
    edit_record(task.context_dir, "compressions", last, with_fields(visible=[1, 2, 3]))
    assert ("folds", "visible", f"compressions {last}") in found(tmp_path, task.uuid, backend)
    with closing(open_for_reading(task.context_dir, task.settings)) as store, refused(DamagedStore, "overlap"):
        store.view()


def test_a_tool_call_id_that_was_used_before(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    for number in (6, 7):
        edit_record(folder, "messages", number, replaced(b"call_1", b"call_0"))
    assert ("log", "reused", "messages 6") in found(tmp_path, uuid, backend)


def test_a_flipped_bit_in_a_blob(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    blob = next((folder / "blobs").iterdir())
    data = bytearray(blob.read_bytes())
    data[100] ^= 1
    blob.write_bytes(data)
    names = found(tmp_path, uuid, backend)
    assert ("stream", "blob", "messages 13") in names
    assert ("stream", "blob", "tools 1") in names, "the same content is stored once"
    blob.unlink()
    assert ("stream", "blob", "messages 13") in found(tmp_path, uuid, backend)
    blob.write_bytes(BIG.encode())
    blob.chmod(0o600)
    assert found(tmp_path, uuid, backend) == []


def test_flipped_bytes_in_a_database(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "sqlite")
    path = folder / "context.db"
    whole = path.read_bytes()
    path.write_bytes(b"not a database at all" + whole[21:])
    assert kinds(verify(OpenBase(tmp_path, settings_for("sqlite")), uuid)) == [("stream", "damaged", str(path))] * 2
    broken = bytearray(whole)
    broken[4096 * 2 : 4096 * 2 + 200] = bytes(200)
    path.write_bytes(broken)
    assert ("stream", "database", "context.db") in found(tmp_path, uuid, "sqlite")


def test_opening_editing_and_pinning_are_made_again(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    folding = task.message_store.folding
    edited = folding.edit(2, "two steps were done, in other words").folds[0]
    folding.unfold(edited)
    folding.pin(3, "")
    folding.unpin(3)
    folding.compress([PlannedFold(2, 7, "Step 0 and step 1: Step 1: 次の手順です")])
    folding.pin(5, "次の手順です")
    folding.pin(5, "Step")
    task.stop()
    assert found(tmp_path, task.uuid, backend) == []
    edit_record(task.context_dir, "compressions", 6, with_fields(folds=[2], visible=[2, 3]))
    assert ("folds", "change", "compressions 6") in found(tmp_path, task.uuid, backend)


# ---- what is derived -----------------------------------------------------------------------------------------------


def test_a_file_of_the_view_that_differs(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    view = folder / "current.jsonl"
    whole = view.read_bytes()
    view.write_bytes(whole.replace(b"two steps", b"two stops"))
    assert found(tmp_path, uuid, "files") == [("view", "unknown_lines", "current.jsonl")]
    view.write_bytes(b"".join(reversed(whole.splitlines(keepends=True))))
    assert found(tmp_path, uuid, "files") == [("view", "lines", "current.jsonl")]
    view.write_bytes(whole + b'{"role":"user","content":"never reached the log"}\n')
    assert found(tmp_path, uuid, "files") == [("view", "lines", "current.jsonl")]
    view.write_bytes(whole + b'{"role":"user","content":"lost"}\n' * 2)
    assert found(tmp_path, uuid, "files") == [("view", "unknown_lines", "current.jsonl")]
    view.unlink()
    assert found(tmp_path, uuid, "files") == [("view", "missing", "current.jsonl")]


def test_a_kill_between_a_fold_and_its_view_is_no_lost_history(tmp_path: Path) -> None:
    task = TaskContextManager(tmp_path, KEY, settings_for("files"))
    for number in range(20):
        task.message_store.add_message("user", f"message {number}")
    view = task.message_store.get_current_context_file()
    before_the_fold = view.read_bytes()
    task.message_store.create_summary(1, 15, "what came first")
    task.close()
    view.write_bytes(before_the_fold)
    (finding,) = verify(OpenBase(tmp_path, task.settings), task.uuid)
    assert (finding.kind, finding.severity) == (("view", "lines"), "warning")
    view.write_bytes(before_the_fold + b'{"role":"user","content":"lost"}\n' * 2)
    (finding,) = verify(OpenBase(tmp_path, task.settings), task.uuid)
    assert (finding.kind, finding.fields) == (("view", "unknown_lines"), {"surplus": 2})


def test_counters_that_differ(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.task_store.tail.view_tokens += 1
    task.task_store.tail.log_tokens += 1
    names = [finding.fields["name"] for finding in verify_task(task.task_store) if finding.detail == "counters"]
    assert names == ["log_tokens", "view_tokens"]
    task.close()


# ---- the folder and the catalogue ----------------------------------------------------------------------------------


def test_files_that_others_can_read(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    (folder / "metadata.json").chmod(0o644)
    folder.chmod(0o755)
    (finding,) = verify(OpenBase(tmp_path, settings_for(backend)), uuid)
    assert (finding.check, finding.detail, finding.where) == ("folder", "permissions", uuid)
    assert finding.fields == {"mode": "0755", "wanted": "0700", "count": 2}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"uuid": "another"}'])
def test_metadata_that_cannot_be_right(tmp_path: Path, content: bytes) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    (folder / "metadata.json").write_bytes(content)
    assert found(tmp_path, uuid, "files") == [("folder", "metadata", "metadata.json")]
    (folder / "metadata.json").unlink()
    assert found(tmp_path, uuid, "files") == [("folder", "no_metadata", "metadata.json")]


def test_the_row_against_the_folder(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    moved = tmp_path / "completed" / uuid
    moved.parent.mkdir(mode=0o700)
    folder.rename(moved)
    assert found(tmp_path, uuid, backend) == [("catalogue", "misplaced", "completed/")]
    shutil.copytree(moved, folder)
    assert found(tmp_path, uuid, backend) == [("catalogue", "two_folders", "tasks.db")]
    shutil.rmtree(moved)
    shutil.rmtree(folder)
    assert found(tmp_path, uuid, backend) == [("catalogue", "no_folder", "tasks.db")]


def test_messages_that_were_acknowledged_and_are_gone(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    for number in (13, 12, 11):
        edit_record(folder, "messages", number, lambda line: None)
    assert ("catalogue", "lost_messages", "tasks.db") in found(tmp_path, uuid, backend)


@pytest.mark.parametrize(("stream", "count"), [("summaries", 3), ("tools", 1)])
def test_records_that_were_acknowledged_and_are_gone(tmp_path: Path, backend: str, stream: Stream, count: int) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    edit_record(folder, stream, count, lambda line: None)
    lost = [
        one.fields for one in verify(OpenBase(tmp_path, settings_for(backend)), uuid) if one.detail == "lost_records"
    ]
    assert lost == [{"stream": stream, "stored": count - 1, "known": count}]


def test_a_catalogue_from_an_older_backup(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    uuid = task.uuid
    task.stop()
    backup = {path.name: path.read_bytes() for path in tmp_path.glob("tasks.db*")}
    task = type(task).resume(tmp_path, uuid, settings_for(backend))
    task.message_store.add_message("user", "one more")
    task.stop()
    for path in tmp_path.glob("tasks.db*"):
        path.unlink()
    for name, content in backup.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    assert found(tmp_path, uuid, backend) == [("catalogue", "epoch", "tasks.db")]


def test_a_damaged_catalogue_does_not_hide_the_task(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    (tmp_path / "tasks.db").write_bytes(b"rubbish" * 1000)
    tear(folder)
    names = found(tmp_path, uuid, "files")
    assert names == [("catalogue", "damaged", "tasks.db"), ("stream", "torn", "messages.jsonl")]


# ---- how it is said ------------------------------------------------------------------------------------------------


def test_every_finding_can_be_said_in_both_languages() -> None:
    source = Path(orihon.tasks.verify.verify.__file__).parent
    said: set[tuple[str, str]] = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                kind = [str(argument.value) for argument in node.args[:2] if isinstance(argument, ast.Constant)]
                if len(kind) == 2:
                    said.add((kind[0], kind[1]))
    said |= REPAIRS.keys()
    assert len(said) > 40
    catalogues = files("orihon.texts")
    texts = {
        lang: tomllib.loads(catalogues.joinpath(lang, "tasks.toml").read_text(encoding="utf-8"))["findings"]
        for lang in ("en", "ja")
    }
    for check, detail in said:
        for lang in ("en", "ja"):
            assert len(texts[lang][check][detail]) == 2, "cause and remedy"


def test_a_finding_says_where_what_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("log", "tokens", "messages 5", task="abc", fields={"stored": 1, "derived": 7})
    assert str(finding) == (
        "messages 5: The message is counted as 1 tokens, but makes 7. Restore the log from a backup."
    )
    monkeypatch.setenv("ORIHON_LANG", "ja")
    assert finding.cause == "記録上は 1 トークンですが、計算すると 7 になります。"
    assert jsonio.decode(jsonio.encode(finding.as_dict()))["fields"] == {"stored": 1, "derived": 7}


# ---- kept files ----------------------------------------------------------------------------------------------------


def test_every_flipped_byte_of_metadata_and_final_summary_is_noticed(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.complete()
    task.catalogue.close()
    base = OpenBase(tmp_path, settings_for(backend))
    assert found(tmp_path, task.uuid, backend) == []
    with closing(open_for_reading(task.context_dir, settings_for(backend), name=task.uuid)) as store:
        for name, expected in (
            (METADATA, ("folder", "metadata", METADATA)),
            (FINAL_SUMMARY, ("folder", "file", FINAL_SUMMARY)),
        ):
            path = task.context_dir / name
            whole = path.read_bytes()
            for place in range(0, len(whole), 3):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
                findings: list[Finding] = []
                check_metadata(store.records, findings.append)
                # Blanks between the fields of JSON say nothing.
                said = name == METADATA and jsonio.decode(whole) == _decoded(path.read_bytes())
                assert said or [(one.check, one.detail, one.where) for one in findings] == [expected], place
                assert trusted_file(store.records, name) is None or name == METADATA
            path.write_bytes(whole)
    assert verify(base, task.uuid) == []


def _decoded(raw: bytes) -> object:
    try:
        return jsonio.decode(raw)
    except ValueError:
        return None


def test_a_damaged_final_summary_is_not_inherited(tmp_path: Path) -> None:
    task = start_task(tmp_path, "files")
    task.complete()
    task.catalogue.close()
    (before,) = _inherited(tmp_path)
    assert before.final_summary
    summary = task.context_dir / FINAL_SUMMARY
    summary.write_bytes(summary.read_bytes().replace(b"e", b"o", 1))
    (after,) = _inherited(tmp_path)
    assert not after.final_summary


def _inherited(base: Path) -> list[PreviousContext]:
    return ContextInheritanceManager(base, settings_for("files")).find_previous_contexts(KEY)
