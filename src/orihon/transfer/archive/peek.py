"""Reading an archived task: unpacked for a moment under its lease, while the packed one stays as it is.

And unarchived for good, so that no packed copy of it is left anywhere, whatever a run that died has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orihon.audit.trail import audited
from orihon.system.files import make_private_folder
from orihon.tasks.base import OpenBase
from orihon.transfer.archive.archive_store import description_of, key_of
from orihon.transfer.archive.work import ARCHIVED, Work, at_work
from orihon.values.task import FINISHED, TaskStatus


class ArchivePeek(Work):
    """One packed task that somebody wants to read."""

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Its records as a folder, which goes with the block."""
        make_private_folder(self._place)
        self._clear_leftovers()
        task = self._shelf.find(self._uuid)
        if task is None:
            raise self._no_archive()
        self._refuse_exchanged(task)
        packed, folder = self._new_path("packed"), self._new_path("folder")
        try:
            self._shelf.unpack(task, packed, folder)
            yield folder
        finally:
            with suppress(OSError):
                packed.unlink()
            shutil.rmtree(folder, ignore_errors=True)

    def unarchive(self) -> None:
        """Restore the task, also where that was begun and not ended, and remove every packed copy."""
        found, noted = self._shelf.find(self._uuid), self._row.metadata.get(ARCHIVED)
        keys = [key_of(self._uuid, self._settings.archive.format)]
        keys += [] if found is None else [found.key]
        keys += [str(noted["key"])] if isinstance(noted, dict) and "key" in noted else []
        is_packed = self._row.status is TaskStatus.ARCHIVED or found is not None or noted is not None
        if is_packed and not self._is_taken_up():
            self.restore()
        # The description first, as ever; ``restore`` only logs what it cannot remove.
        for key in dict.fromkeys((description_of(self._uuid), *keys)):
            self._shelf.storage.delete(key)

    def _is_taken_up(self) -> bool:
        """Did a run die when the task was back, and has somebody gone on with it since?"""
        at_rest = self._row.status is TaskStatus.ARCHIVED or self._row.status in FINISHED
        return not at_rest and self.place() is not None


@contextmanager
def unpacked_for_reading(base: OpenBase, uuid: str) -> Iterator[Path]:
    """The records of a packed task as a folder, for as long as the block lasts."""
    with at_work(base, uuid, ArchivePeek) as work, work.unpacked() as folder:
        yield folder


def unarchive(base: OpenBase, uuid: str) -> None:
    """A packed task is a task like others again, and nothing of it is left in the archive."""
    with (
        audited(base.path, base.settings, "unarchive", uuid),
        at_work(base, uuid, ArchivePeek) as work,
    ):
        work.unarchive()
