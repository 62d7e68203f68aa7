"""Looking at tasks from the terminal: ``show``, ``view --at``, ``diff``, ``list``, ``stats``, ``config``, ``init``; how
output ends, pages and completes; the tools under their first names. By the real executable where that is the point.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from orihon.cli.main import main
from orihon.texts import set_language
from tests.acceptance.test_cli import COLOUR, ORIHON, PATIENCE, environment, run, run_on_terminal
from tests.acceptance.test_view_commands import working_agent
from tests.command_walk import copied, prepare
from tests.helpers import Child

TOOLS = ("context_viewer", "context_stats", "cleanup_contexts", "archive_contexts", "maintenance")
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For commands that change nothing."""
    folder = tmp_path_factory.mktemp("looking") / "walk"
    prepare(folder)
    return folder


@pytest.fixture
def call(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_logging: None
) -> Iterator[Call]:
    """A command in this process: quicker, and the executable is not the point."""
    monkeypatch.chdir(prepared)

    def run_here(*arguments: object) -> tuple[int, str, str]:
        code = main(["--base-dir", "contexts", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    yield run_here
    set_language(None)


# ---- show ----------------------------------------------------------------------------------------------------------


def test_the_card_of_a_task(prepared: Path) -> None:
    card = run("--base-dir", prepared / "contexts", "show", "paused-1")
    assert card.code == 0
    lines = card.out.splitlines()
    assert lines[0] == "github:owner/repo#27  paused-1"
    assert "status\tpaused" in lines
    assert "records\t13 messages, 3 summaries, 1 plans" in lines
    assert "tools\t1 called (1 done, 0 failed)" in lines
    assert lines[-1].startswith("13\ttool\t375\t20")
    japanese = run_on_terminal("--base-dir", prepared / "contexts", "show", "paused-1", language="ja")
    assert "最後のメッセージ" in japanese.out
    assert COLOUR.search(japanese.out)


def test_a_key_means_the_newest_task_on_it_and_says_so(call: Call) -> None:
    code, out, err = call("show", "group/project!5", "--json")
    assert code == 0
    assert json.loads(out)["task"] == "failed-1"
    assert err == "group/project!5: 3 tasks are on this key; the newest, failed-1, is taken.\n"


def test_records_are_chosen_by_switches_ranges_and_roles(call: Call) -> None:
    assert [line.split("\t")[0] for line in call("show", "paused-1", "--range", "3-5")[1].splitlines()] == [
        "3",
        "4",
        "5",
    ]
    roles = [line.split("\t")[1] for line in call("show", "paused-1", "--role", "tool", "--last", "2")[1].splitlines()]
    assert roles == ["tool", "tool"]
    code, out, _ = call("show", "paused-1", "--tools", "--plans")
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["Tool calls", "#1", "Plans", "[1]"]
    assert "read_file ✓" in out
    code, out, _ = call("show", "paused-1", "--folds", "--full")
    assert "    two steps were done" in out.splitlines()
    assert call("show", "paused-1", "--range", "x")[0] == 2
    assert "--follow and --tools cannot be used together" in call("show", "paused-1", "--follow", "--tools")[2]


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_follow_shows_messages_as_they_come_and_ends_with_ctrl_c(tmp_path: Path, backend: str) -> None:
    base = tmp_path / "contexts"
    with working_agent(base, backend) as (uuid, agent):
        command = [str(ORIHON), "--base-dir", str(base), "show", uuid, "--follow", "--last", "1", "--json"]
        with Child(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment("en")
        ) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert json.loads(watching.stdout.readline())["seq"] == 13
            for number in range(2):
                assert agent.stdin is not None
                agent.stdin.write(f"more {number}\n")
                agent.stdin.flush()
                said = json.loads(watching.stdout.readline())
                assert (said["seq"], said["message"]["content"]) == (14 + number, f"more {number}\n")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(PATIENCE) == 130
            assert (watching.stdout.read(), watching.stderr.read()) == ("", "")


# ---- view --at, diff -----------------------------------------------------------------------------------------------


def test_what_the_model_saw_then(call: Call) -> None:
    code, out, _ = call("view", "paused-1", "--at", 8)
    head, step, *entries = out.splitlines()
    assert code == 0
    assert "8 entries" in head
    assert step.endswith("(compression -): what the model saw before it wrote message 9.")
    assert [line.split("\t")[0] for line in entries] == list("12345678")
    assert "There is no message 99" in call("view", "paused-1", "--at", 99)[2]
    assert call("view", "paused-1", "--at", 8, "--folds")[0] == 2


def test_a_view_before_and_after(call: Call, prepared: Path) -> None:
    code, out, _ = call("diff", "paused-1", "--compression", 2)
    assert code == 0
    assert out.splitlines() == [
        out.splitlines()[0],
        "--- 11 entries, 413 tokens, 0 % of the budget",
        "+++ 8 entries, 405 tokens, 0 % of the budget",
        "@@ 2-7: 20 → 12 tokens @@",
        "- 2-4 system: the first step was done",
        "- 5 user: Step 1: 次の手順です",
        "- 6 assistant: → read_file {}",
        "- 7 tool: output 1",
        "+ 2-7 system: two steps were done",
        "@@ 10-10: 2 → 2 tokens @@",
        "- 10 tool: output 2",
        "+ 10 tool: output …",
    ]
    assert "+ pin 8" in call("diff", "paused-1", "--compression", 5)[1]
    assert "There is no compression 9; the last one is 5." in call("diff", "paused-1", "--compression", 9)[2]
    on_terminal = run_on_terminal("--base-dir", prepared / "contexts", "diff", "paused-1").out
    assert "\x1b[31m- " in on_terminal
    assert "\x1b[32m+ " in on_terminal


# ---- list, stats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "failed"], ["failed-1"]),
        (["--user", "ana"], ["failed-1", "packed-1", "done-1"]),
        (["--repository", "owner/repo", "--status", "queued"], ["queued-1"]),
        (["--source", "gitlab", "-n", "1"], ["failed-1"]),
        (["--search", "OWNER/repo#29"], ["waiting-1"]),
        (["--search", "steps github"], ["queued-1"]),
        (["--search", "nothing of the kind"], []),
        (["--since", "1h", "--search", "merge_request", "--status", "completed"], ["done-1"]),
        (["--since", "2099-01-01"], []),
    ],
)
def test_tasks_are_chosen(call: Call, options: list[str], found: list[str]) -> None:
    code, out, _ = call("list", *options)
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == found


