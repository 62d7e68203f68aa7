"""What a fold's text lost is counted, and its most valuable lines can be brought back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.notes.extractor import Extractor, FoldedRun
from orihon.compression.notes.facts import Fact, FactKind
from orihon.compression.notes.layout import binding_headings, noted_lines
from orihon.values.message.message import Message, ToolCall
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import estimate
from tests.helpers import count_exact

ENGLISH = [
    Message("user", "Make compute_total in shop/cart.py round. You must never change the price table."),
    Message("assistant", "", tool_calls=(ToolCall("c1", "shell", '{"command": "cat shop/cart.py"}'),)),
    Message("tool", "def compute_total(cart):\nValueError: no price for item_77", tool_call_id="c1", tool_name="shell"),
    Message("assistant", "I will call compute_total with Decimal because floats lose cents."),
    Message("user", "Go on."),
]
JAPANESE = [
    Message("user", "在庫の画面を作ってください。価格は必ず税込みで表示してください。"),
    Message("assistant", "データベースは PostgreSQL を採用することにしました。設定は conf/db.ini です。"),
    Message("user", "続けて。"),
]
CHINESE = [
    Message("user", "请写库存页面。价格必须含税,不要修改 inventory_items。"),
    Message("assistant", "我们决定采用 SQLite,路径是 data/shop.db。"),
    Message("user", "继续。"),
]


def extractor(messages: list[Message]) -> Extractor:
    return Extractor(messages, count_exact)


def everything(messages: list[Message]) -> FoldedRun:
    return FoldedRun(0, len(messages) - 1)


def whole_text(messages: list[Message]) -> str:
    calls = [f"{call.name} {call.arguments}" for message in messages for call in message.tool_calls]
    return "\n".join([*(message.text for message in messages), *calls])


@pytest.mark.parametrize(
    ("messages", "facts"),
    [
        (
            ENGLISH,
            [
                Fact(FactKind.PATH, "shop/cart.py"),
                Fact(FactKind.IDENTIFIER, "item_77"),
                Fact(FactKind.ERROR, "ValueError: no price for item_77"),
                Fact(FactKind.DECISION, "I will call compute_total with Decimal because floats lose cents."),
            ],
        ),
        (JAPANESE, [Fact(FactKind.PATH, "conf/db.ini"), Fact(FactKind.CONSTRAINT, JAPANESE[0].text)]),
        (CHINESE, [Fact(FactKind.PATH, "data/shop.db"), Fact(FactKind.CONSTRAINT, CHINESE[0].text)]),
    ],
)
def test_an_empty_text_loses_everything_and_the_run_itself_nothing(messages: list[Message], facts: list[Fact]) -> None:
    read = extractor(messages)
    nothing = read.report(everything(messages), "")
    assert nothing.kept == 0
    assert nothing.found == len(nothing.lost)
    assert [fact for fact in facts if fact not in nothing.lost] == []
    whole = read.report(everything(messages), whole_text(messages))
    assert (whole.found, whole.kept, whole.lost) == (nothing.found, nothing.found, ())


def test_constraints_come_first_and_then_what_the_agent_used_itself() -> None:
    lost = extractor(ENGLISH).report(everything(ENGLISH), "").lost
    assert lost[0] == Fact(FactKind.REQUEST, ENGLISH[0].text)
    order = [fact.text for fact in lost]
    assert order.index("compute_total") < order.index("item_77")


def test_a_models_summary_keeps_what_it_names_in_other_words() -> None:
    summary = (
        "- compute_total (shop/cart.py) fails.\n- Decimal in compute_total, because floats lose cents: I will call it."
    )
    lost = extractor(ENGLISH).report(everything(ENGLISH), summary).lost
    assert {fact.text for fact in lost} == {
        ENGLISH[0].text,
        "item_77",
        "ValueError: no price for item_77",
        "ValueError",
    }


def test_a_constraint_is_kept_only_when_it_is_quoted() -> None:
    read = extractor(ENGLISH)
    for text, is_lost in (
        ("You must change the price table never", True),
        ("1: You must never  change the price table.", False),
    ):
        lost = read.report(everything(ENGLISH), text).lost
        assert (Fact(FactKind.CONSTRAINT, ENGLISH[0].text) in lost) is is_lost


def test_what_stays_in_view_is_not_lost() -> None:
    again = [*ENGLISH, Message("assistant", "item_77 has no entry")]
    read = extractor(again)
    assert Fact(FactKind.IDENTIFIER, "item_77") in read.report(FoldedRun(0, 4), "").lost
    assert Fact(FactKind.IDENTIFIER, "item_77") not in read.report(FoldedRun(0, 4), "", stays=[5]).lost


def test_the_extractors_own_notes_are_measured_too() -> None:
    read = extractor(ENGLISH)
    run = everything(ENGLISH)
    (notes,) = read.fold_texts([run], read.selection(range(run.start, run.end), [4]), 400)
    assert read.report(run, notes, stays=[4]).lost == ()


@pytest.mark.parametrize(
    ("messages", "needed"),
    [
        (ENGLISH, ["Make compute_total in shop/cart.py round.", "You must never change the price table."]),
        (JAPANESE, ["価格は必ず税込みで表示してください。"]),
        (CHINESE, ["价格必须含税,不要修改 inventory_items。"]),
    ],
)
def test_lines_for_what_matters_are_quoted_under_headings(messages: list[Message], needed: list[str]) -> None:
    added = extractor(messages).rules_for_lost(everything(messages), "Work went on.", 200)
    title, heading, *_ = added.splitlines()
    assert str(len(messages) - 1) in title
    assert heading in binding_headings()
    assert [one for one in needed if one not in added] == []
    assert added.splitlines()[2].startswith("1 user: ")
    source = " ".join(whole_text(messages).split())
    assert all(line in source for line, *_ in noted_lines(SUMMARY_PREFIX + added, 0, 1))


def test_nothing_is_added_when_nothing_important_is_missing() -> None:
    read = extractor(ENGLISH)
    assert read.rules_for_lost(everything(ENGLISH), whole_text(ENGLISH), 200) == ""
    small_talk = [
        Message("user", "Hello there"),
        Message("assistant", "Good morning, how are you"),
        Message("user", "x"),
    ]
    assert extractor(small_talk).rules_for_lost(FoldedRun(0, 2), "", 200) == ""


def test_with_the_added_lines_the_constraints_are_no_longer_lost() -> None:
    read = extractor(ENGLISH)
    text = "Work went on."
    added = read.rules_for_lost(everything(ENGLISH), text, 200)
    after = read.report(everything(ENGLISH), f"{text}\n{added}")
    assert after.kept > read.report(everything(ENGLISH), text).kept
    assert not [fact for fact in after.lost if fact.kind is FactKind.CONSTRAINT]
    assert read.rules_for_lost(everything(ENGLISH), f"{text}\n{added}", 200) == ""


@pytest.mark.parametrize("messages", [ENGLISH, JAPANESE, CHINESE])
@pytest.mark.parametrize("room", [0, 5, 20, 40, 60])
def test_added_lines_keep_to_their_room(messages: list[Message], room: int) -> None:
    assert count_exact(extractor(messages).rules_for_lost(everything(messages), "", room)) <= room


def test_a_constraint_too_long_for_the_room_does_not_keep_the_others_out() -> None:
    long = "You must keep " + ", ".join(f"column {number}" for number in range(80))
    messages = [Message("user", f"{long}\nNever drop the index."), Message("assistant", "ok"), Message("user", "x")]
    added = extractor(messages).rules_for_lost(FoldedRun(0, 2), "", 60)
    assert "1 user: Never drop the index." in added
    assert "column 5" not in added


def test_only_what_a_user_demands_is_added_as_a_constraint() -> None:
    messages = [Message("system", "The listing is required."), Message("user", "Always ask."), Message("user", "x")]
    added = extractor(messages).rules_for_lost(FoldedRun(0, 2), "", 100)
    assert added == "Also from messages 1 to 2:\n## What the user said\n2 user: Always ask."


def test_bare_names_on_lines_of_their_own_are_read_together() -> None:
    messages = [Message("tool", "ERROR\nFATAL_STOP", tool_call_id="c", tool_name="shell"), Message("user", "x")]
    assert extractor(messages).report(FoldedRun(0, 1), "ERROR\nFATAL_STOP").lost == ()


def test_the_title_is_in_the_language_of_the_conversation() -> None:
    added = extractor(JAPANESE).rules_for_lost(FoldedRun(0, 2), "", 200)
    assert added.startswith("メッセージ 1 から 2 までの補足:\n## ユーザーの言葉\n1 user: ")
    assert [source.heading for _, source, *_ in noted_lines(SUMMARY_PREFIX + added, 0, 1)][:1] == ["said"]


TEXTS = st.text(st.sampled_from("abc_./ \n。、必ず价格must 1290#-:\"'\\{}"), max_size=120)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXTS), min_size=1, max_size=10),
    TEXTS,
    st.integers(0, 90),
)
def test_any_history_and_any_text(history: list[tuple[str, str]], text: str, room: int) -> None:
    messages = [Message(role, said) for role, said in history]
    read = Extractor(messages, estimate)
    run = FoldedRun(0, len(messages))
    report = read.report(run, text)
    assert report.found == report.kept + len(report.lost)
    assert read.report(run, "\n".join(message.text for message in messages)).lost == ()
    assert estimate(read.rules_for_lost(run, text, room)) <= room
