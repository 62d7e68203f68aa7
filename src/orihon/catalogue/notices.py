"""What people are told, as rows: the feed, and the outbox of the webhook.

Owns the numbers of the feed, who may send a row now, and the alerts that stand. Promises that a row is written with
what it is about where the catalogue knows of that itself (triggers: a task failed, is dead, was taken over), that the
same event is written once however often it is told, that whoever reads on from a number misses nothing, and that no
two processes send one row at the same time. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orihon import jsonio
from orihon.catalogue.tasks_db import Record, Statements, TasksDatabase
from orihon.clock import utc_now

WebhookState = Literal["pending", "sending", "delivered", "given_up", "none"]

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


class Notices:
    """What the catalogue does with notifications."""

    _db: TasksDatabase

    def add_notification(self, notice: NewNotice) -> bool:
        """Write a row; False where the event is known already."""

        def action(statements: Statements) -> bool:
            return _add(statements, notice)

        return self._db.change(action)

    def notifications(self, *, since: int | None = None, limit: int = 100, task: str | None = None) -> list[NoticeRow]:
        """The rows after number ``since``, or the last ones; the oldest first."""
        names = ("notifications", "last_notifications")[since is None], "" if task is None else "_of_task"
        bindings = ({} if since is None else {"since": since}) | ({} if task is None else {"task": task})
        found = [_row(record) for record in self._db.all("".join(names), limit=limit, **bindings)]
        return found[::-1] if since is None else found

    def count_pending_notifications(self) -> int:
        """How many rows no webhook has got yet."""
        found = self._db.one("pending_notifications")
        return int(found["pending"]) if found is not None else 0

    def take_notification(self, *, after: int = 0, early: bool = False) -> NoticeRow | None:
        """The next row that is due, to be sent by us and nobody else; it counts as an attempt from now on.

        ``after`` passes over lower numbers, ``early`` takes those too that were put off.
        """

        def action(statements: Statements) -> NoticeRow | None:
            moment = statements.moment()
            record = statements.one(
                "take_notification",
                moment=moment.seconds,
                horizon=moment.seconds + _LONGEST_DELAY,
                era=moment.era,
                until=moment.seconds + SENDING_SECONDS,
                after=after,
                early=int(early),
            )
            return None if record is None else _row(record)

        return self._db.change(action, durable=False)

    def settle_notification(
        self, row: NoticeRow, webhook: WebhookState, *, error: str | None = None, again_in: float = 0.0
    ) -> bool:
        """What became of an attempt; False where somebody else has taken the row since."""

        def action(statements: Statements) -> bool:
            moment = statements.moment()
            is_later = webhook == "pending"
            return bool(
                statements.run(
                    "settle_notification",
                    id=row.id,
                    attempts=row.attempts,
                    webhook=webhook,
                    due=moment.seconds + again_in if is_later else None,
                    era=moment.era if is_later else None,
                    error=error,
                    now=utc_now(),
                )
            )

        return self._db.change(action)

    def begin_webhook(self, before: str) -> None:
        """There is a webhook: with the first one ever, what is older than ``before`` was never meant for it."""

        def action(statements: Statements) -> None:
            if statements.run("note_webhook"):
                statements.run("pass_over_notifications", before=before, now=utc_now())

        if self._db.one("counter", name="webhook_used") is None:
            self._db.change(action)

    def forget_notifications(self, before: str, *, unsent: str | None = None) -> int:
        """Take what is older out of the feed; what no webhook has got yet, only where it is older than ``unsent``."""
        times = {"before": before, "unsent": before if unsent is None else unsent}
        return self._db.change(lambda statements: statements.run("forget_notifications", **times))

    # ---- alerts ---------------------------------------------------------------------------------------------------

    def alerts(self) -> dict[str, Mapping[str, Any]]:
        """What is wrong, as far as the last look knew: by name, with the figures of the first look."""
        return {record["name"]: jsonio.decode(record["body"]) for record in self._db.all("alerts")}

    def change_alert(self, name: str, body: Mapping[str, Any], notice: NewNotice, *, is_raised: bool) -> bool:
        """An alert stands from now on, or no longer, and is told with that; False where it was so already."""

        def action(statements: Statements) -> bool:
            if is_raised:
                changed = statements.run("raise_alert", name=name, now=utc_now(), body=_encoded(body))
            else:
                changed = statements.run("end_alert", name=name)
            return bool(changed) and _add(statements, notice)

        return self._db.change(action)


def _add(statements: Statements, notice: NewNotice) -> bool:
    statements.one("hold_notifications")
    fields = {"event": notice.event, "task": notice.task, "kind": notice.kind, "type": notice.type}
    return bool(statements.run("add_notification", **fields, body=_encoded(notice.body), now=utc_now()))


def _encoded(body: Mapping[str, Any]) -> str:
    return jsonio.encode(dict(body)).decode()


def _row(record: Record) -> NoticeRow:
    return NoticeRow(**{**record, "body": jsonio.decode(record["body"])})
