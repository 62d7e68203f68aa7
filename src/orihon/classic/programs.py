"""The main program of the first design by its names: its settings, its folders, its workers, its store on a server.

``orihon worker`` does all of this, supervised; these are for programs that start their processes themselves.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.runtime.agent_tools import TaskWithKey, key_of
from orihon.runtime.handlers import DEFAULT_HANDLER, Handler
from orihon.runtime.queue import TaskQueue
from orihon.runtime.worker import WorkerProcess
from orihon.settings import Settings, load_settings
from orihon.settings.load import find_config
from orihon.settings.model import schema
from orihon.store.factory import open_task_store
from orihon.system.files import make_private_folder, open_private, wrapping
from orihon.tasks.message_store import Config, MessageStore
from orihon.values.task import check_id

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


def load_config(path: Path | str | None = None) -> dict[str, Any]:
    """What a file (without one: ``$ORIHON_CONFIG`` or ``config.yaml``) and the environment say, section by section.

    Checked like all settings; values that nobody has set are not in it.
    """
    settings = load_settings(path or find_config())
    found: dict[str, Any] = {}
    for key in schema():
        if settings.is_explicit(key):
            *sections, name = key.split(".")
            node = found
            for section in sections:
                node = node.setdefault(section, {})
            node[name] = settings.get(key)
    return found


def create_context_directory(
    path: Path | str | TaskWithKey, config: Mapping[str, Any] | Settings | None = None
) -> Path:
    """Make a folder for the owner alone, and the way to it. For a task it is the one of its key in the base folder."""
    if isinstance(path, Path | str):
        folder = Path(path)
    else:
        folder = load_settings(config).context_storage.base_dir / _folder_name(path)
    make_private_folder(folder)
    return folder


def _folder_name(task: TaskWithKey) -> str:
    """A name that may be a task's; keys that look alike in it have different ones."""
    parts = tuple(key_of(task).as_dict().values())
    plain = "-".join(_UNSAFE.sub("_", part) for part in parts if part)
    if len(plain) <= _LONGEST and all(part and not _UNSAFE.search(part) and "-" not in part for part in parts):
        return plain
    return f"{plain[: _LONGEST - 9]}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"


def create_database(db_path: Path | str) -> None:
    """Make the file of a database for the owner alone, if it is not there; its tables come with the first message."""
    path = Path(db_path)
    with wrapping(path):
        if not path.exists():
            os.close(open_private(path, os.O_RDWR | os.O_CREAT))


def worker_process(
    worker_id: int | str, config: Mapping[str, Any] | Settings | None = None, *, handler: str = DEFAULT_HANDLER
) -> None:
    """One worker: takes tasks out of the queue that the settings name until none waits, or until SIGTERM."""
    WorkerProcess(worker_id, config, handler=handler, until_empty=True).run()


def consume_tasks(
    task_queue: TaskQueue,
    handler: Handler,
    logger: logging.Logger | None = None,
    task_config: Mapping[str, Any] | None = None,
) -> int:
    """Hand the tasks of a queue to a handler until none waits, or until SIGTERM; returns how many were worked on.

    ``task_config`` is for handlers of one's own that look into it; what a task needs, its handler has got already.
    """
    worker = WorkerProcess("consumer", task_queue.settings, handler=handler, until_empty=True, queue=task_queue)
    worker.run()
    if logger is not None:
        logger.info("%d tasks, %d of them failed", worker.figures.processed, worker.figures.failed)
    return worker.figures.processed


class PostgreSQLMessageStore(MessageStore):
    """Every message of a task in a database, and the view of them that fits the model.

    The same tables, promises and methods as every ``MessageStore`` whose settings name a database; only no folder has
    to be chosen.
    """

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
