"""Server-sent events: answers that go on while a page is open, about the whole site or about one task.

Each piece is rendered once for all pages that show it in the same way. When many messages have come at once, only
their number is sent: a page fetches what it needs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orihon.errors import OrihonError
from orihon.reports.task_list import tasks_by_uuid
from orihon.system import jsonio
from orihon.system.crowd import Crowd
from orihon.texts import speaking
from orihon.values.task import TaskStatus
from orihon.web.broadcaster import Listener, TopicState
from orihon.web.call import Call, task_of
from orihon.web.fields import Field, from_texts
from orihon.web.pages.task import messages_piece
from orihon.web.renderer import language_of, templates
from orihon.web.site import Site
from orihon.web.snapshots import SITE, SiteDelta, task_topic

#: Something is said at least so often, so that both sides notice when the other one is gone.
_SECONDS_BETWEEN_SIGNS = 15.0
_RETRY_MILLISECONDS = 1000


def events(
    request: Request,
    site: Site,
    topic: str,
    *,
    render: Callable[[TopicState], Awaitable[TopicState | None]],
    numbered: str = "",
) -> StreamingResponse:
    """The changes of a topic, as long as the one who hears them is let in.

    ``render`` makes of a state what this page is sent, if anything; ``numbered`` names its number in it.
    """

    async def stream() -> AsyncIterator[bytes]:
        yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
        with site.live.listening(topic) as listener, _counted(site.streams, request, listener):
            while not await request.is_disconnected():
                state = await listener.next(_SECONDS_BETWEEN_SIGNS)
                if listener.is_over or not await request.state.is_still_in():
                    return
                if state is None:
                    yield b": still here\n\n"
                    continue
                said = await render(state)
                if said is None:
                    continue
                number = f"id: {said[numbered]}\n" if numbered else ""
                yield number.encode() + b"event: change\ndata: " + jsonio.encode(said) + b"\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """One that may have to go: the user whose it is has too many, or more than all others."""

    peer: str
    end: Callable[[], None]
    rank: int = 0


@contextmanager
def _counted(streams: Crowd, request: Request, listener: Listener) -> Iterator[None]:
    connection = request.state.connection
    connection.part = listener.dismiss
    stream = _Stream(f"user {request.state.visitor.user}", connection.dismiss)
    streams.admit(stream)
    try:
        yield
    finally:
        streams.leave(stream)


# ---- one task --------------------------------------------------------------------------------------------------------

#: More new messages than these, or rows of more tasks, are not pushed.
MOST_PUSHED = 20
_MOST_KEPT = 64


class Rendered:
    """Pieces that have been rendered lately. Who asks while one is being made waits for that one."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, asyncio.Future[str]] = OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = asyncio.ensure_future(run_in_threadpool(make))
            while len(self._made) > _MOST_KEPT:
                self._made.popitem(last=False)
        return await asyncio.shield(self._made[key])


def _html(template: str, shows: Mapping[str, Any]) -> str:
    return templates().get_template(template).render(shows).encode("utf-8", "backslashreplace").decode()


@dataclass(slots=True)
class TaskEvents:
    """The events that one page is sent. ``after`` is the last message that it has."""

    call: Call
    language: str
    rendered: Rendered
    after: int

    async def of(self, state: TopicState) -> TopicState:
        """What to tell it about this state."""
        last = state["messages"]
        html = ""
        if 0 < last - self.after <= MOST_PUSHED:
            may_change = self.call.visitor.may("operate") and not self.call.site.read_only
            key = (self.call.given["task"], self.after, last, state["compressions"], self.language, may_change)
            html = await self.rendered.get(key, self._render)
        self.after = max(self.after, last)
        return {**state, "html": html}

    def _render(self) -> str:
        given = {"task": self.call.given["task"], "after": self.after, "before": None, "at": None}
        with speaking(self.language):
            try:
                page = messages_piece(Call(self.call.site, self.call.visitor, given, self.call.address))
            except OrihonError:  # on its way somewhere: the page asks for it
                return ""
            return _html(page.template, page.shows)


# ---- the whole site --------------------------------------------------------------------------------------------------

#: Of more new notices than these a page looks for itself which of them are for it.
_MOST_NOTICES = 200


