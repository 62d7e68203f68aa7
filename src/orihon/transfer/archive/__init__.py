"""Archives: the packed folder of a finished task, in ``archive/`` of the base folder or in an object storage."""

from orihon.transfer.archive.archive import ArchiveRun, archive_old, archive_task, restore_task
from orihon.transfer.archive.archive_store import ArchivedTask

__all__ = ["ArchiveRun", "ArchivedTask", "archive_old", "archive_task", "restore_task"]
