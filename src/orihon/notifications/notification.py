"""The notices as values, and how they are said.

They carry counts, names and commands, never the text of a message. What is stored are figures; the sentence is made
when somebody reads it, in that reader's language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orihon.catalogue.outbox import NoticeRow
from orihon.system.json_shapes import AsJson
from orihon.texts import text

NotificationType = Literal["warning", "info", "success", "error"]
NoticeKind = Literal["recommended", "compressed", "still_full"]

#: Everything that is told. ``failed``, ``dead`` and ``taken_over`` are written by the catalogue's triggers.
KINDS = (
    *("recommended", "compressed", "still_full"),
    *("failed", "dead", "taken_over"),
    *("approval_asked", "approval_reminded", "approval_answered", "approval_expired"),
    *("alert", "alert_over"),
)


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
class CompressionNotification(AsJson):
    """One notice about a compression, in the language that was in force when it was made."""

    type: NotificationType
    kind: NoticeKind
    message: str
    details: NotificationDetails
    actions: NotificationActions
    task: str
    usage_before: float
    usage_after: float
    created_at: str

    @property
    def body(self) -> dict[str, Any]:
        """What is stored besides what every notice has."""
        return {name: value for name, value in self.as_dict().items() if name not in _OF_EVERY_NOTICE}


_UNDONE = re.compile(r"--compression ([0-9]{1,15})$")
_OF_EVERY_NOTICE = ("type", "kind", "message", "task", "created_at")


@dataclass(frozen=True, slots=True)
class WebhookState:
    """How far a notice has come on its way to the webhook."""

    state: str
    attempts: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Notification(AsJson):
    """One entry of the feed."""

    json_fields = "number *body id created_at task kind type message webhook=webhook_state"

    number: int  # in the feed; the next look begins after it
    id: str  # by which a receiver knows it again
    created_at: str
    task: str | None
    kind: str
    type: str
    message: str
    body: Mapping[str, Any]
    webhook: str  # pending, delivered, given_up; none where no webhook was wanted then
    attempts: int
    last_error: str | None

    @classmethod
    def of(cls, row: NoticeRow) -> Notification:
        """A row, said in the language that is set."""
        return cls(
            number=row.id,
            id=row.event,
            created_at=row.created_at,
            task=row.task,
            kind=row.kind,
            type=row.type,
            message=said(row.kind, row.body),
            body=row.body,
            webhook="pending" if row.webhook in ("sending", "held") else row.webhook,
            attempts=row.attempts,
            last_error=row.last_error,
        )

    @property
    def compression(self) -> int | None:
        """The number of the compression that it is about, which can be undone by it."""
        actions = self.body.get("actions")
        undo = actions.get("undo") if isinstance(actions, Mapping) else None
        found = _UNDONE.search(undo) if isinstance(undo, str) else None
        return None if found is None else int(found[1])

    @property
    def webhook_state(self) -> WebhookState:
        return WebhookState(self.webhook, self.attempts, self.last_error)

    def payload(self) -> dict[str, Any]:
        """What a webhook gets."""
        fields = {"id": self.id, "created_at": self.created_at, "task": self.task, "kind": self.kind}
        return {**self.body, **fields, "type": self.type, "message": self.message}


def said(kind: str, body: Mapping[str, Any]) -> str:
    """The sentence for one notice; one of a newer version is named by its kind."""
    if kind not in KINDS:
        return text("notifications.unknown", kind=kind)
    if kind.startswith("alert"):
        return _said_alert(kind, body)
    fields = {name: value for name, value in body.items() if isinstance(value, str | int | float)}
    if {"usage_before", "usage_after"} <= body.keys():
        fields |= {"before": _percent(body["usage_before"]), "after": _percent(body["usage_after"])}
    if body.get("decision") in ("approve", "reject", "revise"):
        fields["decision"] = text(f"notifications.decisions.{body['decision']}")
    return _filled(f"notifications.{kind}", fields)


def _said_alert(kind: str, body: Mapping[str, Any]) -> str:
    name = str(body.get("name", "?"))
    figures = body.get("figures")
    fields = figures if isinstance(figures, Mapping) else {}
    what = _filled(f"monitor.{name}", fields)
    return text(f"notifications.{kind}", what=what)


def _filled(key: str, fields: Mapping[str, Any]) -> str:
    """A text with its fields; a row of another version may lack some, and is shown all the same."""
    try:
        return text(key, **fields)
    except (KeyError, ValueError, TypeError):
        return text("notifications.unknown", kind=key.rpartition(".")[2])


def _percent(usage: object) -> str:
    return f"{100 * usage:.0f}" if isinstance(usage, int | float) else "?"
