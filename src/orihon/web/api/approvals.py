"""What waits for a person, and the person's answer: approve, reject, ask for changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orihon.reports.approval_context import known_sections
from orihon.system.json_shapes import shape
from orihon.tasks.approvals import answers as answering
from orihon.tasks.approvals.answers import Answered, PendingApproval, pending
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import task_of

_LONGEST = 100_000


def list_pending(call: Call) -> dict[str, Any]:
    """Every open question, the oldest first."""
    found = pending(call.base, user=call.visitor.only, memory=call.site.questions)
    return {"pending": found}


def sections(call: Call) -> dict[str, Any]:
    """The sections that an answer may name, so that they are opened again."""
    return {"sections": known_sections(call.base, task_of(call))}


def approve(call: Call) -> Answered:
    """Let the task go on."""
    return _given(call, answering.approve, reason=call.given["reason"])


def reject(call: Call) -> Answered:
    """Say no, and why."""
    return _given(call, answering.reject, reason=call.given["reason"], sections=call.given["sections"] or ())


def revise(call: Call) -> Answered:
    """Ask for changes."""
    said = {"instructions": call.given["instructions"], "sections": call.given["sections"] or ()}
    return _given(call, answering.revise, **said)


def _given(call: Call, answer: Callable[..., Answered], **said: Any) -> Answered:
    by, number = call.visitor.user, call.given["checkpoint"]
    return answer(call.base, task_of(call), call.settings, by=by, checkpoint=number, **said)


def _answer(name: str, act: Callable[[Call], Any], *body: Field) -> Endpoint:
    number = Field("checkpoint", "whole", about="checkpoint")
    path = f"/api/tasks/{{task}}/{name}"
    return Endpoint("POST", path, act, f"{name}Task", body=(*body, number), answer=Answered, role="approve")


_SECTIONS = Field("sections", "texts", about="sections")

ENDPOINTS = (
    Endpoint("GET", "/api/approvals", list_pending, "listApprovals", answer=shape(pending=list[PendingApproval])),
    Endpoint("GET", "/api/tasks/{task}/sections", sections, "listSections", answer=shape(sections=list[str])),
    _answer("approve", approve, Field("reason", default="", longest=_LONGEST, about="reason")),
    _answer("reject", reject, Field("reason", required=True, longest=_LONGEST, about="reason"), _SECTIONS),
    _answer("revise", revise, Field("instructions", required=True, longest=_LONGEST, about="instructions"), _SECTIONS),
)
