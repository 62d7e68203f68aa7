"""``orihon squeeze``, by the real executable: always within the budget, tool pairs whole, clear refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orihon.importers.sessions import read_sessions
from tests import commands
from tests.acceptance.test_cli import ORIHON, PATIENCE, Ended, environment, run
from tests.importing import SAMPLES, Sample, make_claude_code
from tests.importing_agents import make_gemini_logs
from tests.ladders import PRESETS
from tests.unit.test_squeeze import Chat, pairs_are_whole, size

STRATEGIES = ("summarize", "prune", "offload", "sections")
WAYS = [[], *(["--strategy", name] for name in STRATEGIES), *(["--preset", name] for name in PRESETS)]
WAYS += [["--preset", "companion", "--strategy", "offload"]]
THOUGHTS = "Looking at this from one side and from the other takes time, and nothing comes of it. " * 5


def transcript(turns: int) -> list[Chat]:
    """A coding agent's: calls with long results, thoughts in Markdown, two languages."""
    messages: list[Chat] = [
        {"role": "system", "content": "You are a careful agent. 推測はしないこと。"},
        {"role": "user", "content": "Repair parse_order in orders/reader.py. Never touch orders/writer.py."},
    ]
    for number in range(turns):
        function = {"name": "run_shell", "arguments": json.dumps({"command": f"show part_{number}"})}
        rows = (f"row {row} of part_{number} sets option_{number}_{row} to {row * 7}" for row in range(30))
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "name": "run_shell", "content": "\n".join(rows)},
            {
                "role": "assistant",
                "content": f"## Research\n\n{THOUGHTS}\n\n## 決定\n\npart_{number} には guard_{number} を付ける。\n",
            },
            {"role": "user", "content": f"Good. Go on with part_{number + 1}, and mind limit_{number}."},
        ]
    return messages


MESSAGES = transcript(25)
WHOLE = size(MESSAGES)


def lines(messages: Sequence[Any]) -> str:
    return "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in messages)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "transcript.jsonl"
    path.write_text(lines(MESSAGES), encoding="utf-8")
    return path


def squeezed(file: Path, tokens: int, *options: str) -> list[Chat]:
    ended = run("squeeze", file, "--tokens", tokens, *options)
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


def piped(text: bytes, *arguments: str, language: str = "en") -> Ended:
    command = [str(ORIHON), "squeeze", "-", *arguments]
    return Ended(*commands.ended(command, environment(language), PATIENCE, given=text))


@pytest.mark.parametrize("options", WAYS, ids=lambda way: " ".join(way) or "plain")
def test_every_way_keeps_within_the_budget(file: Path, options: list[str]) -> None:
    for share in (0.1, 0.4):
        budget = int(WHOLE * share)
        result = squeezed(file, budget, *options)
        assert size(result) <= budget
        assert pairs_are_whole(result)
        assert result[0] == MESSAGES[0]
        assert result[-1] == MESSAGES[-1]
        assert len(result) < len(MESSAGES) or size(result) < WHOLE


