"""What pages hear while they are open."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orihon.web.call import Call
from orihon.web.events import events
from orihon.web.fields import Field, from_texts
from orihon.web.renderer import language_of
from orihon.web.requested_task import task_of
from orihon.web.site_events import SiteEvents
from orihon.web.snapshots import SITE, task_topic
from orihon.web.task_events import Rendered, TaskEvents

_AFTER = (Field("after", "whole", default=0, low=0),)
_ROWS = (Field("rows", "flag", default=False),)
_MOST_DIGITS = 16


async def site_events(request: Request) -> Response:
    """Tasks that have changed, notices that have come, what waits for a person."""
    site = request.app.state.site
    given = from_texts(_ROWS, request.query_params.multi_items())
    user = request.state.visitor.only
    page_events = SiteEvents(site, language_of(request.scope), _rendered(request), given["rows"], user)
    return events(request, site.live, SITE, render=page_events.of)


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
    return events(request, site.live, task_topic(uuid), render=page_events.of, numbered="messages")


def _rendered(request: Request) -> Rendered:
    """What all open pages of this server share."""
    if not hasattr(request.app.state, "rendered"):
        request.app.state.rendered = Rendered()
    found: Rendered = request.app.state.rendered
    return found
