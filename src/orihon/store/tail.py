"""What has to be known about a history to go on with it, and what a record is as an entry of the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.store.call_ids import CallIds
from orihon.values.records import Fold
from orihon.values.view import Entry


@dataclass(slots=True)
class Tail:
    """A few counters; never history."""

    seq: int = 0
    compressions: int = 0
    log_tokens: int = 0
    view_tokens: int = 0
    view_entries: int = 0
    open_calls: dict[str, str] = field(default_factory=dict)  # id -> tool, oldest first
    used_calls: CallIds = field(default_factory=CallIds)

    def copy(self) -> Tail:
        """The counters as they are now. The ids stay shared: one too many among them only costs a look."""
        return Tail(
            self.seq,
            self.compressions,
            self.log_tokens,
            self.view_tokens,
            self.view_entries,
            dict(self.open_calls),
            self.used_calls,
        )

    def count(self, seq: int, calls: Mapping[str, str], tokens: int) -> None:
        """One more message in the log."""
        self.seq = seq
        self.log_tokens += tokens
        for call_id in calls:
            self.used_calls.add(call_id)

    def show(self, calls: Mapping[str, str], answers: str | None, tokens: int) -> None:
        """One more entry at the end of the view."""
        self.view_tokens += tokens
        self.view_entries += 1
        if answers is not None:
            self.open_calls.pop(answers, None)
        elif calls:
            self.open_calls = dict(calls)


def calls_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The tool calls of a message's record: id and tool."""
    return {call["id"]: _tool_of(call) for call in record.get("tool_calls", ())}


def _tool_of(call: Mapping[str, Any]) -> str:
    """The tool's name, wherever this kind of call keeps it."""
    return str((call.get("function") or call.get("custom") or call).get("name", ""))


def entry_of(fold: Fold | None, record: Mapping[str, Any] | None) -> Entry:
    """An entry of the view: a message's record, a fold, or a preview (both)."""
    if record is None:
        assert fold is not None
        return Entry(fold.start_seq, fold.end_seq, "system", fold.tokens, fold)
    return Entry(
        start=record["seq"],
        end=record["seq"],
        role=record["role"],
        tokens=record["tokens"] if fold is None else fold.tokens,
        fold=fold,
        calls=tuple(calls_of(record)),
        answers=record.get("tool_call_id") if record["role"] == "tool" else None,
    )
