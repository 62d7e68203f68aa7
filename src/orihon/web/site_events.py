"""Events for any open page: what has changed since the last one, and for the list of tasks the rows themselves.

Rows are rendered once for all pages in the same language, however many are open. When many tasks have changed at once,
only their names are sent: a page fetches what it shows. Who does not see everybody's tasks hears of their own alone,
and nothing at all while only others' change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.errors import OrihonError
from orihon.reports.task_list import tasks_by_uuid
from orihon.system import jsonio
from orihon.texts import speaking
from orihon.values.task import TaskStatus
from orihon.web.broadcaster import TopicState
from orihon.web.call import Site
from orihon.web.renderer import templates
from orihon.web.site_snapshot import SiteDelta
from orihon.web.task_events import Rendered

#: Of more tasks than these the rows are not pushed.
MOST_PUSHED = 20
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
            made = templates().get_template("task_rows.html").render({"tasks": tasks})
        return made.encode("utf-8", "backslashreplace").decode()
