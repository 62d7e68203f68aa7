"""The tool box and the built-in tools: names, arguments, output, files, commands, the past."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon import MessageStore
from orihon.errors import InvalidSettings, ToolFailed
from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool
from orihon.runtime.mcp.config import Approvals, definition_digest, read_mcp_servers
from orihon.runtime.shell_tool import HeadAndTail
from orihon.runtime.tool import (
    Arguments,
    ServerAnswer,
    ToolResult,
    cut_in_the_middle,
    excerpt,
    public_name,
    sanitize_arguments,
    split_name,
)
from orihon.runtime.tools import ToolBox, ToolOptions
from tests.helpers import refused


def said(result: ToolResult) -> str:
    assert not result.is_error, result.text
    return result.text


def failed(result: ToolResult) -> str:
    assert result.is_error, result.text
    return result.text


# ---- names -----------------------------------------------------------------------------------------------------------


def test_a_name_is_split_at_the_longest_server_name() -> None:
    servers = ["git", "git_hub", "a"]
    assert split_name("git_hub_list_issues", servers) == ("git_hub", "list_issues")
    assert split_name("git_log", servers) == ("git", "log")
    assert split_name("svn_log", servers) is None
    assert split_name("git_", servers) is None


def test_a_tool_that_reads_like_another_servers_gets_a_name_of_its_own() -> None:
    servers = ["git", "git_hub"]
    names = {public_name("git", "hub_list", servers), public_name("git_hub", "list", servers)}
    assert len(names) == 2
    assert "git_hub_list" in names


@given(st.text(min_size=1, max_size=100), st.text(min_size=1, max_size=100))
def test_public_names_are_what_providers_take_and_distinct(one: str, other: str) -> None:
    names = [public_name("server", tool, ["server"]) for tool in (one, other)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert (names[0] == names[1]) == (one == other)


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_arguments", "wanted"),
    [
        (None, {}),
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ('{"a": {"b": [1, null, "x"]}}', {"a": {"b": [1, None, "x"]}}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": "\\ud800!"}', {"a": "\ufffd!"}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_arguments_as_models_write_them(given_arguments: Any, wanted: dict[str, Any]) -> None:
    assert sanitize_arguments(given_arguments) == wanted


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{", "arguments_not_json"),
        ("{'a': 1}", "arguments_not_json"),
        ('{"a": 1} trailing', "arguments_not_json"),
        ("[1]", "arguments_not_object"),
        ("7", "arguments_not_object"),
        ('"text"', "arguments_not_json"),
        ('{"a": NaN}', "arguments_constant"),
        ('{"a": 1e999}', "arguments_number"),
        ('{"a": [-1e999]}', "arguments_number"),
        ('{"a": ' + "9" * 5000 + "}", "arguments_number"),
        ('{"a": ' + "9" * 4000 + "}", "arguments_number"),
        ({"a": float("nan")}, "arguments_number"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "arguments_too_deep"),
        ({"a": object()}, "arguments_not_plain"),
    ],
)
def test_other_arguments_are_refused(arguments: Any, reason: str) -> None:
    with refused(ToolFailed, reason):
        sanitize_arguments(arguments)


def test_the_error_says_where_the_json_goes_wrong() -> None:
    with refused(ToolFailed, "arguments_not_json") as caught:
        sanitize_arguments('{"path": "a",\n "lines": 1-2}')
    assert "line 2, column 12" in str(caught.value)


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=20)


@given(st.dictionaries(st.text(max_size=10), st.recursive(PLAIN, st.lists, max_leaves=5), max_size=5))
def test_plain_arguments_come_back_as_they_were(arguments: dict[str, Any]) -> None:
    assert sanitize_arguments(json.dumps(arguments)) == arguments


def test_single_arguments_are_taken_as_models_write_them() -> None:
    given = Arguments({"a": "3", "b": 4.0, "c": True, "d": 2.5, "e": 99, "f": "yes", "g": None}, "abcdefg")
    assert given.number("a") == 3
    assert given.number("b") == 4
    assert given.number("g", 7) == 7
    assert given.flag("c")
    for name, reason in [("c", "argument_type"), ("d", "argument_type"), ("e", "argument_range")]:
        with refused(ToolFailed, reason):
            given.number(name, most=50)
    with refused(ToolFailed, "argument_type"):
        given.flag("f")
    with refused(ToolFailed, "argument_missing"):
        given.text("g")


# ---- output ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), min_size=1), st.integers(600, 3000))
def test_a_cut_text_is_within_its_limit(lines: Sequence[str], limit: int) -> None:
    content = "\n".join(lines) * 20
    cut = cut_in_the_middle(content, limit, lambda missing: f"[{missing} missing]")
    assert len(cut.encode()) <= limit
    assert "missing]" in cut


def test_a_text_is_cut_at_line_ends_and_counts_what_is_missing() -> None:
    lines = [f"line {number:04d}" for number in range(1000)]
    shown = cut_in_the_middle("\n".join(lines), 2000, lambda missing: f"[{missing}]").split("\n")
    at = next(place for place, line in enumerate(shown) if line.startswith("["))
    assert shown[:at] == lines[:at]
    after = len(shown) - at - 1
    assert shown[at + 1 :] == lines[-after:]
    assert shown[at] == f"[{1000 - at - after}]"


def test_a_single_long_line_is_cut_too() -> None:
    cut = cut_in_the_middle("あ" * 5000, 1100, lambda missing: f"[{missing}]")
    assert cut.startswith("あ")
    assert cut.endswith("あ")
    assert len(cut.encode()) <= 1100


def test_an_excerpt_says_how_to_go_on() -> None:
    lines = [f"line {number}" for number in range(1, 1001)]
    found = excerpt(lines, 10, 20, 4096)
    assert found.told() == "\n".join(lines[9:20])
    cut = excerpt(lines, 10, None, 1024)
    last = 9 + len(cut.lines)
    assert cut.told().endswith(f'[lines 10–{last}; go on with lines "{last + 1}-"]')
    assert excerpt(["x" * 5000], 1, None, 1024).lines == ("x" * 512,)


# ---- the tool box ----------------------------------------------------------------------------------------------------


def answering(run: Any, name: str = "act", server: str = "own") -> ToolBox:
    tool = BuiltinTool(name, "Acts.", {"value": {"type": "string"}}, run, repeatable=False)
    return ToolBox([BuiltinServer(server, [tool])], ToolOptions(max_output_bytes=2048))


def test_schemas_have_the_shape_of_openai() -> None:
    box = answering(lambda arguments, deadline: ServerAnswer("done"))
    assert box.schemas() == [
        {
            "type": "function",
            "function": {
                "name": "own_act",
                "description": "Acts.",
                "parameters": {
                    "type": "object",
                    "properties": {"value": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
        }
    ]
    assert not box.is_repeatable("own_act")
    assert box.changed() == {}
    assert box.approve("own") == []


def test_a_tool_that_breaks_is_an_answer_and_no_log_quotes_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "orihon")

    def breaking(arguments: Any, deadline: Any) -> ServerAnswer:
        raise ZeroDivisionError("by nothing")

    assert "ZeroDivisionError: by nothing" in failed(answering(breaking).call("own_act", {}))
    assert "tool own_act broke: ZeroDivisionError" in caplog.text
    assert "tool own_act failed: broken" in caplog.text
    assert "by nothing" not in caplog.text


def test_wrong_names_and_arguments_are_answers() -> None:
    box = answering(lambda arguments, deadline: ServerAnswer(arguments.text("value")))
    assert "nearest are: own_act" in failed(box.call("own_akt", {}))
    assert "nearest are: own_act" in failed(box.call("別物", {}))
    assert "no argument other" in failed(box.call("own_act", {"other": 1}))
    assert "argument value is missing" in failed(box.call("own_act", {"value": None}))
    assert "has to be a string" in failed(box.call("own_act", {"value": [1]}))
    assert "shut down" in failed(closed(box).call("own_act", {"value": "x"}))


def closed(box: ToolBox) -> ToolBox:
    box.close()
    return box


def test_without_a_task_long_output_is_only_cut() -> None:
    result = answering(lambda arguments, deadline: ServerAnswer("x\n" * 5000)).call("own_act", {})
    assert result.truncated
    assert len(result.text.encode()) <= 2048
    assert "lines left out; ask for less" in result.text


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with refused(InvalidSettings, "tool_output"):
        ToolBox([], ToolOptions(max_output_bytes=10))
    with refused(InvalidSettings, "no_workspace"):
        ToolBox.from_config({}, ToolOptions(workspace=tmp_path / "missing"))
    with refused(InvalidSettings, "shell_without_workspace"):
        ToolBox.from_config({}, ToolOptions(shell=True))


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("import os\nprint('hello')\n")
    (folder / "notes.md").write_text("# Notes\nこんにちは\nHello again\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("hello")
    (tmp_path / "secret.txt").write_text("hello from outside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "way_out").symlink_to(tmp_path)
    (folder / "inner.txt").symlink_to("notes.md")
    return folder


@pytest.fixture
def files(workspace: Path) -> ToolBox:
    return ToolBox.from_config({}, ToolOptions(workspace=workspace, max_output_bytes=2048))


def test_files_are_read_whole_or_in_part(files: ToolBox, workspace: Path) -> None:
    assert said(files.call("workspace_read_file", {"path": "src/main.py"})) == "import os\nprint('hello')"
    assert (
        said(files.call("workspace_read_file", {"path": "./src/../notes.md", "lines": "2-3"}))
        == "こんにちは\nHello again"
    )
    assert said(files.call("workspace_read_file", {"path": "notes.md", "lines": 1})) == "# Notes"
    assert said(files.call("workspace_read_file", {"path": "inner.txt", "lines": "3-"})) == "Hello again"
    (workspace / "empty").touch()
    assert said(files.call("workspace_read_file", {"path": "empty"})) == ""
    (workspace / "long").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    result = files.call("workspace_read_file", {"path": "long"})
    assert result.truncated
    following = re.search(r'lines "(\d+)-"', said(result))
    assert following is not None
    assert said(files.call("workspace_read_file", {"path": "long", "lines": f"{following[1]}-"})).startswith(
        f"line {following[1]}\n"
    )


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("../secret.txt", "outside the workspace"),
        ("/etc/passwd", "outside the workspace"),
        ("link.txt", "outside the workspace"),
        ("way_out/secret.txt", "outside the workspace"),
        ("src/../../secret.txt", "outside the workspace"),
        ("a\0b", "outside the workspace"),
        ("missing.txt", "There is no missing.txt"),
        ("src", "is a folder"),
        (".", "is a folder"),
        ("notes.md/x", "notes.md/x"),
        ("x" * 5000, "too long"),
    ],
)
def test_paths_that_are_refused(files: ToolBox, path: str, cause: str) -> None:
    assert cause in failed(files.call("workspace_read_file", {"path": path}))


def test_what_is_no_text_file_is_refused(files: ToolBox, workspace: Path) -> None:
    (workspace / "program").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(workspace / "pipe")
    assert "not a text file" in failed(files.call("workspace_read_file", {"path": "program"}))
    assert "not a regular file" in failed(files.call("workspace_read_file", {"path": "pipe"}))
    assert "not a regular file" in failed(files.call("workspace_write_file", {"path": "pipe", "content": ""}))
    assert "no line 9" in failed(files.call("workspace_read_file", {"path": "notes.md", "lines": "9-"}))
    assert "cannot be '3-1'" in failed(files.call("workspace_read_file", {"path": "notes.md", "lines": "3-1"}))
    with (workspace / "huge").open("wb") as file:
        file.truncate(17 << 20)
    assert "at most 16,777,216" in failed(files.call("workspace_read_file", {"path": "huge"}))


def test_files_are_written_whole_and_keep_their_mode(files: ToolBox, workspace: Path) -> None:
    (workspace / "notes.md").chmod(0o640)
    before = os.umask(0o027)
    try:
        assert "in place of" in said(files.call("workspace_write_file", {"path": "notes.md", "content": "新しい\n"}))
        assert "a new file" in said(files.call("workspace_write_file", {"path": "new/deep/f.txt", "content": "x"}))
    finally:
        os.umask(before)
    assert (workspace / "notes.md").read_text() == "新しい\n"
    assert stat.S_IMODE((workspace / "notes.md").stat().st_mode) == 0o640
    assert stat.S_IMODE((workspace / "new/deep/f.txt").stat().st_mode) == 0o640
    assert sorted(path.name for path in (workspace / "new" / "deep").iterdir()) == ["f.txt"]


@pytest.mark.parametrize("path", ["../secret.txt", "link.txt", "way_out/new.txt", "/tmp/orihon-escape", "src", ""])
def test_nothing_is_written_outside(files: ToolBox, workspace: Path, path: str) -> None:
    failed(files.call("workspace_write_file", {"path": path, "content": "overwritten"}))
    assert (workspace.parent / "secret.txt").read_text() == "hello from outside"
    assert sorted(path.name for path in workspace.parent.iterdir()) == ["secret.txt", "workspace"]


@pytest.mark.parametrize("path", ["contexts/mask.key", "src/../contexts/mask.key", "short/mask.key", "contexts/new"])
def test_the_base_folder_in_a_workspace_is_not_touched(workspace: Path, path: str) -> None:
    base = workspace / "contexts"
    base.mkdir()
    (base / "mask.key").write_text("hello, I am secret")
    (workspace / "short").symlink_to(base)
    with ToolBox.from_config({}, ToolOptions(workspace=workspace), base_dir=base) as box:
        assert "Orihon's own" in failed(box.call("workspace_read_file", {"path": path}))
        assert "Orihon's own" in failed(box.call("workspace_write_file", {"path": path, "content": "gone"}))
        assert "Orihon's own" in failed(box.call("workspace_list_files", {"path": "contexts"}))
        assert "mask.key" not in said(box.call("workspace_list_files", {}))
        assert "secret" not in said(box.call("workspace_search", {"query": "hello"}))
    assert [file.read_text() for file in base.iterdir()] == ["hello, I am secret"]


@pytest.mark.parametrize("below", [".", "base/.."])
def test_a_workspace_in_the_base_folder_is_refused(workspace: Path, below: str) -> None:
    with refused(InvalidSettings, "workspace_in_base"):
        ToolBox.from_config({}, ToolOptions(workspace=workspace / "src"), base_dir=workspace / below)


def test_a_link_put_in_the_way_is_not_followed(files: ToolBox, workspace: Path) -> None:
    """One thread swaps a folder for a link to the outside while another reads and writes through it."""
    stop = threading.Event()
    (workspace.parent / "real").mkdir()
    (workspace.parent / "real" / "main.py").write_text("outside")

    def swap() -> None:
        for number in itertools.count():
            (workspace / "src").rename(workspace / f"old{number}")
            with suppress(FileExistsError):  # the writer may have made the folder again
                (workspace / "src").symlink_to(workspace.parent / "real")
                (workspace / "src").unlink()
            (workspace / "src").mkdir(exist_ok=True)
            (workspace / "src" / "main.py").write_text("inside")
            if stop.is_set():
                return

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(300):
            assert files.call("workspace_read_file", {"path": "src/main.py"}).text != "outside"
            files.call("workspace_write_file", {"path": f"src/new{number}", "content": "x"})
    finally:
        stop.set()
        swapping.join()
    assert [path.name for path in (workspace.parent / "real").iterdir()] == ["main.py"]


def test_files_are_listed_and_searched(files: ToolBox) -> None:
    assert said(files.call("workspace_list_files", {})).split("\n") == ["notes.md\t36", "src/main.py\t25"]
    assert said(files.call("workspace_list_files", {"pattern": "*.py"})) == "src/main.py\t25"
    assert said(files.call("workspace_list_files", {"path": "src"})) == "src/main.py\t25"
    assert "more than 1;" in said(files.call("workspace_list_files", {"limit": 1}))
    assert said(files.call("workspace_search", {"query": "hello"})) == "src/main.py:2: print('hello')"
    both = said(files.call("workspace_search", {"query": "HELLO", "ignore_case": "true"})).split("\n")
    assert both == ["notes.md:3: Hello again", "src/main.py:2: print('hello')"]
    assert said(files.call("workspace_search", {"query": "こんに", "path": "notes.md"})) == "notes.md:2: こんにちは"
    assert said(files.call("workspace_search", {"query": "nowhere"})) == "Nothing found."
    assert "There is no nowhere" in failed(files.call("workspace_list_files", {"path": "nowhere"}))
    assert "outside" in failed(files.call("workspace_search", {"query": "x", "path": ".."}))


def test_a_search_has_its_time_out(workspace: Path) -> None:
    box = ToolBox.from_config({}, ToolOptions(workspace=workspace, timeout=0.0))
    assert "was ended after 0 seconds" in failed(box.call("workspace_search", {"query": "x"}))


# ---- commands --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(workspace: Path) -> Iterator[ToolBox]:
    with ToolBox.from_config({}, ToolOptions(workspace=workspace, shell=True, timeout=300)) as box:
        yield box


def test_there_is_no_shell_unless_it_is_switched_on(files: ToolBox, shell: ToolBox) -> None:
    assert "shell_run" not in files.tools()
    assert not shell.is_repeatable("shell_run")


def test_tools_that_change_something_keep_their_order(shell: ToolBox) -> None:
    assert {name for name in shell.tools() if shell.is_ordered(name)} == {"shell_run", "workspace_write_file"}
    assert not shell.is_ordered("nobody_knows")


def test_a_command_runs_in_the_workspace(shell: ToolBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    answer = said(shell.call("shell_run", {"command": "cat src/main.py; echo $OPENAI_API_KEY; echo oops >&2; exit 3"}))
    assert answer == "import os\nprint('hello')\n\noops\n[exit status 3]"
    assert said(shell.call("shell_run", {"command": "true"})) == "[exit status 0]"
    assert "command is missing" in failed(shell.call("shell_run", {"command": " "}))


def test_a_command_is_ended_with_all_it_started(shell: ToolBox, workspace: Path) -> None:
    command = "trap '' TERM; (trap '' TERM; sleep 600 & echo $! > child; wait) & echo begun; wait"
    for seconds in (1, 5, 25, 125):  # it may be over before a busy machine has come to the command
        answer = failed(shell.call("shell_run", {"command": command, "timeout": seconds}))
        if answer.startswith("begun") and (workspace / "child").exists() and (workspace / "child").read_text():
            break
    assert answer == f"begun\n[ended after {seconds} seconds, with everything it had started]"
    assert_dead(int((workspace / "child").read_text()))


def test_what_a_command_leaves_behind_is_ended_too(shell: ToolBox, workspace: Path) -> None:
    assert said(shell.call("shell_run", {"command": "sleep 600 & echo $! > child"})) == "[exit status 0]"
    assert_dead(int((workspace / "child").read_text()))


def assert_dead(pid: int) -> None:
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}/exe").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_leaves_the_group_is_ended_too(shell: ToolBox, workspace: Path) -> None:
    script = "import os, time; os.setsid(); os.fork(); open(str(os.getpid()) + '.pid', 'w'); time.sleep(300)"
    away = (
        f'("{sys.executable}" -S -c "{script}" &) ; until [ $(ls *.pid 2>/dev/null | wc -l) = 2 ]; do sleep 0.05; done'
    )
    assert said(shell.call("shell_run", {"command": away})) == "[exit status 0]"
    found = [int(path.stem) for path in workspace.glob("*.pid")]
    assert len(found) == 2
    for pid in found:
        assert_dead(pid)


def test_a_command_does_not_outlive_its_worker(workspace: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from orihon.runtime.tools import ToolBox, ToolOptions\n"
        "box = ToolBox.from_config({}, ToolOptions(workspace=Path(sys.argv[1]), shell=True))\n"
        "box.call('shell_run', {'command': 'echo $$ > running; echo go >> running; sleep 300; touch too_late'})"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(workspace)])
    running = workspace / "running"
    while not running.exists() or running.read_text().count("\n") < 2:
        assert worker.poll() is None
        time.sleep(0.02)
    worker.kill()
    worker.wait()
    assert_dead(int(running.read_text().split()[0]))


def test_a_signal_that_ends_a_command_is_told(shell: ToolBox) -> None:
    assert said(shell.call("shell_run", {"command": "kill -KILL $$"})) == "[exit status 137]"


def test_closing_ends_a_command(shell: ToolBox, workspace: Path) -> None:
    results: list[ToolResult] = []
    call = threading.Thread(
        target=lambda: results.append(shell.call("shell_run", {"command": "echo $$ > pid; sleep 600"}))
    )
    call.start()
    until = time.monotonic() + 60
    while not (workspace / "pid").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    shell.close()
    call.join(60)
    assert "[exit status 137]" in results[0].text


def test_output_without_end_is_bounded() -> None:
    output = HeadAndTail(10)
    for number in range(1000):
        output.add(b"%03d" % number)
    assert output.text("end").split("\n") == ["0000010020", "[… 2,980 bytes left out]", "6997998999", "end"]


def test_a_flood_of_a_command_is_cut(workspace: Path) -> None:
    options = ToolOptions(workspace=workspace, shell=True, max_output_bytes=4096)
    with ToolBox.from_config({}, options) as box:
        result = box.call("shell_run", {"command": "yes | head -c 20000000"})
    assert len(result.text.encode()) <= 4096
    assert result.text.endswith("[exit status 0]")
    assert result.truncated


# ---- the past --------------------------------------------------------------------------------------------------------


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[MessageStore]:
    store = MessageStore(tmp_path / "task")
    store.add_message("system", "You are a careful agent.")
    store.add_message("user", "The port of the staging server is 8443.\nNever touch production.")
    call = {"id": "c1", "type": "function", "function": {"name": "files_read", "arguments": '{"path": "hosts.ini"}'}}
    store.add_message("assistant", "I look it up.", tool_calls=[call])
    store.add_message("tool", "staging 10.0.0.7\nproduction 10.0.0.8", tool_call_id="c1")
    store.add_message("assistant", "ステージングは 10.0.0.7 です。")
    store.create_summary(2, 5, "The hosts were looked up.")
    store.add_message("user", "Go on.")
    yield store
    store.close()


@pytest.fixture
def past(messages: MessageStore) -> ToolBox:
    return ToolBox.from_config({}, message_store=messages)


def test_recall_finds_what_is_folded(past: ToolBox) -> None:
    found = said(past.call("context_recall", {"query": "STAGING port"})).split("\n")
    assert found[0].startswith("seq 2 user (in fold 1): The port of the staging server is 8443.")
    assert found[1].startswith("seq 4 tool (in fold 1): staging 10.0.0.7")
    assert len(found) == 2
    assert said(past.call("context_recall", {"query": "hosts.ini"})).startswith("seq 3 assistant (in fold 1)")
    assert said(past.call("context_recall", {"query": "ステージング"})).startswith("seq 5 assistant")
    assert said(past.call("context_recall", {"query": "Go"})).startswith("seq 6 user: Go on.")
    assert said(past.call("context_recall", {"query": "kubernetes"})) == "Nothing found."
    assert "query is missing" in failed(past.call("context_recall", {"query": "  "}))


def test_recall_does_not_find_itself(past: ToolBox, messages: MessageStore) -> None:
    call = {"id": "c2", "type": "function", "function": {"name": "context_recall", "arguments": '{"query": "zebra"}'}}
    messages.add_message("assistant", None, tool_calls=[call])
    messages.add_message("tool", "seq 9 zebra", tool_call_id="c2")
    assert said(past.call("context_recall", {"query": "zebra"})) == "Nothing found."


def test_recall_shows_no_secret_and_no_other_task(past: ToolBox, messages: MessageStore, tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab1" * 16
    seq = messages.add_message("user", f"The zebra is OPENAI_API_KEY={key}.")
    other = MessageStore(tmp_path / "other")
    other.add_message("user", "The zebra of another task.")
    other.close()
    found = said(past.call("context_recall", {"query": "zebra"}))
    assert found.startswith(f"seq {seq} user")
    assert "another" not in found
    assert key not in found + said(past.call("context_read", {"seq": seq}))


def test_recall_prefers_rare_words_that_stand_together_and_shows_what_is_said_there(
    past: ToolBox, messages: MessageStore
) -> None:
    padding = "\n".join(f"line {number} of the report says nothing about it" for number in range(400))
    statement = "The quorum of cluster blue is 5; below that the elections stop and writes are refused at once."
    messages.add_message("user", f"{padding}\n{statement}\n{padding}")
    messages.add_message("user", f"quorum\n{padding}\nelections\n{padding}\ncluster")
    for number in range(10):
        messages.add_message("user", f"The cluster report {number} says that the report is about the cluster.")
        messages.add_message("assistant", "The report of the cluster was read.")
    found = said(past.call("context_recall", {"query": "report cluster quorum elections", "limit": 4})).split("\n")
    assert statement in found[0]
    assert sum("was read" in line for line in found) <= 1, "what was said ten times comes once"


def test_recall_gives_the_best_and_newest_first(past: ToolBox, messages: MessageStore) -> None:
    for number in range(20):
        messages.add_message("user", f"apple {number}" + (" pear" if number == 3 else ""))
    found = said(past.call("context_recall", {"query": "apple pear", "limit": 3})).split("\n")
    assert [line.split(": ")[1] for line in found] == ["apple 3 pear", "apple 19", "apple 18"]


def test_the_past_is_read_by_number_and_by_fold(past: ToolBox) -> None:
    assert said(past.call("context_read", {"seq": 2, "lines": "2"})) == "Never touch production."
    assert said(past.call("context_read", {"seq": "3"})) == 'I look it up.\n→ files_read {"path": "hosts.ini"}'
    fold = said(past.call("context_read", {"fold": 1})).split("\n")
    assert fold[0] == "[seq 2 user]"
    assert "[seq 4 tool]" in fold
    assert "production 10.0.0.8" in fold
    several = said(past.call("context_read", {"seq": "4-6"})).split("\n")
    assert several[:3] == ["[seq 4 tool]", "staging 10.0.0.7", "production 10.0.0.8"]
    assert several[-2:] == ["[seq 6 user]", "Go on."]
    assert said(past.call("context_read", {"seq": "4-"})).split("\n") == several
    assert said(past.call("context_read", {"seq": "4-99", "lines": "6-"})).split("\n") == several[5:]
    assert "99" in failed(past.call("context_read", {"seq": 99}))
    assert "99" in failed(past.call("context_read", {"seq": "99-120"}))
    assert "seq" in failed(past.call("context_read", {"seq": "6-4"}))
    assert "no fold 2" in failed(past.call("context_read", {"fold": 2}))
    assert "Exactly one of" in failed(past.call("context_read", {}))
    assert "Exactly one of" in failed(past.call("context_read", {"seq": 1, "fold": 1}))
    assert "no line 7" in failed(past.call("context_read", {"seq": 2, "lines": "7-"}))


def test_long_output_is_kept_private_and_masked(messages: MessageStore, workspace: Path) -> None:
    key = "sk-proj-" + "Ab1" * 16
    (workspace / "say.sh").write_text(f"seq 1 2000; echo OPENAI_API_KEY={key}; seq 2001 4000")
    options = ToolOptions(workspace=workspace, shell=True, max_output_bytes=2048)
    with ToolBox.from_config({}, options, message_store=messages) as box:
        result = box.call("shell_run", {"command": "sh say.sh"})
        name = re.search(r'output "([^"]+)"', said(result))
        assert name is not None
        lines = said(box.call("context_read", {"output": name[1], "lines": "2000-2002"})).split("\n")
        for wrong in ("../metadata.json", "outputs/../x.txt", "nothing-00000000.txt", "/etc/passwd"):
            assert "no kept output" in failed(box.call("context_read", {"output": wrong}))
    assert lines[0] == "2000"
    assert lines[2] == "2001"
    kept = messages.context_dir / "outputs" / name[1]
    assert key not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


# ---- configuration of MCP servers ------------------------------------------------------------------------------------


def test_both_spellings_of_mcp_servers_are_read() -> None:
    listed = read_mcp_servers(
        {
            "mcp_servers": [
                {"mcp_server_name": "files", "command": ["npx", "-y", "files"], "env": {"ROOT": "${ROOT:-/data}"}},
                {"mcp_server_name": "web", "url": "https://example.org/mcp", "headers": {"Authorization": "${TOKEN}"}},
                {"mcp_server_name": "off", "command": ["x"], "disabled": True},
            ]
        },
        {"TOKEN": "Bearer t"},
    )
    assert [server.name for server in listed] == ["files", "web"]
    assert listed[0].command == ("npx", "-y", "files")
    assert listed[0].env == {"ROOT": "/data"}
    assert listed[1].headers == {"Authorization": "Bearer t"}
    assert "Bearer" not in repr(listed[1])
    (mapped,) = read_mcp_servers({"mcp_servers": {"files": {"command": "npx", "args": ["-y", 3], "repeatable": ["a"]}}})
    assert mapped.command == ("npx", "-y", "3")
    assert mapped.repeatable == {"a"}
    (line,) = read_mcp_servers({"mcp_servers": {"files": {"command": "npx -y 'two words'"}}})
    assert line.command == ("npx", "-y", "two words")
    assert read_mcp_servers({}) == []


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("files", "mcp_servers_shape"),
        (["files"], "mcp_servers_shape"),
        ({"files": "npx"}, "mcp_servers_shape"),
        ([{"command": ["x"]}], "mcp_server_name"),
        ({"bad name": {"command": ["x"]}}, "mcp_server_name"),
        ({"x" * 40: {"command": ["x"]}}, "mcp_server_name"),
        ({"a": {}}, "mcp_server_kind"),
        ({"a": {"command": ["x"], "url": "http://x"}}, "mcp_server_kind"),
        ({"a": {"comand": ["x"]}}, "mcp_server_key"),
        ({"a": {"command": []}}, "mcp_server_value"),
        ({"a": {"url": "ftp://x"}}, "mcp_server_value"),
        ({"a": {"command": ["x"], "timeout": 0}}, "mcp_server_value"),
        ({"a": {"command": ["x"], "protocol": "2019-01-01"}}, "mcp_server_value"),
        ({"a": {"command": ["x"], "required": "no"}}, "mcp_server_value"),
        ({"a": {"command": ["x"], "env": ["A=1"]}}, "mcp_server_mapping"),
        ({"a": {"command": ["x"], "env": {"A": "${NOT_SET_ANYWHERE}"}}}, "undefined_variable"),
        ([{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}], "mcp_server_twice"),
    ],
)
def test_wrong_servers_are_refused_by_name(section: Any, reason: str) -> None:
    with refused(InvalidSettings, reason):
        read_mcp_servers({"mcp_servers": section}, {})


# ---- approvals -------------------------------------------------------------------------------------------------------


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    one = {"name": "a", "parameters": {"x": [1, {"b": 2, "a": 1}], "y": 2}}
    other = {"parameters": {"y": 2, "x": [1, {"a": 1, "b": 2}]}, "name": "a"}
    assert definition_digest(one) == definition_digest(other)
    assert definition_digest(one) != definition_digest({**one, "name": "b"})


@pytest.mark.parametrize("is_kept", [True, False])
def test_approvals_trust_at_first_sight_only(tmp_path: Path, is_kept: bool) -> None:
    approvals = Approvals(tmp_path / "base" if is_kept else None)
    assert approvals.refused("one", {}, {}) == frozenset()  # not ready yet: that was no sight of it
    assert approvals.refused("one", {"a": "1", "b": "2"}, {}) == frozenset()
    assert approvals.refused("one", {"a": "1", "b": "x", "c": "3"}, {}) == {"b", "c"}
    assert approvals.refused("one", {"a": "1"}, {}) == frozenset()
    assert approvals.refused("two", {"a": "9"}, {}) == frozenset()
    approvals.approve("one", {"b": "x"})
    assert approvals.refused("one", {"a": "1", "b": "x"}, {}) == frozenset()
    if is_kept:
        assert Approvals(tmp_path / "base").refused("one", {"a": "2"}, {}) == {"a"}


def test_what_was_approved_when_digests_covered_less_stays_so_and_covers_all_from_then_on(tmp_path: Path) -> None:
    Approvals(tmp_path).approve("one", {"a": "old", "b": "other"})
    assert Approvals(tmp_path).refused("one", {"a": "2:new", "b": "2:b"}, {"a": "old", "b": "old"}) == {"b"}
    assert Approvals(tmp_path).refused("one", {"a": "2:new"}, {"a": "old"}) == frozenset()
    assert Approvals(tmp_path).refused("one", {"a": "2:otherwise"}, {"a": "old"}) == {"a"}
