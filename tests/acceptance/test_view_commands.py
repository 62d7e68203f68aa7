"""``orihon view``, ``undo``, ``redo``, ``unfold``, ``edit``, ``pin`` and ``unpin``, by the real executable."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orihon.catalogue.connect import open_catalogue
from orihon.store.factory import open_for_reading
from orihon.values.task import TaskStatus
from orihon.values.view import PlannedFold
from tests.acceptance.test_cli import COLOUR, ORIHON, PATIENCE, Ended, environment, run, run_on_terminal
from tests.damage import BACKENDS, paused_task, settings_for, start_task

COMMANDS = ("view", "undo", "redo", "unfold", "edit", "pin", "unpin")
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def view_bytes(folder: Path, backend: str) -> bytes:
    """What the next request is made of; with ``files`` it stands in a file."""
    with closing(open_for_reading(folder, settings_for(backend))) as store:
        lines = b"".join(line + b"\n" for line in store.view_lines())
    if backend == "files":
        assert (folder / "current.jsonl").read_bytes() == lines
    return lines


def row_of(base: Path, backend: str, uuid: str) -> tuple[TaskStatus, str | None, int | None]:
    with open_catalogue(base, settings_for(backend)) as catalogue:
        row = catalogue.tasks.get(uuid)
        return row.status, row.lease_owner, row.view_tokens


def records(folder: Path, backend: str) -> list[dict[str, object]]:
    with closing(open_for_reading(folder, settings_for(backend))) as store:
        return list(store.read("compressions"))


@contextmanager
def working_agent(base: Path, backend: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A live process that owns a task; for each line it is sent it adds a message and says how long its view is."""
    program = (
        "import sys; from pathlib import Path; from tests.damage import start_task;"
        "task = start_task(Path(sys.argv[1]), sys.argv[2]); print(task.uuid, flush=True)\n"
        "for line in sys.stdin:\n"
        "    task.message_store.add_message('user', line)\n"
        "    print(len(task.message_store.get_messages_for_llm()), flush=True)\n"
        "task.stop()"
    )
    command = [sys.executable, "-c", program, str(base), backend]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        yield agent.stdout.readline().strip(), agent
    finally:
        agent.stdin.close()
        assert agent.wait(PATIENCE) == 0
        agent.stdout.close()


# ---- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_in_both_languages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "UUID" in english.out
    assert "Print JSON." in english.out
    assert "JSON で出力します" in japanese.out


# ---- undo and redo ---------------------------------------------------------------------------------------------------


def test_undo_and_redo_come_back_byte_identical(base: Path, backend: str) -> None:
    task = start_task(base, backend, uuid="abc-1")
    task.message_store.folding.unpin(8)
    task.stop()
    task.catalogue.close()
    folder = task.context_dir
    first = view_bytes(folder, backend)
    undone = run("--base-dir", base, "undo", "abc")
    assert undone.code == 0
    assert undone.out == "Compression 2 is undone: 0 % of the budget, 405 → 413 tokens, 11 entries (compression 7).\n"
    assert run("--base-dir", base, "undo", "abc").code == 0
    plain = view_bytes(folder, backend)
    assert plain.count(b"\n") == 13
    assert b"summary" not in plain
    assert run("--base-dir", base, "redo", "abc").out.startswith("Compression 1 is made again: ")
    japanese = run("--base-dir", base, "redo", "abc", language="ja")
    assert japanese.out == "圧縮 2 をやり直しました: 予算の 0 %、413 → 405 トークン、8 項目（圧縮 10）。\n"
    assert view_bytes(folder, backend) == first
    assert [record["made_by"] for record in records(folder, backend)[6:]] == ["cli"] * 4
    assert run("--base-dir", base, "verify", "abc").code == 0


