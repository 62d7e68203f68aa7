"""The page of a task over HTTP: its conversation at any place, folds, timeline, what the model saw, what is new."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orihon import (
    Settings,
    TaskContextManager,
    TaskKey,
    archive_task,
    delete_old_contexts,
    load_settings,
    view_at,
    view_diff,
)
from orihon.catalogue.connect import open_catalogue
from orihon.errors import OrihonError
from orihon.reports.task_list import tasks_by_uuid
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.view_reader import reading_view
from orihon.values.task import TaskStatus
from orihon.values.view import PlannedFold
from orihon.web.api.reads import MOST_POINTS
from orihon.web.server import WebServer
from orihon.web.snapshots import TaskSnapshots
from orihon.web.task_memory import TaskMemory
from tests.conformance.backends import BACKENDS
from tests.sealing import CANARY, sealed_settings, start_sealed, write_key
from tests.serving import Answer, Client, serving

TURNS = 60
#: Messages: the system prompt, what was asked, and two for each turn.
LAST = 2 + 2 * TURNS
_ITEM = re.compile(r'id="([mf][0-9]+)"')
_PATIENCE = 60.0


@dataclass
class Shown:
    """A task with folds in folds, tools that failed, a pin; and somebody who looks at it."""

    base: Path
    settings: Settings
    task: TaskContextManager
    server: WebServer
    client: Client

    @property
    def uuid(self) -> str:
        return self.task.uuid

    def get(self, path: str = "") -> Answer:
        return self.client.ask("GET", f"/tasks/{self.uuid}{path}")

    def page(self, path: str = "") -> str:
        answer = self.get(path)
        assert answer.status == 200, answer.text
        return answer.text

    def timeline(self, query: str = "") -> dict[str, Any]:
        answer = self.client.as_program("GET", f"/api/tasks/{self.uuid}/timeline{query}")
        assert answer.status == 200, answer.text
        found: dict[str, Any] = answer.value
        return found


def begun(base: Path, settings: Settings, turns: int = TURNS) -> TaskContextManager:
    task = TaskContextManager(base, TaskKey("github", "acme", "shop", "issue", "27", "mika"), settings)
    store = task.message_store
    store.add_message("system", "You are careful.")
    store.add_message("user", "Round the totals of the cart once.")
    for turn in range(turns):
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "run_tests", "arguments": f'{{"n": {turn}}}'},
        }
        store.add_message("assistant", f"Turn {turn}: I run the tests.", tool_calls=[call])
        store.add_message("tool", f"result of turn {turn}\n" * 3, "run_tests", tool_call_id=f"c{turn}")
        failed = f"exit code {turn}" if turn % 10 == 7 else None
        task.tool_store.add_tool_call(
            "run_tests", {"n": turn}, None, failed, duration_ms=turn + 1.0, call_id=f"c{turn}"
        )
    return task


def fold(task: TaskContextManager, first: int, last: int, text: str) -> int:
    plan = PlannedFold(first, last, text, reason="older steps")
    record = task.message_store.folding.compress([plan], strategy="summarize", level="standard", made_by="tester")
    return record.folds[0]


@pytest.fixture(scope="module", params=["files", "sqlite", "postgres"])
def looked_at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One that nobody changes, on every back end."""
    if request.param == "postgres":
        request.getfixturevalue("tasks_database")
    settings = load_settings(BACKENDS[request.param].config(), environ={})
    yield from opened(settings, tmp_path_factory.mktemp("looked-at") / "contexts")


@pytest.fixture
def shown(kind: str, tmp_path: Path) -> Iterator[Shown]:
    yield from opened(load_settings(BACKENDS[kind].config(), environ={}), tmp_path / "contexts")


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Shown]:
    """The same with the back end that needs the least."""
    yield from opened(load_settings({"context_storage": {"backend": "files"}}, environ={}), tmp_path / "contexts")


