"""What people are told about compressions: recommended, done, not enough.

Owns the three notices, their texts and the ways they take: the log, callbacks, a webhook. They carry counts and
commands, never the text of a message.

Promises: a notice never stops or delays the work it is about. A callback that raises is logged and the others still
run. The webhook is called by one background thread at a time, which lives while there is something to send; a short
queue drops its oldest notice when it is full, an outage is logged once, and neither the interpreter's exit nor a
forked child waits for it. Whoever wants the last notices delivered calls ``close``. Of the webhook's address only
scheme and host are ever logged: any other part of it may be a secret. Refuses addresses that are not http or https,
and does not follow redirects, which could carry notice and password elsewhere.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from orihon import jsonio
from orihon.clock import utc_now
from orihon.errors import InvalidSettings
from orihon.store.locks import ForkSafeLock
from orihon.texts import text

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

__all__ = ["CompressionNotification", "NotificationActions", "NotificationDetails", "Notifier"]

NotificationType = Literal["warning", "info", "success"]
NotificationKind = Literal["recommended", "compressed", "still_full"]

logger = logging.getLogger("orihon.notifications")


# ---- the notice -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotificationDetails:
    """What changed."""

    before_tokens: int
    after_tokens: int
    compression_ratio: float  # after / before
    archived_items: tuple[str, ...]  # ids of the folds


@dataclass(frozen=True, slots=True)
class NotificationActions:
    """Commands; empty where there is nothing to view or to undo."""

    view_archive: str
    undo: str


@dataclass(frozen=True, slots=True)
class CompressionNotification:
    """One notice, in the language that was in force when it was made."""

    type: NotificationType
    kind: NotificationKind
    message: str
    details: NotificationDetails
    actions: NotificationActions
    task: str
    usage_before: float
    usage_after: float
    created_at: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = asdict(self)
        fields["details"]["archived_items"] = list(self.details.archived_items)
        return fields


Callback = Callable[[CompressionNotification], object]


# ---- who is told ----------------------------------------------------------------------------------------------------


class Notifier:
    """Tells about one task. May be used from several threads; a forked child goes on with its own notices."""

    def __init__(
        self,
        task: str,
        *,
        callbacks: Sequence[Callback] = (),
        webhook: str | None = None,
        warn_at: float = 0.8,
        full_at: float = 0.9,
    ) -> None:
        self._task = task
        self._callbacks = tuple(callbacks)
        self._webhook = None if webhook is None else _Webhook(webhook, task)
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

        Nothing is posted afterwards; log and callbacks go on.
        """
        return self._webhook is None or self._webhook.close(timeout)

    def _send(
        self,
        type: NotificationType,  # noqa: A002 - the field's name in the design
        kind: NotificationKind,
        details: NotificationDetails,
        actions: NotificationActions,
        usages: tuple[float, float],
    ) -> None:
        before, after = usages
        message = text(f"notifications.{kind}", before=_percent(before), after=_percent(after))
        notice = CompressionNotification(
            type, kind, message, details, actions, self._task, before, after, created_at=utc_now()
        )
        commands = "".join(f" [{command}]" for command in (actions.view_archive, actions.undo) if command)
        # A recommendation is for whoever listens: where the ladder folds by itself, nobody has to act.
        level = logging.WARNING if kind == "still_full" else logging.INFO
        logger.log(level, "%s: %s%s", self._task, message, commands)
        for callback in self._callbacks:
            try:
                callback(notice)
            except Exception:  # foreign code: the work and the other callbacks go on
                logger.warning("%s: a callback for notifications failed", self._task, exc_info=True)
        if self._webhook is not None:
            self._webhook.post(jsonio.encode(notice.as_dict()))


def _percent(usage: float) -> str:
    return f"{100 * usage:.0f}"


# ---- the webhook ----------------------------------------------------------------------------------------------------

_QUEUE = 32
_TIMEOUT = 5.0
_PAUSES = (0.5, 2.0)  # seconds before each retry
_PLAIN_URL = re.compile(r"[!-~]+")  # urllib's own complaint about anything else would quote the address
_BUSY = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    may_pass: bool = True


