"""Where a task's folder is, and moving it so that a crash leaves it in one place.

The catalogue decides: it is updated first, then the folder follows. A folder found elsewhere was left behind by a
crash between the two and is moved at the next look. A folder in two places is never touched here; that is for
``orihon doctor``.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

from orihon.errors import DamagedStore
from orihon.folders import make_private_folder, sync_folder, wrapping
from orihon.task import TaskStatus, check_id, folder

PLACES = ("running", "paused", "completed")


class TaskFolders:
    """The task folders below one base folder."""

    def __init__(self, base_dir: Path) -> None:
        self.base_dir = base_dir

    def places(self, uuid: str) -> list[Path]:
        """Every folder of this task; more than one is damage."""
        check_id(uuid)
        # The owner may move the folder between our looks at two places: it was then seen nowhere, or twice.
        return self._look(uuid) or self._look(uuid)

    def _look(self, uuid: str) -> list[Path]:
        found = {}
        for place in PLACES:
            path = self.base_dir / place / uuid
            with suppress(FileNotFoundError, NotADirectoryError):
                status = path.stat()
                if stat.S_ISDIR(status.st_mode):
                    found[status.st_dev, status.st_ino] = path  # a folder keeps its number when it is moved
        return list(found.values())

    def find(self, uuid: str) -> Path | None:
        """The task's folder, wherever it is."""
        found = self.places(uuid)
        if len(found) > 1:
            raise DamagedStore("two_folders", uuid=uuid, places=", ".join(str(path) for path in found))
        return found[0] if found else None

    def settle(self, uuid: str, status: TaskStatus) -> Path | None:
        """Put the folder where its status says; ``None`` when there is no folder."""
        place = folder(status)
        here = self.find(uuid)
        if here is None or place is None or here.parent.name == place:
            return here
        target = self.base_dir / place / uuid
        make_private_folder(target.parent)
        with wrapping(target):
            try:
                here.rename(target)
            except FileNotFoundError:  # another process moved it in the meantime
                return self.find(uuid)
            sync_folder(target.parent)
            sync_folder(here.parent)
        return target

    def create(self, uuid: str) -> Path:
        """A new folder for a running task."""
        check_id(uuid)
        path = self.base_dir / "running" / uuid
        make_private_folder(path)
        return path

    def all(self) -> list[tuple[str, Path]]:
        """Every task folder, with the id it is named after."""
        return [
            (path.name, path)
            for place in PLACES
            if (self.base_dir / place).is_dir()
            for path in sorted((self.base_dir / place).iterdir())
            if path.is_dir() and not path.name.startswith(".")
        ]
