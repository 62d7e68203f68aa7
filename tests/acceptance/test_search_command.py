"""``orihon search`` by the real executable, in both languages, with and without a terminal."""

from __future__ import annotations

import json
from pathlib import Path

from orihon import TaskContextManager, TaskKey
from tests.acceptance.test_cli import COLOUR, run, run_on_terminal
from tests.conformance.child import ROOT


def a_task(base: Path, number: str = "7") -> str:
    with TaskContextManager(base, TaskKey("cli", "o", "r", "issue", number), {}) as ctx:
        store = ctx.message_store
        store.add_message("user", f"Mend getTankLevel\tin tank_control.py\n移行計画 {number}")
        store.add_message("assistant", "The \x1b[31mtank\x1b[0m level is mended.")
        store.create_summary(1, 2, "the tank was mended")
    return ctx.uuid


def test_the_command_has_its_help_and_its_page() -> None:
    english, japanese = run("search", "--help"), run("search", "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    for option in ("--task", "--role", "--tool", "--kind", "--since", "--until", "--limit", "--rebuild", "--json"):
        assert option in english.out
        assert option in japanese.out
        for page in ("docs/search.md", "docs/ja/search.md"):
            assert f"`{option}" in (ROOT / page).read_text(encoding="utf-8")
    assert "折り畳まれた" in japanese.out


def test_matches_for_people_and_for_programs(base: Path) -> None:
    uuid = a_task(base)
    found = run("--base-dir", base, "search", "tank", "LEVEL")
    lines = [line.split("\t") for line in found.out.splitlines()]
    assert (found.code, len(lines)) == (0, 2)
    assert [line[:5] + line[6:7] for line in lines] == [
        [uuid, "cli:o/r#7", "message", "2", "assistant", "1"],
        [uuid, "cli:o/r#7", "message", "1", "user", "1"],
    ]
    assert lines[0][7] == "The \\x1b[31mtank\\x1b[0m level is mended."
    assert lines[1][7] == "Mend getTankLevel in tank_control.py 移行計画 7"
    assert found.err.strip() == "2 of 2 matches."
    told = json.loads(run("--base-dir", base, "search", "移行", "--json").out)
    assert {name: told[name] for name in ("matches", "has_more", "current", "problems")} == {
        "matches": 1,
        "has_more": False,
        "current": True,
        "problems": {},
    }
    (hit,) = told["hits"]
    start, end = hit["highlights"][0]
    assert hit["text"][start:end] == "移行"
    assert (hit["task"], hit["seq"], hit["kind"], hit["folded"], hit["fold"]) == (uuid, 1, "message", True, 1)
    assert hit.keys() == {
        *("task", "label", "status", "kind", "seq", "time", "role", "tools", "score", "folded", "fold", "covers"),
        *("text", "highlights", "cut"),
    }


def test_a_terminal_shows_where_the_words_are(base: Path) -> None:
    uuid = a_task(base)
    shown = run_on_terminal("--base-dir", base, "search", "tank level", "--role", "assistant", language="ja").out
    assert uuid[:8] in shown
    assert "折り 1 の中" in shown
    assert "1 件中 1 件" in shown
    assert COLOUR.search(shown)
    assert not COLOUR.search(run_on_terminal("--base-dir", base, "search", "tank", NO_COLOR="1").out)


def test_filters_rebuilding_and_nothing_found(base: Path) -> None:
    first, second = a_task(base, "7"), a_task(base, "8")
    told = json.loads(run("--base-dir", base, "search", "tank", "--kind", "summary", "--json").out)
    assert {hit["task"] for hit in told["hits"]} == {first, second}
    assert [hit["covers"] for hit in told["hits"]] == [[1, 2], [1, 2]]
    only = run("--base-dir", base, "search", "tank -level", "--task", "o/r#8", "--since", "1h").out.splitlines()
    assert [line.split("\t")[0] for line in only] == [second]
    rebuilt = run("--base-dir", base, "search", "--rebuild")
    assert (rebuilt.code, rebuilt.out, rebuilt.err.strip()) == (0, "", "The index was made anew; it has 6 documents.")
    nothing = run("--base-dir", base, "search", "--", "-tank", "zeppelin", '"', "(")
    assert (nothing.code, nothing.out, nothing.err.strip()) == (0, "", "0 of 0 matches.")
    assert "no word to search for" in run("--base-dir", base, "search", "--", "-tank", "(").err


def test_what_cannot_be_asked(base: Path) -> None:
    base.mkdir()
    refusals = {
        (): "nothing to search for",
        ("tank", "--kind", "log"): "Unknown kind 'log'.",
        ("tank", "--since", "soon"): "since is no time: 'soon'.",
    }
    for arguments, said in refusals.items():
        ended = run("--base-dir", base, "search", *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
    assert run("--base-dir", base, "search", "tank").err.strip() == "0 of 0 matches."
