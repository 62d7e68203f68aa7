"""Words of the records on the pages, in the reader's language; why a task failed; a task that has just begun."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import get_args

import pytest

from orihon import TaskContextManager, TaskKey, load_settings
from orihon.catalogue import Catalogue
from orihon.compression.compressor import ContextCompressor
from orihon.compression.strategies.prune import PruneSelection
from orihon.settings.rungs import EVENTS, LEVELS, STRATEGIES
from orihon.store.checkpoints import Approval
from orihon.system import jsonio
from orihon.texts import LANGUAGES, speaking
from orihon.values.records import REWIND, CompressionKind
from orihon.values.task import TaskStatus
from orihon.values.view import PlannedFold
from orihon.web.filters import level_name, maker_name, reason_name, role_name, strategy_name, trigger_name
from tests.catalogues import CataloguePlace
from tests.serving import Client, serving

HOSTILE = '"><script>alert(1)</script>\u202e'
_SHOWN = re.compile(r'<(b|bdi)[^>]* title="([^"]*)"[^>]*>([^<]*)</\1>')


class Page:
    """A page in one language: what it says, with the words of the records beside it."""

    def __init__(self, client: Client, path: str, language: str) -> None:
        answer = client.ask("GET", path, headers={"Accept-Language": language})
        assert answer.status == 200, answer.text
        self.html = answer.text
        self.named = {(unescape(raw), unescape(name)) for _, raw, name in _SHOWN.findall(self.html)}


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, str]]:
    """A task with three changes: one as the ladder makes it, one of a stranger, one on the page."""
    base = tmp_path_factory.mktemp("named") / "contexts"
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    task = TaskContextManager(base, TaskKey("github", "acme", "shop", "issue", "27", "mika"), settings)
    store = task.message_store
    store.add_message("system", "You are careful.")
    for turn in range(12):
        store.add_message("user", f"Look at the lantern of part {turn}.")
        store.add_message("assistant", f"Part {turn} is well.")
    plan = PlannedFold(2, 7, "Parts 0 to 2.", reason="extractive")
    store.folding.compress([plan], trigger="usage", strategy="offload+summarize", made_by="ContextCompressor")
    plan = PlannedFold(8, 11, "Parts 3 and 4.", reason=HOSTILE)
    strategy = f"prune+{HOSTILE}"
    store.folding.compress([plan], trigger=HOSTILE, strategy=strategy, level=HOSTILE, made_by=HOSTILE)
    plan = PlannedFold(12, 15, "Parts 5 and 6.", reason="sections:light")
    store.folding.compress([plan], strategy="sections", level="light", made_by="web:ana")
    task.stop()
    task.catalogue.close()
    with serving(base, settings) as server:
        yield Client(server).log_in(), task.uuid


@pytest.mark.parametrize(
    ("language", "how", "maker", "by_hand", "on_the_page"),
    [
        ("en", "context filled up · Offload large results + Summarize", "Orihon itself", "by hand", "ana (page)"),
        ("ja", "コンテキストの逼迫 · 大きな結果を外に出す + 要約", "Orihon 本体", "手動", "ana（ページ）"),
    ],
)
def test_changes_say_why_how_and_by_whom(
    folded: tuple[Client, str], language: str, how: str, maker: str, by_hand: str, on_the_page: str
) -> None:
    client, uuid = folded
    light = {"en": "By sections · Light", "ja": "セクション単位 · 軽量"}[language]
    expected = {("usage · offload+summarize", how), ("ContextCompressor", maker)}
    third = {("manual · sections · light", f"{by_hand} · {light}"), ("web:ana", on_the_page)}
    assert expected | third <= Page(client, f"/tasks/{uuid}?tab=changes", language).named
    assert expected <= Page(client, f"/tasks/{uuid}/compare/1", language).named
    assert third <= Page(client, f"/tasks/{uuid}/compare/3", language).named


@pytest.mark.parametrize(
    ("language", "strategy", "reason", "light"),
    [
        ("en", "Offload large results + Summarize", "most important lines", "By sections · Light"),
        ("ja", "大きな結果を外に出す + 要約", "重要な行を抜粋", "セクション単位 · 軽量"),
    ],
)
def test_folds_say_how_they_were_made(
    folded: tuple[Client, str], language: str, strategy: str, reason: str, light: str
) -> None:
    client, uuid = folded
    named = Page(client, f"/tasks/{uuid}?tab=summaries", language).named
    assert {("offload+summarize", strategy), ("extractive", reason)} <= named
    assert {("sections · light", light), ("sections:light", light)} <= named


@pytest.mark.parametrize(
    ("language", "user", "assistant"), [("en", "User", "Assistant"), ("ja", "ユーザー", "アシスタント")]
)
def test_roles_have_names(folded: tuple[Client, str], language: str, user: str, assistant: str) -> None:
    client, uuid = folded
    expected = {("user", user), ("assistant", assistant)}
    for path in (f"/tasks/{uuid}/view", f"/tasks/{uuid}/compare/1"):
        page = Page(client, path, language)
        assert expected <= page.named
        assert re.search(rf'aria-label="#\d+ {user}"', page.html)
        assert not re.search(r'aria-label="#\d+ user"', page.html)
    assert ("user", user) in Page(client, "/search?query=lantern", language).named


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_timeline_gets_names_for_its_words(folded: tuple[Client, str], language: str) -> None:
    client, uuid = folded
    html = Page(client, f"/tasks/{uuid}", language).html
    block = re.search(r'<script type="application/json" id="timeline-names"[^>]*>(.*?)</script>', html)
    assert block is not None
    names = jsonio.decode(block[1].encode())
    told = client.ask("GET", f"/api/tasks/{uuid}/timeline").value
    assert {change["kind"] for change in told["changes"]} <= names["kind"].keys()
    assert names["kind"].keys() == {*get_args(CompressionKind)}
    assert names["strategy"].keys() >= {*STRATEGIES, *LEVELS}
    assert names["reason"].keys() >= {*get_args(PruneSelection), "model", "extractive", "sections:light"}
    for words in names.values():
        assert all(name != word for word, name in words.items() if (language, word) != ("en", "shortened"))


def test_words_from_outside_stay_and_do_nothing(folded: tuple[Client, str]) -> None:
    client, uuid = folded
    visible = HOSTILE.replace("\u202e", "\\u202e")
    for path in ("?tab=changes", "?tab=summaries", "/compare/2"):
        page = Page(client, f"/tasks/{uuid}{path}", "ja")
        assert "<script>alert(1)" not in page.html
        assert "\u202e" not in page.html
        assert (visible, visible) in page.named  # the maker
        assert any(f"間引き + {visible}" in name for _, name in page.named)


@pytest.mark.parametrize("word", ["", "a.b", "usage.x", "model.x", "cli.x", "light.x", "user.x", "{user}", "__len__"])
def test_a_word_that_looks_like_a_key_is_shown_as_it_is(word: str) -> None:
    for named in (role_name, trigger_name, strategy_name, level_name, reason_name, maker_name):
        assert named(word) == word
    assert maker_name(f"web:{word}") == f"{word} (page)"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_ladder_has_a_name(language: str) -> None:
    with speaking(language):
        for event in ("usage", "manual", "recreate", *EVENTS):
            assert trigger_name(event) != event or (language, event) == ("en", "approval")
        for strategy in (*STRATEGIES, "shorten", REWIND, "import"):
            assert strategy_name(strategy) != strategy
        for level in LEVELS:
            assert level_name(level) != level
            assert level_name(level) in reason_name(f"sections:{level}")
        assert maker_name(ContextCompressor.__name__) != ContextCompressor.__name__


def test_who_answered_is_named_without_the_time() -> None:
    answer = Approval("approve", "ops:20 team", at="2026-11-16T06:12:03.123456+00:00")
    assert maker_name(answer.maker) == "ops:20 team (answer)"
    assert maker_name("approval:nobody") == "approval:nobody"


# ---- the feed and the list -----------------------------------------------------------------------------------------


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    place.base_dir.mkdir()
    with place.open() as opened:
        yield opened


@pytest.fixture
def client(place: CataloguePlace, catalogue: Catalogue) -> Iterator[Client]:
    with serving(place.base_dir, place.settings) as server:
        yield Client(server).log_in()


def register(catalogue: Catalogue, uuid: str, status: TaskStatus) -> None:
    catalogue.tasks.register(TaskKey("github", "acme", "shop", "issue", uuid, "mika"), uuid, status=status)


def reasons(client: Client) -> list[str]:
    feed = client.ask("GET", "/notifications/list?group=failures").text
    return [unescape(found) for found in re.findall(r'<p class="small wrong"><bdi>(.*?)</bdi></p>', feed, re.DOTALL)]


def test_the_feed_says_why_a_task_failed(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", TaskStatus.RUNNING)
    catalogue.tasks.change_status(
        "one", TaskStatus.FAILED, error_message=f"\n  {HOSTILE} no disk \nTraceback: secret line"
    )
    assert reasons(client) == ['"><script>alert(1)</script>\\u202e no disk']
    assert "<script>alert(1)" not in client.ask("GET", "/notifications").text
    assert "secret line" not in client.ask("GET", "/notifications").text


def test_a_long_reason_is_cut(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", TaskStatus.RUNNING)
    catalogue.tasks.change_status("one", TaskStatus.FAILED, error_message="no disk " * 1000)
    (reason,) = reasons(client)
    assert reason.startswith("no disk no disk")
    assert reason.endswith("…")
    assert len(reason) <= 200


def test_an_earlier_failure_does_not_get_the_reason_of_a_later_one(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", TaskStatus.RUNNING)
    catalogue.tasks.change_status("one", TaskStatus.FAILED, error_message="no disk")
    catalogue.tasks.change_status("one", TaskStatus.QUEUED)
    assert reasons(client) == []
    catalogue.tasks.change_status("one", TaskStatus.RUNNING)
    catalogue.tasks.change_status("one", TaskStatus.DEAD, error_message="no memory")
    feed = client.ask("GET", "/notifications/list?group=failures").text
    assert feed.count("data-number=") == 2
    assert reasons(client) == ["no memory"]
    assert feed.index("no memory") < feed.rindex("data-number=")  # at the newer notice, which stands first


def test_a_failure_without_a_reason_is_told_all_the_same(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", TaskStatus.RUNNING)
    catalogue.tasks.change_status("one", TaskStatus.FAILED)
    assert reasons(client) == []
    assert "The task has failed" in client.ask("GET", "/notifications").text


def test_a_task_that_has_begun_is_not_said_to_wait(client: Client, catalogue: Catalogue) -> None:
    register(catalogue, "one", TaskStatus.QUEUED)
    assert "not begun" in client.ask("GET", "/tasks/rows").text
    catalogue.tasks.change_status("one", TaskStatus.RUNNING)
    begun = client.ask("GET", "/tasks/rows").text
    assert "not begun" not in begun
    assert "no figures yet" in begun
    assert "計測待ち" in client.ask("GET", "/tasks/rows", headers={"Accept-Language": "ja"}).text
    catalogue.tasks.set_totals("one", view_tokens=900)
    assert "no figures yet" not in client.ask("GET", "/tasks/rows").text


def test_a_task_of_a_program_has_figures_from_its_first_heartbeat(tmp_path: Path) -> None:
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    task = TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1", "me"), settings)
    task.message_store.add_message("user", "Round the totals of the cart once.")
    with serving(tmp_path, settings) as server:
        client = Client(server).log_in()
        assert "not begun" not in client.ask("GET", "/tasks/rows").text
        task.heartbeat()
        assert "no figures yet" not in client.ask("GET", "/tasks/rows").text
    task.stop()
    task.catalogue.close()
