"""A whole task on its way to a new place: staged, copied, proven, published.

Forks, imports, archives, migrations and restored backups do the same four things, each with what is here and with
``staged_folder`` and ``publish_folder`` of ``system.files``:

1. **Stage.** The new place grows where nothing counts: in a hidden folder, or in the database under a name that no task
   can have. On failure it goes. What a process that was killed has left goes when the next run begins, which is known
   by a lease of the task, or by its age.
2. **Copy.** Records, contents and files pass as opaque bytes (``store.copy``). Where the task leaves its former place,
   that one is fenced before: nobody with a lower epoch writes there any more.
3. **Prove.** What was written is read again and compared with what it was made of.
4. **Publish.** One rename makes it count. Everything in it is durable before, its name afterwards.

Whenever the process is killed, the task is whole where it was until 4, and whole in its new place from then on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, StaleWriter
from orihon.settings import Settings
from orihon.store.copy import TaskPart, contents_of, copy_records, refuse_difference
from orihon.store.factory import open_task_store
from orihon.store.task_store import TaskStore
from orihon.tasks.place import STAGED, TaskFolders, TaskPlace
from orihon.tasks.verify.verify import verify_task

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Postgres

#: How the names end of what is being made: folders beside the tasks, or records in the database.
FORK, IMPORT, RESTORE, MOVE = *STAGED, ".restoring", ".moving"
#: A folder that is not finished after so long belongs to a process that has died.
_SECONDS_TO_FINISH = 3600.0

#: Gives an epoch above one that was met.
RaiseEpoch = Callable[[int], int]


def remove_unfinished(place: Path, ending: str) -> list[Path]:
    """Remove the folders that forks, or imports, have left which died; returns what stays: it may be at work."""
    found = list(place.glob(f".*{ending}"))
    for path in found:
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _SECONDS_TO_FINISH:
                shutil.rmtree(path, ignore_errors=True)
    return [path for path in found if path.exists()]


class StagedRecords:
    """A task's records in the database until ``publish``; in a ``with`` block, gone when that fails."""

    def __init__(self, folders: TaskFolders, pool: Postgres, uuid: str, ending: str) -> None:
        self._pool = pool
        self._uuid = uuid
        self._name = uuid + ending
        self.folder = folders.in_database(self._name).folder

    def __enter__(self) -> Self:
        self.clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.clear()

    def is_there(self) -> bool:
        from orihon.store.postgres_section import is_kept_in

        return is_kept_in(self._pool, self._name)

    def clear(self) -> None:
        """Remove what was written, by whichever run."""
        from orihon.store.postgres_moving import remove_task

        remove_task(self._pool, self._name, fenced=False)

    def publish(self) -> None:
        """They are the task's from now on, in place of what it may have had in the database."""
        from orihon.store.postgres_moving import rename_task

        rename_task(self._pool, self._name, self._uuid)


def unfinished_in_database(folders: TaskFolders) -> Iterator[TaskPlace]:
    """Records that are being written, or that a process has left which died."""
    endings = (FORK, IMPORT, RESTORE, MOVE)
    return (place for place in folders.all() if place.is_in_database and place.uuid.endswith(endings))


def remove_from_database(place: TaskPlace, settings: Settings, *, fenced: bool) -> None:
    """Delete the records of a task, and its scratch folder; ``fenced``: whoever wrote them is refused afterwards."""
    from orihon.store.postgres_moving import remove_task

    remove_task(postgres_of(settings), place.uuid, fenced=fenced)
    shutil.rmtree(place.folder, ignore_errors=True)


def open_unguarded(
    folder: Path,
    settings: Settings,
    backend: str,
    uuid: str,
    *,
    epoch: int | None = None,
    seals_new: bool = True,
    is_staged: bool = False,
) -> TaskStore:
    """A store as its owner opens it, but without the guard: nothing new comes in that it could mask.

    ``is_staged``: it is a copy of a task that counts elsewhere, until it is published.
    """
    wanted: dict[str, object] = {"context_storage.backend": backend, "masking.enabled": False}
    if backend != "postgres":
        wanted["database.url"] = None
    if not seals_new:
        wanted["encryption.enabled"] = False
    changed = settings.replace(**wanted)
    return open_task_store(folder, changed, epoch=epoch, name=uuid, keys_of=settings, is_staged=is_staged)


def fence(store: TaskStore, epoch: int, raise_epoch: RaiseEpoch) -> int:
    """Become the writer of what is about to leave its place: who wrote before is refused. Returns the epoch reached.

    Opened on its folder alone, a task has a higher epoch than its row; then ``raise_epoch`` gives another.
    """
    store.epoch = epoch
    try:
        store.claim()
    except StaleWriter as refusal:
        if refusal.reason != "taken_over":
            raise
        store.epoch = raise_epoch(refusal.fields["epoch"])
        store.claim()
    return store.epoch


def copy_task(
    source: TaskStore,
    copy: TaskStore,
    *,
    part: TaskPart | None = None,
    sound: bool = False,
    reached: Callable[[str], None] = lambda step: None,
) -> None:
    """Everything, or a ``part``, into an empty store that is staged, with the epoch that ``copy`` was opened with.

    Raises ``DamagedStore`` when the copy is not the same, or (``sound``) not sound in itself. ``reached`` hears of the
    steps.
    """
    _ = source.records.is_sealed  # looked at before the copy has a key, which may lie in the same place
    copy.records.claim(copy.epoch)
    copy_records(source.records, copy.records, part=part, on_stream=lambda stream: reached(f"copied_{stream}"))
    copy.claim()  # makes what is derived
    reached("copied")
    if part is None:
        refuse_difference(source.name, contents_of(source), copy)
    wrong = [finding for finding in verify_task(copy) if finding.severity == "error"] if sound else []
    if wrong:
        raise DamagedStore("not_sound", uuid=source.name, what=str(wrong[0].where), detail=wrong[0].cause)
    reached("checked")
