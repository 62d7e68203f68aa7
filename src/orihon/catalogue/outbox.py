"""Notifications, as rows: the feed, and the outbox of the webhook.

Owns the numbers of the feed, who may send a row now, and the alerts that stand. Promises that a row is written with
what it is about where the catalogue knows of that itself (triggers: a task failed, is dead, was taken over), that the
same event is written once however often it is told, that whoever reads on from a number misses nothing, and that no
two processes send one row at the same time. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orihon.catalogue.tasks_db import DatabaseRow, Statements, TasksDatabase
from orihon.system import jsonio
from orihon.system.clock import utc_now

#: ``held``: on its way from another catalogue, which may still send it.
WebhookState = Literal["pending", "sending", "delivered", "given_up", "none", "held"]

#: A row whose sender died is sent again after this.
SENDING_SECONDS = 60.0
#: An attempt that is due later than this was written before a boot, on a system that does not name its boots.
_LONGEST_DELAY = 86_400.0


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """One row of the feed. ``body`` holds figures and names, never the text of a message."""

    id: int  # its number in the feed
    event: str  # its name for receivers
    created_at: str
    task: str | None
    kind: str
    type: str
    body: Mapping[str, Any]
    webhook: WebhookState
    attempts: int
    due: float | None  # on the clock of the leases, in its era
    era: str | None
    last_error: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True)
class NewNotice:
    """What is to be written. Of two with the same ``event`` the first one counts."""

    event: str
    kind: str
    type: str
    task: str | None
    body: Mapping[str, Any]


class OutboxTable:
    """What the catalogue does with notifications."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def add(self, notice: NewNotice) -> bool:
        """Write a row; False where the event is known already."""

        def action(statements: Statements) -> bool:
            return _add(statements, notice)

        return self._db.change(action)

    def rows(
        self, *, since: int | None = None, before: int | None = None, limit: int = 100, task: str | None = None
    ) -> list[NoticeRow]:
        """The rows after number ``since``, or the last ones, or the last ones ``before`` a number; the oldest first."""
        name = "notifications" if since is not None else "last_notifications"
        name += "" if task is None else "_of_task"
        name += "_before" if before is not None and since is None else ""
        given = {"since": since, "below": None if since is not None else before, "task": task}
        bindings = {key: value for key, value in given.items() if value is not None}
        found = [_row(record) for record in self._db.all(name, limit=limit, **bindings)]
        return found[::-1] if since is None else found

    def count_pending(self) -> int:
        """How many rows no webhook has got yet."""
        found = self._db.one("pending_notifications")
        return int(found["pending"]) if found is not None else 0

    def due(self, *, early: bool = False) -> list[int]:
        """The numbers of the rows that are due, or (``early``) were put off; those least often tried come first.

        So rows that no receiver takes stand behind all others in the end, wherever they are in the feed.
        """

        def action(statements: Statements) -> list[int]:
            found = statements.all("due_notifications", **_times(statements), early=int(early))
            return [int(record["id"]) for record in found]

        return self._db.change(action, durable=False)

    def take(self, number: int, *, early: bool = False) -> NoticeRow | None:
        """This row, to be sent by us and nobody else; it counts as an attempt from now on.

        ``None`` where it is not due (any more); ``early`` takes it although it was put off.
        """

        def action(statements: Statements) -> NoticeRow | None:
            times = _times(statements)
            until = times["moment"] + SENDING_SECONDS
            record = statements.one("take_notification", **times, until=until, id=number, early=int(early))
            return None if record is None else _row(record)

        return self._db.change(action, durable=False)

    def settle(self, row: NoticeRow, webhook: WebhookState, *, error: str | None = None, again_in: float = 0.0) -> bool:
        """What became of an attempt; False where somebody else has taken the row since."""

        def action(statements: Statements) -> bool:
            moment = statements.moment()
            is_later = webhook == "pending"
            return bool(
                statements.run(
                    "settle_notification",
                    id=row.id,
                    event=row.event,
                    attempts=row.attempts,
                    webhook=webhook,
                    due=moment.seconds + again_in if is_later else None,
                    era=moment.era if is_later else None,
                    error=error,
                    now=utc_now(),
                )
            )

        return self._db.change(action)

    def has_used_webhook(self) -> bool:
        """Was there ever a webhook?"""
        return self._db.one("counter", name="webhook_used") is not None

    def begin_webhook(self, before: str) -> None:
        """There is a webhook: with the first one ever, what is older than ``before`` was never meant for it."""

        def action(statements: Statements) -> None:
            if statements.run("note_webhook"):
                statements.run("pass_over_notifications", before=before, now=utc_now())

        if not self.has_used_webhook():
            self._db.change(action)

    def forget(self, before: str, *, unsent: str | None = None) -> int:
        """Take what is older out of the feed; what no webhook has got yet, only where it is older than ``unsent``."""
        times = {"before": before, "unsent": before if unsent is None else unsent}
        return self._db.change(lambda statements: statements.run("forget_notifications", **times))

    def rewrite(self, event: str, body: Mapping[str, Any]) -> None:
        """Let a notice say something else than it did."""
        self._db.change(lambda statements: statements.run("rewrite_notice", event=event, body=_encoded(body)))

    # ---- to another catalogue ---------------------------------------------------------------------------------------

    def movable(self, task: str | None, *, after: int = 0, limit: int = 500) -> list[NoticeRow]:
        """Rows that nobody is sending now, of one task, or (``None``) of tasks that are not here any more.

        Rows of no task belong to those as soon as there is no task here at all.
        """

        def action(statements: Statements) -> list[NoticeRow]:
            bounds = {**_times(statements), "after": after, "limit": limit}
            if task is None:
                return [_row(record) for record in statements.all("movable_notifications", **bounds)]
            return [_row(one) for one in statements.all("movable_notifications_of_task", task=task, **bounds)]

        return self._db.change(action, durable=False)

    def count_left(self) -> int:
        """How many rows there are of tasks that are not here any more."""
        found = self._db.one("left_notifications")
        return int(found["notifications"]) if found is not None else 0

    def adopt(self, rows: Iterable[NoticeRow]) -> None:
        """Rows of another catalogue; those still to be sent are held until ``release``.

        An event that is known already stays once; that it has been delivered there counts here, too.
        """
        wanted = list(rows)

        def action(statements: Statements) -> None:
            statements.one("hold_notifications")
            for row in wanted:
                statements.run("adopt_notification", **_adopted(row))

        self._db.change(action)

    def remove(self, row: NoticeRow) -> bool:
        """Take out a row as it was read; False where somebody has sent it, or is about to, since."""
        fields = {"id": row.id, "webhook": row.webhook, "attempts": row.attempts}
        return self._db.change(lambda statements: bool(statements.run("remove_notification", **fields)))

    def release(self, event: str) -> None:
        """A row that was held may be sent."""
        self._db.change(lambda statements: statements.run("release_notification", event=event))

    def held(self, *, after: int = 0, limit: int = 500) -> list[NoticeRow]:
        """Rows that are held."""
        return [_row(record) for record in self._db.all("held_notifications", after=after, limit=limit)]

    def has_event(self, event: str) -> bool:
        """Is there a row of this event?"""
        return self._db.one("notification_of_event", event=event) is not None

    # ---- alerts ---------------------------------------------------------------------------------------------------

    def alerts(self) -> dict[str, Mapping[str, Any]]:
        """What is wrong, as far as the last look knew: by name, with the figures of the first look."""
        return {record["name"]: jsonio.decode(record["body"]) for record in self._db.all("alerts")}

    def alert_times(self) -> dict[str, str]:
        """Since when each alert stands."""
        return {record["name"]: record["since"] for record in self._db.all("alerts")}

    def change_alert(self, name: str, body: Mapping[str, Any], notice: NewNotice, *, is_raised: bool) -> bool:
        """An alert stands from now on, or no longer, and is told with that; False where it was so already."""

        def action(statements: Statements) -> bool:
            if is_raised:
                changed = statements.run("raise_alert", name=name, now=utc_now(), body=_encoded(body))
            else:
                changed = statements.run("end_alert", name=name)
            return bool(changed) and _add(statements, notice)

        return self._db.change(action)


def _times(statements: Statements) -> dict[str, Any]:
    """What says whether an attempt is due."""
    moment = statements.moment()
    return {"moment": moment.seconds, "horizon": moment.seconds + _LONGEST_DELAY, "era": moment.era}


def _add(statements: Statements, notice: NewNotice) -> bool:
    statements.one("hold_notifications")
    fields = {"event": notice.event, "task": notice.task, "kind": notice.kind, "type": notice.type}
    return bool(statements.run("add_notification", **fields, body=_encoded(notice.body), now=utc_now()))


def _adopted(row: NoticeRow) -> dict[str, Any]:
    names = ("event", "created_at", "task", "kind", "type", "attempts", "last_error", "settled_at")
    webhook = "held" if row.webhook in ("pending", "sending") else row.webhook
    return {**{name: getattr(row, name) for name in names}, "body": _encoded(row.body), "webhook": webhook}


def _encoded(body: Mapping[str, Any]) -> str:
    return jsonio.encode(dict(body)).decode()


def _row(record: DatabaseRow) -> NoticeRow:
    return NoticeRow(**{**record, "body": jsonio.decode(record["body"])})
