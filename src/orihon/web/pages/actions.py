"""What can be done with a task now, for the buttons of its page; and the task as a file to take along."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from orihon.catalogue import TaskRow
from orihon.errors import OrihonError
from orihon.tasks.editing import CHANGEABLE
from orihon.transfer.export import FORMS, Form, export_task
from orihon.values.records import Compression
from orihon.values.task import LEGAL_CHANGES, TaskStatus
from orihon.values.view import UNDOABLE, history
from orihon.web.call import Call, Download, Page, PageRoute
from orihon.web.fields import Field
from orihon.web.requested_task import task_of
from orihon.web.task_head import open_task_head

ACTIONS = ("compress", "undo", "redo", "change", "pause", "resume", "cancel", "retry", "fork")
_FILES: dict[str, tuple[str, str]] = {
    "html": ("html", "text/html; charset=utf-8"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "jsonl": ("jsonl", "application/jsonl"),
    "chat": ("chat.jsonl", "application/jsonl"),
}


def can_of(
    call: Call, row: TaskRow | None, compressions: Sequence[Compression], *, is_here: bool = True
) -> dict[str, bool]:
    """Which buttons make sense for this visitor now. ``change``: folds can be opened and edited, messages pinned.

    ``is_here``: the records can be read; without them there is nothing to change and nothing to fork.

    A button that makes no sense any more when it is pressed is refused by the library, with the reason.
    """
    if row is None or call.site.read_only or not call.visitor.may("operate"):
        return dict.fromkeys(ACTIONS, False)
    done, undone = history(compressions)
    changeable = is_here and row.status in CHANGEABLE
    endable = row.status is not TaskStatus.ARCHIVED and TaskStatus.CANCELLED in LEGAL_CHANGES[row.status]
    return {
        "compress": changeable,
        "undo": changeable and bool(done),
        "redo": changeable and bool(undone),
        "change": changeable,
        "pause": row.status in (TaskStatus.QUEUED, TaskStatus.RUNNING) and row.requested not in ("pause", "cancel"),
        # What waits is answered, and goes on by that.
        "resume": (row.status is TaskStatus.PAUSED and row.requested != "resume") or row.requested == "pause",
        "cancel": endable and row.requested != "cancel",
        "retry": TaskStatus.QUEUED in LEGAL_CHANGES[row.status],
        "fork": is_here,
    }


def standing(record: Compression, done: Sequence[int], undone: Sequence[int]) -> dict[str, bool]:
    """Whether a change has been undone, and whether it can be undone or redone now: see ``history``."""
    return {
        "is_undone": record.kind in UNDOABLE and record.id not in done,
        "can_undo": record.id in done,
        "can_redo": record.id in undone,
    }


def toolbar(call: Call) -> Page:
    """The buttons of a task, as they are now."""
    with open_task_head(call) as task:
        compressions: list[Compression] = []
        with suppress(OrihonError):  # the records are elsewhere, or there are none yet
            compressions = [change.record for change in task.followed.changes]
        is_here = task.store is not None
        can = can_of(call, task.row, compressions, is_here=is_here)
        return Page("task_toolbar.html", {"uuid": task.uuid, "row": task.row, "can": can, "is_here": is_here})


def export(call: Call) -> Download:
    """The task as a file. A sealed one is readable in the forms that are for people: nothing of it is written here."""
    form = cast("Form", call.given["format"])
    uuid = task_of(call)
    ending, media_type = _FILES[form]
    write: Any = partial(export_task, call.base, uuid, form, clear=form != "jsonl")
    return Download(f"{uuid}.{ending}", media_type, write)


PAGES = (
    PageRoute("/tasks/{task}/actions", toolbar),
    PageRoute("/tasks/{task}/export", export, query=(Field("format", choices=FORMS, default="html"),)),
)
