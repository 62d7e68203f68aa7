"""Pins by rule: what patterns and roles keep word for word."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.documents.sections import PRESERVED_PATTERNS
from orihon.compression.pages import Aim, FoldPlan, Pages, with_pinned_lines
from orihon.compression.rule_pins import rule_pins
from orihon.compression.strategies.summarize import Summarize
from orihon.texts import set_language
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Fold, Pin
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.view import Entry, View

# The rows of 004's table of what is not compressed, and its patterns.
PRESERVED_TABLE = """
| 対象 | 理由 |
|------|------|
| 最終決定事項 | 実装に必要 |
| 重要な制約 | 品質に影響 |
| 依存関係 | タスク実行に必要 |
| Human承認内容 | 証跡として必要 |
| エラー情報 | 再発防止に必要 |
"""
DESIGN_HEADINGS = ["## 決定事項", "## 最終決定", "## 承認済み", "## エラー", "## 依存関係"]
TABLE_HEADINGS = [f"## {line.split('|')[1].strip()}" for line in PRESERVED_TABLE.strip().splitlines()[2:]]
ENGLISH_HEADINGS = [
    "## Decisions",
    "## Final decision",
    "## Approved",
    "## Errors",
    "## Dependencies",
    "## Important constraints",
    "### 2. Key decisions",
]


def pages(*messages: Message, pins: Sequence[Pin] = (), folds: dict[int, Fold] | None = None) -> Pages:
    """Pages with one entry for each message; ``folds`` by place."""
    entries = tuple(
        Entry(place + 1, place + 1, message.role, estimate_message(message), (folds or {}).get(place))
        for place, message in enumerate(messages)
    )
    return Pages(View(entries, tuple(pins)), list(messages))


def fold(text: str) -> tuple[Message, Fold]:
    """A fold that stands first, as the pages show it."""
    return Message("system", SUMMARY_PREFIX + text), Fold(1, 1, 1, text, 10, 100, "summary")


def pinned(text: str, patterns: Sequence[str] = PRESERVED_PATTERNS, role: str = "assistant") -> list[str]:
    """What is pinned of one message."""
    found = rule_pins(pages(Message("user", "Begin."), Message(role, text)), patterns, ())
    assert {pin.seq for pin in found} <= {2}
    return [pin.line for pin in found]


# ---- sections ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", [*DESIGN_HEADINGS, *TABLE_HEADINGS, *ENGLISH_HEADINGS])
def test_the_section_under_a_preserved_heading_is_pinned(heading: str) -> None:
    section = f"{heading}\n\n- SQLite を使う\n- because one file is enough"
    assert pinned(f"# 計画\n\n長い話。\n\n{section}\n\n## 探索\n\nmore") == [section]
    assert pinned(section) == [section]


@pytest.mark.parametrize("heading", ["## 探索", "## Exploration", "決定事項", "#決定事項", "## Undecided", "text"])
def test_other_sections_are_not(heading: str) -> None:
    assert pinned(f"{heading}\n\n- SQLite を使う") == []


def test_subsections_belong_to_the_section() -> None:
    section = "## 決定事項\n\n### 保存\n\nSQLite\n\n#### 理由\n\n軽い\n\n### 通信\n\nHTTP"
    assert pinned(f"{section}\n## 次\nx") == [section]
    assert pinned(f"{section}\n# 次\nx") == [section]


def test_a_section_ends_at_the_next_heading_that_is_not_below_it() -> None:
    assert pinned("### Errors\nE1\n### Next\nx") == ["### Errors\nE1"]
    assert pinned("### Errors\nE1\n## Next\nx") == ["### Errors\nE1"]
    assert pinned("# Errors\nE1\n## Next\nx") == ["# Errors\nE1\n## Next\nx"]


def test_sections_one_after_another_are_pinned_each() -> None:
    assert pinned("## エラー\nE1\n\n## 依存関係\nD1\n") == ["## エラー\nE1", "## 依存関係\nD1"]


def test_comments_in_code_are_no_headings() -> None:
    section = "## Decisions\n\n```sh\n# Next\n## Next\nmake\n```\n\nand ~~~\n\n~~~\n# other\n```\n~~~\nthe end"
    assert pinned(f"{section}\n\n## Next\n\nx") == [section]
    assert pinned("```python\n# errors are caught here\nrun()\n```\n\nThat is all there is to say.") == []
    assert pinned("```\n## Decisions\n```\n\n## Decisions\n\n- A") == ["## Decisions\n\n- A"]


def test_underlined_headings_count() -> None:
    assert pinned("決定事項\n========\n\n- SQLite\n\n探索\n====\n\nx") == ["決定事項\n========\n\n- SQLite"]


def test_the_same_section_twice_is_one_pin() -> None:
    assert pinned("## Errors\nE1\n\n# Later\n\n## Errors\nE1\n") == ["## Errors\nE1"]


# ---- lines -------------------------------------------------------------------------------------------------------


def test_a_line_that_matches_is_pinned_by_itself() -> None:
    text = "We begin.\n  The key is never MUST-ROTATE later.  \r\nWe go on.\n\n- MUST-ROTATE weekly"
    assert pinned(text, ["MUST-ROTATE"]) == ["The key is never MUST-ROTATE later.", "- MUST-ROTATE weekly"]
    assert pinned(text, ["^We"]) == ["We begin.", "We go on."]
    assert pinned(text, ["begin.$"]) == ["We begin."]


def test_a_line_pattern_that_matches_a_heading_pins_its_section() -> None:
    assert pinned("## House rules\n\n- tabs\n\n## Next\n\nrules of thumb", ["rules"]) == [
        "## House rules\n\n- tabs",
        "rules of thumb",
    ]


def test_lines_around_pinned_sections_are_found_in_order() -> None:
    text = "NOTE one\n\n## Errors\n\nNOTE two\n\n## Next\n\nNOTE three"
    assert pinned(text, [*PRESERVED_PATTERNS, "^NOTE"]) == ["NOTE one", "## Errors\n\nNOTE two", "NOTE three"]


def test_lines_in_code_may_be_pinned_too() -> None:
    assert pinned("```\n# KEEP this\nx = 1\n```", ["KEEP"]) == ["# KEEP this"]


# ---- messages ----------------------------------------------------------------------------------------------------

TALK = (
    Message("system", "## Constraints\n\nBe brief."),
    Message("user", "## Constraints\n\nNo network."),
    Message("assistant", "Understood."),
    Message("tool", "## Errors\n\nquoted from a page", tool_call_id="1"),
    Message("system", "A later word."),
)


def test_messages_of_a_role_stay_whole() -> None:
    assert rule_pins(pages(*TALK), (), ["user"]) == (Pin(2),)
    assert rule_pins(pages(*TALK), (), ["assistant", "system"]) == (Pin(3), Pin(5)), "the system prompt stays anyway"
    assert rule_pins(pages(*TALK), PRESERVED_PATTERNS, ["user"]) == (Pin(2),), "its lines need no pins of their own"


def test_the_system_prompt_and_tool_results_have_no_rules() -> None:
    assert rule_pins(pages(*TALK), PRESERVED_PATTERNS, ()) == (Pin(2, "## Constraints\n\nNo network."),)
    assert pinned("MUST", ["MUST"], role="tool") == []


def test_what_is_recorded_is_not_found_again() -> None:
    recorded = [Pin(2, "## Constraints\n\nNo network."), Pin(3)]
    assert rule_pins(pages(*TALK, pins=recorded), PRESERVED_PATTERNS, ["assistant"]) == ()


def test_without_rules_there_are_no_pins() -> None:
    assert rule_pins(pages(*TALK), (), ()) == ()
    assert rule_pins(pages(), PRESERVED_PATTERNS, ["user"]) == ()


# ---- folds -------------------------------------------------------------------------------------------------------


def _folded(given: Pages, patterns: Sequence[str]) -> Pages:
    """The pages after everything but the newest entry was summarized, pins by rule kept."""
    pins = rule_pins(given, patterns, ())
    holding = dataclasses.replace(given, view=dataclasses.replace(given.view, pins=pins))
    plan = Summarize().plan(holding, Aim(goal=200, keep_recent=1, min_to_compress=1))
    assert isinstance(plan, FoldPlan)
    turned = holding.turned(plan.folds)
    return dataclasses.replace(turned, view=dataclasses.replace(turned.view, pins=()))


def _grown(given: Pages, *messages: Message) -> Pages:
    seq = given.view.last_seq
    entries = [
        Entry(seq + number, seq + number, message.role, estimate_message(message))
        for number, message in enumerate(messages, start=1)
    ]
    return Pages(View((*given.view.entries, *entries)), [*given.messages, *messages])


@pytest.mark.parametrize("language", ["en", "ja"])
def test_folds_carry_pinned_sections_on_and_on(language: str) -> None:
    section = "## 決定事項\n\n- SQLite を使う\n\n### 理由\n\n- 軽い"
    rule = "KEEP: never touch `build/`."
    long = "The tank was filled and the pump in `src/pump.py` was mended once more by hand, so it works. " * 30
    patterns = [*PRESERVED_PATTERNS, "^KEEP"]
    set_language(language)
    try:
        now = pages(Message("user", f"{rule}\n\n{section}"), Message("assistant", long), Message("user", "Go on."))
        sizes = []
        for turn in range(6):
            now = _folded(now, patterns)
            said = now.messages[0].text
            assert section in said
            assert rule in said
            assert said.count("SQLite を使う") <= 2
            sizes.append(sum(len(pin.line) for pin in rule_pins(now, patterns, ())))
            decided = f"We decided on round {turn}. We must not stop in round {turn}. {long}"
            now = _grown(now, Message("assistant", decided), Message("user", f"And {turn}?"))
    finally:
        set_language(None)
    assert max(sizes[1:]) == sizes[1], "what is pinned does not grow with every fold"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_headings_of_a_fold_are_its_own(language: str) -> None:
    set_language(language)
    try:
        notes = "Notes.\n\n## Decisions\n\n[1] we chose A\n\n## 決定事項\n\n[2] B\n\n## エラー\n\nE"
        message, folded = fold(notes)
        assert rule_pins(pages(message, folds={0: folded}), PRESERVED_PATTERNS, ()) == ()
        message, folded = fold(with_pinned_lines(notes, ["## 制約\n\nno network", "plain"]))
        (pin,) = rule_pins(pages(message, folds={0: folded}), PRESERVED_PATTERNS, ())
    finally:
        set_language(None)
    assert pin == Pin(1, "## 制約\n\nno network\nplain")


def test_lines_that_a_fold_quotes_are_pinned_there() -> None:
    message, folded = fold("Notes.\n\n[1] user: MUST stay\n\n[2] user: may go")
    assert rule_pins(pages(message, folds={0: folded}), ["MUST"], ()) == (Pin(1, "[1] user: MUST stay"),)


def test_a_role_is_not_the_role_of_a_fold() -> None:
    message, folded = fold("Notes.")
    assert rule_pins(pages(message, folds={0: folded}), (), ["system"]) == ()


# ---- properties --------------------------------------------------------------------------------------------------

_LINES = st.sampled_from(
    [
        "# Plan",
        "## Errors",
        "### エラー",
        "text",
        "",
        "```",
        "~~~",
        "  ```",
        "# x",
        "Errors",
        "===",
        "---",
        "- MUST",
        "\t#",
    ]
)
TEXTS = st.lists(_LINES, max_size=25).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)


@given(TEXTS, st.sampled_from([PRESERVED_PATTERNS, ("MUST",), (*PRESERVED_PATTERNS, "MUST")]))
def test_whatever_is_pinned_stands_in_the_message(text: str, patterns: tuple[str, ...]) -> None:
    found = pinned(text, patterns)
    assert all(part in text and part.strip() == part != "" for part in found)
    assert len(set(found)) == len(found)
    if "MUST" in patterns:
        assert text.count("MUST") == 0 or any("MUST" in part for part in found)
