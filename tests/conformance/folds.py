"""Folds: what the view shows, what the rules refuse, and that everything opens again exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import IllegalFold, NoSuchMessage, NothingToUndo, OrihonError
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.view import PlannedFold
from tests.conformance.behaviour import Behaviour, add_calls, add_conversation
from tests.conformance.invariants import check_task, view_file_lines
from tests.helpers import refused


def summary(text: str) -> dict[str, str]:
    """A fold as the model sees it."""
    return {"role": "system", "content": SUMMARY_PREFIX + text}


class FoldBehaviour(Behaviour):
    """Compress, undo, redo, unfold, edit."""

    def test_a_summary_stands_for_its_run(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        before = store.get_messages_for_llm()
        assert store.create_summary(2, 11, "二つの質問に答えた") == 1
        assert store.get_messages_for_llm() == [before[0], summary("二つの質問に答えた"), *before[11:]]
        check_task(store)
        check_task(self.reopened(store))

    def test_several_folds_in_one_compression(self, store: MessageStore) -> None:
        last = add_conversation(store, 5)
        before = store.get_messages_for_llm()
        plans = [PlannedFold(12, 16, "third turn"), PlannedFold(2, 6, "first turn"), PlannedFold(7, 7, "short")]
        record = store.folding.compress(plans, trigger="usage", strategy="summarize", level="light", made_by="test")
        assert record.folds == (1, 2, 3)
        assert (record.trigger, record.strategy, record.level, record.made_by) == (
            "usage",
            "summarize",
            "light",
            "test",
        )
        assert record.after_tokens == store.get_current_token_count() < record.before_tokens
        assert store.get_messages_for_llm()[1:3] == [summary("first turn"), summary("short")]
        check_task(store)
        store.folding.undo()
        assert store.get_messages_for_llm() == before
        assert store.count_messages() == last

    def test_a_preview_keeps_the_envelope(self, store: MessageStore) -> None:
        add_conversation(store, 2)
        before = store.get_messages_for_llm()
        store.folding.compress([PlannedFold(4, 4, "output … (see message 4)", form="preview")])
        after = store.get_messages_for_llm()
        assert after[3] == {**before[3], "content": "output … (see message 4)"}
        assert after[:3] + after[4:] == before[:3] + before[4:]
        assert store.get_message(4).message.content == before[3]["content"]
        check_task(store)
        store.folding.compress([PlannedFold(4, 4, "shorter", form="preview")])
        check_task(store)
        store.create_summary(2, 6, "the whole turn")
        check_task(store)
        for _ in range(3):
            store.folding.undo()
            check_task(store)
        assert store.get_messages_for_llm() == before

    def test_a_fold_may_swallow_folds(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "first")
        store.create_summary(7, 11, "second")
        inner = store.get_messages_for_llm()
        outer = store.create_summary(2, 11, "first and second")
        assert store.get_messages_for_llm()[1] == summary("first and second")
        store.folding.unfold(outer)
        assert store.get_messages_for_llm() == inner
        check_task(store)

    def test_undo_gives_the_view_it_had_plus_what_came_since(self, store: MessageStore) -> None:
        last = add_conversation(store, 4)
        before = view_file_lines(store)
        store.create_summary(2, 11, "folded")
        add_conversation(store, 1)
        since = store.get_messages_for_llm()[-5:]
        store.folding.undo()
        assert view_file_lines(store) == [*before, *since]
        assert store.count_messages() == last + 5
        check_task(store)

    def test_redo_and_undo_again(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        plain = store.get_messages_for_llm()
        store.create_summary(2, 6, "first")
        folded = store.get_messages_for_llm()
        for _ in range(3):
            store.folding.undo()
            assert store.get_messages_for_llm() == plain
            store = self.reopened(store)
            store.folding.redo()
            assert store.get_messages_for_llm() == folded
        check_task(store)
        assert [record.kind for record in store.compressions()] == ["compress", *["undo", "redo"] * 3]
        store.close()

    def test_an_older_compression_can_be_undone_by_its_number(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        first = store.folding.compress([PlannedFold(2, 6, "first")])
        store.folding.compress([PlannedFold(7, 11, "second")])
        store.folding.undo(first.id)
        assert [fold.text for fold in store.view().folds] == ["second"]
        store.folding.redo(first.id)
        assert [fold.text for fold in store.view().folds] == ["first", "second"]
        check_task(store)

    def test_what_cannot_be_undone_says_so(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        with refused(NothingToUndo, "no_undo"):
            store.folding.undo()
        with refused(NothingToUndo, "no_redo"):
            store.folding.redo()
        inner = store.folding.compress([PlannedFold(2, 6, "first")])
        store.folding.compress([PlannedFold(2, 11, "first and second")])
        with refused(NothingToUndo, "changed_since"):
            store.folding.undo(inner.id)
        with refused(NothingToUndo, "not_undoable"):
            store.folding.undo(77)
        with refused(NothingToUndo, "no_fold"):
            store.folding.unfold(1)
        assert len(store.compressions()) == 2
        check_task(store)

    def test_a_new_compression_ends_the_redo(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "first")
        store.folding.undo()
        store.create_summary(7, 11, "second")
        with refused(NothingToUndo, "no_redo"):
            store.folding.redo()

    def test_a_fold_can_get_another_text(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        number = store.create_summary(2, 6, "wrong")
        edited = store.folding.edit(number, "訂正した要約", made_by="ann").folds[0]
        assert store.get_messages_for_llm()[1] == summary("訂正した要約")
        check_task(store)
        store.folding.undo()
        assert store.get_messages_for_llm()[1] == summary("wrong")
        store.folding.redo()
        store.folding.unfold(edited)
        assert store.view().folds == ()
        check_task(store)

    def test_a_fold_text_larger_than_a_blob_is_shown_whole(self, store: MessageStore) -> None:
        small = self.reopened(store, blob_bytes=2_000)
        add_conversation(small, 4)
        text = "長い要約 " * 1_000
        number = small.create_summary(2, 6, text)
        assert small.get_messages_for_llm()[1] == summary(text)
        check_task(small)
        small.folding.undo()
        small.folding.redo()
        small.folding.unfold(number)
        small.folding.undo()
        assert small.get_messages_for_llm()[1] == summary(text)
        small.close()

    def test_a_fold_of_dirty_text_is_still_a_request(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        store.create_summary(2, 6, "caf\udce9\x00\x1b[0m")
        shown = store.get_messages_for_llm()[1]["content"]
        assert shown == SUMMARY_PREFIX + "caf\ufffd\x00\x1b[0m"
        assert store.view().folds[0].text == "caf\udce9\x00\x1b[0m"

    @pytest.mark.parametrize(
        ("start", "end", "form", "reason"),
        [
            (1, 6, "summary", "system_head"),
            (1, 1, "preview", "system_head"),
            (2, 4, "summary", "tool_batch"),
            (4, 6, "summary", "tool_batch"),
            (8, 9, "summary", "splits_fold"),
            (0, 3, "summary", "outside"),
            (6, 5, "summary", "outside"),
            (6, 99, "summary", "outside"),
            (2, 6, "preview", "preview_of_many"),
            (12, 13, "summary", "pinned"),
            (12, 12, "preview", "pinned"),
            (17, 18, "summary", "open_calls"),
        ],
    )
    def test_a_fold_that_a_rule_forbids_changes_nothing(
        self, store: MessageStore, start: int, end: int, form: Any, reason: str
    ) -> None:
        add_conversation(store, 3)
        store.create_summary(7, 11, "second turn")
        store.folding.pin(12)
        store.add_message("user", "one more")
        add_calls(store, "open")
        before, changes = store.get_messages_for_llm(), len(store.compressions())
        with refused(IllegalFold, reason):
            store.folding.compress([PlannedFold(6, 6, "fine"), PlannedFold(start, end, "text", form=form)])
        assert store.get_messages_for_llm() == before == view_file_lines(store)
        assert len(store.compressions()) == changes
        check_task(store)
        store.create_summary(2, 6, "still works")
        check_task(store)

    def test_a_fold_without_text_is_refused(self, store: MessageStore) -> None:
        add_conversation(store, 2)
        with refused(IllegalFold, "no_text"):
            store.create_summary(2, 6, " \n ")

    def test_folds_of_one_compression_must_not_overlap(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        with refused(IllegalFold, "overlap"):
            store.folding.compress([PlannedFold(2, 7, "a"), PlannedFold(7, 11, "b")])
        assert store.compressions() == []

    def test_the_log_is_the_same_after_any_number_of_folds(self, store: MessageStore) -> None:
        add_conversation(store, 8)
        before = self.backend.raw_log(store.context_dir)
        for turn in range(6):
            store.create_summary(2 + 5 * turn, 6 + 5 * turn, f"turn {turn}")
        store.create_summary(2, 31, "all of them")
        store.folding.pin(3)
        for act in (store.folding.undo, store.folding.undo, store.folding.redo, store.folding.undo):
            _ignoring_refusal(act)
        store.folding.unpin(3)
        store.recreate_current_context("everything")
        store.folding.unfold(store.view().folds[0].id)
        assert self.backend.raw_log(store.context_dir) == before
        check_task(store)
        store.close()
        assert self.backend.raw_log(store.context_dir) == before


class PinBehaviour(Behaviour):
    """What is pinned stays in sight, word for word."""

    def test_a_pinned_message_is_never_folded(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.folding.pin(7)
        with refused(IllegalFold, "pinned"):
            store.create_summary(2, 11, "too much")
        store.create_summary(2, 6, "before it")
        store.create_summary(8, 11, "after it")
        assert "question 2" in store.get_messages_for_llm()[2]["content"]
        check_task(self.reopened(store))

    def test_pinning_a_folded_message_opens_it(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "first")
        store.create_summary(2, 11, "first and second")
        before = self.backend.raw_log(store.context_dir)
        store.folding.pin(7)
        assert [fold.text for fold in store.view().folds] == ["first"]
        check_task(store)
        with refused(NothingToUndo, "already"):
            store.folding.undo(2)
        assert store.folding.undo().parent == 1
        store.folding.redo(1)
        check_task(store)
        assert self.backend.raw_log(store.context_dir) == before

    def test_a_pinned_line_must_be_in_every_fold(self, store: MessageStore) -> None:
        add_conversation(store, 2)
        rule = "必ずテストを先に書くこと"
        seq = store.add_message("user", f"Some words.\n{rule}\nMore words.")
        store.add_message("assistant", "ok")
        store.folding.pin(seq, rule)
        with refused(IllegalFold, "drops_line"):
            store.create_summary(seq, seq + 1, "they agreed on something")
        number = store.create_summary(seq, seq + 1, f"Agreed: {rule}.")
        with refused(IllegalFold, "drops_line"):
            store.folding.edit(number, "agreed")
        check_task(store)
        store.folding.unpin(seq, rule)
        store.folding.edit(number, "agreed")
        check_task(store)

    def test_pinning_a_line_that_a_fold_has_dropped_brings_it_back(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "first turn")
        store.folding.pin(2, "question 1")
        assert "question 1" in store.get_messages_for_llm()[1]["content"]
        check_task(store)

    def test_opening_a_fold_must_not_hide_a_pinned_line(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "first turn")
        outer = store.create_summary(2, 11, "asked question 1 and another")
        store.folding.pin(2, "question 1")
        with refused(IllegalFold, "pinned"):
            store.folding.unfold(outer)
        check_task(store)

    def test_what_is_not_there_cannot_be_pinned(self, store: MessageStore) -> None:
        last = add_conversation(store, 1)
        for seq in (0, -1, last + 1):
            with refused(NoSuchMessage, "seq"):
                store.folding.pin(seq)
        with refused(NoSuchMessage, "line"):
            store.folding.pin(2, "not a line of it")
        with refused(NothingToUndo, "not_pinned"):
            store.folding.unpin(2)
        assert store.compressions() == []


class RecreateBehaviour(Behaviour):
    """The first designs' way to fold: everything but the newest entries."""

    def test_keep_the_lines_of_a_file(self, store: MessageStore, tmp_path: Path) -> None:
        add_conversation(store, 4)
        before = store.get_messages_for_llm()
        kept = tmp_path / "unsummarized.jsonl"
        lines = store.get_current_context_file().read_bytes().splitlines(keepends=True)
        kept.write_bytes(b"".join(lines[-5:]))
        assert store.get_current_context_file(kept) == kept
        assert store.recreate_current_context("三つの質問", kept) == 7
        assert store.get_messages_for_llm() == [before[0], summary("三つの質問"), *before[-5:]]
        assert not kept.exists()
        check_task(store)

    def test_keywords_of_the_second_design(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        assert store.recreate_current_context(summary_text="so far", summary_tokens=2) == 2
        assert store.get_messages_for_llm()[1] == summary("so far")
        check_task(store)

    def test_tokens_as_the_second_argument(self, store: MessageStore) -> None:
        add_conversation(store, 3)
        assert store.recreate_current_context("so far", 2) == 2

    def test_tool_pairs_stay_whole_whatever_the_file_holds(self, store: MessageStore, tmp_path: Path) -> None:
        last = add_conversation(store, 3)
        kept = tmp_path / "unsummarized.jsonl"
        kept.write_text('{"role":"tool"}\n{"role":"assistant"}\n')
        store.recreate_current_context("so far", kept)
        assert store.view().entries[-4].start == last - 3
        check_task(store)

    def test_nothing_to_fold(self, store: MessageStore, tmp_path: Path) -> None:
        store.add_message("system", "only this")
        kept = tmp_path / "unsummarized.jsonl"
        kept.write_text("{}\n")
        with refused(IllegalFold, "nothing"):
            store.recreate_current_context("so far", kept)
        assert kept.exists()
        assert store.compressions() == []


def _ignoring_refusal(act: Callable[[], object]) -> None:
    try:
        act()
    except OrihonError:
        return
