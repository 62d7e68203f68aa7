"""``restore_backup``: a base folder out of a vault, whole or not at all.

Every piece is compared with its SHA-256. Everything is built beside the folder and gets its name last, so a restore
that is broken off leaves nothing that looks like a base folder. Refuses a folder that holds anything. What is derived
is made anew: the view's file here, the rest when a task is opened.

A backup is trusted because the key of its vault says so, and for no other reason: without the key, and for runs from
before there were keys, whoever restores has to say that it shall be done unverified. The report says what was trusted,
and what came along that gives power to somebody. The key does not come along: a restored base is a base of its own,
and becomes the vault's only when it is given the key.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from orihon.audit.trail import audit_of
from orihon.errors import DamagedStore, InvalidInput, StorageUnavailable
from orihon.settings import Settings
from orihon.store.contract import SEALED
from orihon.store.factory import open_for_reading
from orihon.store.sqlite_copies import DATABASE
from orihon.system import ProgressObserver, jsonio
from orihon.system.files import hidden_beside, make_private_folder, publish_folder, staged_folder, wrapping, write_new
from orihon.tasks.place import PLACES
from orihon.transfer.backup.backup import refuse_database
from orihon.transfer.backup.manifest import FileEntry
from orihon.transfer.backup.snapshot import opened_copy, statement
from orihon.transfer.backup.vault import BackupInfo, BackupRepository, VaultIdentity, VaultKey, run_order, storage_at

_POWERS = ("grants", "admins", "tasks_to_run", "notices")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was restored, and where to; what was trusted, and what came along that gives power."""

    run: str
    folder: Path
    tasks: int
    files: int
    size: int
    created_at: str
    vault: str
    key: str  # the name of the key that proves the backup; empty where nothing does
    passed_over: tuple[str, ...]  # newer runs that this key has not signed
    powers: dict[str, int]


