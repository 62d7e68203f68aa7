"""The tools that look: ``search_history``, ``recall``, ``task_overview``, ``list_tasks``.

Each calls what the command and the page of that name call. What comes back says of every text who said it, when and in
which task; it is JSON, so that no text can pretend to be said by somebody else. Answers are bounded: what is long comes
in pieces, and ``next`` says where to go on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mcp_types import ToolAnnotations
from pydantic import Field

from orihon.errors import OrihonError
from orihon.mcp.desk import Desk, quoted, told_by_tool
from orihon.reports.overview import TaskOverview, task_overview
from orihon.reports.task_list import WantedTasks, meter_of, page_of_tasks, title_of
from orihon.search.history import search_history
from orihon.search.recall import CHARACTERS, MOST_CHARACTERS, RecalledMessage, Rest, recall
from orihon.tasks.notes import NOTE
from orihon.tasks.reader import read_anew, reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.texts import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.mcpserver import MCPServer

    from orihon.catalogue import TaskRow
    from orihon.tasks.base import OpenBase

_LOOKS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False)
_MOST_TASKS, _MOST_HITS, _MOST_SHOWN = 100, 50, 50
#: Of each text in an overview; all of it is a ``recall`` away.
_EXCERPT = 1_000
_SECONDS = 20.0  # for the index to catch up; what is missing then is said


def about(name: str, **limits: Any) -> Any:
    """What a parameter is for, in the reader's language, and how large it may be."""
    return Field(description=text(f"mcp.parameters.{name}"), **limits)


# ---- what comes back ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskLine:
    """One task of a list."""

    task: str
    label: str
    title: str
    status: str
    user: str
    created_at: str
    updated_at: str
    messages: int
    usage: float | None  # how full its context is: 0.7 is 70 %


@dataclass(frozen=True)
class TaskLines:
    tasks: list[TaskLine]
    next: str | None  # ``before`` of the next page


@dataclass(frozen=True)
class FoundPlace:
    """One place where the words stand. Of a message ``number`` is its seq."""

    task: str
    label: str
    status: str
    kind: str
    number: int
    time: str
    role: str
    tools: list[str]
    fold: int | None
    covers: list[int] | None
    text: str | None


@dataclass(frozen=True)
class FoundList:
    about: str
    matches: int
    has_more: bool
    complete: bool  # False: the index was still being made
    hits: list[FoundPlace]


@dataclass(frozen=True)
class NewestMessage:
    """A message, cut where it is long."""

    seq: int
    role: str
    name: str
    time: str
    text: str
    cut: bool


@dataclass(frozen=True)
class Pinned:
    seq: int
    line: str  # empty: the whole message


@dataclass(frozen=True)
class Folded:
    fold: int
    start_seq: int
    end_seq: int
    trust: str | None  # the lowest of those who said what it was made of
    text: str
    cut: bool


@dataclass(frozen=True)
class KeptNote:
    number: int
    created_at: str
    by: str
    note: str


@dataclass(frozen=True)
class Overview:
    about: str
    task: TaskLine
    records: str  # here, archived, removed, none
    tokens: int | None
    budget: int | None
    inherits_from: str | None
    final_summary: str
    notes: list[KeptNote]
    pins: list[Pinned]
    folds: list[Folded]
    last_messages: list[NewestMessage]


@dataclass(frozen=True)
class Recollection:
    """``next`` says with which ``seq`` and ``offset`` to ask for the rest."""

    about: str
    task: str
    last_seq: int
    matches: int
    messages: list[RecalledMessage]
    next: Rest | None


# ---- the tools ---------------------------------------------------------------------------------------------------


def add_reading_tools(server: MCPServer, desk: Desk) -> None:
    """The tools that change nothing."""

    def list_tasks(
        status: Annotated[str | None, about("status")] = None,
        repository: Annotated[str | None, about("repository")] = None,
        search: Annotated[str | None, about("words_in_tasks")] = None,
        since: Annotated[str | None, about("since")] = None,
        limit: Annotated[int, about("limit", ge=1, le=_MOST_TASKS)] = 20,
        before: Annotated[str | None, about("before")] = None,
    ) -> TaskLines:
        wanted = WantedTasks(status=status, repository=repository, search=search, since=since, before=before)
        page = page_of_tasks(desk.base, wanted, limit=limit, user=desk.visitor.only)
        return TaskLines([_line(desk.base, one.row) for one in page.tasks], page.next)

    def search(
        query: Annotated[str, about("query")],
        task: Annotated[str | None, about("in_task")] = None,
        roles: Annotated[list[str], about("roles")] = [],  # noqa: B006 - never changed
        kinds: Annotated[list[str], about("kinds")] = [],  # noqa: B006 - never changed
        since: Annotated[str | None, about("since")] = None,
        until: Annotated[str | None, about("until")] = None,
        limit: Annotated[int, about("limit", ge=1, le=_MOST_HITS)] = 10,
    ) -> FoundList:
        return _search(desk, query, task, roles, kinds, since, until, limit)

    def recall_messages(
        task: Annotated[str, about("task")],
        seq: Annotated[str | int | None, about("seq")] = None,
        words: Annotated[str | None, about("words")] = None,
        fold: Annotated[int | None, about("fold", ge=1)] = None,
        offset: Annotated[int, about("offset", ge=0)] = 0,
        characters: Annotated[int, about("characters", ge=1, le=MOST_CHARACTERS)] = CHARACTERS,
    ) -> Recollection:
        named: dict[str, Any] = {"seq": seq, "words": words, "fold": fold, "offset": offset, "characters": characters}
        found = recall(desk.base, desk.task(task), **named)
        return Recollection(quoted(), found.task, found.last_seq, found.matches, list(found.messages), found.next)

    def overview(
        task: Annotated[str, about("task")],
        last: Annotated[int, about("last", ge=0, le=_MOST_SHOWN)] = 5,
    ) -> Overview:
        return overview_of(desk, desk.task(task), last)

    _add(server, "search_history", search)
    _add(server, "recall", recall_messages)
    _add(server, "task_overview", overview)
    _add(server, "list_tasks", list_tasks)


