"""Foreign histories become legal ones, and no word is lost on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orihon.importers.registry import CompactionItem, PlanItem, Problem, SaidItem, ToolItem, TranscriptItem
from orihon.importers.tool_pairs import WINDOW, FoldStep, LogStep, SaidStep, ToolPairing
from orihon.store.tail import Tail
from orihon.store.tool_pairs import admit
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage


def call(*ids: str, name: str = "look") -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def said(role: str, content: str | None = None, **fields: Any) -> SaidItem:
    return SaidItem(Message.from_chat({"role": role, "content": content, **fields}))


def asked(*ids: str, answer: str | None = None, used: int = 0) -> SaidItem:
    made = ModelCall("m", Usage(used, 0, used)) if used else None
    return SaidItem(Message.from_chat(call(*ids)), None, made, answer)


def result(call_id: str | None, content: str = "seen") -> SaidItem:
    return said("tool", content, **({"tool_call_id": call_id} if call_id else {}))


def steps(items: list[TranscriptItem], *, close: bool = True) -> tuple[list[LogStep], ToolPairing]:
    talk = ToolPairing()
    found = [step for item in items for step in talk.take(item)]
    found += talk.end(close=close)
    assert not [step for step in found if isinstance(step, Problem)]
    return [step for step in found if not isinstance(step, Problem)], talk


def lines(found: list[LogStep]) -> list[tuple[str, str, tuple[str, ...], str | None]]:
    messages = [step.message for step in found if isinstance(step, SaidStep)]
    return [(one.role, one.text, one.calls, one.tool_call_id) for one in messages]


def check_legal(found: list[LogStep]) -> None:
    """What the store's own door says about it."""
    tail = Tail()
    for step in found:
        if isinstance(step, SaidStep):
            (message,) = admit([step.message], tail, lambda _: True)
            assert message == step.message
            calls = {one.id: one.name for one in message.tool_calls}
            tail.count(tail.seq + 1, calls, 0)
            tail.show(calls, message.answers, 0)


class TestAnswersInPieces:
    def test_pieces_of_one_answer_are_one_message(self) -> None:
        pieces: list[TranscriptItem] = [
            SaidItem(Message("assistant", "I look."), "2026-01-01", ModelCall("m", Usage(9, 1, 2)), "a"),
            SaidItem(Message.from_chat(call("1")), "2026-01-02", ModelCall("m", Usage(9, 1, 5)), "a"),
            SaidItem(Message.from_chat(call("2")), "2026-01-03", None, "a"),
            result("1"),
            result("2"),
        ]
        found, _ = steps(pieces)
        first = found[0]
        assert isinstance(first, SaidStep)
        assert (first.message.content, first.message.calls) == ("I look.", ("1", "2"))
        assert (first.timestamp, first.call) == ("2026-01-01", ModelCall("m", Usage(9, 1, 5)))
        assert len(lines(found)) == 3

    def test_a_result_between_the_pieces_waits_for_the_last_one(self) -> None:
        found, talk = steps([asked("1", answer="a"), result("1"), asked("2", answer="a"), result("2")])
        assert [line[2:] for line in lines(found)] == [(("1", "2"), None), ((), "1"), ((), "2")]
        assert talk.mended.calls_closed == 0

    def test_parallel_calls_that_were_recorded_one_by_one(self) -> None:
        found, _ = steps([asked("1", used=3), asked("2", used=4), result("1"), result("2")])
        assert [line[2:] for line in lines(found)] == [(("1", "2"), None), ((), "1"), ((), "2")]
        assert isinstance(found[0], SaidStep)
        assert found[0].call == ModelCall("m", Usage(7, 0, 7))

    def test_texts_and_thoughts_of_all_pieces_stay(self) -> None:
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": "hmm", "signature": "s"},
            {"type": "text", "text": "one"},
            {"type": "text", "text": "two", "citations": ["c"]},
        ]
        pieces: list[TranscriptItem] = [
            SaidItem(Message.from_anthropic({"role": "assistant", "content": [block]}), None, None, "a")
            for block in blocks
        ]
        found, _ = steps(pieces)
        (step,) = found
        assert isinstance(step, SaidStep)
        assert step.message.text == "one\ntwo"
        notes = step.message.extra["$orihon"]
        assert notes["reasoning"] == [blocks[0]]
        assert notes["blocks"] == {"1": {"citations": ["c"]}}

    def test_a_piece_that_only_tells_what_was_used_is_no_message(self) -> None:
        used = SaidItem(Message("assistant"), None, ModelCall("m", Usage(5, 0, 1)), "a")
        found, _ = steps([SaidItem(Message("assistant", "text"), None, ModelCall("m"), "a"), used])
        (step,) = found
        assert isinstance(step, SaidStep)
        assert step.call == ModelCall("m", Usage(5, 0, 1))
        assert steps([used])[0] == []


