"""The stores of a task: messages, summaries, tool calls, plans."""

from orihon.store.messages import MessageStore
from orihon.store.plans import PlanningHistoryStore
from orihon.store.record_codec import StoredMessage
from orihon.store.summaries import SummaryStore
from orihon.store.tools import ToolStore

__all__ = ["MessageStore", "PlanningHistoryStore", "StoredMessage", "SummaryStore", "ToolStore"]
