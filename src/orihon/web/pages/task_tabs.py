"""What a task has besides its conversation: tools, plans, summaries, changes of the view, questions, its chain."""

from __future__ import annotations

from typing import Any

from orihon.errors import OrihonError
from orihon.store.contract import Stream
from orihon.tasks.chain import ChainLink, task_chain
from orihon.transfer.export.message_view import ContentBlock, outcome, output, said_text
from orihon.transfer.export.pieces import pretty
from orihon.values.records import Fold
from orihon.values.view import history
from orihon.web.call import Call
from orihon.web.pages.actions import standing
from orihon.web.task_head import TaskHead
from orihon.web.task_memory import ChangeMark

TABS = ("conversation", "tools", "plans", "summaries", "changes", "questions", "chain")
_PAGE = 50
_LONGEST_RESULT = 4_000


def contents(call: Call, task: TaskHead, tab: str) -> dict[str, Any]:
    """What a tab shows; an error in its place where it cannot be read."""
    try:
        return {"damage": None, **_CONTENTS[tab](call, task)}
    except OrihonError as error:
        return {"damage": error}


def _records(call: Call, task: TaskHead, stream: Stream) -> tuple[list[dict[str, Any]], int | None]:
    """A page of a stream, the newest first, and where the next page begins."""
    if task.store is None:
        return [], None
    last = min(task.store.count(stream), (call.given["before"] or 10**15) - 1)
    first = max(1, last - _PAGE + 1)
    return list(task.store.read(stream, first, last))[::-1], first if first > 1 else None


def _tools(call: Call, task: TaskHead) -> dict[str, Any]:
    records, more = _records(call, task, "tools")
    tools = [
        {
            "record": record,
            "outcome": outcome(record),
            "arguments": _value(record.get("arguments")),
            "result": _value(record.get("result")),
        }
        for record in records
    ]
    return {"tools": tools, "more": more}


def _value(value: Any) -> ContentBlock | None:
    said = "" if value is None else pretty(value)
    return output(said, _LONGEST_RESULT) if said.strip() not in ("", "{}", "null") else None


def _plans(call: Call, task: TaskHead) -> dict[str, Any]:
    records, more = _records(call, task, "planning")
    plans = [{"record": record, "content": _plan(record["plan_content"])} for record in records]
    return {"plans": plans, "more": more}


def _plan(content: Any) -> ContentBlock:
    return said_text(content) if isinstance(content, str) else output(pretty(content))


def _summaries(call: Call, task: TaskHead) -> dict[str, Any]:
    """Every text that was ever written in the place of messages, also what was replaced or undone since."""
    if task.store is None:
        return {"summaries": [], "more": None}
    last = min(task.store.count("summaries"), (call.given["before"] or 10**15) - 1)
    first = max(1, last - _PAGE + 1)
    visible = {fold.id for fold in task.reading().folds}
    summaries = [
        {
            "fold": fold,
            "text": said_text(fold.text),
            "origin": task.followed.origins.get(fold.id),
            "is_visible": fold.id in visible,
        }
        for fold in reversed(task.store.folds(range(first, last + 1)))
    ]
    return {"summaries": summaries, "more": first if first > 1 else None}


def _changes(call: Call, task: TaskHead) -> dict[str, Any]:
    """Every change of the view with its folds; whether it stands, and whether it can be undone or redone now."""
    memory = task.memory if task.store is None else task.followed
    done, undone = history([change.record for change in memory.changes])
    before = call.given["before"] or 10**15
    shown = [change for change in memory.changes if change.id < before][-_PAGE:]
    folds = _folds(task, shown)
    changes = [
        {
            "mark": change,
            "record": change.record,
            **standing(change.record, done, undone),
            "folds": [folds[number] for number in change.record.folds[:_PAGE] if number in folds],
        }
        for change in reversed(shown)
    ]
    return {"changes": changes, "more": shown[0].id if shown and shown[0].id > 1 else None}


def _folds(task: TaskHead, changes: list[ChangeMark]) -> dict[int, Fold]:
    wanted = sorted({number for change in changes for number in change.record.folds[:_PAGE]})
    return {} if task.store is None else {fold.id: fold for fold in task.store.folds(wanted)}


def _questions(call: Call, task: TaskHead) -> dict[str, Any]:
    asked = [
        {"asked": one, "question": said_text(one.question), "context": said_text(one.context) if one.context else None}
        for one in reversed(task.ledger.checkpoints)
    ]
    return {"questions": asked, "phases": task.ledger.phases, "more": None}


def _chain(call: Call, task: TaskHead) -> dict[str, Any]:
    if task.row is None:
        return {"links": [], "more": None}
    links: list[ChainLink] = task_chain(call.base, task.uuid, user=call.visitor.only)
    return {"links": links, "more": None}


_CONTENTS = {
    "tools": _tools,
    "plans": _plans,
    "summaries": _summaries,
    "changes": _changes,
    "questions": _questions,
    "chain": _chain,
}
