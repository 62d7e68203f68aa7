"""Changing tasks: what the model sees of one, its place in line, and the answers that people give.

Each calls the function that the command of the same name calls; a change of a view is recorded as made by
``web:<user>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from orihon.compression.pages import WhyNot
from orihon.errors import InvalidInput
from orihon.reports.notifications import known_sections
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.queue import MAX_PROMPT_BYTES, QueueAnswer
from orihon.settings.rungs import STRATEGIES
from orihon.system.json_shapes import AsJson, MayMiss, shape
from orihon.tasks.approvals import answers
from orihon.tasks.approvals.answers import Answered, PendingApproval, pending
from orihon.tasks.hand_edits import LEVELS, ChangedView, apply_preview, change_view, fold_text, preview_compression
from orihon.texts import text
from orihon.transfer.fork import fork_task
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from orihon.values.view import PlannedFold
from orihon.web.call import Call, Endpoint, maker, task_of
from orihon.web.fields import Field

LONGEST_TEXT = 1_000_000


@dataclass(frozen=True, slots=True)
class MeasuredFold(AsJson):
    """A planned fold, the tokens that it replaces, and its own."""

    json_fields = "*fold before_tokens after_tokens"

    fold: PlannedFold
    before_tokens: int
    after_tokens: int


_PREVIEW = shape(
    preview=str | None,
    strategy=str,
    before_tokens=MayMiss(int),
    after_tokens=MayMiss(int),
    goal=MayMiss(int),
    nothing=MayMiss(WhyNot),
    why=MayMiss(str),
    folds=list[MeasuredFold],
)
_FORKED = shape(uuid=str, status=TaskStatus, forked_from=shape(uuid=str, at=int))


# ---- folding ---------------------------------------------------------------------------------------------------------


def preview(call: Call) -> dict[str, Any]:
    """What a compression would do. The answer names the preview, so that this very one can be applied."""
    found = preview_compression(call.base, task_of(call), **_options(call))
    if found.draft is None:
        assert found.nothing is not None
        return {**found.nothing.as_dict(), "preview": None, "why": text(f"nothing.{found.nothing.reason.value}")}
    folds = [MeasuredFold(fold, *sizes) for fold, sizes in zip(found.draft.plan.folds, found.sizes, strict=True)]
    return {**found.draft.as_dict(), "folds": folds, "preview": call.site.drafts.keep(found, call.visitor.user)}


def compress(call: Call) -> ChangedView:
    """Fold: a preview as it was shown, with other texts where somebody has changed them; without one, at once."""
    uuid, name = task_of(call), call.given["preview"]
    if name is not None:
        planned = call.site.drafts.get(name, uuid)
    else:
        planned = preview_compression(call.base, uuid, **_options(call))
    planned = planned.with_texts(_texts(call.given["texts"] or {}))
    with call.site.turns.of(uuid):
        return apply_preview(call.base, planned, made_by=maker(call))


def _options(call: Call) -> dict[str, Any]:
    return {name: call.given[name] for name in ("strategy", "level", "target")}


def _texts(given: Mapping[str, str]) -> dict[int, str]:
    if not all(name.isascii() and name.isdecimal() for name in given):
        raise InvalidInput("field", field="texts", value=", ".join(given)[:100], wanted='{"SEQ": "TEXT"}')
    return {int(name): new for name, new in given.items()}


# ---- single changes --------------------------------------------------------------------------------------------------


def old_text(call: Call) -> dict[str, Any]:
    """The text of a fold as it stands now, to be edited."""
    number = call.given["number"]
    return {"fold": number, "text": fold_text(call.base, task_of(call), number)}


def fork(call: Call) -> dict[str, Any]:
    """A new task from a step of this one."""
    uuid, at = task_of(call), call.given["at"]
    new = fork_task(call.base, uuid, at)
    return {"uuid": new, "status": "paused", "forked_from": {"uuid": uuid, "at": at}}


_FOLDING = (
    Field("strategy", choices=tuple(STRATEGIES), about="strategy"),
    Field("level", choices=tuple(LEVELS), about="level"),
    Field("target", "number", low=0.0, high=1.0, about="target"),
)
_COMPRESSION = Field("compression", "whole", about="compression")
_NOTICE = Field("notice", longest=LONGEST_TEXT, default="", about="notice")
_FOLD = Field("fold", "whole", required=True, about="fold")
_LINE = (
    Field("seq", "whole", required=True, about="seq"),
    Field("line", longest=LONGEST_TEXT, default="", about="line"),
)
_APPLYING = (
    *_FOLDING,
    Field("preview", longest=100, about="preview"),
    Field("texts", "map", longest=LONGEST_TEXT, about="texts"),
)


def _change(path: str, act: Callable[[Call], Any], name: str, *body: Field, **more: Any) -> Endpoint:
    options: dict[str, Any] = {"answer": ChangedView, "role": "operate"} | more
    return Endpoint("POST", f"/api/tasks/{{task}}/{path}", act, name, body=body, **options)


def _act(act: str, name: str, *body: Field) -> Endpoint:
    """One change by hand; the fields of the body are its values."""

    def made(call: Call) -> ChangedView:
        uuid, values = task_of(call), [call.given[field.name] for field in body]
        with call.site.turns.of(uuid):
            return change_view(call.base, uuid, act, *values, made_by=maker(call))

    return _change(act, made, name, *body)


_VIEW_ENDPOINTS = (
    _change(
        "compress/preview", preview, "previewCompression", *_FOLDING, answer=_PREVIEW, role="read", only_looks=True
    ),
    _change("compress", compress, "compress", *_APPLYING),
    _act("undo", "undo", _COMPRESSION),
    _act("redo", "redo", _COMPRESSION),
    _act("unfold", "unfold", _FOLD),
    _act("edit", "editFold", _FOLD, Field("text", required=True, longest=LONGEST_TEXT, about="fold_text")),
    _act("pin", "pin", *_LINE),
    _act("unpin", "unpin", *_LINE),
    _act("rewind", "rewind", Field("to", "whole", required=True, about="to"), _NOTICE),
    _change("fork", fork, "fork", Field("at", "whole", required=True, about="at"), answer=_FORKED),
    Endpoint("GET", "/api/tasks/{task}/folds/{number}/text", old_text, "foldText", answer=shape(fold=int, text=str)),
)


# ---- the queue -------------------------------------------------------------------------------------------------------

_SOURCE = "web"
_PRIORITY = 1000


def enqueue(call: Call) -> QueueAnswer:
    """Put a task in line."""
    if not call.given["prompt"].strip():
        raise InvalidInput("no_prompt")
    owner, _, repo = call.given["repository"].rpartition("/")
    user = call.given["user"] or call.visitor.user
    if call.visitor.only not in (None, user):
        raise InvalidInput("other_user", user=user)
    key = TaskKey(_SOURCE, owner, repo, "task", call.given["id"] or new_uuid(), user)
    with closing(open_queue(call.base)) as queue:
        uuid = queue.enqueue(key, prompt=call.given["prompt"], source=_SOURCE, priority=call.given["priority"])
        return QueueAnswer(queue.catalogue.tasks.get(uuid))


def _queued(act: str) -> Endpoint:
    """What somebody wants to be done with a task: a method of the queue, whichever kind of queue it is."""

    def asked(call: Call) -> QueueAnswer:
        uuid = task_of(call)
        with closing(open_queue(call.base)) as queue:
            return QueueAnswer(getattr(queue, act)(uuid))

    return Endpoint("POST", f"/api/tasks/{{task}}/{act}", asked, f"{act}Task", answer=QueueAnswer, role="operate")


_NEW = (
    Field("prompt", required=True, longest=MAX_PROMPT_BYTES, about="prompt"),
    Field("repository", default="", longest=400, about="repository"),
    Field("id", longest=200, about="id"),
    Field("user", longest=200, about="for_user"),
    Field("priority", "whole", default=0, low=-_PRIORITY, high=_PRIORITY, about="priority"),
)

_QUEUE_ENDPOINTS = (
    Endpoint("POST", "/api/tasks", enqueue, "enqueueTask", body=_NEW, answer=QueueAnswer, role="operate"),
    *map(_queued, ("pause", "resume", "cancel", "retry")),
)


# ---- answers of people -----------------------------------------------------------------------------------------------

_LONGEST = 100_000


def list_pending(call: Call) -> dict[str, Any]:
    """Every open question, the oldest first."""
    found = pending(call.base, user=call.visitor.only, memory=call.site.questions)
    return {"pending": found}


def sections(call: Call) -> dict[str, Any]:
    """The sections that an answer may name, so that they are opened again."""
    return {"sections": known_sections(call.base, task_of(call))}


def _answer(name: str, answer: Callable[..., Answered], *body: Field) -> Endpoint:
    """An answer to a question; the fields of the body say what."""

    def given(call: Call) -> Answered:
        said = {field.name: () if call.given[field.name] is None else call.given[field.name] for field in body}
        by, number = call.visitor.user, call.given["checkpoint"]
        return answer(call.base, task_of(call), by=by, checkpoint=number, **said)

    number = Field("checkpoint", "whole", about="checkpoint")
    path = f"/api/tasks/{{task}}/{name}"
    return Endpoint("POST", path, given, f"{name}Task", body=(*body, number), answer=Answered, role="approve")


_SECTIONS = Field("sections", "texts", about="sections")
_INSTRUCTIONS = Field("instructions", required=True, longest=_LONGEST, about="instructions")
_APPROVAL_ENDPOINTS = (
    Endpoint("GET", "/api/approvals", list_pending, "listApprovals", answer=shape(pending=list[PendingApproval])),
    Endpoint("GET", "/api/tasks/{task}/sections", sections, "listSections", answer=shape(sections=list[str])),
    _answer("approve", answers.approve, Field("reason", default="", longest=_LONGEST, about="reason")),
    _answer("reject", answers.reject, Field("reason", required=True, longest=_LONGEST, about="reason"), _SECTIONS),
    _answer("revise", answers.revise, _INSTRUCTIONS, _SECTIONS),
)
ENDPOINTS = (*_VIEW_ENDPOINTS, *_QUEUE_ENDPOINTS, *_APPROVAL_ENDPOINTS)
