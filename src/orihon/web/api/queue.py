"""What people want of tasks: a new one in line, pause, resume, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput
from orihon.reports.shapes import SCHEMAS
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.queue import MAX_PROMPT_BYTES, TaskQueue
from orihon.values.task import TaskKey, new_uuid
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import task_of

_SOURCE = "web"
_PRIORITY = 1000
_ROW = SCHEMAS["enqueue"][""]


def enqueue(call: Call) -> dict[str, Any]:
    """Put a task in line."""
    if not call.given["prompt"].strip():
        raise InvalidInput("no_prompt")
    owner, _, repo = call.given["repository"].rpartition("/")
    user = call.given["user"] or call.visitor.user
    if call.visitor.only not in (None, user):
        raise InvalidInput("other_user", user=user)
    key = TaskKey(_SOURCE, owner, repo, "task", call.given["id"] or new_uuid(), user)
    with closing(open_queue(call.base, call.settings)) as queue:
        uuid = queue.enqueue(key, prompt=call.given["prompt"], source=_SOURCE, priority=call.given["priority"])
        return _as_dict(queue.catalogue.tasks.get(uuid))


def pause(call: Call) -> dict[str, Any]:
    """Let a task rest."""
    return _request(call, TaskQueue.pause)


def resume(call: Call) -> dict[str, Any]:
    """Let workers go on with it."""
    return _request(call, lambda queue, uuid: queue.resume(uuid))


def cancel(call: Call) -> dict[str, Any]:
    """Give it up."""
    return _request(call, TaskQueue.cancel)


def retry(call: Call) -> dict[str, Any]:
    """Put it in line again."""
    return _request(call, lambda queue, uuid: queue.retry(uuid))


def _request(call: Call, act: Callable[[TaskQueue, str], TaskRow]) -> dict[str, Any]:
    uuid = task_of(call)
    with closing(open_queue(call.base, call.settings)) as queue:
        return _as_dict(act(queue, uuid))


def _as_dict(row: TaskRow) -> dict[str, Any]:
    return {"uuid": row.uuid, "status": row.status.value, "requested": row.requested, "owner": row.lease_owner}


def _one(name: str, act: Callable[[Call], Any]) -> Endpoint:
    return Endpoint("POST", f"/api/tasks/{{task}}/{name}", act, f"{name}Task", answer=_ROW, role="operate")


_NEW = (
    Field("prompt", required=True, longest=MAX_PROMPT_BYTES, about="prompt"),
    Field("repository", default="", longest=400, about="repository"),
    Field("id", longest=200, about="id"),
    Field("user", longest=200, about="for_user"),
    Field("priority", "whole", default=0, low=-_PRIORITY, high=_PRIORITY, about="priority"),
)

ENDPOINTS = (
    Endpoint("POST", "/api/tasks", enqueue, "enqueueTask", body=_NEW, answer=_ROW, role="operate"),
    _one("pause", pause),
    _one("resume", resume),
    _one("cancel", cancel),
    _one("retry", retry),
)
