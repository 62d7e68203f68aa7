"""Changing what the model sees of a task: fold with a preview, undo, redo, unfold, edit, pin, rewind, fork.

Each of them calls the function that the command of the same name calls, and is recorded as made by ``web:<user>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orihon.compression.pages import WhyNot
from orihon.errors import InvalidInput
from orihon.settings.rungs import STRATEGIES
from orihon.store.folding import Folding
from orihon.system.json_shapes import AsJson, MayMiss, shape
from orihon.tasks.hand_edits import LEVELS, ChangedView, apply_preview, change_view, fold_text, preview_compression
from orihon.texts import text
from orihon.transfer.fork import fork_task
from orihon.values.records import Compression
from orihon.values.task import TaskStatus
from orihon.values.view import PlannedFold
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import maker, task_of

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
    return {**found.draft.as_dict(), "folds": folds, "preview": call.site.drafts.keep(found)}


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


# ---- single changes -------------------------------------------------------------------------------------------------


def undo(call: Call) -> ChangedView:
    """Take the last change back, or a given one."""
    return _changed(call, lambda folding: folding.undo(call.given["compression"], made_by=maker(call)))


def redo(call: Call) -> ChangedView:
    """Make it again."""
    return _changed(call, lambda folding: folding.redo(call.given["compression"], made_by=maker(call)))


def unfold(call: Call) -> ChangedView:
    """Open one fold."""
    return _changed(call, lambda folding: folding.unfold(call.given["fold"], made_by=maker(call)))


def old_text(call: Call) -> dict[str, Any]:
    """The text of a fold as it stands now, to be edited."""
    number = call.given["number"]
    return {"fold": number, "text": fold_text(call.base, task_of(call), number)}


def edit(call: Call) -> ChangedView:
    """Give a fold another text."""
    fold, new = call.given["fold"], call.given["text"]
    return _changed(call, lambda folding: folding.edit(fold, new, made_by=maker(call)))


def pin(call: Call) -> ChangedView:
    """Protect a message, or a line of it."""
    seq, line = call.given["seq"], call.given["line"]
    return _changed(call, lambda folding: folding.pin(seq, line, made_by=maker(call)))


def unpin(call: Call) -> ChangedView:
    """Take the protection away."""
    seq, line = call.given["seq"], call.given["line"]
    return _changed(call, lambda folding: folding.unpin(seq, line, made_by=maker(call)))


def rewind(call: Call) -> ChangedView:
    """Go back to an earlier step."""
    to, notice = call.given["to"], call.given["notice"]
    return _changed(call, lambda folding: folding.rewind(to, notice, made_by=maker(call)))


def fork(call: Call) -> dict[str, Any]:
    """A new task from a step of this one."""
    uuid, at = task_of(call), call.given["at"]
    new = fork_task(call.base, uuid, at)
    return {"uuid": new, "status": "paused", "forked_from": {"uuid": uuid, "at": at}}


def _changed(call: Call, act: Callable[[Folding], Compression]) -> ChangedView:
    uuid = task_of(call)
    with call.site.turns.of(uuid):
        return change_view(call.base, uuid, act)


_FOLDING = (
    Field("strategy", choices=tuple(STRATEGIES), about="strategy"),
    Field("level", choices=tuple(LEVELS), about="level"),
    Field("target", "number", low=0.0, high=1.0, about="target"),
)
_COMPRESSION = (Field("compression", "whole", about="compression"),)
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


ENDPOINTS = (
    _change(
        "compress/preview", preview, "previewCompression", *_FOLDING, answer=_PREVIEW, role="read", only_looks=True
    ),
    _change("compress", compress, "compress", *_APPLYING),
    _change("undo", undo, "undo", *_COMPRESSION),
    _change("redo", redo, "redo", *_COMPRESSION),
    _change("unfold", unfold, "unfold", _FOLD),
    _change("edit", edit, "editFold", _FOLD, Field("text", required=True, longest=LONGEST_TEXT, about="fold_text")),
    _change("pin", pin, "pin", *_LINE),
    _change("unpin", unpin, "unpin", *_LINE),
    _change(
        "rewind",
        rewind,
        "rewind",
        Field("to", "whole", required=True, about="to"),
        Field("notice", longest=LONGEST_TEXT, default="", about="notice"),
    ),
    _change("fork", fork, "fork", Field("at", "whole", required=True, about="at"), answer=_FORKED),
    Endpoint("GET", "/api/tasks/{task}/folds/{number}/text", old_text, "foldText", answer=shape(fold=int, text=str)),
)
