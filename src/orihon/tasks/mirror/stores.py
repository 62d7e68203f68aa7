"""Message stores that keep a mirror: the one of a task manager, and ``S3MessageStore`` for programs without one.

An append never fails because the mirror could not be written: that is a warning, and the next occasion brings the
mirror up to date. It fails when another machine has gone on with the task: then this one is stale.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from orihon.catalogue import Lease
from orihon.drivers.objects import ObjectStorage
from orihon.errors import InvalidId, StaleWriter, StorageError
from orihon.settings import Settings, load_settings
from orihon.store.factory import begin_folder, folder_of, open_task_store
from orihon.store.locks import ForkSafeLock
from orihon.store.task_store import TaskStore
from orihon.system.files import move_aside, wrapping
from orihon.tasks.message_store import Config, MessageStore
from orihon.tasks.mirror.manifest import Manifest
from orihon.tasks.mirror.mirror import Mirror
from orihon.tasks.place import TaskPlace, reached_epoch
from orihon.values.message.message import Message
from orihon.values.records import ModelCall

logger = logging.getLogger("orihon.mirror")

#: Messages between two writes of an ``S3MessageStore``, where the settings do not say.
USUAL = 10
_TASK_KEY = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,99}(/[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,99}){0,7}")


class MirroredMessageStore(MessageStore):
    """The messages of a task whose folder is mirrored every so many of them."""

    def __init__(
        self, context_dir: Path | str, config: Config = None, *, mirror: Mirror, every: int, epoch: int, **kwargs: Any
    ) -> None:
        super().__init__(context_dir, config, **kwargs)
        self.mirror = mirror
        self._every = every
        self._epoch = epoch
        self._mirrored = self.count_messages()
        self._refusal: StaleWriter | None = None
        self._mirroring = ForkSafeLock()

    def add_message(self, *said: Any, **options: Any) -> int:
        """Store a message, and bring the mirror up to date when it is time."""
        return self._stored(partial(super().add_message, *said, **options))

    def append(self, message: Message | Mapping[str, Any], *, call: ModelCall | None = None) -> int:
        """The same for a message that is made already."""
        return self._stored(partial(super().append, message, call=call))

    def _stored(self, write: Callable[[], int]) -> int:
        if self._refusal is not None:
            raise self._refusal
        seq = write()
        if seq - self._mirrored >= self._every:
            self.mirror_if_possible(seq)
        return seq

    def mirror_now(self, folder: Path | None = None) -> Manifest:
        """Bring the mirror up to date."""
        with self._mirroring:
            return self.mirror.write(folder or self.context_dir, self._epoch)

    def mirror_if_possible(self, seq: int | None = None) -> None:
        """The same, with a warning where the storage says no; ``StaleWriter`` when another machine goes on."""
        self._mirrored = self.count_messages() if seq is None else seq
        try:
            self.mirror_now()
        except StaleWriter as refusal:
            self._refusal = refusal
            raise
        except StorageError as error:
            logger.warning("%s: not mirrored; tried again later: %s", self.task_store.name, error)

    def take_up(self, epoch: int) -> None:
        """Go on with a new lease."""
        self._epoch, self._refusal = epoch, None
        self.mirror_if_possible()

    def mirror_at_end(self, folder: Path | None = None) -> None:
        """The last time before the task is let go: nothing is raised, and what went wrong is an error in the log."""
        if self._refusal is None:
            try:
                self.mirror_now(folder)
            except (StaleWriter, StorageError) as error:
                logger.error("%s: the last messages are not mirrored: %s", self.task_store.name, error)


def open_message_store(
    context_dir: Path, settings: Settings, task_store: TaskStore, uuid: str, epoch: int
) -> MessageStore:
    """The messages of a task, mirrored where the settings want that.

    The mirror is claimed at once: from here on a machine that had the task before is refused there.
    """
    archive = settings.archive
    if archive.url is None or not archive.mirror_every or settings.context_storage.backend == "postgres":
        return MessageStore(context_dir, settings, task_store=task_store)
    mirror = Mirror(ObjectStorage.of(settings), uuid, writer=str(context_dir.parent.parent))
    store = MirroredMessageStore(
        context_dir, settings, task_store=task_store, mirror=mirror, every=archive.mirror_every, epoch=epoch
    )
    store.mirror_if_possible()
    return store


def mirror_at_end(store: MessageStore, folder: Path) -> None:
    """A task is let go and lies in ``folder``: its mirror, if it has one, gets the rest."""
    if isinstance(store, MirroredMessageStore):
        store.mirror_at_end(folder)


def go_on_mirroring(store: MessageStore, epoch: int) -> None:
    """A task that was let go is taken up again by the same process: its mirror is claimed with the new lease."""
    if isinstance(store, MirroredMessageStore):
        store.take_up(epoch)


def mirror_change(settings: Settings, place: TaskPlace | None, epoch: int) -> None:
    """Somebody has changed a task from outside, under a lease of his own: its mirror, if one is kept, gets the change.

    Without it the next machine would begin from a mirror that has not heard of the change, or refuse it as too short.
    """
    archive = settings.archive
    if archive.url is None or not archive.mirror_every or place is None or place.is_in_database:
        return
    try:
        writer = str(place.folder.parent.parent)
        Mirror(ObjectStorage.of(settings), place.uuid, writer=writer).write(place.folder, epoch)
    except (StaleWriter, StorageError) as error:
        logger.error("%s: the change is made, but not mirrored: %s", place.uuid, error)


def fetch_mirror(settings: Settings, uuid: str, folder: Path) -> bool:
    """Make the new folder ``folder`` out of the task's mirror; ``False`` when there is no mirror, or none is kept."""
    if settings.archive.url is None or not settings.archive.mirror_every:
        return False
    return Mirror(ObjectStorage.of(settings), uuid).fetch(folder)