def test_a_change_leaves_the_task_as_it_was_and_its_figures_right(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    assert run("--base-dir", base, "undo", uuid).code == 0
    assert row_of(base, backend, uuid) == (TaskStatus.PAUSED, None, 413)
    assert folder.is_dir()
    assert run("--base-dir", base, "list").out.split("\t")[4] == "413"
    assert run("--base-dir", base, "doctor").code == 0


def test_a_given_compression_is_undone_and_redone(base: Path, backend: str) -> None:
    task = start_task(base, backend)
    task.message_store.folding.compress([PlannedFold(11, 13, "the last step")])
    task.stop()
    task.catalogue.close()
    undone = json.loads(run("--base-dir", base, "undo", task.uuid, "--compression", 2, "--json").out)
    assert (undone["kind"], undone["parent"], undone["removed"], undone["visible"]) == ("undo", 2, [2, 3], [1, 4])
    assert undone == records(task.context_dir, backend)[-1]
    redone = json.loads(run("--base-dir", base, "redo", task.uuid, "--compression", 2, "--json").out)
    assert (redone["kind"], redone["visible"], redone["made_by"]) == ("redo", [2, 3, 4], "cli")
    wrong = run("--base-dir", base, "undo", task.uuid, "--compression", 77)
    assert wrong == Ended(2, "", "orihon: Compression 77 cannot be undone; possible: 1, 6, 2. Name one of these.\n")


def test_nothing_to_undo(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    for _ in range(2):
        run("--base-dir", base, "undo", uuid)
    before = view_bytes(folder, backend)
    ended = run("--base-dir", base, "undo", uuid)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "orihon: There is nothing to undo. The view shows the log as it is.\n"
    assert "元に戻せるものがありません" in run("--base-dir", base, "undo", uuid, language="ja").err
    assert view_bytes(folder, backend) == before
    assert row_of(base, backend, uuid)[:2] == (TaskStatus.PAUSED, None), "a refusal lets go of the task too"


# ---- unfold, edit, pin ---------------------------------------------------------------------------------------------


def test_unfold_opens_one_fold(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    opened = run("--base-dir", base, "unfold", uuid, 3)
    assert opened.out.startswith("Fold 3 is open: ")
    assert b"output 2" in view_bytes(folder, backend)
    again = run("--base-dir", base, "unfold", uuid, 3)
    assert again == Ended(
        2, "", "orihon: There is no fold 3 in the view; it shows 2. Name a fold that is in the view.\n"
    )


def test_edit_with_a_text_a_file_and_standard_input(base: Path, backend: str, tmp_path: Path) -> None:
    uuid, folder = paused_task(base, backend)
    done = run("--base-dir", base, "edit", uuid, 2, "--text", "手順は二つ終わった")
    assert done.out.startswith("Fold 2 has another text and is now fold 4: ")
    assert "手順は二つ終わった" in view_bytes(folder, backend).decode()
    file = tmp_path / "text.md"
    file.write_text("from a file\n\n", encoding="utf-8")
    made = json.loads(run("--base-dir", base, "edit", uuid, 4, "--file", file, "--json").out)
    assert (made["kind"], made["removed"], made["folds"], made["made_by"]) == ("edit", [4], [5], "cli")
    assert b'summary]\\nfrom a file\\n"' in view_bytes(folder, backend)
    command = [str(ORIHON), "--base-dir", str(base), "edit", uuid, "5", "--file", "-"]
    piped = subprocess.run(
        command, input=b"from a pipe\n", capture_output=True, env=environment("ja"), check=True, timeout=PATIENCE
    )
    assert "折り 5 の文章を書き換え、折り 6 としました" in piped.stdout.decode()
    assert b'summary]\\nfrom a pipe"' in view_bytes(folder, backend)


def test_edit_with_an_editor(base: Path, backend: str, tmp_path: Path) -> None:
    uuid, folder = paused_task(base, backend)
    editor, mode = tmp_path / "my editor", tmp_path / "mode"
    editor.write_text(f'#!/bin/sh\nstat -c %a "$(dirname "$2")" > \'{mode}\'\nsed -i "s/two/$1/" "$2"\n')
    editor.chmod(0o700)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    same = run("--base-dir", base, "edit", uuid, 2, VISUAL="", EDITOR=f"'{editor}' two", TMPDIR=str(scratch))
    assert same == Ended(0, "The text of fold 2 is the same as before: nothing was done.\n")
    assert len(records(folder, backend)) == 5
    done = run("--base-dir", base, "edit", uuid, 2, VISUAL=f"'{editor}' three", EDITOR="false", TMPDIR=str(scratch))
    assert done.out.startswith("Fold 2 has another text and is now fold 4: ")
    assert b"three steps were done" in view_bytes(folder, backend)
    assert mode.read_text() == "700\n", "nobody else can read what is edited"
    assert list(scratch.iterdir()) == []


def test_what_may_be_sealed_is_not_edited_on_a_disk(base: Path, tmp_path: Path) -> None:
    uuid, _ = paused_task(base, "files")
    where, editor, key = tmp_path / "where", tmp_path / "editor", tmp_path / "master"
    editor.write_text(f"#!/bin/sh\necho \"$1\" > '{where}'\n")
    editor.chmod(0o700)
    key.write_text("a" * 64)
    key.chmod(0o600)
    config = tmp_path / "config.yaml"
    config.write_text(f"encryption:\n  key: 'file:{key}'\n")
    arguments = ("--config", config, "--base-dir", base, "edit", uuid, 2)
    ended = run(*arguments, VISUAL=str(editor), TMPDIR=str(tmp_path / "on a disk"))
    assert ended.code == 0, ended.err
    assert where.read_text().startswith("/dev/shm/orihon-")


def test_what_was_written_in_an_editor_is_not_lost(base: Path, tmp_path: Path) -> None:
    uuid, _ = paused_task(base, "files")
    editor, scratch = tmp_path / "editor", tmp_path / "scratch"
    scratch.mkdir()
    # While the person writes, somebody else opens the fold.
    editor.write_text(f"#!/bin/sh\necho precious > \"$1\"\n'{ORIHON}' --base-dir '{base}' unfold {uuid} 2 >&2\n")
    editor.chmod(0o700)
    ended = run("--base-dir", base, "edit", uuid, 2, VISUAL=str(editor), TMPDIR=str(scratch))
    assert ended.code == 2
    [kept] = scratch.glob("*/fold.md")
    assert kept.read_text() == "precious\n"
    said = [line for line in ended.err.splitlines() if not line.startswith("Fold 2 is open")]
    assert said[0] == f"Your text is kept in {kept}."
    assert "There is no fold 2 in the view; it shows 1, 3." in ended.err


@pytest.mark.parametrize(
    ("arguments", "editor", "words"),
    [
        (["--text", "a", "--file", "b"], "", "--text and --file both give a text."),
        (["--text", " \n"], "", "has no text."),
        (["--file", "nowhere"], "", "nowhere is not a text that can be read (No such file or directory)."),
        (["--file", "/bin/sh"], "", "/bin/sh is not a text that can be read"),
        ([], "", "neither $VISUAL nor $EDITOR is set"),
        ([], "false", "The editor false failed (1)."),
        ([], "no-such-editor", "The editor no-such-editor failed"),
        ([], "'", "The editor ' failed"),
    ],
)
def test_an_edit_that_cannot_be(base: Path, arguments: list[str], editor: str, words: str) -> None:
    uuid, folder = paused_task(base, "files")
    for language in ("en", "ja"):
        ended = run("--base-dir", base, "edit", uuid, 2, *arguments, language=language, VISUAL="", EDITOR=editor)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert language == "ja" or words in ended.err
    assert len(records(folder, "files")) == 5


def test_pin_and_unpin(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    assert run("--base-dir", base, "pin", uuid, 6).out.startswith("Message 6 is pinned: ")
    assert b"two steps were done" not in view_bytes(folder, backend), "the fold that hid it is open"
    line = json.loads(run("--base-dir", base, "pin", uuid, 11, "--line", "次の手順", "--json").out)
    assert line["pins"] == [{"seq": 6}, {"seq": 8}, {"seq": 11, "line": "次の手順"}]
    listed = run("--base-dir", base, "view", uuid).out
    assert "8\tuser\t3\tpinned\tStep 2" in listed
    assert "11\tuser\t3\tpinned line\tStep 3" in listed
    assert run("--base-dir", base, "unpin", uuid, 11, "--line", "次の手順", language="ja").out.startswith(
        "メッセージ 11 の固定を外しました: "
    )
    wrong = run("--base-dir", base, "unpin", uuid, 11)
    assert (wrong.code, "Message 11 is not pinned like that." in wrong.err) == (2, True)
    missing = run("--base-dir", base, "pin", uuid, 11, "--line", "not there")
    assert (missing.code, "Message 11 has no such line." in missing.err) == (2, True)
    assert run("--base-dir", base, "verify", uuid).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["undo", "UUID", "--compression", "0"], "--compression"),
        (["redo", "UUID", "--compression", "two"], "--compression"),
        (["redo", "UUID"], "There is nothing to redo."),
        (["unfold", "UUID", "x"], "FOLD"),
        (["unfold", "UUID", "9" * 30], "FOLD"),
        (["unfold", "UUID", "99"], "There is no fold 99 in the view; it shows 2, 3."),
        (["unfold", "UUID"], "FOLD is missing."),
        (["pin", "UUID", "14"], "There is no message 14: the log has 1 to 13."),
        (["pin", "UUID", "-1"], "There is no option -1."),
        (["view", "UUID", "--fold", "4"], "There is no fold 4 in the view"),
        (["view", "UUID", "--original"], "--original needs --fold."),
        (["view", "UUID", "--folds", "--fold", "1"], "--folds and --fold cannot be used together."),
        (["view", "nobody"], "There is no task nobody."),
        (["undo", "nobody"], "There is no task nobody."),
        (["undo", "../x"], "cannot be used as an id."),
    ],
)
def test_a_mistake_is_one_clear_line_and_code_2(base: Path, arguments: list[str], words: str) -> None:
    uuid, folder = paused_task(base, "files")
    given = [uuid if argument == "UUID" else argument for argument in arguments]
    ended = run("--base-dir", base, *given)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert words in ended.err
    assert run("--base-dir", base, *given, language="ja").code == 2
    assert len(records(folder, "files")) == 5


# ---- whose task it is ------------------------------------------------------------------------------------------------


def test_a_task_that_a_live_process_owns(base: Path, backend: str) -> None:
    with working_agent(base, backend) as (uuid, agent):
        assert agent.stdin is not None
        assert agent.stdout is not None
        ended = run("--base-dir", base, "undo", uuid)
        edited = run("--base-dir", base, "edit", uuid, 1, VISUAL="false")
        if backend == "files":
            assert (ended.code, ended.out) == (2, "")
            assert f"(process {agent.pid} on " in ended.err
            assert "Pause it there and try again, or make the change in that program." in ended.err
            assert f"(process {agent.pid} on " in edited.err, "before anybody writes a text"
            assert "作業中です" in run("--base-dir", base, "unfold", uuid, 2, language="ja").err
        else:
            assert ended.out.startswith("Compression 2 is undone: ")
            assert "The editor false failed" in edited.err
        agent.stdin.write("still here\n")
        agent.stdin.flush()
        assert agent.stdout.readline().strip() == ("9" if backend == "files" else "12"), "its owner goes on"
        assert run("--base-dir", base, "view", uuid).code == 0, "looking is always possible"
    assert row_of(base, backend, uuid)[:2] == (TaskStatus.PAUSED, None)
    assert run("--base-dir", base, "verify", uuid).code == 0


def test_a_finished_task_can_be_looked_at_and_not_changed(base: Path, backend: str) -> None:
    task = start_task(base, backend)
    task.complete()
    task.catalogue.close()
    before = view_bytes(task.context_dir, backend)
    for arguments in (["undo"], ["unfold", 2], ["edit", 2, "--text", "new"], ["unpin", 8]):
        command, *rest = arguments
        ended = run("--base-dir", base, command, task.uuid, *rest)
        assert (ended.code, ended.out) == (2, "")
        assert f"The task {task.uuid} is completed: only the view of a running, paused or waiting task" in ended.err
    assert "completed です" in run("--base-dir", base, "undo", task.uuid, language="ja").err
    assert run("--base-dir", base, "view", task.uuid, "--fold", 2, "--original").code == 0
    assert view_bytes(task.context_dir, backend) == before
    assert row_of(base, backend, task.uuid)[:2] == (TaskStatus.COMPLETED, None)


# ---- view ----------------------------------------------------------------------------------------------------------


def test_view_for_programs(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    seen = json.loads(run("--base-dir", base, "view", uuid[:6], "--json").out)
    assert {name: seen[name] for name in ("task", "status", "entries", "tokens", "budget", "usage")} == {
        "task": uuid,
        "status": "paused",
        "entries": 8,
        "tokens": 405,
        "budget": 123904,
        "usage": 0.0033,
    }
    assert [entry["message"] for entry in seen["view"]] == [
        json.loads(line) for line in view_bytes(folder, backend).splitlines()
    ]
    assert sum(entry["tokens"] for entry in seen["view"]) == 405
    places = [(entry["start_seq"], entry["end_seq"]) for entry in seen["view"]]
    assert places == [(1, 1), (2, 7), *((seq, seq) for seq in range(8, 14))]
    assert seen["view"][1]["fold"] == {
        "id": 2,
        "form": "summary",
        "messages": 6,
        "original_tokens": 20,
        "reason": "",
        "made_by": "",
        "compression": 2,
        "strategy": "manual",
        "level": "",
    }
    assert seen["view"][2]["pins"] == [{"seq": 8}]


def test_view_in_lines(base: Path, backend: str) -> None:
    uuid, _ = paused_task(base, backend)
    lines = run("--base-dir", base, "view", uuid).out.splitlines()
    assert lines[0] == f"{uuid} (github:owner/repo#27, paused): 8 entries, 405 tokens, 0 % of 123,904"
    assert lines[1] == "1\tsystem\t6\t\tYou are a careful agent."
    assert lines[2] == "2-7\tsystem\t12\t\t[fold 2, messages: 6, tokens: 20 → 12, manual] two steps were done"
    assert lines[4] == "9\tassistant\t2\t\t→ read_file {}"
    assert lines[5] == "10\ttool\t2\t\t[fold 3, shortened, tokens: 2 → 2, manual] output …"
    assert lines[8].startswith("13\ttool\t375\t\tdata data")
    assert lines[8].endswith("data …")
    assert len(lines[8]) < 400
    japanese = run("--base-dir", base, "view", uuid, language="ja").out
    assert "8 項目、405 トークン、123,904 の 0 %" in japanese
    assert "[折り 2、メッセージ: 6 件、トークン: 20 → 12, manual]" in japanese
    full = run("--base-dir", base, "view", uuid, "--full").out
    assert "\n    " + ("data " * 300).rstrip() in full


def test_view_of_the_compressions_and_of_one_fold(base: Path, backend: str) -> None:
    uuid, _ = paused_task(base, backend)
    run("--base-dir", base, "undo", uuid)
    rows = [line.split("\t") for line in run("--base-dir", base, "view", uuid, "--folds").out.splitlines()]
    assert [(row[0], row[1], row[3], row[4], row[5], row[7]) for row in rows] == [
        ("1", "compress", "1", "407 → 413", "-", "-"),
        ("2", "compress", "2, 3", "413 → 405", "-", "undone"),
        ("3", "undo 2", "1", "405 → 413", "-", "-"),
        ("4", "redo 2", "2, 3", "413 → 405", "-", "-"),
        ("5", "pin", "-", "405 → 405", "-", "-"),
        ("6", "undo 2", "1", "405 → 413", "cli", "-"),
    ]
    listed = json.loads(run("--base-dir", base, "view", uuid, "--folds", "--json").out)["compressions"]
    assert [record["undone"] for record in listed] == [False, True, False, False, False, False]
    one = run("--base-dir", base, "view", uuid, "--fold", 2, "--original").out.splitlines()
    assert one[0].endswith("(messages 2 to 7) (no longer in the view)")
    assert one[1] == "    two steps were done"
    assert [line.split("\t")[0] for line in one[2::2]] == ["2", "3", "4", "5", "6", "7"]
    assert one[3] == "    Step 0: 次の手順です"
    fold = json.loads(run("--base-dir", base, "view", uuid, "--fold", 1, "--original", "--json").out)
    assert (fold["summary"], fold["visible"], fold["compression"]) == ("the first step was done", True, 1)
    assert [original["seq"] for original in fold["originals"]] == [2, 3, 4]
    assert "originals" not in json.loads(run("--base-dir", base, "view", uuid, "--fold", 1, "--json").out)


def test_a_task_cannot_write_to_the_terminal(base: Path, backend: str) -> None:
    task = start_task(base, backend)
    task.message_store.add_message("user", "\n\n\x1b[2J\x1b[31mred\u202eturned\nsecond\tline\r[bold]x[/bold]")
    task.message_store.create_summary(11, 13, "a fold\x07 \x1b]0;title\x07")
    task.stop()
    task.catalogue.close()
    for arguments in ([], ["--full"], ["--fold", 4], ["--fold", 4, "--original"]):
        for language in ("en", "ja"):
            shown = run("--base-dir", base, "view", task.uuid, *arguments, language=language).out
            assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown)
    plain = run("--base-dir", base, "view", task.uuid).out.splitlines()
    assert plain[-1].split("\t")[-1] == r"\x1b[2J\x1b[31mred\u202eturned …"
    assert plain[-2].endswith(r"a fold\x07 \x1b]0;title\x07")
    on_terminal = run_on_terminal("--base-dir", base, "view", task.uuid, "--full", NO_COLOR="1").out
    assert "[bold]x[/bold]" in on_terminal
    assert "\x1b[2J" not in on_terminal


def test_view_on_a_terminal(base: Path) -> None:
    uuid, _ = paused_task(base, "files")
    coloured = run_on_terminal("--base-dir", base, "view", uuid)
    assert coloured.code == 0
    assert COLOUR.search(coloured.out)
    plain = run_on_terminal("--base-dir", base, "view", uuid, NO_COLOR="1").out
    assert not COLOUR.search(plain)
    assert "pinned Step 2" in coloured.out.replace("\x1b[1;31m", "").replace("\x1b[0m", "")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", plain).splitlines()
    assert len(lines) == 9
    assert all(len(line) <= 100 for line in lines[1:]), "one line for each entry, however long it is"
    assert run_on_terminal("--base-dir", base, "view", uuid, "--folds").code == 0


def test_view_writes_nothing_to_a_task_and_needs_no_catalogue(base: Path) -> None:
    uuid, folder = paused_task(base, "files")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    seen = run("--base-dir", base, "view", uuid)
    assert seen.code == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    for path in base.glob("tasks.db*"):
        path.unlink()
    assert run("--base-dir", base, "view", uuid).out == seen.out, "a lost catalogue is made anew"
    for path in base.glob("tasks.db*"):
        path.unlink()
    (base / "tasks.db").write_bytes(b"rubbish" * 1000)
    assert run("--base-dir", base, "view", uuid).out.startswith(f"{uuid} (-, -): 8 entries")


def test_a_task_without_a_folder(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    shutil.rmtree(folder)
    ended = run("--base-dir", base, "view", uuid)
    assert (ended.code, f"The task {uuid} (paused) has no folder" in ended.err) == (2, True)
    ended = run("--base-dir", base, "undo", uuid)
    assert (ended.code, "13 were acknowledged" in ended.err) == (2, True)


def test_a_reader_that_goes_away_early_is_no_error(base: Path) -> None:
    task = start_task(base, "files")
    for number in range(3000):
        task.message_store.add_message("user", f"message {number} " + "x" * 200)
    task.stop()
    task.catalogue.close()
    command = [str(ORIHON), "--base-dir", str(base), "view", task.uuid]
    viewing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment("en"))
    assert viewing.stdout is not None
    assert viewing.stderr is not None
    viewing.stdout.readline()
    viewing.stdout.close()
    assert viewing.stderr.read() == b""
    viewing.stderr.close()
    viewing.wait(PATIENCE)
