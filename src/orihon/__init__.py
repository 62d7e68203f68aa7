"""Orihon: a durable, bounded context engine for long-running LLM agents.

The public names are listed in ``__all__`` and loaded when they are first used, so that ``import orihon`` costs
next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from orihon.classic.functions import (
        anonymize_task,
        archive_old,
        archive_old_contexts,
        archive_task,
        delete_old_contexts,
        delete_old_phase_archives,
        deliver_notifications,
        erase_user,
        export_task,
        export_tasks,
        export_user,
        follow_messages,
        fork_task,
        import_transcripts,
        keep_task,
        list_grants,
        list_notifications,
        maintain,
        monthly_report,
        new_grant,
        restore_task,
        revoke_grant,
        scan_tasks,
        search_history,
        storage_summary,
        task_chain,
        task_overview,
        vacuum_databases,
        view_at,
        view_diff,
    )
    from orihon.classic.memory.memory_manager import AgentState, MemoryConfig, MemoryManager
    from orihon.classic.postgres_messages import PostgreSQLMessageStore
    from orihon.classic.tools.context_stats import print_statistics_report
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
    from orihon.compression.importance import ScoringConfig
    from orihon.compression.model.call import LLMClientProtocol
    from orihon.compression.model.hierarchical import IntelligentSummarizer
    from orihon.compression.model.summarizer import LLMSummarizer
    from orihon.compression.pages import NothingToFold
    from orihon.compression.planner import Draft
    from orihon.compression.result import CompressionResult
    from orihon.compression.squeeze.squeeze import squeeze
    from orihon.drivers.objects import ObjectStorage
    from orihon.errors import OrihonError, Waiting
    from orihon.guard.masking.known_values import register_secret
    from orihon.importers.report import ImportReport
    from orihon.llm.anthropic import AnthropicClient
    from orihon.llm.base import LLMClient
    from orihon.llm.clients import get_llm_client
    from orihon.llm.lmstudio import LMStudioClient
    from orihon.llm.ollama import OllamaClient
    from orihon.llm.openai import OpenAIClient
    from orihon.llm.scripted import ScriptedModel
    from orihon.notifications.delivery import Delivery
    from orihon.notifications.notification import CompressionNotification, Notification
    from orihon.notifications.notifier import Notifier
    from orihon.reports.costs import CostLine, CostReport, cost_report
    from orihon.reports.metrics import MetricsServer, collect_metrics
    from orihon.reports.monitor import ContextMonitor
    from orihon.reports.monthly import MonthlyReport
    from orihon.reports.overview import TaskOverview
    from orihon.reports.storage import StorageSummary, collect_global_statistics
    from orihon.reports.view_diff import ViewDiff
    from orihon.runtime.broker_queue import BrokerTaskQueue, RabbitMQTaskQueue, open_queue
    from orihon.runtime.handler import TaskHandler
    from orihon.runtime.poller import SourcePoller
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
    from orihon.search import SearchHit, SearchResults
    from orihon.settings import Settings, load_settings
    from orihon.settings.in_force import settings_in_force
    from orihon.settings.rungs import Rung
    from orihon.store import MessageStore, PlanningHistoryStore, StoredMessage, SummaryStore, ToolStore
    from orihon.store.checkpoints import Approval, Checkpoint, Phase
    from orihon.tasks.approvals.answers import PendingApproval
    from orihon.tasks.approvals.handler import ApprovalHandler
    from orihon.tasks.approvals.phase_archives import extract_section, partial_restore, restore_context
    from orihon.tasks.chain import ChainLink, Inherited
    from orihon.tasks.context import TaskContextManager
    from orihon.tasks.grants import NewGrant
    from orihon.tasks.inheritance import ContextInheritanceManager, InheritanceContext, PreviousContext
    from orihon.tasks.mirror import S3MessageStore, fetch_mirror
    from orihon.tasks.view_reader import ViewAt
    from orihon.transfer.archive import ArchivedTask
    from orihon.transfer.export import Exported, ExportRun
    from orihon.transfer.migrate import MigrationReport, migrate_tasks
    from orihon.upkeep.privacy import Anonymized, Erasure, GDPRCompliantStorage, UserExport
    from orihon.values.ladder import AdaptiveContextManager, Ladder
    from orihon.values.message.message import Message, Part, ToolCall
    from orihon.values.records import Compression, Fold, FoldReport, ModelCall, Pin, Usage
    from orihon.values.task import Task, TaskKey, TaskStatus
    from orihon.values.tokens.prices import Prices
    from orihon.values.tokens.tokens import Budget, Correction
    from orihon.values.view import Entry, PlannedFold, View
    from orihon.web.server import WebServer

__version__ = "0.1.0"

# A library is silent until the program decides where its log goes.
logging.getLogger("orihon").addHandler(logging.NullHandler())

_HOMES = {
    "AdaptiveContextManager": "orihon.values.ladder",
    "AgentState": "orihon.classic.memory.memory_manager",
    "Anonymized": "orihon.upkeep.privacy",
    "AnthropicClient": "orihon.llm.anthropic",
    "Approval": "orihon.store.checkpoints",
    "ApprovalHandler": "orihon.tasks.approvals.handler",
    "ArchivedTask": "orihon.transfer.archive",
    "AuditFilter": "orihon.audit",
    "AuditLogger": "orihon.audit",
    "AuditRecord": "orihon.audit",
    "AuditReport": "orihon.audit",
    "AutoCompressionManager": "orihon.compression.documents.sections",
    "BrokerTaskQueue": "orihon.runtime.broker_queue",
    "Budget": "orihon.values.tokens.tokens",
    "Catalogue": "orihon.catalogue",
    "ChainLink": "orihon.tasks.chain",
    "Checkpoint": "orihon.store.checkpoints",
    "ComplianceAuditLog": "orihon.audit",
    "Compression": "orihon.values.records",
    "CompressionLevel": "orihon.compression.documents.sections",
    "CompressionNotification": "orihon.notifications.notification",
    "CompressionResult": "orihon.compression.result",
    "ContextCompressor": "orihon.compression.compressor",
    "ContextInheritanceManager": "orihon.tasks.inheritance",
    "ContextMonitor": "orihon.reports.monitor",
    "Correction": "orihon.values.tokens.tokens",
    "CostLine": "orihon.reports.costs",
    "CostReport": "orihon.reports.costs",
    "Delivery": "orihon.notifications.delivery",
    "Draft": "orihon.compression.planner",
    "Entry": "orihon.values.view",
    "Erasure": "orihon.upkeep.privacy",
    "ExportRun": "orihon.transfer.export",
    "Exported": "orihon.transfer.export",
    "Fold": "orihon.values.records",
    "FoldReport": "orihon.values.records",
    "FolderSource": "orihon.runtime.sources.folder",
    "GDPRCompliantStorage": "orihon.upkeep.privacy",
    "GitHubSource": "orihon.runtime.sources.github",
    "GitLabSource": "orihon.runtime.sources.gitlab",
    "Grant": "orihon.catalogue",
    "ImportReport": "orihon.importers.report",
    "InheritanceContext": "orihon.tasks.inheritance",
    "Inherited": "orihon.tasks.chain",
    "IntelligentSummarizer": "orihon.compression.model.hierarchical",
    "LLMClient": "orihon.llm.base",
    "LLMClientProtocol": "orihon.compression.model.call",
    "LLMSummarizer": "orihon.compression.model.summarizer",
    "LMStudioClient": "orihon.llm.lmstudio",
    "Ladder": "orihon.values.ladder",
    "Lease": "orihon.catalogue",
    "MemoryConfig": "orihon.classic.memory.memory_manager",
    "MemoryManager": "orihon.classic.memory.memory_manager",
    "Message": "orihon.values.message.message",
    "MessageStore": "orihon.store",
    "MetricsServer": "orihon.reports.metrics",
    "MigrationReport": "orihon.transfer.migrate",
    "ModelCall": "orihon.values.records",
    "MonthlyReport": "orihon.reports.monthly",
    "NewGrant": "orihon.tasks.grants",
    "NothingToFold": "orihon.compression.pages",
    "Notification": "orihon.notifications.notification",
    "Notifier": "orihon.notifications.notifier",
    "ObjectStorage": "orihon.drivers.objects",
    "OllamaClient": "orihon.llm.ollama",
    "OpenAIClient": "orihon.llm.openai",
    "OrihonError": "orihon.errors",
    "Part": "orihon.values.message.message",
    "PendingApproval": "orihon.tasks.approvals.answers",
    "Phase": "orihon.store.checkpoints",
    "Pin": "orihon.values.records",
    "PlannedFold": "orihon.values.view",
    "PlanningHistoryStore": "orihon.store",
    "PostgreSQLMessageStore": "orihon.classic.postgres_messages",
    "PreviousContext": "orihon.tasks.inheritance",
    "Prices": "orihon.values.tokens.prices",
    "QueuedTask": "orihon.runtime.queue",
    "RabbitMQTaskQueue": "orihon.runtime.broker_queue",
    "Rung": "orihon.settings.rungs",
    "S3MessageStore": "orihon.tasks.mirror",
    "ScoringConfig": "orihon.compression.importance",
    "ScriptedModel": "orihon.llm.scripted",
    "SearchHit": "orihon.search",
    "SearchResults": "orihon.search",
    "Settings": "orihon.settings",
    "SourcePoller": "orihon.runtime.poller",
    "StorageSummary": "orihon.reports.storage",
    "StoredMessage": "orihon.store",
    "SummaryStore": "orihon.store",
    "Supervisor": "orihon.runtime.supervisor",
    "Task": "orihon.values.task",
    "TaskContextManager": "orihon.tasks.context",
    "TaskHandler": "orihon.runtime.handler",
    "TaskKey": "orihon.values.task",
    "TaskOverview": "orihon.reports.overview",
    "TaskQueue": "orihon.runtime.queue",
    "TaskRow": "orihon.catalogue",
    "TaskSource": "orihon.runtime.sources.base",
    "TaskStatus": "orihon.values.task",
    "TokenOptimizer": "orihon.compression.documents.optimizer",
    "ToolBox": "orihon.runtime.tools",
    "ToolCall": "orihon.values.message.message",
    "ToolOptions": "orihon.runtime.tools",
    "ToolStore": "orihon.store",
    "Usage": "orihon.values.records",
    "UserExport": "orihon.upkeep.privacy",
    "View": "orihon.values.view",
    "ViewAt": "orihon.tasks.view_reader",
    "ViewDiff": "orihon.reports.view_diff",
    "Waiting": "orihon.errors",
    "WebServer": "orihon.web.server",
    "WorkerProcess": "orihon.runtime.worker",
    "acting_as": "orihon.audit",
    "anonymize_task": "orihon.classic.functions",
    "archive_old": "orihon.classic.functions",
    "archive_old_contexts": "orihon.classic.functions",
    "archive_task": "orihon.classic.functions",
    "audit_records": "orihon.audit",
    "collect_cluster_stats": "orihon.runtime.stats",
    "collect_global_statistics": "orihon.reports.storage",
    "collect_metrics": "orihon.reports.metrics",
    "collect_worker_stats": "orihon.runtime.stats",
    "collect_workers": "orihon.runtime.stats",
    "compress_context": "orihon.compression.documents.sections",
    "compress_level1": "orihon.compression.documents.sections",
    "compress_level2": "orihon.compression.documents.sections",
    "compress_level3": "orihon.compression.documents.sections",
    "cost_report": "orihon.reports.costs",
    "delete_old_contexts": "orihon.classic.functions",
    "delete_old_phase_archives": "orihon.classic.functions",
    "deliver_notifications": "orihon.classic.functions",
    "erase_user": "orihon.classic.functions",
    "export_task": "orihon.classic.functions",
    "export_tasks": "orihon.classic.functions",
    "export_user": "orihon.classic.functions",
    "extract_section": "orihon.tasks.approvals.phase_archives",
    "fetch_mirror": "orihon.tasks.mirror",
    "fetch_user_config": "orihon.runtime.user_config",
    "follow_messages": "orihon.classic.functions",
    "forget_person": "orihon.audit",
    "fork_task": "orihon.classic.functions",
    "get_llm_client": "orihon.llm.clients",
    "import_transcripts": "orihon.classic.functions",
    "keep_task": "orihon.classic.functions",
    "list_grants": "orihon.classic.functions",
    "list_notifications": "orihon.classic.functions",
    "load_settings": "orihon.settings",
    "maintain": "orihon.classic.functions",
    "migrate_tasks": "orihon.transfer.migrate",
    "monitor_workers": "orihon.runtime.supervisor",
    "monthly_report": "orihon.classic.functions",
    "new_grant": "orihon.classic.functions",
    "open_queue": "orihon.runtime.broker_queue",
    "partial_restore": "orihon.tasks.approvals.phase_archives",
    "print_statistics_report": "orihon.tools.context_stats",
    "register_secret": "orihon.guard.masking.known_values",
    "restore_context": "orihon.tasks.approvals.phase_archives",
    "restore_task": "orihon.classic.functions",
    "revoke_grant": "orihon.classic.functions",
    "scan_tasks": "orihon.classic.functions",
    "search_history": "orihon.classic.functions",
    "settings_in_force": "orihon.settings.in_force",
    "squeeze": "orihon.compression.squeeze.squeeze",
    "storage_summary": "orihon.classic.functions",
    "task_chain": "orihon.classic.functions",
    "task_overview": "orihon.classic.functions",
    "vacuum_databases": "orihon.classic.functions",
    "verify_audit": "orihon.audit",
    "view_at": "orihon.classic.functions",
    "view_diff": "orihon.classic.functions",
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


__path__.append(f"{__path__[0]}/classic")  # ``python -m orihon.tools.…``, as the first designs call it


def __getattr__(name: str) -> object:
    try:
        value: object = getattr(import_module(_HOMES[name]), name)
    except KeyError:
        raise AttributeError(f"module 'orihon' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
