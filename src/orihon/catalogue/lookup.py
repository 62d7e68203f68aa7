"""Finding the rows of the catalogue: by UUID, by key, by what somebody looks for. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from orihon.catalogue.rows import TaskRow, row_from
from orihon.catalogue.tasks_db import TasksDatabase
from orihon.errors import TaskNotFound
from orihon.system import jsonio
from orihon.values.task import TaskKey, TaskStatus, check_id

_BEYOND_IDS = "\x7f"  # sorts after every character of an id


class Finding:
    """What the catalogue does to find rows."""

    _db: TasksDatabase

    def find(self, uuid: str) -> TaskRow | None:
        """The task, if there is one."""
        record = self._db.one("task", uuid=uuid)
        return None if record is None else row_from(record)

    def get(self, uuid: str) -> TaskRow:
        """The task; ``TaskNotFound`` when there is none."""
        row = self.find(uuid)
        if row is None:
            raise TaskNotFound("uuid", uuid=uuid)
        return row

    def find_by_prefix(self, prefix: str, limit: int = 10, *, user: str | None = None) -> list[TaskRow]:
        """The tasks whose UUID begins so, as people type it; ``user``: those of that user."""
        first = check_id(prefix, "prefix")
        conditions, whose = ((), {}) if user is None else (("having_user",), {"user": user})
        span = {"first": first, "beyond": first + _BEYOND_IDS}
        found = self._db.all("tasks_by_prefix", *conditions, limit=limit, **span, **whose)
        return [row_from(record) for record in found]

    def list_tasks(
        self,
        *,
        status: TaskStatus | None = None,
        user: str | None = None,
        repository: str | None = None,
        source: str | None = None,
        since: str | None = None,
        words: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> list[TaskRow]:
        """One page, newest first; the next one begins ``before`` the last UUID of this one.

        ``since`` is a time as the catalogue writes it. Each of the ``words`` stands in the task's key, user, prompt
        or title, in capitals or not.
        """
        wanted = {
            "having_status": ("status", None if status is None else status.value),
            "having_user": ("user", user),
            "having_repository": ("repository", repository),
            "having_source": ("source", source),
            "having_since": ("since", since),
            "having_words": ("words", jsonio.encode([word.lower() for word in words]).decode() if words else None),
            "older_than": ("before", before),
        }
        conditions = [condition for condition, (_, value) in wanted.items() if value is not None]
        bindings = {name: value for name, value in wanted.values() if value is not None}
        return [row_from(record) for record in self._db.all("list_tasks", *conditions, limit=limit, **bindings)]

    def tasks_of(self, uuids: Sequence[str]) -> list[TaskRow]:
        """Those of these tasks that there are, newest first."""
        return [row_from(record) for record in self._db.all("tasks_of", uuids=jsonio.encode(list(uuids)).decode())]

    def tasks_about(
        self,
        task_id: str,
        *,
        source: str | None = None,
        place: str | None = None,
        is_merge_request: bool = False,
        limit: int = 100,
    ) -> list[TaskRow]:
        """The tasks on the issue, merge request … of this number, newest first.

        ``place`` is the repository, or the type of a task that has none.
        """
        wanted = {"having_source": ("source", source), "having_place": ("place", place)}
        conditions = [condition for condition, (_, value) in wanted.items() if value is not None]
        bindings = {name: value for name, value in wanted.values() if value is not None}
        kind = "having_merge_request" if is_merge_request else "having_no_merge_request"
        found = self._db.all("tasks_about", *conditions, kind, task_id=task_id, limit=limit, **bindings)
        return [row_from(record) for record in found]

    def in_move(self) -> list[str]:
        """The tasks whose move to another back end is under way or was interrupted."""
        return [record["uuid"] for record in self._db.all("tasks_in_move")]

    def previous(self, key: TaskKey, limit: int = 10) -> list[TaskRow]:
        """The completed and failed tasks on the same key, the last one first."""
        found = self._db.all("previous_tasks", **key.as_dict(), user=key.user, limit=limit)
        return [row_from(record) for record in found]

    def open_tasks(self, key: TaskKey) -> list[TaskRow]:
        """The tasks on the same key that are not over, the youngest first."""
        return [row_from(record) for record in self._db.all("open_tasks", **key.as_dict(), user=key.user)]

    def tasks_of_key(self, key: TaskKey, limit: int = 50) -> list[TaskRow]:
        """The tasks on the same key, its user included, the youngest first."""
        found = self._db.all("tasks_of_key", **key.as_dict(), user=key.user, limit=limit)
        return [row_from(record) for record in found]

    def children(self, uuid: str) -> list[TaskRow]:
        """The tasks that a task has started as parts of its work."""
        return [row_from(record) for record in self._db.all("children", uuid=uuid)]

    def running_tasks(self) -> list[TaskRow]:
        """What is being worked on, the youngest first."""
        return [row_from(record) for record in self._db.all("running_tasks")]

    def failed_tasks(self, limit: int = 10) -> list[TaskRow]:
        """The last tasks that failed."""
        return [row_from(record) for record in self._db.all("failed_tasks", limit=limit)]
