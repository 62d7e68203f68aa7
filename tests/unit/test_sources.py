"""Tasks from a folder and from the command line, and what all sources share: prompts, markers, waits, labels."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

import orihon.runtime.sources
from orihon.errors import InvalidSettings, OrihonError, SourceError, StorageUnavailable
from orihon.runtime.sources.base import (
    SourceComment,
    SourceOutcome,
    SourceTask,
    Speakers,
    marker,
    prompt,
    without_markers,
)
from orihon.runtime.sources.folder import MOST_COMMENT_BYTES, FolderSource
from orihon.runtime.sources.forge import (
    Calls,
    Labels,
    Retry,
    Trouble,
    asked_wait,
    refusal,
    service_address,
    task_number,
    token_from,
    with_latest,
)
from orihon.runtime.sources.github import GitHubSource
from orihon.runtime.sources.gitlab import GitLabSource
from orihon.texts import text
from orihon.values.task import TaskKey
from tests.helpers import logged, refused

UUID = "0d7b0d2e-5a1c-4f0e-9d55-111111111111"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    return folder


def put(inbox: Path, name: str, said: str | bytes, age: float = 60.0) -> Path:
    path = inbox / name
    path.write_bytes(said if isinstance(said, bytes) else said.encode())
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path


def ids(found: list[SourceTask]) -> list[str]:
    return [task.key.task_id for task in found]


def with_uuid(key: TaskKey) -> TaskKey:
    return TaskKey(key.task_source, key.owner, key.repo, key.task_type, key.task_id, key.user, UUID)


# --- the folder


def test_a_task_goes_from_waiting_to_done(inbox: Path) -> None:
    put(inbox, "fix-login.md", "---\ntitle: Fix the login\nuser: hanako\n---\nThe button does nothing.\n")
    source = FolderSource(inbox)
    (found,) = source.poll()
    assert found.key == TaskKey("folder", "", "", "task", "fix-login", user="hanako")
    assert (found.title, found.body, found.user) == ("Fix the login", "The button does nothing.", "hanako")
    assert source.claim(found)
    assert list(source.poll()) == []
    assert ids(list(source.claimed())) == ["fix-login"]
    key = with_uuid(found.key)
    source.comment(key, "Started.", kind="start")
    source.finish(key, "completed", "The button works.")
    assert (inbox / "done" / "fix-login.md").exists()
    assert list(source.claimed()) == []
    said = (inbox / "fix-login.comments.md").read_text(encoding="utf-8")
    assert said.index("Started.") < said.index("The button works.")
    assert list(source.poll()) == []  # the comments are no task


@pytest.mark.parametrize(
    ("outcome", "place"), [("failed", "failed"), ("cancelled", "failed"), ("paused", "in-progress")]
)
def test_every_outcome_has_its_place(inbox: Path, outcome: str, place: str) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    source.claim(found)
    source.finish(found.key, outcome, "Over.")  # type: ignore[arg-type]
    assert (inbox / place / "a.md").exists()


def test_a_paused_task_goes_on_and_ends(inbox: Path) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    source.claim(found)
    source.finish(found.key, "paused", "Later.")
    source.resumed(found.key)
    source.finish(found.key, "completed", "Now.")
    assert (inbox / "done" / "a.md").exists()


def test_the_front_matter_names_the_task_and_the_rest_speaks_for_itself(inbox: Path) -> None:
    put(inbox, "one.md", "---\nid: 007\n---\n# Write the manual\n\nAll of it.", age=90)
    put(inbox, "two.md", "---\nnot closed, so a rule of markdown", age=80)
    put(inbox, "three.md", "\ufeff# 見出し\r\n本文\r\n", age=70)
    put(inbox, "four.md", "---\n---\nNothing in it.", age=60)
    first, second, third, fourth = FolderSource(inbox).poll()
    assert (first.key.task_id, first.title) == ("007", "Write the manual")
    assert (second.title, second.body.split("\n")[0]) == ("two", "---")
    assert (third.title, third.body) == ("見出し", "# 見出し\n本文")
    assert (fourth.title, fourth.body) == ("four", "Nothing in it.")


def test_a_task_with_an_id_of_its_own_is_found_by_it(inbox: Path) -> None:
    put(inbox, "some name.md", "---\nid: 42\n---\nDo it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    assert source.claim(found)
    assert source.find(found.key).body == "Do it."
    source.finish(found.key, "completed", "Done.")
    assert (inbox / "done" / "some name.md").exists()
    assert (inbox / "some name.comments.md").exists()


def test_a_file_that_is_still_written_waits(inbox: Path) -> None:
    put(inbox, "new.md", "Half a senten", age=0)
    put(inbox, "ahead.md", "From a machine whose clock is ahead.", age=-7200)
    assert ids(list(FolderSource(inbox, settle_seconds=3600).poll())) == ["ahead"]
    assert ids(list(FolderSource(inbox, settle_seconds=0).poll())) == ["new", "ahead"]


def test_files_of_editors_and_other_kinds_are_left_alone(inbox: Path) -> None:
    for name in (".hidden.md", "~lock.md", "#x#.md", "a.md~", "b.txt", "c.comments.md"):
        put(inbox, name, "Not a task.")
    (inbox / "folder.md").mkdir()
    assert list(FolderSource(inbox).poll()) == []


def test_of_many_who_claim_a_task_one_gets_it(inbox: Path) -> None:
    for number in range(20):
        put(inbox, f"{number}.md", "Do it.")
    won: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        source = FolderSource(inbox)
        found = list(source.poll())
        start.wait()
        won.extend(task.key.task_id for task in found if source.claim(task))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won, key=int) == [str(number) for number in range(20)]
    assert len(list((inbox / "in-progress").iterdir())) == 20


def test_a_second_file_of_the_same_name_never_replaces_the_first(inbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = FolderSource(inbox)
    for said in ("First.", "Second.", "Third."):
        put(inbox, "a.md", said)
        (found,) = source.poll()
        assert source.claim(found)
        put(inbox, "a.md", "In the way.")
        assert list(source.poll()) == []  # waits for the first
        assert not source.claim(found)
        (inbox / "a.md").unlink()
        source.finish(found.key, "completed", "Done.")
    assert [(inbox / "done" / name).read_text() for name in ("a.md", "a.2.md", "a.3.md")] == [
        "First.",
        "Second.",
        "Third.",
    ]
    assert "the id a" in caplog.text


def test_a_claim_that_died_halfway_is_completed(inbox: Path) -> None:
    path = put(inbox, "a.md", "Do it.")
    (inbox / "in-progress").mkdir()
    os.link(path, inbox / "in-progress" / "a.md")
    source = FolderSource(inbox)
    assert list(source.poll()) == []
    assert not path.exists()
    assert ids(list(source.claimed())) == ["a"]


def test_a_comment_after_a_crash_is_not_written_twice(inbox: Path) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    source.claim(found)
    key = with_uuid(found.key)
    for _ in range(2):
        source.comment(key, "Started.", kind="start")
        source.comment(key, "A note.")
        source.comment(key, "  ")
        source.finish(key, "completed", "Done.")
    said = (inbox / "a.comments.md").read_text(encoding="utf-8")
    assert [said.count(each) for each in ("Started.", "A note.", "Done.")] == [1, 1, 1]
    assert len(re.findall(r"<!-- orihon:[\w-]+:[\w.-]+ -->", said)) == 3


def test_earlier_comments_are_part_of_the_prompt(inbox: Path) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    source.claim(found)
    source.comment(with_uuid(found.key), "Which one?", kind="question")
    said = source.prompt(source.find(found.key))
    assert "Which one?" in said
    assert "<!--" not in said


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\xff\xfeD\x00o\x00", "file_encoding"),
        (b"Hier stehen Umlaute: \xe4\xf6", "file_encoding"),
        (b"", "file_empty"),
        (b"---\ntitle: x\n---\n \n", "file_empty"),
        (b"x" * (1024 * 1024 + 1), "file_large"),
        (b"---\ntitle: [a\n---\nText.", "front_matter"),
        (b"---\n- a\n---\nText.", "front_matter"),
        (b"---\nid: [1, 2]\n---\nText.", "front_matter"),
        (b"---\nid: " + b"[" * 1900 + b"\n---\nText.", "front_matter"),
        (b"---\nid: " + b"[" * 5000 + b"\n---\nText.", "front_matter"),
        (b"---\nid: " + b"x" * 300 + b"\n---\nText.", "file_id"),
    ],
)
def test_what_cannot_be_read_stays_and_is_reported_once(
    inbox: Path, caplog: pytest.LogCaptureFixture, said: bytes, reason: str
) -> None:
    path = put(inbox, "bad.md", said)
    put(inbox, "good.md", "Do it.")
    source = FolderSource(inbox)
    for _ in range(3):
        assert ids(list(source.poll())) == ["good"]
    (record,) = logged(caplog, "orihon.sources")
    (error,) = record.args or ()
    assert isinstance(error, SourceError)
    assert error.reason == reason
    assert str(path) in str(error)
    assert path.read_bytes() == said
    put(inbox, "bad.md", "Readable now.", age=30)
    assert ids(list(source.poll())) == ["good", "bad"]


def test_links_lead_nowhere(inbox: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("password")
    (inbox / "a.md").symlink_to(secret)
    (inbox / "b.md").symlink_to(inbox / "missing")
    os.mkfifo(inbox / "c.md")
    assert list(FolderSource(inbox, settle_seconds=0).poll()) == []
    assert caplog.text.count("is a link or no plain file") == 3
    (inbox / "in-progress").symlink_to(tmp_path)
    with refused(SourceError, "folder_link"):
        list(FolderSource(inbox).poll())


def test_comments_lead_nowhere(inbox: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("TOP SECRET")
    for name in ("link", "pipe", "folder", "large", "plain"):
        put(inbox, f"{name}.md", "Do it.")
    (inbox / "link.comments.md").symlink_to(secret)
    os.mkfifo(inbox / "pipe.comments.md")
    (inbox / "folder.comments.md").mkdir()
    with (inbox / "large.comments.md").open("wb") as file:
        file.truncate(MOST_COMMENT_BYTES + 1)
    put(inbox, "plain.comments.md", "A remark.")
    source = FolderSource(inbox)
    found = {task.key.task_id: task for task in source.poll()}
    list(source.poll())
    assert {name for name, task in found.items() if task.comments} == {"plain"}
    assert len(found) == 5
    assert len(logged(caplog, "orihon.sources")) == 4  # each once
    for name in ("link", "pipe"):
        assert source.claim(found[name])
        source.finish(with_uuid(found[name].key), "completed", "All done.")
        path = inbox / f"{name}.comments.md"
        assert not path.is_symlink()
        assert "All done." in path.read_text()
    assert secret.read_text() == "TOP SECRET"
    with refused(SourceError, "file_large"):
        source.comment(found["large"].key, "One more.")


@pytest.mark.parametrize("ended", ["failed", "cancelled", "completed"])
def test_a_task_that_had_ended_goes_on_and_ends_otherwise(inbox: Path, ended: SourceOutcome) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    key = with_uuid(found.key)
    assert source.claim(found)
    source.finish(key, ended, "First.")
    source.resumed(key)
    assert (inbox / "in-progress" / "a.md").exists()
    source.finish(key, "paused", "Later.")
    assert (inbox / "in-progress" / "a.md").exists()


def test_a_task_that_was_told_as_failed_can_still_be_completed(inbox: Path) -> None:
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    key = with_uuid(found.key)
    assert source.claim(found)
    source.finish(key, "failed", "Not now.")
    source.finish(key, "completed", "Done after all.")  # nobody could say that it went on
    assert [path.relative_to(inbox).as_posix() for path in inbox.rglob("a.md")] == ["done/a.md"]
    assert "Done after all." in (inbox / "a.comments.md").read_text()


def test_an_id_is_never_made_into_a_path(inbox: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("Not a task.")
    put(inbox, "a.md", "---\nid: ../outside\n---\nDo it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    assert source.claim(found)
    source.finish(found.key, "completed", "Done.")
    assert (inbox / "done" / "a.md").exists()
    assert outside.read_text() == "Not a task."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside.md", "tasks"]


def test_a_folder_or_a_task_that_is_gone_is_named(inbox: Path, tmp_path: Path) -> None:
    with refused(SourceError, "folder_missing"):
        list(FolderSource(tmp_path / "nowhere").poll())
    put(inbox, "a.md", "Do it.")
    source = FolderSource(inbox)
    (found,) = source.poll()
    (inbox / "a.md").unlink()
    assert not source.claim(found)
    for act in (
        lambda: source.find(found.key),
        lambda: source.comment(found.key, "Hello."),
        lambda: source.finish(found.key, "completed", "Done."),
    ):
        with refused(SourceError, "file_gone"):
            act()


def test_a_file_that_cannot_be_opened_is_reported_and_the_others_go_on(
    inbox: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(inbox, "b.md", "Do it.")
    monkeypatch.chdir(inbox)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.md")
        source = FolderSource(inbox, settle_seconds=0)
        for _ in range(2):
            assert ids(list(source.poll())) == ["b"]
    (record,) = logged(caplog, "orihon.sources")
    (error,) = record.args or ()
    assert isinstance(error, StorageUnavailable)


# --- what all share


def test_the_prompt_says_where_a_task_comes_from_and_what_was_said() -> None:
    found = SourceTask(
        TaskKey("gitlab", "group/sub", "shop", "merge_request", "7"),
        "Faster import",
        "Please.\n\n<!-- orihon:x:note -->",
        (
            SourceComment("hanako", "Why not COPY?", "2026-11-01T10:00:00Z", "jobs/import.py:12", "member"),
            SourceComment("agent", "<!-- orihon:x:start -->"),
        ),
        url="https://git.example.com/7",
        user="taro",
        source_branch="faster",
        target_branch="main",
    )
    assert prompt(found) == (
        "Task gitlab:group/sub/shop!7 (merge_request)\nFrom: taro\nAddress: https://git.example.com/7\n"
        "Branches: faster → main\nTitle: Faster import\n\nPlease.\n\nComments so far:\n\n"
        "--- @hanako (member), 2026-11-01T10:00:00Z (jobs/import.py:12)\nWhy not COPY?"
    )


def test_a_marker_tells_task_and_kind() -> None:
    key = TaskKey("github", "o", "r", "issue", "1", uuid=UUID)
    assert marker(key, "start", "x") == f"<!-- orihon:{UUID}:start -->"
    assert marker(key, "", "x") == marker(key, "", "x") != marker(key, "", "y")
    assert marker(key, "a -->\n<b", "x") == f"<!-- orihon:{UUID}:a_--___b -->"
    nameless = TaskKey("github", "o", "r", "issue", "1")
    assert marker(nameless, "start", "x") != marker(nameless, "start", "x")
    for kind in ("start", "", "a -->\n<b"):
        assert without_markers(f"Said.\n\n{marker(key, kind, 'x')}") == "Said."


def test_the_latest_comments_are_kept_in_their_order() -> None:
    comments = [
        SourceComment("a", str(number), f"2026-11-01T10:{number // 60:02}:{number % 60:02}Z") for number in range(130)
    ]
    found = SourceTask(TaskKey("github", "o", "r", "issue", "1"), "Title", "Body")
    kept = with_latest(found, comments[::-1], Speakers()).comments
    assert [each.text for each in kept] == [str(number) for number in range(30, 130)]


def test_strangers_crowd_out_no_user() -> None:
    """A hundred comments of anybody's would have been all that the agent sees."""
    strangers = [SourceComment("x", str(number), "2026-11-02T10:00:00Z", "", "NONE") for number in range(130)]
    member = SourceComment("hanako", "Only on Linux.", "2026-11-01T10:00:00Z", "", "MEMBER")
    found = SourceTask(TaskKey("github", "o", "r", "issue", "1"), "Title", "Body")
    kept = with_latest(found, [*strangers, member], Speakers()).comments
    assert (len(kept), kept[0]) == (100, member)


