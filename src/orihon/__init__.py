"""Orihon: a durable, bounded context engine for long-running LLM agents.

The public names are listed in ``__all__`` and loaded when they are first used, so that ``import orihon`` costs
next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orihon.catalogue import Catalogue, Lease, TaskRow
    from orihon.compression.compressor import CompressionResult, ContextCompressor
    from orihon.compression.importance import ScoringConfig
    from orihon.compression.memory_manager import AgentState, MemoryConfig, MemoryManager
    from orihon.context import TaskContextManager
    from orihon.errors import OrihonError
    from orihon.inheritance import ContextInheritanceManager, InheritanceContext, PreviousContext
    from orihon.message import Message, Part, ToolCall
    from orihon.records import Compression, Fold, Pin
    from orihon.settings import Settings, load_settings
    from orihon.store import MessageStore, PlanningHistoryStore, StoredMessage, SummaryStore, ToolStore
    from orihon.task import Task, TaskKey, TaskStatus
    from orihon.tokens import Budget, Correction
    from orihon.view import Entry, PlannedFold, View

__version__ = "0.1.0"

# A library is silent until the program decides where its log goes.
logging.getLogger("orihon").addHandler(logging.NullHandler())

_HOMES = {
    "AgentState": "orihon.compression.memory_manager",
    "Budget": "orihon.tokens",
    "Catalogue": "orihon.catalogue",
    "Compression": "orihon.records",
    "CompressionResult": "orihon.compression.compressor",
    "ContextCompressor": "orihon.compression.compressor",
    "ContextInheritanceManager": "orihon.inheritance",
    "Correction": "orihon.tokens",
    "Entry": "orihon.view",
    "Fold": "orihon.records",
    "InheritanceContext": "orihon.inheritance",
    "Lease": "orihon.catalogue",
    "MemoryConfig": "orihon.compression.memory_manager",
    "MemoryManager": "orihon.compression.memory_manager",
    "Message": "orihon.message",
    "MessageStore": "orihon.store",
    "OrihonError": "orihon.errors",
    "Part": "orihon.message",
    "Pin": "orihon.records",
    "PlannedFold": "orihon.view",
    "PlanningHistoryStore": "orihon.store",
    "PreviousContext": "orihon.inheritance",
    "ScoringConfig": "orihon.compression.importance",
    "Settings": "orihon.settings",
    "StoredMessage": "orihon.store",
    "SummaryStore": "orihon.store",
    "Task": "orihon.task",
    "TaskContextManager": "orihon.context",
    "TaskKey": "orihon.task",
    "TaskRow": "orihon.catalogue",
    "TaskStatus": "orihon.task",
    "ToolCall": "orihon.message",
    "ToolStore": "orihon.store",
    "View": "orihon.view",
    "load_settings": "orihon.settings",
}

__all__ = [
    "AgentState",
    "Budget",
    "Catalogue",
    "Compression",
    "CompressionResult",
    "ContextCompressor",
    "ContextInheritanceManager",
    "Correction",
    "Entry",
    "Fold",
    "InheritanceContext",
    "Lease",
    "MemoryConfig",
    "MemoryManager",
    "Message",
    "MessageStore",
    "OrihonError",
    "Part",
    "Pin",
    "PlannedFold",
    "PlanningHistoryStore",
    "PreviousContext",
    "ScoringConfig",
    "Settings",
    "StoredMessage",
    "SummaryStore",
    "Task",
    "TaskContextManager",
    "TaskKey",
    "TaskRow",
    "TaskStatus",
    "ToolCall",
    "ToolStore",
    "View",
    "load_settings",
]


def __getattr__(name: str) -> object:
    try:
        value: object = getattr(import_module(_HOMES[name]), name)
    except KeyError:
        raise AttributeError(f"module 'orihon' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
