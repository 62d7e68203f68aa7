"""What a task is called and which states it may be in: ``TaskKey``, ``Task``, ``TaskStatus``.

Values only; where a task is kept is the catalogue's business. Refuses ids that could harm a path, names that
a database cannot keep, and every change of status that the life of a task does not know.
"""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orihon.errors import IllegalTransition, InvalidId, InvalidInput

MAX_FIELD_CHARS = 200

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SOURCES = ("github", "gitlab")
_LONG_TYPES = {"pr": "pull_request", "mr": "merge_request"}
_SHORT_TYPES = {long: short for short, long in _LONG_TYPES.items()}


class TaskStatus(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD = "dead"
    ARCHIVED = "archived"


FINISHED = frozenset((TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD))

_RETRY = frozenset((TaskStatus.QUEUED, TaskStatus.ARCHIVED))
LEGAL_CHANGES: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.QUEUED: frozenset((TaskStatus.RUNNING, TaskStatus.CANCELLED)),
    TaskStatus.RUNNING: FINISHED | {TaskStatus.PAUSED, TaskStatus.WAITING},
    TaskStatus.PAUSED: frozenset((TaskStatus.RUNNING, TaskStatus.CANCELLED, TaskStatus.FAILED)),
    TaskStatus.WAITING: frozenset((TaskStatus.RUNNING, TaskStatus.CANCELLED, TaskStatus.FAILED, TaskStatus.PAUSED)),
    TaskStatus.COMPLETED: frozenset((TaskStatus.ARCHIVED,)),
    TaskStatus.FAILED: _RETRY,
    TaskStatus.CANCELLED: _RETRY,
    TaskStatus.DEAD: _RETRY,
    TaskStatus.ARCHIVED: FINISHED,
}

_FOLDERS = {
    TaskStatus.RUNNING: "running",
    TaskStatus.PAUSED: "paused",
    TaskStatus.WAITING: "paused",
    **dict.fromkeys(FINISHED, "completed"),
}


def check_change(old: TaskStatus, new: TaskStatus) -> None:
    """Refuse a change of status that does not exist."""
    legal = LEGAL_CHANGES[old]
    if new not in legal:
        raise IllegalTransition("change", old=old.value, new=new.value, legal=", ".join(sorted(legal)))


def parse_status(value: str) -> TaskStatus:
    """The status by that name."""
    try:
        return TaskStatus(value)
    except ValueError as error:
        raise InvalidInput("unknown_status", status=shortened(value), known=", ".join(TaskStatus)) from error


def folder(status: TaskStatus) -> str | None:
    """The folder a task of this status lies in; ``None`` for a mere row and for an archive."""
    return _FOLDERS.get(status)


def check_id(value: object, what: str = "uuid") -> str:
    """An id that may become part of a path, as it is; anything else raises."""
    if not isinstance(value, str) or not _SAFE_ID.fullmatch(value):
        raise InvalidId("unsafe", what=what, value=shortened(value))
    return value


def new_uuid() -> str:
    """A fresh UUID v4."""
    return str(uuids.uuid4())


def shortened(value: object, limit: int = 80) -> str:
    """How a value from outside is shown in an error: quoted, escaped, never long."""
    shown = ascii(value[:limit]) if isinstance(value, str) else ascii(value)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class TaskKey:
    """Which piece of work: two tasks with equal keys are about the same thing.

    A combined type (``github_issue``, ``gitlab_mr``) is taken apart. ``uuid`` names one task on the key and
    is no part of equality.
    """

    task_source: str
    owner: str
    repo: str
    task_type: str
    task_id: str
    user: str = ""
    uuid: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("task_source", "owner", "repo", "task_type", "task_id", "user"):
            _check_field(name, getattr(self, name))
        source, kind = _split_type(self.task_source, self.task_type)
        object.__setattr__(self, "task_source", source)
        object.__setattr__(self, "task_type", kind)
        for name in ("task_source", "task_type", "task_id"):
            if not getattr(self, name):
                raise InvalidInput("empty_field", field=name)
        if self.uuid is not None:
            check_id(self.uuid)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskKey:
        """From the dict of ``metadata.json``, or from one with ``task_identifier`` and ``repository``."""
        owner, repo = data.get("owner") or "", data.get("repo") or ""
        repository = data.get("repository")
        if not owner and not repo and isinstance(repository, str):
            owner, _, repo = repository.rpartition("/")
        number = data.get("task_id", data.get("task_identifier", ""))
        return cls(
            task_source=data.get("task_source") or "",
            owner=owner,
            repo=repo,
            task_type=data.get("task_type") or "",
            task_id=str(number) if type(number) is int else number,
            user=data.get("user") or "",
            uuid=data.get("uuid"),
        )

    def as_dict(self) -> dict[str, str]:
        """The five fields that ``metadata.json`` keeps under ``task_key``."""
        return {
            "task_source": self.task_source,
            "owner": self.owner,
            "repo": self.repo,
            "task_type": self.task_type,
            "task_id": self.task_id,
        }

    @property
    def identifier(self) -> str:
        """The number of the issue, merge request … (``task_identifier``)."""
        return self.task_id

    @property
    def repository(self) -> str:
        """``owner/repo``, or the one of them that is set."""
        return "/".join(part for part in (self.owner, self.repo) if part)

    @property
    def combined_type(self) -> str:
        """Source and type in one word: ``github_issue``, ``gitlab_mr``."""
        return f"{self.task_source}_{_SHORT_TYPES.get(self.task_type, self.task_type)}"

    @property
    def label(self) -> str:
        """For people: ``github:owner/repo#27``; merge requests have their ``!``."""
        mark = "!" if self.task_type == "merge_request" else "#"
        return f"{self.task_source}:{self.repository or self.task_type}{mark}{self.task_id}"


class NamedFields(dict[str, str]):
    """The fields of a key; one design asks for them as items, another as attributes."""

    def __getattr__(self, name: str) -> str:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(slots=True)
class TaskIdentity:
    """Which task: its key, whose it is, and the UUID that it gets once, when it is queued."""

    key: TaskKey
    user: str = ""
    uuid: str | None = None

    def __post_init__(self) -> None:
        self.user = self.user or self.key.user
        if self.uuid is None:
            self.uuid = self.key.uuid
        else:
            check_id(self.uuid)

    def set_uuid(self, uuid: str) -> None:
        """Given once, when the task is queued."""
        if self.uuid not in (None, uuid):
            raise IllegalTransition("renamed", uuid=self.uuid, new=shortened(uuid))
        self.uuid = check_id(uuid)

    def get_uuid(self) -> str | None:
        return self.uuid

    def get_task_key(self) -> NamedFields:
        return NamedFields(self.key.as_dict())


def _check_field(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput("field_type", field=name, actual=type(value).__name__)
    if len(value) > MAX_FIELD_CHARS:
        raise InvalidInput("field_long", field=name, length=len(value), limit=MAX_FIELD_CHARS)
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput("field_text", field=name, value=shortened(value))


def _split_type(source: str, kind: str) -> tuple[str, str]:
    """``github_issue`` is the source ``github`` and the type ``issue``; a type of one word stays."""
    for prefix in dict.fromkeys((source, *_SOURCES)):
        if prefix and kind.startswith(f"{prefix}_"):
            if source not in ("", prefix):
                raise InvalidInput("two_sources", source=shortened(source), type=shortened(kind))
            source, kind = prefix, kind[len(prefix) + 1 :]
            break
    return source, _LONG_TYPES.get(kind, kind)
