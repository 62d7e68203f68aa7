"""The feed of what people were told: folds, questions, failures, alerts; the newest first, with what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

from orihon.errors import OrihonError
from orihon.reports.notifications import NotedNotification
from orihon.store.checkpoints import read_ledger
from orihon.tasks.approvals.answers import ANSWERABLE
from orihon.tasks.approvals.question_cache import Questions
from orihon.tasks.reader import reading_task
from orihon.web.api.notices import GROUPS, undoable_of, wanted_notices
from orihon.web.call import Call, Page, PageRoute
from orihon.web.fields import Field

_ASKED = ("approval_asked", "approval_reminded")
_FAILURES = ("failed", "dead")
_REASON_CHARACTERS = 200
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def notifications_page(call: Call) -> Page:
    """The whole page."""
    return Page("notifications.html", _shows(call))


def notifications_list(call: Call) -> Page:
    """The feed alone."""
    return Page("notifications_list.html", _shows(call))


def _shows(call: Call) -> dict[str, Any]:
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
        query = urlencode({name: value for name, value in wanted.items() if value})
        return f"/notifications?{query}" if query else "/notifications"

    return address


_FILTERS = (
    Field("group", choices=tuple(GROUPS), about="group"),
    Field("task", longest=300, about="task"),
    Field("before", "whole", about="before"),
)
PAGES = (
    PageRoute("/notifications", notifications_page, "notifications", query=_FILTERS),
    PageRoute("/notifications/list", notifications_list, "notifications", query=_FILTERS),
)
