"""Tasks from GitHub, end to end: PyGithub over real HTTP, a stateful GitHub, and a server between that can fail.

``make test`` installs that GitHub. Elsewhere the tests are skipped where it or Node is missing, in continuous
integration never.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from github import Auth, Github
from github.Repository import Repository

from orihon.errors import SourceError
from orihon.runtime.sources.base import SourceTask
from orihon.runtime.sources.forge import Labels, Retry
from orihon.runtime.sources.github import GitHubSource
from orihon.values.task import TaskKey
from tests.helpers import refused
from tests.integration.forge_http import Answer, Fault, ForgeServer, Meanwhile, Request, running

MODULE = Path(sys.prefix) / "emulate" / "node_modules" / "emulate" / "dist" / "api.js"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
UUID = "0d7b0d2e-5a1c-4f0e-9d55-222222222222"
LABELS = Labels()
PATIENCE = 120  # seconds; nothing here takes so long unless it hangs

pytestmark = pytest.mark.skipif(
    (not MODULE.exists() or shutil.which("node") is None) and os.environ.get("CI") != "true",
    reason="Node or the package emulate is not installed: run 'make test'",
)

_names = count(1)


class Between(ForgeServer):
    """Hands requests on to the real server, and its answers back with our own address in them."""

    def __init__(self, behind: str) -> None:
        super().__init__()
        self.behind = behind

    def answer(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.behind).netloc, timeout=PATIENCE)
        try:
            headers = {
                name: value for name, value in request.headers.items() if name not in ("Host", "Accept-Encoding")
            }
            connection.request(request.method, request.path, request.body or None, headers)
            response = connection.getresponse()
            body = response.read().replace(self.behind.encode(), self.url.encode())
        finally:
            connection.close()
        kept = ("Content-Type", "Link", "Retry-After")
        found = {name: response.headers[name] for name in kept if name in response.headers}
        return Answer(
            response.status, body, {name: each.replace(self.behind, self.url) for name, each in found.items()}
        )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the GitHub is served."""
    assert MODULE.exists(), "continuous integration needs the package emulate: see the Makefile"
    people = [{"login": name, "name": name, "email": f"{name}@example.com"} for name in ("agent", "hanako")]
    content = {
        "tokens": {
            TOKEN: {"login": "agent", "scopes": ["repo", "user"]},
            "hanako-token": {"login": "hanako", "scopes": ["repo", "user"]},
        },
        "github": {"users": people},
    }
    program = Path(__file__).with_name("github_fake.mjs")
    command = ["node", str(program), str(MODULE), json.dumps(content)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        found = server.stdout.readline().strip()
        assert found.startswith("http://localhost:")
        yield found
        server.stdin.close()  # it ends with its input
    assert server.returncode == 0


@pytest.fixture
def between(address: str) -> Iterator[Between]:
    server = Between(address)
    with running(server):
        yield server


@pytest.fixture
def repo(between: Between) -> Iterator[Repository]:
    """A new repository, seen by its owner."""
    with Github(
        auth=Auth.Token(TOKEN),
        base_url=between.url,
        timeout=PATIENCE,
        retry=None,
        seconds_between_requests=0,
        seconds_between_writes=0,
    ) as client:
        made = client.get_user().create_repo(f"shop-{next(_names)}", auto_init=True)
        for name in (LABELS.todo, "bug"):
            made.create_label(name, "ededed")
        between.requests.clear()
        yield made


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def source(between: Between, repo: Repository, waits: list[float]) -> Iterator[GitHubSource]:
    made = make(between, repo, waits)
    yield made
    made.close()


def make(between: Between, repo: Repository, waits: list[float] | None = None, token: str = TOKEN) -> GitHubSource:
    sleep = (lambda seconds: None) if waits is None else waits.append
    return GitHubSource(
        [repo.full_name], token=token, base_url=between.url, retry=Retry(sleep=sleep), write_pause=0, timeout=PATIENCE
    )


def labels_of(repo: Repository, number: int) -> set[str]:
    return {label.name for label in repo.get_issue(number).labels}


def comments_of(repo: Repository, number: int) -> list[str]:
    return [comment.body for comment in repo.get_issue(number).get_comments()]


def with_uuid(found: SourceTask) -> TaskKey:
    key = found.key
    return TaskKey(key.task_source, key.owner, key.repo, key.task_type, key.task_id, key.user, UUID)


def open_issue(repo: Repository, title: str = "Fix it", body: str = "Please.") -> int:
    return repo.create_issue(title, body=body, labels=[LABELS.todo, "bug"]).number


def test_an_issue_goes_from_the_label_to_done(repo: Repository, source: GitHubSource) -> None:
    number = open_issue(repo, "ログインを直す", "The button does nothing.")
    repo.create_issue("Not for the agent", labels=["bug"])
    repo.get_issue(number).create_comment("It worked last week.")
    (found,) = source.poll()
    assert found.key == TaskKey("github", repo.owner.login, repo.name, "issue", str(number), user="agent")
    assert (found.title, found.body, found.user) == ("ログインを直す", "The button does nothing.", "agent")
    assert [(each.author, each.text) for each in found.comments] == [("agent", "It worked last week.")]
    assert set(found.labels) == {LABELS.todo, "bug"}
    assert found.url.endswith(f"/{repo.full_name}/issues/{number}")
    assert source.claim(found)
    assert labels_of(repo, number) == {LABELS.processing, "bug"}
    assert list(source.poll()) == []
    assert [each.key for each in source.claimed()] == [found.key]
    key = with_uuid(found)
    source.comment(key, "Started.", kind="start")
    assert [each.text.split("\n")[0] for each in source.find(key).comments] == ["It worked last week.", "Started."]
    source.finish(key, "completed", "The button works.")
    assert labels_of(repo, number) == {LABELS.completed, "bug"}
    assert [said.split("\n")[0] for said in comments_of(repo, number)[1:]] == ["Started.", "The button works."]
    assert list(source.claimed()) == []


def test_a_pull_request_brings_its_branches_and_remarks(repo: Repository, source: GitHubSource) -> None:
    tip = repo.get_branch("main").commit.sha
    repo.create_git_ref("refs/heads/faster", tip)
    repo.create_file("import.py", "Add it", "copy()\n", branch="faster")
    pull = repo.create_pull(base="main", head="faster", title="Faster import", body="With COPY.")
    pull.add_to_labels(LABELS.todo)
    pull.create_issue_comment("Nice.")
    pull.create_review_comment("Why?", repo.get_commit(pull.head.sha), "import.py", line=1)
    number = open_issue(repo)
    issue, found = source.poll()
    assert (issue.key.task_type, issue.key.task_id) == ("issue", str(number))
    assert (found.key.task_type, found.key.task_id) == ("pull_request", str(pull.number))
    assert (found.source_branch, found.target_branch) == ("faster", "main")
    assert sorted((each.text, each.place) for each in found.comments) == [("Nice.", ""), ("Why?", "import.py:1")]
    assert "Branches: faster → main" in source.prompt(found)
    assert source.claim(found)
    assert source.find(found.key).labels == (LABELS.processing,)
    source.finish(with_uuid(found), "failed", "The tests fail.")
    assert {label.name for label in repo.get_pull(pull.number).labels} == {LABELS.failed}
    assert [each.body.split("\n")[0] for each in pull.get_issue_comments()] == ["Nice.", "The tests fail."]


def test_a_paused_task_goes_on_and_a_repeated_one_loses_its_old_label(repo: Repository, source: GitHubSource) -> None:
    number = open_issue(repo)
    (found,) = source.poll()
    source.claim(found)
    source.finish(found.key, "paused", "Until tomorrow.")
    assert labels_of(repo, number) == {LABELS.paused, "bug"}
    source.resumed(found.key)
    assert labels_of(repo, number) == {LABELS.processing, "bug"}
    source.finish(found.key, "cancelled", "Not wanted.")
    assert labels_of(repo, number) == {LABELS.cancelled, "bug"}
    repo.get_issue(number).add_to_labels(LABELS.todo)
    (again,) = source.poll()
    assert source.claim(again)
    assert labels_of(repo, number) == {LABELS.processing, "bug"}


def test_all_pages_are_read_while_tasks_are_claimed(between: Between, repo: Repository, source: GitHubSource) -> None:
    numbers = [open_issue(repo, f"Task {number}") for number in range(103)]
    busy = repo.get_issue(numbers[0])
    for number in range(101):
        busy.create_comment(f"Comment {number}")
    between.requests.clear()
    claimed: list[int] = []
    for found in source.poll():
        if not claimed:
            assert [each.text for each in found.comments] == [f"Comment {number}" for number in range(1, 101)]
        if len(claimed) < 3:
            assert source.claim(found)
        claimed.append(int(found.key.task_id))
    assert claimed == numbers
    assert between.count("GET", "/issues?") == 2


def test_of_many_who_claim_a_task_one_gets_it(between: Between, repo: Repository) -> None:
    numbers = [open_issue(repo) for _ in range(5)]
    won: list[str] = []
    start = threading.Barrier(4, timeout=PATIENCE)

    def work() -> None:
        source = make(between, repo)
        found = list(source.poll())
        start.wait()
        won.extend(task.key.task_id for task in found if source.claim(task))
        source.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won, key=int) == [str(number) for number in numbers]
    for number in numbers:
        assert labels_of(repo, number) == {LABELS.processing, "bug"}


