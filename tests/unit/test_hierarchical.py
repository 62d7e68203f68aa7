"""Four fields, with any model or none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orihon.classic.intelligent_summarizer import IntelligentSummarizer

FIELDS = {"high_level", "key_decisions", "code_changes", "pending_tasks"}

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "TODO: never a task"},
    {"role": "user", "content": "Make the parser faster."},
    {
        "role": "assistant",
        "content": "I looked around. We decided to use a table because it is small.",
        "tool_calls": [
            {
                "id": "1",
                "type": "function",
                "function": {"name": "write_file", "arguments": '{"path": "src/parser.py"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "ok; we decided to use nothing"},
    {"role": "assistant", "content": "I updated tests/test_parser.py too.\n- [ ] measure it\nTODO: changelog"},
]

JAPANESE: list[dict[str, Any]] = [
    {"role": "user", "content": "パーサーを速くしてください。"},
    {
        "role": "assistant",
        "content": "検討の結果、表を採用しました。src/parser.py を修正しました。残タスクは計測です。",
    },
]


class Model:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.notes = ""

    def send_system_prompt(self, prompt: str) -> None:
        assert "JSON" in prompt

    def send_user_message(self, message: str) -> None:
        self.notes = message

    def get_response(self) -> tuple[str, list[Any]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, []


def test_without_a_model_everything_is_quoted() -> None:
    summary = IntelligentSummarizer().create_hierarchical_summary(MESSAGES)
    assert summary.keys() == FIELDS
    assert summary["high_level"].startswith("Make the parser faster.\n")
    assert summary["key_decisions"] == ["a table"]
    assert summary["code_changes"] == ["write_file: src/parser.py", "I updated tests/test_parser.py too."]
    assert summary["pending_tasks"] == ["measure it", "TODO: changelog"]


def test_the_same_in_japanese() -> None:
    summary = IntelligentSummarizer(None).create_hierarchical_summary(JAPANESE)
    assert summary["key_decisions"] == ["表"]
    assert summary["code_changes"] == ["src/parser.py を修正しました。"]
    assert summary["pending_tasks"] == ["残タスクは計測です。"]


def test_a_model_writes_the_fields() -> None:
    answer = {"high_level": " fast ", "key_decisions": ["table"], "code_changes": ["parser"], "pending_tasks": []}
    model = Model("Here you are:\n```json\n" + json.dumps(answer) + "\n```")
    summary = IntelligentSummarizer(model).create_hierarchical_summary(MESSAGES)
    assert summary == {**answer, "high_level": "fast"}
    assert "Make the parser faster." in model.notes


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no JSON",
        "{",
        "[1]",
        "{" * 5000,
        '{"high_level": 3, "key_decisions": "x"}',
        '{"a": [1]}',
        RuntimeError("down"),
    ],
    ids=lambda answer: str(answer)[:10],
)
def test_a_model_that_fails_costs_nothing(answer: str | Exception) -> None:
    by_rule = IntelligentSummarizer().create_hierarchical_summary(MESSAGES)
    assert IntelligentSummarizer(Model(answer)).create_hierarchical_summary(MESSAGES) == by_rule


def test_a_missing_field_is_made_good_by_rule() -> None:
    summary = IntelligentSummarizer(
        Model('{"high_level": "x", "key_decisions": ["y", 1]}')
    ).create_hierarchical_summary(MESSAGES)
    assert summary["high_level"] == "x"
    assert summary["key_decisions"] == ["a table"]


def test_no_messages_and_odd_messages() -> None:
    summarizer = IntelligentSummarizer(Model("unused"))
    assert summarizer.create_hierarchical_summary([]) == {
        "high_level": "",
        "key_decisions": [],
        "code_changes": [],
        "pending_tasks": [],
    }
    odd: list[dict[str, Any]] = [
        {},
        {"role": "wizard", "content": 3},
        {"role": "user", "tool_calls": [None, {"function": 1}]},
    ]
    assert summarizer.create_hierarchical_summary(odd)["high_level"] == ""
    assert summarizer.identify_important_messages([]) == []


def test_important_messages_are_named_by_their_id_or_place() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "approval denied: the error in the plan must go first", "seq": 7},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "[TASK] the error is back, approval pending"},
    ]
    assert IntelligentSummarizer().identify_important_messages(messages) == [7, 3]
