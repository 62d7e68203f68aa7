"""``BackupRepository``: the place that backups are kept in, a folder or an object storage.

``pieces/`` holds contents by their SHA-256, each stored once for all backups; ``manifests/`` says which pieces make up
which files; ``runs/`` has one small object for each backup, which is written last: what it does not name is no backup
and harms none. One backup works in a vault at a time: it holds ``lock.json``, and so nothing that it counts on can be
removed meanwhile. A lock whose process is dead is taken over, one of another machine an hour after its last sign.

Whoever can write to the storage can put objects there, so a vault belongs to one base: ``vault.json`` and every run are
signed (HMAC-SHA256) with ``backup.key``, a secret of that base. Not with ``mask.key``, which is in each backup and so
in the hands of whoever reads the vault; nor with the master key, which most bases do not have. The key is never in a
backup. A run says which vault it is of and which run came before it, and pins its manifest, which pins every piece.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

from orihon.drivers.objects import ObjectStorage
from orihon.errors import DamagedStore, InvalidInput, StorageError, StorageUnavailable
from orihon.system import jsonio
from orihon.system.clock import is_alive, process_identity, utc_now
from orihon.system.files import create_file, replace_file, wrapping
from orihon.tasks.heartbeat import Heartbeat
from orihon.transfer.backup.manifest import Chunk, FileEntry, read_manifest

VERSION = 1
_LOCK = "lock.json"
_VAULT = "vault.json"
#: In a base: what it signs its backups with, and what it has put where.
KEY_FILE = "backup.key"
MEMORY = "backups.json"
_KEY = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{16})\s*")
_MOST_VAULTS = 64
_RUN = re.compile(r"([0-9]{6,12})-[0-9TZ]{1,40}")
_LAST_NUMBER = 10**12 - 1
# What an object of ours never is.
_NO_OBJECT = ("object_link", "object_large")
_SIGN_SECONDS = 60.0
_SILENCE = timedelta(hours=1)


#: ``unkeyed``: made before backups were signed. ``foreign``: not made with the key of the vault. ``unknown``: no key.
RunStanding = Literal["verified", "unkeyed", "foreign", "unknown"]


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """One backup: its name, when it was begun, what is in it; whose it is, and what a key says of that."""

    run: str
    created_at: str
    tasks: int
    files: int
    size: int
    manifest_sha256: str
    vault: str = ""
    previous: str = ""  # the run before it
    mac: str = ""
    standing: RunStanding = "unknown"

    def signed_with(self, key: VaultKey) -> BackupInfo:
        return replace(self, mac=key.mac("run", self.signed_fields))

    @property
    def signed_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("mac", "standing")}


def run_order(run: str) -> tuple[int, str]:
    """Which run came first: by its number, which may have more digits than another. No run is before all."""
    found = _RUN.fullmatch(run)
    return (int(found[1]) if found else -1, run)


class VaultKey:
    """The secret that a base signs its backups with. Vaults know its ``name``, from which it cannot be found."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.name = hashlib.sha256(b"orihon backup key\0" + secret).hexdigest()[:16]

    def mac(self, kind: str, fields: Mapping[str, Any]) -> str:
        data = jsonio.encode([kind, sorted(fields.items())])
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()

    def has_signed(self, kind: str, fields: Mapping[str, Any], mac: str) -> bool:
        return hmac.compare_digest(self.mac(kind, fields).encode(), mac.encode("utf-8", "replace"))

    @property
    def text(self) -> str:
        """The key as people keep it: with its name, by which a slip is noticed."""
        return f"{self._secret.hex()} {self.name}"

    @classmethod
    def parse(cls, text: bytes, where: str) -> Self:
        found = _KEY.fullmatch(text)
        key = cls(bytes.fromhex(found[1].decode())) if found else None
        if found is None or key is None or key.name != found[2].decode():
            raise InvalidInput("backup_key", path=where)
        return key

    @classmethod
    def of_base(cls, base: Path) -> Self | None:
        """The key of a base, if it has one."""
        path = base / KEY_FILE
        with wrapping(path):
            try:
                return cls.parse(path.read_bytes(), str(path))
            except FileNotFoundError:
                return None

    @classmethod
    def made_for(cls, base: Path, given: VaultKey | None = None) -> VaultKey:
        """The key of a base, made when missing; ``given`` is what it has from now on."""
        if given is not None:
            replace_file(base / KEY_FILE, [given.text.encode(), b"\n"])
            return given
        if (key := cls.of_base(base)) is None:
            create_file(base / KEY_FILE, [cls(secrets.token_bytes(32)).text.encode(), b"\n"])
            key = cls.of_base(base)
            assert key is not None
        return key