@pytest.fixture
def other(between: Between, repo: Repository) -> Iterator[GitHubSource]:
    made = make(between, repo)
    yield made
    made.close()


def test_a_task_that_another_ended_meanwhile_keeps_its_label(
    between: Between, repo: Repository, source: GitHubSource, other: GitHubSource
) -> None:
    number = open_issue(repo)
    (found,) = source.poll()

    def be_faster() -> None:
        assert other.claim(found)
        other.finish(found.key, "completed", "Done.")

    between.meanwhile = [Meanwhile("POST", "/labels", be_faster)]
    assert not source.claim(found)
    assert labels_of(repo, number) == {LABELS.completed, "bug"}
    assert not source.claim(found)


def test_who_is_late_does_not_touch_the_label_of_who_works(
    between: Between, repo: Repository, source: GitHubSource, other: GitHubSource
) -> None:
    number = open_issue(repo)
    repo.get_issue(number).add_to_labels(LABELS.failed)  # of an earlier run, and the winner has not come to it yet
    (found,) = source.poll()
    between.meanwhile = [Meanwhile("POST", "/labels", lambda: other._take(found.key))]
    assert not source.claim(found)
    assert labels_of(repo, number) == {LABELS.processing, LABELS.failed, "bug"}


def test_a_label_of_an_earlier_run_that_stays_does_not_undo_the_claim(
    between: Between, repo: Repository, source: GitHubSource, caplog: pytest.LogCaptureFixture
) -> None:
    number = open_issue(repo)
    repo.get_issue(number).add_to_labels(LABELS.failed)
    (found,) = source.poll()
    between.faults = [Fault("DELETE", "failed", Answer(500), times=9)]
    assert source.claim(found)
    assert labels_of(repo, number) == {LABELS.processing, LABELS.failed, "bug"}
    assert "status 500" in caplog.text