class TestPairs:
    def test_a_call_without_a_result(self) -> None:
        found, talk = steps([asked("1", "2"), result("2"), said("user", "go on"), said("assistant", "yes")])
        check_legal(found)
        assert [line[0] for line in lines(found)] == ["assistant", "tool", "tool", "user", "assistant"]
        assert lines(found)[2] == ("tool", "[no result was recorded]", (), "1")
        assert talk.mended.calls_closed == 1

    def test_a_result_without_a_call(self) -> None:
        found, talk = steps([said("user", "hello"), result("9", "lost words")])
        check_legal(found)
        assert lines(found)[1:] == [("assistant", "", ("9",), None), ("tool", "lost words", (), "9")]
        assert talk.mended.calls_added == 1

    def test_a_second_result_of_one_call_keeps_its_words(self) -> None:
        found, talk = steps([asked("1"), result("1", "first"), result("1", "second")])
        check_legal(found)
        assert [line[1] for line in lines(found)] == ["", "first", "", "second"]
        assert talk.mended.ids_changed == 1

    def test_what_was_said_between_a_call_and_its_result_comes_after_it(self) -> None:
        found, talk = steps([asked("1"), said("user", "and this"), result("1"), said("assistant", "done")])
        check_legal(found)
        assert [line[1] for line in lines(found)] == ["", "seen", "and this", "done"]
        assert talk.mended.results_moved == 1

    def test_nobody_waits_for_ever(self) -> None:
        talk = ToolPairing()
        talk.take(asked("1"))
        found: list[Any] = []
        for number in range(WINDOW + 2):
            found += talk.take(said("user", str(number)))
        assert [step.message.text for step in found][:3] == ["", "[no result was recorded]", "0"]
        late: list[Any] = [*talk.take(result("1", "late")), *talk.end(close=True)]
        check_legal([*found, *late])

    def test_ids_that_come_again_or_are_missing(self) -> None:
        again: list[TranscriptItem] = [
            asked("1"),
            result("1"),
            asked("1"),
            result("1"),
            asked(""),
            said("tool", "x", name="look"),
        ]
        found, talk = steps(again)
        check_legal(found)
        assert [line[2] for line in lines(found) if line[2]] == [("1",), ("1-2",), ("call_5_1",)]
        assert talk.mended.ids_changed == 1

    def test_calls_that_are_not_the_models_are_told_in_words(self) -> None:
        theirs = said("user", "I try", tool_calls=call("u1", name="reboot")["tool_calls"])
        found, talk = steps([theirs, result("u1", "rebooted"), said("assistant", "fine")])
        check_legal(found)
        assert [line[:2] for line in lines(found)] == [
            ("user", "I try\n[called reboot with {}]"),
            ("user", "rebooted"),
            ("assistant", "fine"),
        ]
        assert talk.mended.roles_changed == 2

    def test_calls_of_a_session_that_goes_on_stay_open(self) -> None:
        found, talk = steps([asked("1")], close=False)
        assert len(found) == 1
        assert not talk.is_settled
        assert [step for step in talk.take(result("1")) if isinstance(step, SaidStep)]

    def test_a_message_that_cannot_be_read_is_a_problem(self) -> None:
        bad = Message.from_anthropic({"role": "assistant", "content": [{"type": "tool_use", "id": 7, "name": "x"}]})
        (problem,) = ToolPairing().take(SaidItem(bad))
        assert isinstance(problem, Problem)
        assert problem.cause == "message"


