"""Every address of the site, but for the login and the static files. One table each; tests walk them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from orihon.web.api import approvals as approvals_api
from orihon.web.api import changes, description, figures, notices, queue, reads, timeline
from orihon.web.call import Endpoint, PageRoute
from orihon.web.pages import (
    actions,
    approvals,
    notifications,
    search,
    settings,
    statistics,
    streams,
    task,
    task_views,
    tasks,
    workers,
)
from orihon.web.pages import api as api_page

PAGES: tuple[PageRoute, ...] = (
    *tasks.PAGES,
    *workers.PAGES,
    *statistics.PAGES,
    *actions.PAGES,
    *approvals.PAGES,
    *notifications.PAGES,
    *search.PAGES,
    *settings.PAGES,
    *api_page.PAGES,
    *task.PAGES,
    *task_views.PAGES,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *timeline.ENDPOINTS,
    *changes.ENDPOINTS,
    *queue.ENDPOINTS,
    *approvals_api.ENDPOINTS,
    *notices.ENDPOINTS,
    *reads.ENDPOINTS,
    *figures.ENDPOINTS,
    *description.ENDPOINTS,
)

#: Answers that go on while a page is open.
STREAMS: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "/events": streams.site_events,
    "/tasks/{task}/events": streams.task_events,
}