def opened(settings: Settings, base: Path) -> Iterator[Shown]:
    task = begun(base, settings)
    fold(task, 3, 20, "The first tests were run.")
    fold(task, 3, 40, "All early tests were run; **two** failed.")  # holds the fold before
    task.message_store.folding.pin(60, made_by="tester")
    try:
        with serving(base, settings) as server:
            yield Shown(base, settings, task, server, Client(server).log_in())
    finally:
        with suppress(OrihonError):  # some tests have stopped it
            task.stop()
        task.catalogue.close()


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_page_opens_at_the_end_with_folds_closed(looked_at: Shown) -> None:
    page = looked_at.page()
    assert "github:acme/shop#27" in page
    assert 'data-status="running"' in page
    assert "Round the totals of the cart once." in page
    assert _ITEM.findall(page)[-1] == f"m{LAST}"
    assert "Turn 59: I run the tests." in page
    assert "Turn 0: I run the tests." not in page
    early = looked_at.page("?at=10")
    assert 'id="f2"' in early
    assert "All early tests were run" in early
    assert 'id="m10"' not in early
    assert 'id="f1"' not in early
    assert f"/tasks/{looked_at.uuid}/compare/2" in early


def test_list_page_and_view_have_one_measure(plain: Shown) -> None:
    plain.task.stop()
    with open_catalogue(plain.base, plain.settings) as catalogue:
        catalogue.tasks.update(plain.uuid, correction=1.25)
    (listed,) = tasks_by_uuid(OpenBase(plain.base, plain.settings), [plain.uuid])
    with reading_view(OpenBase(plain.base, plain.settings), plain.uuid) as view:
        figures = view.figures()
    assert listed.meter is not None
    assert (listed.meter.tokens, listed.meter.budget, listed.meter.usage) == (
        figures.tokens,
        figures.budget,
        figures.usage,
    )
    assert figures.usage == pytest.approx(figures.tokens / figures.budget, rel=1e-3)
    page = plain.page()
    assert f'data-budget="{figures.budget}"' in page
    assert f"<span data-tokens>{figures.tokens:,}</span>" in page


def test_calls_have_their_results_times_and_errors(looked_at: Shown) -> None:
    page = looked_at.page("?at=98")  # the result of turn 47, which failed
    message = page[page.index('id="m98"') : page.index('id="m99"')]
    assert "48 ms" in message
    assert "exit code 47" in message
    assert "outcome failed" in message
    fine = page[page.index('id="m96"') : page.index('id="m97"')]
    assert "47 ms" in fine
    assert "outcome fine" in fine


def test_pieces_show_every_message_once_in_both_directions(looked_at: Shown) -> None:
    wanted = ["m1", "m2", "f2", *(f"m{seq}" for seq in range(41, LAST + 1))]
    back: list[str] = []
    at = LAST + 1
    while at > 1:
        piece = looked_at.page(f"/messages?before={at}")
        back[:0] = _ITEM.findall(piece)
        at = int(re.findall(r'data-first="([0-9]+)"', piece)[0])
    assert back == wanted
    on: list[str] = []
    at = 0
    while at < LAST:
        piece = looked_at.page(f"/messages?after={at}")
        on += _ITEM.findall(piece)
        at = int(re.findall(r'data-last="([0-9]+)"', piece)[0])
    assert on == wanted


def test_a_fold_opens_to_its_messages_and_to_the_folds_that_it_holds(looked_at: Shown) -> None:
    assert _ITEM.findall(looked_at.page("/folds/2")) == ["f1", *(f"m{seq}" for seq in range(21, 41))]
    inner = looked_at.page("/folds/1")
    assert _ITEM.findall(inner) == [f"m{seq}" for seq in range(3, 21)]
    assert "Turn 0: I run the tests." in inner
    assert looked_at.get("/folds/9").status == 409


def test_a_long_fold_opens_piece_by_piece(plain: Shown) -> None:
    number = fold(plain.task, 61, LAST, "Nearly everything.")
    found: list[str] = []
    path = f"/folds/{number}"
    while path:
        piece = plain.page(path)
        found += _ITEM.findall(piece)
        more = re.search(r"data-more href=\"/tasks/[^/]+(/folds/[^\"]+)\"", piece)
        path = more[1] if more else ""
    assert found == [f"m{seq}" for seq in range(61, LAST + 1)]


def test_a_message_that_does_not_exist_is_said_to(plain: Shown) -> None:
    for path in (f"?at={LAST + 1}", f"/messages?at={LAST + 1}", f"/messages/{LAST + 1}", f"/view?at={LAST + 1}"):
        answer = plain.get(path)
        assert answer.status == 404, path
    assert plain.get("?at=0").status == 400
    assert plain.get("?at=x").status == 400


