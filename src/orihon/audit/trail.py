"""``AuditTrail``: what a process records about one store, and when it is written.

Changes are written, and with ``context_storage.durability: full`` on the disk, before whoever asked for them is told
that they are made; what leaves no other trace (an export, a deletion) is also recorded before it is begun. With
``audit.level: all`` reads and added messages are recorded too, in order and without waiting for the disk; in a database
a few of them at a time. Nothing is recorded, and nothing made, where there is no store.

``attest``: what a task's streams say, as a hash that every record has added to, goes into the audit every so many
messages and whenever a writer lets go of the task. A log that is written anew with digests that fit differs from what
was attested, and that is tied into a chain with anchors outside. A chain in the log itself, keyed or not, would cost
each append a hash and prove less: whoever may write to the store may read the key there and make the chain anew.

``AuditLogger`` and ``ComplianceAuditLog``: the audit for programs that record accesses of their own.

They write to the same chains as everything else, whatever ``audit.enabled`` says. Details are masked as messages are.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from orihon.audit.anchors import Anchoring, note_chain
from orihon.audit.record import BEGUN, LONGEST_LINE, OK, AuditDraft, acting_as, actor, canonical, owner, person
from orihon.audit.sink import FREQUENT, AuditSink, SettingsChange, change_of_settings, open_sink
from orihon.errors import InvalidInput, OrihonError, StorageError, StorageUnavailable
from orihon.guard.masking.redaction import hide, hide_in
from orihon.settings import Settings, load_settings
from orihon.store.documents import Heads, keep_heads, kept_heads, present_heads
from orihon.store.factory import make_redactor
from orihon.store.locks import ForkSafeLock
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now

logger = logging.getLogger("orihon.audit")

#: Nothing is changed by these: by default they are not refused where they cannot be recorded.
_HARMLESS = FREQUENT | {"export", "attest"}
#: Messages after which a task is attested while it is worked on.
ATTEST_EVERY = 200
#: How many records are written together, and how many seconds one may wait for others.
_GROUP, _PATIENCE = 64, 1.0
_MOST_WAITING = 1000
_FEW = 8
_HOST = os.uname().nodename
_LONGEST_TASK = 256


@dataclass(slots=True)
class Act:
    """Something that is being done; who does it may say more about it before it is recorded."""

    task: str = ""
    result: str = OK
    details: dict[str, Any] = field(default_factory=dict)


class AuditTrail:
    """The records of one process about one store. Threads may share it."""

    def __init__(self, base_dir: Path, settings: Settings) -> None:
        self.settings = settings
        self._base = base_dir
        self.sink: AuditSink = open_sink(base_dir, settings)
        self._durable = settings.context_storage.durability == "full"
        self._anchoring = Anchoring(settings.audit) if settings.audit.is_anchored else None
        self._lock = ForkSafeLock()
        self._waiting: list[AuditDraft] = []
        self._is_timed = False
        self._pid = os.getpid()
        self._compared: list[Settings] = []  # with those of earlier runs

    def is_recorded(self, action: str) -> bool:
        """Do the settings want this one?"""
        audit = self.settings.audit
        return audit.enabled and (audit.level == "all" or action not in FREQUENT)

    def record(
        self,
        action: str,
        task: str = "",
        result: str = OK,
        details: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
    ) -> None:
        """Record one thing, if the settings want it; raises what kept it from being written, unless it is harmless."""
        if not self.is_recorded(action):
            return
        try:
            self.write(action, task, result, details, user=user)
        except StorageError as error:
            if self.settings.audit.required or action not in _HARMLESS:
                raise
            logger.warning("%s: %s could not be recorded in the audit: %s", task or "-", action, error)

    def write(
        self,
        action: str,
        task: str = "",
        result: str = OK,
        details: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        process: int | str | None = None,
    ) -> None:
        """The same whatever the settings say."""
        who = actor(self.settings)
        draft = AuditDraft(
            time=utc_now(),
            action=action,
            task=task[:_LONGEST_TASK],
            person=who if user is None else person(hide(user), who.address),
            process=os.getpid() if process is None else process,
            host=_HOST,
            result=result,
            details=hide_in(details) if details else {},
        )
        with self._lock:
            if not self._waiting and not self.sink.is_at_home():
                return
            self._put(draft)

    def _put(self, draft: AuditDraft) -> None:
        if self._pid != os.getpid():
            # What waited at a fork is the parent's, and so is the thread that would have written it.
            self._waiting, self._pid, self._is_timed = [], os.getpid(), False
        self._waiting.append(draft)
        if draft.action not in self.sink.grouped:
            self._flush(durable=self._durable and draft.action not in FREQUENT)
            return
        if len(self._waiting) >= _GROUP:
            self._flush(durable=False)
        elif not self._is_timed:
            self._flush_soon()

    def _flush_soon(self) -> None:
        timer = threading.Timer(_PATIENCE, self._flush_in_time)
        timer.daemon = True
        _flush_at_end()
        try:
            timer.start()
            self._is_timed = True
        except RuntimeError:  # the interpreter is about to end, or there is no thread to be had
            self._flush(durable=False)

    def _flush_in_time(self) -> None:
        self._is_timed = False
        try:
            self.flush()
        except OrihonError as error:
            logger.warning("what was read could not be recorded in the audit: %s", error)

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            if self._waiting and self._pid == os.getpid():
                self._flush(durable=self._durable)

    def _flush(self, *, durable: bool) -> None:
        drafts, self._waiting = self._waiting, []
        try:
            change = self._change_of_settings()
            added = drafts if change is None or not change.keys else [self._configure(drafts[0], change.keys), *drafts]
            head = self.sink.append(added, durable=durable or (self._durable and len(added) > len(drafts)))
        except BaseException:
            self._waiting = drafts[:-1][-_MOST_WAITING:]  # who asked for the last one hears of it
            raise
        self._keep(change)
        if head.number <= len(added):
            note_chain(self._base, self.settings, head.chain)
        if self._anchoring is not None:
            self._anchoring.note(head, len(added))

    def _change_of_settings(self) -> SettingsChange | None:
        """How the configuration differs from that of an earlier run; ``None`` where it was compared already."""
        if any(self.settings is one for one in self._compared):
            return None
        return change_of_settings(self.sink, self.settings)

    def _configure(self, beside: AuditDraft, keys: list[str]) -> AuditDraft:
        by = replace(beside, person=owner(self.settings), process=os.getpid())
        return replace(by, action="configure", task="", result=OK, details={"keys": keys})

    def _keep(self, change: SettingsChange | None) -> None:
        """Only now, or a crash would leave a change that nobody ever hears of; at worst it is recorded twice."""
        if change is None:
            return
        try:
            change.keep()
            self._compared = [change.settings, *self._compared[: _FEW - 1]]
        except StorageError as error:  # the records are written; the next ones compare again
            logger.warning("the settings in force could not be kept for the next comparison: %s", error)

    # ---- what is done in a block ---------------------------------------------------------------------------------

    @contextmanager
    def about(
        self, action: str, task: str = "", *, begun: bool = False, user: str | None = None, **details: Any
    ) -> Iterator[Act]:
        """What the block does, recorded with its result when it ends; ``begun`` also before."""
        act = Act(task, details=details)
        if not self.is_recorded(action):
            yield act
            return
        if begun:
            self.record(action, task, BEGUN, details, user=user)
        elif action not in _HARMLESS and self.sink.is_at_home():
            self.sink.check()  # better now than when it is done
        try:
            yield act
        except BaseException as error:
            act.result = _reason(error)
            try:
                self.record(action, act.task, act.result, act.details, user=user)
            except StorageError as second:  # the block's own error says what happened
                logger.warning("%s: %s could not be recorded in the audit: %s", act.task or "-", action, second)
            raise
        self.record(action, act.task, act.result, act.details, user=user)

    def watch(self, store: TaskStore, uuid: str) -> None:
        """Record what is done to this store: messages that are added, and changes of the view."""
        if self.settings.audit.enabled:
            store.observer = _Watch(self, store, uuid)


class _Watch:
    """Records what is done to one store, and attests what it holds."""

    def __init__(self, trail: AuditTrail, store: TaskStore, uuid: str) -> None:
        self._trail = trail
        self._store = store
        self._uuid = uuid
        self._heads: Heads | None = None  # as they were attested last; kept for the next process at the end
        self._attested = 0  # messages

    def __call__(self, action: str, result: str, details: Mapping[str, Any]) -> None:
        if action == "close":
            self._attest(keep=True)
            return
        if self._trail.is_recorded(action):
            self._trail.record(action, self._uuid, result, details)
        if action == "append":
            if self._heads is None:
                self._begin(details["seq"] - details["messages"])
            if details["seq"] - self._attested >= ATTEST_EVERY:
                self._attested = details["seq"]
                self._attest()

    def _begin(self, before: int) -> None:
        """How much is attested already. Of a task that never was, what was there before waits for its end."""
        self._heads = kept_heads(self._store.records)
        head = self._heads.get("messages")
        self._attested = before if head is None else min(head.count, before)

    def _attest(self, *, keep: bool = False) -> None:
        """Nothing fails because of this: the next one covers it."""
        records = self._store.records
        try:
            kept = kept_heads(records) if keep or self._heads is None else None
            known = kept if self._heads is None else self._heads
            heads = present_heads(records, known or {})
            if heads != known:
                details: dict[str, Any] = {stream: head.as_list() for stream, head in heads.items()}
                self._trail.record("attest", self._uuid, details=details)
            if keep and heads != kept:
                self._store.change(lambda tail: keep_heads(records, heads))
            self._heads = None if keep else heads  # whoever has the task next may take something out of it
        except OrihonError as error:
            logger.warning("%s: not attested in the audit: %s", self._uuid, error)


def _reason(error: BaseException) -> str:
    """An error without its words, which may quote anything."""
    kind = type(error).__name__
    return f"{kind}.{error.reason}" if isinstance(error, OrihonError) else kind


# ---- the trails of this process --------------------------------------------------------------------------------------

_TRAILS: weakref.WeakSet[AuditTrail] = weakref.WeakSet()
_KEPT: dict[tuple[Any, ...], AuditTrail] = {}
_KEEPING = ForkSafeLock()
_MOST_KEPT = 64


def audit_of(base_dir: Path | str, settings: Settings) -> AuditTrail:
    """The trail that all parts of this process share for one store."""
    base = Path(base_dir).absolute()
    # Not the settings themselves: to compare all of them would cost more than a record.
    key = (base, settings.audit, settings.database, settings.context_storage.durability)
    with _KEEPING:
        trail = _KEPT.get(key)
        if trail is None:
            while len(_KEPT) >= _MOST_KEPT:
                _KEPT.pop(next(iter(_KEPT))).flush()
            trail = _KEPT[key] = AuditTrail(base, settings)
            _TRAILS.add(trail)
        trail.settings = settings
        return trail


@contextmanager
def audited(
    base_dir: Path | str,
    settings: Settings,
    action: str,
    task: str = "",
    *,
    begun: bool = False,
    user: str | None = None,
    **details: Any,
) -> Iterator[Act]:
    """The block is recorded as ``action`` on a task of this base folder; see ``AuditTrail.about``."""
    with audit_of(base_dir, settings).about(action, task, begun=begun, user=user, **details) as act:
        yield act


@cache
def _flush_at_end() -> None:
    atexit.register(_flush_all)


def _flush_all() -> None:
    for trail in list(_TRAILS):
        try:
            trail.flush()
        except OrihonError as error:
            logger.warning("the last records of the audit could not be written: %s", error)


#: Masking may make a text longer, and user, address and task need room, too.
MOST_DETAILS = LONGEST_LINE // 2


class _Logger:
    def __init__(self, base_dir: Path | str | None = None, config: Mapping[str, Any] | Settings | None = None) -> None:
        self.settings = load_settings(config)
        where = base_dir if base_dir is not None else self.settings.context_storage.base_dir
        self.base_dir = Path(where).absolute()

    def _write(self, action: str, task: str, details: Mapping[str, Any], **who: Any) -> None:
        trail: AuditTrail = audit_of(self.base_dir, self.settings)
        if not trail.sink.is_at_home():
            raise StorageUnavailable("no_base_dir", path=self.base_dir)
        if len(canonical(details)) > MOST_DETAILS:
            raise InvalidInput("audit_details", most=MOST_DETAILS)
        redactor = make_redactor(self.settings, self.base_dir)
        trail.write(action, redactor.mask(task), OK, redactor.clean(dict(details)), **who)


class AuditLogger(_Logger):
    """Records who looked at or changed which task."""

    def log_context_access(self, process_id: str, task_key: str, action: str, details: Mapping[str, Any]) -> None:
        """One access: ``action`` is ``read``, ``write``, ``delete`` or a word of your own."""
        self._write(action, task_key, details, process=process_id)
        if action in ("read", "write"):
            audit_of(self.base_dir, self.settings).flush()


class ComplianceAuditLog(_Logger):
    """Records who had access to data of which category; the address is the one of ``acting_as``, unless given."""

    def log_data_access(
        self, user_id: str, task_id: str, action: str, data_category: str, ip_address: str | None = None
    ) -> None:
        """One access to data: ``data_category`` is ``personal``, ``code``, ``public`` or a word of your own."""
        details = {"category": data_category}
        if ip_address is None:
            self._write(action, task_id, details, user=user_id)
        else:
            with acting_as(user_id, ip_address):
                self._write(action, task_id, details)
        audit_of(self.base_dir, self.settings).flush()