def test_waits_that_servers_ask_for() -> None:
    later = datetime.now(UTC) + timedelta(seconds=1000)
    assert asked_wait({"retry-after": "7"}) == 7
    assert 700 < (asked_wait({"retry-after": format_datetime(later, usegmt=True)}) or 0) <= 1000
    assert asked_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert asked_wait({"retry-after": "soon"}) is None
    reset = {"x-ratelimit-reset": str(int(later.timestamp()))}
    assert 700 < (asked_wait({**reset, "x-ratelimit-remaining": "0"}) or 0) <= 1002
    assert asked_wait({**reset, "x-ratelimit-remaining": "12"}) is None
    assert asked_wait({}) is None


@pytest.mark.parametrize(
    ("status", "reason", "may_pass"),
    [
        (401, "token", False),
        (403, "forbidden", False),
        (404, "not_found", False),
        (410, "not_found", False),
        (422, "refused", False),
        (429, "rate_limited", True),
        (408, "server", True),
        (500, "server", True),
        (503, "server", True),
    ],
)
def test_which_refusals_may_pass(status: int, reason: str, may_pass: bool) -> None:
    trouble = refusal(status, "detail", {})
    assert (trouble.reason, trouble.may_pass) == (reason, may_pass)
    assert refusal(403, "", {"Retry-After": "3"}, limited=True) == Trouble("rate_limited", "", 403, 3.0, may_pass=True)


