"""The values that the catalogue gives out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from orihon.errors import DamagedStore, KeyUnavailable
from orihon.guard.sealer import TEXT_MARK, is_sealed_text
from orihon.system import jsonio
from orihon.system.json_shapes import AsJson
from orihon.values.task import TaskKey, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow(AsJson):
    """One task as the catalogue knows it: a field for each column. Lease times are on the clock of its database."""

    json_name = "row"
    json_fields = "* -lease_host -lease_pid -lease_pid_start -lease_pid_space -lease_boot -lease_heartbeat -lease_until"

    uuid: str
    task_source: str
    owner: str = ""
    repo: str = ""
    task_type: str
    task_id: str
    task_identifier: str
    repository: str = ""
    user: str = ""
    status: TaskStatus
    created_at: str
    updated_at: str
    started_at: str | None = None
    completed_at: str | None = None
    process_id: int | None = None
    hostname: str | None = None
    llm_provider: str | None = None
    model: str | None = None
    context_length: int | None = None
    backend: str | None = None
    correction: float = 1.0
    llm_call_count: int = 0
    tool_call_count: int = 0
    total_tokens: int = 0
    compression_count: int = 0
    total_messages: int = 0
    total_summaries: int = 0
    total_tool_calls: int = 0
    final_token_count: int | None = None
    final_message_count: int | None = None
    view_tokens: int | None = None
    error_message: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lease_owner: str | None = None
    lease_host: str | None = None
    lease_pid: int | None = None
    lease_pid_start: int | None = None
    lease_pid_space: str | None = None
    lease_boot: str | None = None
    lease_heartbeat: float | None = None
    lease_until: float | None = None
    epoch: int = 0
    retry_count: int = 0
    max_retries: int | None = None
    priority: int = 0
    available_at: str | None = None
    parent_uuid: str | None = None
    inherits_from: str | None = None
    keep: bool = False
    claimed: bool = False
    attempts: int = 0
    requested: str | None = None
    retry_due: float | None = None
    retry_boot: str | None = None
    source: str = ""
    prompt: str = field(default="", repr=False)
    size_bytes: int | None = None

    @classmethod
    def of(cls, key: TaskKey, uuid: str, status: TaskStatus, **columns: Any) -> TaskRow:
        """The row of a task with this key."""
        return cls(
            uuid=uuid,
            task_source=key.task_source,
            owner=key.owner,
            repo=key.repo,
            task_type=key.task_type,
            task_id=key.task_id,
            task_identifier=key.identifier,
            repository=key.repository,
            user=key.user,
            status=status,
            **columns,
        )

    @property
    def key(self) -> TaskKey:
        """The task's key, with its UUID."""
        return TaskKey(self.task_source, self.owner, self.repo, self.task_type, self.task_id, self.user, uuid=self.uuid)


IN_MOVE = "migrate:"  # before what is requested of a task, while it is moved to another back end or catalogue
SUBTASK = "subtask"  # the type of a task that another one has started as a part of its work
FRESH_START = "fresh_start"
FOLDER_LOST = "folder_lost"  # the loss of the task's records has been reported and cannot be mended
CLEANED = "cleaned"  # the task's records were removed on purpose; what is kept of them
UNREAD = "notes_unread"  # in the place of notes that are sealed and could not be opened: why
IMPORT = "import"  # the task came from elsewhere, and from where
IMPORTED_AT = "at"  # … and when: how long it may stay is counted from then on
CONTINUED = "continued"  # … and somebody here goes on with it (a fork)
SPENT = "spent"  # seconds and money, while there are limits on them


def fresh_start(row: TaskRow) -> Mapping[str, int]:
    """Where a task stood when somebody had it tried again: what came before counts towards no limit.

    ``round`` is how often that was.
    """
    kept = row.metadata.get(FRESH_START)
    return {"round": 0, "llm_calls": 0, "tokens": 0, "tool_calls": 0} | (kept if isinstance(kept, dict) else {})


def is_imported(row: TaskRow) -> bool:
    """Was the task, or what it was forked from, written elsewhere? Its words are told, and bind nobody here."""
    return IMPORT in row.metadata


def may_go_on(row: TaskRow) -> bool:
    """Is this what somebody means who names its key? A file may claim any key, so an import has to be named itself."""
    origin = row.metadata.get(IMPORT)
    return origin is None or (isinstance(origin, dict) and CONTINUED in origin)


def here_since(row: TaskRow) -> str | None:
    """Since when a finished task lies here: since its end, or since it was brought here, long after that perhaps."""
    origin = row.metadata.get(IMPORT)
    came = origin.get(IMPORTED_AT) if isinstance(origin, dict) else None
    if row.completed_at is None or not isinstance(came, str):
        return row.completed_at
    return max(row.completed_at, came)


_SEALED = f'"sealed":"{TEXT_MARK}'
_COLUMNS = tuple(column.name for column in fields(TaskRow))


def row_from(record: Mapping[str, Any]) -> TaskRow:
    """A row of the table ``tasks``, checked."""
    try:
        values = {name: record[name] for name in _COLUMNS}
        if is_sealed_text(record["prompt"]) or is_sealed_text(record["error_message"]) or _SEALED in record["metadata"]:
            raise KeyUnavailable("sealed", task=record["uuid"])
        values["status"] = TaskStatus(record["status"])
        values["metadata"] = dict(jsonio.decode(record["metadata"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedStore("row", uuid=record.get("uuid"), detail=str(error)) from error
    values["keep"], values["claimed"] = bool(record["keep"]), bool(record["claimed"])
    return TaskRow(**values)


def rows_from(records: Iterable[Mapping[str, Any]]) -> list[TaskRow]:
    """Rows of the table ``tasks``, checked."""
    return [row_from(record) for record in records]


def known_status(written: object, where: str) -> TaskStatus:
    """A status as ``where`` has it written."""
    try:
        return TaskStatus(str(written))
    except ValueError as error:
        raise DamagedStore("database", path=where, detail=str(error)) from error


def record_from(row: TaskRow) -> dict[str, Any]:
    """What is stored of a row."""
    values = {name: getattr(row, name) for name in _COLUMNS if not name.startswith("lease_")}
    values["status"] = row.status.value
    values["metadata"] = encoded(row.metadata)
    values["keep"], values["claimed"] = int(row.keep), int(row.claimed)
    return values


def encoded(metadata: Mapping[str, Any]) -> str:
    """Metadata as it is stored."""
    return jsonio.encode(dict(metadata)).decode()


@dataclass(frozen=True, slots=True)
class Rollup:
    """Sums over the tasks of one user, repository and status."""

    user: str
    repository: str
    status: str
    tasks: int
    messages: int
    tokens: int
    llm_calls: int
    tool_calls: int
    compressions: int
    timed_tasks: int  # how many have both a start and an end
    run_milliseconds: int


@dataclass(frozen=True, slots=True)
class RollupDifference:
    """A rollup that is not what the tasks add up to; ``None`` where the row is missing on one side."""

    stored: Rollup | None
    counted: Rollup | None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of the completed tasks; no average without tasks."""

    total: int
    average: float | None
