"""The log keeps what it is given: numbers, roles, contents, unknown fields, dirty data."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import ToolCallError
from orihon.store.record_codec import Said
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage
from tests.conformance.behaviour import Behaviour, add_conversation, call, texts
from tests.conformance.child import OtherProcess
from tests.conformance.invariants import check_task, shown
from tests.strategies import Json

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
DATA_URL = "data:image/png;base64," + base64.b64encode(PICTURE).decode()

DIRTY = {
    "nul": "before\x00after",
    "lone_surrogates": "caf\udce9 \ud800 end\udfff",
    "terminal": "\x1b[2J\x1b[31mred\x1b[0m\x07\x08\r 50%\r100%",
    "crlf": "one\r\ntwo\rthree\n\n",
    "separators": "a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1e",
    "bidi": "\u202eevil\u202c \ufeff\u200b\ufffe",
    "quotes": '{"seq":1,"role":"user"}\n{"seq":2',
    "japanese": "ﾊﾝｶｸ 全角 😀 が\u3099",
}


def chat(message: Message) -> dict[str, Any]:
    """The message as the caller's dict."""
    return message.to_chat()


class LogBehaviour(Behaviour):
    """Appending and reading back."""

    def test_numbers_run_from_one_without_gaps(self, store: MessageStore) -> None:
        assert store.count_messages() == 0
        assert [store.add_message("user", f"message {number}") for number in (1, 2, 3)] == [1, 2, 3]
        assert [stored.seq for stored in store.get_messages()] == [1, 2, 3]
        assert [stored.seq for stored in store.get_messages(2, 3)] == [2, 3]
        assert store.get_message(2).message.content == "message 2"
        check_task(store)

    def test_an_answer_keeps_the_call_that_it_came_from(self, store: MessageStore) -> None:
        made = ModelCall("gpt-4o", Usage(input=900, cached=600, output=12), cost=0.0021)
        store.add_message("user", "question")
        store.add_message("assistant", "answer", call=made)
        assert [stored.call for stored in store.get_messages()] == [None, made]
        assert store.get_messages_for_llm()[-1] == {"role": "assistant", "content": "answer"}
        check_task(store)

    def test_many_messages_are_kept_with_their_times_or_none_of_them(self, store: MessageStore) -> None:
        said = [
            Said(Message.build("user", "question"), "2026-01-31T21:00:00+09:00"),
            Said(Message.build("assistant", "answer"), "2026-01-31T12:00:01.5Z", ModelCall("gpt-4o")),
        ]
        assert store.task_store.append(said) == 2
        times = [stored.timestamp for stored in store.get_messages()]
        assert times == ["2026-01-31T12:00:00.000000+00:00", "2026-01-31T12:00:01.500000+00:00"]
        with pytest.raises(ToolCallError):
            store.task_store.append([Said(Message.build("user", "more")), Said(Message.build("tool", "orphan"))])
        assert store.count_messages() == 2
        check_task(store)

    def test_who_adds_many_is_told_what_the_log_has(self, store: MessageStore) -> None:
        messages = [Message.build("user", "梨はいくつ？" * 20), Message.build("assistant", extra={"a": [1.5]})]
        said = [Said(one, encoded=jsonio.encode(one.body())) for one in messages]
        told: list[tuple[Message, int]] = []
        store.task_store.append(said, stored=lambda one, tokens: told.append((one.message, tokens)))
        assert told == [(stored.message, stored.tokens) for stored in store.get_messages()]
        with pytest.raises(ToolCallError):
            store.task_store.append(
                [Said(Message.build("tool", "orphan"))], stored=lambda one, tokens: told.append((one.message, tokens))
            )
        assert len(told) == 2
        check_task(store)

    def test_an_empty_task_has_an_empty_view(self, store: MessageStore) -> None:
        assert store.get_messages_for_llm() == []
        assert store.get_current_token_count() == 0
        assert store.get_current_context_file().read_bytes() == b""
        check_task(store)

    @pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
    def test_roles_are_kept(self, store: MessageStore, role: str) -> None:
        store.add_message(role, "text")
        assert store.get_message(1).message.role == role
        assert shown(store) == [{"role": role, "content": "text"}]

    @pytest.mark.parametrize(
        "message",
        [
            {"role": "user", "content": ""},
            {"role": "user", "content": "日本語とEnglish"},
            {"role": "assistant", "content": None},
            {"role": "assistant", "content": None, "tool_calls": [call("a", arguments='{"path": "x"}')]},
            {"role": "user", "content": [{"type": "text", "text": "what is this?"}]},
            {"role": "user", "content": []},
            {"role": "user", "content": "hello", "name": "ann"},
            {"role": "assistant", "content": "x", "reasoning_content": "考える", "vendor": {"a": [1, None, 2.5]}},
            {"role": "user", "content": "x", "$orihon": 1, "blobs": [{"at": ["content"], "sha256": "0"}]},
            {"role": "user", "content": "x", "seq": 99, "tokens": -1, "digest": "none", "epoch": 7},
            {"role": "user", "content": "x", "number": 2**80, "small": -(2**70), "limit": 2**63},
        ],
        ids=lambda message: "+".join(message),
    )
    def test_a_chat_message_comes_back_as_it_was(self, store: MessageStore, message: Json) -> None:
        store.append(message)
        assert chat(store.get_message(1).message) == message
        assert chat(self.reopened(store).get_message(1).message) == message

    @pytest.mark.parametrize("text", DIRTY.values(), ids=DIRTY.keys())
    def test_dirty_text_comes_back_as_it_was(self, store: MessageStore, text: str) -> None:
        store.add_message("user", text)
        store.add_message("assistant", None, tool_calls=[call("c", arguments=json.dumps({"text": text}))])
        store.add_message("tool", text, tool_call_id="c", note=text)
        again = self.reopened(store)
        assert again.get_message(1).message.content == text
        assert json.loads(again.get_message(2).message.tool_calls[0].arguments) == {"text": text}
        assert chat(again.get_message(3).message)["note"] == text
        check_task(again)

    def test_fifty_megabytes_go_to_a_blob_and_come_back(self, store: MessageStore) -> None:
        text = "出力 line\x00\x1b[0m\n" * (50 * 1024 * 1024 // 21)
        store.add_message("user", text)
        assert len(self.backend.raw_log(store.context_dir)) < 10_000
        assert store.get_message(1).message.content == text
        again = self.reopened(store)
        (line,) = again.task_store.view_messages()  # as it is; what is asked for would be folded to fit
        assert line["content"] == text
        again.close()

    def test_an_image_is_stored_once(self, store: MessageStore) -> None:
        content: list[Json] = [
            {"type": "text", "text": "見て"},
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
        ]
        for _ in range(2):
            store.add_message("user", content)
        assert self.backend.blobs(store.context_dir) == {hashlib.sha256(PICTURE).hexdigest(): PICTURE}
        assert DATA_URL[100:200].encode() not in self.backend.raw_log(store.context_dir)
        again = self.reopened(store)
        assert [chat(stored.message)["content"] for stored in again.get_messages()] == [content, content]
        assert again.get_messages_for_llm()[1]["content"] == content
        check_task(again)

    def test_keywords_are_kept_with_the_message(self, store: MessageStore) -> None:
        store.add_message("assistant", "x", reasoning_content="hm", cost={"usd": 0.01}, tags=["日本"])
        message = chat(store.get_message(1).message)
        assert message["cost"] == {"usd": 0.01}
        assert message["tags"] == ["日本"]
        assert shown(store)[0]["reasoning_content"] == "hm"

    def test_the_callers_data_is_not_changed(self, store: MessageStore) -> None:
        part = {"type": "image_url", "image_url": {"url": DATA_URL}}
        message = {"role": "user", "content": [part], "vendor": {"data": "x" * 2_000_000}}
        before = json.dumps(message)
        store.append(message)
        assert json.dumps(message) == before

    def test_a_fresh_process_reads_the_same(self, store: MessageStore) -> None:
        add_conversation(store, 4)
        store.create_summary(2, 6, "the first turn")
        said, view = texts(store), store.get_messages_for_llm()
        store.close()
        with OtherProcess(self.backend, store.context_dir) as other:
            assert other.ask("contents") == said
            assert other.ask("view") == view
            other.ask("check")

    def test_the_newest_messages_at_most_as_many_as_asked(self, store: MessageStore) -> None:
        for number in range(30):
            store.add_message("user", f"message {number}")
        assert [stored.seq for stored in store.get_recent_messages()] == list(range(11, 31))
        assert [stored.seq for stored in store.get_recent_messages(3)] == [28, 29, 30]
        assert store.get_recent_messages(0) == []
        assert len(store.get_recent_messages(500)) == 30
        assert len(self.reopened(store, max_memory_messages=5).memory_cache) == 5

    def test_the_log_goes_on_after_closing(self, store: MessageStore) -> None:
        store.add_message("user", "one")
        store.close()
        assert store.add_message("user", "two") == 2
        again = self.reopened(store)
        assert again.add_message("user", "three") == 3
        assert texts(again) == ["one", "two", "three"]
        check_task(again)

    def test_unsynced_appends_are_kept_too(self, folder: object, store: MessageStore) -> None:
        fast = self.reopened(store, durability="os")
        last = add_conversation(fast, 3)
        fast.create_summary(2, 6, "the first turn")
        again = self.reopened(fast)
        assert again.count_messages() == last
        check_task(again)

    def test_statistics(self, store: MessageStore) -> None:
        last = add_conversation(store, 5)
        store.create_summary(2, 11, "two turns")
        store.add_message(
            "user", "look", tool_call={"tool_name": "ls", "arguments": {}, "result": "x", "status": "success"}
        )
        store.add_message("user", "again", tool_call={"tool_name": "ls", "error": "no such folder"})
        found = store.get_statistics()
        assert found["total_messages"] == last + 2
        assert found["total_tokens"] == sum(stored.tokens for stored in store.get_messages())
        assert found["summarized_messages"] == 10
        assert found["memory_messages"] == 20
        assert found["view_entries"] == last + 2 - 9
        assert found["view_tokens"] == store.get_current_token_count()
        assert found["summaries_count"] == 1
        assert (found["tool_calls_total"], found["tool_calls_success"]) == (2, 1)
        assert found["db_size_bytes"] > 0
        assert found["db_size_mb"] == found["db_size_bytes"] / 1024 / 1024
