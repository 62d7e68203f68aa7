"""Bad input and bad disks: one error of the tree that says cause and remedy, nothing changed, the task still usable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import DamagedStore, InvalidId, InvalidMessage, NoSuchMessage, StorageUnavailable
from orihon.system import jsonio
from tests.conformance.behaviour import Behaviour, add_calls, add_conversation, texts
from tests.conformance.invariants import check_task
from tests.helpers import refused

DEEP: list[Any] = []
for _ in range(500):
    DEEP = [DEEP]


class RefusalBehaviour(Behaviour):
    """What cannot be taken is refused before anything is written."""

    @pytest.mark.parametrize(
        ("reason", "arguments"),
        [
            ("unknown_role", {"role": "summary", "content": "x"}),
            ("unknown_role", {"role": "", "content": "x"}),
            ("wrong_type", {"role": None, "content": "x"}),
            ("wrong_type", {"role": 7, "content": "x"}),
            ("wrong_type", {"role": "user", "content": 7}),
            ("wrong_type", {"role": "user", "content": b"bytes"}),
            ("wrong_type", {"role": "user", "content": ["text"]}),
            ("wrong_type", {"role": "user", "content": {"type": "text"}}),
            ("wrong_type", {"role": "assistant", "tool_calls": "ls"}),
            ("wrong_type", {"role": "assistant", "tool_calls": [7]}),
            ("wrong_type", {"role": "assistant", "tool_calls": [{"id": "a"}]}),
            ("wrong_type", {"role": "tool", "content": "x", "tool_call_id": 7}),
            ("wrong_type", {"role": "user", "content": "x", "name": ["n"]}),
            ("not_json", {"role": "user", "content": "x", "extra_field": object()}),
            ("not_json", {"role": "user", "content": "x", "extra_field": b"bytes"}),
            ("not_json", {"role": "user", "content": "x", "extra_field": {1, 2}}),
            ("too_deep", {"role": "user", "content": "x", "extra_field": DEEP}),
            ("too_deep", {"role": "user", "content": [{"type": "text", "text": "x", "more": DEEP}]}),
        ],
    )
    def test_a_message_that_is_none(self, store: MessageStore, reason: str, arguments: dict[str, Any]) -> None:
        store.add_message("user", "hello")
        before = self.backend.unchanged(store.context_dir)
        with refused(InvalidMessage, reason):
            store.add_message(**arguments)
        assert self.backend.unchanged(store.context_dir) == before
        assert store.add_message("user", "goes on") == 2
        check_task(store)

    @pytest.mark.parametrize(
        "given", [7, "user", ["role", "user"], {}, {"content": "x"}, {"role": "user", "content": 1.5}]
    )
    def test_a_dict_that_is_no_message(self, store: MessageStore, given: Any) -> None:
        with pytest.raises(InvalidMessage) as caught:
            store.append(given)
        assert caught.value.remedy
        assert store.count_messages() == 0

    @pytest.mark.parametrize(
        "content",
        ["x" * 4_000, "あ" * 2_000, [{"type": "text", "text": "x" * 2_000}, {"type": "text", "text": "y" * 2_000}]],
        ids=["text", "japanese", "parts"],
    )
    @pytest.mark.parametrize("blob_bytes", [1_000, 100_000])
    def test_a_message_that_is_too_large(self, folder: Path, content: Any, blob_bytes: int) -> None:
        store = self.backend.open(folder, max_message_bytes=3_000, blob_bytes=blob_bytes)
        store.add_message("user", "hello")
        before = self.backend.raw_log(folder)
        if isinstance(content, list) and blob_bytes < 2_000:
            store.add_message("user", content)  # its parts are blobs, each within the limit
        else:
            with refused(InvalidMessage, "too_large") as caught:
                store.add_message("user", content)
            assert "3000" in str(caught.value)
            assert self.backend.raw_log(folder) == before
            assert store.add_message("user", "smaller") == 2
        check_task(store)
        store.close()

    def test_a_number_that_is_not_in_the_log(self, store: MessageStore) -> None:
        store.add_message("user", "hello")
        for seq in (0, 2, -1):
            with refused(NoSuchMessage, "seq"):
                store.get_message(seq)
        assert list(store.get_messages(2)) == []
        assert list(store.get_messages(5, 9)) == []

    @pytest.mark.parametrize(
        "name", ["../out", "/tmp/out", "a/../../out", "outputs/../../out", "", ".", "a//b", "a\0b"]
    )
    def test_no_kept_file_is_outside_of_the_task(self, store: MessageStore, folder: Path, name: str) -> None:
        store.add_message("user", "hello")
        records = store.task_store.records
        with refused(InvalidId, "unsafe"):
            records.keep_file(name, b"out")
        before = sorted(folder.parent.rglob("*"))
        with refused(InvalidId, "unsafe"):
            records.kept_file(name)
        records.keep_file("outputs/in.txt", b"in")
        assert records.kept_file("outputs/in.txt") == b"in"
        assert [path for path in sorted(folder.parent.rglob("*")) if folder not in path.parents] == [
            path for path in before if folder not in path.parents
        ]


class DamageBehaviour(Behaviour):
    """Damage raises, the same way on every way of reading, and what is before it can be read."""

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(lambda line: line[:-20], id="cut"),
            pytest.param(lambda line: b"\xff\x00garbage", id="garbage"),
            pytest.param(lambda line: b"", id="empty"),
            pytest.param(lambda line: line.replace(b'"seq":3', b'"seq":4'), id="wrong number"),
            pytest.param(lambda line: line.replace(b'"role":"assistant"', b'"role":"assiztant"'), id="wrong role"),
            pytest.param(lambda line: b'{"seq":3}', id="no fields"),
            pytest.param(lambda line: line.replace(b'"content":null', b'"content":17'), id="wrong type"),
            pytest.param(lambda line: line.replace(b'"tokens":', b'"tokenz":'), id="no tokens"),
            pytest.param(lambda line: line.replace(b'"timestamp":"2', b'"timestamp":"1'), id="other time"),
        ],
    )
    def test_a_broken_record_in_the_middle(self, store: MessageStore, broken: Callable[[bytes], bytes]) -> None:
        add_conversation(store, 3)
        line = next(iter(store.task_store.records.read("messages", (3, 3))))
        store.close()
        self.backend.damage(store.context_dir, 3, broken(line))
        again = self.backend.open(store.context_dir)
        ways: list[Callable[[], object]] = [
            lambda: list(again.get_messages()),
            lambda: list(again.get_messages(2, 4)),
            lambda: again.get_message(3),
            again.get_messages_for_llm,
        ]
        for way in ways:
            with pytest.raises(DamagedStore) as caught:
                way()
            assert caught.value.remedy
        before = self.backend.raw_log(store.context_dir)
        with pytest.raises(DamagedStore):
            again.add_message("user", "goes on")
            again.get_messages_for_llm()
        assert self.backend.raw_log(store.context_dir).startswith(before)
        assert [stored.seq for stored in again.get_messages(1, 2)] == [1, 2]

    def test_a_record_in_the_middle_that_is_gone(self, store: MessageStore) -> None:
        last = add_conversation(store, 3)
        store.close()
        self.backend.lose(store.context_dir, 3)
        again = self.backend.open(store.context_dir)
        records = again.task_store.records
        ways: list[Callable[[], object]] = [
            lambda: list(again.get_messages()),
            lambda: list(again.get_messages(2, 3)),
            lambda: list(records.read("messages", (3, 3))),
            lambda: list(records.read("messages", (1, 3), (5, 5))),
            lambda: again.get_message(3),
            again.get_messages_for_llm,
        ]
        for number, way in enumerate(ways):
            with pytest.raises(DamagedStore):
                assert not way(), number
        assert [stored.seq for stored in again.get_messages(4, last + 10)][:1] == [4]

    def test_a_blob_that_is_gone_or_changed(self, folder: Path) -> None:
        store = self.backend.open(folder, blob_bytes=100)
        store.add_message("user", "long " * 100)
        ((blob, content),) = self.backend.blobs(folder).items()
        self.backend.put_blob(folder, blob, content[:-1] + b"?")
        with refused(DamagedStore, "blob_changed"):
            store.get_message(1)
        self.backend.lose_blob(folder, blob)
        with refused(DamagedStore, "blob_missing"):
            store.get_messages_for_llm()
        self.backend.put_blob(folder, blob, content)
        check_task(store)
        store.close()

    def test_a_log_that_has_lost_what_a_fold_stands_for(self, store: MessageStore) -> None:
        last = add_conversation(store, 3)
        store.create_summary(2, last, "everything")
        store.close()
        self.backend.forget(store.context_dir, after=4)
        again = self.backend.open(store.context_dir)
        for way in (again.view, again.get_messages_for_llm, again.get_current_token_count):
            with pytest.raises(DamagedStore) as caught:
                way()
            assert caught.value.remedy
        with pytest.raises(DamagedStore):
            again.add_message("user", "over the hole")
        assert again.count_messages() == 4

    def test_an_interrupted_append_leaves_the_task_in_order(
        self, store: MessageStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C after the record was stored and before anybody was told."""
        add_conversation(store, 1)
        records = store.task_store.records
        stored = type(records).append

        def interrupted(*arguments: Any) -> None:
            stored(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(records), "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.add_message("user", "perhaps")
        with pytest.raises(KeyboardInterrupt):
            store.create_summary(2, 6, "perhaps")
        monkeypatch.undo()
        add_calls(store, "later")
        store.answer_open_calls("x")
        store.create_summary(2, 6, "surely")
        check_task(store)
        assert "surely" in store.get_messages_for_llm()[1]["content"]
        assert texts(store)[:5] == texts(self.reopened(store))[:5]

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "task").write_text("not a folder")
        with refused(StorageUnavailable, "io"):
            self.backend.open(tmp_path / "task").add_message("user", "hello")
        assert (tmp_path / "task").read_text() == "not a folder"

    def test_records_are_json_that_people_can_read(self, store: MessageStore) -> None:
        store.add_message("user", "日本語")
        (line,) = store.task_store.records.read("messages")
        assert "日本語".encode() in line
        record = jsonio.decode(line)
        assert list(record) == ["seq", "crc32", "role", "content", "timestamp", "tokens", "epoch", "digest"]