def calls(trouble: Trouble, waits: list[float], tries: int = 3) -> Calls:
    retry = Retry(tries=tries, longest_wait=30, sleep=waits.append)
    return Calls("github", "http://localhost", (OSError,), lambda error: trouble, retry, "s3cret")


def failing(times: int) -> Callable[[], str]:
    left = [times]

    def act() -> str:
        if left[0]:
            left[0] -= 1
            raise OSError
        return "answer"

    return act


def test_what_may_pass_is_repeated_a_bounded_number_of_times() -> None:
    waits: list[float] = []
    passing = calls(Trouble("server", "s3cret broke", 502, may_pass=True), waits)
    assert passing(failing(2)) == "answer"
    assert 0.5 <= waits[0] <= 1.0 <= waits[1] <= 2.0
    with refused(SourceError, "server") as caught:
        passing(failing(3))
    assert len(waits) == 4
    assert "s3cret" not in str(caught.value)
    assert "*** broke" in str(caught.value)


def test_a_wait_is_the_servers_and_never_too_long() -> None:
    waits: list[float] = []
    assert calls(Trouble("rate_limited", "", 429, wait=29.0, may_pass=True), waits)(failing(1)) == "answer"
    assert waits == [29.0]
    with refused(SourceError, "rate_limited") as caught:
        calls(Trouble("rate_limited", "", 429, wait=31.0, may_pass=True), waits)(failing(1))
    assert caught.value.fields["wait"] == 31
    with refused(SourceError, "forbidden"):
        calls(Trouble("forbidden", "", 403), waits)(failing(1))
    assert waits == [29.0]