def test_closed_and_unlabelled_tasks_are_not_claimed(repo: Repository, source: GitHubSource) -> None:
    one, two = open_issue(repo), open_issue(repo)
    first, second = source.poll()
    repo.get_issue(one).edit(state="closed")
    repo.get_issue(two).remove_from_labels(LABELS.todo)
    assert not source.claim(first)
    assert not source.claim(second)
    assert LABELS.processing not in labels_of(repo, one) | labels_of(repo, two)


def test_a_lost_answer_neither_loses_the_task_nor_doubles_a_comment(
    between: Between, repo: Repository, source: GitHubSource, waits: list[float]
) -> None:
    number = open_issue(repo)
    (found,) = source.poll()
    bad = Answer(502, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})
    between.faults = [
        Fault("DELETE", "/labels/", bad, after=True),
        Fault("POST", "/comments", None, after=True),
        Fault("POST", "/comments", bad),
    ]
    assert source.claim(found)
    assert labels_of(repo, number) == {LABELS.processing, "bug"}
    key = with_uuid(found)
    source.comment(key, "Started.", kind="start")
    source.comment(key, "Halfway.")
    for _ in range(2):  # a process that died after it, started again
        source.finish(key, "completed", "Done.")
    assert [said.split("\n")[0] for said in comments_of(repo, number)] == ["Started.", "Halfway.", "Done."]
    assert len(waits) == 3


def test_a_crash_before_the_label_is_removed_leaves_a_task_to_claim(
    between: Between, repo: Repository, source: GitHubSource
) -> None:
    number = open_issue(repo)
    (found,) = source.poll()
    between.faults = [Fault("DELETE", "/labels/", Answer(500), times=9)]
    with refused(SourceError, "server"):
        source.claim(found)
    assert labels_of(repo, number) == {LABELS.todo, LABELS.processing, "bug"}
    between.faults.clear()
    (again,) = source.poll()
    assert source.claim(again)