def test_tools_plans_changes_questions_and_the_chain_have_their_tabs(shown: Shown) -> None:
    shown.task.planning_store.add_plan("next", "Look at the rounding, then at the **tax**.")
    tools = shown.page("?tab=tools")
    assert "exit code 57" in tools
    assert f"/tasks/{shown.uuid}?tab=tools&amp;before=11" in tools
    assert "<strong>tax</strong>" in shown.page("?tab=plans")
    summaries = shown.page("?tab=summaries")
    assert "The first tests were run." in summaries  # which another one has replaced
    assert summaries.count("the model sees it") == summaries.count("replaced or undone") == 1
    changes = shown.page("?tab=changes")
    assert 'data-act="undo"' in changes
    assert f"/tasks/{shown.uuid}/compare/3" in changes
    assert shown.page("?tab=questions")
    assert shown.uuid in shown.page("?tab=chain")
    assert shown.get("?tab=other").status == 400


def test_a_very_long_message_is_sent_only_to_who_asks_for_it(plain: Shown) -> None:
    marked = "beginning " + "x" * 5_000_000 + " end-of-it"
    seq = plain.task.message_store.add_message("user", marked)
    page = plain.page()
    assert "beginning" in page
    assert "end-of-it" not in page
    assert len(page) < 300_000
    assert f"/tasks/{plain.uuid}/messages/{seq}" in page
    assert "end-of-it" in plain.page(f"/messages/{seq}")


# ---- timeline -------------------------------------------------------------------------------------------------------


def test_each_figure_of_the_timeline_is_exact(looked_at: Shown) -> None:
    found = looked_at.timeline()
    with reading_view(OpenBase(looked_at.base, looked_at.settings), looked_at.uuid) as reading:
        assert found["tokens"] == reading.figures().tokens
        assert [band["id"] for band in found["folds"]] == [fold.id for fold in reading.folds]
    assert [(change["id"], change["kind"], change["seq"]) for change in found["changes"]] == [
        (1, "compress", LAST),
        (2, "compress", LAST),
        (3, "pin", LAST),
    ]
    assert found["pins"] == [60]
    line = {seq: tokens for seq, tokens in found["points"] if seq < LAST}
    for seq in (1, 2, 30, 77, LAST - 1):
        assert line[seq] == view_at(looked_at.base, looked_at.uuid, seq, looked_at.settings).figures.tokens
    assert found["points"][-1] == [LAST, found["tokens"]]


def test_the_timeline_follows_what_is_added_folded_and_undone(shown: Shown) -> None:
    before = shown.timeline()
    shown.task.message_store.add_message("user", "Go on.")
    number = fold(shown.task, 41, 58, "More tests.")
    shown.task.message_store.add_message("assistant", "I do.")
    folded = shown.timeline()
    assert folded["end"] == before["end"] + 2
    assert [band["id"] for band in folded["folds"]] == [2, number]
    shown.task.message_store.folding.undo()
    undone = shown.timeline()
    with reading_view(OpenBase(shown.base, shown.settings), shown.uuid) as reading:
        assert undone["tokens"] == reading.figures().tokens
    assert [change["kind"] for change in undone["changes"]] == ["compress", "compress", "pin", "compress", "undo"]


def test_a_long_log_has_few_points_and_no_peak_is_missing(plain: Shown) -> None:
    store = plain.task.message_store
    for number in range(1500):
        store.add_message("user", f"note {number}")
    store.add_message("user", "a very long note " * 400)
    peak = store.get_current_token_count()
    fold(plain.task, 60 + 1, store.count_messages(), "All notes.")
    for number in range(1500):
        store.add_message("user", f"later note {number}")
    found = plain.timeline()
    assert len(found["points"]) <= MOST_POINTS
    assert max(tokens for _, tokens in found["points"]) == peak
    part = plain.timeline("?first=100&last=140")
    assert [seq for seq, _ in part["points"] if seq < LAST] == list(range(100, LAST))
    assert (part["first"], part["last"]) == (100, 140)


def test_a_log_in_the_place_of_another_one_is_read_anew(tmp_path: Path) -> None:
    settings = load_settings({}, environ={})
    memory = TaskMemory()
    for turns in (4, 3):  # as when a backup is put back
        task = begun(tmp_path, settings, turns)
        fold(task, 3, 4, "The first test.")
        memory.follow(task.task_store)
        assert memory.tokens_at(memory.last_seq) == task.message_store.get_current_token_count()
        assert len(memory.changes) == 1
        task.stop()
        task.catalogue.close()


