"""Hostile files and folders, brought in by the real ``orihon import`` (M1, M2)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon.importers.identity import repository_of
from orihon.importers.lines import json_lines, reading_tables
from orihon.importers.registry import OutOfBounds, Problem, ReadingBounds, Thread
from tests.acceptance.test_cli import ORIHON, environment, run
from tests.importing import make_chat_lines, make_claude_code
from tests.importing_agents import make_kimi, make_openhands_folder

PATIENCE = 120.0
SECRET = "OUTSIDE-PRIVATE-TRANSCRIPT"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id"


def brought(base: Path, *paths: Path, memory_mb: int = 2048) -> dict[str, Any]:
    """The report of an import, which has to come to an end."""
    ended = run("--base-dir", base, "import", "--json", *paths, ORIHON_IMPORTING__MEMORY_MB=str(memory_mb))
    assert ended.code in (0, 1), ended.err
    report: dict[str, Any] = json.loads(ended.out)
    return report


def problems(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(Path(one["path"]).name, one["cause"]) for one in report["problems"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one good file, which is imported whatever lies beside it."""
    path = tmp_path / "hostile"
    make_claude_code(path / "good")
    return path


def is_good_there(report: dict[str, Any]) -> bool:
    return any("/good/" in task["path"] for task in report["tasks"])


def chat(path: Path, said: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"role": "user", "content": said}) + "\n" + json.dumps({"role": "assistant", "content": "y"}) + "\n"
    )
    return path


# --- M1: links


def test_links_do_not_lead_out_of_the_folder(base: Path, tmp_path: Path, folder: Path) -> None:
    """M1: ``linkdir -> ../outside``, a link to a file, and ``root -> /`` brought in whatever was there."""
    outside = chat(tmp_path / "outside" / "private.jsonl", SECRET)
    (folder / "linkdir").symlink_to("../outside")
    (folder / "file.jsonl").symlink_to(outside)
    (folder / "root").symlink_to("/")
    (folder / "up").symlink_to(folder.parent)
    (folder / "inside").symlink_to(folder / "good")
    os.link(chat(tmp_path / "elsewhere.jsonl", "a hard link is a file"), folder / "hard.jsonl")
    report = brought(base, folder)
    assert problems(report) == {(name, "outside") for name in ("linkdir", "file.jsonl", "root", "up")}
    assert is_good_there(report)
    assert report["new_tasks"] == 2
    assert SECRET not in run("--base-dir", base, "search", SECRET).out


def test_a_link_that_was_named_is_followed(base: Path, tmp_path: Path, folder: Path) -> None:
    """M1: who names a link wants what it leads to, a folder or a file."""
    chat(tmp_path / "outside" / "private.jsonl", SECRET)
    (tmp_path / "named").symlink_to(tmp_path / "outside")
    report = brought(base, tmp_path / "named")
    assert (report["problems"], report["new_tasks"]) == ([], 1)


def test_what_stands_beside_a_transcript_is_no_way_out_either(base: Path, tmp_path: Path, folder: Path) -> None:
    """M1: some formats keep one session in several files, which their readers open by themselves."""
    outside = tmp_path / "outside.json"
    events = make_openhands_folder(folder / "openhands").parent
    event = json.loads(next(events.glob("0.json")).read_text())
    outside.write_text(json.dumps({**event, "id": 99, "message": SECRET, "args": {"content": SECRET}, "title": SECRET}))
    (events / "99.json").symlink_to(outside)
    wire = make_kimi(folder / "kimi")
    state = wire.parents[2] / "state.json"
    state.unlink(missing_ok=True)
    state.symlink_to(outside)
    report = brought(base, folder)
    assert is_good_there(report)
    assert len({task["format"] for task in report["tasks"]} & {"openhands", "kimi"}) == 2
    stored = b"".join(path.read_bytes() for path in base.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored


# --- M2: databases


def seed_tree(folder: Path, statements: str) -> Path:
    path = folder / "github" / "kim" / "shop" / "issue_27" / "context.db"
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE metadata (key TEXT, value TEXT);"
        "CREATE TABLE summaries (id INTEGER, end_message_id INTEGER, summary_content TEXT, created_at TEXT);"
        "CREATE TABLE tool_calls (id INTEGER, message_id INTEGER, tool_name TEXT, arguments TEXT, result TEXT,"
        " duration_ms INTEGER, status TEXT, error_message TEXT, timestamp TEXT);" + statements
    )
    connection.close()
    return path


