"""``backup``: the whole base folder into a vault, while others work in it, at the cost of what is new.

The catalogue is copied first and the tasks after it, so that no row knows more than its task has; in the copy nobody
owns a task. A folder is put where its row says. Tasks that are younger than the catalogue's copy wait for the next
backup; one that left its folder in between (it was archived) makes the round begin anew. Refuses a catalogue in
PostgreSQL, which has its own tools, and a vault that is another base's, or holds runs that this base has not signed.

Only a manifest that this base has signed is believed when it says that a file has not changed: what somebody else has
put into the vault never comes into a signed backup. The base notes a run before and after it counts, so that a kill in
between leaves nothing that looks like somebody else's.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orihon.audit.trail import audited
from orihon.catalogue import TaskRow
from orihon.drivers.objects import ObjectStorage
from orihon.errors import InvalidInput, InvalidSettings, StorageError, StorageUnavailable
from orihon.guard import KEY_FILE
from orihon.guard.keys import FOLDER as KEYS
from orihon.settings import Settings
from orihon.system import ProgressObserver
from orihon.system.clock import utc_now
from orihon.system.files import is_unfinished, storage_error, wrapping
from orihon.tasks.base import OpenBase, is_id
from orihon.tasks.place import FEWEST_TRIES, OF_A_MOVE, TaskPlace, tries_while_moved
from orihon.transfer.archive.archive_store import FOLDER as ARCHIVE
from orihon.transfer.backup.manifest import BASE, Chunk, Earlier, FileEntry, ManifestWriter
from orihon.transfer.backup.snapshot import (
    CatalogueCopy,
    ChangedMeanwhile,
    SourceFile,
    read_exactly,
    seen,
    task_snapshot,
)
from orihon.transfer.backup.vault import (
    BackupInfo,
    BackupRepository,
    Memory,
    VaultIdentity,
    VaultKey,
    run_order,
    storage_at,
)
from orihon.values.task import TaskStatus, folder

logger = logging.getLogger("orihon.backup")


#: What is read, sent and compared at a time.
PIECE = 4 << 20
DATABASE_PIECE = 256 << 10
#: Files of the base folder itself; it may be anybody's, so nothing else in it is looked at.
_FILES = (KEY_FILE, "mcp_tools.json")
_AUDIT = "audit"
_FOLDERS = (ARCHIVE, "aside")
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup holds, what of it was new, and what was removed."""

    run: str
    place: str
    tasks: int
    files: int
    size: int
    new_pieces: int
    sent: int  # bytes of the new pieces
    vault: str
    key: str  # the name of the key that it is signed with
    is_new_vault: bool
    missing: str  # the run that was the last one, and is not there any more
    removed_backups: int = 0
    removed_pieces: int = 0


def backup(
    base: OpenBase,
    target: str | Path,
    progress: ProgressObserver | None = None,
    *,
    keep: int | None = None,
    key: VaultKey | None = None,
) -> BackupReport:
    """Back the base folder up to a folder or an object storage; ``keep`` removes all but the newest so many.

    ``key`` is that of a vault which another copy of the base has used: from now on it is this base's.
    """
    refuse_database(base.settings)
    if keep is not None and keep < 1:
        raise InvalidInput("no_backups_kept", keep=keep)
    storage = storage_at(target, base.settings.archive.endpoint)
    base_path = Path(base.path).absolute()
    _refuse_inside(base_path, storage)
    vault = BackupRepository(storage)
    with vault.locked(), tempfile.TemporaryDirectory(prefix="orihon-") as work:
        with audited(base_path, base.settings, "backup", begun=True) as act:
            report = _Run(base, vault, Path(work), progress, key).made(keep)
            act.details |= {"run": report.run, "tasks": report.tasks, "removed": report.removed_backups}
            act.details["vault"] = report.vault
        return report


