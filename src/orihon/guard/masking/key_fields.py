"""Names of tasks are written as they are, in rows, files and lines of the log: one with a secret in it is refused.

Masked it would name another task, and its source could not be told how the task ended. A user may well be an address
or match a pattern of somebody's own: in that field only the built-in rules count.
"""

from __future__ import annotations

from orihon.errors import InvalidInput
from orihon.guard.masking.redaction import Redactor, hide
from orihon.values.task import TaskKey

_FIELDS = ("task_source", "owner", "repo", "task_type", "task_id")


def refuse_secret_in(key: TaskKey, redactor: Redactor) -> None:
    """Raise where a field of the key has something to mask."""
    for field in _FIELDS:
        if redactor.mask(value := getattr(key, field)) != value:
            raise InvalidInput("secret_in_key", field=field)
    if redactor.enabled and hide(key.user) != key.user:
        raise InvalidInput("secret_in_key", field="user")
