"""The pages *Search* and *Settings*: what they show over HTTP, and in a browser with a keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from orihon import TaskContextManager, TaskKey, load_settings
from orihon.settings import Settings
from orihon.settings.in_force import settings_in_force
from orihon.web.server import WebServer
from tests.browser import PATIENCE, chromium
from tests.conformance.backends import BACKENDS
from tests.damage import settings_for
from tests.serving import Client, serving

SECRET = "sk-never-shown-0123456789"
EVIL = '<img src=x onerror="document.title=1"> lantern \u202edesrever\u202c'


def fill(base: Path, settings: Settings, repo: str = "app") -> dict[str, str]:
    """Two tasks that speak of lanterns, one of them folded, one of them hostile."""
    tasks = {}
    for user in ("ann", "ben"):
        task = TaskContextManager(base, TaskKey("github", "owner", repo, "issue", user, user), settings)
        tasks[user] = task.uuid
        store = task.message_store
        store.add_message("user", f"Hang the {repo} lantern of {user} over the door")
        store.add_message("assistant", EVIL if user == "ben" else "The lantern hangs. 提灯を掛けました。")
        store.create_summary(1, 2, "a lamp hangs")
        store.add_message("user", "Thanks")
        task.stop()
        task.catalogue.close()
    return tasks


def found(client: Client, **asked: str) -> str:
    answer = client.ask("GET", f"/search?{urlencode(asked)}")
    assert answer.status == 200, answer.text
    return answer.text


def links(page: str) -> list[str]:
    return re.findall(r'class="hit" href="([^"]+)"', page)


def test_words_are_found_and_marked_by_task_on_every_back_end(kind: str, tmp_path: Path) -> None:
    settings, repo = load_settings(BACKENDS[kind].config(), environ={}), tmp_path.name
    tasks = fill(tmp_path / "contexts", settings, repo)
    with serving(tmp_path / "contexts", settings) as server:
        client = Client(server).log_in()
        page = found(client, query="lantern", repository=f"owner/{repo}")
        assert page.count('class="card found"') == 2
        assert page.count("<mark>lantern</mark>") == 4
        assert set(links(page)) == {f"/tasks/{uuid}?at={seq}#m{seq}" for uuid in tasks.values() for seq in (1, 2)}
        assert "<img src=x" not in page
        assert "\u202e" not in page
        only = found(client, query="lantern", repository=f"owner/{repo}", user="ann")
        assert {link.split("/")[2].partition("?")[0] for link in links(only)} == {tasks["ann"]}
        summary = found(client, query="lamp", kind="summary", task=tasks["ann"])
        assert links(summary) == [f"/tasks/{tasks['ann']}?at=1#f1"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("search")
    config = folder / "config.yaml"
    config.write_text(f"llm:\n  openai:\n    api_key: {SECRET}\nlogging:\n  level: DEBUG\n", encoding="utf-8")
    settings = load_settings(config, flags={"context_storage.base_dir": str(folder / "contexts")}, environ={})
    fill(folder / "contexts", settings)
    with serving(folder / "contexts", settings, config=config) as started:
        yield started


@pytest.fixture
def reader(server: WebServer) -> Client:
    return Client(server).log_in()


def test_states_without_a_result_say_what_to_do(reader: Client) -> None:
    assert "How to search" in found(reader)
    assert "No task has all these words" in found(reader, query="zeppelin")
    assert "Search without the filters" in found(reader, query="zeppelin", kind="plan")
    assert "There is no word to look for" in found(reader, query="-lantern")
    wrong = reader.ask("GET", "/search?query=lantern&since=whenever")
    assert wrong.status == 400
    assert "since is no time" in unescape(wrong.text)
    assert 'value="lantern"' in wrong.text
    assert reader.ask("GET", "/search?query=lantern&task=nobody-1").status == 404
    assert reader.ask("GET", "/search?query=lantern&colour=red").status == 400


def test_more_hits_are_a_click_away(reader: Client) -> None:
    page = found(reader, query="lantern", limit="1")
    assert len(links(page)) == 1
    more = re.search(r'href="(/search\?[^"]*limit=2)"', page)
    assert more is not None
    assert len(links(reader.ask("GET", unescape(more[1])).text)) == 2


def test_a_search_can_be_read_in_japanese(reader: Client) -> None:
    page = reader.ask(
        "GET", "/search?query=%E6%8F%90%E7%81%AF", headers={"Cookie": f"{reader.cookie}; orihon_language=ja"}
    )
    assert "<mark>提灯</mark>" in page.text
    assert "1 件一致" in page.text


def test_settings_say_where_each_value_came_from_and_no_secret(reader: Client, server: WebServer) -> None:
    page = reader.ask("GET", "/settings").text
    every = settings_in_force(settings_for("files"))
    assert page.count("data-setting=") == len(every)
    assert SECRET not in page
    assert SECRET not in Client(server).as_program("GET", "/api/settings").text
    changed = reader.ask("GET", "/settings?changed=true").text
    assert re.findall(r'data-setting="([^"]+)"', changed) == [
        "context_storage.base_dir",
        "llm.openai.api_key",
        "logging.level",
    ]
    assert "config.yaml" in changed
    assert "command line" in changed
    some = reader.ask("GET", "/settings?search=lease+seconds").text
    assert 'data-setting="context_storage.lease_seconds"' in some
    assert "No setting has these words" in reader.ask("GET", "/settings?search=zeppelin").text
    japanese = reader.ask("GET", "/settings", headers={"Cookie": f"{reader.cookie}; orihon_language=ja"}).text
    assert "コマンドライン" in japanese


def test_search_and_settings_in_a_browser(server: WebServer) -> None:
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 390, "height": 800}).new_page()
        page.set_default_timeout(PATIENCE)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.goto(server.login_address)
        page.wait_for_selector("nav")
        said.clear()  # that the first page asks for the token
        page.goto(f"{server.address}search")
        page.wait_for_selector("input[name=query]:focus")  # a page may have come before it is shown
        page.keyboard.type("lantern")
        page.keyboard.press("Enter")
        page.wait_for_selector("mark")
        assert page.url.endswith("/search?query=lantern")
        page.locator("select[name=kind]").select_option("summary")
        page.wait_for_url("**kind=summary*")
        page.go_back()
        page.wait_for_selector("mark")
        assert page.title().startswith("lantern")
        page.locator("h1").click()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.className") == "hit"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{server.address}settings")
        page.keyboard.press("/")
        page.wait_for_selector("[data-filter]:focus")
        page.keyboard.type("context_storage.lease")
        assert 1 <= page.locator("[data-setting]:visible").count() <= 5
        assert page.locator('[data-setting="context_storage.lease_seconds"]').is_visible()
        assert not page.locator('[data-setting="context_storage.enabled"]').is_visible()
        page.wait_for_url("**search=context_storage.lease")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{server.address}api")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert said == []
