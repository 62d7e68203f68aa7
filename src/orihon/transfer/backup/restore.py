"""``restore_backup``: a base folder out of a vault, whole or not at all.

Every piece is compared with its SHA-256. Everything is built beside the folder and gets its name last, so a restore
that is broken off leaves nothing that looks like a base folder. Refuses a folder that holds anything. What is derived
is made anew: the view's file here, the rest when a task is opened.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orihon.audit.trail import audit_of
from orihon.errors import DamagedStore, InvalidInput, StorageUnavailable
from orihon.settings import Settings
from orihon.store.contract import SEALED
from orihon.store.factory import open_for_reading
from orihon.store.sqlite_copies import DATABASE
from orihon.system import ProgressObserver
from orihon.system.files import hidden_beside, make_private_folder, publish_folder, staged_folder, wrapping, write_new
from orihon.tasks.place import PLACES
from orihon.transfer.backup.backup import refuse_database
from orihon.transfer.backup.manifest import FileEntry
from orihon.transfer.backup.vault import BackupInfo, BackupRepository, storage_at


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was restored, and where to."""

    run: str
    folder: Path
    tasks: int
    files: int
    size: int


def list_backups(target: str | Path, settings: Settings) -> list[BackupInfo]:
    """The backups in a place, oldest first."""
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    return [vault.info(run) for run in vault.runs()]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``check_backups`` has read, and what is damaged: one error for each piece, with a file that needs it."""

    backups: int
    pieces: int
    size: int
    damage: tuple[DamagedStore, ...]


def check_backups(target: str | Path, settings: Settings, progress: ProgressObserver | None = None) -> CheckReport:
    """Read every piece that a backup needs and compare it with its name; changes nothing."""
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    infos = [vault.info(run) for run in vault.runs()]
    if not infos:  # a name that is misspelt must not pass for a backup that is whole
        raise InvalidInput("no_backup", place=vault.place)
    checked: dict[str, int] = {}
    damage: list[DamagedStore] = []
    with tempfile.TemporaryDirectory(prefix="orihon-") as work:
        for number, info in enumerate(infos, start=1):
            try:
                _check(vault, info, Path(work) / info.run, checked, damage)
            except DamagedStore as error:
                damage.append(error)
            if progress is not None:
                progress(number, len(infos))
    return CheckReport(len(infos), len(checked), sum(checked.values()), tuple(damage))


def _check(
    vault: BackupRepository, info: BackupInfo, path: Path, checked: dict[str, int], damage: list[DamagedStore]
) -> None:
    vault.fetch_manifest(info, path)
    for entry in vault.entries(info, path):
        for piece in entry.pieces:
            if piece.sha256 in checked:
                continue
            checked[piece.sha256] = piece.size
            try:
                vault.get(piece, info.run, entry.path)
            except DamagedStore as error:
                damage.append(error)


def restore_backup(
    target: str | Path,
    base_dir: Path | str,
    settings: Settings,
    progress: ProgressObserver | None = None,
    *,
    run: str | None = None,
) -> RestoreReport:
    """Restore a backup (the newest unless ``run`` names one) into a new or empty folder."""
    refuse_database(settings)
    folder = Path(base_dir).absolute()
    _refuse_used(folder)
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    info = vault.find(run)
    with staged_folder(hidden_beside(folder)) as staged:
        make_private_folder(staged)
        with tempfile.TemporaryDirectory(prefix="orihon-") as work:
            manifest = Path(work) / "manifest"
            vault.fetch_manifest(info, manifest)
            _Restore(vault, info, staged, progress).write(vault.entries(info, manifest))
        _make_views(staged, settings)
        _give_name(staged, folder)
    audit_of(folder, settings).record("restore", details={"run": info.run, "tasks": info.tasks})
    return RestoreReport(info.run, folder, info.tasks, info.files, info.size)


def _refuse_used(folder: Path) -> None:
    with wrapping(folder):
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise StorageUnavailable("not_empty", path=folder)


class _Restore:
    """The files of one backup on their way into a folder."""

    def __init__(
        self, vault: BackupRepository, info: BackupInfo, folder: Path, progress: ProgressObserver | None
    ) -> None:
        self._vault = vault
        self._info = info
        self._folder = folder
        self._progress = progress

    def write(self, entries: Iterator[FileEntry]) -> None:
        count = 0
        for count, entry in enumerate(entries, start=1):
            self._write(entry)
            if self._progress is not None:
                self._progress(count, self._info.files)
        if count != self._info.files:
            detail = f"{count} of {self._info.files} files"
            raise DamagedStore("backup_manifest", run=self._info.run, place=self._vault.place, detail=detail)

    def _write(self, entry: FileEntry) -> None:
        path = self._folder.joinpath(*entry.path.split("/"))
        make_private_folder(path.parent)
        write_new(path, (self._vault.get(piece, self._info.run, entry.path) for piece in entry.pieces))


def _make_views(base: Path, settings: Settings) -> None:
    """``current.jsonl`` of the tasks that keep one."""
    for place in PLACES:
        for folder in sorted((base / place).iterdir()) if (base / place).is_dir() else ():
            if not (folder / "messages.jsonl").exists() or (folder / DATABASE).exists() or (folder / SEALED).exists():
                continue
            with closing(open_for_reading(folder, settings)) as store:
                try:
                    store.records.write_out("current.jsonl", store.view_lines())
                except DamagedStore:
                    continue  # as it was when it was backed up; 'orihon doctor' says what is wrong


def _give_name(staged: Path, folder: Path) -> None:
    """The restored base takes the place of an empty folder, and of no other."""
    try:
        publish_folder(staged, folder)
    except StorageUnavailable as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise StorageUnavailable("not_empty", path=folder) from error
        raise
