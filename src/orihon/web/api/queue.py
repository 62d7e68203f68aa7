"""What people want of tasks: a new one in line, pause, resume, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.queue import MAX_PROMPT_BYTES, QueueAnswer, TaskQueue
from orihon.values.task import TaskKey, new_uuid
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import task_of

_SOURCE = "web"
_PRIORITY = 1000


def enqueue(call: Call) -> QueueAnswer:
    """Put a task in line."""
    if not call.given["prompt"].strip():
        raise InvalidInput("no_prompt")
    owner, _, repo = call.given["repository"].rpartition("/")
    user = call.given["user"] or call.visitor.user
    if call.visitor.only not in (None, user):
        raise InvalidInput("other_user", user=user)
    key = TaskKey(_SOURCE, owner, repo, "task", call.given["id"] or new_uuid(), user)
    with closing(open_queue(call.base)) as queue:
        uuid = queue.enqueue(key, prompt=call.given["prompt"], source=_SOURCE, priority=call.given["priority"])
        return QueueAnswer(queue.catalogue.tasks.get(uuid))


def pause(call: Call) -> QueueAnswer:
    """Let a task rest."""
    return _request(call, TaskQueue.pause)


def resume(call: Call) -> QueueAnswer:
    """Let workers go on with it."""
    return _request(call, lambda queue, uuid: queue.resume(uuid))


def cancel(call: Call) -> QueueAnswer:
    """Give it up."""
    return _request(call, TaskQueue.cancel)


def retry(call: Call) -> QueueAnswer:
    """Put it in line again."""
    return _request(call, lambda queue, uuid: queue.retry(uuid))


def _request(call: Call, act: Callable[[TaskQueue, str], TaskRow]) -> QueueAnswer:
    uuid = task_of(call)
    with closing(open_queue(call.base)) as queue:
        return QueueAnswer(act(queue, uuid))


def _one(name: str, act: Callable[[Call], Any]) -> Endpoint:
    return Endpoint("POST", f"/api/tasks/{{task}}/{name}", act, f"{name}Task", answer=QueueAnswer, role="operate")


_NEW = (
    Field("prompt", required=True, longest=MAX_PROMPT_BYTES, about="prompt"),
    Field("repository", default="", longest=400, about="repository"),
    Field("id", longest=200, about="id"),
    Field("user", longest=200, about="for_user"),
    Field("priority", "whole", default=0, low=-_PRIORITY, high=_PRIORITY, about="priority"),
)

ENDPOINTS = (
    Endpoint("POST", "/api/tasks", enqueue, "enqueueTask", body=_NEW, answer=QueueAnswer, role="operate"),
    _one("pause", pause),
    _one("resume", resume),
    _one("cancel", cancel),
    _one("retry", retry),
)