# ---- what the model saw, and what a change did ----------------------------------------------------------------------


@pytest.mark.parametrize("at", [2, 40, LAST])
def test_what_the_model_saw_is_the_very_bytes(looked_at: Shown, at: int) -> None:
    seen = view_at(looked_at.base, looked_at.uuid, at, looked_at.settings)
    lines = looked_at.get(f"/view/lines?at={at}")
    assert lines.body == b"".join(line + b"\n" for line in seen.lines)
    assert "attachment" in lines.headers["content-disposition"]
    page = looked_at.page(f"/view?at={at}")
    shown_numbers = re.findall(r'id="e([0-9]+)"', page)
    assert shown_numbers == [str(one.entry.start) for one in seen.entries][-60:]
    assert f"<b>{seen.figures.tokens:,}</b>" in page


def test_the_answer_stands_beneath_what_was_asked(plain: Shown) -> None:
    page = plain.page("/view?at=2")
    assert "Turn 0: I run the tests." in page
    assert 'id="e3"' not in page


def test_before_and_after_of_a_change(looked_at: Shown) -> None:
    diff = view_diff(looked_at.base, looked_at.uuid, looked_at.settings, 2)
    page = looked_at.page("/compare/2")
    assert f"<b>{diff.compression.before_tokens:,}</b>" in page
    assert f"<b>{diff.compression.after_tokens:,}</b>" in page
    before, after = page.index('class="side before"'), page.index('class="side after"')
    assert "The first tests were run." in page[before:after]
    assert "All early tests were run" in page[after:]
    assert f"entries: {len(diff.hunks[0].gone)}" in page[before:after]
    assert looked_at.get("/compare/99").status == 409
    assert "#60" in looked_at.page("/compare/3")


def test_pins_are_proved_to_survive(plain: Shown) -> None:
    plain.task.message_store.folding.pin(70, "result of turn 33", made_by="tester")
    number = fold(plain.task, 61, 80, "Turns 29 to 38.\nresult of turn 33\n")
    page = plain.page(f"/compare/{number + 2}")
    assert "#70 stands word for word" in page


# ---- tasks that are not here, or not whole --------------------------------------------------------------------------


def test_a_queued_task_has_its_row_to_show(plain: Shown) -> None:
    with open_catalogue(plain.base, plain.settings) as catalogue:
        key = TaskKey("github", "acme", "shop", "issue", "28", "mika")
        catalogue.tasks.register(key, "queued-1", status=TaskStatus.QUEUED, prompt="Look at <b>this</b>.")
    answer = plain.client.ask("GET", "/tasks/queued-1")
    assert answer.status == 200
    assert "Look at &lt;b&gt;this" in answer.text
    assert 'data-status="queued"' in answer.text
    assert "nobody has begun it yet" in answer.text
    assert "orihon doctor" not in answer.text
    assert plain.client.ask("GET", "/tasks/queued-1/messages").status == 404


def test_an_archived_task_says_where_it_is_and_what_it_ended_with(tmp_path: Path) -> None:
    settings = load_settings({}, environ={})
    task = begun(tmp_path, settings, 2)
    task.complete()
    archive_task(tmp_path, task.uuid, settings)
    task.catalogue.close()
    with serving(tmp_path, settings) as server:
        page = Client(server).log_in().ask("GET", f"/tasks/{task.uuid}")
    assert page.status == 200
    assert f"orihon unarchive {task.uuid}" in page.text
    assert "Final summary" in page.text
    assert "Turn 1: I run the tests." in page.text


def test_a_task_whose_records_are_gone_has_its_row_and_no_buttons_for_them(tmp_path: Path) -> None:
    settings = load_settings({}, environ={})
    task = begun(tmp_path, settings, 2)
    task.complete()
    task.catalogue.close()
    delete_old_contexts(tmp_path, settings, 0)
    with serving(tmp_path, settings) as server:
        client = Client(server).log_in()
        page, bar = (client.ask("GET", f"/tasks/{task.uuid}{path}").text for path in ("", "/actions"))
    assert '<dd data-count="messages">6</dd>' in page
    assert ">cleaned up<" in page
    for shown in (page, bar):
        assert not re.findall('<button[^>]*data-act="(?:fork|cancel|compress)"', shown)
        assert "/export?" not in shown