def test_the_storage_as_the_first_design_shows_it(call: Call) -> None:
    code, out, _ = call("stats", "--summary")
    assert code == 0
    patterns = [
        r"Context Storage Summary:",
        r"Total contexts: 7",
        r"Total size: [\d.]+ KB",
        r"Active \(< 7 days, or not finished\): 6 \([\d.]+ KB\)",
        r"Archived \(7-30 days\): 1 \([\d.]+ KB, compressed\)",
        r"Old \(> 30 days\): 0 \(0 B, candidates for deletion\)",
    ]
    for line, pattern in zip(out.splitlines(), patterns, strict=False):
        assert re.fullmatch(pattern, line)
    assert call("--lang", "ja", "stats", "--summary")[1].startswith("コンテキスト保存の概要:")
    assert call("stats", "paused-1", "--summary")[0] == 2
    assert "figures.messages\t13" in call("stats", "paused-1")[1].splitlines()


# ---- init, config --------------------------------------------------------------------------------------------------


def test_init_and_what_is_in_force_then(tmp_path: Path) -> None:
    made = run("init", cwd=tmp_path)
    assert made.code == 0
    assert made.out.startswith("Made config.yaml and the base folder contexts.")
    again = run("init", cwd=tmp_path, language="ja")
    assert (again.code, again.out) == (2, "")
    assert "config.yaml はすでにあります" in again.err
    shown = run("config", "show", "--origin", "--changed", cwd=tmp_path, OPENAI_API_KEY="sk-secret")
    assert shown.out.splitlines() == [
        "context_storage.base_dir\tcontexts\tconfig.yaml",
        "llm.openai.api_key\t***\tenvironment OPENAI_API_KEY",
        "language\ten\tenvironment ORIHON_LANG",
    ]
    assert run("list", cwd=tmp_path).err == "No tasks.\n"


def test_init_helps_where_no_configuration_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("llm: [", encoding="utf-8")
    assert run("list", cwd=tmp_path).code == 2
    assert run("--config", "new.yaml", "init", cwd=tmp_path).code == 0


# ---- output --------------------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_the_command_quietly(prepared: Path, tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [str(ORIHON), "--base-dir", str(prepared / "contexts"), "view", "paused-1", "--full"]
    ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment("en"), timeout=PATIENCE)
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_full_disk_is_one_line(prepared: Path) -> None:
    command = [str(ORIHON), "--base-dir", str(prepared / "contexts"), "list", "--json"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment("en"), timeout=PATIENCE
        )
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "orihon: Standard output cannot be written: No space left on device. "
        "Make room where it goes to, and run the command again."
    ]


def test_closed_streams_are_no_reason_to_fail(prepared: Path) -> None:
    command = f"exec {ORIHON} --base-dir {prepared / 'contexts'} view paused-1 --json >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", command], env=environment("en"), timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "is_paged"),
    [
        (["show", "paused-1", "--messages", "--full"], True),
        (["show", "paused-1", "--messages", "--full", "--no-pager"], False),
        (["show", "paused-1", "--messages", "--full", "--json"], False),
        (["show", "paused-1", "--last", "2"], False),
    ],
)
def test_only_long_output_on_a_terminal_is_paged(prepared: Path, arguments: list[str], is_paged: bool) -> None:
    ended = run_on_terminal("--base-dir", prepared / "contexts", *arguments, PAGER="sed s/^/PAGED/", LINES="12")
    assert ended.code == 0
    assert ("PAGED" in ended.out) is is_paged
    assert "Step 3" in ended.out or "data" in ended.out


