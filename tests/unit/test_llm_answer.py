"""What a model may answer: which texts are taken for a summary, in which form and length, and which are not."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.model.call import SummaryFailure
from orihon.compression.notes.extractor import summarize
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from tests.helpers import logged
from tests.unit.llm_models import (
    COUNT,
    GOOD,
    Model,
    failure,
    response,
    run_of_messages,
    summarizer,
)

# ---- answers that are not taken ---------------------------------------------------------------------------------


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RuntimeError("boom"), SummaryFailure.RAISED),
        (BrokenError(), SummaryFailure.RAISED),
        (TimeoutError("read"), SummaryFailure.TIMED_OUT),
        ("", SummaryFailure.EMPTY),
        (" \n\t", SummaryFailure.EMPTY),
        (None, SummaryFailure.EMPTY),
        ("<think>hm, UTF-8 in src/report.py", SummaryFailure.EMPTY),
        (response(None), SummaryFailure.EMPTY),
        (response("```\n```"), SummaryFailure.EMPTY),
        (17, SummaryFailure.NOT_TEXT),
        (b"bytes", SummaryFailure.NOT_TEXT),
        ({"choices": []}, SummaryFailure.NOT_TEXT),
        ({"choices": [{"text": GOOD}]}, SummaryFailure.NOT_TEXT),
        (response({"text": GOOD}), SummaryFailure.NOT_TEXT),
        (response(None, refusal="I will not"), SummaryFailure.REFUSED),
        ({"error": {"message": "overloaded", "code": 529}}, SummaryFailure.ERROR_TEXT),
    ],
    ids=repr,
)
def test_a_failure_is_typed_and_logged_once(
    answer: object, reason: SummaryFailure, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "orihon.compression")
    assert failure(answer) == reason
    (record,) = logged(caplog, "orihon.compression")
    assert reason in record.getMessage()


@pytest.mark.parametrize(
    "said",
    [
        "Error: connection refused",
        "ERROR - upstream: src/report.py",
        "An error occurred while processing src/report.py",
        "Error code: 401 - {'error': {'message': 'no'}}",
        "openai.APIConnectionError: Connection error.",
        "429 Too Many Requests",
        "HTTP 503: Service Unavailable",
        "HTTP/1.1 502 Bad Gateway",
        "500",
        "Rate limit reached for requests",
        "You exceeded your current quota, please check your plan",
        "The model is currently overloaded",
        "upstream connect error or disconnect/reset before headers",
        "Internal Server Error",
        'Traceback (most recent call last):\n  File "src/report.py", line 412\nUnicodeDecodeError: x',
        '{"error": {"message": "src/report.py"}}',
        '```json\n{"error": "src/report.py"}\n```',
        '{"detail": "Not Found"}',
        '{"object": "error", "message": "src/report.py", "n": 1}',
        "<!DOCTYPE html>\n<html><body>UnicodeDecodeError src/report.py</body></html>",
        "<html><head><title>504 Gateway Time-out</title></head></html>",
        "エラーが発生しました。src/report.py",
        "サーバーエラー：500",
        "リクエストが多すぎます",
        "错误：请求失败",
    ],
)
def test_an_error_text_is_no_summary(said: str) -> None:
    assert failure(said) == SummaryFailure.ERROR_TEXT


@pytest.mark.parametrize(
    "said",
    [
        "I'm sorry, I can't help with src/report.py.",
        "I’m sorry, but I can’t summarise this.",
        "Sorry, UnicodeDecodeError is beyond me",
        "I cannot assist with that request.",
        "As an AI language model, I do not read src/report.py",
        "申し訳ありませんが、src/report.py の要約はできません。",
        "すみません、お手伝いできません。",
        "その会話は要約できません。",
        "抱歉,我无法总结 src/report.py",
    ],
)
def test_a_refusal_is_no_summary(said: str) -> None:
    assert failure(said) == SummaryFailure.REFUSED


@pytest.mark.parametrize(
    "said",
    [
        "## Problems\nError: UnicodeDecodeError in test_export",
        "The exporter failed with UnicodeDecodeError; fixed with encoding='utf-8'.",
        "- 412 server lines of src/report.py were exported\n- Errors of test_export are figures",
        "## Goal\nI'm sorry to say that src/report.py is broken",
        '{"goal": "src/report.py must write UTF-8"}',
        "src/report.py は UTF-8 で書き出すことに決定。要約できました。",
        "UTF-8 in the exporter; the parser drops </think> now",
    ],
)
def test_a_summary_that_speaks_of_errors_is_one(said: str) -> None:
    asking = summarizer(Model(said))
    assert asking.summarize(run_of_messages(), 150) == said, asking.last_failure


@pytest.mark.parametrize(
    "said",
    [
        "Take two eggs, some flour and a little milk, and bake a cake for twenty minutes.",
        "Here is the summary of the conversation between the user and the agent: there were no decisions.",
        "## Goal\n1 user: bake a cake\n## Open tasks\n2 user: buy flour",
        "昨日は山に登って、とても楽しかった。",
        "🙂🙂🙂",
    ],
)
def test_an_answer_to_something_else_is_no_summary(said: str) -> None:
    assert failure(said) == SummaryFailure.UNRELATED


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("設定ファイルは日本語のまま残し、テストは必ず実行してください。", "## 制約\n1 user: 設定ファイルは残す"),
        ("我们决定采用新的数据库方案。", "数据库方案已定"),
        ("Миграция базы данных закончена, проверьте журнал.", "Закончена миграция."),
        ("하지만 데이터베이스는 유지해야 합니다", "데이터베이스 유지"),
        ("👍 👍 👍 👍 👍 👍 👍 👍 👍 👍 👍 👍 👍 👍 👍", "The user agrees."),
    ],
)
def test_a_summary_in_any_language_belongs_to_its_record(content: str, said: str) -> None:
    asking = summarizer(Model(said))
    messages = [Message("user", content), Message("assistant", content)]
    assert asking.summarize(messages, 100) == said, asking.last_failure


# ---- length -----------------------------------------------------------------------------------------------------


def lines_of_tokens(tokens: int) -> str:
    """A summary of about so many tokens, counted with the prefix."""
    lines: list[str] = []
    while COUNT(SUMMARY_PREFIX + "\n".join(lines)) < tokens:
        lines.append(f"{len(lines)} user: src/report.py step {len(lines)}")
    return "\n".join(lines)


def test_an_answer_a_little_too_long_is_cut_back_at_a_line_end() -> None:
    answer = lines_of_tokens(120)
    written = summarizer(Model(answer)).summarize(run_of_messages(padding=20), 100)
    assert written is not None
    assert COUNT(SUMMARY_PREFIX + written) <= 100
    assert answer.startswith(written + "\n")


def test_a_heading_does_not_stay_alone_at_the_end() -> None:
    answer = lines_of_tokens(90) + "\n## Open tasks\n" + "7 user: src/report.py " * 3
    assert 100 < COUNT(SUMMARY_PREFIX + answer) <= 125
    assert summarizer(Model(answer)).summarize(run_of_messages(padding=20), 100) == lines_of_tokens(90)


@pytest.mark.parametrize("answer", [lines_of_tokens(135), "src/report.py " * 38, "src/report.py\n" + "word " * 105])
def test_an_answer_far_too_long_or_without_line_ends_is_refused(answer: str) -> None:
    asking = summarizer(Model(answer))
    assert COUNT(SUMMARY_PREFIX + answer) > 100
    assert asking.summarize(run_of_messages(padding=20), 100) is None
    assert asking.last_failure == SummaryFailure.TOO_LONG


def test_an_answer_longer_than_its_input_is_refused() -> None:
    asking = summarizer(Model(lines_of_tokens(200)))
    assert asking.summarize(run_of_messages(padding=0), 4000) is None
    assert asking.last_failure == SummaryFailure.LONGER_THAN_INPUT


def test_an_answer_that_the_server_cut_off_loses_its_last_line() -> None:
    asking = summarizer(Model(response(GOOD + "\n## Look up\n3: src/rep", "length")))
    assert asking.summarize(run_of_messages(), 150) == GOOD
    assert failure(response("The exporter in src/rep", "length")) == SummaryFailure.TOO_LONG
    assert failure(response("The record of the user\nThe exporter in src/rep", "length")) == SummaryFailure.UNRELATED


@settings(deadline=None)
@given(answer=st.text(max_size=400), cut=st.booleans())
def test_whatever_is_answered_the_limit_holds(answer: str, cut: bool) -> None:
    asking = summarizer(Model(response(answer + " UTF-8", "length" if cut else "stop")))
    written = asking.summarize(run_of_messages(), 60)
    assert (written is None) == (asking.last_failure is not None)
    if written is not None:
        assert COUNT(SUMMARY_PREFIX + written) <= 60
        assert written.encode()
        assert written.strip()


# ---- form -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        f"<think>\nThe user wants …\n</think>\n\n{GOOD}",
        f"<thinking>a</thinking><think>b</think>{GOOD}",
        f"The user wants a summary.\n</think>\n{GOOD}",
        f"So I write it.</think>\n\n{GOOD}",
        f"```markdown\n{GOOD}\n```",
        f"```\n{GOOD}\n```\n",
        f"<think>x</think>\n```md\n{GOOD}\n```",
        SUMMARY_PREFIX + GOOD,
        f"=====\n\n=== Summary ===\n{GOOD}",
        GOOD.replace("## Goal", "**Goal:**").replace("## Problems", "### problems"),
        GOOD.replace("## Goal", "1. Goal").replace("## Problems", "2. **Problems**:"),
        GOOD.replace("## Goal\n3 user: ", "# Goal: 3 user: "),
        GOOD.replace("3 user:", "- [3 USER]:").replace("5 run_tests:", "[5 TOOL run_tests]:"),
        GOOD.replace("3 user:", "- 3 user:").replace("5 run_tests:", "* 5 run_tests:"),
    ],
)
def test_what_is_not_the_summary_is_taken_off(raw: str) -> None:
    assert summarizer(Model(raw)).summarize(run_of_messages(), 150) == GOOD


@pytest.mark.parametrize(
    "raw",
    [
        "```python\nopen('src/report.py')\n```",
        "```\nsrc/report.py\n```\nand then\n```\nUTF-8\n```",
        "Notes\n- src/report.py",
        "`src/report.py` has the goal: UTF-8",
    ],
)
def test_what_belongs_to_the_summary_stays(raw: str) -> None:
    assert summarizer(Model(raw)).summarize(run_of_messages(), 150) == raw


def test_code_inside_a_fenced_answer_keeps_its_fence() -> None:
    inner = "src/report.py now has\n```python\nopen(p, encoding='utf-8')\n```\nin it"
    assert summarizer(Model(f"```markdown\n{inner}\n```")).summarize(run_of_messages(), 150) == inner


def test_a_model_in_a_loop_says_it_once() -> None:
    loop = "src/report.py: the next job runs the test again.\n" * 9
    said = "src/report.py must write UTF-8\n```\n)\n)\n```\n"
    answer = response(said + loop + "src/report.py: the next j", "length")
    assert summarizer(Model(answer)).summarize(run_of_messages(), 150) == said + loop.splitlines()[0]


@pytest.mark.parametrize("heading", ["## Constraints", "**Constraints**", "## 制約", "制約："])
def test_a_later_fold_merges_the_answer_line_by_line(heading: str) -> None:
    written = summarizer(Model(f"{heading}\n[7 USER]: src/report.py must stay ASCII")).summarize(run_of_messages(), 150)
    assert written is not None
    merged = summarize([Message("user", "Go on with src/report.py")], 200, seqs=[20], earlier=written)
    assert "## What the user said\n7 user: src/report.py must stay ASCII" in merged
