"""``BackupRepository``: the place that backups are kept in, a folder or an object storage.

``pieces/`` holds contents by their SHA-256, each stored once for all backups; ``manifests/`` says which pieces make up
which files; ``runs/`` has one small object for each backup, which is written last: what it does not name is no backup
and harms none. One backup works in a vault at a time: it holds ``lock.json``, and so nothing that it counts on can be
removed meanwhile. A lock whose process is dead is taken over, one of another machine an hour after its last sign.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orihon.drivers.objects import ObjectStorage
from orihon.errors import DamagedStore, InvalidInput, StorageError, StorageUnavailable
from orihon.system import jsonio
from orihon.system.clock import is_alive, process_identity, utc_now
from orihon.tasks.heartbeat import Heartbeat
from orihon.transfer.backup.manifest import Chunk, FileEntry, read_manifest

VERSION = 1
_LOCK = "lock.json"
_RUN = re.compile(r"[0-9]{6,12}-[0-9TZ]{1,40}")
_SIGN_SECONDS = 60.0
_SILENCE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """One backup: its name, when it was begun, what is in it."""

    run: str
    created_at: str
    tasks: int
    files: int
    size: int
    manifest_sha256: str


def storage_at(target: str | Path, endpoint: str | None) -> ObjectStorage:
    """The storage that a person names: an address, or a folder."""
    if isinstance(target, str) and "://" in target:
        return ObjectStorage.at(target, endpoint)
    from orihon.drivers.objects import FolderStorage

    return FolderStorage(Path(target))


class BackupRepository:
    """The backups in one storage."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._known: set[str] = set()  # pieces that are surely there
        self._token = secrets.token_hex(8)
        self._etag = ""

    @property
    def place(self) -> str:
        return self._storage.place

    # ---- backups -----------------------------------------------------------------------------------------------

    def runs(self) -> list[str]:
        """The names of all backups, oldest first."""
        names = (name.removeprefix("runs/").removesuffix(".json") for name in self._names("runs"))
        return sorted(name for name in names if _RUN.fullmatch(name))

    def next_run(self) -> str:
        """A name for the next one. The number orders them, whatever the clock says."""
        # Also of those that never ended: their manifests may still be there.
        begun = [name.removeprefix("manifests/") for name in self._names("manifests")]
        numbers = [int(run.partition("-")[0]) for run in (*self.runs(), *begun) if _RUN.fullmatch(run)]
        return f"{max(numbers, default=0) + 1:06d}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    def info(self, run: str) -> BackupInfo:
        """What is known about a backup."""
        try:
            found: dict[str, Any] = jsonio.decode(self._storage.read(f"runs/{run}.json").data)
            if found["version"] != VERSION:
                raise ValueError(f"version {found['version']}")
            return BackupInfo(
                run,
                str(found["created_at"]),
                int(found["tasks"]),
                int(found["files"]),
                int(found["size"]),
                str(found["manifest_sha256"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(run, str(error)) from error

    def find(self, run: str | None) -> BackupInfo:
        """A backup by its name, or the newest one."""
        runs = self.runs()
        if not runs:
            raise InvalidInput("no_backup", place=self.place)
        if run is not None and run not in runs:
            raise InvalidInput("unknown_backup", run=run, place=self.place)
        return self.info(run or runs[-1])

    def add(self, info: BackupInfo, manifest: Path) -> None:
        """From here on the backup counts."""
        self._storage.create(f"manifests/{info.run}", manifest)
        self._refuse_taken_over()
        description = {"version": VERSION, **asdict(info)}
        self._storage.create(f"runs/{info.run}.json", jsonio.encode_pretty(description))

    def fetch_manifest(self, info: BackupInfo, path: Path) -> None:
        """The manifest of a backup in a new file, as it was written."""
        try:
            digest = self._storage.download(f"manifests/{info.run}", path)
        except StorageUnavailable as error:
            if error.reason != "object_gone":
                raise
            raise self._unusable(info.run, "it is missing") from error
        if digest != info.manifest_sha256:
            raise self._unusable(info.run, "it is not what was written")

    def entries(self, info: BackupInfo, path: Path) -> Iterator[FileEntry]:
        """The files of a backup out of its manifest, which has been fetched to ``path``."""
        try:
            yield from read_manifest(path)
        except ValueError as error:
            raise self._unusable(info.run, str(error)) from error

    def _unusable(self, run: str, detail: str) -> DamagedStore:
        return DamagedStore("backup_manifest", run=run, place=self.place, detail=detail)

    # ---- pieces ------------------------------------------------------------------------------------------------

    def has(self, piece: Chunk) -> bool:
        """Is the piece there? One look at the beginning tells, and nobody else removes any under the lock."""
        return piece.sha256 in self._known

    def put(self, data: bytes) -> tuple[Chunk, bool]:
        """Keep a piece; ``False`` when it was there already."""
        piece = Chunk(hashlib.sha256(data).hexdigest(), len(data))
        if self.has(piece):
            return piece, False
        try:
            self._storage.create(_key(piece.sha256), data)
        except StorageUnavailable as error:
            if error.reason != "object_exists":  # our own, whose answer was lost on its way
                raise
        self._known.add(piece.sha256)
        return piece, True

    def get(self, piece: Chunk, run: str, file: str) -> bytes:
        """A piece back, compared with its name; ``run`` and ``file`` are for the error."""
        key = _key(piece.sha256)
        named = {"run": run, "place": self.place, "key": key, "file": file}
        try:
            data = self._storage.read(key).data
        except StorageUnavailable as error:
            if error.reason == "object_gone":
                raise DamagedStore("backup_chunk_missing", **named) from error
            raise
        if len(data) != piece.size or hashlib.sha256(data).hexdigest() != piece.sha256:
            raise DamagedStore("backup_chunk_changed", **named)
        return data

    def remove_older(self, keep: int, workplace: Path) -> tuple[int, int]:
        """Remove all but the newest backups and what none of those needs, under the lock; returns how many of each."""
        runs = self.runs()
        kept, old = runs[-keep:], runs[:-keep]
        needed = self._pieces_of(kept, workplace)  # read before anything is removed: it may be damaged
        for run in old:
            self._storage.delete(f"runs/{run}.json")
        for name in self._names("manifests"):
            if name.removeprefix("manifests/") not in kept:
                self._storage.delete(name)
        removed = 0
        for name in self._names("pieces"):
            if name.rpartition("/")[2] not in needed:
                self._storage.delete(name)
                removed += 1
        return len(old), removed

    def _pieces_of(self, runs: list[str], workplace: Path) -> set[str]:
        needed: set[str] = set()
        for run in runs:
            info, path = self.info(run), workplace / f"kept-{run}"
            self.fetch_manifest(info, path)
            needed.update(piece.sha256 for entry in self.entries(info, path) for piece in entry.pieces)
            path.unlink()
        return needed

    def _names(self, folder: str) -> list[str]:
        return list(self._storage.names(folder))

    # ---- one at a time -----------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The block in which this process, and nobody else, changes the vault."""
        self._take_lock()
        sign = Heartbeat(self._give_sign, _SIGN_SECONDS, "backup")
        try:
            self._known = {name.rpartition("/")[2] for name in self._names("pieces")}
            yield
        finally:
            sign.stop()
            self._drop_lock()

    def _take_lock(self) -> None:
        try:
            self._etag = self._storage.create(_LOCK, self._claim()).etag
            return
        except StorageUnavailable as error:
            if error.reason != "object_exists":
                raise
        found = self._storage.read(_LOCK)
        holder = _holder(found.data)
        if holder.get("token") == self._token:  # our own, whose answer was lost on its way
            self._etag = found.etag
            return
        if _is_at_work(holder):
            raise self._running(holder)
        try:
            self._etag = self._storage.replace(_LOCK, self._claim(), found.etag).etag
        except StorageUnavailable as error:
            if error.reason != "object_changed":
                raise
            raise self._running(holder) from error  # somebody else was quicker

    def _claim(self) -> bytes:
        return jsonio.encode({"token": self._token, "at": utc_now(), **asdict(process_identity())})

    def _give_sign(self) -> None:
        self._etag = self._storage.replace(_LOCK, self._claim(), self._etag).etag

    def _drop_lock(self) -> None:
        try:
            if _holder(self._storage.read(_LOCK).data).get("token") == self._token:
                self._storage.delete(_LOCK)
        except StorageError:
            return  # the next backup finds out that we are gone

    def _refuse_taken_over(self) -> None:
        if _holder(self._storage.read(_LOCK).data).get("token") != self._token:
            raise StorageUnavailable("backup_taken_over", place=self.place)

    def _running(self, holder: dict[str, Any]) -> StorageUnavailable:
        fields = {"pid": holder.get("pid", "?"), "host": holder.get("host", "?"), "time": holder.get("at", "?")}
        return StorageUnavailable("backup_running", place=self.place, **fields)


def _key(sha256: str) -> str:
    return f"pieces/{sha256[:2]}/{sha256}"


def _holder(data: bytes) -> dict[str, Any]:
    try:
        found = jsonio.decode(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_at_work(holder: dict[str, Any]) -> bool:
    """May the process that holds the lock be alive?"""
    me = process_identity()
    try:
        if (holder["host"], holder["space"]) == (me.host, me.space):
            return holder["boot"] == me.boot and is_alive(int(holder["pid"]), int(holder["start"]))
        return datetime.now(UTC) - datetime.fromisoformat(holder["at"]) < _SILENCE
    except (KeyError, ValueError, TypeError):
        return False  # not written by a backup