def test_a_pager_that_is_left_at_once_or_is_missing_is_no_error(prepared: Path) -> None:
    arguments = ("--base-dir", prepared / "contexts", "show", "paused-1", "--messages", "--full")
    for pager in ("true", "no-such-pager-anywhere", "'", ""):
        ended = run_on_terminal(*arguments, PAGER=pager, LINES="5")
        assert ended.code == 0
        assert "Traceback" not in ended.out
        assert (ended.out == "") is (pager == "true")


# ---- completion ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("orihon sho", ["show"]),
        ("orihon config ", ["show"]),
        ("orihon --base-dir {base} view pau", ["paused-1"]),
        ("orihon --base-dir {base} show owner/repo#2", ["owner/repo#29", "owner/repo#27"]),
        ("orihon --base-dir {base} show @", ["@last"]),
        ("orihon --base-dir {base}-elsewhere show ", []),
        ("orihon --base-dir {base} show \x1b['\"", []),
    ],
)
def test_a_shell_is_offered_what_fits(prepared: Path, words: str, offered: list[str]) -> None:
    typed = words.format(base=prepared / "contexts")
    more = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1), "_ORIHON_COMPLETE": "complete_bash"}
    ended = run(language="en", cwd=None, **more)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.split() == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(call: Call, shell: str) -> None:
    code, out, _ = call("completion", shell)
    assert code == 0
    assert "_ORIHON_COMPLETE" in out
    assert "orihon" in out


# ---- the tools under their first names -----------------------------------------------------------------------------


@pytest.fixture
def tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_logging: None
) -> Iterator[Call]:
    """One of them in this process."""
    monkeypatch.chdir(tmp_path)

    def run_here(name: str, *arguments: object) -> tuple[int, str, str]:
        try:
            code = import_module(f"orihon.tools.{name}").main([str(argument) for argument in arguments])
        except SystemExit as end:  # how argparse says that something is wrong
            code = end.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    yield run_here
    set_language(None)


TITLES = ("Messages", "Summaries", "Tool calls")


def test_the_viewer_of_the_first_design(tool: Call, prepared: Path, tmp_path: Path) -> None:
    named = ("--task-source", "gitlab", "--owner", "group", "--repo", "project", "--task-id", "mr_5")
    base = ("--base-dir", prepared / "contexts")
    code, out, _ = tool("context_viewer", *base, *named, "--show-messages", "--show-summaries", "--show-tools")
    assert code == 0
    assert out.startswith("Task: gitlab/group/project/merge_request_5\n"), "the statistics stand above"
    assert [line for line in out.splitlines() if line in TITLES] == list(TITLES)
    code, out, err = tool("context_viewer", *base, *named, "--export-html")
    assert (code, "status\tfailed" in out) == (0, True), err
    assert (tmp_path / "mr_5.html").read_text(encoding="utf-8").startswith("<!")
    code, _, err = tool("context_viewer", *base)
    assert code == 2
    assert "--task-id is missing, such as issue_123." in err


def test_the_other_tools_of_the_first_design(tool: Call, prepared: Path, tmp_path: Path) -> None:
    folder = copied(prepared, tmp_path / "walk")
    base = ("--base-dir", folder / "contexts")
    assert tool("context_stats", *base, "--summary")[1].startswith("Context Storage Summary:\nTotal contexts: 7\n")
    assert "task\twaiting-1" in tool("context_stats", *base, "--task-id", "issue_29")[1]
    code, out, _ = tool("archive_contexts", *base, "--days", 0, "--json")
    assert {one["uuid"] for one in json.loads(out)["archived"]} == {"done-1", "failed-1"}
    assert code == 0
    code, out, _ = tool("cleanup_contexts", *base, "--days", 0, "--force", "--json")
    assert {one["uuid"] for one in json.loads(out)["tasks"]} == {"done-1", "failed-1", "packed-1"}
    assert code == 0
    assert tool("maintenance", *base, "--days", 3, "--archive-days", 1)[0] == 0


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_has_a_help_page_and_is_a_module(tool: Call, name: str) -> None:
    code, out, _ = tool(name, "--help")
    assert code == 0
    assert "--base-dir" in out
    assert f"python -m orihon.tools.{name}" in out
    if name == "context_stats":
        command = [sys.executable, "-m", f"orihon.tools.{name}", "--help"]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment("ja"), timeout=PATIENCE)
        assert "保存の状況" in ended.stdout
