"""Events for a page that shows a task: how the task stands, and new messages as they are shown.

Each piece is rendered once for all pages that show it in the same way. When many messages have come at once, only
their number is sent: a page fetches what it needs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool

from orihon.errors import OrihonError
from orihon.texts import speaking
from orihon.web.broadcaster import TopicState
from orihon.web.call import Call
from orihon.web.pages.task import messages_piece
from orihon.web.renderer import templates

#: More new messages than these are not pushed.
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


@dataclass(slots=True)
class TaskEvents:
    """The events that one page is sent. ``after`` is the last message that it has."""

    call: Call
    language: str
    rendered: Rendered
    after: int
    _told: dict[str, Any] = field(default_factory=dict)

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
            made = templates().get_template(page.template).render(page.shows)
        return made.encode("utf-8", "backslashreplace").decode()
