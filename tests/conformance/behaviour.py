"""What every group of behaviour tests starts from: a back end, an empty folder, a store in it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from orihon import MessageStore
from tests.conformance.backends import Backend


class Behaviour:
    """Tests of one kind of behaviour; the back end is given by the class that collects them."""

    backend: ClassVar[Backend]

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / f"task-{secrets.token_hex(8)}"  # a name that no other test has: some back ends know only that

    @pytest.fixture
    def store(self, folder: Path) -> Iterator[MessageStore]:
        store = self.backend.open(folder)
        yield store
        store.close()

    def reopened(self, store: MessageStore, **options: Any) -> MessageStore:
        """The same task after the writer has let go of it."""
        store.close()
        return self.backend.open(store.context_dir, **options)


def call(call_id: str, tool: str = "read_file", arguments: str = "{}") -> dict[str, Any]:
    """A tool call as OpenAI sends it."""
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def add_calls(store: MessageStore, *call_ids: str, tool: str = "read_file") -> int:
    """An assistant message that makes these calls."""
    return store.add_message("assistant", None, tool_calls=[call(call_id, tool) for call_id in call_ids])


def add_conversation(store: MessageStore, turns: int) -> int:
    """A system prompt, then turns of question, tool call, result and answer; returns the last seq."""
    if store.count_messages() == 0:
        store.add_message("system", "You are a careful programmer.")
    first = store.count_messages()
    for turn in range(first, first + turns):
        store.add_message("user", f"question {turn}: なぜ失敗するのですか")
        add_calls(store, f"call-{turn}-a", f"call-{turn}-b")
        store.add_message("tool", f"output {turn} b " * 20, tool_call_id=f"call-{turn}-b")
        store.add_message("tool", f"output {turn} a " * 20, tool_call_id=f"call-{turn}-a")
        store.add_message("assistant", f"answer {turn}")
    return store.count_messages()


def texts(store: MessageStore) -> list[str | None]:
    """What the messages of the log say."""
    return [stored.message.content for stored in store.get_messages()]


def filled(backend: Backend, folder: Path) -> list[str | None]:
    """A task with a few messages, closed; what its log says."""
    store = backend.open(folder)
    add_conversation(store, 3)
    said = texts(store)
    store.close()
    return said
