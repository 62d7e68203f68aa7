"""The stores beside the log: summaries, tool calls, plans; and the figures that are kept with a task."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

import pytest

from orihon import MessageStore
from orihon.errors import InvalidMessage, ToolCallError
from orihon.store import PlanningHistoryStore, SummaryStore, ToolStore
from orihon.store.documents import load_document, save_document
from orihon.values.message.message import Message
from orihon.values.tokens.message_tokens import count_message
from tests.conformance.behaviour import Behaviour, add_conversation
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task
from tests.helpers import refused


class SiblingBehaviour(Behaviour):
    """``SummaryStore``, ``ToolStore`` and ``PlanningHistoryStore``, with the signatures of all designs."""

    @pytest.fixture
    def summaries(self, store: MessageStore) -> SummaryStore:
        return SummaryStore(store.context_dir, task_store=store.task_store)

    @pytest.fixture
    def tools(self, store: MessageStore) -> ToolStore:
        return ToolStore(store.context_dir, task_store=store.task_store)

    @pytest.fixture
    def plans(self, store: MessageStore) -> PlanningHistoryStore:
        return PlanningHistoryStore(store.context_dir, task_store=store.task_store)

    def test_summaries_of_the_third_design(self, summaries: SummaryStore) -> None:
        assert summaries.get_latest_summary() is None
        assert summaries.count_summaries() == 0
        assert summaries.add_summary("最初の要約", 12, 340) == 1
        assert summaries.add_summary("another", 3, 50) == 2
        latest = summaries.get_latest_summary()
        assert latest is not None
        assert (latest["id"], latest["summary"]) == (2, "another")
        assert (latest["compressed_message_count"], latest["tokens_saved"]) == (3, 50)
        assert [summary["summary"] for summary in summaries.get_summaries()] == ["最初の要約", "another"]
        assert summaries.count_summaries() == 2

    def test_summaries_of_the_second_design(self, summaries: SummaryStore) -> None:
        summaries.add_summary(
            start_seq=2, end_seq=11, summary_text="ten messages", original_tokens=1000, summary_tokens=250
        )
        latest = summaries.get_latest_summary()
        assert latest is not None
        fields = ("start_seq", "end_seq", "summary", "original_tokens", "summary_tokens", "ratio")
        assert [latest[field] for field in fields] == [2, 11, "ten messages", 1000, 250, 0.25]
        assert (latest["compressed_message_count"], latest["tokens_saved"]) == (10, 750)

    def test_a_summary_by_hand_folds_nothing(self, store: MessageStore, summaries: SummaryStore) -> None:
        add_conversation(store, 2)
        before = store.get_messages_for_llm()
        summaries.add_summary("a note", 5, 10)
        assert store.get_messages_for_llm() == before
        number = store.create_summary(2, 6, "a fold")
        assert number == 2
        assert [summary["summary"] for summary in summaries.get_summaries()] == ["a note", "a fold"]
        check_task(store)

    def test_tool_calls_of_the_third_design(self, tools: ToolStore) -> None:
        assert tools.count_tool_calls() == 0
        assert tools.add_tool_call("read_file", {"path": "a.py"}, "内容", None) == 1
        assert tools.add_tool_call("read_file", {"path": "b.py"}, None, "no such file") == 2
        good, bad = tools.get_tool_calls()
        assert (good["seq"], good["tool_name"], good["arguments"]) == (1, "read_file", {"path": "a.py"})
        assert (good["result"], good["status"], good["error"]) == ("内容", "success", None)
        assert (bad["status"], bad["error"]) == ("error", "no such file")
        assert tools.count_tool_calls() == 2
        assert tools.get_tool_calls(2) == [bad]

    def test_tool_calls_of_the_second_design(self, tools: ToolStore) -> None:
        tools.add_tool_call(
            tool_name="ls",
            args={"path": "/"},
            result={"files": ["a", "b"]},
            status="success",
            duration_ms=12.5,
            error=None,
        )
        (found,) = tools.get_tool_calls()
        assert found["arguments"] == {"path": "/"}
        assert found["result"] == {"files": ["a", "b"]}
        assert found["duration_ms"] == 12.5

    def test_a_tool_call_recorded_with_its_message(self, store: MessageStore, tools: ToolStore) -> None:
        record = {"tool_name": "ls", "arguments": {"path": "/"}, "result": ["a"], "duration_ms": 7, "status": "success"}
        assert store.add_message("assistant", "I looked", tool_call=record) == 1
        (found,) = tools.get_tool_calls()
        assert {key: found[key] for key in record} == record

    def test_a_message_and_its_tool_call_are_recorded_both_or_not_at_all(
        self, store: MessageStore, tools: ToolStore
    ) -> None:
        done: list[str] = []
        store.task_store.observer = lambda action, result, details: done.append(action)
        with refused(InvalidMessage, "not_json"):
            store.add_message("user", "look", tool_call={"tool_name": "ls", "result": object()})
        with refused(ToolCallError, "none_open"):
            store.add_message("tool", "orphan", tool_call={"tool_name": "ls"})
        assert (store.count_messages(), tools.count_tool_calls(), done) == (0, 0, [])
        assert store.add_message("user", "look", tool_call={"tool_name": "ls"}) == 1
        assert (store.count_messages(), tools.count_tool_calls()) == (1, 1)
        assert sorted(done) == ["append", "write"]
        check_task(store)

    def test_a_large_result_goes_to_a_blob(self, tools: ToolStore, store: MessageStore) -> None:
        result = {"stdout": ["出力 " * 400_000], "code": 0}
        tools.add_tool_call("make", {}, result)
        assert self.backend.blobs(store.context_dir)
        assert tools.get_tool_calls()[0]["result"] == result

    def test_what_is_not_json_is_refused(self, tools: ToolStore, plans: PlanningHistoryStore) -> None:
        with refused(InvalidMessage, "not_json"):
            tools.add_tool_call("ls", {"path": object()})
        with refused(InvalidMessage, "not_json"):
            plans.add_plan("initial", {1, 2})
        assert tools.count_tool_calls() == plans.count_plans() == 0

    def test_plans(self, plans: PlanningHistoryStore, store: MessageStore) -> None:
        assert plans.get_latest_plan() is None
        assert plans.add_plan("initial", {"goal": "直す", "steps": ["読む", "書く"]}) == 1
        assert plans.add_plan("revision", "fix the test first") == 2
        assert plans.count_plans() == 2
        assert [plan["plan_type"] for plan in plans.get_plans()] == ["initial", "revision"]
        again = self.reopened(store)
        latest = PlanningHistoryStore(again.context_dir, task_store=again.task_store).get_latest_plan()
        assert latest is not None
        assert (latest["id"], latest["plan_content"]) == (2, "fix the test first")
        again.close()

    def test_stores_opened_by_their_folder_share_one_writer(self, folder: Path) -> None:
        messages, tools = MessageStore(folder, self.backend.config()), ToolStore(folder)
        messages.add_message("user", "hello")
        tools.add_tool_call("ls", {}, "x")
        PlanningHistoryStore(folder).add_plan("initial", "a plan")
        messages.add_message("user", "again")
        assert (messages.count_messages(), tools.count_tool_calls()) == (2, 1)
        messages.close()


class FigureBehaviour(Behaviour):
    """Token counts and permissions."""

    def test_exact_counts_are_made_once(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        expected = sum(count_message(Message.from_chat(line), "o200k_base") for line in store.get_messages_for_llm())
        assert store.get_exact_token_count("o200k_base") == expected
        kept = load_document(store.task_store.records, "counts")
        assert len(kept["entries"]) == 16
        # A count that is kept is used and not made again.
        save_document(store.task_store.records, "counts", {**kept, "entries": {**kept["entries"], "1": 10_000}})
        assert store.get_exact_token_count("o200k_base") > 10_000

    def test_exact_counts_follow_the_view(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        store.get_exact_token_count("o200k_base")
        store.create_summary(2, 6, "最初の質問")
        store.add_message("user", "one more")
        view = store.get_messages_for_llm()
        expected = sum(count_message(Message.from_chat(line), "o200k_base") for line in view)
        assert store.get_exact_token_count("o200k_base") == expected
        store.folding.undo()
        view = store.get_messages_for_llm()
        assert store.get_exact_token_count("o200k_base") == sum(
            count_message(Message.from_chat(line), "o200k_base") for line in view
        )

    def test_another_tokenizer_counts_anew(self, store: MessageStore) -> None:
        store.add_message("user", "日本語の文章はトークンの数が違います。" * 20)
        first, second = (store.get_exact_token_count(name) for name in ("o200k_base", "cl100k_base"))
        assert first != second
        assert store.get_exact_token_count("o200k_base") == first

    @pytest.mark.parametrize("document", ["index", "counts"])
    def test_a_damaged_derived_document_is_made_anew(
        self, store: MessageStore, document: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        add_conversation(store, 3)
        store.create_summary(2, 6, "first")
        exact = store.get_exact_token_count("o200k_base")
        store.close()
        self.backend.garble(store.context_dir, document)
        again = self.backend.open(store.context_dir)
        with caplog.at_level(logging.WARNING, "orihon"):
            check_task(again)
            assert again.get_exact_token_count("o200k_base") == exact
            again.add_message("user", "goes on")
        assert f"{document} is damaged" in caplog.text
        check_task(again)
        again.close()

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_only_the_owner_may_look(self, tmp_path: Path, umask: int) -> None:
        folder = tmp_path / "base" / "running" / f"task-{secrets.token_hex(8)}"
        with OtherProcess(self.backend, folder, umask=umask, blob_bytes=100) as other:
            other.ask("append", texts=["short", "long " * 100])
            other.ask("fold", start=1, end=1, text="s")
            other.ask("view_file")
            for path in (tmp_path / "base").rglob("*"):
                expected = 0o700 if path.is_dir() else 0o600
                assert (path.name, oct(path.stat().st_mode & 0o777)) == (path.name, oct(expected))
            assert oct((tmp_path / "base").stat().st_mode & 0o777) == "0o700"
            assert self.backend.blobs(folder)