def list_backups(target: str | Path, settings: Settings, *, key: VaultKey | None = None) -> list[BackupInfo]:
    """The backups in a place, oldest first; with the key of the vault, whether it has signed them."""
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    identity = vault.identity(key)
    fitting = key if key is not None and identity is not None and key.name == identity.key else None
    return [vault.judged(run, fitting, identity) for run in vault.runs()]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``check_backups`` has read, and what is damaged: one error for each piece, with a file that needs it.

    ``key`` is the name of the key that all but the ``unkeyed`` runs were proved with; empty where there was none.
    """

    backups: int
    pieces: int
    size: int
    damage: tuple[DamagedStore, ...]
    vault: str = ""
    key: str = ""
    unkeyed: int = 0


def check_backups(
    target: str | Path,
    settings: Settings,
    progress: ProgressObserver | None = None,
    *,
    key: VaultKey | None = None,
    newest: Callable[[str], str] | None = None,
) -> CheckReport:
    """Read every piece that a backup needs and compare it with its name; changes nothing.

    With the ``key`` of the vault it is also proved who has made them, and that none is missing between the oldest and
    the newest. ``newest`` knows the last run that must be there, by the vault's name.
    """
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    runs = vault.runs()
    if not runs:  # a name that is misspelt must not pass for a backup that is whole
        raise InvalidInput("no_backup", place=vault.place)
    checked: dict[str, int] = {}
    damage: list[DamagedStore] = []
    identity, key = _proved(vault, key, runs, damage)
    infos = []
    for run in runs:
        try:
            infos.append(vault.judged(run, key, identity))
        except DamagedStore as error:
            damage.append(error)
    if identity is not None and key is not None:
        damage += _strange(vault, infos, runs, identity, "" if newest is None else newest(identity.vault))
    with tempfile.TemporaryDirectory(prefix="orihon-") as work:
        for number, info in enumerate(infos, start=1):
            try:
                _check(vault, info, Path(work) / info.run, checked, damage)
            except DamagedStore as error:
                damage.append(error)
            if progress is not None:
                progress(number, len(infos))
    unkeyed = sum(info.standing == "unkeyed" for info in infos)
    whose = ("" if identity is None else identity.vault, "" if key is None else key.name, unkeyed)
    return CheckReport(len(infos), len(checked), sum(checked.values()), tuple(damage), *whose)


def _proved(
    vault: BackupRepository, key: VaultKey | None, runs: list[str], damage: list[DamagedStore]
) -> tuple[VaultIdentity | None, VaultKey | None]:
    """Whose vault it is, and the key, where it is the key of this one."""
    try:
        identity = vault.identity(key)
    except DamagedStore as error:
        damage.append(error)
        return None, None
    signed = next((info for info in map(vault.info, reversed(runs)) if info.mac), None) if identity is None else None
    if signed is not None:
        damage.append(DamagedStore("backup_vault_gone", place=vault.place, vault=signed.vault))
    fits = key is not None and identity is not None and identity.key == key.name
    return identity, key if fits else None


def _strange(
    vault: BackupRepository, infos: list[BackupInfo], runs: list[str], identity: VaultIdentity, newest: str
) -> Iterator[DamagedStore]:
    """Runs that are not ours, and runs of ours that are not there; each says which came before it."""
    wanted = dict.fromkeys(identity.unkeyed, "vault.json")
    wanted |= {info.previous: info.run for info in infos if info.standing == "verified" and info.previous}
    wanted |= {newest: "backups.json"} if newest else {}
    for info in infos:
        if info.standing == "foreign":
            yield DamagedStore("backup_foreign", run=info.run, place=vault.place, time=info.created_at)
    for run, by in sorted(wanted.items()):
        if run not in runs and run_order(run) >= run_order(identity.oldest):
            yield DamagedStore("backup_missing", run=run, place=vault.place, by=by)


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
    key: VaultKey | None = None,
    unverified: bool = False,
) -> RestoreReport:
    """Restore a backup (the newest unless ``run`` names one) into a new or empty folder.

    ``key`` is the key of the vault. ``unverified``: also what it has not signed, and without it.
    """
    refuse_database(settings)
    folder = Path(base_dir).absolute()
    _refuse_used(folder)
    vault = BackupRepository(storage_at(target, settings.archive.endpoint))
    info, passed_over = _chosen(vault, run, key, unverified=unverified)
    with staged_folder(hidden_beside(folder)) as staged:
        make_private_folder(staged)
        with tempfile.TemporaryDirectory(prefix="orihon-") as work:
            manifest = Path(work) / "manifest"
            vault.fetch_manifest(info, manifest)
            _Restore(vault, info, staged, progress).write(vault.entries(info, manifest))
        _make_views(staged, settings)
        _give_name(staged, folder)
    proof = key.name if key is not None and info.standing == "verified" else ""
    told = {"run": info.run, "tasks": info.tasks, "vault": info.vault, "key": proof}
    audit_of(folder, settings).record("restore", details=told)
    figures = (info.run, folder, info.tasks, info.files, info.size, info.created_at, info.vault)
    return RestoreReport(*figures, proof, tuple(passed_over), powers_in(folder))


def _chosen(
    vault: BackupRepository, run: str | None, key: VaultKey | None, *, unverified: bool
) -> tuple[BackupInfo, list[str]]:
    """The backup to restore, and the newer ones that were passed over because nobody knows whose they are."""
    runs = vault.runs()
    if not runs:
        raise InvalidInput("no_backup", place=vault.place)
    if run is not None and run not in runs:
        raise InvalidInput("unknown_backup", run=run, place=vault.place)
    try:
        identity = vault.identity(key)
    except DamagedStore:
        if not unverified:
            raise
        identity = None
    if key is not None and identity is not None and identity.key != key.name:
        if not unverified:
            raise InvalidInput("backup_other_key", place=vault.place, theirs=identity.key, ours=key.name)
        key = None
    passed_over: list[str] = []
    for name in ([run] if run is not None else reversed(runs)) if key is not None else ():
        with suppress(DamagedStore):  # what is no description is nobody's, and has not to be in the way
            info = vault.judged(name, key, identity)
            if info.standing == "verified":
                return info, passed_over
        passed_over.append(name)
    chosen = vault.judged(run or runs[-1], key, identity)
    if not unverified:
        whose = {"vault": chosen.vault or "-", "time": chosen.created_at}
        raise InvalidInput(f"backup_{chosen.standing}", run=chosen.run, place=vault.place, **whose)
    return chosen, []


def powers_in(base: Path) -> dict[str, int]:
    """What a base holds that lets somebody or something act: tokens, approved tools, tasks to go on with, notices."""
    powers = dict.fromkeys((*_POWERS, "mcp_servers"), 0)
    with suppress(apsw.Error), closing(opened_copy(base / "tasks.db")) as catalogue:
        powers |= zip(_POWERS, catalogue.execute(statement("powers")).get, strict=True)
    with suppress(OSError, ValueError, AttributeError, TypeError):
        powers["mcp_servers"] = len(jsonio.decode((base / "mcp_tools.json").read_bytes())["servers"])
    return powers


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
