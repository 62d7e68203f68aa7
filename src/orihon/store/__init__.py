"""The stores of a task: messages, summaries, tool calls, plans."""

from orihon.store.messages import TaskMessages
from orihon.store.record_codec import StoredMessage
from orihon.store.side_stores import PlanningHistoryStore, SummaryStore, ToolStore

__all__ = ["PlanningHistoryStore", "StoredMessage", "SummaryStore", "TaskMessages", "ToolStore"]