def refuse_database(settings: Settings) -> None:
    """A catalogue in PostgreSQL is not backed up here, and not restored."""
    if settings.database.url is not None:
        raise InvalidSettings("backup_database", schema=settings.database.schema)


def _refuse_inside(base: Path, storage: ObjectStorage) -> None:
    from orihon.drivers.objects import FolderStorage

    if isinstance(storage, FolderStorage):
        here, there = base.resolve(), storage.root.resolve()
        if here == there or here in there.parents or there in here.parents:
            raise InvalidInput("backup_inside", place=storage.place, base=base)


class _TaskLeft(Exception):
    """A task that the catalogue's copy still has in a folder has left it."""


class _Run:
    """One backup on its way."""

    def __init__(
        self,
        base: OpenBase,
        vault: BackupRepository,
        work: Path,
        progress: ProgressObserver | None,
        given: VaultKey | None,
    ) -> None:
        self._base = base
        self._vault = vault
        self._work = work
        self._progress = progress
        self._given = given
        self._before = ""
        self._memory = Memory(base.path)
        self._new_pieces = self._sent = 0

    def made(self, keep: int | None) -> BackupReport:
        key, identity, newest, missing = self._entered()
        created_at, run = utc_now(), self._vault.next_run()
        earlier = self._earlier(newest)
        left = ""
        for number in range(_ROUNDS):
            manifest = self._work / f"manifest-{number}"
            try:
                with ManifestWriter(manifest) as writer:
                    is_ours = newest is not None and newest.standing == "verified"
                    known = Earlier(earlier, is_believed=is_ours).files_of(BASE)
                    self._write(writer, Earlier(earlier, is_believed=is_ours), known)
                break
            except _TaskLeft as error:
                left = str(error)
        else:
            raise StorageUnavailable("backup_restless", uuid=left)
        with wrapping(manifest), manifest.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        info = BackupInfo(
            run, created_at, writer.tasks, writer.files, writer.size, digest, identity.vault, self._before
        ).signed_with(key)
        self._memory.note(identity.vault, self._vault.place, self._before, run)
        self._vault.add(info, manifest)
        self._memory.note(identity.vault, self._vault.place, run, run)
        logger.info("backup %s: %d tasks, %d new bytes", run, info.tasks, self._sent)
        removed = (0, 0) if keep is None else self._vault.remove_older(keep, self._work, key, identity)
        figures = (run, self._vault.place, info.tasks, info.files, info.size, self._new_pieces, self._sent)
        return BackupReport(*figures, identity.vault, key.name, newest is None, missing, *removed)

    def _entered(self) -> tuple[VaultKey, VaultIdentity, BackupInfo | None, str]:
        """Our key, whose vault this is, its newest run, and the run that should be; refuses what is not ours."""
        runs, place = self._vault.runs(), self._vault.place
        if runs and self._vault.identity() is None:
            self._refuse_other_mask(runs[-1])
        known, key = self._vault.identity(), self._given or VaultKey.of_base(self._base.path)
        if known is not None and (key is None or key.name != known.key):
            reason = "backup_other_base" if self._given is None else "backup_other_key"
            ours = "-" if key is None else key.name
            raise InvalidInput(reason, place=place, vault=known.vault, theirs=known.key, ours=ours)
        key = VaultKey.made_for(self._base.path, self._given)
        was = self._memory.at(place)
        identity = self._vault.found_by(key)
        made, begun = self._memory.of(identity.vault)
        newest = self._vault.judged(runs[-1], key, identity) if runs else None
        if newest is not None:
            self._vault.refuse_foreign(newest)
            if made and run_order(newest.run) > max(map(run_order, (made, begun))) and self._given is None:
                raise InvalidInput("backup_other_copy", place=place, run=newest.run, ours=made)
        last = begun if begun in runs else made
        if was not in ("", identity.vault):
            last = self._memory.of(was)[0]  # the whole vault is gone, and this is a new one
        missing = last if last not in ("", *runs) and self._given is None else ""
        if missing:
            logger.warning("backup: %s, which was the last one in %s, is not there any more", missing, place)
        # Named as the run before this one: so that it is missed stays to be seen.
        self._before = missing if missing and made else "" if newest is None else newest.run
        return key, identity, newest, missing

    def _refuse_other_mask(self, run: str) -> None:
        """A vault from before there were keys: is it this base's? The key of the masking is in every backup."""
        path = self._work / "newest"
        info = self._vault.info(run)
        try:
            self._vault.fetch_manifest(info, path)
            theirs = {entry.name: entry.pieces for entry in self._vault.entries(info, path) if entry.task == BASE}
        except StorageError:
            return  # nothing is built upon it
        ours = self._base.path / KEY_FILE
        if KEY_FILE in theirs and ours.exists():
            digest = hashlib.sha256(ours.read_bytes()).hexdigest()
            if [piece.sha256 for piece in theirs[KEY_FILE]] != [digest]:
                names = {"vault": "-", "theirs": KEY_FILE, "ours": KEY_FILE}
                raise InvalidInput("backup_other_base", place=self._vault.place, **names)

    def _earlier(self, newest: BackupInfo | None) -> Path | None:
        """The manifest of the last backup; without a usable one, everything is read again."""
        if newest is None:
            return None
        path = self._work / "earlier"
        try:
            self._vault.fetch_manifest(newest, path)
            for _ in self._vault.entries(newest, path):
                pass  # all of it can be read
        except StorageError as error:
            logger.warning("backup: the last one cannot be built upon: %s", error)
            return None
        return path

    # ---- a round -----------------------------------------------------------------------------------------------

    def _write(self, writer: ManifestWriter, earlier: Earlier, known: dict[str, FileEntry]) -> None:
        catalogue = CatalogueCopy.of(self._base, self._work)
        # The audit before the tasks: what it attests of them is there when they are copied.
        audit = list(self._files(self._below(_AUDIT), known))
        # Before the tasks: one that is archived meanwhile is missed there, and noticed.
        packed = [path for name in _FOLDERS for path in self._below(name)]
        statuses = catalogue.statuses()
        uuids = sorted(statuses.keys() | {place.uuid for place in self._base.folders.all() if is_id(place.uuid)})
        for number, uuid in enumerate(uuids, start=1):
            for entry in self._task(uuid, statuses.get(uuid), catalogue, earlier.files_of(uuid)):
                writer.add(entry)
            if self._progress is not None:
                self._progress(number, len(uuids))
        for entry in (*audit, *self._of_base(packed, catalogue, known)):
            writer.add(entry)

    def _task(
        self, uuid: str, status: TaskStatus | None, catalogue: CatalogueCopy, known: dict[str, FileEntry]
    ) -> list[FileEntry]:
        problem: StorageError = StorageUnavailable("backup_restless", uuid=uuid)
        row: TaskRow | None = None
        for number in tries_while_moved():
            places = self._base.folders.places(uuid)
            if not places:
                if status is None or folder(status) is None:
                    return []
                before, row = row, self._row_as_copied(uuid, status)
                if number < FEWEST_TRIES and (row.lease_owner is not None or row != before):
                    continue  # it may be on its way from one place to another
                break  # nobody has had it between two looks, and many a task never had a folder
            if status is None and self._is_younger(uuid, catalogue):
                return []
            try:
                entries = list(self._folders(uuid, places, status, catalogue, known))
                if self._base.folders.places(uuid):
                    return entries  # else it was taken away, to be removed, and files may have been missed
            except (ChangedMeanwhile, FileNotFoundError):
                continue
            except OSError as error:
                raise storage_error(error, places[0].folder) from error
            except StorageError as error:
                if error.reason not in OF_A_MOVE:
                    raise
                problem = error
        if not self._base.folders.places(uuid):
            return []  # the catalogue says the same: its folder is lost, or was never made
        raise problem

    def _row_as_copied(self, uuid: str, status: TaskStatus) -> TaskRow:
        """A folder that is missing was there when the catalogue was copied, if the row has changed since."""
        row = self._base.row(uuid)
        if row is None or row.status is not status:
            raise _TaskLeft(uuid)
        return row

    def _is_younger(self, uuid: str, catalogue: CatalogueCopy) -> bool:
        """Has the task come into the catalogue after that was copied?"""
        return catalogue.path is not None and self._base.row(uuid) is not None

    def _folders(
        self,
        uuid: str,
        places: list[TaskPlace],
        status: TaskStatus | None,
        catalogue: CatalogueCopy,
        known: dict[str, FileEntry],
    ) -> Iterator[FileEntry]:
        """The files of a task, in the place that its row wants; two folders are damage, and are kept as they are."""
        wanted = None if status is None or len(places) > 1 else folder(status)
        for place in places:
            yield from self._folder(uuid, place.folder, wanted or place.position, catalogue, known)

    def _folder(
        self, uuid: str, place: Path, wanted: str, catalogue: CatalogueCopy, known: dict[str, FileEntry]
    ) -> Iterator[FileEntry]:
        looks = {name: entry.seen for name, entry in known.items() if self._has_all(entry)}
        with task_snapshot(place, self._work, looks) as sources:
            for source in sources:
                pieces = self._stored(source, known.get(source.name))
                catalogue.notice(uuid, source)
                yield FileEntry(uuid, wanted, source.name, pieces, source.seen)

    # ---- the base folder's own files -------------------------------------------------------------------------------

    def _below(self, name: str) -> Iterator[Path]:
        for path in sorted((self._base.path / name).rglob("*")):
            if path.is_file() and not path.is_symlink() and not is_unfinished(path.name) and path.name[0] != ".":
                yield path

    def _of_base(
        self, packed: list[Path], catalogue: CatalogueCopy, known: dict[str, FileEntry]
    ) -> Iterator[FileEntry]:
        # The keys after the tasks: none of those is here without the key that it was begun with.
        keys = sorted((self._base.path / KEYS).glob("[!.]*.json"))
        yield from self._files((*(self._base.path / name for name in _FILES), *packed, *keys), known)
        for source in catalogue.finished():
            yield FileEntry(BASE, "", source.name, self._stored(source, known.get(source.name)))

    def _files(self, paths: Iterable[Path], known: dict[str, FileEntry]) -> Iterator[FileEntry]:
        for path in paths:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue  # there is none; or a packed task that has come back to its folder
            with wrapping(path), file:
                status = path.stat()
                name = path.relative_to(self._base.path).as_posix()
                source = SourceFile(name, file, status.st_size, seen(status))
                yield FileEntry(BASE, "", name, self._stored(source, known.get(name)), source.seen)

    # ---- pieces ------------------------------------------------------------------------------------------------

    def _stored(self, source: SourceFile, known: FileEntry | None) -> tuple[Chunk, ...]:
        """The pieces of a file, cut where an earlier backup has cut it; only those are sent that are new."""
        if known is not None and source.seen and known.seen == source.seen and self._has_all(known):
            return known.pieces
        cuts = [] if known is None else list(known.pieces)
        usual = DATABASE_PIECE if source.is_database else PIECE
        pieces: list[Chunk] = []
        left = source.size
        while left > 0:
            old = cuts[len(pieces)] if len(pieces) < len(cuts) else None
            data = read_exactly(source, old.size if old is not None and 0 < old.size <= left else min(usual, left))
            pieces.append(self._put(data))
            left -= len(data)
        return tuple(pieces)

    def _has_all(self, entry: FileEntry) -> bool:
        """Is every piece of an earlier copy still there? One that somebody has removed is sent again."""
        return all(map(self._vault.has, entry.pieces))

    def _put(self, data: bytes) -> Chunk:
        piece, is_new = self._vault.put(data)
        if is_new:
            self._new_pieces += 1
            self._sent += piece.size
        return piece
