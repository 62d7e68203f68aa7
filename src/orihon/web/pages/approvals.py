"""The inbox: what tasks ask people, with what one needs to know for an answer; and what was answered lately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orihon.errors import OrihonError
from orihon.reports.approval_context import AskedAbout, answered_lately, asked_about
from orihon.store.record_codec import StoredMessage
from orihon.system import jsonio
from orihon.tasks.approvals.answers import PendingApproval, pending
from orihon.tasks.approvals.phase_restore import read_phase
from orihon.transfer.export.about import role_name
from orihon.transfer.export.message_view import ContentBlock, said_text
from orihon.web.call import Call, Page, PageRoute
from orihon.web.fields import Field
from orihon.web.requested_task import task_of, users_of

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


def approvals_page(call: Call) -> Page:
    """The whole page."""
    return Page("approvals.html", _shows(call))


def approvals_list(call: Call) -> Page:
    """What changes on it."""
    return Page("approvals_list.html", _shows(call))


def phase_page(call: Call) -> Page:
    """The archive of a phase, as a text."""
    uuid, number = task_of(call), call.given["number"]
    said = read_phase(call.base, uuid, phase=number)
    shown = said_text(said[:_MOST_CHARACTERS], None)
    return Page("phase.html", {"uuid": uuid, "number": number, "said": shown, "missing": len(said) - _MOST_CHARACTERS})


def _shows(call: Call) -> dict[str, Any]:
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


_START = (Field("start", "whole", default=1),)
PAGES = (
    PageRoute("/approvals", approvals_page, "approvals", query=_START),
    PageRoute("/approvals/list", approvals_list, "approvals", query=_START),
    PageRoute("/tasks/{task}/phases/{number}", phase_page, "tasks"),
)
