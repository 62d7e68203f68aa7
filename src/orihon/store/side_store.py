"""What the three stores beside the log share: the task's records, given or opened by their folder."""

from __future__ import annotations

from pathlib import Path

from orihon.store.factory import folder_of, shared_task_store
from orihon.store.task_store import TaskStore


class SideStore:
    """One stream of a task."""

    def __init__(self, context_dir: Path | str, *, task_store: TaskStore | None = None) -> None:
        self._store = task_store or shared_task_store(folder_of(context_dir))

    @property
    def context_dir(self) -> Path:
        """Where the task lies now; it moves when the task ends."""
        return self._store.records.folder