def test_a_copied_marker_does_not_silence_the_agent(between: Between, repo: Repository, source: GitHubSource) -> None:
    number = open_issue(repo)
    (found,) = source.poll()
    key = with_uuid(found)
    with Github(auth=Auth.Token("hanako-token"), base_url=between.url, timeout=PATIENCE, retry=None) as hanako:
        copied = f"Ha! <!-- orihon:{UUID}:finish-completed -->"
        hanako.get_repo(repo.full_name).get_issue(number).create_comment(copied)
    source.comment(key, f"I quote: <!-- orihon:{UUID}:finish-completed -->", kind="quote")
    source.finish(key, "completed", "Done.")
    assert [said.split("\n")[0] for said in comments_of(repo, number)[1:]] == ["I quote:", "Done."]


def test_an_apps_token_without_a_user_still_comments_once(
    between: Between, repo: Repository, source: GitHubSource, waits: list[float]
) -> None:
    number = open_issue(repo)
    (found,) = source.poll()
    limit = b'{"message": "You have exceeded a secondary rate limit."}'
    nobody = b'{"message": "Resource not accessible by integration"}'
    json_type = {"Content-Type": "application/json"}
    between.faults = [Fault("GET", "/user", Answer(403, limit, json_type), times=1)]
    between.faults += [Fault("GET", "/user", Answer(403, nobody, json_type), times=9)]
    for _ in range(2):
        source.comment(with_uuid(found), "Started.", kind="start")
        source.comment(with_uuid(found), " ")
    assert len(comments_of(repo, number)) == 1
    assert waits == [60.0]


def test_rate_limits_are_waited_for_within_reason(
    between: Between, repo: Repository, source: GitHubSource, waits: list[float]
) -> None:
    open_issue(repo)
    secondary = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
    told = Answer(403, json.dumps(secondary).encode(), {"Retry-After": "7", "Content-Type": "application/json"})
    untold = Answer(403, json.dumps(secondary).encode(), {"Content-Type": "application/json"})
    plain = Answer(429, b"{}", {"Retry-After": "2", "Content-Type": "application/json"})
    between.faults = [Fault("GET", "/issues?", each) for each in (told, untold, plain)]
    assert len(list(source.poll())) == 1
    assert waits == [7.0, 60.0, 2.0]
    long = Answer(429, b"{}", {"Retry-After": "3600", "Content-Type": "application/json"})
    between.faults = [Fault("GET", "/issues?", long, times=9)]
    with refused(SourceError, "rate_limited") as caught:
        list(source.poll())
    assert caught.value.fields["wait"] == 3600
    assert len(waits) == 3


@pytest.mark.parametrize(
    ("answer", "reason", "tries"),
    [
        (Answer(401, b'{"message": "Bad credentials"}', {"Content-Type": "application/json"}), "token", 1),
        (Answer(403, b'{"message": "Resource not accessible"}', {"Content-Type": "application/json"}), "forbidden", 1),
        (Answer(404, b'{"message": "Not Found"}', {"Content-Type": "application/json"}), "not_found", 1),
        (Answer(422, b'{"message": "Validation Failed"}', {"Content-Type": "application/json"}), "refused", 1),
        (Answer(500, b"", {}), "server", 4),
        (Answer(200, b"<html>Log in</html>", {"Content-Type": "text/html"}), "answer", 1),
        (Answer(200, b'[{"number": "x", "title": 3}]', {"Content-Type": "application/json"}), "answer", 1),
        (None, "unreachable", 4),
    ],
)
def test_every_failure_ends_in_one_clear_error(
    between: Between,
    source: GitHubSource,
    waits: list[float],
    caplog: pytest.LogCaptureFixture,
    answer: Answer | None,
    reason: str,
    tries: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    between.faults = [Fault("GET", "/issues?", answer, times=99)]
    with refused(SourceError, reason) as caught:
        list(source.poll())
    assert between.count("GET", "/issues?") == tries
    assert len(waits) == tries - 1
    assert TOKEN not in str(caught.value) + repr(caught.value) + caplog.text


def test_a_repository_that_is_gone_does_not_stop_the_others(between: Between, repo: Repository) -> None:
    open_issue(repo)
    source = GitHubSource(
        [f"{repo.owner.login}/gone", repo.full_name], token=TOKEN, base_url=between.url, write_pause=0, timeout=PATIENCE
    )
    found: list[str] = []
    with refused(SourceError, "not_found"):
        for task in source.poll():
            found.append(task.key.repo)  # what comes before the error counts
    assert found == [repo.name]
    source.close()


def test_nobody_listens() -> None:
    waits: list[float] = []
    source = GitHubSource(["a/b"], token="t", base_url="http://localhost:1", retry=Retry(sleep=waits.append))
    with refused(SourceError, "unreachable"):
        list(source.poll())
    assert len(waits) == 3
    source.close()
