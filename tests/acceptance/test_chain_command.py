"""``orihon chain``, and what ``orihon enqueue`` is told about inheritance: the real executable, in both languages."""

from __future__ import annotations

import json
from pathlib import Path

from orihon import TaskContextManager, TaskKey
from tests.acceptance.test_cli import run, run_on_terminal
from tests.conformance.child import ROOT

KEY = TaskKey("cli", "o", "r", "issue", "7")
ON_KEY = ("--repository", "o/r", "--type", "issue", "--id", "7")


def finished(base: Path) -> str:
    with TaskContextManager(base, KEY, {}) as ctx:
        ctx.message_store.add_message("user", "Mend the valve.")
        ctx.planning_store.add_plan("initial", "look at tank.py")
    return ctx.uuid


def test_the_command_has_its_help_and_its_place_in_the_pages() -> None:
    english, japanese = run("chain", "--help"), run("chain", "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert "引き継いだか" in japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        words = (ROOT / page).read_text(encoding="utf-8")
        assert "`orihon chain " in words
        assert "`--no-inherit`" in words


def test_a_chain_for_people_and_for_programs(base: Path) -> None:
    first, second = finished(base), finished(base)
    alone = run("--base-dir", base, "enqueue", "go", *ON_KEY, "--no-inherit").out.strip()
    pointed = run("--base-dir", base, "enqueue", "go", *ON_KEY, "--inherit-from", first[:13]).out.strip()
    lines = [line.split("\t") for line in run("--base-dir", base, "chain", second[:13]).out.splitlines()]
    assert [(line[0], line[1], line[4], line[5]) for line in lines] == [
        (first, "completed", "nothing", "-"),
        (second, "completed", first, "final summary, plans: 1"),
        (alone, "queued", "nothing, as wished", "-"),
        (pointed, "queued", first, "final summary, plans: 1"),
    ]
    japanese = run("--base-dir", base, "chain", "cli:o/r#7", language="ja")
    assert f"{first}\t最終要約, 計画 1 件" in japanese.out
    told = json.loads(run("--base-dir", base, "chain", pointed, "-n", "3", "--json").out)["tasks"]
    assert [task["uuid"] for task in told] == [second, alone, pointed]
    assert [task["heritage"] for task in told] == ["from", "off", "from"]
    given = {"final_summary": True, "plans": 1, "open_problems": 0, "earlier": 0, "imported": False}
    assert told[2]["inherited"] == given
    assert "inherits from" in run_on_terminal("--base-dir", base, "chain", first).out


def test_a_wish_that_cannot_be_met_is_said_in_one_line(base: Path) -> None:
    queued = run("--base-dir", base, "enqueue", "go").out.strip()
    unfinished = run("--base-dir", base, "enqueue", "go", "--inherit-from", queued)
    assert (unfinished.code, unfinished.out) == (2, "")
    assert f"The task {queued} is queued: only a finished task has something to inherit." in unfinished.err
    assert run("--base-dir", base, "enqueue", "go", "--inherit-from", "nobody").code == 2
    both = run("--base-dir", base, "enqueue", "go", "--no-inherit", "--inherit-from", queued)
    assert "--no-inherit and --inherit-from cannot be used together" in both.err
    assert len(json.loads(run("--base-dir", base, "list", "--json").out)["tasks"]) == 1
    assert "There is no task on cli:o/r#7." in run("--base-dir", base, "chain", "cli:o/r#7").err