class _Webhook:
    """Posts JSON to an address, in the background."""

    def __init__(self, url: str, task: str) -> None:
        self._url, self._headers, self._shown = _parsed(url)
        self._task = task
        self._opener = _opener()
        self._closed = False
        self.renew()
        _renew_at_forks()
        _WEBHOOKS.add(self)

    def renew(self) -> None:
        """As new, with nothing to send: in a forked child the thread is gone, and what waited is the parent's."""
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._lost_in_outage = 0

    def post(self, body: bytes) -> None:
        """Send it soon; never waits."""
        problems = []
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) == _QUEUE:
                self._waiting.popleft()
                problems.append("the queue is full, the oldest notification is dropped")
            self._waiting.append(body)
            if not self._is_working():
                self._thread = threading.Thread(target=self._run, name=f"orihon-webhook-{self._task}", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:  # no thread to be had, or the interpreter is about to end
                    self._thread = None
                    problems.append(str(error))
        for problem in problems:
            logger.warning("%s: webhook %s: %s", self._task, self._shown, problem)

    def close(self, timeout: float) -> bool:
        with self._changed:
            self._closed = True
            done = self._changed.wait_for(lambda: not self._is_working(), timeout)
            lost = len(self._waiting) + (not done)
            self._waiting.clear()
            self._abandoned = True
            self._changed.notify_all()
        if lost:
            logger.warning("%s: webhook %s: closed with %d notifications unsent", self._task, self._shown, lost)
        return not lost

    def _is_working(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while (body := self._next()) is not None:
            failure = self._deliver(body)
            if failure is None:
                self._note_success()
            else:
                self._note_failure(failure)

    def _next(self) -> bytes | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            self._changed.notify_all()
            return None

    def _deliver(self, body: bytes) -> _Failure | None:
        failure = self._try(body)
        for pause in _PAUSES:
            if failure is None or not failure.may_pass or self._is_abandoned_within(pause):
                break
            failure = self._try(body)
        return failure

    def _is_abandoned_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._abandoned, seconds)

    def _try(self, body: bytes) -> _Failure | None:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request

        request = Request(self._url, data=body, headers=self._headers, method="POST")  # noqa: S310 - http(s), checked
        try:
            with self._opener.open(request, timeout=_TIMEOUT):
                return None
        except HTTPError as error:
            with error:
                return _Failure(f"HTTP {error.code}", may_pass=error.code >= 500 or error.code in _BUSY)
        except URLError as error:
            return _Failure(_described(error.reason))
        except (OSError, HTTPException, ValueError) as error:
            return _Failure(_described(error))

    def _note_success(self) -> None:
        if self._lost_in_outage:
            lost, self._lost_in_outage = self._lost_in_outage, 0
            logger.info("%s: webhook %s answers again; not delivered: %d", self._task, self._shown, lost)

    def _note_failure(self, failure: _Failure) -> None:
        self._lost_in_outage += 1
        if self._lost_in_outage == 1:
            logger.warning("%s: webhook %s: not delivered: %s", self._task, self._shown, failure.reason)


def _described(error: object) -> str:
    """What happened, without the texts of libraries, which may quote the address."""
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _parsed(url: str) -> tuple[str, dict[str, str], str]:
    """The address without user and password, the headers with them, and what of it may be shown."""
    headers = {"Content-Type": "application/json", "User-Agent": "orihon"}
    try:
        parts = urlsplit(url)
        place = _host_and_port(parts)
    except ValueError:  # its text would quote the address
        place = ""
    shown = f"{parts.scheme}://{place}" if place else "?"
    if not place or parts.scheme not in ("http", "https") or not _PLAIN_URL.fullmatch(url):
        raise InvalidSettings("webhook", address=shown)
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return urlunsplit((parts.scheme, place, parts.path, parts.query, "")), headers, shown


def _host_and_port(parts: SplitResult) -> str:
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return host if parts.port is None else f"{host}:{parts.port}"


@cache
def _opener() -> OpenerDirector:
    """Made with the first webhook: urllib.request takes a while to import, and most tasks have none.

    Not in the background thread: a fork in the middle of an import would leave its lock held in the child.
    """
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    return build_opener(NoRedirects)


_WEBHOOKS: weakref.WeakSet[_Webhook] = weakref.WeakSet()


@cache
def _renew_at_forks() -> None:
    os.register_at_fork(after_in_child=_renew_all)


def _renew_all() -> None:
    for webhook in list(_WEBHOOKS):
        webhook.renew()
