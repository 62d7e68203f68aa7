"""Notes that somebody wants to be kept in sight: a plan at once, and a pinned message as soon as one may stand there.

A log takes no message between a call and its results, and an agent that remembers something is in the middle of a call.
So a note is durable as a plan of kind ``note``; ``say_notes`` makes a message of each that has none yet, pins it, and
is called whenever a request is about to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orihon.store.record_codec import Said
from orihon.texts import text
from orihon.values.message.extra import NOTES, notes_of
from orihon.values.message.message import Message

if TYPE_CHECKING:
    from orihon.store import TaskMessages

#: The kind of plan that a note is, and the mark of the message that says it, with the number of the plan.
NOTE = "note"


def note_number(message: Message) -> int:
    """Which note a message says; 0 for any other message."""
    return int(notes_of(message.extra).get(NOTE) or 0)


def say_notes(messages: TaskMessages, *, said: int | None = None) -> int:
    """Every note that no message has said yet becomes one, if no call is open; returns the number of plans by now.

    ``said``: how many plans were there the last time, for who asks often.
    """
    store = messages.task_store
    count = int(store.count("planning"))
    if count == said or store.tail.open_calls:
        return said or 0
    wanted = [plan for plan in store.read("planning") if plan["plan_type"] == NOTE] if count else []
    if wanted:
        pinned = {pin["seq"] for change in store.read("compressions") for pin in change["pins"]}  # at any time
        told = {note_number(store.message(seq).message) for seq in pinned}
        for plan in wanted:
            if int(plan["id"]) not in told:
                _say(messages, plan)
    return count


def _say(messages: TaskMessages, plan: dict[str, Any]) -> None:
    content = plan["plan_content"] if isinstance(plan["plan_content"], dict) else {"note": plan["plan_content"]}
    line = text("kept_note.said", by=str(content.get("by") or "-"), note=str(content.get("note") or ""))
    message = Message("user", line, extra={NOTES: {NOTE: int(plan["id"])}})
    seq = messages.task_store.append([Said(message)])
    messages.folding.pin(seq, made_by=str(content.get("by") or ""))
