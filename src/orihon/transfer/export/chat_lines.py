"""The log as messages of OpenAI Chat Completions, one on each line, as the provider's dicts that came in."""

from __future__ import annotations

from collections.abc import Iterator

from orihon.system import jsonio
from orihon.transfer.export.source import OpenTask


def chat_lines(task: OpenTask) -> Iterator[bytes]:
    """The lines, each with its line feed. Folds are left out: the log has everything that they stand for."""
    last = task.lasts["messages"]
    for stored in task.store.messages(1, last) if last else ():
        yield jsonio.encode(stored.message.to_chat()) + b"\n"