def test_the_newest_turns_stay_word_for_word(file: Path) -> None:
    result = squeezed(file, WHOLE // 3)
    assert result[-4:] == MESSAGES[-4:]
    assert "Never touch orders/writer.py." in "".join(str(message["content"]) for message in result)


def test_what_fits_comes_out_as_it_went_in(file: Path) -> None:
    for options in (WAYS[0], WAYS[1], WAYS[-1]):
        assert squeezed(file, WHOLE, *options) == MESSAGES


def test_strategies_leave_their_marks(file: Path) -> None:
    budget = int(WHOLE * 0.5)
    offloaded = squeezed(file, budget, "--strategy", "offload")
    assert len([message for message in offloaded if message["role"] == "tool"]) > 5, "results stand, shortened"
    pruned = squeezed(file, budget, "--strategy", "prune")
    assert any(message in MESSAGES[1:-20] for message in pruned[1:]), "old messages stand word for word"
    summed = squeezed(file, budget, "--strategy", "summarize")
    assert sum(str(message["content"]).startswith("[Previous conversation summary]") for message in summed) == 1
    sections = squeezed(file, int(WHOLE * 0.92), "--strategy", "sections")
    assert not any(THOUGHTS.strip() in str(message["content"]) for message in sections[:20])


def test_a_header_is_ignored_and_standard_input_is_read(file: Path) -> None:
    header = json.dumps({"kind": "transcript", "id": "x", "source": "somewhere"}) + "\n"
    plain = run("squeeze", file, "--tokens", WHOLE // 3).out
    assert piped((header + lines(MESSAGES)).encode(), "--tokens", str(WHOLE // 3)) == Ended(0, plain)
    assert piped((header + "\n\n" + lines(MESSAGES)).encode(), "--tokens", str(WHOLE // 3)).out == plain
    assert piped(header.encode(), "--tokens", "10") == Ended(0, "")
    assert piped(b"", "--tokens", "10") == Ended(0, "")


def test_the_same_comes_out_again_whatever_the_folder_is_configured_like(file: Path, tmp_path: Path) -> None:
    for options in ([], ["--preset", "phases"]):
        plain = run("squeeze", file, "--tokens", WHOLE // 4, *options).out
        (tmp_path / "config.yaml").write_text("compression: {keep_recent: 30, preset: companion}\n", encoding="utf-8")
        assert run("squeeze", file, "--tokens", WHOLE // 4, *options, cwd=tmp_path).out == plain
        assert run("squeeze", file, "--tokens", WHOLE // 4, *options, ORIHON_COMPRESSION_KEEP_RECENT="40").out == plain


@pytest.mark.parametrize("options", WAYS, ids=lambda way: " ".join(way) or "plain")
def test_a_report(file: Path, options: list[str]) -> None:
    budget = WHOLE // 5
    ended = run("squeeze", file, "--tokens", budget, "--json", *options)
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(ended.out)
    assert report["messages"] == squeezed(file, budget, *options)
    assert (report["budget"], report["before_tokens"]) == (budget, WHOLE)
    assert report["after_tokens"] == size(report["messages"]) <= budget
    folded = [seq for run in report["folded"] for seq in range(run["start_seq"], run["end_seq"] + 1)]
    assert sorted([*report["kept"], *report["shortened"], *folded]) == list(range(1, len(MESSAGES) + 1))
    assert all(MESSAGES[seq - 1] in report["messages"] for seq in report["kept"])
    facts = report["facts"]
    assert 0 < facts["kept"] < facts["found"]
    shown = lines(report["messages"])
    named = [name for name in facts["lost"] if name.startswith("option_")]
    assert named
    assert [name for name in named if f"{name} " in shown] == []


def test_more_room_keeps_more_facts(file: Path) -> None:
    kept = [
        json.loads(run("squeeze", file, "--tokens", int(WHOLE * share), "--json").out)["facts"]["kept"]
        for share in (0.05, 0.2, 0.5)
    ]
    assert kept == sorted(set(kept))


# ---- transcripts of other agents -------------------------------------------------------------------------------------


def answers(ended: Ended) -> list[Chat]:
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: f"{one.format}-{one.make.__name__}")
def test_whatever_an_import_reads_is_read(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    several = len([one for one in read_sessions(path).sessions if one.parent is None]) > 1
    choice = ["--session", "1"] if several else []
    result = answers(run("squeeze", path, "--tokens", 100_000, *choice))
    assert {"user", "assistant"} & {message["role"] for message in result}
    assert pairs_are_whole(result)
    alone = "events" not in path.parts and sample.make is not make_gemini_logs  # a name or a neighbour tells the rest
    if alone:
        assert answers(piped(path.read_bytes(), "--tokens", "100000", *choice)) == result


def test_one_of_several_conversations_has_to_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(lines([{"messages": MESSAGES[:5]}, {"messages": MESSAGES[5:]}]), encoding="utf-8")
    ended = run("squeeze", path, "--tokens", 500)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert "--session" in ended.err
    assert "Repair parse_order" in ended.err
    assert answers(run("squeeze", path, "--tokens", WHOLE, "--session", 1)) == MESSAGES[:5]
    result = answers(run("squeeze", path, "--tokens", 500, "--session", 2))
    assert size(result) <= 500
    assert result[-1] == MESSAGES[-1]
    assert run("squeeze", path, "--tokens", 500, "--session", 3).code == 2


def test_what_cannot_be_read_of_another_agents_transcript_is_told(tmp_path: Path) -> None:
    path = make_claude_code(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n{broken\n", 1))
    ended = run("squeeze", path, "--tokens", 500)
    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert ":2:" in ended.err
    assert "pears.txt" in ended.out


def test_calls_that_stand_in_the_content_stay_with_their_results(tmp_path: Path) -> None:
    turns: list[Chat] = [{"role": "user", "content": "Look everywhere."}]
    for number in range(20):
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "nothing here, look on\n" * 30}
        turns += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    path = tmp_path / "anthropic.jsonl"
    path.write_text(lines(turns), encoding="utf-8")
    result = answers(run("squeeze", path, "--tokens", 800))
    assert size(result) <= 800
    assert any(message.get("tool_calls") for message in result)
    assert pairs_are_whole(result)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", WAYS, ids=lambda way: " ".join(way) or "plain")
def test_a_budget_that_cannot_hold_the_system_prompt(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "t.jsonl"
    prompt = {"role": "system", "content": "Mind these rules: " + "be careful and thorough, " * 60}
    path.write_text(lines([prompt, *MESSAGES[1:]]), encoding="utf-8")
    for language, words in (("en", "The protected text alone is larger than the budget"), ("ja", "予算")):
        ended = run("squeeze", path, "--tokens", 200, *options, language=language)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert words in ended.err
        assert "200" in ended.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"role": "user", "content": ', "Line 3"),
        (b"[]", "Line 3"),
        (b'"text"', "Line 3"),
        (b'{"role": "wizard", "content": "x"}', "Line 3"),
        (b'{"content": "x"}', "Line 3"),
        (b'{"kind": "transcript"}', "Line 3"),
        (b"\xff\xfe", "Line 3"),
    ],
)
def test_a_broken_line_is_named(line: bytes, words: str) -> None:
    text = lines(MESSAGES[:2]).encode() + line + b"\n" + lines(MESSAGES[2:]).encode()
    ended = piped(text, "--tokens", "500")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert words.lower() in ended.err.lower()
    japanese = piped(text, "--tokens", "500", language="ja")
    assert (japanese.code, japanese.out) == (2, "")
    assert "3" in japanese.err
    assert japanese.err != ended.err


@pytest.mark.parametrize(
    ("arguments", "english"),
    [
        (["--tokens", "0"], "--tokens"),
        (["--tokens", "many"], "--tokens"),
        ([], "--tokens"),
        (["--tokens", "500", "--strategy", "magic"], "There is no strategy 'magic'."),
        (["--tokens", "500", "--preset", "magic"], "compression.preset"),
        (["--tokens", "500", "--strategy", "magic", "--preset", "phases"], "There is no strategy 'magic'."),
    ],
)
def test_a_wrong_value_is_one_clear_line(file: Path, arguments: list[str], english: str) -> None:
    for language in ("en", "ja"):
        ended = run("squeeze", file, *arguments, language=language)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert language == "ja" or english in ended.err


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for language in ("en", "ja"):
        ended = run("squeeze", tmp_path / "nowhere", "--tokens", 10, language=language)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert "nowhere" in ended.err