def _add(server: MCPServer, name: str, act: Callable[..., Any]) -> None:
    add_tool(server, name, act, _LOOKS)


def add_tool(server: MCPServer, name: str, act: Callable[..., Any], hints: ToolAnnotations) -> None:
    """A tool under its name, with its title and description in the reader's language."""
    title, description = (text(f"mcp.tools.{name}.{part}") for part in ("title", "about"))
    server.add_tool(told_by_tool(act), name, title, description, hints, structured_output=True)


def _search(
    desk: Desk,
    query: str,
    task: str | None,
    roles: list[str],
    kinds: list[str],
    since: str | None,
    until: str | None,
    limit: int,
) -> FoundList:
    only = desk.visitor.only
    found = search_history(
        desk.base,
        query,
        tasks=() if task is None else (desk.task(task),),
        users=() if only is None else (only,),
        roles=roles,
        kinds=kinds,
        since=since,
        until=until,
        limit=limit,
        seconds=_SECONDS,
    )
    hits = [
        FoundPlace(
            task=hit.uuid,
            label=hit.label,
            status=hit.status,
            kind=hit.kind,
            number=hit.number,
            time=hit.time,
            role=hit.role,
            tools=list(hit.tools),
            fold=hit.fold,
            covers=None if hit.covers is None else list(hit.covers),
            text=None if hit.snippet is None else hit.snippet.text,
        )
        for hit in found.hits
    ]
    return FoundList(quoted(), found.matches, found.has_more, found.is_current, hits)


def overview_of(desk: Desk, uuid: str, last: int = 5) -> Overview:
    """One task at a glance: its figures, and the beginnings of what is pinned, folded, noted and was said last."""
    found = task_overview(desk.base, uuid, last=last, user=desk.visitor.only)
    row, figures = found.row, found.figures
    notes, pins, folds = _kept(desk.base, uuid) if found.records == "here" else ([], [], [])
    return Overview(
        about=quoted(),
        task=_unknown(found) if row is None else _line(desk.base, row),
        records=found.records,
        tokens=None if figures is None else figures.view.tokens,
        budget=None if figures is None else figures.view.budget,
        inherits_from=None if row is None else row.inherits_from,
        final_summary=found.final_summary[: 4 * _EXCERPT],
        notes=notes,
        pins=pins,
        folds=folds,
        last_messages=[_said(stored.seq, stored.message, stored.timestamp) for stored in found.last_messages],
    )


@read_anew
def _kept(base: OpenBase, task: str) -> tuple[list[KeptNote], list[Pinned], list[Folded]]:
    """Notes, pins and folds: the newest of each."""
    with reading_task(base, task) as (store, row):
        view = ViewReading(store, row, base.settings)
        last = store.count("planning")
        plans = store.read("planning", max(1, last - _MOST_SHOWN + 1), last) if last else iter(())
        notes = [note_of(plan) for plan in plans if plan["plan_type"] == NOTE]
        pins = [Pinned(pin.seq, pin.line[:_EXCERPT]) for pin in view.pins[-_MOST_SHOWN:]]
        folds = [
            Folded(fold.id, fold.start_seq, fold.end_seq, fold.trust, fold.text[:_EXCERPT], len(fold.text) > _EXCERPT)
            for fold in view.folds[-_MOST_SHOWN:]
        ]
    return notes, pins, folds


def note_of(plan: dict[str, Any]) -> KeptNote:
    """A note, as ``remember`` keeps it."""
    content = plan["plan_content"] if isinstance(plan["plan_content"], dict) else {"note": plan["plan_content"]}
    said = str(content.get("note", ""))
    return KeptNote(int(plan["id"]), str(plan["created_at"]), str(content.get("by", "")), said[: 4 * _EXCERPT])


def _said(seq: int, message: Any, time: str) -> NewestMessage:
    said = message.text
    name = message.name or message.tool_name or ", ".join(call.name for call in message.tool_calls)
    return NewestMessage(seq, message.role, name, time, said[:_EXCERPT], len(said) > _EXCERPT)


def _line(base: OpenBase, row: TaskRow) -> TaskLine:
    meter = None
    with suppress(OrihonError):  # the settings may name a ladder that is not there
        meter = meter_of(row, base.settings)
    return TaskLine(
        task=row.uuid,
        label=row.key.label,
        title=title_of(row),
        status=row.status.value,
        user=row.user,
        created_at=row.created_at,
        updated_at=row.updated_at,
        messages=row.total_messages,
        usage=None if meter is None else round(meter.usage, 4),
    )


def _unknown(found: TaskOverview) -> TaskLine:
    """A task that only its folder knows."""
    messages = 0 if found.figures is None else found.figures.messages
    return TaskLine(found.uuid, found.uuid, "", "-", "", "", "", messages, None)