ROW = ", 'user' AS role, 'x' AS content, '' AS timestamp, '{}' AS metadata, 0 AS token_count, 0 AS is_summarized"
HOSTILE_TABLES = {
    "a view without end": f"CREATE VIEW messages AS {ENDLESS} {ROW} FROM n;",
    "a virtual table": "CREATE VIRTUAL TABLE messages USING fts5(id, role, content, timestamp, metadata, token_count,"
    " is_summarized);",
    "a computed column": "CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT,"
    " content TEXT AS (zeroblob(1000000000)), timestamp TEXT, metadata TEXT, token_count INTEGER,"
    " is_summarized INTEGER);"
    "INSERT INTO messages (role) VALUES ('user');",
    "a view in other letters": f"CREATE VIEW MESSAGES AS {ENDLESS} {ROW} FROM n;",
}


@pytest.mark.parametrize("statements", HOSTILE_TABLES.values(), ids=HOSTILE_TABLES.keys())
def test_of_a_database_plain_tables_are_read(base: Path, folder: Path, statements: str) -> None:
    """M2: a view with an endless recursive query held an import for ever."""
    seed_tree(folder, statements)
    report = brought(base, folder)
    assert problems(report) == {("context.db", "schema")}
    assert is_good_there(report)


def test_a_chat_of_cursor_is_no_program(base: Path, folder: Path) -> None:
    """M2: the same for Cursor's ``store.db``, whose tables are recognised by their text alone."""
    path = folder / "chats" / "one" / "store.db"
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE meta (key TEXT, value TEXT);"
        f"CREATE VIEW blobs AS /* CREATE TABLE blobs */ {ENDLESS}, x'00' AS data FROM n;"
    )
    about = json.dumps({"agentId": "one", "latestRootBlobId": "ab" * 32}).encode().hex()
    connection.execute("INSERT INTO meta VALUES ('0', ?)", (about,))
    connection.close()
    report = brought(base, folder)
    assert problems(report) == {("store.db", "unreadable")}
    assert is_good_there(report)


def test_a_query_has_a_deadline(tmp_path: Path) -> None:
    """M2: a plain table may be large, and sorted by what is no index: SQLite asks now and then whether to go on."""
    path = seed_tree(tmp_path, "CREATE TABLE messages (id, role);")
    connection = apsw.Connection(str(path))
    connection.execute(f"INSERT INTO messages {ENDLESS}, 'user' FROM n LIMIT 2000")
    connection.close()
    bounds = ReadingBounds(0.01, 1 << 30)
    with bounds.in_force(), reading_tables(path, "messages") as tables, pytest.raises(OutOfBounds) as refused:
        tables.execute("SELECT count(*) FROM messages a, messages b, messages c, messages d").fetchall()
    assert refused.value.problem.cause == "too_slow"


_QUERY = """
import sys
from pathlib import Path
from orihon.importers.lines import reading_tables
with reading_tables(Path(sys.argv[1]), "messages") as tables:
    print("ready", flush=True)
    tables.execute("SELECT count(*) FROM messages a, messages b, messages c, messages d").fetchall()
"""


def test_a_query_ends_at_ctrl_c(tmp_path: Path) -> None:
    """M2: SIGINT was not heeded inside SQLite."""
    path = seed_tree(tmp_path, "CREATE TABLE messages (id, role);")
    connection = apsw.Connection(str(path))
    connection.execute(f"INSERT INTO messages {ENDLESS}, 'user' FROM n LIMIT 2000")
    connection.close()
    command = [sys.executable, "-c", _QUERY, str(path)]
    with started(command) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        assert process.returncode == -signal.SIGINT


# --- bounds


def test_a_document_of_very_many_values(base: Path, folder: Path) -> None:
    """200 MB of empty lists in one line would be 8 GB in memory: a finding, and the others are read."""
    path = folder / "large.json"
    with path.open("wb") as file:
        file.write(b'[{"role":"user","content":"x"},{"role":"assistant","content":"y"}')
        for _ in range(200):
            file.write(b",[]" * 333_333)
        file.write(b"]")
    command = [str(ORIHON), "--base-dir", str(base), "import", "--json", str(folder)]
    with started(command) as process:
        out = process.stdout.read() if process.stdout is not None else b""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    report = json.loads(out)
    assert problems(report) == {("large.json", "too_much")}
    assert is_good_there(report)
    assert used.ru_maxrss < 1_500_000  # kilobytes; the file itself is held


def test_nesting_without_end(base: Path, folder: Path) -> None:
    """A line and a document of brackets alone."""
    (folder / "deep.jsonl").write_bytes(b'{"role":"user","content":' + b"[" * 5_000_000 + b"\n")
    (folder / "deep.json").write_bytes(b'{"messages":' + b'[{"a":' * 2_000_000)
    make_chat_lines(folder / "chat")
    report = brought(base, folder, memory_mb=4096)
    assert {name for name, _ in problems(report)} <= {"deep.jsonl", "deep.json"}
    assert {cause for _, cause in problems(report)} <= {"not_json", "cut", "unrecognised", "too_much"}
    assert problems(report)
    assert is_good_there(report)


