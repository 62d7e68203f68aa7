"""What people are told about questions: asked, still open, answered, too late for an answer.

The same event is told under the same name, so that who makes up for a crash tells it again and there is one notice. The
question and the answer themselves are not in it: only the checkpoint's name, and who has decided what.
"""

from __future__ import annotations

from typing import Any, Literal

from orihon.notifications.notification import NotificationType
from orihon.notifications.notifier import Outbox, event_of
from orihon.store.checkpoints import CLOCK, Checkpoint

_TYPES: dict[str, NotificationType] = {"asked": "info", "reminded": "warning", "answered": "info", "expired": "warning"}


def tell_of_approval(
    outbox: Outbox, uuid: str, what: Literal["asked", "reminded", "answered"], asked: Checkpoint
) -> None:
    """One notice about a checkpoint; an answer that the clock has given is told as expired."""
    answer = asked.answer
    kind = "expired" if what == "answered" and answer is not None and answer.by == CLOCK else what
    body: dict[str, Any] = {"checkpoint": asked.id, "name": asked.name}
    if answer is not None:
        body |= {"decision": answer.decision, "by": answer.by}
    elif what == "reminded":
        body |= {"reminder": len(asked.reminded_at) + 1}
    event = event_of(uuid, kind, asked.id, body.get("reminder", 0))
    outbox.add(f"approval_{kind}", _TYPES[kind], uuid, body, event=event)
