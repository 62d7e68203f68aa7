"""The page of a task and its tabs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orihon.catalogue.rows import CLEANED
from orihon.errors import NoSuchMessage, OrihonError
from orihon.reports.direct_cost import DirectCosts, direct_costs
from orihon.reports.overview import kept_summary
from orihon.settings import Settings
from orihon.tasks.chain import ChainLink, task_chain
from orihon.tasks.inheritance import inheritable_summary
from orihon.tasks.reader import StoredMessage, Stream, TaskStore
from orihon.tasks.view_reader import ViewReading
from orihon.transfer.export.message_view import (
    ContentBlock,
    ShownMessage,
    outcome,
    output,
    pretty,
    said_text,
    shown_message,
)
from orihon.transfer.export.story import StoryMessage
from orihon.values.records import Fold, ModelCall
from orihon.values.tokens.prices import PriceList
from orihon.values.view import history
from orihon.web.call import Call, Page, PageRoute
from orihon.web.conversation import Broken, Closed, ConversationRange, ConversationReader, Stretch, inside
from orihon.web.fields import Field
from orihon.web.pages.task_views import can_of, standing
from orihon.web.task_head import TaskHead, open_task_head, size_of, subject_of, title_of
from orihon.web.task_memory import ChangeMark, TaskMemory

_LONGEST_SUMMARY = 200_000


@dataclass(frozen=True, slots=True)
class ShownFold:
    """A fold with the change that brought it."""

    fold: Fold
    origin: ChangeMark | None
    text: Any
    is_visible: bool

    @property
    def saved(self) -> int:
        return self.fold.original_tokens - self.fold.tokens


@dataclass(frozen=True, slots=True)
class ShownItem:
    """Something of the conversation, and what kind of thing it is."""

    kind: str
    value: Any


def task_page(call: Call) -> Page:
    """The whole page."""
    with open_task_head(call, with_statistics=True) as task:
        shows = _head(call, task)
        tab = call.given["tab"]
        if tab != "conversation":
            return Page("task.html", shows | contents(call, task, tab))
        return Page("task.html", shows | _conversation(call, task) | {"can": shows["can"]})


def messages_piece(call: Call) -> Page:
    """A stretch of the conversation: before a message, after one, or about one."""
    with open_task_head(call) as task:
        reading = task.reading()
        return Page("task_stretch.html", _piece_shows(call, task, _stretch(call, task, reading), reading))


def message_piece(call: Call) -> Page:
    """One message, however long it is."""
    with open_task_head(call) as task:
        reading = task.reading()
        if not 1 <= call.given["number"] <= reading.last_seq:
            raise NoSuchMessage("seq", seq=call.given["number"], last=reading.last_seq)
        whole = ConversationRange(call.given["number"], call.given["number"], _previews(reading.folds))
        stretch = _conversation_reader(task, reading).after(whole, call.given["number"], 1)
        return Page("task_stretch.html", _piece_shows(call, task, stretch, reading, whole=True))


def fold_piece(call: Call) -> Page:
    """What a fold stands for: its messages, and the folds that it replaced; piece by piece, from anywhere in it."""
    with open_task_head(call) as task:
        reading = task.reading()
        fold = reading.fold(call.given["number"])
        run, reader = inside(task.records, fold), _conversation_reader(task, reading)
        at, before, after = (call.given[name] for name in ("at", "before", "after"))
        if at is not None:
            stretch = reader.around(run, min(max(at, run.first), run.last))
        elif before is not None:
            stretch = reader.before(run, before - 1)
        else:
            stretch = reader.after(run, run.first if after is None else after + 1)
        more = {
            "earlier": stretch.first if stretch.has_before and after is None else None,
            "later": stretch.last if stretch.has_after and before is None else None,
        }
        return Page("task_fold.html", _piece_shows(call, task, stretch, reading) | {"fold": fold} | more)


def head_piece(call: Call) -> Page:
    """What stands above everything, as it is now."""
    with open_task_head(call, with_statistics=True) as task:
        return Page("task_head.html", _head(call, task))


def _head(call: Call, task: TaskHead) -> dict[str, Any]:
    memory = task.memory
    absent = task.absent
    if task.store is not None:
        try:
            memory = task.followed
        except OrihonError as error:
            absent = error
    ledger = task.ledger
    return {
        "uuid": task.uuid,
        "row": task.row,
        "title": title_of(task),
        "subject": subject_of(task),
        "size": size_of(task),
        "counts": task.counts,
        "cost": task.cost,
        "children": task.children,
        "phase": ledger.phase,
        "ledger": ledger,
        "absent": absent,
        "is_here": task.store is not None,
        "is_cleaned": task.row is not None and CLEANED in task.row.metadata,
        "final_summary": final_summary(task),
        "tab": call.given.get("tab", "conversation"),
        "tabs": TABS,
        "can": can_of(call, task.row, [change.record for change in memory.changes], is_here=task.store is not None),
    }


def final_summary(task: TaskHead) -> Any:
    """What the task ended with; of one that is packed or gone, what the row keeps of it."""
    said = kept_summary(task.row)
    with suppress(OrihonError):
        kept = None if task.store is None else inheritable_summary(task.store)
        said = said if kept is None else kept[:_LONGEST_SUMMARY].decode("utf-8", "replace")
    return said_text(said) if said.strip() else None


def _conversation(call: Call, task: TaskHead) -> dict[str, Any]:
    """The newest of it, or what stands about the message that was asked for; where it cannot be read, why."""
    if task.store is None:
        return {"stretch": None, "damage": None, "at": None}
    try:
        reading = task.reading()
        stretch = _stretch(call, task, reading)
        return _piece_shows(call, task, stretch, reading) | {"damage": None, "at": call.given["at"]}
    except NoSuchMessage:
        raise
    except OrihonError as error:
        return {"stretch": None, "damage": error, "at": None}


def _stretch(call: Call, task: TaskHead, reading: ViewReading) -> Stretch:
    run = ConversationRange(1, reading.last_seq, reading.folds)
    reader = _conversation_reader(task, reading)
    given = call.given
    if given["at"] is not None:
        if given["at"] > reading.last_seq:
            raise NoSuchMessage("seq", seq=given["at"], last=reading.last_seq)
        return reader.around(run, given["at"])
    if given.get("after") is not None:
        return reader.after(run, given["after"] + 1)
    return reader.before(run, (given.get("before") or run.last + 1) - 1)


def _conversation_reader(task: TaskHead, reading: ViewReading) -> ConversationReader:
    return ConversationReader(task.records, reading.pins, task.ledger)


def _previews(folds: tuple[Fold, ...]) -> tuple[Fold, ...]:
    return tuple(fold for fold in folds if fold.form == "preview")


def _piece_shows(
    call: Call, task: TaskHead, stretch: Stretch, reading: ViewReading, *, whole: bool = False
) -> dict[str, Any]:
    visible = {fold.id for fold in reading.folds}
    return {
        "uuid": task.uuid,
        "stretch": stretch,
        "items": [shown_item(item, task.followed, visible, whole=whole) for item in stretch.items],
        "can": can_of(call, task.row, ()),
        "compression": reading.compression,
    }


def shown_item(item: Any, memory: TaskMemory, visible: set[int], *, whole: bool = False) -> ShownItem:
    """An item of the conversation, ready for a template."""
    match item:
        case StoryMessage():
            shown: ShownMessage = shown_message(item, whole=whole)
            return ShownItem("message", shown)
        case Closed(fold):
            is_visible = fold.id in visible
            return ShownItem("fold", ShownFold(fold, memory.origins.get(fold.id), said_text(fold.text), is_visible))
        case Broken():
            return ShownItem("broken", item)
    return ShownItem("phase" if hasattr(item, "number") else "question", item)


# ---- tabs ------------------------------------------------------------------------------------------------------------

TABS = ("conversation", "calls", "tools", "plans", "summaries", "changes", "questions", "chain")
_PAGE = 50
_LONGEST_RESULT = 4_000
_MOST_LOOKED_AT = 2_000


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


@dataclass(frozen=True, slots=True)
class ShownModelCall:
    """A request to a model: the answer that it got, and what it took."""

    answer: StoredMessage
    cost: float | None
    direct: float | None  # what it would have cost without the proxy, where that is known

    @property
    def cached(self) -> float | None:
        """The share of what went out that the provider had in its cache."""
        usage = None if self.answer.call is None else self.answer.call.usage
        return None if usage is None or not usage.input else usage.cached / usage.input


def _calls(call: Call, task: TaskHead) -> dict[str, Any]:
    """The requests to models, the newest first; of a long stretch without any, no more than the stretch."""
    if task.store is None:
        return {"calls": [], "more": None, "against": None}
    against = _against_direct(task, task.store)
    last = min(task.store.count("messages"), (call.given["before"] or 10**15) - 1)
    first, found = last + 1, list[ShownModelCall]()
    while first > 1 and len(found) < _PAGE and last - first < _MOST_LOOKED_AT:
        start = max(1, first - _PAGE)
        for stored in reversed(list(task.store.messages(start, first - 1))):
            if stored.call is not None:
                found.append(ShownModelCall(stored, _cost(stored.call, task.settings), against.costs.get(stored.seq)))
        first = start
    shown = against if against.direct else None
    return {"calls": found, "more": first if first > 1 else None, "against": shown}


def _against_direct(task: TaskHead, store: TaskStore) -> DirectCosts:
    """What the requests cost against what the client's own would have; calls for summaries are on our side."""
    prices, provider = PriceList(task.settings), task.settings.llm.provider
    window = None if task.row is None else task.row.context_length
    found = direct_costs(store, window, lambda model: prices.of(provider, model))
    found.ours += 0.0 if task.cost is None else task.cost.summary_cost
    return found


