"""Who is told about compressions: recommended, done, not enough.

Promises: a notice never stops or delays the work it is about. A callback that raises is logged and the others still
run. With an outbox no notice is lost; without one, where a task has no catalogue, the webhook is called from memory.
Whoever wants the last notices delivered calls ``close``.

The outbox: a notice is written to the catalogue, and sent from there.

Promises that the work which a notice is about is never stopped by it: a catalogue that cannot be written is logged, and
the notice is lost with that. Of an event that is told again after a crash (``event_of``) there is one notice.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.errors import OrihonError
from orihon.notifications.notification import (
    CompressionNotification,
    NoticeKind,
    NotificationActions,
    NotificationDetails,
    NotificationType,
    said,
)
from orihon.notifications.sender import MemorySender, send_soon, wait_until_sent
from orihon.notifications.webhook import Webhook
from orihon.settings import Settings
from orihon.store.factory import make_redactor
from orihon.store.locks import ForkSafeLock
from orihon.system import jsonio
from orihon.system.clock import utc_now

logger = logging.getLogger("orihon.notifications")

Callback = Callable[[CompressionNotification], object]


class Notifier:
    """Tells about one task. May be used from several threads; a forked child goes on with its own notices."""

    def __init__(
        self,
        task: str,
        *,
        callbacks: Sequence[Callback] = (),
        webhook: str | None = None,
        webhook_secret: str | None = None,
        warn_at: float = 0.8,
        full_at: float = 0.9,
        outbox: Outbox | None = None,
    ) -> None:
        """``outbox``: notices go through it, and to the webhook of its settings."""
        self._task = task
        self._callbacks = tuple(callbacks)
        self._outbox = outbox
        self._sender = None
        if webhook is not None and outbox is None:
            self._sender = MemorySender(Webhook(webhook, webhook_secret), task)
        self._warn_at = warn_at
        self._full_at = full_at
        self._lock = ForkSafeLock()
        self._warned = False

    def subscribe(self, callback: Callback) -> None:
        """Call ``callback`` with every notice from now on, in the thread that causes it."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def usage(self, tokens: int, usage: float) -> None:
        """The view has this size now. Compression is recommended once, when it grows beyond ``warn_at``."""
        with self._lock:
            crossed = usage >= self._warn_at and not self._warned
            self._warned = usage >= self._warn_at
        if crossed:
            details = NotificationDetails(tokens, tokens, 1.0, ())
            self._send("warning", "recommended", details, NotificationActions("", ""), (usage, usage))

    def compressed(
        self,
        before_tokens: int,
        after_tokens: int,
        usage_before: float,
        usage_after: float,
        compression: int,
        folds: Sequence[int],
    ) -> None:
        """A compression is done. It is a success unless the view is still fuller than ``full_at``; then more is due."""
        with self._lock:
            self._warned = usage_after >= self._warn_at
        ratio = after_tokens / before_tokens if before_tokens else 1.0
        details = NotificationDetails(before_tokens, after_tokens, ratio, tuple(map(str, folds)))
        view = f"orihon view {self._task} --fold {folds[0]}" if folds else ""
        actions = NotificationActions(view, f"orihon undo {self._task} --compression {compression}")
        usages = (usage_before, usage_after)
        still_full = usage_after > self._full_at
        self._send("info" if still_full else "success", "compressed", details, actions, usages)
        if still_full:
            self._send("warning", "still_full", details, actions, usages)

    def still_full(self, tokens: int, usage: float) -> None:
        """The view is too large and nothing of it can be folded."""
        details = NotificationDetails(tokens, tokens, 1.0, ())
        self._send("warning", "still_full", details, NotificationActions("", ""), (usage, usage))

    def close(self, timeout: float = 10.0) -> bool:
        """Wait until the webhook has been tried with every notice; ``False`` when ``timeout`` seconds were too few.

        Nothing is posted afterwards without an outbox; log and callbacks go on.
        """
        if self._outbox is not None:
            return self._outbox.wait(timeout)
        return self._sender is None or self._sender.close(timeout)

    def _send(
        self,
        type: NotificationType,  # noqa: A002 - the field's name in the design
        kind: NoticeKind,
        details: NotificationDetails,
        actions: NotificationActions,
        usages: tuple[float, float],
    ) -> None:
        before, after = usages
        message = said(kind, {"usage_before": before, "usage_after": after})
        notice = CompressionNotification(
            type, kind, message, details, actions, self._task, before, after, created_at=utc_now()
        )
        self._deliver(notice)
        commands = "".join(f" [{command}]" for command in (actions.view_archive, actions.undo) if command)
        # A recommendation is for whoever listens: where the ladder folds by itself, nobody has to act.
        level = logging.WARNING if kind == "still_full" else logging.INFO
        logger.log(level, "%s: %s%s", self._task, message, commands)
        for callback in self._callbacks:
            try:
                callback(notice)
            except Exception:  # foreign code: the work and the other callbacks go on
                logger.warning("%s: a callback for notifications failed", self._task, exc_info=True)

    def _deliver(self, notice: CompressionNotification) -> None:
        """First of all: what a callback does, or a crash in it, loses no notice."""
        if self._outbox is not None:
            self._outbox.add(notice.kind, notice.type, self._task, notice.body)
        elif self._sender is not None:
            event = secrets.token_hex(16)
            self._sender.post(event, jsonio.encode({"id": event, **notice.as_dict()}))


class Outbox:
    """Where notices of one catalogue are put."""

    def __init__(self, catalogue: Catalogue, base_dir: Path, settings: Settings) -> None:
        self._catalogue = catalogue
        self._base_dir = base_dir
        self._settings = settings

    def add(
        self,
        kind: str,
        type: NotificationType,  # noqa: A002 - the field's name in the design
        task: str | None,
        body: Mapping[str, Any],
        *,
        event: str | None = None,
    ) -> None:
        """Write it down and have it sent; returns before it is."""
        try:
            redactor = make_redactor(self._settings, self._base_dir)
            told = redactor.clean(dict(body))
            self._catalogue.outbox.add(NewNotice(event or secrets.token_hex(16), kind, type, task, told))
        except OrihonError as error:
            logger.warning("%s: a notification (%s) could not be written: %s", task or "-", kind, error)
            return
        self.send()

    def send(self) -> None:
        """Have sent what is there: for notices that the catalogue has written itself."""
        try:
            send_soon(self._base_dir, self._settings)
        except OrihonError as error:  # an address that is none
            logger.warning("notifications are not sent: %s", error)

    def wait(self, timeout: float) -> bool:
        """Until everything has been tried once; ``False`` when ``timeout`` seconds were too few."""
        return wait_until_sent(self._base_dir, self._settings, timeout)


def event_of(*parts: object) -> str:
    """The same name for the same event, whoever tells it and however often."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
