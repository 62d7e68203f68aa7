"""Bulky tool results become previews that say where the whole text is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.toolbox import Offload
from orihon.texts import set_language
from orihon.values.message.message import Message, Part
from orihon.values.records import Fold, Pin
from tests.pages import PICTURE, checked, message, pages_of, tokens_of, turned, views_with_aims

LOG = "\n".join(f"line {number} of the output of a tool" for number in range(1, 101))


def batch(number: int, result: str = LOG) -> list[Message]:
    call = f"call_{number}"
    return [message("assistant", None, calls=[call]), message("tool", result, answers=call)]


def five_results() -> Pages:
    """Results at the places 2, 4, 6, 8 and 10."""
    return pages_of([message("user", "look around"), *(one for number in range(5) for one in batch(number))])


def preview_of(result: Message, *pins: Pin, **options: int) -> str:
    """The preview of a result that is message 3."""
    calling = message("assistant", None, calls=[result.tool_call_id or ""])
    plan = Offload(**options).plan(pages_of([message("user", "look"), calling, result], pins), Aim(0, keep_recent=0))
    assert isinstance(plan, FoldPlan)
    (fold,) = plan.folds
    assert (fold.start_seq, fold.end_seq, fold.form, fold.reason) == (3, 3, "preview", "offload")
    return fold.text


def folded_seqs(pages: Pages, aim: Aim) -> list[int]:
    plan = Offload().plan(pages, aim)
    return [fold.start_seq for fold in plan.folds] if isinstance(plan, FoldPlan) else []


def test_a_preview_has_both_ends_and_a_reference() -> None:
    assert preview_of(message("tool", LOG, answers="a"), head_lines=2, tail_lines=1).split("\n") == [
        "line 1 of the output of a tool",
        "line 2 of the output of a tool",
        "[… left out: 97 lines, 774 tokens; all of it: message 3]",
        "line 100 of the output of a tool",
    ]


def test_the_reference_in_japanese() -> None:
    set_language("ja")
    try:
        assert "[… 97行、774トークンを省略。全文: メッセージ3]" in preview_of(
            message("tool", LOG, answers="a"), head_lines=2, tail_lines=1
        )
    finally:
        set_language(None)


def test_error_lines_are_kept_with_a_mark_where_lines_are_missing() -> None:
    broken = LOG.replace("line 50 of", "error: line 50 of").replace("line 51 of", "エラー 51")
    shown = preview_of(message("tool", broken, answers="a"), head_lines=1, tail_lines=1).split("\n")
    assert shown[0] == "line 1 of the output of a tool"
    assert shown[1].startswith("[…")
    assert shown[2:5] == ["error: line 50 of the output of a tool", "エラー 51 the output of a tool", "…"]
    assert shown[5:] == ["line 100 of the output of a tool"]


def test_error_lines_give_way_when_they_are_the_whole_result() -> None:
    errors = "\n".join(f"error {number}: {'very bad ' * 20}" for number in range(9))
    shown = preview_of(message("tool", errors, answers="a"), head_lines=1, tail_lines=1, error_lines=9)
    assert shown.count("error") == 2


def test_pinned_lines_stay_word_for_word() -> None:
    long = "the one line " + "that matters " * 40
    pins = [Pin(3, long), Pin(3, "line 70 of the output"), Pin(3, "is not there any more")]
    shown = preview_of(message("tool", LOG.replace("line 60", f"{long}\nline 60"), answers="a"), *pins)
    assert all(pin.line in shown for pin in pins)


def test_a_result_of_one_endless_line_is_cut() -> None:
    shown = preview_of(message("tool", '{"items": [' + "1, " * 5000 + "]}", answers="a"))
    assert shown.startswith('{"items": [1, 1,')
    assert len(shown) < 400
    assert "all of it: message 3]" in shown


def test_pictures_are_counted() -> None:
    parts = (Part.of({"type": "text", "text": LOG}), PICTURE, PICTURE)
    result = replace(message("tool", None, answers="a"), parts=parts)
    assert "92 lines, 2 images," in preview_of(result)


@pytest.mark.parametrize(
    ("spare_results", "expected"),
    [(5, []), (4.5, [11]), (3.5, [9, 11]), (0.5, [3, 5, 7, 9, 11]), (0, [3, 5, 7, 9, 11])],
)
def test_only_as_many_as_needed_and_the_beginning_of_the_prompt_stays(
    spare_results: float, expected: list[int]
) -> None:
    pages = five_results()
    others = pages.tokens - 5 * tokens_of(pages, 2)
    assert folded_seqs(pages, Aim(others + int(spare_results * tokens_of(pages, 2)), keep_recent=0)) == expected


def test_of_those_behind_the_first_change_the_newest_stay_when_they_are_not_needed() -> None:
    small = "\n".join(LOG.split("\n")[:40])
    pages = pages_of([*batch(0), *batch(1, LOG * 20), *batch(2, small), *batch(3, small)])
    assert folded_seqs(pages, Aim(pages.tokens - tokens_of(pages, 3) // 2, keep_recent=0)) == [4]


def test_the_newest_are_left_alone_unless_nothing_may_be() -> None:
    pages = five_results()
    assert folded_seqs(pages, Aim(0, keep_recent=4)) == [3, 5, 7]
    assert folded_seqs(pages, Aim(0, keep_recent=0)) == [3, 5, 7, 9, 11]
    assert folded_seqs(pages, Aim(0, keep_recent=0, hands_off=((4, 7),))) == [3, 9, 11]
    pinned = replace(pages, view=replace(pages.view, pins=(Pin(9),)))
    assert folded_seqs(pinned, Aim(0, keep_recent=0)) == [3, 5, 7, 11]


def test_a_call_that_still_waits_does_not_keep_the_results_beside_it() -> None:
    pages = pages_of([message("assistant", None, calls=["a", "b"]), message("tool", LOG, answers="a")])
    assert folded_seqs(pages, Aim(0, keep_recent=0)) == [2]


def test_what_is_offloaded_already_is_not_offloaded_again() -> None:
    pages = five_results()
    long_preview = Fold(1, 3, 3, LOG, 0, 0, "preview", reason="offload")
    light = Fold(2, 5, 5, LOG, 0, 0, "preview", reason="sections:light")
    assert folded_seqs(turned(pages, [long_preview, light]), Aim(0, keep_recent=6)) == [5]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([message("user", LOG), message("assistant", LOG)], WhyNot.NOTHING_BULKY),
        (batch(1, "a short one"), WhyNot.NOTHING_BULKY),
        ([], WhyNot.GOAL_REACHED),
    ],
)
def test_nothing_to_offload(messages: list[Message], why: WhyNot) -> None:
    assert Offload().plan(pages_of(messages), Aim(0, keep_recent=0)) == NothingToFold("offload", why)


def test_a_result_whose_preview_would_be_half_of_it_stays() -> None:
    pages = pages_of(batch(1, LOG), [Pin(2, line) for line in LOG.split("\n")[:60]])
    assert Offload().plan(pages, Aim(0, keep_recent=0)) == NothingToFold("offload", WhyNot.NO_GAIN)


@settings(deadline=None)
@given(views_with_aims())
def test_any_view(case: tuple[Pages, Aim]) -> None:
    pages, aim = case
    offload = Offload(least_tokens=40, head_lines=2, tail_lines=2)
    folds = checked(offload, pages, aim)
    after = turned(pages, folds)
    for fold in folds:
        place = pages.view.index_of(fold.start_seq)
        assert fold.form == "preview"
        assert pages.messages[place].role == "tool"
        assert 2 * tokens_of(after, place) < tokens_of(pages, place)
        assert str(fold.start_seq) in fold.text
    if folds and after.tokens <= aim.goal:
        # Nothing that could be left out, and no set that leaves more of the beginning unchanged.
        assert all(pages.tokens_after(one for one in folds if one is not left) > aim.goal for left in folds)
        later = replace(aim, hands_off=(*aim.hands_off, (1, folds[0].start_seq)))
        assert pages.tokens_after(checked(offload, pages, later)) > aim.goal
    else:
        assert not checked(offload, after, aim)
