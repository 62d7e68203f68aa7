"""Orihon: a durable, bounded context engine for long-running LLM agents.

The public names are listed in ``__all__`` and loaded when they are first used, so that ``import orihon`` costs
next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orihon.approvals.answering import PendingApproval
    from orihon.approvals.handler import ApprovalHandler
    from orihon.approvals.phase_archives import (
        delete_old_phase_archives,
        extract_section,
        partial_restore,
        restore_context,
    )
    from orihon.archive import ArchivedTask, archive_old, archive_task, restore_task
    from orihon.audit import (
        AuditFilter,
        AuditLogger,
        AuditRecord,
        AuditReport,
        ComplianceAuditLog,
        acting_as,
        audit_records,
        forget_person,
        verify_audit,
    )
    from orihon.catalogue import Catalogue, Grant, Lease, TaskRow
    from orihon.chain import ChainLink, Inherited, task_chain
    from orihon.checkpoints import Approval, Checkpoint, Phase
    from orihon.compression.compressor import ContextCompressor
    from orihon.compression.documents.optimizer import TokenOptimizer
    from orihon.compression.documents.sections import (
        AutoCompressionManager,
        CompressionLevel,
        compress_context,
        compress_level1,
        compress_level2,
        compress_level3,
    )
    from orihon.compression.lists.importance import ScoringConfig
    from orihon.compression.lists.memory_manager import AgentState, MemoryConfig, MemoryManager
    from orihon.compression.model.call import LLMClientProtocol
    from orihon.compression.model.hierarchical import IntelligentSummarizer
    from orihon.compression.model.summarizer import LLMSummarizer
    from orihon.compression.pages import NothingToFold
    from orihon.compression.planning import Draft
    from orihon.compression.result import CompressionResult
    from orihon.compression.squeezing.squeeze import squeeze
    from orihon.context import TaskContextManager
    from orihon.costs import CostLine, CostReport, cost_report
    from orihon.errors import OrihonError, Waiting
    from orihon.export import Exported, ExportRun, export_task, export_tasks
    from orihon.forking import fork_task
    from orihon.grants import NewGrant, list_grants, new_grant, revoke_grant
    from orihon.guard.live import register_secret
    from orihon.importers.importing import import_transcripts
    from orihon.importers.report import ImportReport
    from orihon.inheritance import ContextInheritanceManager, InheritanceContext, PreviousContext
    from orihon.ladder import AdaptiveContextManager, Ladder
    from orihon.llm.anthropic import AnthropicClient
    from orihon.llm.base import LLMClient
    from orihon.llm.clients import get_llm_client
    from orihon.llm.lmstudio import LMStudioClient
    from orihon.llm.ollama import OllamaClient
    from orihon.llm.openai import OpenAIClient
    from orihon.llm.scripted import ScriptedModel
    from orihon.message import Message, Part, ToolCall
    from orihon.metrics import MetricsServer, collect_metrics
    from orihon.migration import MigrationReport, migrate_tasks
    from orihon.mirror import S3MessageStore, fetch_mirror
    from orihon.notifications.delivery import Delivery
    from orihon.notifications.feed import deliver_notifications, list_notifications
    from orihon.notifications.notice import CompressionNotification, Notification
    from orihon.notifications.notifier import Notifier
    from orihon.objects import ObjectStorage
    from orihon.prices import Prices
    from orihon.privacy import (
        Anonymized,
        Erasure,
        GDPRCompliantStorage,
        UserExport,
        anonymize_task,
        erase_user,
        export_user,
    )
    from orihon.records import Compression, Fold, FoldReport, ModelCall, Pin, Usage
    from orihon.reports.diffing import ViewDiff, view_diff
    from orihon.reports.following import follow_messages
    from orihon.reports.monitor import ContextMonitor
    from orihon.reports.monthly import MonthlyReport, monthly_report
    from orihon.reports.overview import TaskOverview, task_overview
    from orihon.reports.storage import StorageSummary, collect_global_statistics, storage_summary
    from orihon.retention import archive_old_contexts, delete_old_contexts, keep_task, maintain, vacuum_databases
    from orihon.runtime.broker_queue import BrokerTaskQueue, RabbitMQTaskQueue, open_queue
    from orihon.runtime.handler import TaskHandler
    from orihon.runtime.polling import SourcePoller
    from orihon.runtime.queue import QueuedTask, TaskQueue
    from orihon.runtime.sources.base import TaskSource
    from orihon.runtime.sources.folder import FolderSource
    from orihon.runtime.sources.github import GitHubSource
    from orihon.runtime.sources.gitlab import GitLabSource
    from orihon.runtime.stats import collect_cluster_stats, collect_worker_stats, collect_workers
    from orihon.runtime.supervisor import Supervisor, monitor_workers
    from orihon.runtime.tools import ToolBox, ToolOptions
    from orihon.runtime.user_config import fetch_user_config
    from orihon.runtime.worker import WorkerProcess
    from orihon.scanning import scan_tasks
    from orihon.search import SearchHit, SearchResults, search_history
    from orihon.settings import Settings, load_settings
    from orihon.settings.in_force import settings_in_force
    from orihon.settings.rungs import Rung
    from orihon.store import MessageStore, PlanningHistoryStore, StoredMessage, SummaryStore, ToolStore
    from orihon.store.postgres_messages import PostgreSQLMessageStore
    from orihon.task import Task, TaskKey, TaskStatus
    from orihon.tokens import Budget, Correction
    from orihon.tools.context_stats import print_statistics_report
    from orihon.view import Entry, PlannedFold, View
    from orihon.view_reading import ViewAt, view_at
    from orihon.web.server import WebServer

__version__ = "0.1.0"

# A library is silent until the program decides where its log goes.
logging.getLogger("orihon").addHandler(logging.NullHandler())

_HOMES = {
    "AdaptiveContextManager": "orihon.ladder",
    "AgentState": "orihon.compression.lists.memory_manager",
    "Anonymized": "orihon.privacy",
    "AnthropicClient": "orihon.llm.anthropic",
    "Approval": "orihon.checkpoints",
    "ApprovalHandler": "orihon.approvals.handler",
    "ArchivedTask": "orihon.archive",
    "AuditFilter": "orihon.audit",
    "AuditLogger": "orihon.audit",
    "AuditRecord": "orihon.audit",
    "AuditReport": "orihon.audit",
    "AutoCompressionManager": "orihon.compression.documents.sections",
    "BrokerTaskQueue": "orihon.runtime.broker_queue",
    "Budget": "orihon.tokens",
    "Catalogue": "orihon.catalogue",
    "ChainLink": "orihon.chain",
    "Checkpoint": "orihon.checkpoints",
    "ComplianceAuditLog": "orihon.audit",
    "Compression": "orihon.records",
    "CompressionLevel": "orihon.compression.documents.sections",
    "CompressionNotification": "orihon.notifications.notice",
    "CompressionResult": "orihon.compression.result",
    "ContextCompressor": "orihon.compression.compressor",
    "ContextInheritanceManager": "orihon.inheritance",
    "ContextMonitor": "orihon.reports.monitor",
    "Correction": "orihon.tokens",
    "CostLine": "orihon.costs",
    "CostReport": "orihon.costs",
    "Delivery": "orihon.notifications.delivery",
    "Draft": "orihon.compression.planning",
    "Entry": "orihon.view",
    "Erasure": "orihon.privacy",
    "ExportRun": "orihon.export",
    "Exported": "orihon.export",
    "Fold": "orihon.records",
    "FoldReport": "orihon.records",
    "FolderSource": "orihon.runtime.sources.folder",
    "GDPRCompliantStorage": "orihon.privacy",
    "GitHubSource": "orihon.runtime.sources.github",
    "GitLabSource": "orihon.runtime.sources.gitlab",
    "Grant": "orihon.catalogue",
    "ImportReport": "orihon.importers.report",
    "InheritanceContext": "orihon.inheritance",
    "Inherited": "orihon.chain",
    "IntelligentSummarizer": "orihon.compression.model.hierarchical",
    "LLMClient": "orihon.llm.base",
    "LLMClientProtocol": "orihon.compression.model.call",
    "LLMSummarizer": "orihon.compression.model.summarizer",
    "LMStudioClient": "orihon.llm.lmstudio",
    "Ladder": "orihon.ladder",
    "Lease": "orihon.catalogue",
    "MemoryConfig": "orihon.compression.lists.memory_manager",
    "MemoryManager": "orihon.compression.lists.memory_manager",
    "Message": "orihon.message",
    "MessageStore": "orihon.store",
    "MetricsServer": "orihon.metrics",
    "MigrationReport": "orihon.migration",
    "ModelCall": "orihon.records",
    "MonthlyReport": "orihon.reports.monthly",
    "NewGrant": "orihon.grants",
    "NothingToFold": "orihon.compression.pages",
    "Notification": "orihon.notifications.notice",
    "Notifier": "orihon.notifications.notifier",
    "ObjectStorage": "orihon.objects",
    "OllamaClient": "orihon.llm.ollama",
    "OpenAIClient": "orihon.llm.openai",
    "OrihonError": "orihon.errors",
    "Part": "orihon.message",
    "PendingApproval": "orihon.approvals.answering",
    "Phase": "orihon.checkpoints",
    "Pin": "orihon.records",
    "PlannedFold": "orihon.view",
    "PlanningHistoryStore": "orihon.store",
    "PostgreSQLMessageStore": "orihon.store.postgres_messages",
    "PreviousContext": "orihon.inheritance",
    "Prices": "orihon.prices",
    "QueuedTask": "orihon.runtime.queue",
    "RabbitMQTaskQueue": "orihon.runtime.broker_queue",
    "Rung": "orihon.settings.rungs",
    "S3MessageStore": "orihon.mirror",
    "ScoringConfig": "orihon.compression.lists.importance",
    "ScriptedModel": "orihon.llm.scripted",
    "SearchHit": "orihon.search",
    "SearchResults": "orihon.search",
    "Settings": "orihon.settings",
    "SourcePoller": "orihon.runtime.polling",
    "StorageSummary": "orihon.reports.storage",
    "StoredMessage": "orihon.store",
    "SummaryStore": "orihon.store",
    "Supervisor": "orihon.runtime.supervisor",
    "Task": "orihon.task",
    "TaskContextManager": "orihon.context",
    "TaskHandler": "orihon.runtime.handler",
    "TaskKey": "orihon.task",
    "TaskOverview": "orihon.reports.overview",
    "TaskQueue": "orihon.runtime.queue",
    "TaskRow": "orihon.catalogue",
    "TaskSource": "orihon.runtime.sources.base",
    "TaskStatus": "orihon.task",
    "TokenOptimizer": "orihon.compression.documents.optimizer",
    "ToolBox": "orihon.runtime.tools",
    "ToolCall": "orihon.message",
    "ToolOptions": "orihon.runtime.tools",
    "ToolStore": "orihon.store",
    "Usage": "orihon.records",
    "UserExport": "orihon.privacy",
    "View": "orihon.view",
    "ViewAt": "orihon.view_reading",
    "ViewDiff": "orihon.reports.diffing",
    "Waiting": "orihon.errors",
    "WebServer": "orihon.web.server",
    "WorkerProcess": "orihon.runtime.worker",
    "acting_as": "orihon.audit",
    "anonymize_task": "orihon.privacy",
    "archive_old": "orihon.archive",
    "archive_old_contexts": "orihon.retention",
    "archive_task": "orihon.archive",
    "audit_records": "orihon.audit",
    "collect_cluster_stats": "orihon.runtime.stats",
    "collect_global_statistics": "orihon.reports.storage",
    "collect_metrics": "orihon.metrics",
    "collect_worker_stats": "orihon.runtime.stats",
    "collect_workers": "orihon.runtime.stats",
    "compress_context": "orihon.compression.documents.sections",
    "compress_level1": "orihon.compression.documents.sections",
    "compress_level2": "orihon.compression.documents.sections",
    "compress_level3": "orihon.compression.documents.sections",
    "cost_report": "orihon.costs",
    "delete_old_contexts": "orihon.retention",
    "delete_old_phase_archives": "orihon.approvals.phase_archives",
    "deliver_notifications": "orihon.notifications.feed",
    "erase_user": "orihon.privacy",
    "export_task": "orihon.export",
    "export_tasks": "orihon.export",
    "export_user": "orihon.privacy",
    "extract_section": "orihon.approvals.phase_archives",
    "fetch_mirror": "orihon.mirror",
    "fetch_user_config": "orihon.runtime.user_config",
    "follow_messages": "orihon.reports.following",
    "forget_person": "orihon.audit",
    "fork_task": "orihon.forking",
    "get_llm_client": "orihon.llm.clients",
    "import_transcripts": "orihon.importers.importing",
    "keep_task": "orihon.retention",
    "list_grants": "orihon.grants",
    "list_notifications": "orihon.notifications.feed",
    "load_settings": "orihon.settings",
    "maintain": "orihon.retention",
    "migrate_tasks": "orihon.migration",
    "monitor_workers": "orihon.runtime.supervisor",
    "monthly_report": "orihon.reports.monthly",
    "new_grant": "orihon.grants",
    "open_queue": "orihon.runtime.broker_queue",
    "partial_restore": "orihon.approvals.phase_archives",
    "print_statistics_report": "orihon.tools.context_stats",
    "register_secret": "orihon.guard.live",
    "restore_context": "orihon.approvals.phase_archives",
    "restore_task": "orihon.archive",
    "revoke_grant": "orihon.grants",
    "scan_tasks": "orihon.scanning",
    "search_history": "orihon.search",
    "settings_in_force": "orihon.settings.in_force",
    "squeeze": "orihon.compression.squeezing.squeeze",
    "storage_summary": "orihon.reports.storage",
    "task_chain": "orihon.chain",
    "task_overview": "orihon.reports.overview",
    "vacuum_databases": "orihon.retention",
    "verify_audit": "orihon.audit",
    "view_at": "orihon.view_reading",
    "view_diff": "orihon.reports.diffing",
}

__all__ = [
    "AdaptiveContextManager",
    "AgentState",
    "Anonymized",
    "AnthropicClient",
    "Approval",
    "ApprovalHandler",
    "ArchivedTask",
    "AuditFilter",
    "AuditLogger",
    "AuditRecord",
    "AuditReport",
    "AutoCompressionManager",
    "BrokerTaskQueue",
    "Budget",
    "Catalogue",
    "ChainLink",
    "Checkpoint",
    "ComplianceAuditLog",
    "Compression",
    "CompressionLevel",
    "CompressionNotification",
    "CompressionResult",
    "ContextCompressor",
    "ContextInheritanceManager",
    "ContextMonitor",
    "Correction",
    "CostLine",
    "CostReport",
    "Delivery",
    "Draft",
    "Entry",
    "Erasure",
    "ExportRun",
    "Exported",
    "Fold",
    "FoldReport",
    "FolderSource",
    "GDPRCompliantStorage",
    "GitHubSource",
    "GitLabSource",
    "Grant",
    "ImportReport",
    "InheritanceContext",
    "Inherited",
    "IntelligentSummarizer",
    "LLMClient",
    "LLMClientProtocol",
    "LLMSummarizer",
    "LMStudioClient",
    "Ladder",
    "Lease",
    "MemoryConfig",
    "MemoryManager",
    "Message",
    "MessageStore",
    "MetricsServer",
    "MigrationReport",
    "ModelCall",
    "MonthlyReport",
    "NewGrant",
    "NothingToFold",
    "Notification",
    "Notifier",
    "ObjectStorage",
    "OllamaClient",
    "OpenAIClient",
    "OrihonError",
    "Part",
    "PendingApproval",
    "Phase",
    "Pin",
    "PlannedFold",
    "PlanningHistoryStore",
    "PostgreSQLMessageStore",
    "PreviousContext",
    "Prices",
    "QueuedTask",
    "RabbitMQTaskQueue",
    "Rung",
    "S3MessageStore",
    "ScoringConfig",
    "ScriptedModel",
    "SearchHit",
    "SearchResults",
    "Settings",
    "SourcePoller",
    "StorageSummary",
    "StoredMessage",
    "SummaryStore",
    "Supervisor",
    "Task",
    "TaskContextManager",
    "TaskHandler",
    "TaskKey",
    "TaskOverview",
    "TaskQueue",
    "TaskRow",
    "TaskSource",
    "TaskStatus",
    "TokenOptimizer",
    "ToolBox",
    "ToolCall",
    "ToolOptions",
    "ToolStore",
    "Usage",
    "UserExport",
    "View",
    "ViewAt",
    "ViewDiff",
    "Waiting",
    "WebServer",
    "WorkerProcess",
    "acting_as",
    "anonymize_task",
    "archive_old",
    "archive_old_contexts",
    "archive_task",
    "audit_records",
    "collect_cluster_stats",
    "collect_global_statistics",
    "collect_metrics",
    "collect_worker_stats",
    "collect_workers",
    "compress_context",
    "compress_level1",
    "compress_level2",
    "compress_level3",
    "cost_report",
    "delete_old_contexts",
    "delete_old_phase_archives",
    "deliver_notifications",
    "erase_user",
    "export_task",
    "export_tasks",
    "export_user",
    "extract_section",
    "fetch_mirror",
    "fetch_user_config",
    "follow_messages",
    "forget_person",
    "fork_task",
    "get_llm_client",
    "import_transcripts",
    "keep_task",
    "list_grants",
    "list_notifications",
    "load_settings",
    "maintain",
    "migrate_tasks",
    "monitor_workers",
    "monthly_report",
    "new_grant",
    "open_queue",
    "partial_restore",
    "print_statistics_report",
    "register_secret",
    "restore_context",
    "restore_task",
    "revoke_grant",
    "scan_tasks",
    "search_history",
    "settings_in_force",
    "squeeze",
    "storage_summary",
    "task_chain",
    "task_overview",
    "vacuum_databases",
    "verify_audit",
    "view_at",
    "view_diff",
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
