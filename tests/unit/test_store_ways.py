"""The ways through the store are short: from adding a message down to the disk, and from the disk up to a request."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from orihon.store import MessageStore


def test_few_calls_lie_between_a_message_and_the_write(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task")
    store.add_message("user", "the files are there now")
    ways: list[list[str]] = []

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called is os.writev:
            way = [frame.f_code.co_qualname]
            while way[-1] != "MessageStore.add_message" and frame.f_back is not None:
                frame = frame.f_back
                way.append(frame.f_code.co_qualname)
            ways.append(way[::-1])

    sys.setprofile(look)
    try:
        store.add_message("user", "how deep is it?")
    finally:
        sys.setprofile(None)
    down = ["MessageStore.add_message", "TaskStore.append", "FilesRecords.append", "AppendHandle.append"]
    assert ways == [down, down]  # the line of the view, then the record