def test_the_memory_of_one_file_is_a_setting(base: Path, folder: Path) -> None:
    (folder / "some.json").write_text(json.dumps([{"role": "user", "content": "x"}, *([0] * 1_000_000)]))
    assert problems(brought(base, folder, memory_mb=50)) == {("some.json", "too_much")}


def test_the_time_of_one_file_is_a_setting(tmp_path: Path) -> None:
    """Lines that say nothing are no way around it."""
    path = tmp_path / "blank.jsonl"
    path.write_bytes(b"\n" * (8 << 20))
    bounds = ReadingBounds(0.0, 1 << 30)
    with bounds.in_force(), pytest.raises(OutOfBounds) as refused:
        list(json_lines(path))
    assert refused.value.problem == Problem("too_slow", fields={"seconds": 0})


def test_pipes_and_devices(base: Path, tmp_path: Path, folder: Path) -> None:
    """Nobody waits for a pipe, and nobody reads a device to its end, by name or by link."""
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "zero.jsonl").symlink_to("/dev/urandom")
    (tmp_path / "link.jsonl").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "named.jsonl")
    report = brought(base, folder, tmp_path / "link.jsonl", tmp_path / "named.jsonl", Path("/dev/full"))
    regular = {("pipe.jsonl", "not_regular"), ("link.jsonl", "not_regular"), ("named.jsonl", "not_regular")}
    assert problems(report) == {*regular, ("full", "not_regular"), ("zero.jsonl", "outside")}
    assert is_good_there(report)


# --- Ctrl-C


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment("en"))
    try:
        with process:
            yield process
    finally:
        if process.poll() is None:
            process.kill()


def has_open(pid: int, path: Path) -> bool:
    found = Path(f"/proc/{pid}/fd").iterdir()
    return any(os.path.realpath(one) == str(path) for one in found)


def endless(head: bytes) -> Callable[[Path], None]:
    """A file that begins like this and goes on with a terabyte of nothing, which takes no room on the disk."""

    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, 1 << 40)

    return make


def many_rows(path: Path) -> None:
    """A table with more rows than anybody reads in a while."""
    made = seed_tree(
        path.parent,
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT, timestamp TEXT, metadata TEXT,"
        " token_count INTEGER, is_summarized INTEGER);"
        f"INSERT INTO messages {ENDLESS}, 'user', 'pears', '', '{{}}', 0, 0 FROM n LIMIT 1000000;",
    )
    made.rename(path)


ENDLESS_FILES: dict[str, Callable[[Path], None]] = {
    "chat.jsonl": endless(b'{"role":"user","content":"x"}\n{"role":"assistant","content":"y"}\n'),
    "rollout.jsonl": endless(
        b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a","cwd":"/"}}\n'
    ),
    ".aider.chat.history.md": endless(b"# aider chat started at 2026-01-01 00:00:00\n\n#### hello\n"),
    "export.jsonl": endless(b'{"orihon_export":1,"task":{"uuid":"one"},"contents":{}}\n'),
    "context.db": many_rows,
}


@pytest.mark.parametrize("name", ENDLESS_FILES)
def test_ctrl_c_ends_an_import(base: Path, tmp_path: Path, name: str) -> None:
    """M2: whatever is being read; what came before is there whole, and a task is not left half written and locked."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    path = folder / name
    ENDLESS_FILES[name](path)
    with started([str(ORIHON), "--base-dir", str(base), "import", str(path)]) as process:
        until = time.monotonic() + PATIENCE
        while process.poll() is None and not has_open(process.pid, path):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    make_claude_code(tmp_path / "next")
    assert brought(base, tmp_path / "next")["new_tasks"] == 1


def with_remote(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.com/private/plans.git\n')
    return folder


def test_a_folder_that_a_transcript_names_is_looked_into_only_where_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1's sibling: ``cwd`` may be any path. Only our own folder tells its remote: by no link, and not where we are."""
    ours, linked, others = (with_remote(tmp_path / name) for name in ("ours", "linked", "others"))
    (linked / ".git").rename(tmp_path / "dotgit")
    (linked / ".git").symlink_to(tmp_path / "dotgit")
    monkeypatch.chdir(tmp_path)
    folders = {str(ours): "private/plans", str(linked): "/linked", "ours": "/ours"}
    if os.getuid() == 0:
        os.chown(others / ".git" / "config", 12345, 12345)
        folders[str(others)] = "/others"
    assert {cwd: "/".join(repository_of(Thread("t", cwd=cwd))) for cwd in folders} == folders
