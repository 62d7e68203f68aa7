"""What ``--json`` prints, as JSON Schema: for each command its forms, by the options that lead to them.

Owns the promise to programs: fields are added, never renamed or taken away, within a major version. Schemas come from
the types that are printed; only objects that a command puts together by itself are spelled here. ``docs/json.md`` is
made from it, and ``tests/acceptance/test_every_command.py`` compares the real output of every command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from orihon.audit.record import AuditRecord
from orihon.audit.verify import AuditReport
from orihon.catalogue import Grant, TaskRow
from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.guard.keys import Rotation
from orihon.importers.report import ImportReport
from orihon.mcp.install import Installation
from orihon.notifications.notification import Notification
from orihon.notifications.webhook import Delivery
from orihon.proxy.wrap_report import WrapReport
from orihon.reports.costs import CostReport
from orihon.reports.monitor import MonitorSnapshot
from orihon.reports.overview import OverviewStatistics, TaskOverview
from orihon.reports.records import RECORDS, ViewDiff
from orihon.reports.statistics import MonthlyReport
from orihon.reports.storage import StorageSummary
from orihon.runtime.queue import QueueAnswer
from orihon.runtime.stats import ClusterStats, Workers, WorkerStats
from orihon.search import SearchResults
from orihon.settings.config_file import TrustedConfig
from orihon.settings.in_force import SettingInForce
from orihon.system.json_shapes import MayMiss, Schema, definitions, schema_of, shape
from orihon.tasks.approvals.answers import Answered, PendingApproval, SweepReport
from orihon.tasks.chain import ChainLink
from orihon.tasks.inheritance import InheritanceContext
from orihon.tasks.reader import StoredMessage
from orihon.tasks.verify.findings import Finding
from orihon.tasks.view_reader import KnownFold, ShownEntry, StepHead, UndoableCompression, ViewHead
from orihon.transfer.archive import ArchiveRun
from orihon.transfer.backup import BackupInfo, BackupReport, RestoreReport
from orihon.transfer.export import ExportRun
from orihon.transfer.export.handoff import Handoff
from orihon.transfer.migrate import MigrationReport
from orihon.upkeep.keys import KeysOverview
from orihon.upkeep.privacy import Anonymized, Erasure, UserExport
from orihon.upkeep.retention import Maintenance, RetentionRun, VacuumRun
from orihon.upkeep.scan import Scanned
from orihon.upkeep.torture import TortureReport
from orihon.values.records import Compression, FoldReport
from orihon.values.task import TaskStatus

#: Forms that print one JSON object on each line, for as long as there is something to tell.
LINES = (("show", "--follow"), ("notifications", "--follow"), ("monitor", "--every"))

_CHANGE = {"": Compression}
_QUEUED = {"": QueueAnswer}
_ANSWERED = {"": Answered}
_TOOL = shape(name=str, server=str, repeatable=bool, description=str)
_CLIENT = shape(name=str, path=str | None, variables=list[str], arguments=str | None, names_sessions=bool)
_RUN = shape(start_seq=int, end_seq=int)

_FORMS: dict[str, dict[str, Any]] = {
    "list": {"": shape(tasks=list[TaskRow])},
    "show": {
        "": TaskOverview,
        "--messages --summaries --tools --plans --folds --inherited": shape(
            task=str,
            inherited=MayMiss(InheritanceContext | None),
            **{name: MayMiss([record]) for name, record in RECORDS.items()},
        ),
        "--follow": StoredMessage,
        "--export-html FILE": ExportRun,
    },
    "view": {
        "": shape(ViewHead, view=list[ShownEntry]),
        "--at SEQ": shape(StepHead, view=list[ShownEntry]),
        "--folds": shape(task=str, compressions=list[UndoableCompression]),
        "--fold N": KnownFold,
        "--fold N --original": shape(KnownFold, originals=list[StoredMessage]),
    },
    "diff": {"": ViewDiff},
    "chain": {"": shape(tasks=list[ChainLink])},
    "search": {"": shape(SearchResults, rebuilt=MayMiss(int))},
    "export": {"": ExportRun},
    "handoff": {"": Handoff},
    "import": {"": ImportReport},
    "compress": {"": Compression | NothingToFold, "--preview": Draft | NothingToFold},
    "undo": _CHANGE,
    "redo": _CHANGE,
    "rewind": _CHANGE,
    "fork": {
        "": shape(
            uuid=str, status=TaskStatus, forked_from=shape(uuid=str, at=int), messages=int, entries=int, tokens=int
        )
    },
    "unfold": _CHANGE,
    "edit": {"": Compression | None},
    "pin": _CHANGE,
    "unpin": _CHANGE,
    "enqueue": _QUEUED,
    "worker": {"": WorkerStats},
    "pause": _QUEUED,
    "resume": _QUEUED,
    "cancel": _QUEUED,
    "retry": _QUEUED,
    "approvals": {"": shape(pending=list[PendingApproval], **shape(SweepReport)["properties"])},
    "approve": _ANSWERED,
    "reject": _ANSWERED,
    "revise": _ANSWERED,
    "notifications": {"": shape(notifications=list[Notification]), "--follow": Notification, "--deliver": Delivery},
    "restore": {"": shape(uuid=str, folds=list[int], before_tokens=int, after_tokens=int)},
    "archive": {"": ArchiveRun, "--dry-run": RetentionRun},
    "unarchive": {"": shape(uuid=str, folder=Path | None)},
    "keep": {"": shape(uuid=str, keep=bool)},
    "cleanup": {"": RetentionRun},
    "vacuum": {"": VacuumRun},
    "maintain": {"": Maintenance},
    "tools": {"": shape(tools=[_TOOL], changed=dict[str, list[str]], approved=list[str])},
    "verify": {
        "": shape(
            task=str,
            clean=bool,
            findings=list[Finding],
            records=Literal["read", "archived", "removed", "none"] | None,
            archive=dict[str, Any] | None,
            redacted=int,
            redacted_secrets=int,
            redacted_people=int,
            unprotected=dict[str, int],
            attested=dict[str, Any] | None,
        )
    },
    "scan": {"": shape(clean=bool, fixed=bool, tasks=list[Scanned])},
    "doctor": {"": shape(base_dir=Path, clean=bool, repaired=int, findings=list[Finding])},
    "backup": {
        "": BackupReport,
        "--list": shape(backups=list[BackupInfo]),
        "--check": shape(
            backups=int, pieces=int, size=int, vault=str, key=str, unkeyed=int, clean=bool, damage=list[dict[str, Any]]
        ),
        "--restore-to FOLDER": RestoreReport,
    },
    "migrate": {"": MigrationReport},
    "keys show": {"": KeysOverview},
    "keys new": {"": shape(master=str, file=Path)},
    "keys rotate": {"": Rotation},
    "audit show": {"": shape(records=list[AuditRecord])},
    "audit verify": {"": AuditReport},
    "workers": {"": Workers},
    "stats": {"": ClusterStats, "--summary": StorageSummary, "TASK": OverviewStatistics},
    "monitor": {"": MonitorSnapshot, "--every": MonitorSnapshot, "--report": MonthlyReport},
    "costs": {"": CostReport},
    "metrics": {"": shape(metrics=dict[str, float])},
    "serve": {"": shape(address=str, token=str | None, read_only=bool), "--show-token": shape(token=str)},
    "proxy": {"": shape(address=str, base=str)},
    "wrap": {"": WrapReport, "--list": shape(clients=[_CLIENT])},
    "mcp serve": {"": shape(address=str, token=str | None, allow_changes=bool)},
    "mcp install": {
        "": Installation,
        "--list": shape(clients=[shape(client=str, title=str, file=str, project_file=str)]),
    },
    "privacy export": {"": UserExport},
    "privacy erase": {"": Erasure},
    "privacy anonymize": {"": Anonymized},
    "grants new": {"": shape(Grant, token=str)},
    "grants list": {"": shape(grants=list[Grant])},
    "grants revoke": {"": Grant},
    "squeeze": {
        "": shape(
            budget=int,
            before_tokens=int,
            after_tokens=int,
            kept=list[int],
            shortened=list[int],
            folded=[_RUN],
            facts=FoldReport,
            messages=list[dict[str, Any]],
        )
    },
    "completion": {"": shape(shell=Literal["bash", "zsh", "fish"], script=str)},
    "demo": {"": dict[str, Any], "--phases": dict[str, Any]},
    "torture": {"": TortureReport},
    "config show": {"": shape(file=Path | None, settings=list[SettingInForce])},
    "init": {"": shape(config=Path, base_dir=Path)},
    "trust": {
        "": shape(TrustedConfig, settings=list[str]),
        "--list": shape(trusted=list[TrustedConfig]),
        "--remove": shape(path=Path, removed=bool),
    },
}
SCHEMAS: dict[str, dict[str, Schema]] = {
    command: {form: schema_of(printed) for form, printed in forms.items()} for command, forms in _FORMS.items()
}
#: The shapes that several of them share.
DEFINITIONS = definitions(*(schema for forms in SCHEMAS.values() for schema in forms.values()))


def form_schema(command: str, form: str = "") -> Schema:
    """The schema of one form, whole."""
    return {**SCHEMAS[command][form], "$defs": DEFINITIONS}


def document() -> Schema:
    """All of them in one document, for programs."""
    forms = {
        f"{command} {form}".strip(): schema for command, found in SCHEMAS.items() for form, schema in found.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "orihon --json",
        "$defs": {**DEFINITIONS, **forms},
    }
