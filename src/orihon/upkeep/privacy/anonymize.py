"""``anonymize_task``: a task without the names, addresses and numbers of people, for good.

A recorded redaction, as ``orihon scan --fix`` makes one: records keep their numbers, times and digests, and say that
something was taken out of them. The user of the task becomes a placeholder, too.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from orihon.audit import audited
from orihon.catalogue.metadata import key_in, read_metadata, write_metadata
from orihon.errors import TaskBusy, TaskNotFound
from orihon.guard import load_key
from orihon.store.contract import STREAMS
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.upkeep.privacy.personal import Named, anonymize_personal_data, is_placeholder
from orihon.upkeep.retention.vacuum import overwrite_deleted
from orihon.upkeep.scan import scan_tasks
from orihon.values.message.strings import map_content

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Anonymized(AsJson):
    """A task whose records tell nobody's name any more."""

    task: str
    records: int  # that were changed
    replaced: int  # different names, addresses and numbers, wherever they stood


class Anonymizer:
    """Replaces what tells who somebody is, and counts it."""

    purpose: ClassVar[str] = "people"

    def __init__(self, named: Named, names: Iterable[str]) -> None:
        self._named = named
        self._names = tuple(names)
        self.replaced: set[str] = set()

    def mask(self, text: str) -> str:
        return anonymize_personal_data(text, self._counted, self._names)

    def clean(self, value: Any) -> Any:
        return map_content(value, self.mask)

    def _counted(self, kind: str, found: str) -> str:
        self.replaced.add(found)
        return self._named(kind, found)


def placeholder_of(base: Path) -> Named:
    """Names a text as masking names a secret: by its kind and a keyed hash."""
    key = load_key(base)

    def named(kind: str, found: str) -> str:
        digest = hmac.digest(key, found.encode("utf-8", "surrogatepass"), "sha256").hex()
        return f"[{kind}]#{digest[:_DIGITS]}"

    return named


def anonymize_task(base: OpenBase, task: str, *, names: Iterable[str] = ()) -> Anonymized:
    """Replace names (those of the task's user and ``names`` among them), addresses and numbers in one task.

    A second run changes nothing. ``TaskBusy`` where somebody works on the task, ``TaskNotFound`` where it is packed.
    """
    named = placeholder_of(base.path)
    base.open_catalogue()
    row = base.row(task)
    user = "" if row is None or is_placeholder(row.user or "") else row.user or ""
    cleaner = Anonymizer(named, (*names, *([user] if user else [])))
    with audited(base.path, base.settings, "anonymize", task, begun=True) as act:
        (done,) = scan_tasks(base, [task], fix=True, cleaner=cleaner, packed=False)
        if done.left_out == "archived":
            raise TaskNotFound("packed", uuid=task)
        if done.left_out is not None and row is not None:
            raise TaskBusy("view", uuid=task, owner=row.lease_owner, host=row.lease_host, pid=row.lease_pid)
        _settle_row(base, task, named("NAME", user) if user else None)
        overwrite_deleted(base)
        act.details["records"] = records = sum(hit.where in STREAMS for hit in done.hits)
    return Anonymized(task, records, len(cleaner.replaced))


def _settle_row(base: OpenBase, task: str, name: str | None) -> None:
    """The user is called ``name`` from now on; what the task's folder says of it is what the catalogue says."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        return
    with base.own_if_registered(task) as owned:
        if name is not None:
            catalogue.tasks.rename_user(task, name)
        place, row = base.folders.find(task), catalogue.tasks.get(task)
        if place is not None:
            with closing(base.store(place, epoch=None if owned is None else owned.epoch)) as store:
                if key_in(read_metadata(store.records) or {}) != row.key:
                    write_metadata(store.records, row, base.settings)
    catalogue.statistics.merge_rollups()  # sums that are merged later would name the user until then
