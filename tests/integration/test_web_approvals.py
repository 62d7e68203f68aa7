"""Questions of tasks over HTTP: the inbox with what one needs to know, the answer, and the task that goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orihon import load_settings
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.browser import PATIENCE, chromium, late_news
from tests.conformance.backends import BACKENDS
from tests.integration.asking_handlers import HANDLER
from tests.integration.run_supervisor import LIMITS, eventually, put, workers
from tests.integration.test_approvals import QUESTION, Loop
from tests.serving import Answer, Client, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SETTINGS = load_settings({}, environ={})


@dataclass
class Inbox:
    """A task that asks, and somebody who is logged in."""

    loop: Loop
    client: Client

    def answer(self, decision: str, **said: Any) -> Answer:
        return self.client.change(f"/api/tasks/{self.loop.uuid}/{decision}", said)

    def page(self) -> str:
        return self.client.ask("GET", "/approvals").text


@contextmanager
def inbox_of(tmp_path: Path, config: dict[str, Any]) -> Iterator[Inbox]:
    loop = Loop(tmp_path / "contexts", config)
    loop.ctx.planning_store.add_plan("initial", {"steps": ["compare engines"]})
    with serving(loop.base, loop.settings) as server:
        yield Inbox(loop, Client(server).log_in())
    loop.check()


@pytest.fixture
def inbox(kind: str, tmp_path: Path) -> Iterator[Inbox]:
    with inbox_of(tmp_path, BACKENDS[kind].config()) as made:
        yield made


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Inbox]:
    with inbox_of(tmp_path, {}) as made:
        yield made


def test_a_question_is_shown_with_its_circumstances_and_answered(inbox: Inbox) -> None:
    inbox.loop.ask(context="Both were **tried**.", timeout=3600.0)
    (listed,) = [
        one
        for one in inbox.client.ask("GET", "/api/approvals").value["pending"]
        if one["uuid"] == inbox.loop.uuid  # a database may have those of other tests, too
    ]
    assert listed["checkpoint"]["question"] == QUESTION
    page = inbox.page()
    for shown in (
        QUESTION,
        "<strong>tried</strong>",
        "exploration",
        "compare engines",
        "Without an answer it is rejected",
    ):
        assert shown in page, shown
    assert f'href="/tasks/{inbox.loop.uuid}?at=3"' in page
    done = inbox.answer("approve", checkpoint=listed["checkpoint"]["id"])
    assert (done.status, done.value["checkpoint"]["answer"]["decision"]) == (200, "approve")
    assert inbox.loop.pending() == []
    after = inbox.page()
    assert f'id="{inbox.loop.uuid}"' not in after
    assert f'<li data-task="{inbox.loop.uuid}" data-status="paused">' in after
    again = inbox.answer("approve", checkpoint=listed["checkpoint"]["id"])
    assert (again.status, again.reason) == (409, "NotWaiting.answered")


def test_a_rejection_opens_what_it_names(plain: Inbox) -> None:
    plain.loop.ask()
    plain.answer("approve")
    plain.loop.resume()
    plain.loop.ask("second")
    page = plain.page()
    assert "What this phase has folded" in page
    assert f'href="/tasks/{plain.loop.uuid}/phases/1"' in page
    assert "ゲームエンジンの選定" in plain.client.ask("GET", f"/tasks/{plain.loop.uuid}/phases/1").text
    sections = plain.client.ask("GET", f"/api/tasks/{plain.loop.uuid}/sections").value["sections"]
    assert "Godot" in sections
    unknown = plain.answer("reject", reason="Look again.", sections=["Unreal"])
    assert (unknown.status, unknown.reason) == (400, "InvalidInput.no_section")
    assert len(plain.loop.pending()) == 1
    done = plain.answer("reject", reason="Look again.", sections=["Godot"]).value
    assert done["after_tokens"] > done["before_tokens"]
    assert "GDScript" in plain.loop.shown()


def test_an_answer_has_to_say_something(plain: Inbox) -> None:
    plain.loop.ask()
    assert plain.answer("reject").reason == "InvalidInput.field_missing"
    assert plain.answer("reject", reason=" ").reason == "InvalidInput.empty_text"
    assert plain.answer("revise", instructions="").reason == "InvalidInput.empty_text"
    assert plain.answer("revise", instructions="Shorter, please.").value["checkpoint"]["answer"]["comment"]
    assert plain.answer("approve").reason == "NotWaiting.answered"


def test_without_questions_the_page_says_so(plain: Inbox) -> None:
    page = plain.page()
    assert "Nothing waits for you." in page
    assert plain.client.ask("GET", f"/tasks/{plain.loop.uuid}/phases/7").status == 400
    plain.loop.ctx.close()


def test_the_feed_offers_an_answer_as_long_as_there_is_none(plain: Inbox) -> None:
    def offered() -> int:
        return plain.client.ask("GET", "/notifications").text.count(f'href="/approvals#{plain.loop.uuid}"')

    plain.loop.ask()
    assert offered() == 1
    assert plain.answer("approve").status == 200
    assert offered() == 0
    plain.loop.resume()
    plain.loop.ask("plan")  # it waits again, for another answer
    assert offered() == 1


def test_a_page_that_only_shows_has_no_answers(plain: Inbox) -> None:
    plain.loop.ask()
    with serving(plain.loop.base, plain.loop.settings, read_only=True) as server:
        page = Client(server).log_in().ask("GET", "/approvals").text
    assert QUESTION in page
    assert "data-answer>" not in page
    assert '<form class="answer"' not in page


# ---- with a worker ---------------------------------------------------------------------------------------------------


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TaskQueue]:
    opened = TaskQueue(tmp_path, {}, limits=QueueLimits(**LIMITS), owner="the test")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with closing(browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


def test_a_person_approves_in_the_browser_and_sees_the_task_go_on(queue: TaskQueue, page: Page) -> None:
    with workers(queue, 1, handler=HANDLER), serving(queue.base_dir, SETTINGS) as server:
        uuid = put(queue, "ask 2")
        page.goto(server.login_address)
        page.wait_for_selector("nav [data-place=approvals]")
        page.goto(f"{server.address}approvals")
        card = page.locator(f"[data-task='{uuid}'][data-checkpoint]")
        card.get_by_text("Shall I do step 1?").wait_for()  # it came by itself, or was there
        card.get_by_role("button", name="Approve").click()
        card.get_by_text("Shall I do step 2?").wait_for()  # its worker went on to the next question
        card.get_by_role("button", name="Reject").click()
        card.get_by_role("alert").get_by_text("Say why").wait_for()
        card.get_by_label("Reason or instructions").fill("Not that.")
        card.get_by_role("button", name="Reject").click()
        page.locator(f"[data-answered] [data-task='{uuid}'][data-status=completed]").first.wait_for()
        page.get_by_text("Nothing waits for you.").wait_for()
        eventually(lambda: queue.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED)
        page.locator("[data-answered] .badge.bad").wait_for()  # one, or this is an error


def test_what_somebody_writes_is_not_lost_when_questions_come_and_go(tmp_path: Path, page: Page) -> None:
    first = Loop(tmp_path / "contexts", {})
    first.ask("first")
    with serving(first.base, first.settings) as server:
        page.goto(server.login_address)
        page.wait_for_selector("nav [data-place=approvals]")
        page.goto(f"{server.address}approvals")
        page.locator("[data-live][data-on]").wait_for()
        box = page.locator("[data-key] textarea")
        box.fill("My long answer")
        other = Loop(first.base, {})
        other.ask("second")
        page.locator(f"[data-task='{other.uuid}'][data-checkpoint]").wait_for()
        mine = page.locator(f"[data-task='{first.uuid}'][data-checkpoint] textarea")
        assert mine.input_value() == "My long answer"
        assert mine.evaluate("box => box === document.activeElement")
        approve(OpenBase(first.base, first.settings), other.uuid, by="ann")
        page.locator(f"[data-task='{other.uuid}'][data-checkpoint]").wait_for(state="detached")
        assert mine.input_value() == "My long answer"


@pytest.mark.parametrize("place", ["approvals", "notifications"])
def test_a_question_that_comes_before_a_page_hears_anything_is_on_it(tmp_path: Path, page: Page, place: str) -> None:
    loop = Loop(tmp_path / "contexts", {})
    with serving(loop.base, loop.settings) as server:
        page.goto(server.login_address)
        page.wait_for_selector("nav [data-place=approvals]")
        with late_news(page, f"{server.address}{place}", re.compile("/events")):
            loop.ask("first")
        shown = f"[data-task='{loop.uuid}'][data-checkpoint]" if place == "approvals" else f"a[href$='#{loop.uuid}']"
        page.locator(shown).first.wait_for()
