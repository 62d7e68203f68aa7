"""The ways through the store are short: from adding a message down to the disk, and from the disk up to a request."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.system import jsonio


def test_few_calls_lie_between_a_message_and_the_write(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task")
    store.add_message("user", "the files are there now")
    ways: list[list[str]] = []

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called is os.writev:
            way = [frame.f_code.co_qualname]
            while way[-1] != "TaskMessages.add_message" and frame.f_back is not None:
                frame = frame.f_back
                way.append(frame.f_code.co_qualname)
            ways.append(way[::-1])

    sys.setprofile(look)
    try:
        store.add_message("user", "how deep is it?")
    finally:
        sys.setprofile(None)
    down = ["TaskMessages.add_message", "TaskStore.append", "FilesRecords.append", "AppendHandle.append"]
    assert ways == [down, down]  # the line of the view, then the record


MESSAGES = 120


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    store = MessageStore(tmp_path / "task", context_length=20_000)
    for number in range(MESSAGES):
        store.add_message("user" if number % 2 else "assistant", f"message {number} says something " * 9)
    return store


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often JSON was read and written."""
    asked: Counter[str] = Counter()

    def counted(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            asked[name] += 1
            return ask(*args, **kwargs)

        return counting

    for name in ("decode", "encode"):
        monkeypatch.setattr(jsonio, name, counted(name, getattr(jsonio, name)))
    return asked


def test_a_request_is_read_once_and_written_nowhere(store: MessageStore, asked: Counter[str]) -> None:
    messages = store.get_messages_for_llm()
    assert asked == {"decode": MESSAGES}
    assert messages == [jsonio.decode(line) for line in store.task_store.view_lines()]


def test_a_fold_reads_the_view_once_to_plan_it_and_what_is_left_to_show_it(
    store: MessageStore, asked: Counter[str]
) -> None:
    ContextCompressor(message_store=store).compress()
    left = store.task_store.tail.view_entries
    assert left < MESSAGES // 2
    assert asked["decode"] < MESSAGES + 2 * left
    asked.clear()
    store.folding.undo()
    assert store.task_store.tail.view_entries == MESSAGES
    assert asked["decode"] < MESSAGES + 2 * left + 9  # what was shown, and what is shown again
