"""Tool calls and their results: matched on the way in, never an orphan in the view."""

from __future__ import annotations

from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import ToolCallError
from orihon.values.message.message import Message
from tests.conformance.behaviour import Behaviour, add_calls, add_conversation, call
from tests.conformance.invariants import check_task, shown
from tests.helpers import refused


class ToolPairBehaviour(Behaviour):
    """Which results are taken, and for which calls."""

    def test_results_in_any_order(self, store: MessageStore) -> None:
        add_calls(store, "a", "b", "c")
        for call_id in ("b", "c", "a"):
            store.add_message("tool", f"result of {call_id}", tool_call_id=call_id)
            check_task(store)
        assert store.add_message("user", "go on") == 5
        check_task(store)

    def test_a_result_without_id_answers_the_oldest_open_call_of_its_tool(self, store: MessageStore) -> None:
        calls = [call("l1", "ls"), call("r1", "read"), call("r2", "read")]
        store.add_message("assistant", None, tool_calls=calls)
        seqs = [store.add_message("tool", "x", tool) for tool in ("read", "ls", "read")]
        assert [store.get_message(seq).message.tool_call_id for seq in seqs] == ["r1", "l1", "r2"]
        assert store.get_message(seqs[0]).message.tool_name == "read"
        check_task(store)

    def test_the_result_may_name_its_tool_as_name(self, store: MessageStore) -> None:
        add_calls(store, "a", tool="ls")
        store.append({"role": "tool", "name": "ls", "content": "x"})
        assert store.get_message(2).message.tool_call_id == "a"

    def test_calls_without_id_get_one(self, store: MessageStore) -> None:
        nameless = [{"function": {"name": "ls", "arguments": {"path": "/"}}}] * 2
        store.add_message("assistant", None, tool_calls=nameless)
        given = store.get_message(1).message.calls
        assert len(set(given)) == 2
        assert all(given)
        for _ in nameless:
            store.add_message("tool", "x", "ls")
        assert [store.get_message(seq).message.tool_call_id for seq in (2, 3)] == list(given)
        check_task(store)

    @pytest.mark.parametrize("given", [{"tool_call_id": "z"}, {"tool_name": "other"}, {}])
    def test_a_result_that_no_call_waits_for_is_refused(self, store: MessageStore, given: Any) -> None:
        store.add_message("user", "hello")
        before = self.backend.unchanged(store.context_dir)
        with refused(ToolCallError, "none_open"):
            store.add_message("tool", "result", **given)
        add_calls(store, "a")
        with refused(ToolCallError, "none_open"):
            store.add_message("tool", "result", **given)
        assert store.count_messages() == 2
        assert before != self.backend.unchanged(store.context_dir)
        store.add_message("tool", "result", tool_call_id="a")
        check_task(store)

    def test_a_call_is_answered_once(self, store: MessageStore) -> None:
        add_calls(store, "a", "b")
        store.add_message("tool", "first", tool_call_id="a")
        with refused(ToolCallError, "none_open"):
            store.add_message("tool", "second", tool_call_id="a")
        store.add_message("tool", "of b", tool_call_id="b")
        with refused(ToolCallError, "none_open"):
            store.add_message("tool", "third", tool_call_id="a")
        assert store.count_messages() == 3
        check_task(store)

    def test_the_same_id_twice_in_one_message_is_refused(self, store: MessageStore) -> None:
        with refused(ToolCallError, "id_reused"):
            add_calls(store, "a", "a")
        assert store.count_messages() == 0
        assert add_calls(store, "a") == 1

    def test_an_id_is_not_used_again(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        with refused(ToolCallError, "id_reused"):
            add_calls(store, "fresh", "call-1-a")
        again = self.reopened(store)
        with refused(ToolCallError, "id_reused"):
            add_calls(again, "call-2-b")
        assert add_calls(again, "fresh") == 17
        again.close()

    def test_an_id_is_not_used_again_when_its_first_use_is_folded(self, store: MessageStore) -> None:
        last = add_conversation(store, 3)
        store.create_summary(2, last - 1, "all of it")
        with refused(ToolCallError, "id_reused"):
            add_calls(store, "call-1-a")
        again = self.reopened(store)
        with refused(ToolCallError, "id_reused"):
            add_calls(again, "call-1-a")
        assert again.count_messages() == last
        again.close()

    @pytest.mark.parametrize("role", ["user", "system", "assistant"])
    def test_nothing_else_comes_between_calls_and_results(self, store: MessageStore, role: str) -> None:
        add_calls(store, "a", "b")
        store.add_message("tool", "x", tool_call_id="a")
        with refused(ToolCallError, "calls_open") as caught:
            store.add_message(role, "hello?")
        assert "b" in str(caught.value)
        with refused(ToolCallError, "calls_open"):
            add_calls(store, "c")
        assert store.count_messages() == 2
        check_task(store)

    def test_open_calls_survive_a_restart(self, store: MessageStore) -> None:
        add_calls(store, "a", "b")
        store.add_message("tool", "x", tool_call_id="b")
        again = self.reopened(store)
        with refused(ToolCallError, "calls_open"):
            again.add_message("user", "hello?")
        again.add_message("tool", "y", tool_call_id="a")
        check_task(again)
        again.close()

    def test_open_calls_can_be_answered_all_at_once(self, store: MessageStore) -> None:
        add_calls(store, "a", "b", "c")
        store.add_message("tool", "x", tool_call_id="b")
        assert store.answer_open_calls("中断") == [3, 4]
        assert [store.get_message(seq).message.tool_call_id for seq in (3, 4)] == ["a", "c"]
        assert store.get_message(4).message.content == "中断"
        assert store.answer_open_calls() == []
        store.add_message("user", "go on")
        check_task(store)

    def test_the_old_form_is_made_modern(self, store: MessageStore) -> None:
        store.append({"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}})
        store.append({"role": "function", "name": "ls", "content": "a.py"})
        asked, answered = shown(store)
        assert asked["tool_calls"][0]["function"] == {"name": "ls", "arguments": "{}"}
        assert (answered["role"], answered["tool_call_id"]) == ("tool", asked["tool_calls"][0]["id"])
        store.add_message("user", "thanks")
        check_task(store)

    def test_messages_of_anthropic(self, store: MessageStore) -> None:
        use = {"type": "tool_use", "name": "ls", "input": {"path": "/"}}
        thinking = {"type": "thinking", "thinking": "let me see", "signature": "s"}
        said = [thinking, {"type": "text", "text": "見ます"}, {**use, "id": "t1"}, {**use, "id": "t2"}]
        results: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": "t2", "content": "b.py"},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.py"}]},
            {"type": "text", "text": "それで?"},
        ]
        assert store.append(Message.from_anthropic({"role": "assistant", "content": said})) == 1
        assert store.append(Message.from_anthropic({"role": "user", "content": results})) == 4
        roles = [stored.message.role for stored in store.get_messages()]
        assert roles == ["assistant", "tool", "tool", "user"]
        check_task(store)

    def test_a_message_of_several_parts_is_taken_whole_or_not_at_all(self, store: MessageStore) -> None:
        add_calls(store, "a", "b")
        results = [
            {"type": "tool_result", "tool_use_id": "a", "content": "x"},
            {"type": "tool_result", "tool_use_id": "stranger", "content": "y"},
        ]
        with refused(ToolCallError, "none_open"):
            store.append(Message.from_anthropic({"role": "user", "content": results}))
        assert store.count_messages() == 1
        assert store.answer_open_calls() == [2, 3]
        check_task(store)