def _cost(made: ModelCall, settings: Settings) -> float | None:
    prices = PriceList(settings).of(settings.llm.provider, made.model)
    if made.cost is not None or prices is None or made.usage is None:
        return made.cost
    return prices.of_tokens(made.usage.input, made.usage.cached, made.usage.output)


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
    "calls": _calls,
    "tools": _tools,
    "plans": _plans,
    "summaries": _summaries,
    "changes": _changes,
    "questions": _questions,
    "chain": _chain,
}


# ---- addresses ----------------------------------------------------------------------------------------------------

_AT = Field("at", "whole")
PAGES = (
    PageRoute(
        "/tasks/{task}",
        task_page,
        "tasks",
        query=(_AT, Field("tab", choices=TABS, default="conversation"), Field("before", "whole")),
    ),
    PageRoute(
        "/tasks/{task}/messages",
        messages_piece,
        "tasks",
        query=(Field("before", "whole"), Field("after", "whole", low=0), _AT),
    ),
    PageRoute("/tasks/{task}/head", head_piece, "tasks"),
    PageRoute("/tasks/{task}/messages/{number}", message_piece, "tasks"),
    PageRoute(
        "/tasks/{task}/folds/{number}",
        fold_piece,
        "tasks",
        query=(_AT, Field("before", "whole"), Field("after", "whole")),
    ),
)