@pytest.mark.parametrize("name", ["", " ", "a,b", "coding agent"])
def test_labels_that_cannot_work_are_refused(name: str) -> None:
    with refused(InvalidSettings, "source_label"):
        Labels(processing=name)


@pytest.mark.parametrize(
    ("repositories", "types", "reason"),
    [
        ([], ("issue",), "no_repositories"),
        (["name"], ("issue",), "repository_name"),
        (["../x"], ("issue",), "repository_name"),
        (["a/b?x=1"], ("issue",), "repository_name"),
        (["a/b"], (), "source_types"),
        (["a/b"], ("issue", "wish"), "source_types"),
    ],
)
def test_settings_that_name_nothing_are_refused(repositories: list[str], types: tuple[str, ...], reason: str) -> None:
    for kind in (GitHubSource, GitLabSource):
        with refused(InvalidSettings, reason):
            kind(repositories, token="t", types=types)


def test_a_token_comes_from_the_settings_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with refused(InvalidSettings, "source_token"):
        GitHubSource(["a/b"])
    monkeypatch.setenv("GITHUB_TOKEN", "from-environment\n")
    assert token_from("", "GITHUB_TOKEN", "github") == "from-environment"
    assert token_from("given", "GITHUB_TOKEN", "github") == "given"
    with refused(InvalidSettings, "source_token_text") as caught:
        token_from("ab cd", "GITHUB_TOKEN", "github")
    assert "ab cd" not in str(caught.value)
    source = GitHubSource(["a/b"], token="s3cret")
    assert repr(source) == "GitHubSource(a/b)"
    source.close()


