"""The extractive summarizer quotes what will be needed, within its budget, in any language."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.notes.extractor import Extractor, FoldedRun, summarize
from orihon.compression.notes.layout import noted_lines
from orihon.compression.notes.reader import call_text
from orihon.texts import speaking
from orihon.values.message.message import Message, ToolCall
from orihon.values.records import SUMMARY_PREFIX
from tests.helpers import count_exact


def call(number: int, name: str, arguments: str) -> Message:
    return Message("assistant", "", tool_calls=(ToolCall(f"c{number}", name, arguments),))


def answer(number: int, text: str) -> Message:
    return Message("tool", text, tool_call_id=f"c{number}", tool_name="shell")


NOISE = "\n".join(f"checking module number {number} of the listing, nothing to report here" for number in range(300))

CODING = [
    Message("user", "Make compute_total in shop/cart.py round to two digits.\nYou must never change the price table."),
    call(1, "shell", '{"command": "cat shop/cart.py"}'),
    answer(1, f"{NOISE}\ndef compute_total(cart, tax_rate):\n    return sum(cart.lines) * tax_rate\n{NOISE}"),
    Message("assistant", "I will use Decimal in compute_total because floats lose cents."),
    call(2, "write", '{"path": "shop/cart.py", "text": "from decimal import Decimal\\nCENT = Decimal(\\"0.01\\")"}'),
    answer(2, "ok"),
    call(3, "shell", '{"command": "pytest tests/test_cart.py"}'),
    answer(3, f"{NOISE}\nTypeError: unsupported operand for compute_total: Decimal and float"),
    Message("assistant", "Next: convert tax_rate to Decimal in compute_total."),
]
JAPANESE = [
    Message("user", "在庫管理の画面を作ってください。価格は必ず税込みで表示してください。"),
    Message("assistant", "こんにちは。よろしくお願いします。"),
    Message("user", "データベースは PostgreSQL 16 を採用することにしました。"),
    *[Message("assistant", f"はい、{number}番目の確認です。") for number in range(60)],
]
CHINESE = [
    Message("user", "请写一个库存页面。价格必须含税,不要修改数据库 inventory_items。"),
    *[Message("assistant", f"好的,这是第{number}次确认。") for number in range(60)],
]


FRENCH = [Message("user", "Le programme ne fonctionne plus depuis hier soir, il faut corriger la fonction. " * 6)]


def source_texts(messages: list[Message]) -> str:
    calls = [call_text(one.name, one.arguments) for message in messages for one in message.tool_calls]
    return " ".join("\n".join([*(message.text for message in messages), *calls]).split())


def test_what_matters_of_a_coding_task_survives() -> None:
    notes = summarize(CODING, 300)
    for needed in (
        "Make compute_total in shop/cart.py round to two digits.",
        "You must never change the price table.",
        "def compute_total(cart, tax_rate):",
        "TypeError: unsupported operand for compute_total: Decimal and float",
        "Next: convert tax_rate to Decimal in compute_total.",
    ):
        assert needed in notes
    assert notes.count("nothing to report here") < 10


def test_lines_stand_under_headings_with_number_and_speaker() -> None:
    notes = summarize(CODING, 400, seqs=range(11, 20))
    assert notes.startswith("Notes on messages 11 to 19")
    asked = "Make compute_total in shop/cart.py round to two digits.\nYou must never change the price table."
    assert f"## What the user said\n11 user: {asked}" in notes
    assert "## Problems\n17 shell: pytest tests/test_cart.py → TypeError: unsupported operand" in notes
    assert "## Open tasks\n19 assistant: Next: convert" in notes
    assert "15 write: shop/cart.py: " in notes


@pytest.mark.parametrize(
    ("messages", "needed"),
    [
        (JAPANESE, ["価格は必ず税込みで表示してください。", "データベースは PostgreSQL 16 を採用することにしました。"]),
        (CHINESE, ["不要修改数据库 inventory_items。"]),
    ],
)
def test_japanese_and_chinese(messages: list[Message], needed: list[str]) -> None:
    notes = summarize(messages, 160)
    assert [one for one in needed if one not in notes] == []


@pytest.mark.parametrize(
    ("messages", "heading"),
    [
        (CODING, "## What the user said\n"),
        (JAPANESE, "## ユーザーの言葉\n"),
        (CHINESE, "## 用户说的话\n"),
        (
            [Message("user", "Le programme ne fonctionne plus depuis hier soir, il faut corriger la fonction. " * 6)],
            "## >\n",
        ),
    ],
)
@pytest.mark.parametrize("spoken", ["en", "ja"])
def test_headings_speak_the_language_of_the_conversation(messages: list[Message], heading: str, spoken: str) -> None:
    with speaking(spoken):
        assert heading in summarize(messages, 200)


def test_an_earlier_summary_is_merged_line_by_line() -> None:
    first = summarize(CODING, 400)
    later = [Message("user", "Now do the same for refund_total in shop/refund.py.")]
    merged = summarize(later, 450, seqs=[30], earlier=first)
    assert "You must never change the price table." in merged.partition("## What the user said\n1 user: ")[2]
    assert "30 user: Now do the same for refund_total" in merged
    assert merged.count("Notes on messages") == 1


def test_notes_are_read_back_as_they_were_written() -> None:
    notes = summarize(CODING, 400)
    read = noted_lines(SUMMARY_PREFIX + notes, 0, 1)
    lines = {
        (source.seq, source.speaker, source.heading, text.partition(" → ")[2] or text) for text, source, *_ in read
    }
    assert (1, "user", "said", "You must never change the price table.") in lines
    assert (7, "shell", "problems", "TypeError: unsupported operand for compute_total: Decimal and float") in lines


def test_what_the_rest_of_the_view_shows_is_not_said_again() -> None:
    names = [f"handle_{word}" for word in ("login", "logout", "signup", "reset", "invite", "export")]
    lines = [f"the function {name} is defined in the module of accounts" for name in names]
    run = [call(1, "shell", '{"command": "grep"}'), answer(1, "\n".join(lines))]
    assert lines[0] in summarize(run, 80)
    assert lines[0] not in summarize(run, 80, after=[Message("assistant", lines[0])])


def test_what_the_agent_used_before_is_kept_first() -> None:
    names = [f"handle_{word}" for word in ("login", "logout", "signup", "reset", "invite", "export")]
    lines = [f"the function {name} is defined in the module of accounts" for name in names]
    used = [call(2, "shell", '{"command": "grep -n handle_invite"}'), answer(2, "nothing")]
    notes = summarize([call(1, "shell", "{}"), answer(1, "\n".join(lines)), *used], 70)
    assert "handle_invite" in notes
    assert "handle_signup" not in notes


def test_open_tasks_and_decisions_go_before_lines_that_only_differ_in_a_number() -> None:
    notes = summarize(CODING, 200)
    assert "I will use Decimal in compute_total because floats lose cents." in notes
    assert "Next: convert tax_rate to Decimal in compute_total." in notes


def test_hints_never_break_the_budget_when_no_line_fits() -> None:
    name = "_".join(["名前part"] * 120)
    extractor = Extractor([Message("assistant", f"{name}/{name[:300]}/x{'甲乙丙丁' * 60}")], count_exact)
    for room in (40, 250, 260, 300):
        (text,) = extractor.fold_texts([FoldedRun(0, 1)], extractor.selection([0], []), room)
        assert count_exact(SUMMARY_PREFIX + text) <= room


def test_runs_that_are_folded_apart_share_the_room() -> None:
    extractor = Extractor(CODING, count_exact)
    runs = [FoldedRun(0, 4), FoldedRun(5, 9)]
    texts = extractor.fold_texts(runs, extractor.selection({*range(9)} - {4}, {4}), 200, overhead=4)
    assert [text.split(",")[0] for text in texts] == ["Notes on messages 1 to 4", "Notes on messages 6 to 9"]
    assert sum(count_exact(SUMMARY_PREFIX + text) + 4 for text in texts) <= 200
    assert "compute_total in shop/cart.py" in texts[0]
    assert "TypeError" in texts[1]


def test_bare_names_stand_together_with_their_neighbours() -> None:
    listing = "class Colour:\n    RED = 1\n    GREEN = 2\n    BLUE = 3\n\ndone with the whole list"
    assert "class Colour: RED = 1 GREEN = 2 BLUE = 3\n" in summarize([answer(1, listing)], 80) + "\n"


@pytest.mark.parametrize("messages", [CODING, JAPANESE, CHINESE])
@pytest.mark.parametrize("tokens", [0, 10, 40, 100, 1000, 100_000])
def test_never_over_budget_and_never_invented(messages: list[Message], tokens: int) -> None:
    notes = summarize(messages, tokens)
    assert not notes or count_exact(SUMMARY_PREFIX + notes) <= tokens
    source = source_texts(messages)
    for line, *_ in noted_lines(SUMMARY_PREFIX + notes, 0, 1):
        quoted = re.sub(r"(?: \(\d+ ×.*\)|…)$", "", line)
        assert all(part.strip("…") in source for part in re.split(r" … | → |: |; | [+-] ", quoted)), line
    assert notes == summarize(messages, tokens)


TEXTS = st.text(st.sampled_from("abc_./ \n。、必ず价格1290#-:\"'\\{}"), max_size=120)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXTS), max_size=12), st.integers(0, 300))
def test_any_history(history: list[tuple[str, str]], tokens: int) -> None:
    messages = [Message(role, text) for role, text in history]
    notes = summarize(messages, tokens)
    assert not notes or count_exact(SUMMARY_PREFIX + notes) <= tokens
