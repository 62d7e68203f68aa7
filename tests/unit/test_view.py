"""The fold algebra: every seq once, rules where a history may be cut, exact undo."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import BudgetExceeded, IllegalFold, NothingToUndo
from orihon.values.records import Compression, Fold, Pin
from orihon.values.view import (
    Change,
    Entry,
    PlannedFold,
    View,
    apply,
    check_protected,
    check_still_legal,
    compress,
    covering,
    edit,
    foldable_runs,
    history,
    layout,
    ordered,
    redo,
    reveal,
    site,
    undo,
    unfold,
)
from tests.helpers import refused


def fold(number: int, start: int, end: int, text: str = "text", **more: object) -> Fold:
    return replace(Fold(number, start, end, text, tokens=1, original_tokens=10), **more)  # type: ignore[arg-type]


def view_of(roles: str, pins: tuple[Pin, ...] = ()) -> View:
    """One letter a message: s system, d developer, u user, a assistant, c and C with one or two calls, t result."""
    entries: list[Entry] = []
    waiting: list[str] = []
    for seq, letter in enumerate(roles, start=1):
        calls = tuple(f"call_{seq}_{k}" for k in range({"c": 1, "C": 2}.get(letter, 0)))
        answers = waiting.pop(0) if letter == "t" else None
        if calls:
            waiting = list(calls)
        role = {"s": "system", "d": "developer", "u": "user", "t": "tool"}.get(letter, "assistant")
        entries.append(Entry(seq, seq, role, 10, calls=calls, answers=answers))
    return View(tuple(entries), pins)


def plan(start: int, end: int, text: str = "text", **more: object) -> PlannedFold:
    return replace(PlannedFold(start, end, text), **more)  # type: ignore[arg-type]


def test_layout_names_every_seq_once() -> None:
    assert list(layout(10, [fold(1, 2, 4), fold(2, 7, 10)])) == [(1, 1), fold(1, 2, 4), (5, 6), fold(2, 7, 10)]
    assert list(layout(3, [])) == [(1, 3)]
    assert list(layout(0, [])) == []


@given(st.integers(0, 60), st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=8))
def test_layout_covers_the_log_exactly_once(last: int, spots: list[tuple[int, int]]) -> None:
    folds: list[Fold] = []
    end = 0
    for number, (start, more) in enumerate(sorted(spots), start=1):
        if end < start and start + more <= last:
            folds.append(fold(number, start, start + more))
            end = start + more
    seen = [
        seq
        for item in layout(last, folds)
        for seq in (range(item.start_seq, item.end_seq + 1) if isinstance(item, Fold) else range(item[0], item[1] + 1))
    ]
    assert seen == list(range(1, last + 1))


def test_ordered_refuses_overlaps_and_runs_outside_the_log() -> None:
    assert ordered([fold(2, 5, 6), fold(1, 1, 4)], 6) == (fold(1, 1, 4), fold(2, 5, 6))
    for bad in ([fold(1, 1, 4), fold(2, 4, 5)], [fold(1, 1, 7)], [fold(1, 3, 2)]):
        with refused(IllegalFold, "overlap"):
            ordered(bad, 6)


@pytest.mark.parametrize(
    ("roles", "start", "end", "reason"),
    [
        ("suuu", 1, 3, "system_head"),
        ("sduu", 2, 3, "system_head"),
        ("sucta", 2, 3, "tool_batch"),
        ("sucta", 4, 5, "tool_batch"),
        ("suCtta", 3, 4, "tool_batch"),
        ("sucta", 2, 9, "outside"),
        ("sucta", 0, 2, "outside"),
        ("sucta", 4, 3, "outside"),
        ("suaC", 2, 4, "open_calls"),
        ("suaCt", 2, 5, "open_calls"),
    ],
)
def test_each_rule_names_itself(roles: str, start: int, end: int, reason: str) -> None:
    with refused(IllegalFold, reason):
        site(view_of(roles), plan(start, end))


def test_later_system_messages_are_ordinary_ones() -> None:
    assert site(view_of("susu"), plan(2, 3)) == (1, 3)


def test_a_pinned_message_is_not_folded_and_a_pinned_line_must_be_in_the_text() -> None:
    view = view_of("suua", (Pin(3), Pin(2, "never use tabs")))
    with refused(IllegalFold, "pinned"):
        site(view, plan(2, 4, "never use tabs"))
    with refused(IllegalFold, "drops_line"):
        site(view, plan(2, 2))
    assert site(view, plan(2, 2, "- never use tabs")) == (1, 2)


def test_a_fold_needs_a_text_and_takes_other_folds_whole() -> None:
    with refused(IllegalFold, "no_text"):
        site(view_of("suu"), plan(2, 3, " \n"))
    inner = fold(1, 2, 3)
    view = View((Entry(1, 1, "user", 5), Entry(2, 3, "system", 1, inner), Entry(4, 4, "user", 5)))
    with refused(IllegalFold, "splits_fold"):
        site(view, plan(3, 4))
    change = compress(view, [(plan(1, 4), fold(2, 1, 4))])
    assert change.removed == (inner,)
    assert change.added[0].replaces == (1,)
    assert change.added[0].original_tokens == 11


def test_a_preview_stands_for_one_message_and_may_stand_in_a_tool_batch() -> None:
    view = view_of("suct")
    assert site(view, plan(4, 4, form="preview")) == (3, 4)
    with refused(IllegalFold, "preview_of_many"):
        site(view, plan(2, 3, form="preview"))
    with refused(IllegalFold, "system_head"):
        site(view, plan(1, 1, form="preview"))


def test_two_planned_folds_must_not_overlap() -> None:
    with refused(IllegalFold, "overlap"):
        compress(view_of("suuuu"), [(plan(2, 4), fold(1, 2, 4)), (plan(4, 5), fold(2, 4, 5))])


def test_foldable_runs_stop_at_head_pins_and_open_calls() -> None:
    assert foldable_runs(view_of("sucttaua".replace("tt", "t"))) == [(2, 7)]
    assert foldable_runs(view_of("suuuu", (Pin(3),))) == [(2, 2), (4, 5)]
    assert foldable_runs(view_of("suauct", (Pin(6),))) == [(2, 4)]
    assert foldable_runs(view_of("suac")) == [(2, 3)]
    assert foldable_runs(view_of("sucta"), up_to=3) == [(2, 2)]
    assert foldable_runs(view_of("ss")) == []


@given(st.text(alphabet="sduact", max_size=30), st.data())
def test_every_foldable_run_is_legal(roles: str, data: st.DataObject) -> None:
    view = _sane(roles)
    pins = data.draw(st.lists(st.integers(1, max(1, view.last_seq)), max_size=3)) if view.last_seq else []
    view = replace(view, pins=tuple(Pin(seq) for seq in sorted(set(pins))))
    up_to = data.draw(st.integers(0, len(view.entries)))
    for start, end in foldable_runs(view, up_to):
        first, last = site(view, plan(start, end))
        assert last <= up_to or up_to == 0
        assert first < last


def _sane(roles: str) -> View:
    """Results only after calls, as the log admits them."""
    kept, waiting = "", 0
    for letter in roles:
        if letter == "t" and not waiting:
            continue
        if waiting and letter != "t":
            kept, waiting = kept + "t" * waiting, 0
        waiting = waiting - 1 if letter == "t" else int(letter == "c")
        kept += letter
    return view_of(kept)


def test_protected_text_that_does_not_fit_is_named() -> None:
    view = view_of("ssuu", (Pin(4), Pin(1)))
    assert check_protected(view, 30) == 30
    with pytest.raises(BudgetExceeded) as caught:
        check_protected(view, 29)
    assert caught.value.fields == {"system": 20, "pinned": 10, "seqs": "4", "budget": 29}


def test_unfold_edit_and_reveal() -> None:
    inner, outer = fold(1, 2, 3), fold(2, 2, 6, replaces=(1,))
    assert unfold(outer, {1: inner}) == Change((inner,), (outer,))
    new = edit(outer, fold(3, 2, 6, "better"))
    assert new.added[0].replaces == (1,)
    view = View((Entry(1, 1, "user", 1), Entry(2, 6, "system", 1, outer)))
    assert reveal(view, 1, {}) == Change()
    assert reveal(view, 5, {1: inner}) == Change((inner,), (outer,))
    assert reveal(view, 2, {1: inner}) == Change((), (outer,))


def test_undo_and_redo_swap_the_same_folds() -> None:
    inner, outer = fold(1, 2, 3), fold(2, 2, 6, replaces=(1,))
    folds = {1: inner, 2: outer}
    record = Compression(2, "compress", folds=(2,), removed=(1,))
    back = undo(record, [outer], folds)
    assert back == Change((inner,), (outer,))
    assert apply([outer], back, 6) == (inner,)
    assert redo(record, [inner], folds) == Change((outer,), (inner,))


def test_a_fold_that_was_folded_again_cannot_be_undone_first() -> None:
    inner, outer = fold(1, 2, 3), fold(2, 2, 6, replaces=(1,))
    with refused(NothingToUndo, "changed_since"):
        undo(Compression(1, "compress", folds=(1,)), [outer], {1: inner})


def test_what_a_pin_has_opened_counts_as_undone() -> None:
    one, two = fold(1, 2, 3), fold(2, 5, 6)
    record = Compression(1, "compress", folds=(1, 2))
    assert undo(record, [two], {1: one, 2: two}) == Change((), (two,))
    with refused(NothingToUndo, "already"):
        undo(record, [], {1: one, 2: two})


def test_a_fold_does_not_come_back_over_a_new_pin() -> None:
    view = view_of("suu", (Pin(2),))
    with refused(IllegalFold, "pinned"):
        check_still_legal(view, Change(added=(fold(1, 2, 3),)))
    check_still_legal(replace(view, pins=(Pin(2, "line"),)), Change(added=(fold(1, 2, 3, "a line"),)))


def test_history_keeps_what_can_be_undone_and_redone() -> None:
    records = [
        Compression(1, "compress"),
        Compression(2, "compress"),
        Compression(3, "undo", parent=2),
        Compression(4, "pin"),
        Compression(5, "undo", parent=1),
        Compression(6, "redo", parent=1),
    ]
    assert history(records) == ([1], [2])
    assert history([*records, Compression(7, "unfold")]) == ([1, 7], [])


def test_covering_finds_the_fold_of_a_seq() -> None:
    folds = (fold(1, 2, 3), fold(2, 6, 9))
    assert [covering(folds, seq) for seq in (1, 2, 4, 9)] == [None, folds[0], None, folds[1]]
