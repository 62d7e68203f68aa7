"""The pages of tasks, workers and statistics over HTTP, and what open pages hear: from either catalogue."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orihon import TaskKey, load_settings
from orihon.catalogue import Catalogue, WorkerStatistics
from orihon.catalogue.outbox import NewNotice
from orihon.reports.costs import cost_report
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from orihon.web import snapshots as site_look
from orihon.web.events import MOST_PUSHED
from orihon.web.snapshots import SiteDelta, SiteSnapshots
from tests.catalogues import CataloguePlace
from tests.helpers import lasting_day
from tests.serving import Client, serving

HOSTILE = '<script>alert("x")</script>\u202e'


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    place.base_dir.mkdir()
    with place.open() as opened:
        yield opened


@pytest.fixture
def client(place: CataloguePlace, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr("orihon.web.snapshots._PAUSE", 0)  # a look that the machine held up delays no other
    with serving(place.base_dir, place.settings) as server:
        yield Client(server).log_in()


def register(catalogue: Catalogue, uuid: str, **columns: Any) -> None:
    given: dict[str, Any] = {"context_length": 100_000, "status": TaskStatus.RUNNING, "user": "mika", **columns}
    catalogue.tasks.register(TaskKey("github", "acme", "shop", "issue", uuid, given.pop("user")), uuid, **given)


class _Texts(HTMLParser):
    """What a page says, tag by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self.rows: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        uuid = dict(attrs).get("data-task")
        if tag == "tr" and uuid:
            self.rows.append(uuid)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.said.append(data.strip())


def rows(client: Client, path: str = "/") -> list[str]:
    return _Texts(client.ask("GET", path).text).rows


# ---- tasks ---------------------------------------------------------------------------------------------------------


