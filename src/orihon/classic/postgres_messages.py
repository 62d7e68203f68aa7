"""``PostgreSQLMessageStore``: a ``MessageStore`` by the address of a database and the name of a task.

The name from the first design. The same tables, the same promises and the same methods as every ``MessageStore`` whose
settings name a database; only no folder has to be chosen.
"""

from __future__ import annotations

from orihon.settings import load_settings
from orihon.store.factory import open_task_store
from orihon.tasks.message_store import Config, MessageStore
from orihon.values.task import check_id


class PostgreSQLMessageStore(MessageStore):
    """Every message of a task in a database, and the view of them that fits the model."""

    def __init__(
        self,
        connection_string: str,
        task_key: str,
        config: Config = None,
        *,
        context_length: int | None = None,
        compression_threshold: float | None = None,
    ) -> None:
        """Open the task ``task_key`` (letters, digits, ``-`` and ``_``) at ``postgresql://…``.

        The file of the current context and the key of the guard lie below ``context_storage.base_dir``.
        """
        self.task_key = check_id(task_key, "task_key")
        flags = {"database.url": connection_string, "context_storage.backend": "postgres"}
        settings = load_settings(config, flags=flags)
        base_dir = settings.context_storage.base_dir
        scratch = base_dir / "scratch" / self.task_key
        super().__init__(
            scratch,
            settings,
            context_length=context_length,
            compression_threshold=compression_threshold,
            task_store=open_task_store(scratch, settings, name=self.task_key),
        )
