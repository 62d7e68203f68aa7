"""The stream of phases, checkpoints and answers: appended, numbered, masked, and one answer to each question."""

from __future__ import annotations

import pytest

from orihon import MessageStore
from orihon.errors import InvalidInput, NotWaiting, ToolCallError
from orihon.store.checkpoints import Approval, Checkpoint, CheckpointLog, Phase
from tests.conformance.behaviour import Behaviour, add_calls, add_conversation
from tests.conformance.invariants import check_task
from tests.helpers import refused

SECRET = "sk-proj-" + "a1B2c3D4e5" * 4


def asked(name: str = "concept", question: str = "Shall it be so?") -> Checkpoint:
    return Checkpoint(0, name, question)


class CheckpointBehaviour(Behaviour):
    """Tests of ``CheckpointLog``."""

    @pytest.fixture
    def log(self, store: MessageStore) -> CheckpointLog:
        add_conversation(store, 1)
        return CheckpointLog(store.task_store)

    def test_phases_know_where_they_begin_and_end(self, store: MessageStore, log: CheckpointLog) -> None:
        last = store.count_messages()
        phase, before = log.begin_phase("exploration")
        assert (phase, before) == (Phase("exploration", 1, last + 1), None)
        assert log.begin_phase("exploration") == (phase, None)
        store.add_message("user", "look")
        phase, before = log.begin_phase("building")
        assert (phase.number, phase.start_seq, before) == (2, last + 2, Phase("exploration", 1, last + 1, last + 1))
        assert log.begin_phase("exploration")[0].number == 1  # a program that runs again from its beginning
        assert log.end_iteration() == Phase("building", 2, last + 2, last + 1)
        assert log.begin_phase("exploration")[0] == Phase("exploration", 3, last + 2, None, 2)
        assert self._kept(store) == ["phase"] * 4

    def test_an_answer_is_a_record_and_a_message(self, store: MessageStore, log: CheckpointLog) -> None:
        question = log.ask(asked(), timeout=60)
        assert log.ask(asked(question="the same, asked again")) == question
        last = store.count_messages()
        answered = log.answer(question.id, Approval("revise", "ann", "more of it"))
        assert answered.answer is not None
        assert (answered.answer.seq, answered.answer.instructions) == (last + 1, "more of it")
        message = store.get_message(last + 1).message
        assert message.role == "user"
        assert message.text.startswith("## Changes wanted: concept")
        assert message.text.endswith("> Shall it be so?\n\nmore of it")
        reopened = self.reopened(store)
        assert CheckpointLog(reopened.task_store).read().checkpoint(question.id) == answered
        assert self._kept(reopened) == ["checkpoint", "answer"]
        record = list(reopened.task_store.read("checkpoints"))[1]
        assert record["shown"] == {"question": "Shall it be so?", "context": ""}
        check_task(reopened)
        reopened.close()

    def test_a_second_answer_is_refused_and_told_who_was_first(self, store: MessageStore, log: CheckpointLog) -> None:
        question = log.ask(asked())
        log.answer(question.id, Approval("approve", "ann"))
        before = self.backend.unchanged(store.context_dir)
        with refused(NotWaiting, "answered") as caught:
            log.answer(question.id, Approval("reject", "bob", "no"))
        assert "ann" in caught.value.cause
        assert self.backend.unchanged(store.context_dir) == before
        with refused(NotWaiting, "unknown"):
            log.answer(99, Approval("approve", "bob"))

    def test_what_a_crash_left_between_answer_and_message_is_made_up_for(
        self, store: MessageStore, log: CheckpointLog
    ) -> None:
        question = log.ask(asked())
        last = store.count_messages()
        fields = Approval("reject", "ann", "not yet", at="2026-01-01T00:00:00.000000+00:00", seq=last + 1).as_dict()
        store.task_store.add("checkpoints", {"kind": "answer", "checkpoint": question.id, **fields})
        for _ in range(2):
            log.settle()
            assert store.count_messages() == last + 1
        assert store.get_message(last + 1).message.text.endswith("not yet")

    def test_secrets_are_masked_in_questions_and_answers(self, store: MessageStore, log: CheckpointLog) -> None:
        question = log.ask(Checkpoint(0, "key", f"Use {SECRET}?", f"It is {SECRET}."))
        log.answer(question.id, Approval("reject", "ann", f"not {SECRET}"))
        folder = store.context_dir
        store.close()
        assert self.backend.places_with(SECRET, folder) == []

    def test_nobody_is_asked_between_a_call_and_its_result(self, store: MessageStore, log: CheckpointLog) -> None:
        add_calls(store, "open")
        with refused(ToolCallError, "calls_open"):
            log.ask(asked())
        by_tool = Checkpoint(0, "concept", "So?", call="open")
        assert log.ask(by_tool).id == log.ask(by_tool).id == 1

    @pytest.mark.parametrize("field", ["timeout", "remind_every"])
    def test_times_are_in_the_future(self, log: CheckpointLog, field: str) -> None:
        question, timeout = (asked(), -1.0) if field == "timeout" else (Checkpoint(0, "a", "b", remind_every=0), None)
        with refused(InvalidInput, "not_positive"):
            log.ask(question, timeout)

    @staticmethod
    def _kept(store: MessageStore) -> list[str]:
        return [record["kind"] for record in store.task_store.read("checkpoints")]
