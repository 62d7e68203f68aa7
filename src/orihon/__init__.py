"""Orihon: a durable, bounded context engine for long-running LLM agents.

The public names are listed in ``__all__`` and loaded when they are first used, so that ``import orihon`` costs
next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orihon.adapters.wrap import wrap as wrap
    from orihon.audit import AuditFilter as AuditFilter
    from orihon.audit import AuditLogger as AuditLogger
    from orihon.audit import AuditRecord as AuditRecord
    from orihon.audit import AuditReport as AuditReport
    from orihon.audit import ComplianceAuditLog as ComplianceAuditLog
    from orihon.audit import acting_as as acting_as
    from orihon.audit import audit_records as audit_records
    from orihon.audit import forget_person as forget_person
    from orihon.audit import verify_audit as verify_audit
    from orihon.base import Base as Base
    from orihon.catalogue import Catalogue as Catalogue
    from orihon.catalogue import Grant as Grant
    from orihon.catalogue import Lease as Lease
    from orihon.catalogue import TaskRow as TaskRow
    from orihon.classic.documents import AdaptiveContextManager as AdaptiveContextManager
    from orihon.classic.documents import AutoCompressionManager as AutoCompressionManager
    from orihon.classic.documents import TokenOptimizer as TokenOptimizer
    from orihon.classic.documents import compress_context as compress_context
    from orihon.classic.documents import compress_level1 as compress_level1
    from orihon.classic.documents import compress_level2 as compress_level2
    from orihon.classic.documents import compress_level3 as compress_level3
    from orihon.classic.functions import anonymize_task as anonymize_task
    from orihon.classic.functions import archive_old as archive_old
    from orihon.classic.functions import archive_old_contexts as archive_old_contexts
    from orihon.classic.functions import archive_task as archive_task
    from orihon.classic.functions import delete_old_contexts as delete_old_contexts
    from orihon.classic.functions import delete_old_phase_archives as delete_old_phase_archives
    from orihon.classic.functions import deliver_notifications as deliver_notifications
    from orihon.classic.functions import erase_user as erase_user
    from orihon.classic.functions import export_task as export_task
    from orihon.classic.functions import export_tasks as export_tasks
    from orihon.classic.functions import export_user as export_user
    from orihon.classic.functions import follow_messages as follow_messages
    from orihon.classic.functions import fork_task as fork_task
    from orihon.classic.functions import import_transcripts as import_transcripts
    from orihon.classic.functions import keep_task as keep_task
    from orihon.classic.functions import list_grants as list_grants
    from orihon.classic.functions import list_notifications as list_notifications
    from orihon.classic.functions import maintain as maintain
    from orihon.classic.functions import monthly_report as monthly_report
    from orihon.classic.functions import new_grant as new_grant
    from orihon.classic.functions import restore_task as restore_task
    from orihon.classic.functions import revoke_grant as revoke_grant
    from orihon.classic.functions import scan_tasks as scan_tasks
    from orihon.classic.functions import search_history as search_history
    from orihon.classic.functions import storage_summary as storage_summary
    from orihon.classic.functions import task_chain as task_chain
    from orihon.classic.functions import task_overview as task_overview
    from orihon.classic.functions import vacuum_databases as vacuum_databases
    from orihon.classic.functions import view_at as view_at
    from orihon.classic.functions import view_diff as view_diff
    from orihon.classic.intelligent_summarizer import IntelligentSummarizer as IntelligentSummarizer
    from orihon.classic.memory.memory_manager import AgentState as AgentState
    from orihon.classic.memory.memory_manager import MemoryConfig as MemoryConfig
    from orihon.classic.memory.memory_manager import MemoryManager as MemoryManager
    from orihon.classic.programs import PostgreSQLMessageStore as PostgreSQLMessageStore
    from orihon.classic.programs import consume_tasks as consume_tasks
    from orihon.classic.programs import create_context_directory as create_context_directory
    from orihon.classic.programs import create_database as create_database
    from orihon.classic.programs import load_config as load_config
    from orihon.classic.programs import worker_process as worker_process
    from orihon.classic.tools.context_stats import print_statistics_report as print_statistics_report
    from orihon.compression.compressor import ContextCompressor as ContextCompressor
    from orihon.compression.contract import CompressionResult as CompressionResult
    from orihon.compression.documents.sections import CompressionLevel as CompressionLevel
    from orihon.compression.importance import ScoringConfig as ScoringConfig
    from orihon.compression.ladder import Ladder as Ladder
    from orihon.compression.model.call import LLMClientProtocol as LLMClientProtocol
    from orihon.compression.model.summarizer import LLMSummarizer as LLMSummarizer
    from orihon.compression.pages import NothingToFold as NothingToFold
    from orihon.compression.planner import Draft as Draft
    from orihon.compression.squeeze import squeeze as squeeze
    from orihon.drivers.objects import ObjectStorage as ObjectStorage
    from orihon.errors import OrihonError as OrihonError
    from orihon.errors import Waiting as Waiting
    from orihon.guard.masking.known_values import register_secret as register_secret
    from orihon.importers.report import ImportReport as ImportReport
    from orihon.llm.anthropic import AnthropicClient as AnthropicClient
    from orihon.llm.base import LLMClient as LLMClient
    from orihon.llm.clients import get_llm_client as get_llm_client
    from orihon.llm.ollama import OllamaClient as OllamaClient
    from orihon.llm.openai import LMStudioClient as LMStudioClient
    from orihon.llm.openai import OpenAIClient as OpenAIClient
    from orihon.llm.response_cache import LLMResponseCache as LLMResponseCache
    from orihon.llm.scripted import ScriptedModel as ScriptedModel
    from orihon.notifications.notification import CompressionNotification as CompressionNotification
    from orihon.notifications.notification import Notification as Notification
    from orihon.notifications.notifier import Notifier as Notifier
    from orihon.notifications.webhook import Delivery as Delivery
    from orihon.reports.costs import CostLine as CostLine
    from orihon.reports.costs import CostReport as CostReport
    from orihon.reports.costs import cost_report as cost_report
    from orihon.reports.metrics import MetricsServer as MetricsServer
    from orihon.reports.metrics import collect_metrics as collect_metrics
    from orihon.reports.monitor import ContextMonitor as ContextMonitor
    from orihon.reports.overview import TaskOverview as TaskOverview
    from orihon.reports.records import ViewDiff as ViewDiff
    from orihon.reports.statistics import MonthlyReport as MonthlyReport
    from orihon.reports.storage import StorageSummary as StorageSummary
    from orihon.reports.storage import collect_global_statistics as collect_global_statistics
    from orihon.runtime.broker_queue import BrokerTaskQueue as BrokerTaskQueue
    from orihon.runtime.broker_queue import RabbitMQTaskQueue as RabbitMQTaskQueue
    from orihon.runtime.broker_queue import open_queue as open_queue
    from orihon.runtime.handler import TaskHandler as TaskHandler
    from orihon.runtime.poller import SourcePoller as SourcePoller
    from orihon.runtime.queue import QueuedTask as QueuedTask
    from orihon.runtime.queue import TaskQueue as TaskQueue
    from orihon.runtime.sources.base import TaskSource as TaskSource
    from orihon.runtime.sources.folder import FolderSource as FolderSource
    from orihon.runtime.sources.github import GitHubSource as GitHubSource
    from orihon.runtime.sources.gitlab import GitLabSource as GitLabSource
    from orihon.runtime.stats import collect_cluster_stats as collect_cluster_stats
    from orihon.runtime.stats import collect_worker_stats as collect_worker_stats
    from orihon.runtime.stats import collect_workers as collect_workers
    from orihon.runtime.supervisor import Supervisor as Supervisor
    from orihon.runtime.supervisor import monitor_workers as monitor_workers
    from orihon.runtime.tools import ToolBox as ToolBox
    from orihon.runtime.tools import ToolOptions as ToolOptions
    from orihon.runtime.user_config import fetch_user_config as fetch_user_config
    from orihon.runtime.worker import WorkerProcess as WorkerProcess
    from orihon.search import SearchHit as SearchHit
    from orihon.search import SearchResults as SearchResults
    from orihon.settings import Settings as Settings
    from orihon.settings import load_settings as load_settings
    from orihon.settings.in_force import settings_in_force as settings_in_force
    from orihon.settings.rungs import Rung as Rung
    from orihon.store import PlanningHistoryStore as PlanningHistoryStore
    from orihon.store import StoredMessage as StoredMessage
    from orihon.store import SummaryStore as SummaryStore
    from orihon.store import ToolStore as ToolStore
    from orihon.store.checkpoints import Approval as Approval
    from orihon.store.checkpoints import Checkpoint as Checkpoint
    from orihon.store.checkpoints import Phase as Phase
    from orihon.tasks.approvals.answers import PendingApproval as PendingApproval
    from orihon.tasks.approvals.handler import ApprovalHandler as ApprovalHandler
    from orihon.tasks.approvals.phase_archives import extract_section as extract_section
    from orihon.tasks.approvals.phase_archives import partial_restore as partial_restore
    from orihon.tasks.approvals.phase_archives import restore_context as restore_context
    from orihon.tasks.chain import ChainLink as ChainLink
    from orihon.tasks.chain import Inherited as Inherited
    from orihon.tasks.context import TaskContextManager as TaskContextManager
    from orihon.tasks.grants import NewGrant as NewGrant
    from orihon.tasks.inheritance import ContextInheritanceManager as ContextInheritanceManager
    from orihon.tasks.inheritance import InheritanceContext as InheritanceContext
    from orihon.tasks.inheritance import PreviousContext as PreviousContext
    from orihon.tasks.message_store import MessageStore as MessageStore
    from orihon.tasks.mirror import S3MessageStore as S3MessageStore
    from orihon.tasks.mirror import fetch_mirror as fetch_mirror
    from orihon.tasks.task import Task as Task
    from orihon.tasks.view_reader import ViewAt as ViewAt
    from orihon.transfer.archive import ArchivedTask as ArchivedTask
    from orihon.transfer.export import Exported as Exported
    from orihon.transfer.export import ExportRun as ExportRun
    from orihon.transfer.migrate import MigrationReport as MigrationReport
    from orihon.transfer.migrate import migrate_tasks as migrate_tasks
    from orihon.upkeep.privacy import Anonymized as Anonymized
    from orihon.upkeep.privacy import Erasure as Erasure
    from orihon.upkeep.privacy import GDPRCompliantStorage as GDPRCompliantStorage
    from orihon.upkeep.privacy import UserExport as UserExport
    from orihon.values.message.message import Message as Message
    from orihon.values.message.message import Part as Part
    from orihon.values.message.message import ToolCall as ToolCall
    from orihon.values.records import Compression as Compression
    from orihon.values.records import Fold as Fold
    from orihon.values.records import FoldReport as FoldReport
    from orihon.values.records import ModelCall as ModelCall
    from orihon.values.records import Pin as Pin
    from orihon.values.records import Usage as Usage
    from orihon.values.task import TaskKey as TaskKey
    from orihon.values.task import TaskStatus as TaskStatus
    from orihon.values.tokens.prices import Prices as Prices
    from orihon.values.tokens.tokens import Budget as Budget
    from orihon.values.tokens.tokens import Correction as Correction
    from orihon.values.view import Entry as Entry
    from orihon.values.view import PlannedFold as PlannedFold
    from orihon.values.view import View as View
    from orihon.web.server import WebServer as WebServer

__version__ = "0.1.0"

#: The front door. Every other public name stands in the table below and is imported from here all the same.
__all__ = [
    "Base",
    "Compression",
    "CompressionResult",
    "ContextCompressor",
    "Fold",
    "LLMClient",
    "Message",
    "MessageStore",
    "OrihonError",
    "Part",
    "ScriptedModel",
    "Settings",
    "Task",
    "TaskContextManager",
    "TaskKey",
    "TaskQueue",
    "TaskStatus",
    "ToolBox",
    "ToolCall",
    "View",
    "Waiting",
    "WorkerProcess",
    "get_llm_client",
    "load_settings",
    "register_secret",
]

# A library is silent until the program decides where its log goes.
logging.getLogger("orihon").addHandler(logging.NullHandler())

#: Where each public name lives; loaded when it is first asked for.
_TABLE = {
    "orihon.adapters.wrap": "wrap",
    "orihon.audit": (
        "AuditFilter AuditLogger AuditRecord AuditReport ComplianceAuditLog acting_as audit_records "
        "forget_person verify_audit"
    ),
    "orihon.base": "Base",
    "orihon.catalogue": "Catalogue Grant Lease TaskRow",
    "orihon.classic.documents": (
        "AdaptiveContextManager AutoCompressionManager TokenOptimizer "
        "compress_context compress_level1 compress_level2 compress_level3"
    ),
    "orihon.classic.functions": (
        "anonymize_task archive_old archive_old_contexts archive_task delete_old_contexts "
        "delete_old_phase_archives deliver_notifications erase_user export_task export_tasks export_user "
        "follow_messages fork_task import_transcripts keep_task list_grants list_notifications maintain "
        "monthly_report new_grant restore_task revoke_grant scan_tasks search_history storage_summary "
        "task_chain task_overview vacuum_databases view_at view_diff"
    ),
    "orihon.classic.intelligent_summarizer": "IntelligentSummarizer",
    "orihon.classic.memory.memory_manager": "AgentState MemoryConfig MemoryManager",
    "orihon.classic.programs": (
        "PostgreSQLMessageStore consume_tasks create_context_directory create_database load_config worker_process"
    ),
    "orihon.compression.compressor": "ContextCompressor",
    "orihon.compression.documents.sections": "CompressionLevel",
    "orihon.compression.importance": "ScoringConfig",
    "orihon.compression.model.call": "LLMClientProtocol",
    "orihon.compression.model.summarizer": "LLMSummarizer",
    "orihon.compression.pages": "NothingToFold",
    "orihon.compression.planner": "Draft",
    "orihon.compression.contract": "CompressionResult",
    "orihon.compression.squeeze": "squeeze",
    "orihon.drivers.objects": "ObjectStorage",
    "orihon.errors": "OrihonError Waiting",
    "orihon.guard.masking.known_values": "register_secret",
    "orihon.importers.report": "ImportReport",
    "orihon.llm.anthropic": "AnthropicClient",
    "orihon.llm.base": "LLMClient",
    "orihon.llm.clients": "get_llm_client",
    "orihon.llm.ollama": "OllamaClient",
    "orihon.llm.openai": "LMStudioClient OpenAIClient",
    "orihon.llm.response_cache": "LLMResponseCache",
    "orihon.llm.scripted": "ScriptedModel",
    "orihon.notifications.webhook": "Delivery",
    "orihon.notifications.notification": "CompressionNotification Notification",
    "orihon.notifications.notifier": "Notifier",
    "orihon.reports.costs": "CostLine CostReport cost_report",
    "orihon.reports.metrics": "MetricsServer collect_metrics",
    "orihon.reports.monitor": "ContextMonitor",
    "orihon.reports.statistics": "MonthlyReport",
    "orihon.reports.overview": "TaskOverview",
    "orihon.reports.storage": "StorageSummary collect_global_statistics",
    "orihon.reports.records": "ViewDiff",
    "orihon.runtime.broker_queue": "BrokerTaskQueue RabbitMQTaskQueue open_queue",
    "orihon.runtime.handler": "TaskHandler",
    "orihon.runtime.poller": "SourcePoller",
    "orihon.runtime.queue": "QueuedTask TaskQueue",
    "orihon.runtime.sources.base": "TaskSource",
    "orihon.runtime.sources.folder": "FolderSource",
    "orihon.runtime.sources.github": "GitHubSource",
    "orihon.runtime.sources.gitlab": "GitLabSource",
    "orihon.runtime.stats": "collect_cluster_stats collect_worker_stats collect_workers",
    "orihon.runtime.supervisor": "Supervisor monitor_workers",
    "orihon.runtime.tools": "ToolBox ToolOptions",
    "orihon.runtime.user_config": "fetch_user_config",
    "orihon.runtime.worker": "WorkerProcess",
    "orihon.search": "SearchHit SearchResults",
    "orihon.settings": "Settings load_settings",
    "orihon.settings.in_force": "settings_in_force",
    "orihon.settings.rungs": "Rung",
    "orihon.store": "PlanningHistoryStore StoredMessage SummaryStore ToolStore",
    "orihon.store.checkpoints": "Approval Checkpoint Phase",
    "orihon.tasks.approvals.answers": "PendingApproval",
    "orihon.tasks.approvals.handler": "ApprovalHandler",
    "orihon.tasks.approvals.phase_archives": "extract_section partial_restore restore_context",
    "orihon.tasks.chain": "ChainLink Inherited",
    "orihon.tasks.context": "TaskContextManager",
    "orihon.tasks.grants": "NewGrant",
    "orihon.tasks.inheritance": "ContextInheritanceManager InheritanceContext PreviousContext",
    "orihon.tasks.message_store": "MessageStore",
    "orihon.tasks.mirror": "S3MessageStore fetch_mirror",
    "orihon.tasks.task": "Task",
    "orihon.tasks.view_reader": "ViewAt",
    "orihon.classic.tools.context_stats": "print_statistics_report",
    "orihon.transfer.archive": "ArchivedTask",
    "orihon.transfer.export": "ExportRun Exported",
    "orihon.transfer.migrate": "MigrationReport migrate_tasks",
    "orihon.upkeep.privacy": "Anonymized Erasure GDPRCompliantStorage UserExport",
    "orihon.compression.ladder": "Ladder",
    "orihon.values.message.message": "Message Part ToolCall",
    "orihon.values.records": "Compression Fold FoldReport ModelCall Pin Usage",
    "orihon.values.task": "TaskKey TaskStatus",
    "orihon.values.tokens.prices": "Prices",
    "orihon.values.tokens.tokens": "Budget Correction",
    "orihon.values.view": "Entry PlannedFold View",
    "orihon.web.server": "WebServer",
}
_HOMES = {name: module for module, names in _TABLE.items() for name in names.split()}

__path__.append(f"{__path__[0]}/classic")  # ``python -m orihon.tools.…``, as the first designs call it


def __getattr__(name: str) -> object:
    try:
        value: object = getattr(import_module(_HOMES[name]), name)
    except KeyError:
        raise AttributeError(f"module 'orihon' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