def test_the_first_page_says_how_everything_stands(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", metadata={"title": HOSTILE}, llm_provider="openai", model="gpt-4o")
    register(catalogue, "two", status=TaskStatus.QUEUED)
    catalogue.tasks.set_totals("one", view_tokens=90_000)
    catalogue.usage.add("one", "gpt-4o", lasting_day(), input=1_000_000)
    catalogue.leases.acquire("one", seconds=3600)
    page = client.ask("GET", "/")
    assert page.status == 200
    texts = _Texts(page.text)
    assert texts.rows == ["one", "two"]
    assert HOSTILE not in page.text
    assert '<script>alert("x")</script>\\u202e' in texts.said  # as text, with the mark made visible
    assert "$2.50" in texts.said
    assert re.search(r'class="meter high".*?aria-label="Context 9\d % full', page.text, re.DOTALL)
    assert page.text.count('class="rung"') == 2
    running = re.search(r'data-status="running"[^>]*><b>(\d+)</b>', page.text)
    assert running is not None
    assert running[1] == "1"
    japanese = client.ask("GET", "/", headers={"Accept-Language": "ja"}).text
    assert "人の確認待ち" in japanese


def test_filters_stand_in_the_address(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", user="mika", metadata={"title": "Mend the login"})
    register(catalogue, "two", user="jun", status=TaskStatus.QUEUED)
    assert rows(client, "/?status=queued") == ["two"]
    assert rows(client, "/?user=mika&status=&since=") == ["one"]
    assert rows(client, "/?search=LOGIN+mend") == ["one"]
    assert rows(client, "/?since=2099-01-01") == []
    page = client.ask("GET", "/?search=%22%3E%3Cb%3E&status=queued")
    assert 'value="&#34;&gt;&lt;b&gt;"' in page.text
    assert 'data-rows="/tasks/rows?status=queued&amp;search=%22%3E%3Cb%3E"' in page.text
    for wrong in ("/?status=happy", "/?since=soon", "/?colour=red"):
        assert client.ask("GET", wrong).status == 400


def test_older_tasks_are_a_page_away(client: Client, catalogue: Catalogue) -> None:
    for number in range(53):
        register(catalogue, f"t{number:02}", status=TaskStatus.QUEUED)
    first = client.ask("GET", "/?user=mika")
    older = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert older is not None
    assert rows(client, older[1].replace("&amp;", "&")) == ["t02", "t01", "t00"]
    assert len(_Texts(first.text).rows) == 50


def test_rows_alone_can_be_had(client: Client, catalogue: Catalogue) -> None:
    for uuid in ("one", "two", "three"):
        register(catalogue, uuid)
    assert rows(client, "/tasks/rows?ids=three,one,none") == ["three", "one"]
    assert rows(client, "/tasks/rows?status=running") == ["three", "two", "one"]
    assert "<html" not in client.ask("GET", "/tasks/rows").text


def test_a_folder_without_tasks_says_how_to_begin(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        client = Client(server).log_in()
        assert "orihon enqueue" in client.ask("GET", "/").text
        for path in ("/workers", "/statistics", "/statistics/tools", "/statistics/storage"):
            assert client.ask("GET", path).status == 200
    assert not (tmp_path / "tasks.db").exists()


# ---- what open pages hear ------------------------------------------------------------------------------------------


@contextmanager
def hearing(client: Client, path: str = "/events") -> Iterator[Iterator[dict[str, Any]]]:
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    connection.request("GET", path, headers={"Cookie": client.cookie})
    answer = connection.getresponse()
    assert answer.status == 200

    def changes() -> Iterator[dict[str, Any]]:
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield jsonio.decode(line.removeprefix(b"data: "))

    try:
        yield changes()
    finally:
        connection.close()


def test_open_pages_hear_which_tasks_have_changed(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one")
    with hearing(client) as changes:
        first = next(changes)
        assert (first["first"], first["tasks"], first["counts"]) == (True, [], {"running": 1})
        register(catalogue, "two")
        assert heard_of(changes, {"running": 2}) == {"two"}
        catalogue.tasks.change_status("one", TaskStatus.WAITING)
        assert heard_of(changes, {"running": 1, "waiting": 1}) == {"one"}
        catalogue.tasks.change_status("two", TaskStatus.FAILED)
        assert heard_of(changes, {"failed": 1, "waiting": 1}, notice=first["notice"]) == {"two"}


def test_the_list_hears_the_rows_themselves(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", metadata={"title": HOSTILE})
    with hearing(client, "/events?rows=true") as changes, hearing(client) as others:
        assert "rows" not in next(changes)
        next(others)
        catalogue.tasks.set_totals("one", view_tokens=1000)
        heard = next(changes)
        assert _Texts(heard["rows"]).rows == heard["tasks"] == ["one"]
        assert HOSTILE not in heard["rows"]
        assert "rows" not in next(others)
        for number in range(MOST_PUSHED + 1):
            register(catalogue, f"t{number}", status=TaskStatus.QUEUED)
        while True:  # some of them may be heard of before the others are there
            heard = next(changes)
            assert ("rows" in heard) == (0 < len(heard["tasks"]) <= MOST_PUSHED)
            if heard["counts"].get("queued") == MOST_PUSHED + 1:
                break
    assert client.ask("GET", "/events?rows=perhaps").status == 400


def heard_of(changes: Iterator[dict[str, Any]], counts: dict[str, int], notice: int = -1) -> set[str]:
    """The tasks that have changed until everything is as it should be: a change may be heard of in two pieces."""
    tasks: set[str] = set()
    while True:
        heard = next(changes)
        assert not heard["first"]
        tasks.update(heard["tasks"])
        if tasks and heard["counts"] == counts and heard["notice"] > notice:
            assert heard["waiting"] == counts.get("waiting", 0)
            return tasks


def told(look: SiteSnapshots, page: SiteDelta) -> dict[str, Any]:
    look._not_before = 0.0
    return page.of(look.state())


def test_a_page_that_hears_late_is_told_everything(
    place: CataloguePlace, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orihon.web.snapshots.MOST_KEPT", 3)
    for uuid in ("one", "two"):
        register(catalogue, uuid)
    look, page = SiteSnapshots(OpenBase(place.base_dir, place.settings)), SiteDelta()
    try:
        assert told(look, page)["first"]
        catalogue.tasks.update("one", priority=1)
        look._not_before = 0.0
        look.state()
        catalogue.tasks.update("two", priority=1)
        late = told(look, page)
        assert (late["tasks"], late["missed"], late["first"]) == (["one", "two"], False, False)
        assert told(look, page)["tasks"] == []
        for number in range(4):
            register(catalogue, f"t{number}", status=TaskStatus.QUEUED)
        late = told(look, page)
        assert late["missed"]
        assert len(late["tasks"]) == 3
    finally:
        look.close()
    again = SiteSnapshots(OpenBase(place.base_dir, place.settings))  # counts its rounds anew
    try:
        assert told(again, page)["first"]
    finally:
        again.close()


def test_a_look_at_nothing_new_reads_nothing(
    place: CataloguePlace, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(catalogue, "one")
    look = SiteSnapshots(OpenBase(place.base_dir, place.settings))
    try:
        before = look.state()
        opened = look._base.catalogue
        assert opened is not None
        asked: list[str] = []
        values = opened._db.values

        def noted(name: str, /, **bindings: Any) -> list[tuple[Any, ...]]:
            asked.append(name)
            return values(name, **bindings)

        monkeypatch.setattr(opened._db, "values", noted)
        look._not_before, look._last_read = 0.0, look._last_read + 3600
        if place.database is None:  # in PostgreSQL others may be writing to the same server
            assert look.state() is before
            assert asked == ["version"]
        catalogue.tasks.update("one", priority=3)
        look._not_before = 0.0
        assert list(look.state()["tasks"]) == ["one"]
    finally:
        look.close()


def test_a_look_that_was_held_up_silences_no_page_for_minutes(
    place: CataloguePlace, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(catalogue, "one")
    look = SiteSnapshots(OpenBase(place.base_dir, place.settings))
    try:
        hours = iter((0.0, 3600.0))
        with monkeypatch.context() as patch:
            patch.setattr(site_look, "time", SimpleNamespace(monotonic=lambda: next(hours)))
            look.state()
        assert look._not_before == 3600 + site_look._LONGEST_PAUSE
    finally:
        look.close()


# ---- workers -------------------------------------------------------------------------------------------------------


def test_workers_say_what_they_do(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", metadata={"title": "Mend the login"})
    catalogue.leases.acquire("one", seconds=60)
    catalogue.workers.add(f"box-{HOSTILE}", "1")
    catalogue.workers.note(WorkerStatistics(f"box-{HOSTILE}", 12, 3), "working", "one")
    catalogue.outbox.change_alert(
        "lock_errors", {"value": "7", "limit": "1"}, NewNotice("e1", "alert", "warning", None, {}), is_raised=True
    )
    page = client.ask("GET", "/workers").text
    said = _Texts(page).said
    assert HOSTILE not in page
    for text in ("at work", "Mend the login", "12", "3"):
        assert text in said
    assert any("found locked 7 times" in text for text in said)
    assert re.search(r"<b>1</b><span>At work</span>", page)


def test_an_alert_that_is_over_is_gone(client: Client, catalogue: Catalogue) -> None:
    notice = NewNotice("e2", "alert", "warning", None, {})
    catalogue.outbox.change_alert("size", {"value": "7", "limit": "1"}, notice, is_raised=True)
    assert "takes 7 GB" in client.ask("GET", "/workers/part").text
    over = NewNotice("e3", "alert_over", "info", None, {})
    catalogue.outbox.change_alert("size", {"value": "7", "limit": "1"}, over, is_raised=False)
    assert "takes 7 GB" not in client.ask("GET", "/workers/part").text


# ---- statistics ----------------------------------------------------------------------------------------------------


def charts(page: str) -> list[dict[str, Any]]:
    blocks = re.findall(r'<script type="application/json" nonce="[^"]+">(.*?)</script>', page)
    return [jsonio.decode(block) for block in blocks if '"labels"' in block]


def test_statistics_draw_what_the_report_says(client: Client, place: CataloguePlace, catalogue: Catalogue) -> None:
    register(catalogue, "one", llm_provider="openai")
    catalogue.usage.add("one", "gpt-4o", "2026-03-02", input=2_000_000, output=100_000, saved=1_000_000)
    catalogue.usage.add("one", HOSTILE, "2026-03-03", input=5)
    page = client.ask("GET", "/statistics?since=2026-03-01&until=2026-03-04&by=user").text
    report = cost_report(place.base_dir, place.settings, "day", "2026-03-01", "2026-03-04")
    cost, tokens = charts(page)
    assert cost["labels"] == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]
    assert cost["series"][0]["values"] == [0, report.lines[0].cost, 0, 0]
    assert cost["series"][1]["values"] == [0, report.lines[0].saved_cost, 0, 0]
    assert [one["values"][1] for one in tokens["series"]] == [2_000_000, 100_000, 1_000_000]
    assert '<a href="/?user=mika">' in page
    assert HOSTILE not in page
    for wrong in ("since=yesterdayish", "since=2026-03-05&until=2026-03-01", "by=colour"):
        assert client.ask("GET", f"/statistics?{wrong}").status == 400


def test_statistics_without_prices_show_tokens(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one")
    catalogue.usage.add("one", "homemade", lasting_day(), input=3000, saved=1000)
    page = client.ask("GET", "/statistics").text
    assert "Nobody has named a price for these models." in page
    assert "homemade" in page
    assert len(charts(page)) == 1
    assert client.ask("GET", "/statistics?since=ever&by=task").status == 200
    assert "Storage" in client.ask("GET", "/statistics/storage").text


def test_pages_follow_the_language_of_the_reader(tmp_path: Path) -> None:
    with serving(tmp_path, load_settings({}, environ={})) as server:
        client = Client(server).log_in()
        for path in ("/", "/workers", "/statistics", "/statistics/tools", "/statistics/storage"):
            english = client.ask("GET", path, headers={"Accept-Language": "en"}).text
            japanese = client.ask("GET", path, headers={"Accept-Language": "ja"}).text
            assert english != japanese