@pytest.mark.parametrize("address", ["", "git.example.com", "ftp://x", "https://", "https://me:pw@x", "http://[::1"])
def test_an_address_is_checked(address: str) -> None:
    with refused(InvalidSettings, "source_address"):
        service_address(address, "gitlab")
    assert service_address("https://git.example.com/sub/", "gitlab") == "https://git.example.com/sub"


def test_a_key_of_another_source_is_refused() -> None:
    for key in (TaskKey("gitlab", "a", "b", "issue", "1"), TaskKey("github", "a", "b", "issue", "x")):
        with refused(SourceError, "foreign_key"):
            task_number(key, "github")


@pytest.mark.parametrize(("service", "package"), [("github", "PyGithub"), ("gitlab", "python-gitlab")])
def test_a_missing_package_names_the_extra(service: str, package: str) -> None:
    source = {"github": "GitHubSource", "gitlab": "GitLabSource"}[service]
    program = (
        f"import sys; sys.modules[{service!r}] = None\n"  # as if it were not installed
        f"from orihon.runtime.sources.{service} import {source}\n"
        f"try: {source}(['a/b'], token='t')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("InvalidSettings")
    assert package in run.stdout
    assert f"pip install 'orihon[{service}]'" in run.stdout


def test_importing_the_sources_loads_no_client() -> None:
    names = [path.stem for path in Path(orihon.runtime.sources.__file__).parent.glob("[!_]*.py")]
    modules = ", ".join(f"orihon.runtime.sources.{name}" for name in names)
    program = f"import sys, {modules}; print({{'github', 'gitlab', 'requests', 'yaml'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_reason_of_a_service_has_its_words() -> None:
    reasons = (
        "unreachable",
        "server",
        "rate_limited",
        "token",
        "forbidden",
        "not_found",
        "refused",
        "redirected",
        "answer",
    )
    fields = {"service": "github", "address": "x", "status": 1, "detail": "d", "wait": 1}
    for reason in reasons:
        error: OrihonError = SourceError(reason, **fields)
        assert error.cause
        for lang in ("en", "ja"):
            assert text(f"errors.SourceError.{reason}.remedy", lang=lang, **fields)
