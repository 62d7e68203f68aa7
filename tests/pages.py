"""Random views with their text, as strategies see them, and what every plan must keep to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import Aim, FoldPlan, Pages, Strategy
from orihon.values.message.message import Message, Part, ToolCall
from orihon.values.records import SUMMARY_PREFIX, Fold, Pin
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.view import Entry, PlannedFold, View, foldable_runs, folded, site

LINES = (
    "def load(path): return json.load(open(path))",
    "error: src/app/settings.py:42 has no attribute 'cache'",
    "We decided to use SQLite because it is small. Postgres was rejected because of cost.",
    "設定を読む前にキャッシュが作られるため、テストが失敗します。検討の結果、SQLiteを採用することにしました。",
    "## Research",
    "## 決定事項",
    "",
    "The parser reads one line after another and keeps what it has seen. Nobody asked for more than that.",
    "- a point that must hold",
    "> quoted",
    "x" * 700,
    "ok",
)
PICTURE = Part.of({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}})


def message(role: str, text: str | None, *, calls: Sequence[str] = (), answers: str | None = None) -> Message:
    """A message; ``calls`` are the ids of the tool calls it makes, ``answers`` the one whose result it is."""
    tool_calls = tuple(ToolCall(call, "read_file", '{"path": "src/app/settings.py"}') for call in calls)
    name = "read_file" if answers else None
    return Message(role, text, tool_calls=tool_calls, tool_call_id=answers, tool_name=name)


def pages_of(messages: Sequence[Message], pins: Sequence[Pin] = (), folds: Sequence[Fold] = ()) -> Pages:
    """The view of a log that has these messages, with these folds in it."""
    entries = (
        Entry(seq, seq, one.role, estimate_message(one), calls=one.calls, answers=one.answers)
        for seq, one in enumerate(messages, 1)
    )
    return turned(Pages(View(tuple(entries), tuple(pins)), messages), folds)


def turned(pages: Pages, folds: Sequence[Fold | PlannedFold]) -> Pages:
    """The pages after these folds were made."""
    made = [_made(pages, number, fold) for number, fold in enumerate(folds, 1)]
    view = folded(pages.view, made)
    return replace(pages, view=view, messages=[_message(pages, entry) for entry in view.entries])


def _made(pages: Pages, number: int, fold: Fold | PlannedFold) -> Fold:
    is_preview = fold.form == "preview"
    tokens = (
        pages.preview_tokens(pages.view.index_of(fold.start_seq), fold.text)
        if is_preview
        else pages.summary_tokens(fold.text)
    )
    return Fold(number, fold.start_seq, fold.end_seq, fold.text, tokens, 0, fold.form, reason=fold.reason)


def _message(pages: Pages, entry: Entry) -> Message:
    before = pages.messages[pages.view.index_of(entry.start)]
    fold = entry.fold
    if fold is None or fold in pages.view.folds:
        return before
    if fold.form == "preview":
        return replace(before, content=fold.text, parts=None)
    return Message("system", SUMMARY_PREFIX + fold.text)


@st.composite
def _turns(draw: st.DrawFn, number: int) -> list[Message]:
    texts = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).map("\n".join)
    bulky = st.tuples(texts, st.sampled_from((1, 1, 20))).map(lambda pair: "\n".join([pair[0]] * pair[1]))
    kind = draw(
        st.sampled_from(("user", "user", "assistant", "assistant", "system", "batch", "batch", "open", "picture"))
    )
    if kind == "picture":
        return [Message("user", parts=(Part.of({"type": "text", "text": draw(bulky)}), PICTURE))]
    if kind not in ("batch", "open"):
        return [message(kind, draw(bulky))]
    calls = [f"call_{number}_{at}" for at in range(draw(st.integers(1, 3)))]
    answered = calls if kind == "batch" else calls[:-1]
    results = [message("tool", draw(bulky), answers=call) for call in answered]
    if draw(st.booleans()):
        results = [
            replace(one, content=None, parts=(Part.of({"type": "text", "text": one.content}), PICTURE))
            for one in results
        ]
    return [message("assistant", draw(st.none() | texts), calls=calls), *results]


@st.composite
def views(draw: st.DrawFn) -> Pages:
    """A view with tool batches, open calls, pins, pictures and earlier folds."""
    messages = [message("system", "You are an agent.") for _ in range(draw(st.integers(0, 2)))]
    for number in range(draw(st.integers(0, 20))):
        messages += draw(_turns(number))
    pages = pages_of(messages)
    pages = turned(pages, draw(_earlier(pages)))
    return replace(pages, view=replace(pages.view, pins=tuple(draw(_pins(pages)))))


@st.composite
def _earlier(draw: st.DrawFn, pages: Pages) -> list[PlannedFold]:
    planned: list[PlannedFold] = []
    for first, last in foldable_runs(pages.view):
        text = draw(st.sampled_from(("earlier", "## Decisions\n3 user: We use SQLite.\n" * 3)))
        kind = draw(st.sampled_from(("", "", "", "summary", "preview")))
        if kind == "preview":
            reason = draw(st.sampled_from(("offload", "sections:light", "")))
            planned.append(PlannedFold(first, first, text, "preview", reason))
        elif kind:
            planned.append(PlannedFold(first, last, text))
    return planned


@st.composite
def _pins(draw: st.DrawFn, pages: Pages) -> list[Pin]:
    pins: list[Pin] = []
    for place, entry in enumerate(pages.view.entries):
        kind = draw(st.sampled_from(("",) * 18 + ("message", "line")))
        lines = [line for line in pages.messages[place].text.split("\n") if line.strip()]
        if kind == "line" and lines and entry.fold is None:
            pins.append(Pin(entry.start, draw(st.sampled_from(lines))))
        elif kind == "message" and entry.fold is None:
            pins.append(Pin(entry.start))
    return pins


@st.composite
def aims(draw: st.DrawFn, pages: Pages) -> Aim:
    """Any goal, from nothing to more than the view has."""
    last = pages.view.last_seq
    spans = [(first, draw(st.integers(first, min(last, first + 3)))) for first in draw(_some_seqs(last))]
    return Aim(
        int(pages.tokens * draw(st.sampled_from((0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 1.1)))),
        draw(st.integers(0, 4)),
        draw(st.sampled_from((1, 1, 3))),
        tuple(spans),
    )


def _some_seqs(last: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, last), max_size=2) if last else st.just([])


@st.composite
def views_with_aims(draw: st.DrawFn) -> tuple[Pages, Aim]:
    pages = draw(views())
    return pages, draw(aims(pages))


def checked(strategy: Strategy, pages: Pages, aim: Aim) -> tuple[PlannedFold, ...]:
    """The strategy's folds (none when it answers so), after everything that any plan promises was looked at."""
    answer = strategy.plan(pages, aim)
    assert answer == strategy.plan(replace(pages), aim)
    if not isinstance(answer, FoldPlan):
        assert answer.strategy == strategy.name
        return ()
    assert answer.strategy == strategy.name
    assert answer.folds
    assert all(one.end_seq < other.start_seq for one, other in zip(answer.folds, answer.folds[1:], strict=False))
    assert pages.tokens_after(answer.folds) < pages.tokens
    untouched = protected_places(pages, aim)
    for fold in answer.folds:
        first, last = site(pages.view, fold)
        assert not untouched & set(range(first, last))
    last_user = pages.view.last_user
    if last_user is not None:
        after = pages.after(answer.folds)
        assert after.entries[after.index_of(pages.view.entries[last_user].start)].role == "user"
    return answer.folds


def protected_places(pages: Pages, aim: Aim) -> set[int]:
    """What no strategy may touch."""
    view = pages.view
    spans = [*aim.hands_off, *((pin.seq, pin.seq) for pin in view.pins if not pin.line)]
    closed = {place for first, last in spans for place in range(view.index_of(first), view.index_of(last) + 1)}
    total = len(view.entries)
    return closed | set(range(view.head)) | set(range(max(total - aim.keep_recent, 0), total))


def tokens_of(pages: Pages, place: int) -> int:
    return pages.tokens_of(FoldedRun(place, place + 1))
