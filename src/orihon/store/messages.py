"""``TaskMessages``: the log of a task and its current context.

The face of ``TaskStore`` with the methods that agents know: add a message, ask how full the context is, get
the file that the next request is made of, fold and open again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.settings import Settings
from orihon.store.documents import exact_view_tokens
from orihon.store.folding import Folding
from orihon.store.record_codec import StoredMessage
from orihon.store.side_stores import tool_record
from orihon.store.task_store import TaskStore
from orihon.values.message.extra import expect, expect_mapping
from orihon.values.message.message import Message, ToolCall
from orihon.values.message.provider_shapes import with_user
from orihon.values.message.wire import SENT_FIELDS
from orihon.values.records import Compression, ModelCall
from orihon.values.tokens.tokens import Correction, Gauge
from orihon.values.view import PlannedFold, View

if TYPE_CHECKING:
    pass


class TaskMessages:
    """Every message of a task, for ever, and the view of them that fits the model."""

    def __init__(self, task_store: TaskStore, settings: Settings, *, context_length: int | None = None) -> None:
        self.settings = settings
        self.context_length = context_length or settings.context_length
        self.correction = Correction()
        self.tool_tokens = 0  # of the definitions that go out with each request; who sends them says so
        self.has_recall = False  # whether the model can read back what is folded; who gives it the tools says so
        self.compression_threshold = settings.compression.threshold
        self.max_memory_messages = settings.context_storage.max_memory_messages
        self.task_store = task_store
        self.folding = Folding(task_store)

    @property
    def context_dir(self) -> Path:
        """Where the task lies now; it moves when the task ends."""
        return self.task_store.records.folder

    # ---- the log -----------------------------------------------------------------------------------------------

    def add_message(
        self,
        role: str,
        content: str | Sequence[Mapping[str, Any]] | None = None,
        tool_name: str | None = None,
        *,
        tool_calls: Sequence[Mapping[str, Any] | ToolCall] | None = None,
        tool_call_id: str | None = None,
        name: str | None = None,
        tool_call: Mapping[str, Any] | None = None,
        call: ModelCall | None = None,
        **metadata: Any,
    ) -> int:
        """Store a message and return its number (``seq``).

        A ``tool`` message answers ``tool_call_id`` or, without one, the oldest open call of ``tool_name``.
        ``call`` says which call of a model an answer came from; it is kept, and never sent.
        ``tool_call`` also records the call (``tool_name``, ``arguments``, ``result``, ``status``, ``duration_ms``).
        Further keywords are kept with the message; a provider sees only those that providers have (``cache_control``,
        ``reasoning_content`` …), because most refuse a message with a field that they do not know.
        """
        if tool_call is not None and expect_mapping(tool_call, "tool_call") and tool_name is None:
            tool_name = tool_call.get("tool_name")
        message = Message.build(
            role,
            content,
            tool_name=tool_name,
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            name=name,
            extra=metadata or None,
            unsent=[field for field in metadata if field not in SENT_FIELDS],
        )
        tool = None if tool_call is None else _tool_record(tool_call, tool_name)
        return self.task_store.append(message, call=call, tool=tool)

    def append(self, message: Message | Mapping[str, Any], *, call: ModelCall | None = None) -> int:
        """Store a ``Message``, or an OpenAI chat message as a dict, and return its number."""
        read = message if isinstance(message, Message) else Message.from_chat(message)
        return self.task_store.append(read, call=call)

    def answer_open_calls(self, text: str = "interrupted") -> list[int]:
        """Give every tool call that still waits for a result this text as its result."""
        waiting = list(self.task_store.tail.open_calls.items())
        return [self.add_message("tool", text, tool, tool_call_id=call_id) for call_id, tool in waiting]

    def get_messages(self, first: int = 1, last: int | None = None) -> Iterator[StoredMessage]:
        """Messages of the log by number, one at a time."""
        return self.task_store.messages(first, last)

    def get_message(self, seq: int) -> StoredMessage:
        """One message of the log."""
        return self.task_store.message(expect(seq, int, "seq"))

    def get_recent_messages(self, limit: int | None = None) -> list[StoredMessage]:
        """The newest messages, at most ``max_memory_messages`` unless told otherwise."""
        last = self.count_messages()
        wanted = self.max_memory_messages if limit is None else limit
        return list(self.task_store.messages(max(1, last - wanted + 1), last)) if wanted > 0 else []

    def count_messages(self) -> int:
        """Messages in the log."""
        return self.task_store.count("messages")

    # ---- the view ----------------------------------------------------------------------------------------------

    def get_current_context_file(self, unsummarized_file_path: Path | str | None = None) -> Path:
        """The file with the current context, one OpenAI chat message per line."""
        if unsummarized_file_path is not None:
            return Path(unsummarized_file_path)
        return self.task_store.view_file()

    def get_current_token_count(self) -> int:
        """Estimated tokens of the current context; does not read it."""
        return self.task_store.tail.view_tokens

    def get_exact_token_count(self, tokenizer: str) -> int:
        """Tokens of the current context by a real tokenizer. Entries that were counted before are not read again."""
        return exact_view_tokens(self.task_store, tokenizer)

    def get_messages_for_llm(self) -> list[dict[str, Any]]:
        """The current context as a list of OpenAI chat messages; where nobody speaks in it, with a user's message."""
        return with_user(list(self.task_store.view_messages()))

    def view(self) -> View:
        """The current context as a value of the fold algebra."""
        return self.task_store.view()

    def create_summary(self, start_message_id: int, end_message_id: int, summary_content: str) -> int:
        """Fold a run of the log into this summary; returns the summary's id."""
        record = self.folding.compress([PlannedFold(start_message_id, end_message_id, summary_content)])
        return record.folds[0]

    def rewind(self, seq: int, notice: str = "", *, made_by: str = "") -> Compression:
        """Go back to the view of step ``seq``; what came later is folded into a notice, and ``undo`` opens it again."""
        return self.folding.rewind(seq, notice, made_by=made_by)

    def compressions(self) -> list[Compression]:
        """Every change of the view so far."""
        return self.folding.records()

    # ---- figures -----------------------------------------------------------------------------------------------

    @property
    def gauge(self) -> Gauge:
        """How full the current context is."""
        return Gauge.of(self.settings, self.context_length, self.correction, self.tool_tokens)

    def get_statistics(self) -> dict[str, Any]:
        """Counts and sizes of this task."""
        tail = self.task_store.tail
        folds, _ = self.task_store.state()
        statuses = [record["status"] for record in self.task_store.read("tools")]
        size = self.task_store.records.size()
        return {
            "total_messages": tail.seq,
            "total_tokens": tail.log_tokens,
            "summarized_messages": sum(fold.message_count for fold in folds),
            "memory_messages": min(tail.seq, self.max_memory_messages),
            "view_entries": tail.view_entries,
            "view_tokens": tail.view_tokens,
            "summaries_count": self.task_store.count("summaries"),
            "tool_calls_total": len(statuses),
            "tool_calls_success": statuses.count("success"),
            "db_size_bytes": size,
            "db_size_mb": size / (1024 * 1024),
        }

    def close(self) -> None:
        """Let go of the task. Adding a message later takes it up again."""
        self.task_store.close()


def _tool_record(told: Mapping[str, Any], tool_name: str | None) -> dict[str, Any]:
    return tool_record(
        told.get("tool_name") or tool_name or "",
        told.get("arguments"),
        told.get("result"),
        told.get("error_message") or told.get("error"),
        status=told.get("status"),
        duration_ms=told.get("duration_ms"),
    )
