"""The summarizer against a real HTTP server that answers well, badly, late, in part, or not at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, TaskKey
from orihon.compression.model.call import SummaryFailure
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.llm.openai import OpenAIClient
from orihon.llm.retry import RetryPolicy
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, tokenizer
from tests.integration.chat_http import HttpChatClient, Scripted, ScriptedServer, problem, says, serving
from tests.integration.run_supervisor import eventually
from tests.receivers import closed_port

COUNT = tokenizer(DEFAULT_TOKENIZER)

GOOD = "## Decisions\n2 assistant: retries are limited to 3 in fetch_page"
HTML = Scripted(b"<html><body>502 Bad Gateway</body></html>", 200, "text/html")

RUN = [
    Message("user", "The crawler must not hammer the site. " * 8),
    Message("assistant", "fetch_page retries at most 3 times from now on. " * 8),
]


def ask(
    server: ScriptedServer, timeout: float = 120.0, client_timeout: float | None = None
) -> tuple[str | None, str | None]:
    client = HttpChatClient(server.url, client_timeout)
    asking = LLMSummarizer(client, window=4000, count=COUNT, retries=2, retry_delay=0.0, timeout=timeout)
    written = asking.summarize(RUN, 100)
    return written, asking.last_failure


def test_a_summary_comes_over_http() -> None:
    with serving(says(GOOD)) as server:
        assert ask(server) == (GOOD, None)
    (request,) = server.requests
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "[2 ASSISTANT]: fetch_page retries" in request["messages"][1]["content"]
    assert request["max_tokens"] == 100 - COUNT(SUMMARY_PREFIX)


@pytest.mark.parametrize(
    "passing",
    [
        problem(500, message="internal"),
        problem(503, message="loading model"),
        problem(429, message="slow down"),
        Scripted(says(GOOD).body, cut_after=20),
        Scripted(says(GOOD).body, cut_after=0),
        Scripted(b'{"choices": [', 200),
        says(""),
    ],
    ids=lambda one: f"{one.status}-{one.cut_after}-{one.body[:20]!r}",
)
def test_what_passes_is_tried_again(passing: Scripted) -> None:
    with serving(passing, passing, says(GOOD)) as server:
        assert ask(server) == (GOOD, None)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "reason", "requests"),
    [
        (problem(500, message="internal"), SummaryFailure.RAISED, 3),
        (Scripted(b"", cut_after=0), SummaryFailure.RAISED, 3),
        (says(" \n"), SummaryFailure.EMPTY, 3),
        (problem(200, message="overloaded"), SummaryFailure.ERROR_TEXT, 1),
        (HTML, SummaryFailure.ERROR_TEXT, 1),
        (Scripted(b"429 Too Many Requests", 200, "text/plain"), SummaryFailure.ERROR_TEXT, 1),
        (Scripted(b"[]"), SummaryFailure.NOT_TEXT, 1),
        (Scripted(b'{"choices": [{"message": {"content": 7}}]}'), SummaryFailure.NOT_TEXT, 1),
        (says("I'm sorry, I can't help with fetch_page."), SummaryFailure.REFUSED, 1),
        (says("Bake the cake for twenty minutes."), SummaryFailure.UNRELATED, 1),
        (says("fetch_page " * 500), SummaryFailure.LONGER_THAN_INPUT, 1),
        (says("fetch_page retries " * 45), SummaryFailure.TOO_LONG, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_fails_for_good_is_typed(answer: Scripted, reason: SummaryFailure, requests: int) -> None:
    with serving(answer) as server:
        assert ask(server) == (None, reason)
    assert len(server.requests) == requests


def test_a_server_that_never_answers_is_left() -> None:
    with serving(Scripted(b"", hangs=True)) as server:
        assert ask(server, timeout=0.1) == (None, SummaryFailure.TIMED_OUT)
        eventually(lambda: server.requests)
    assert len(server.requests) == 1


def test_a_client_with_a_time_limit_of_its_own_is_not_asked_again() -> None:
    with serving(Scripted(b"", hangs=True)) as server:
        assert ask(server, client_timeout=0.1) == (None, SummaryFailure.TIMED_OUT)
        eventually(lambda: server.requests)
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_fails_like_a_client_that_raises() -> None:
    client = HttpChatClient(f"http://127.0.0.1:{closed_port()}")
    asking = LLMSummarizer(client, window=4000, count=COUNT, retries=2, retry_delay=0.0)
    assert (asking.summarize(RUN, 100), asking.last_failure) == (None, SummaryFailure.RAISED)


def test_a_request_that_the_server_finds_too_long_comes_again_at_half_its_size() -> None:
    overflow = problem(400, type="exceed_context_size_error", message="request (1600 tokens) exceeds the context")
    messages = [Message("user", f"step {n}: fetch_page({n * 31}) returned page_{n}") for n in range(80)]
    with serving(overflow, says("step 79: page_79 is there")) as server:
        asking = LLMSummarizer(HttpChatClient(server.url), window=4000, count=COUNT, timeout=120.0)
        assert asking.summarize(messages, 100) == "step 79: page_79 is there"
    first, second = (COUNT(request["messages"][1]["content"]) for request in server.requests)
    assert second <= first * 0.52


# ---- one deadline ----------------------------------------------------------------------------------------------------

MARGIN = 20.0  # seconds that a slow machine may take on top


def own_client(server: ScriptedServer, **retry: Any) -> OpenAIClient:
    """A client of ours, which makes attempts of its own."""
    return OpenAIClient({"llm": {"openai": {"base_url": server.url, "model": "m"}}}, retry=RetryPolicy(**retry))


def threads_of_calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "orihon-summary"]


def test_the_time_limit_is_for_all_attempts_together() -> None:
    with serving(problem(500, message="internal")) as server:
        asking = LLMSummarizer(
            HttpChatClient(server.url), window=4000, count=COUNT, retries=10, retry_delay=0.1, timeout=0.5
        )
        began = time.monotonic()
        assert asking.summarize(RUN, 100) is None
        assert time.monotonic() - began < 0.5 + MARGIN
        assert asking.last_failure == SummaryFailure.RAISED
        assert 1 <= len(server.requests) <= 3, "0.1 + 0.2 + 0.4 s of pauses are more than there is"


def test_no_attempt_begins_when_its_pause_would_take_the_rest_of_the_time() -> None:
    with serving(problem(500, message="internal")) as server:
        asking = LLMSummarizer(
            HttpChatClient(server.url), window=4000, count=COUNT, retries=5, retry_delay=3600.0, timeout=1800.0
        )
        assert asking.summarize(RUN, 100) is None
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "failure", "requests"),
    [
        (problem(503, message="loading"), SummaryFailure.RAISED, 3),
        (Scripted(b"", hangs=True), SummaryFailure.TIMED_OUT, 1),
    ],
    ids=["503", "hangs"],
)
def test_a_client_of_ours_makes_no_request_after_the_time_limit(
    answer: Scripted, failure: SummaryFailure, requests: int
) -> None:
    """Nor does it repeat requests by itself: the summarizer does, as often as it was told."""
    with serving(answer) as server:
        client = own_client(server, retries=1000, first_delay=0.05, longest_delay=0.05)
        patience = 1.0 if answer.hangs else 3600.0
        asking = LLMSummarizer(client, window=4000, count=COUNT, retries=2, retry_delay=0.01, timeout=patience)
        assert (asking.summarize(RUN, 100), asking.last_failure) == (None, failure)
        eventually(lambda: not threads_of_calls())
        time.sleep(0.5)
        assert len(server.requests) == requests


def test_the_time_limit_of_a_summary_leaves_the_clients_own_conversation_alone(tmp_path: Path) -> None:
    hanging, answer = Scripted(b"", hangs=True), says("I go on with fetch_page.")
    with serving(hanging, answer) as server:
        config = {
            "llm": {"openai": {"base_url": server.url, "model": "m", "context_length": 2000, "max_token": 100}},
            "compression": {"summary_timeout": 0.3},
        }
        client = OpenAIClient(config, context_dir=tmp_path / "task", stream=False)
        for number in range(60):
            client.send_user_message(f"fetch_page({number}) must not hammer the site of customer_{number}. " * 4)
        assert client.get_response()[0] == "I go on with fetch_page.", "only the call for the summary was ended"
        assert len(server.requests) == 2


def test_whoever_asks_a_client_that_hangs_is_told_so_at_once() -> None:
    with serving(Scripted(b"", hangs=True)) as server:
        client = HttpChatClient(server.url)
        first, second = (LLMSummarizer(client, window=4000, count=COUNT, timeout=seconds) for seconds in (0.1, 3600.0))
        assert (first.summarize(RUN, 100), first.last_failure) == (None, SummaryFailure.TIMED_OUT)
        assert (second.summarize(RUN, 100), second.last_failure) == (None, SummaryFailure.BUSY)
        eventually(lambda: server.requests)
        assert len(server.requests) == 1
    eventually(lambda: not threads_of_calls())
    with serving(says(GOOD)) as server:
        client.url = server.url
        assert second.summarize(RUN, 100) == GOOD, "it is back"


@pytest.mark.parametrize("end", ["fail", "cancel", "close", "stop", "block"])
def test_a_task_that_ends_badly_waits_for_no_model(tmp_path: Path, end: str) -> None:
    with serving(Scripted(b"", hangs=True)) as server:
        ctx = TaskContextManager(tmp_path, TaskKey("github", "me", "project", "issue", "27", "me"))
        ctx.set_llm_client(own_client(server))
        for message in RUN:
            ctx.message_store.add_message(message.role, message.text)
        if end == "fail":
            ctx.fail("the model is gone")
        elif end == "block":
            with pytest.raises(LookupError), ctx:
                raise LookupError("the model is gone")
        else:
            getattr(ctx, end)()
        assert server.requests == []
    if end in ("fail", "block"):
        summary = (tmp_path / "completed" / ctx.uuid / "final_summary.txt").read_text(encoding="utf-8")
        assert "fetch_page retries" in summary
