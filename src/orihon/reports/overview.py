"""One task at a glance: ``task_overview``. What it is, how it stands, what it inherited, its parts, its last messages.

Only looks, whatever state the task is in. A task whose records are not here (queued, archived, cleaned up) has its row
to show; one that the catalogue does not know has its records. The cost follows the view, not the log.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.rows import CLEANED
from orihon.errors import IllegalTransition, StorageError, TaskNotFound
from orihon.settings import Settings
from orihon.store.contract import Stream
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.system.files import folder_size
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.chain import Inherited, without_others
from orihon.tasks.inheritance import ContextInheritanceManager, InheritanceContext
from orihon.tasks.reader import read_anew, reading_task
from orihon.tasks.view_reader import ViewReading, ViewStatistics
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import TaskStatus

LAST_MESSAGES = 5
#: Of more tool calls than this, those that failed are not counted.
_MOST_TOOLS_LOOKED_AT = 5000

#: Where the task's records are: here; packed away; removed on purpose; there are none.
Records = Literal["here", "archived", "removed", "none"]


@dataclass(frozen=True, slots=True)
class RecordStatistics(AsJson):
    """How much has been recorded."""

    json_name = "record_figures"

    messages: int
    summaries: int
    tools: int
    tool_errors: int | None  # None where there are too many to look at each
    plans: int
    compressions: int
    bytes: int
    view: ViewStatistics


@dataclass(frozen=True, slots=True)
class Subtask:
    """A task that another one has started."""

    uuid: str
    status: TaskStatus
    label: str


@dataclass(frozen=True, slots=True)
class TaskOverview(AsJson):
    """One task at a glance."""

    json_fields = (
        "task=uuid row label=row.key.label records figures inherited children=parts final_summary last_messages"
    )

    uuid: str
    row: TaskRow | None
    records: Records
    figures: RecordStatistics | None
    inherited: Inherited | None  # None where nothing was, or the giver can no longer be read
    children: tuple[TaskRow, ...]
    last_messages: tuple[StoredMessage, ...]
    final_summary: str

    @property
    def parts(self) -> tuple[Subtask, ...]:
        return tuple(Subtask(child.uuid, child.status, child.key.label) for child in self.children)

    @property
    def minutes(self) -> float | None:
        """From its start to its end."""
        row = self.row
        if row is None or row.started_at is None or row.completed_at is None:
            return None
        took = datetime.fromisoformat(row.completed_at) - datetime.fromisoformat(row.started_at)
        return round(max(0.0, took.total_seconds()) / 60, 2)


@dataclass(frozen=True, slots=True)
class OverviewStatistics(AsJson):
    """The figures of a task alone."""

    json_fields = (
        "task=of.uuid label=of.row.key.label status=of.row.status minutes=of.minutes "
        "llm_call_count=of.row.llm_call_count tool_call_count=of.row.tool_call_count total_tokens=of.row.total_tokens "
        "compression_count=of.row.compression_count total_messages=of.row.total_messages records=of.records "
        "figures=of.figures"
    )

    of: TaskOverview


@read_anew
def task_overview(base: OpenBase, task: str, *, last: int = LAST_MESSAGES, user: str | None = None) -> TaskOverview:
    """The task that is named (see ``task_naming``), with its ``last`` messages; to a ``user`` no other's are shown."""
    uuid = base.resolve(task)
    catalogue = base.open_catalogue_if_sound()
    row = None if catalogue is None else catalogue.tasks.find(uuid)
    if catalogue is not None and row is not None:
        row = without_others([row], catalogue, user)[0]
    children = () if catalogue is None else tuple(catalogue.tasks.children(uuid))
    children = tuple(child for child in children if user is None or child.user == user)
    left = None if row is None or catalogue is None else _left_for(base.path, base.settings, catalogue, row)
    inherited = None if left is None else Inherited.of(left)
    try:
        with reading_task(base, uuid) as (store, _):
            newest = tuple(store.messages(store.count("messages") - last + 1))
            figures = _statistics(base, store, row)
            said = (store.records.kept_file(FINAL_SUMMARY) or b"").decode("utf-8", "replace")
    except (TaskNotFound, IllegalTransition):  # packed, gone, or cleaned up
        return TaskOverview(uuid, row, _records_of(row), None, inherited, children, (), kept_summary(row))
    return TaskOverview(uuid, row, "here", figures, inherited, children, newest, said)


def inherited_by(base: OpenBase, task: str, *, user: str | None = None) -> InheritanceContext | None:
    """What a task was given by the one it inherits from; ``None`` where nothing, or where that one is gone.

    To a ``user`` nothing is shown that another one's task has left.
    """
    uuid = base.resolve(task)
    catalogue = base.open_catalogue_if_sound()
    row = None if catalogue is None else catalogue.tasks.find(uuid)
    if row is None or catalogue is None:
        return None
    return _left_for(base.path, base.settings, catalogue, without_others([row], catalogue, user)[0])


def _left_for(base: Path, settings: Settings, catalogue: Catalogue, row: TaskRow) -> InheritanceContext | None:
    if row.inherits_from is None:
        return None
    manager = ContextInheritanceManager(base, settings, catalogue=catalogue)
    with suppress(StorageError):  # the task itself can be shown, whatever has become of the other one
        return manager.get_inheritance_context(row.inherits_from)
    return None


def _statistics(base: OpenBase, store: TaskStore, row: TaskRow | None) -> RecordStatistics:
    streams: tuple[Stream, ...] = ("messages", "summaries", "tools", "planning", "compressions")
    messages, summaries, tools, plans, compressions = (store.count(stream) for stream in streams)
    failed = None
    if tools <= _MOST_TOOLS_LOOKED_AT:
        failed = sum(record["status"] != "success" for record in store.read("tools"))
    place = base.folders.find(store.name)
    size = store.records.size() if place is None or place.is_in_database else folder_size(place.folder)
    view = ViewReading(store, row, base.settings).figures()
    return RecordStatistics(messages, summaries, tools, failed, plans, compressions, size, view)


def _records_of(row: TaskRow | None) -> Records:
    if row is not None and CLEANED in row.metadata:
        return "removed"
    return "archived" if row is not None and row.status is TaskStatus.ARCHIVED else "none"


def kept_summary(row: TaskRow | None) -> str:
    """What the row keeps of the final summary of a task that is packed or gone."""
    for name in (CLEANED, "archived"):
        noted = {} if row is None else row.metadata.get(name)
        if isinstance(noted, dict) and noted.get("final_summary"):
            return str(noted["final_summary"])
    return ""
