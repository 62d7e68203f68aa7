"""Opening the task that a worker holds, with the lease of its claim and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orihon.runtime.queue import QueuedTask
from orihon.settings import Settings
from orihon.tasks.context import TaskContextManager


def open_context(
    task: QueuedTask, base_dir: Path | str, settings: Settings, llm_client: Any = None
) -> TaskContextManager:
    """The task's context; a lease on another task, or one that was taken over, is refused."""
    context = TaskContextManager(
        base_dir, task.key, settings, llm_client, uuid=task.uuid, is_resumed=True, lease=task.lease
    )
    task.lease = context.lease  # opening may have raised the epoch
    return context