class TestOtherRecords:
    def test_every_pair_is_recorded_as_a_tool_call(self) -> None:
        failed = {"type": "tool_result", "tool_use_id": "1", "content": "no such file", "is_error": True}
        found, _ = steps(
            [
                said("assistant", None, tool_calls=call("1", name="read")["tool_calls"]),
                ToolItem("read", duration_ms=12.5, call_id="1"),
                SaidItem(Message.from_anthropic({"role": "user", "content": [failed]})),
                said("assistant", "sorry"),
            ]
        )
        (tool,) = [step for step in found if isinstance(step, ToolItem)]
        expected = ToolItem("read", {}, None, "no such file", "error", 12.5, None, "1")
        assert tool == expected

    def test_a_compaction_folds_what_came_before_it(self) -> None:
        found, _ = steps(
            [said("system", "be"), said("user", "a"), CompactionItem("all of it", kept=0), said("user", "b")]
        )
        assert [type(step) for step in found] == [SaidStep, SaidStep, FoldStep, SaidStep]

    def test_a_summary_of_what_is_elsewhere_is_the_first_message(self) -> None:
        found, _ = steps([said("system", "be"), CompactionItem("all of it"), said("user", "b")])
        assert lines(found)[1][:2] == ("user", "all of it")

    def test_a_compaction_waits_for_results(self) -> None:
        found, _ = steps([asked("1"), CompactionItem("sum"), result("1"), PlanItem("plan", ["x"])])
        kinds = [type(step) for step in found]
        assert kinds.index(FoldStep) == 3  # call, result, its record
        assert kinds[-1] is PlanItem


IDS = st.sampled_from(["", "1", "2", "3"])
ITEMS: st.SearchStrategy[list[TranscriptItem]] = st.lists(
    st.one_of(
        st.builds(lambda role, n: said(role, f"w{n}"), st.sampled_from(["user", "system", "assistant"]), st.integers()),
        st.builds(
            lambda ids, answer: asked(*ids, answer=answer),
            st.lists(IDS, min_size=1, max_size=3),
            st.sampled_from([None, "a", "b"]),
        ),
        st.builds(lambda one, n: result(one or None, f"r{n}"), IDS, st.integers()),
        st.builds(lambda n: CompactionItem(f"s{n}", kept=0), st.integers()),
        st.builds(lambda one: ToolItem("look", duration_ms=1.0, call_id=one), IDS),
    ),
    max_size=30,
)


@given(ITEMS)
def test_any_history_becomes_legal_and_keeps_its_words(items: list[TranscriptItem]) -> None:
    found, _ = steps(items)
    check_legal(found)
    words = Counter(item.message.content for item in items if isinstance(item, SaidItem) and item.message.content)
    words += Counter(item.text for item in items if isinstance(item, CompactionItem))
    kept: Counter[str] = Counter()
    for step in found:
        if isinstance(step, SaidStep):
            parts = step.message.parts
            kept.update([step.message.content or ""] if parts is None else [part.text for part in parts])
        elif isinstance(step, FoldStep):
            kept[step.text] += 1
    assert words <= kept


@given(ITEMS, st.integers(0, 30), st.booleans())
def test_what_has_grown_begins_with_the_same_steps(items: list[TranscriptItem], at: int, close: bool) -> None:
    """Who knows where the first import ended gets its steps again, and then only new ones."""
    at = min(at, len(items))
    first, _ = steps(items[:at], close=close)
    talk = ToolPairing()
    again: list[LogStep | Problem] = []
    for number, item in enumerate(items, start=1):
        again += talk.take(item)
        if number == at:
            again += talk.end(close=close)
    again += talk.end(close=True)
    assert again[: len(first)] == first
    check_legal([step for step in again if not isinstance(step, Problem)])
