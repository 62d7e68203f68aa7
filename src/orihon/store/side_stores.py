"""The stores beside the log: summaries, tool calls and plans of a task, each one stream of its records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput
from orihon.store.factory import folder_of, shared_task_store
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.values.message.extra import expect_mapping
from orihon.values.tokens.tokens import estimate


class SideStore:
    """One stream of a task, given or opened by its folder."""

    def __init__(self, context_dir: Path | str, *, task_store: TaskStore | None = None) -> None:
        self._store = task_store or shared_task_store(folder_of(context_dir))

    @property
    def context_dir(self) -> Path:
        """Where the task lies now; it moves when the task ends."""
        return self._store.records.folder


class SummaryStore(SideStore):
    """The texts of all folds a task ever had, and summaries added by hand; oldest first, numbered from 1."""

    @property
    def summaries_file(self) -> Path:
        """Where the ``files`` back end keeps them."""
        return self.context_dir / "summaries.jsonl"

    def add_summary(
        self,
        summary: str | int | None = None,
        compressed_count: int = 0,
        tokens_saved: int | str | None = None,
        original_tokens: int | None = None,
        summary_tokens: int | None = None,
        *,
        summary_text: str | None = None,
        start_seq: int | None = None,
        end_seq: int | None = None,
    ) -> int:
        """Record a summary and return its id. This does not fold anything: see ``MessageStore.create_summary``.

        Another design writes the run first: ``(start_seq, end_seq, summary_text, original_tokens, summary_tokens)``.
        """
        if isinstance(summary, int) and isinstance(tokens_saved, str):
            start_seq, end_seq, summary_text = summary, compressed_count, tokens_saved
            summary, compressed_count, tokens_saved = None, 0, None
        if isinstance(summary, int) or isinstance(tokens_saved, str):
            raise InvalidInput("field_type", field="summary", actual=type(summary).__name__)
        text = summary if summary is not None else summary_text or ""
        size = estimate(text) if summary_tokens is None else summary_tokens
        before = (tokens_saved or 0) + size if original_tokens is None else original_tokens
        if start_seq is not None and end_seq is not None and not compressed_count:
            compressed_count = end_seq - start_seq + 1
        return self._store.add(
            "summaries",
            {
                "start_seq": start_seq,
                "end_seq": end_seq,
                "summary": text,
                "original_tokens": before,
                "summary_tokens": size,
                "ratio": round(size / before, 4) if before else 1.0,
                "compressed_message_count": compressed_count,
                "tokens_saved": before - size if tokens_saved is None else tokens_saved,
                "created_at": utc_now(),
            },
        )

    def get_latest_summary(self) -> dict[str, Any] | None:
        """The newest summary as it is stored; ``None`` when there is none."""
        last = self._store.count("summaries")
        return next(self._store.read("summaries", last, last), None) if last else None

    def get_summaries(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._store.read("summaries"))

    def count_summaries(self) -> int:
        """How many there are."""
        return self._store.count("summaries")


def tool_record(
    tool_name: str,
    arguments: Mapping[str, Any] | None,
    result: Any,
    error: str | None,
    *,
    status: str | None = None,
    duration_ms: float | None = None,
) -> dict[str, Any]:
    """The record of one call, before it has a number."""
    return {
        "tool_name": tool_name,
        "arguments": {} if arguments is None else dict(expect_mapping(arguments, "arguments")),
        "result": result,
        "status": status or ("success" if error is None else "error"),
        "error": error,
        "duration_ms": duration_ms,
        "timestamp": utc_now(),
    }


#: How a call can have ended.
STATUSES = ("success", "error")


class ToolStore(SideStore):
    """What every tool was asked and what it answered; oldest first, numbered from 1."""

    @property
    def tools_file(self) -> Path:
        """Where the ``files`` back end keeps them."""
        return self.context_dir / "tools.jsonl"

    def add_tool_call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        result: Any = None,
        error: str | None = None,
        duration_ms: float | None = None,
        error_message: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        status: str | None = None,
        call_id: str | None = None,
    ) -> int:
        """Record one call and return its number. ``status`` is ``error`` when an error is given.

        A status (``success``, ``error``) in the place of the error is taken for that, with the error behind the
        duration: so the first designs write it.
        ``call_id`` is the id of the call in the log: by it a result is found again that is not in the log yet.
        """
        asked = arguments if arguments is not None else args
        if status is None and error in STATUSES:
            status, error = error, error_message
        record = tool_record(tool_name, asked, result, error, status=status, duration_ms=duration_ms)
        return self._store.add("tools", record if call_id is None else {**record, "call_id": call_id})

    def get_tool_calls(self, first: int = 1, last: int | None = None) -> list[dict[str, Any]]:
        """Calls as they are stored."""
        return list(self._store.read("tools", first, last))

    def count_tool_calls(self) -> int:
        """How many there are."""
        return self._store.count("tools")


class PlanningHistoryStore(SideStore):
    """The plans of a task and how they changed; oldest first, numbered from 1."""

    def add_plan(self, plan_type: str, plan_content: Any) -> int:
        """Record a plan ("initial", "revision", …) and return its id."""
        return self._store.add(
            "planning", {"plan_type": plan_type, "plan_content": plan_content, "created_at": utc_now()}
        )

    def get_plans(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._store.read("planning"))

    def get_latest_plan(self) -> dict[str, Any] | None:
        """The newest plan; ``None`` when there is none."""
        last = self._store.count("planning")
        return next(self._store.read("planning", last, last), None) if last else None

    def count_plans(self) -> int:
        """How many there are."""
        return self._store.count("planning")
