"""Archives: the packed folder of a finished task, in ``archive/`` of the base folder or in an object storage."""

from orihon.archive.archive import ArchiveRun, archive_old, archive_task, restore_task
from orihon.archive.shelf import ArchivedTask

__all__ = ["ArchiveRun", "ArchivedTask", "archive_old", "archive_task", "restore_task"]
