"""Stretches of a conversation: whatever is folded, going through it in either direction shows everything once."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from orihon.values.records import Fold
from orihon.values.view import SeqRange, layout
from orihon.web.conversation import ConversationRange, spans_after, spans_before


def fold(number: int, first: int, last: int, form: str = "summary") -> Fold:
    return Fold(number, first, last, "text", 1, 2, form=form)  # type: ignore[arg-type]  # one of the two


@st.composite
def runs(draw: st.DrawFn) -> ConversationRange:
    """A log with folds that do not overlap; previews stand for one message each."""
    last = draw(st.integers(1, 60))
    folds: list[Fold] = []
    at = 1
    while at <= last and draw(st.booleans()):
        start = draw(st.integers(at, last))
        is_preview = draw(st.booleans())
        end = start if is_preview else draw(st.integers(start, last))
        folds.append(fold(len(folds) + 1, start, end, "preview" if is_preview else "summary"))
        at = end + 1
    return ConversationRange(1, last, tuple(folds))


def items(spans: list[SeqRange | Fold]) -> Iterator[int | str]:
    """Messages by their numbers, folds by theirs."""
    for span in spans:
        if isinstance(span, Fold):
            yield f"fold {span.id}"
        else:
            yield from range(span[0], span[1] + 1)


def told(run: ConversationRange) -> list[int | str]:
    return list(items(list(layout(run.last, run.summaries))))


@given(runs(), st.integers(1, 7))
def test_going_back_from_the_end_shows_everything_once(run: ConversationRange, count: int) -> None:
    found: list[int | str] = []
    at = run.last
    while spans := spans_before(run, at, count):
        piece = list(items(spans))
        assert len(piece) == count or spans_before(run, _first(spans) - 1, 1) == []
        found[:0] = piece
        at = _first(spans) - 1
    assert found == told(run)


@given(runs(), st.integers(1, 7))
def test_going_on_from_the_beginning_shows_everything_once(run: ConversationRange, count: int) -> None:
    found: list[int | str] = []
    at = 1
    while spans := spans_after(run, at, count):
        piece = list(items(spans))
        assert len(piece) <= count
        found += piece
        at = (spans[-1].end_seq if isinstance(spans[-1], Fold) else spans[-1][1]) + 1
    assert found == told(run)


def test_a_message_inside_a_fold_is_shown_as_that_fold() -> None:
    run = ConversationRange(1, 20, (fold(1, 5, 12),))
    assert list(items(spans_after(run, 8, 3))) == ["fold 1", 13, 14]
    assert list(items(spans_before(run, 8, 3))) == [3, 4, "fold 1"]


def _first(spans: list[SeqRange | Fold]) -> int:
    return spans[0].start_seq if isinstance(spans[0], Fold) else spans[0][0]
