"""What tasks ask people, with what one needs to know for an answer; and what people were told."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from orihon.errors import OrihonError
from orihon.reports.notifications import AskedAbout, NotedNotification, answered_lately, asked_about
from orihon.system import jsonio
from orihon.tasks.approvals.answers import ANSWERABLE, PendingApproval, pending
from orihon.tasks.approvals.phase_restore import read_phase
from orihon.tasks.approvals.question_cache import Questions
from orihon.tasks.reader import StoredMessage, read_ledger, reading_task
from orihon.transfer.export.about import role_name
from orihon.transfer.export.message_view import ContentBlock, said_text
from orihon.web.api.figures import GROUPS, undoable_of, wanted_notices
from orihon.web.call import Call, Page, PageRoute, address_of, page_of, task_of, users_of
from orihon.web.fields import Field

# ---- questions -------------------------------------------------------------------------------------------------------

_PAGE = 20
_ANSWERED = 10
_MESSAGE_CHARACTERS = 4000
_ROLES = frozenset(("user", "assistant", "tool"))
_MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class LastMessage:
    """One of those that came before a question."""

    seq: int
    role: str
    kind: str  # the role as a class of the style sheet
    said: ContentBlock


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, ready for a template; without ``about`` where its records cannot be read this moment."""

    pending: PendingApproval
    question: ContentBlock
    context: ContentBlock | None
    about: AskedAbout | None
    messages: tuple[LastMessage, ...]
    plan: str

    @property
    def key(self) -> str:
        return f"{self.pending.uuid}:{self.pending.checkpoint.id}"


def phase_page(call: Call) -> Page:
    """The archive of a phase, as a text."""
    uuid, number = task_of(call), call.given["number"]
    said = read_phase(call.base, uuid, phase=number)
    shown = said_text(said[:_MOST_CHARACTERS], None)
    return Page("phase.html", {"uuid": uuid, "number": number, "said": shown, "missing": len(said) - _MOST_CHARACTERS})


def _approvals(call: Call) -> dict[str, Any]:
    start = call.given["start"]
    found = pending(call.base, user=call.visitor.only, memory=call.site.questions)
    return {
        "asked": [_asked(call, one) for one in found[start - 1 : start - 1 + _PAGE]],
        "total": len(found),
        "start": start,
        "next": start + _PAGE if len(found) >= start + _PAGE else None,
        "answered": answered_lately(call.base, limit=_ANSWERED, users=users_of(call)),
        "may_answer": call.visitor.may("approve") and not call.site.read_only,
    }


def _asked(call: Call, one: PendingApproval) -> Asked:
    checkpoint = one.checkpoint
    context = said_text(checkpoint.context) if checkpoint.context.strip() else None
    try:
        about = asked_about(call.base, one.uuid, checkpoint)
    except OrihonError:  # it goes on this moment
        return Asked(one, said_text(checkpoint.question), context, None, (), "")
    messages = tuple(map(_last, about.messages))
    return Asked(one, said_text(checkpoint.question), context, about, messages, _plan(about.plan))


def _last(stored: StoredMessage) -> LastMessage:
    message = stored.message
    said = message.text.strip() or "→ " + ", ".join(call.name for call in message.tool_calls)
    kind = message.role if message.role in _ROLES else "other"
    return LastMessage(stored.seq, role_name(message.role), kind, said_text(said, _MESSAGE_CHARACTERS))


def _plan(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    content = record.get("plan_content")
    if isinstance(content, str):
        return content
    return jsonio.encode_pretty(content).decode().rstrip()


# ---- notices ---------------------------------------------------------------------------------------------------------

_ASKED = ("approval_asked", "approval_reminded")
_FAILURES = ("failed", "dead")
_REASON_CHARACTERS = 200
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def _feed(call: Call) -> dict[str, Any]:
    page, given = wanted_notices(call), call.given
    return {
        "notes": page.notes,
        "older": page.older,
        "group": given["group"],
        "groups": tuple(GROUPS),
        "group_of": _GROUP_OF,
        "task": given["task"],
        "before": given["before"],
        "reasons": {one.notice.number: why for one in page.notes if (why := failure_reason(one))},
        "undoable": undoable_of(call, page.notes),
        "answerable": _answerable(call, page.notes),
        "address": _address(call),
    }


def failure_reason(noted: NotedNotification) -> str:
    """Why the task failed, in one line; of an earlier failure nobody knows it any more: the row has the last one's."""
    notice, row = noted.notice, noted.row
    if row is None or notice.kind not in _FAILURES or row.completed_at != notice.created_at:
        return ""
    first = next((line.strip() for line in (row.error_message or "").splitlines() if line.strip()), "")
    return first if len(first) <= _REASON_CHARACTERS else first[: _REASON_CHARACTERS - 1].rstrip() + "…"


def _answerable(call: Call, notes: Sequence[NotedNotification]) -> frozenset[tuple[str, int]]:
    """Tasks and checkpoints of these notices that are not answered yet, and that the visitor may answer."""
    if call.site.read_only or not call.visitor.may("approve"):
        return frozenset()
    asked = {one.row.uuid: one.row for one in notes if one.row is not None and one.notice.kind in _ASKED}
    found: set[tuple[str, int]] = set()
    for uuid, row in asked.items():
        if row.status not in ANSWERABLE:
            continue
        with suppress(OrihonError):  # it may be on its way
            questions = call.site.questions.of(row, partial(_questions, call, uuid))
            found.update((uuid, one.id) for one in questions)
    return frozenset(found)


def _questions(call: Call, uuid: str) -> Questions:
    with reading_task(call.base, uuid) as (store, _):
        return read_ledger(store).open


def _address(call: Call) -> Any:
    def address(**changed: object) -> str:
        wanted = {"group": call.given["group"], "task": call.given["task"]} | changed
        return address_of("/notifications", wanted)

    return address


_FILTERS = (
    Field("group", choices=tuple(GROUPS), about="group"),
    Field("task", longest=300, about="task"),
    Field("before", "whole", about="before"),
)
_START = (Field("start", "whole", default=1),)
PAGES = (
    PageRoute("/approvals", page_of("approvals.html", _approvals), "approvals", query=_START),
    PageRoute("/approvals/list", page_of("approvals_list.html", _approvals), "approvals", query=_START),
    PageRoute("/tasks/{task}/phases/{number}", phase_page, "tasks"),
    PageRoute("/notifications", page_of("notifications.html", _feed), "notifications", query=_FILTERS),
    PageRoute("/notifications/list", page_of("notifications_list.html", _feed), "notifications", query=_FILTERS),
)