@dataclass(slots=True)
class SiteEvents:
    """The events that one page is sent. ``user``: beside whom there is nobody for its reader."""

    site: Site
    language: str
    rendered: Rendered
    with_rows: bool = False
    user: str | None = None
    _told: SiteDelta = field(default_factory=SiteDelta)
    _own: dict[str, Any] = field(default_factory=dict)  # what a reader of their own tasks has been told last
    _heard: int = 0  # the last notice of all that was looked at for them

    async def of(self, state: TopicState) -> TopicState | None:
        """What to tell it about this state; ``None`` where that is nothing."""
        told = self._told.of(state)
        if self.user is not None:
            told = await self._for_user(self.user, told, state)
            if not told:
                return None
        uuids = tuple(told["tasks"])
        if not self.with_rows or not 0 < len(uuids) <= MOST_PUSHED:
            return told
        key = ("rows", state["era"], state["round"], uuids, self.language)
        return {**told, "rows": await self.rendered.get(key, lambda: self._rows(uuids))}

    async def _for_user(self, user: str, told: dict[str, Any], state: TopicState) -> dict[str, Any]:
        """The same as far as it concerns one user; empty where nothing does."""
        before, heard = self._own, told["notice"] if told["first"] else self._heard
        key = ("own", user, state["era"], state["round"], told["first"], tuple(told["tasks"]), heard)
        found = await self.rendered.get(key, lambda: self._of_user(user, told, heard))
        own: dict[str, Any] = jsonio.decode(found.encode()) if found else {"tasks": [], "missed": True}
        self._heard = told["notice"]
        count = before.get("round", 0) + 1
        usual = {"counts": {}, "waiting": 0, "notice": told["notice"]} | before
        self._own = {**told, **usual, **own, "first": told["first"], "round": count, "workers": 0}
        self._own["missed"] = told["missed"] or "missed" in own
        is_news = any(self._own[name] != before.get(name) for name in ("notice", "counts"))
        return self._own if told["first"] or self._own["tasks"] or self._own["missed"] or is_news else {}

    def _of_user(self, user: str, told: Mapping[str, Any], heard: int) -> str:
        """Which of the tasks that have changed are this user's, and how they stand; nothing if nobody can say now."""
        try:
            catalogue = self.site.base.open_catalogue()
            if catalogue is None:
                return jsonio.encode({"tasks": []}).decode()
            is_new = told["notice"] > heard
            notices = catalogue.outbox.rows(since=heard, limit=_MOST_NOTICES) if is_new else []
            asked = {*told["tasks"], *(one.task for one in notices if one.task is not None)}
            own = {row.uuid for row in catalogue.tasks.find_all(sorted(asked)) if row.user == user}
            counts = {status.value: count for status, count in catalogue.statistics.count_by_status(user).items()}
        except OrihonError:
            return ""
        tasks = [uuid for uuid in told["tasks"] if uuid in own]
        found = {"tasks": tasks, "counts": counts, "waiting": counts.get(TaskStatus.WAITING.value, 0)}
        newest = max((one.id for one in notices if one.task in own), default=0)
        newest = told["notice"] if len(notices) == _MOST_NOTICES else newest
        return jsonio.encode(found | ({"notice": newest} if newest else {})).decode()

    def _rows(self, uuids: tuple[str, ...]) -> str:
        with speaking(self.language):
            try:
                tasks = tasks_by_uuid(self.site.base, uuids)
            except OrihonError:  # the catalogue is away for a moment: the page asks for them
                return ""
            return _html("task_rows.html", {"tasks": tasks})


# ---- addresses -------------------------------------------------------------------------------------------------------

_AFTER = (Field("after", "whole", default=0, low=0),)
_ROWS = (Field("rows", "flag", default=False),)
_MOST_DIGITS = 16


async def site_events(request: Request) -> Response:
    """Tasks that have changed, notices that have come, what waits for a person."""
    site = request.app.state.site
    given = from_texts(_ROWS, request.query_params.multi_items())
    user = request.state.visitor.only
    page_events = SiteEvents(site, language_of(request.scope), _rendered(request), given["rows"], user)
    return events(request, site, SITE, render=page_events.of)


async def task_events(request: Request) -> Response:
    """How one task stands, and its new messages: those after the one that the page has last."""
    site = request.app.state.site
    given = from_texts(_AFTER, request.query_params.multi_items())
    named = Call(site, request.state.visitor, {"task": request.path_params["task"]})
    uuid = await run_in_threadpool(task_of, named)
    call = Call(site, request.state.visitor, {"task": uuid})
    # A browser that comes back by itself names the last thing that it has heard.
    heard = request.headers.get("last-event-id", "")
    after = int(heard) if heard.isascii() and heard.isdecimal() and len(heard) < _MOST_DIGITS else given["after"]
    page_events = TaskEvents(call, language_of(request.scope), _rendered(request), after)
    return events(request, site, task_topic(uuid), render=page_events.of, numbered="messages")


def _rendered(request: Request) -> Rendered:
    """What all open pages of this server share."""
    if not hasattr(request.app.state, "rendered"):
        request.app.state.rendered = Rendered()
    found: Rendered = request.app.state.rendered
    return found
