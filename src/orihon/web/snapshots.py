"""Snapshots for pages that are open: of the catalogue as a whole, and of one task.

An idle poll asks for the version of the database and nothing else. A busy one reads the tasks that are worked on or
have changed lately; when that takes long, the next poll waits, so that polling never takes more than a small share of
the machine. Pages that receive late do not receive less: each change has a number, and the last ones are kept.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.errors import DamagedStore, StorageUnavailable, TaskNotFound
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import FollowedTask, Stream, TaskStore
from orihon.values.task import TaskStatus
from orihon.web.broadcaster import TopicReader, TopicState
from orihon.web.task_head import gauge_of, view_size
from orihon.web.task_memory import MEMORIES

#: So many changed tasks are kept by their numbers; a page that has missed more loads its list again.
MOST_KEPT = 200
#: Clocks of several machines may differ by so much, and no change is missed.
_OVERLAP = timedelta(seconds=60)
#: A worker that was killed changes nothing in the catalogue.
_SECONDS_BETWEEN_FULL_READS = 5.0
#: Workers that beat again within so many seconds are no event.
_BEAT = 10.0
#: A poll that takes so long is followed by a pause of so many times that; not of minutes, for one that was held up.
_PAUSE, _LONGEST_PAUSE = 15, 30.0


class SiteSnapshots:
    """How the catalogue stands; ``round`` grows with each change."""

    def __init__(self, base: OpenBase) -> None:
        self._base = base
        self._settings = base.settings
        self._seen: dict[str, str] | None = None
        self._since = ""
        self._version: object = None
        self._last_read = -_SECONDS_BETWEEN_FULL_READS
        self._not_before = 0.0
        self._changed: dict[str, int] = {}  # in the order of their rounds
        self._workers: tuple[object, ...] = ()
        # A later reader counts from one again: a page must not take an earlier one's numbers for these.
        self._state: dict[str, Any] = {"era": secrets.token_hex(4), "round": 0, "floor": 0, "tasks": {}, "notice": 0}
        self._state |= {"counts": {}, "waiting": 0, "workers": 0}

    def state(self) -> TopicState:
        started = time.monotonic()
        catalogue = self._base.open_catalogue()
        if catalogue is None or started < self._not_before:
            return self._state
        version = catalogue.changes.version()
        if version == self._version and started < self._last_read + _SECONDS_BETWEEN_FULL_READS:
            return self._state
        self._read(catalogue)
        self._version, self._last_read = version, started
        ended = time.monotonic()
        self._not_before = ended + min(_PAUSE * (ended - started), _LONGEST_PAUSE)
        return self._state

    def close(self) -> None:
        """The base stays open: the server has it."""

    def _read(self, catalogue: Catalogue) -> None:
        changed = self._changed_tasks(catalogue)
        notices = catalogue.outbox.rows(limit=1)
        counts = {status.value: count for status, count in catalogue.statistics.count_by_status().items()}
        rows = catalogue.workers.all(self._settings.context_storage.lease_seconds)
        workers = tuple(
            (row.name, row.state, row.task_uuid, row.processed, row.failed, row.heartbeat // _BEAT) for row in rows
        )
        found = {
            "notice": notices[-1].id if notices else 0,
            "counts": counts,
            "waiting": counts.get(TaskStatus.WAITING.value, 0),
            "workers": self._state["workers"] + (workers != self._workers),
        }
        self._workers = workers
        if changed or any(self._state[name] != value for name, value in found.items()):
            number = self._state["round"] + 1
            self._state = self._state | found | {"round": number, **self._kept(changed, number)}

    def _changed_tasks(self, catalogue: Catalogue) -> list[str]:
        """Those that have changed since the last poll; the first one only remembers how they are."""
        found = catalogue.changes.tasks(self._since or _earlier(datetime.now(UTC)))
        now = {one.uuid: one.state for one in found}
        before, self._seen = self._seen, now
        newest = max((one.updated_at for one in found), default="")
        if newest:
            self._since = max(self._since, _earlier(datetime.fromisoformat(newest)))
        return [] if before is None else [uuid for uuid, state in now.items() if before.get(uuid) != state]

    def _kept(self, changed: list[str], number: int) -> dict[str, Any]:
        for uuid in changed:
            self._changed.pop(uuid, None)
            self._changed[uuid] = number
        floor = self._state["floor"]
        while len(self._changed) > MOST_KEPT:
            floor = self._changed.pop(next(iter(self._changed)))
        return {"tasks": dict(self._changed), "floor": floor}


def _earlier(moment: datetime) -> str:
    return (moment - _OVERLAP).isoformat(timespec="microseconds")


class SiteDelta:
    """The difference of a snapshot to the last one that a page was sent."""

    def __init__(self) -> None:
        self._era = ""
        self._round = 0

    def of(self, state: TopicState) -> dict[str, Any]:
        first = state["era"] != self._era
        seen = state["round"] if first else self._round
        self._era, self._round = state["era"], state["round"]
        return {
            "first": first,
            "round": state["round"],
            "tasks": [uuid for uuid, number in state["tasks"].items() if number > seen],
            "missed": state["floor"] > seen,
            **{name: state[name] for name in ("notice", "waiting", "counts", "workers")},
        }


# ---- one task --------------------------------------------------------------------------------------------------------

SITE = "site"
_TASK = "task:"
_COUNTED: tuple[Stream, ...] = ("compressions", "messages", "checkpoints", "tools", "planning", "summaries")


def task_topic(uuid: str) -> str:
    """The topic of one task."""
    return f"{_TASK}{uuid}"


def open_topic(base: OpenBase, topic: str) -> TopicReader:
    """The look at a topic."""
    return TaskSnapshots(base, topic.removeprefix(_TASK)) if topic.startswith(_TASK) else SiteSnapshots(base)


class TaskSnapshots:
    """How long a task's log is, how full its context, and its status."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self._base = base
        self._uuid = uuid
        self._task = FollowedTask(base, uuid)
        self._counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
        self._counted = (0, 0)  # messages and changes that the tokens are of
        self._tokens = 0

    def state(self) -> TopicState:
        row = self._task.row()
        # On its way to another place it has what it had: no page may receive that there is nothing in it.
        with suppress(TaskNotFound, StorageUnavailable, FileNotFoundError):
            store = self._task.store()
            lasts = (0,) * len(_COUNTED) if store is None else store.records.lasts(*_COUNTED)
            self._counts = dict(zip(_COUNTED, lasts, strict=True))
            if store is not None:
                self._count(store, row, (self._counts["messages"], self._counts["compressions"]))
        usage = gauge_of(row, self._base.settings).usage(self._tokens)
        status = "" if row is None else row.status.value
        return {**self._counts, "status": status, "tokens": self._tokens, "usage": usage}

    def _count(self, store: TaskStore, row: TaskRow | None, now: tuple[int, int]) -> None:
        """Follow the tokens of the view; what was counted before is not read again."""
        (messages, changes), (known, known_changes) = now, self._counted
        if now == self._counted:
            return
        with suppress(DamagedStore):  # the page says what is wrong with it
            if known and changes == known_changes and known <= messages:
                self._tokens += sum(record["tokens"] for record in store.read("messages", known + 1, messages))
            else:
                self._tokens, _ = self._view_size(store, row)
        self._counted = now

    def _view_size(self, store: TaskStore, row: TaskRow | None) -> tuple[int, int | None]:
        memory = MEMORIES.of(self._base.path, self._uuid)
        memory.follow_changes(store)
        return view_size(store, row, memory)

    def close(self) -> None:
        self._task.close()
