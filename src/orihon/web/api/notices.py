"""What people were told, for pages that show it as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from orihon.errors import OrihonError
from orihon.notifications.notification import KINDS
from orihon.reports.notifications import NotedNotification, NotificationPage, notification_page
from orihon.system.json_shapes import shape
from orihon.tasks.editing import CHANGEABLE
from orihon.tasks.view_reader import reading_view
from orihon.values.view import history
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.filters import plain
from orihon.web.requested_task import users_of, wanted_task

#: Kinds by what they are about, as the filters of the feed have them.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "compressions": ("recommended", "compressed", "still_full"),
    "approvals": tuple(kind for kind in KINDS if kind.startswith("approval_")),
    "failures": ("failed", "dead", "taken_over"),
    "alerts": ("alert", "alert_over"),
}
PAGE = 50
_MOST = 500
_MOST_ASKED = 10


def list_notices(call: Call) -> dict[str, Any]:
    """The newest first; ``older`` is the number to go on before, where there is more."""
    page = wanted_notices(call, since=call.given["since"], limit=call.given["limit"])
    undoable = undoable_of(call, page.notes)
    return {"notices": [_as_dict(one, undoable) for one in page.notes], "older": page.older}


def wanted_notices(call: Call, *, since: int = 0, limit: int = PAGE) -> NotificationPage:
    """The piece of the feed that the address asks for, as far as the visitor may see it."""
    given = call.given
    return notification_page(
        call.base,
        since=since,
        before=given["before"],
        limit=limit,
        task=wanted_task(call),
        kinds=None if given["group"] is None else GROUPS[given["group"]],
        users=users_of(call),
    )


def undoable_of(call: Call, notes: Sequence[NotedNotification]) -> frozenset[tuple[str, int]]:
    """Tasks and compressions of these notices that can be undone now; of very many tasks, only the first are asked."""
    if call.site.read_only or not call.visitor.may("operate"):
        return frozenset()
    changeable = (one for one in notes if one.row is not None and one.row.status in CHANGEABLE)
    tasks = dict.fromkeys(one.notice.task for one in changeable if one.notice.compression is not None)
    found: set[tuple[str, int]] = set()
    for task in [task for task in tasks if task is not None][:_MOST_ASKED]:
        with suppress(OrihonError), reading_view(call.base, task) as view:  # it may be on its way
            done, _ = history([record for record, _ in view.compressions()])
            found.update((task, number) for number in done)
    return frozenset(found)


def _as_dict(noted: NotedNotification, undoable: frozenset[tuple[str, int]]) -> dict[str, Any]:
    """A notification with addresses in the place of commands; none where there is nothing to view or to undo."""
    notice = noted.notice
    actions, task, number = {"view_archive": "", "undo": ""}, notice.task, notice.compression
    if task is not None and number is not None:
        actions["view_archive"] = f"/tasks/{task}/compare/{number}"
        actions["undo"] = f"/api/tasks/{task}/undo" if (task, number) in undoable else ""
    shown = {name: value for name, value in notice.as_dict().items() if name != "webhook"}
    label = "" if noted.row is None else plain(noted.row.key.label)
    return {**shown, "actions": actions, "compression": number, "label": label}


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/notices",
        list_notices,
        "listNotices",
        query=(
            Field("since", "whole", default=0, low=0, about="since"),
            Field("before", "whole", about="before"),
            Field("limit", "whole", default=PAGE, high=_MOST, about="limit"),
            Field("task", longest=300, about="task"),
            Field("group", choices=tuple(GROUPS), about="group"),
        ),
        answer=shape(notices=list[dict[str, Any]], older=int | None),
    ),
)