def fetch_newer_mirror(settings: Settings, lease: Lease, here: TaskPlace | None, place: TaskPlace) -> bool:
    """The same when another machine has gone on since the folder ``here`` was written; that one is put aside."""
    if here is None:
        return fetch_mirror(settings, lease.uuid, place.folder)
    if settings.archive.url is None or not settings.archive.mirror_every:
        return False
    reached = reached_epoch(here.folder, sure=True)
    if lease.epoch <= reached + 1:
        return False  # nobody has had the task between our last lease and this one
    manifest = Mirror(ObjectStorage.of(settings), lease.uuid).manifest()
    if manifest is None or manifest.epoch <= reached:
        return False
    kept = move_aside(here.folder, here.folder.parent.parent, lease.uuid)
    logger.warning("%s: another machine has gone on with it; what was here is kept in %s", lease.uuid, kept)
    return fetch_mirror(settings, lease.uuid, place.folder)


class S3MessageStore(MirroredMessageStore):
    """The messages of a task in an object storage, with a working copy on this machine.

    ``bucket_name`` is a bucket of S3 or an address (``gs://…``, ``file://…``). Whoever opens the task goes on from the
    mirror, and whoever had it before is refused. ``local_dir`` holds the working copy; further keywords are
    ``MessageStore``'s.
    """

    def __init__(
        self,
        bucket_name: str,
        task_key: str,
        config: Config = None,
        *,
        endpoint: str | None = None,
        mirror_every: int | None = None,
        local_dir: Path | str | None = None,
        backend: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not _TASK_KEY.fullmatch(task_key):
            raise InvalidId("unsafe", what="task_key", value=ascii(task_key)[:80])
        url = bucket_name if "://" in bucket_name else f"s3://{bucket_name}"
        flags = {
            "archive.url": url,
            "archive.endpoint": endpoint,
            "archive.mirror_every": mirror_every,
            "context_storage.backend": backend,
        }
        settings = load_settings(config, flags=flags)
        self.bucket = bucket_name
        self.local_cache = self._local(settings, task_key, local_dir)
        mirror = Mirror(ObjectStorage.of(settings), task_key, "contexts", writer=str(self.local_cache))
        self.object_key = mirror.key
        epoch = _brought_up_to_date(mirror, self.local_cache)
        begin_folder(self.local_cache, settings)
        store = open_task_store(self.local_cache, settings, epoch=epoch)
        every = settings.archive.mirror_every or USUAL
        super().__init__(
            self.local_cache, settings, mirror=mirror, every=every, epoch=epoch, task_store=store, **kwargs
        )
        try:
            store.claim()  # so that the epoch is in the folder before it is in the mirror
            self.mirror_if_possible()
        except StaleWriter:
            store.close()
            raise

    @staticmethod
    def _local(settings: Settings, task_key: str, local_dir: Path | str | None) -> Path:
        base = Path(settings.context_storage.base_dir) / "mirrored" / task_key
        return folder_of(base if local_dir is None else local_dir)

    def close(self) -> None:
        """Let go of the task; the mirror gets the rest."""
        super().close()
        self.mirror_at_end()

    def _sync_to_s3(self) -> None:
        self.mirror_now()


def _brought_up_to_date(mirror: Mirror, folder: Path) -> int:
    """The working copy as the mirror has it, unless the one here is newer; returns the epoch to go on with."""
    manifest = mirror.manifest()
    reached = reached_epoch(folder, sure=True)
    if manifest is None:
        return reached + 1
    if folder.exists() and manifest.epoch > reached:
        # Another machine has gone on since. What was added here after its start is kept beside it.
        with wrapping(folder):
            folder.rename(folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.aside"))
    if not folder.exists():
        mirror.fetch(folder)
    return max(manifest.epoch, reached) + 1
