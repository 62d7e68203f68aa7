"""Tasks from GitLab: python-gitlab over real HTTP against a small stateful GitLab that can fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orihon.errors import SourceError
from orihon.runtime.sources.base import SourceTask
from orihon.runtime.sources.forge import Labels, Retry
from orihon.runtime.sources.gitlab import LOCK, LOCK_SECONDS, GitLabSource
from orihon.values.task import TaskKey
from tests.helpers import refused
from tests.integration.forge_http import Answer, Fault, Meanwhile, running
from tests.integration.gitlab_server import PROJECT, GitLabServer

TOKEN = "agent-token"
UUID = "0d7b0d2e-5a1c-4f0e-9d55-333333333333"
LABELS = Labels()
ISSUE = "issues"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def server() -> Iterator[GitLabServer]:
    made = GitLabServer()
    with running(made):
        yield made


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def source(server: GitLabServer, waits: list[float]) -> Iterator[GitLabSource]:
    made = make(server, waits)
    yield made
    made.close()


def make(server: GitLabServer, waits: list[float], token: str = TOKEN) -> GitLabSource:
    retry = Retry(sleep=waits.append)
    return GitLabSource([PROJECT], token=token, base_url=server.url, retry=retry, timeout=300)


def open_issue(server: GitLabServer, title: str = "Fix it") -> int:
    return server.add(ISSUE, title, "Please.", (LABELS.todo, "bug"))


def labels_of(server: GitLabServer, number: int, kind: str = ISSUE) -> set[str]:
    return set(server.items[kind, number]["labels"])


def said_by_agent(server: GitLabServer, number: int, kind: str = ISSUE) -> list[str]:
    notes = server.notes[kind, number]
    return [note["body"].split("\n")[0] for note in notes if note["author"]["username"] == "agent"]


def with_uuid(found: SourceTask) -> TaskKey:
    key = found.key
    return TaskKey(key.task_source, key.owner, key.repo, key.task_type, key.task_id, key.user, UUID)


def lock_by(user: str, age: float) -> dict[str, Any]:
    when = (datetime.now(UTC) - timedelta(seconds=age)).isoformat().replace("+00:00", "Z")
    return {"id": 7, "name": LOCK, "user": {"username": user}, "created_at": when}


def test_an_issue_goes_from_the_label_to_done(server: GitLabServer, source: GitLabSource) -> None:
    number = server.add(ISSUE, "ログインを直す", "The button does nothing.", (LABELS.todo, "bug"))
    server.add(ISSUE, "Not for the agent", None, ("bug",))
    server.say(ISSUE, number, "It worked last week.")
    server.say(ISSUE, number, "added ~1 label", system=True)
    (found,) = source.poll()
    assert found.key == TaskKey("gitlab", "group/sub", "shop", "issue", str(number), user="hanako")
    assert (found.title, found.body, found.user) == ("ログインを直す", "The button does nothing.", "hanako")
    assert [(each.author, each.text) for each in found.comments] == [("hanako", "It worked last week.")]
    assert (found.labels, found.source_branch) == ((LABELS.todo, "bug"), "")
    assert found.url.endswith(f"/{PROJECT}/-/issues/{number}")
    assert source.claim(found)
    assert labels_of(server, number) == {LABELS.processing, "bug"}
    assert server.reactions[ISSUE, number] == []
    assert list(source.poll()) == []
    assert [each.key for each in source.claimed()] == [found.key]
    key = with_uuid(found)
    source.comment(key, "Started.", kind="start")
    assert [each.text.split("\n")[0] for each in source.find(key).comments] == ["It worked last week.", "Started."]
    source.finish(key, "completed", "The button works.")
    assert labels_of(server, number) == {LABELS.completed, "bug"}
    assert said_by_agent(server, number) == ["Started.", "The button works."]


def test_a_merge_request_brings_its_branches_and_remarks(server: GitLabServer, source: GitLabSource) -> None:
    kind = "merge_requests"
    number = server.add(kind, "Faster import", None, (LABELS.todo,))
    server.say(kind, number, "Why?", position={"new_path": "import.py", "new_line": 12})
    server.say(kind, number, "Gone.", position={"new_path": "import.py", "new_line": None})
    (found,) = source.poll()
    assert (found.key.task_type, found.body) == ("merge_request", "")
    assert (found.source_branch, found.target_branch) == ("faster", "main")
    assert [each.place for each in found.comments] == ["import.py:12", "import.py"]
    assert found.key.label == "gitlab:group/sub/shop!1"
    assert source.claim(found)
    source.finish(with_uuid(found), "failed", "The tests fail.")
    assert labels_of(server, number, kind) == {LABELS.failed}
    assert said_by_agent(server, number, kind) == ["The tests fail."]


def test_only_the_wanted_types_are_read(server: GitLabServer) -> None:
    open_issue(server)
    server.add("merge_requests", "Faster", "", (LABELS.todo,))
    source = GitLabSource([PROJECT], token=TOKEN, base_url=server.url, types=["merge_request"])
    assert [found.key.task_type for found in source.poll()] == ["merge_request"]
    source.close()


def test_a_paused_task_goes_on_and_a_repeated_one_loses_its_old_label(
    server: GitLabServer, source: GitLabSource
) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    source.claim(found)
    source.finish(found.key, "paused", "Until tomorrow.")
    assert labels_of(server, number) == {LABELS.paused, "bug"}
    source.resumed(found.key)
    assert labels_of(server, number) == {LABELS.processing, "bug"}
    source.finish(found.key, "cancelled", "Not wanted.")
    server.items[ISSUE, number]["labels"].append(LABELS.todo)
    (again,) = source.poll()
    assert source.claim(again)
    assert labels_of(server, number) == {LABELS.processing, "bug"}


def test_all_pages_are_read_while_tasks_are_claimed(server: GitLabServer, source: GitLabSource) -> None:
    numbers = [open_issue(server, f"Task {number}") for number in range(203)]
    for number in range(101):
        server.say(ISSUE, 1, f"Comment {number}", created_at=f"2026-11-01T10:{number // 60:02}:{number % 60:02}Z")
    claimed: list[int] = []
    for found in source.poll():
        if not claimed:
            assert [each.text for each in found.comments] == [f"Comment {number}" for number in range(1, 101)]
        if len(claimed) < 3:
            assert source.claim(found)
        claimed.append(int(found.key.task_id))
    assert claimed == numbers
    assert server.count("GET", "/issues?") == 3


@pytest.mark.parametrize("tokens", [("agent-token",) * 4, ("agent-token", "second-token") * 2])
def test_of_many_who_claim_a_task_one_gets_it(server: GitLabServer, tokens: tuple[str, ...]) -> None:
    numbers = [open_issue(server) for _ in range(10)]
    won: list[str] = []
    start = threading.Barrier(len(tokens), timeout=300)

    def work(token: str) -> None:
        source = make(server, [], token)
        found = list(source.poll())
        start.wait()
        for task in found:
            if source.claim(task):
                won.append(task.key.task_id)
        source.close()

    threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(won)) == len(won)
    left = make(server, [])  # two who look at each other's lock may both stand back
    won.extend(task.key.task_id for task in list(left.poll()) if left.claim(task))
    left.close()
    assert sorted(won, key=int) == [str(number) for number in numbers]
    for number in numbers:
        assert labels_of(server, number) == {LABELS.processing, "bug"}
        assert server.reactions[ISSUE, number] == []


def test_who_comes_after_the_label_was_taken_gets_nothing(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    other = make(server, [])
    server.meanwhile = [Meanwhile("POST", "award_emoji", lambda: other.claim(found))]
    assert not source.claim(found)
    assert labels_of(server, number) == {LABELS.processing, "bug"}
    assert server.count("PUT") == 1
    assert server.reactions[ISSUE, number] == []
    other.close()


def test_an_older_lock_counts_until_it_is_void(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.reactions[ISSUE, number] = [lock_by("second", 30)]
    assert not source.claim(found)
    server.reactions[ISSUE, number] = [lock_by("second", LOCK_SECONDS + 5)]
    assert source.claim(found)
    assert [each["user"]["username"] for each in server.reactions[ISSUE, number]] == ["second"]


def test_a_lock_of_our_own_that_was_left_behind_is_removed(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.reactions[ISSUE, number] = [lock_by("agent", 30)]
    assert not source.claim(found)
    server.reactions[ISSUE, number] = [lock_by("agent", LOCK_SECONDS + 5)]
    assert not source.claim(found)
    assert server.reactions[ISSUE, number] == []
    assert source.claim(found)


def test_a_lock_that_the_server_does_not_show_is_none(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    headers = {"Content-Type": "application/json"}
    server.faults = [Fault("GET", "award_emoji", Answer(200, b"[]", headers), times=1)]
    assert not source.claim(found)
    assert server.reactions[ISSUE, number] == []
    assert source.claim(found)


def test_a_lock_that_cannot_be_taken_back_does_not_undo_the_claim(
    server: GitLabServer, source: GitLabSource, caplog: pytest.LogCaptureFixture
) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.faults = [Fault("DELETE", "award_emoji", Answer(500), times=9)]
    assert source.claim(found)
    assert labels_of(server, number) == {LABELS.processing, "bug"}
    assert "stays until it is void" in caplog.text


def test_closed_tasks_are_not_claimed(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.items[ISSUE, number]["state"] = "closed"
    assert not source.claim(found)
    assert list(source.poll()) == []


def test_a_lost_answer_neither_loses_the_task_nor_doubles_a_comment(
    server: GitLabServer, source: GitLabSource, waits: list[float]
) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.faults = [
        Fault("PUT", "/issues/", Answer(502, b"<html>"), after=True),
        Fault("POST", "/notes", None, after=True),
        Fault("POST", "/notes", Answer(503)),
    ]
    assert source.claim(found)
    key = with_uuid(found)
    source.comment(key, "Started.", kind="start")
    source.comment(key, "Halfway.")
    for _ in range(2):  # a process that died after it, started again
        source.finish(key, "completed", "Done.")
    assert said_by_agent(server, number) == ["Started.", "Halfway.", "Done."]
    assert labels_of(server, number) == {LABELS.completed, "bug"}
    assert len(waits) == 3


def test_a_copied_marker_does_not_silence_the_agent(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.say(ISSUE, number, f"Ha! <!-- orihon:{UUID}:finish-completed -->")
    source.finish(with_uuid(found), "completed", "Done.")
    assert said_by_agent(server, number) == ["Done."]


def test_a_token_without_a_user_still_comments_once(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.faults = [Fault("GET", "/user", Answer(403, b'{"message": "403 Forbidden"}', JSON), times=9)]
    for _ in range(2):
        source.comment(with_uuid(found), "Started.", kind="start")
    assert said_by_agent(server, number) == ["Started."]


def test_a_long_comment_is_cut_and_keeps_its_marker(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    for _ in range(2):
        source.comment(with_uuid(found), "長" * 1_000_000, kind="log")
    (note,) = server.notes[ISSUE, number]
    assert len(note["body"]) == 900_000
    assert note["body"].endswith(f"…\n\n<!-- orihon:{UUID}:log -->")


def test_rate_limits_are_waited_for_within_reason(
    server: GitLabServer, source: GitLabSource, waits: list[float]
) -> None:
    open_issue(server)
    server.faults = [Fault("GET", "/issues?", Answer(429, b"Retry later\n", {"Retry-After": "3"}), times=2)]
    assert len(list(source.poll())) == 1
    assert waits == [3.0, 3.0]
    date = {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}
    server.faults = [Fault("GET", "/issues?", Answer(429, b"", date), times=9)]
    with refused(SourceError, "rate_limited"):
        list(source.poll())
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("answer", "reason", "tries"),
    [
        (Answer(401, b'{"message": "401 Unauthorized"}', JSON), "token", 1),
        (Answer(403, b'{"message": "403 Forbidden"}', JSON), "forbidden", 1),
        (Answer(404, b'{"message": "404 Project Not Found"}', JSON), "not_found", 1),
        (Answer(400, b'{"error": "bad"}', JSON), "refused", 1),
        (Answer(500, b"", {}), "server", 4),
        (Answer(200, b"<html>Log in</html>", {"Content-Type": "text/html"}), "answer", 1),
        (Answer(200, b'{"not": "a list"}', JSON), "answer", 1),
        (Answer(200, b'[{"iid": "x"}]', JSON), "answer", 1),
        (None, "unreachable", 4),
    ],
)
def test_every_failure_ends_in_one_clear_error(
    server: GitLabServer,
    source: GitLabSource,
    waits: list[float],
    caplog: pytest.LogCaptureFixture,
    answer: Answer | None,
    reason: str,
    tries: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.faults = [Fault("GET", "/issues?", answer, times=99)]
    with refused(SourceError, reason) as caught:
        list(source.poll())
    assert server.count("GET", "/issues?") == tries
    assert len(waits) == tries - 1
    assert TOKEN not in str(caught.value) + repr(caught.value) + caplog.text


def test_a_wrong_token_is_named_and_not_shown(server: GitLabServer) -> None:
    source = make(server, [], "wrong-token")
    with refused(SourceError, "token") as caught:
        list(source.poll())
    assert "wrong-token" not in str(caught.value)
    source.close()


def test_a_server_that_moved_is_named(server: GitLabServer, source: GitLabSource) -> None:
    number = open_issue(server)
    (found,) = source.poll()
    server.faults = [Fault("POST", "/notes", Answer(301, b"", {"Location": f"{server.url}/elsewhere"}))]
    with refused(SourceError, "redirected"):
        source.comment(found.key, "Started.")
    assert said_by_agent(server, number) == []
