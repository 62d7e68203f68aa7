"""The keys of a base folder, for people: which master key, how many data keys under which, and changing that.

``rotate_keys`` wraps the data keys anew; what they sealed stays as it is, so it takes a moment whatever the histories
hold. ``erase_key`` deletes the data key of one task, which erases the task wherever copies of it lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orihon.audit.trail import audited
from orihon.catalogue.sealed_db import SealedTasks
from orihon.guard.keys import Rotation
from orihon.guard.sealer import master_keys, write_new_key
from orihon.store.key_places import erase_key as erase_in_places
from orihon.store.key_places import key_place, needed_keys
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.values.task import check_id


@dataclass(frozen=True, slots=True)
class KeysOverview(AsJson):
    """What there is. Keys are named by their fingerprints."""

    json_fields = "enabled source master place data_keys to_rotate erased"

    enabled: bool
    source: str | None
    master: str | None
    place: str
    data_keys: Mapping[str, int]  # how many, by the master key that wraps them
    erased: int

    @property
    def to_rotate(self) -> int:
        """Data keys under another master key than the current one."""
        return sum(count for master, count in self.data_keys.items() if master != self.master)


def keys_overview(base: OpenBase) -> KeysOverview:
    """Look at the keys; the former master keys are not needed for that."""
    encryption = base.settings.encryption
    masters = master_keys(encryption)
    master = None if masters is None else masters.current.id
    place = key_place(base.path, base.settings).where
    if masters is None:
        return KeysOverview(encryption.enabled, encryption.key, master, place, {}, 0)
    counts = Counter(document.master for document in needed_keys(base.path, base.settings).documents())
    erased = counts.pop("", 0)
    return KeysOverview(encryption.enabled, encryption.key, master, place, dict(sorted(counts.items())), erased)


def rotate_keys(base: OpenBase, progress: Callable[[int, int], None] | None = None) -> Rotation:
    """Wrap every data key under ``encryption.key``; those under ``encryption.former_keys`` can be opened for that.

    Texts of the catalogue that an earlier version sealed are bound to their rows; from then on others are refused.

    Each is replaced whole or not at all: whoever is interrupted runs it again.
    """
    if master_keys(base.settings.encryption) is None and not any(key_place(base.path, base.settings).ids()):
        return Rotation(0, 0)  # nothing was ever sealed here
    with audited(base.path, base.settings, "rotate_keys") as act:
        done = needed_keys(base.path, base.settings).rotate(progress)
        act.details["rotated"] = done.rotated
        base.open_catalogue()
        if base.catalogue is not None and isinstance(base.catalogue.database, SealedTasks):
            act.details["texts"] = base.catalogue.database.seal_anew()
    return done


def new_master_key(path: Path | str) -> str:
    """A new master key in a new file; returns its fingerprint."""
    return write_new_key(Path(path).expanduser().absolute())


def erase_key(base: OpenBase, uuid: str) -> bool:
    """Delete the data key of a task for good; ``False`` when it has none, or none any more.

    What it sealed (records, archives, copies that somebody has made) cannot be opened again by anybody. No master key
    is needed. Backups made before still have the wrapped key: delete those, or the master key that it is wrapped by.
    """
    task = check_id(uuid)
    with audited(base.path, base.settings, "erase_key", task, begun=True) as act:
        erased = erase_in_places(base.path, base.settings, task)
        act.result = act.result if erased else "nothing"
    return erased
