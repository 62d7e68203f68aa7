"""A task taken from a process that stands still in the middle of a write, and keeps its lock.

Only the holder of a lock can free it, and one that is stopped, frozen, or waits for a disk that hangs may never. So
whoever has a newer lease gives the task a new folder, in which nobody has locked anything:

1. the folder gets a hidden name (``taken``): one rename;
2. everything in it is copied to new files, in a folder that is staged beside it;
3. the copy gets the task's name, and with it the new epoch (``published``): one rename, which fails if the name is in
   use;
4. the former folder is removed: by the taker, or by whoever claims the new one, in which a file names it.

Why nothing acknowledged is lost: the last thing that a writer does before it acknowledges is to look whether the folder
it has written to is the one under the task's name (``HeldFolder.is_in_place``). What it acknowledges was therefore
written before 1, and so is in the copy of 2. What it writes later goes to a folder that has lost the name, is never
acknowledged, and does not reach the copy after 3. All that it does by name it does by the folder it has opened, so that
nothing of it gets into the new one.

Whenever the taker dies, or stands still itself, the task is whole: up to 3 under its hidden name, to which ``put_back``
gives the right one again, at the next look of somebody with a lease; from then on in its new place. Of two takers one
meets a name that is in use, or moves a folder that is not the one it has looked at: it gives that back and is refused.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from orihon.errors import StaleWriter, StorageError, StorageUnavailable
from orihon.store.sqlite_copies import DATABASE, copy_database, read_fence, set_fence
from orihon.store.writer_place import NAME as WRITER
from orihon.store.writer_place import NOBODY, highest_epoch, holder_in, line_of
from orihon.system.files import (
    hidden_beside,
    is_unfinished,
    make_private_folder,
    publish_folder,
    staged_folder,
    wrapping,
    write_new,
)
from orihon.system.holding import HeldFolder

logger = logging.getLogger("orihon.store")

#: So long a writer that has been passed is waited for: a write takes far less.
PATIENCE = 2.0
#: Why a database cannot be had that somebody keeps locked.
LOCKED = frozenset(("locked", "held_stopped"))
#: How the name of a folder ends that was taken from somebody.
TAKEN = ".taken"
#: How the name of a file begins that is in a new folder, until the former one is gone; it ends as the name of that.
_FORMER = ".former."

#: What mentions others is copied before them: a writer that wakes up meanwhile adds in the opposite order.
_FIRST = ("compressions.jsonl", "checkpoints.jsonl", "current.jsonl", "planning.jsonl", "messages.jsonl", "tools.jsonl")
#: Contents that never change have a second name instead of a copy.
_UNCHANGING = ("blobs", "aside")
_NOT_COPIED = frozenset((WRITER, "writer.lock", "request.json"))
#: What a base folder has and a task's has not: a base cannot be put elsewhere for the sake of the task in it.
_OF_A_BASE = ("tasks.db", "running")


def can_be_taken(folder: Path) -> bool:
    """Can the task have another folder? Not where its folder is the whole base."""
    with wrapping(folder):
        return not any((folder / name).exists() for name in _OF_A_BASE)


def take_away(folder: Path, epoch: int) -> None:
    """Give the task a new folder with the same in it, for the holder of this epoch; see above."""
    with wrapping(folder):
        try:
            former = HeldFolder(folder)
            token = secrets.token_hex(4)
            taken = _taken(folder, token)
            _reached(folder, "begun")
            folder.rename(taken)
        except FileNotFoundError as error:
            raise StorageUnavailable("gone", path=folder) from error
    _reached(folder, "taken")
    try:
        if not former.is_at(taken):
            raise StaleWriter("taken_away", path=folder)
        with staged_folder(hidden_beside(folder)) as staged:
            _copy(taken, staged, epoch)
            write_new(staged / f"{_FORMER}{token}", [])
            _reached(folder, "copied")
            if not former.is_at(taken):  # somebody has put it back, and written to it
                raise StaleWriter("taken_away", path=folder)
            _publish(staged, folder)
    except BaseException as error:
        is_lost = not former.is_at(taken)
        with suppress(OSError):
            taken.rename(folder)
        if is_lost and isinstance(error, StorageError):
            raise StaleWriter("taken_away", path=folder) from error
        raise
    _reached(folder, "published")
    remove_former(folder)
    logger.warning("%s: taken over from a process that stood still in the middle of a write", folder.name)


def remove_former(folder: Path) -> None:
    """Remove what the folder under this name was copied from, also for a taker that died before."""
    with wrapping(folder):
        for note in folder.glob(f"{_FORMER}*"):
            shutil.rmtree(_taken(folder, note.name.removeprefix(_FORMER)), ignore_errors=True)
            note.unlink(missing_ok=True)


def put_back(folder: Path) -> bool:
    """Give a task whose taker has died its name again; for whoever has its lease. ``False``: there is none to give.

    A copy that was begun goes, before anybody moves the task on: should its taker wake up, it has nothing to publish.
    """
    with wrapping(folder):
        beside = [] if folder.exists() else _hidden_of(folder)
        found = [path for path in beside if path.name.endswith(TAKEN)]
        for taken in sorted(found, key=_epoch, reverse=True):
            try:
                taken.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                for staged in beside:
                    if is_unfinished(staged.name):
                        shutil.rmtree(staged, ignore_errors=True)
                logger.warning("%s: a take-over was broken off; its folder has its name again", folder.name)
                return True
    return False


def taken_task(name: str) -> str | None:
    """The task from which a folder with this name was taken."""
    hidden = name.removesuffix(TAKEN)
    return hidden[1:-9] if hidden != name and is_unfinished(hidden) else None


def _taken(folder: Path, token: str) -> Path:
    return folder.with_name(f".{folder.name}.{token}{TAKEN}")


def _hidden_of(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder.parent) as entries:
        return [Path(entry) for entry in entries if entry.name.startswith(f".{folder.name}.") and entry.is_dir()]
    return []


def _epoch(folder: Path) -> int:
    if (folder / DATABASE).exists():
        return read_fence(folder / DATABASE)
    with suppress(OSError):
        if (holder := holder_in((folder / WRITER).read_bytes())) is not None:
            return int(holder["epoch"])
    return highest_epoch(folder / "messages.jsonl")


def _publish(staged: Path, folder: Path) -> None:
    try:
        publish_folder(staged, folder)
    except StorageUnavailable as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise StaleWriter("taken_away", path=folder) from error
        raise


def _copy(source: Path, target: Path, epoch: int) -> None:
    make_private_folder(target)
    if (source / DATABASE).exists():
        _copy_database(source / DATABASE, target / DATABASE)
        _refuse_passed(target, epoch)
        set_fence(target / DATABASE, epoch)
        with wrapping(target / DATABASE), (target / DATABASE).open("rb") as file:
            os.fsync(file.fileno())
    else:
        _refuse_passed(source, epoch)
        write_new(target / WRITER, [line_of({**NOBODY, "epoch": epoch})])
    for path in _in_order(source):
        with wrapping(path), suppress(FileNotFoundError):  # what a process writes that has woken up comes and goes
            _copy_file(path, target / path.relative_to(source))


def _refuse_passed(folder: Path, epoch: int) -> None:
    """Whoever asked may not have been able to see it."""
    if (reached := _epoch(folder)) >= epoch:
        raise StaleWriter("taken_over", path=folder, epoch=reached, pid="?")


def _copy_database(source: Path, target: Path) -> None:
    """What is committed; readers do not wait for who stands still in a transaction.

    But one that opens the database or closes it for the last time keeps them out. Then the files are copied as they
    are, the log first: nobody adds to it, and what is written to the database meanwhile stands in that log.
    """
    try:
        copy_database(source, target, timeout=PATIENCE)
    except StorageUnavailable as error:
        if error.reason not in LOCKED:
            raise
        target.unlink()
        for ending in ("-wal", ""):
            with suppress(FileNotFoundError):
                _copy_file(source.with_name(source.name + ending), target.with_name(target.name + ending))


def _in_order(source: Path) -> Iterable[Path]:
    rank = {name: number for number, name in enumerate(_FIRST)}
    found = list(_files(source))
    return sorted(
        found, key=lambda path: (path.parts[len(source.parts)] == "blobs", rank.get(path.name, len(rank)), path)
    )


def _files(source: Path) -> Iterator[Path]:
    with wrapping(source):
        for parent, folders, names in os.walk(source):
            is_top = Path(parent) == source
            folders[:] = [name for name in folders if not is_unfinished(name)]
            for name in names:
                is_own = is_top and (name in _NOT_COPIED or name.startswith(DATABASE))
                if not is_own and not is_unfinished(name):
                    yield Path(parent, name)


def _copy_file(path: Path, target: Path) -> None:
    make_private_folder(target.parent)
    if path.is_symlink():
        target.symlink_to(path.readlink())
    elif target.parent.name not in _UNCHANGING or not _is_linked(path, target):
        with path.open("rb") as file:
            write_new(target, iter(lambda: file.read(1 << 20), b""))


def _is_linked(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except OSError:  # a file system without links
        return False
    return True


def _reached(folder: Path, step: str) -> None:
    logger.debug("%s: take-over: %s", folder.name, step)
