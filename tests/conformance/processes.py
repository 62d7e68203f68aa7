"""Several processes on one task: who may write, who is refused, and that readers never disturb anybody."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from orihon import MessageStore
from orihon.errors import StaleWriter, StorageUnavailable, TaskBusy
from tests.conformance.behaviour import Behaviour, add_conversation, texts
from tests.conformance.child import PATIENCE, OtherProcess
from tests.conformance.invariants import check_acceptable, check_task
from tests.helpers import refused


class EpochBehaviour(Behaviour):
    """A writer whose epoch has been passed writes nothing more."""

    def test_a_writer_that_was_taken_over_is_refused(self, folder: Path) -> None:
        old = self.backend.open(folder, epoch=5)
        last = add_conversation(old, 2)
        new = self.backend.open(folder, epoch=6)
        assert new.add_message("user", "mine now") == last + 1
        before = self.backend.unchanged(folder)
        for _ in range(2):
            with pytest.raises(StaleWriter) as caught:
                old.add_message("user", "still here")
            assert caught.value.remedy
        with pytest.raises(StaleWriter):
            old.create_summary(2, 6, "still here")
        old.close()
        with refused(StaleWriter, "taken_over"):
            old.add_message("user", "and again")
        assert self.backend.unchanged(folder) == before
        assert new.compressions() == []
        assert new.add_message("user", "going on") == last + 2
        check_task(new)
        new.close()

    def test_a_lower_epoch_is_refused_at_once(self, folder: Path) -> None:
        store = self.backend.open(folder, epoch=9)
        store.add_message("user", "hello")
        store.close()
        late = self.backend.open(folder, epoch=8)
        with refused(StaleWriter, "taken_over"):
            late.add_message("user", "late")
        assert texts(late) == ["hello"]
        assert self.backend.open(folder, epoch=9).add_message("user", "in time") == 2

    def test_the_epoch_is_in_the_record(self, folder: Path) -> None:
        for epoch in (3, 7):
            store = self.backend.open(folder, epoch=epoch)
            store.add_message("user", "hello")
            store.close()
        assert [stored.epoch for stored in self.backend.open(folder).get_messages()] == [3, 7]

    def test_a_stopped_writer_is_taken_over_and_refused_when_it_goes_on(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder, epoch=1) as other:
            assert other.ask("append", texts=["one", "two"]) == [1, 2]
            other.stop()
            store = self.backend.open(folder, epoch=2)
            assert store.add_message("user", "three") == 3
            other.send("append", texts=["from the past"])
            other.go_on()
            with refused(StaleWriter, "taken_over"):
                other.answer()
        assert texts(store) == ["one", "two", "three"]
        check_task(store)
        store.close()

    def test_a_killed_writer_is_followed_without_an_epoch(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder) as other:
            other.ask("append", texts=["one", "two"])
            other.kill()
        store = self.backend.open(folder)
        assert store.add_message("user", "three") == 3
        check_task(store)
        store.close()


class WriterBehaviour(Behaviour):
    """One writer, or several: as the back end says."""

    def test_a_second_writing_process(self, store: MessageStore) -> None:
        with OtherProcess(self.backend, store.context_dir) as other:
            assert other.ask("append", texts=["one"]) == [1]
            if self.backend.many_writers:
                assert store.add_message("user", "two") == 2
                assert other.ask("append", texts=["three"]) == [3]
                return
            with refused(TaskBusy, "writer") as caught:
                store.add_message("user", "two")
            assert str(other.pid) in str(caught.value)
            assert texts(store) == ["one"]
            other.ask("close")
            assert store.add_message("user", "two") == 2
        check_task(store)

    def test_a_second_writer_in_the_same_process(self, store: MessageStore) -> None:
        store.add_message("user", "one")
        second = self.backend.open(store.context_dir)
        if self.backend.many_writers:
            assert second.add_message("user", "two") == 2
            assert store.add_message("user", "three") == 3
        else:
            with refused(TaskBusy, "writer"):
                second.add_message("user", "two")
        check_task(second)
        check_task(store)
        second.close()

    def test_after_closing_another_process_may_write_in_between(self, store: MessageStore) -> None:
        store.add_message("user", "one")
        store.close()
        with OtherProcess(self.backend, store.context_dir) as other:
            assert other.ask("append", texts=["two"]) == [2]
            other.ask("close")
        assert store.add_message("user", "three") == 3
        assert texts(store) == ["one", "two", "three"]
        check_task(store)

    def test_multiprocess_access(self, store: MessageStore) -> None:
        """Four processes, 25 messages each (000 §11.1); where one writer is the rule, they take turns."""
        texts_of = [[f"Worker {worker}: Message {number}" for number in range(25)] for worker in range(4)]
        others = [OtherProcess(self.backend, store.context_dir) for _ in texts_of]
        if self.backend.many_writers:
            for other, said in zip(others, texts_of, strict=True):
                other.send("append", texts=said)
            numbers = [number for other in others for number in other.answer()]
        else:
            numbers = []
            for other, said in zip(others, texts_of, strict=True):
                numbers += other.ask("append", texts=said)
                other.ask("close")
        for other in others:
            other.__exit__(None, None, None)
        assert sorted(numbers) == list(range(1, 101))
        assert sorted(map(str, texts(store))) == sorted(text for said in texts_of for text in said)
        check_task(store)

    def test_processes_that_write_see_each_others_folds(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        with OtherProcess(self.backend, store.context_dir) as other:
            if not self.backend.many_writers:
                store.close()
            other.ask("fold", start=2, end=6, text="first turn")
            other.ask("append", texts=["from the other"])
            other.ask("close")
            store.create_summary(7, 11, "second turn")
            store.add_message("user", "from here")
            check_task(store)
            other.ask("check")
            assert other.ask("tokens") == store.get_current_token_count()

    def test_a_writer_waits_only_so_long(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder, epoch=1) as other:
            other.ask("append", texts=["one"])
            other.send("hold_the_task")
            assert other.answer_line() == "held"
            store = self.backend.open(folder, epoch=1, db_timeout=0.1, max_retries=0)
            with refused(StorageUnavailable, self.backend.busy):
                store.add_message("user", "two")
            other.send("told")
            other.answer()
            other.answer()
            if not self.backend.many_writers:
                other.ask("close")
            assert store.add_message("user", "two") == 2
            check_task(store)

    def test_a_newer_lease_does_not_wait_for_who_holds_on_beyond_its_own(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder, epoch=1, db_timeout=3) as other:
            other.ask("append", texts=["one"])
            other.send("hold_the_task")
            assert other.answer_line() == "held"
            other.stop()
            store = self.backend.open(folder, epoch=2, db_timeout=20)
            assert store.add_message("user", "two") == 2
            other.go_on()
            other.send("told")
            with suppress(StaleWriter):  # it had nothing to write: who sees that first need not be refused
                other.answer()
            other.answer()
            with pytest.raises(StaleWriter):
                other.ask("append", texts=["late"])
            assert store.add_message("user", "three") == 3
            assert texts(store) == ["one", "two", "three"]
            check_task(store)

    def test_a_forked_child_cannot_do_harm(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder) as other:
            other.ask("append", texts=["one"])
            expected = ["seq 2", "seq 3"] if self.backend.many_writers else ["TaskBusy", "seq 2"]
            assert other.ask("fork_and_append") == expected
            other.ask("check")

    def test_threads_share_a_store(self, store: MessageStore) -> None:
        numbers: list[int] = []

        def work(name: int) -> None:
            numbers.extend(store.add_message("user", f"thread {name} says {turn}") for turn in range(25))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(1, 101))
        check_task(store)


class ReaderBehaviour(Behaviour):
    """Reading while somebody else writes."""

    def test_a_reader_sees_whole_messages_and_no_gap(self, store: MessageStore) -> None:
        with OtherProcess(self.backend, store.context_dir) as other:
            other.send("append_until_told", at_most=3_000)
            give_up = time.monotonic() + PATIENCE
            seen = 0
            while seen < 400:
                assert time.monotonic() < give_up
                count = store.count_messages()
                assert count >= seen
                assert [stored.seq for stored in store.get_messages(max(1, count - 50), count)] == list(
                    range(max(1, count - 50), count + 1)
                )
                check_acceptable(store.get_messages_for_llm())
                entries = store.view().entries
                assert [entry.start for entry in entries] == [1, *(entry.end + 1 for entry in entries)][: len(entries)]
                store.get_current_token_count()
                seen = count
            other.send("told")
            last = other.answer()
            other.answer()
            assert store.count_messages() == last
            check_task(store)

    def test_a_reader_does_not_take_the_writers_place(self, store: MessageStore) -> None:
        with OtherProcess(self.backend, store.context_dir) as other:
            other.ask("append", texts=["one"])
            assert texts(store) == ["one"]
            assert store.get_statistics()["total_messages"] == 1
            assert store.get_current_context_file().read_bytes().count(b"\n") == 1
            store.close()
            assert other.ask("append", texts=["two"]) == [2]

    def test_a_reader_never_waits_for_the_writer(self, folder: Path) -> None:
        with OtherProcess(self.backend, folder) as other:
            other.ask("append", texts=["one", "two"])
            other.send("hold_the_task")
            assert other.answer_line() == "held"
            store = self.backend.open(folder, db_timeout=20, max_retries=0)  # the writer holds on for longer
            assert texts(store) == ["one", "two"]
            assert store.get_current_token_count() == store.view().tokens
            assert len(store.get_messages_for_llm()) == 2
            other.send("told")
            other.answer()
            other.answer()