def test_a_sealed_task_without_its_key_is_no_fault_of_the_server(tmp_path: Path) -> None:
    sealed = sealed_settings(write_key(tmp_path / "key"))
    base = tmp_path / "contexts"
    task = start_sealed(base, sealed, "11111111-1111-4111-8111-111111111111")
    task.stop()
    task.catalogue.close()
    with serving(base, sealed) as server:
        assert CANARY in Client(server).log_in().ask("GET", f"/tasks/{task.uuid}").text
    with serving(base, load_settings({}, environ={})) as server:
        client = Client(server).log_in()
        page = client.ask("GET", f"/tasks/{task.uuid}")
        assert (page.status, client.ask("GET", f"/tasks/{task.uuid}/view").status) == (200, 409)
    assert "is sealed" in page.text
    assert CANARY not in page.text
    assert not re.findall('<button[^>]*data-act="(?:fork|compress)"', page.text)


def test_a_damaged_message_hides_no_other(kind: str, shown: Shown) -> None:
    shown.task.stop()
    with reading_task(OpenBase(shown.base, shown.settings), shown.uuid) as (store, _):
        folder = store.records.folder
    BACKENDS[kind].damage(folder, 100, b'{"seq": 100, "role": "user"}')
    page = shown.page()
    assert 'class="message broken" id="m100"' in page
    assert 'id="m99"' in page
    assert 'id="m101"' in page
    assert shown.get("?tab=tools").status == 200


def test_nobody_is_shown_buttons_that_they_cannot_press(plain: Shown) -> None:
    with serving(plain.base, plain.settings, read_only=True) as server:
        page = Client(server).log_in().ask("GET", f"/tasks/{plain.uuid}").text
    assert "data-act=" not in page
    assert "data-act=" in plain.page()


# ---- live -----------------------------------------------------------------------------------------------------------


@contextmanager
def listening(shown: Shown, query: str = "", **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a page is told, event by event."""
    connection = http.client.HTTPConnection("127.0.0.1", shown.server.port, timeout=_PATIENCE)
    said = {"Cookie": shown.client.cookie, **headers}
    try:
        connection.request("GET", f"/tasks/{shown.uuid}/events{query}", headers=said)
        answer = connection.getresponse()
        assert answer.status == 200
        yield (json.loads(line[6:]) for line in iter(answer.readline, b"") if line.startswith(b"data: "))
    finally:
        connection.close()


def until(events: Iterator[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(one for one in events if all(one[name] == value for name, value in wanted.items()))


def test_a_new_message_is_told_as_it_is_shown(shown: Shown) -> None:
    with listening(shown, f"?after={LAST}") as events:
        assert until(events, messages=LAST)["html"] == ""
        shown.task.message_store.add_message("user", "Is it <i>done</i>?")
        new = until(events, messages=LAST + 1)
        assert f'id="m{LAST + 1}"' in new["html"]
        assert "Is it &lt;i&gt;done&lt;/i&gt;?" in new["html"]
        fold(shown.task, 61, 80, "Turns 29 to 38.")
        folded = until(events, compressions=4)
        with reading_view(OpenBase(shown.base, shown.settings), shown.uuid) as reading:
            assert folded["tokens"] == reading.figures().tokens
        shown.task.stop()
        assert until(events, status="paused")["messages"] == LAST + 1


def test_a_task_on_its_way_to_another_place_has_what_it_had(plain: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    look = TaskSnapshots(OpenBase(plain.base, plain.settings), plain.uuid)
    before, folder = look.state(), look._task._place
    with monkeypatch.context() as patch:
        patch.setattr(look._base.folders, "find", lambda _: folder)  # looked for just before it is moved
        plain.task.stop()
        assert look.state() == {**before, "status": "paused"}
    assert look.state() == {**before, "status": "paused"}
    with monkeypatch.context() as patch:
        patch.setattr(look._base.folders, "find", lambda _: folder)  # went on, and came back before it was opened there
        assert look.state() == {**before, "status": "paused"}
    assert look.state() == {**before, "status": "paused"}
    look.close()


def test_of_many_new_messages_only_the_number_is_told(plain: Shown) -> None:
    with listening(plain, "?after=0") as events:
        assert until(events, messages=LAST)["html"] == ""
    with listening(plain, "?after=0", **{"Last-Event-ID": str(LAST - 2)}) as events:
        assert _ITEM.findall(until(events, messages=LAST)["html"]) == [f"m{LAST - 1}", f"m{LAST}"]