@dataclass(frozen=True, slots=True)
class VaultIdentity:
    """What ``vault.json`` says: whose the vault is, the oldest run that must be there, and runs from before the key."""

    vault: str
    key: str
    created_at: str
    oldest: str = ""
    unkeyed: Mapping[str, str] = field(default_factory=dict)  # run: SHA-256 of its manifest

    def encode(self, key: VaultKey) -> bytes:
        fields = asdict(self)
        return jsonio.encode_pretty({"version": VERSION, **fields, "mac": key.mac("vault", _flat(fields))})


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**fields, "unkeyed": sorted(fields["unkeyed"].items())}


class Memory:
    """What a base has put into vaults: a run that was there and is gone is missed, one of a copy of it noticed."""

    def __init__(self, base: Path) -> None:
        self._path = base / MEMORY

    def of(self, vault: str) -> tuple[str, str]:
        """The last run that was made there, and the last that was begun."""
        known = self._load().get(vault)
        known = known if isinstance(known, dict) else {}
        return str(known.get("run", "")), str(known.get("begun", ""))

    def newest(self, vault: str) -> str:
        """The run that must be there, by the vault's name."""
        return self.of(vault)[0]

    def at(self, place: str) -> str:
        """The vault that was in a place."""
        found = [vault for vault, known in self._load().items() if known.get("place") == place]
        return found[-1] if found else ""

    def note(self, vault: str, place: str, run: str, begun: str) -> None:
        kept = {name: known for name, known in self._load().items() if name != vault and known.get("place") != place}
        kept = dict(list(kept.items())[-(_MOST_VAULTS - 1) :])
        told = {"place": place, "run": run, "begun": begun}
        replace_file(self._path, [jsonio.encode_pretty({**kept, vault: told})])

    def _load(self) -> dict[str, Any]:
        """It saves from mishaps, and is missed by nobody else when it is gone."""
        with wrapping(self._path):
            try:
                found = jsonio.decode(self._path.read_bytes())
            except (FileNotFoundError, ValueError):
                return {}
        return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}


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
        return sorted((name for name in names if _RUN.fullmatch(name)), key=run_order)

    def next_run(self) -> str:
        """A name for the next one. The number orders them, whatever the clock says."""
        # Also of those that never ended: their manifests may still be there.
        begun = [name.removeprefix("manifests/") for name in self._names("manifests")]
        last = max((*self.runs(), *begun), key=run_order, default="")
        number = max(run_order(last)[0], 0)
        if number >= _LAST_NUMBER:  # the next one would be nobody's
            raise DamagedStore("backup_numbers", place=self.place, key=f"manifests/{last}")
        return f"{number + 1:06d}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    def info(self, run: str) -> BackupInfo:
        """What is known about a backup."""
        try:
            found: dict[str, Any] = jsonio.decode(self._small(f"runs/{run}.json"))
            if found["version"] != VERSION:
                raise ValueError(f"version {found['version']}")
            return BackupInfo(
                run,
                str(found["created_at"]),
                int(found["tasks"]),
                int(found["files"]),
                int(found["size"]),
                str(found["manifest_sha256"]),
                vault=str(found.get("vault", "")),
                previous=str(found.get("previous", "")),
                mac=str(found.get("mac", "")),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(run, str(error)) from error

    def judged(self, run: str, key: VaultKey | None, identity: VaultIdentity | None) -> BackupInfo:
        """What is known about a backup, and whether the base with this key has made it."""
        info = self.info(run)
        if not info.mac and (identity is None or identity.unkeyed.get(run) == info.manifest_sha256):
            return replace(info, standing="unkeyed")
        if key is None:
            return info
        is_ours = info.vault == (identity.vault if identity else "") and key.has_signed(
            "run", info.signed_fields, info.mac
        )
        return replace(info, standing="verified" if is_ours else "foreign")

    def add(self, info: BackupInfo, manifest: Path) -> None:
        """From here on the backup counts."""
        self._storage.create(f"manifests/{info.run}", manifest)
        self._refuse_taken_over()
        description = {"version": VERSION, **info.signed_fields, "mac": info.mac}
        self._storage.create(f"runs/{info.run}.json", jsonio.encode_pretty(description))

    # ---- whose it is -------------------------------------------------------------------------------------------

    def identity(self, key: VaultKey | None = None) -> VaultIdentity | None:
        """Whose vault this is: ``None`` when nobody has said so yet. With its ``key``, what it says is proved."""
        try:
            data = self._small(_VAULT)
        except StorageUnavailable as error:
            if error.reason != "object_gone":
                raise
            return None
        except ValueError as error:
            raise DamagedStore("backup_vault", place=self.place) from error
        try:
            found = jsonio.decode(data)
            unkeyed = {str(run): str(sha256) for run, sha256 in found["unkeyed"].items()}
            whose = {name: str(found[name]) for name in ("vault", "key", "created_at", "oldest")}
            identity = VaultIdentity(whose["vault"], whose["key"], whose["created_at"], whose["oldest"], unkeyed)
            proving = key if key is not None and key.name == identity.key else None
            if proving and not proving.has_signed("vault", _flat(asdict(identity)), str(found["mac"])):
                raise ValueError("mac")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedStore("backup_vault", place=self.place) from error
        return identity

    def found_by(self, key: VaultKey) -> VaultIdentity:
        """The identity of this vault, whose key this is; made where there is none; under the lock.

        Runs from before there were keys are pinned as they are now: who made them nobody can say.
        """
        identity = self.identity(key)
        if identity is None:
            infos = [self.info(run) for run in self.runs()]
            if signed := next((info for info in infos if info.mac), None):
                raise DamagedStore("backup_vault_gone", place=self.place, vault=signed.vault)
            unkeyed = {info.run: info.manifest_sha256 for info in infos}
            identity = VaultIdentity(secrets.token_hex(8), key.name, utc_now(), unkeyed=unkeyed)
            self._storage.create(_VAULT, identity.encode(key))
        return identity

    def fetch_manifest(self, info: BackupInfo, path: Path) -> None:
        """The manifest of a backup in a new file, as it was written."""
        try:
            digest = self._storage.download(f"manifests/{info.run}", path)
        except StorageUnavailable as error:
            if error.reason in _NO_OBJECT:
                raise self._unusable(info.run, "it is not what was written") from error
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

    def _small(self, key: str) -> bytes:
        """A description; ``ValueError`` for what none of ours is."""
        try:
            return self._storage.read(key).data
        except StorageUnavailable as error:
            if error.reason in _NO_OBJECT:
                raise ValueError(error.reason) from error
            raise

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
            if error.reason in _NO_OBJECT:
                raise DamagedStore("backup_chunk_changed", **named) from error
            raise
        if len(data) != piece.size or hashlib.sha256(data).hexdigest() != piece.sha256:
            raise DamagedStore("backup_chunk_changed", **named)
        return data

    def remove_older(self, keep: int, workplace: Path, key: VaultKey, identity: VaultIdentity) -> tuple[int, int]:
        """Remove all but the newest backups and what none of those needs, under the lock; returns how many of each."""
        runs = self.runs()
        kept, old = runs[-keep:], runs[:-keep]
        for run in kept:  # or runs that somebody has put there would push ours out
            self.refuse_foreign(self.judged(run, key, identity))
        needed = self._pieces_of(kept, workplace)  # read before anything is removed: it may be damaged
        if old:  # said before it is done: what is missing from there on was not removed by us
            unkeyed = {run: sha256 for run, sha256 in identity.unkeyed.items() if run in runs}
            now = replace(identity, oldest=kept[0], unkeyed=unkeyed)
            self._storage.replace(_VAULT, now.encode(key), self._storage.read(_VAULT).etag)
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

    def refuse_foreign(self, info: BackupInfo) -> None:
        if info.standing == "foreign":
            raise DamagedStore("backup_foreign", run=info.run, place=self.place, time=info.created_at)

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
        sign = Heartbeat(self._give_sign, _SIGN_SECONDS, "backup", group="backup")
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
