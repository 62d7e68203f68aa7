"""Every address of the site, but for the login and the static files. One table each; tests walk them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from orihon.web import events, openapi
from orihon.web.api import changes, figures, reads
from orihon.web.call import Endpoint, PageRoute
from orihon.web.pages import administration, inbox, search, statistics, task, task_views, tasks

_PLACES = (tasks, statistics, inbox, search, administration, openapi, task, task_views)
PAGES: tuple[PageRoute, ...] = tuple(page for place in _PLACES for page in place.PAGES)

ENDPOINTS: tuple[Endpoint, ...] = (*reads.ENDPOINTS, *figures.ENDPOINTS, *changes.ENDPOINTS, *openapi.ENDPOINTS)

#: Answers that go on while a page is open.
STREAMS: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "/events": events.site_events,
    "/tasks/{task}/events": events.task_events,
}
