"""Who sees and changes what over the web: every address, by every role, about one's own tasks and about others'.

The addresses come from the tables of the server: one that somebody adds is walked here without being named.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, TaskQueue, new_grant, revoke_grant
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.grants import Grant
from orihon.catalogue.outbox import NewNotice
from orihon.errors import Waiting
from orihon.settings import Settings, load_settings
from orihon.settings.runtime_sections import QuotaSettings
from orihon.system.clock import utc_now
from orihon.tasks.grants import PREFIX, ROLES, Role, digest_of
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from orihon.web import access
from orihon.web.access import Visitor
from orihon.web.call import Endpoint, PageRoute
from orihon.web.fields import Field
from orihon.web.renderer import PLACES, places_for
from orihon.web.routes import ENDPOINTS, PAGES, STREAMS
from orihon.web.server import WebServer
from tests.helpers import Rule
from tests.services import own_schema
from tests.serving import Client, serving

#: Stands in every text of a user's tasks, and nowhere else.
CANARY = {"ann": "heron7401", "ben": "otter5113"}
MINE, THEIRS, NOBODYS = "ann-work", "ben-work", "no-such-task"
_PATIENCE = 120.0
#: What happens to stand in a page: of the moment, and of what its files hold.
_CHANCE = re.compile(r'nonce="[^"]*"|name="now" content="[^"]*"|\?v=[0-9a-f]+')


# ---- a store with tasks of two users ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A running server, and tokens of one user with every role."""

    base: Path
    settings: Settings
    server: WebServer
    tokens: dict[Role, str]

    def client(self, role: Role = "read") -> Client:
        return Client(self.server, token=self.tokens[role])


def key(user: str, number: str) -> TaskKey:
    return TaskKey("github", CANARY[user], f"{CANARY[user]}-repo", "issue", number, user)


def part(user: str) -> TaskKey:
    return replace(key(user, "4"), task_type="subtask")


def fill(base: Path, settings: Settings, user: str) -> None:
    """Tasks of one user in several states, with something in everything that can be shown."""
    said = CANARY[user]
    first = TaskContextManager(base, key(user, "1"), settings, uuid=f"{user}-done")
    first.message_store.add_message("user", f"Begin. {said}")
    first.complete()
    first.catalogue.close()
    task = TaskContextManager(base, key(user, "1"), settings, uuid=f"{user}-work")
    store = task.message_store
    store.add_message("system", f"You work for {said}.")
    for turn in range(3):
        store.add_message("user", f"Step {turn} {said}")
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"a": "{said}"}}'},
        }
        store.add_message("assistant", None, tool_calls=[call])
        store.add_message("tool", f"output {said}", tool_call_id=f"call_{turn}")
    task.tool_store.add_tool_call(f"read_{said}", {"path": said}, said, duration_ms=5)
    task.planning_store.add_plan("initial", {"steps": [said]})
    store.folding.compress([PlannedFold(2, 4, f"the first step was done {said}")])
    store.folding.pin(8)
    task.phase(f"phase {said}")
    with suppress(Waiting):
        task.checkpoint(f"ask {said}", f"Is this right, {said}?")
    task.catalogue.close()
    failed = TaskContextManager(base, key(user, "2"), settings, uuid=f"{user}-failed")
    failed.fail(f"broken {said}")
    failed.catalogue.close()
    with TaskQueue(base, settings).catalogue as catalogue:
        catalogue.tasks.update(f"{user}-work", model=f"model-{said}")
        catalogue.usage.add(f"{user}-work", f"model-{said}", utc_now()[:10], input=100, output=10)
        catalogue.outbox.add(NewNotice(f"event-{user}", "failed", "error", f"{user}-failed", {"detail": said}))
    queue = TaskQueue(base, settings)
    queue.enqueue(key(user, "3"), prompt=f"Do {said}", parent_uuid=f"{user}-work")
    queue.close()


@contextmanager
def place_in(base: Path, settings: Settings) -> Iterator[Place]:
    base.mkdir()
    for user in CANARY:
        fill(base, settings, user)
    tokens = {role: new_grant(base, settings, user="ann", role=role).token for role in ROLES}
    with serving(base, settings) as server:
        yield Place(base, settings, server, tokens)


@pytest.fixture(scope="module", params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("permissions") / "contexts"
    config: dict[str, Any] = {"context_storage": {"backend": request.param}}
    schema = own_schema() if request.param == "postgres" else iter(())
    database = next(schema, None)
    if database is not None:
        config["database"] = database.settings
    with place_in(base, load_settings(config, environ={})) as made:
        yield made
    for _ in schema:
        pass


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Place]:
    """One that a test may change."""
    with place_in(tmp_path / "contexts", load_settings({}, environ={})) as made:
        yield made


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grants are looked up for every request."""
    monkeypatch.setattr(access, "SECONDS", 0.0)


# ---- every address ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """One address of the server, and what it takes at least."""

    method: str
    path: str
    role: Role
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
    changes: bool = False

    @property
    def names_a_task(self) -> bool:
        return "{task}" in self.path

    def about(self, task: str) -> str:
        path = re.sub(r"{(\w+)(?::\w+)?}", lambda name: {"task": task}.get(name[1], "1"), self.path)
        needed = "&".join(f"{field.name}={_fitting(field)}" for field in self.query if field.required)
        return f"{path}?{needed}" if needed else path

    @property
    def content(self) -> dict[str, Any] | None:
        if self.method == "GET":
            return None
        return {field.name: _fitting(field) for field in self.body if field.required}


def _fitting(field: Field) -> Any:
    if field.choices:
        return field.choices[0]
    return 1 if field.kind in ("whole", "number") else "step"


def _of(one: PageRoute | Endpoint) -> Address:
    if isinstance(one, PageRoute):
        return Address("GET", one.path, one.role, one.query)
    return Address(one.method, one.path, one.role, one.query, one.body, one.changes)


ADDRESSES = [*map(_of, PAGES), *map(_of, ENDPOINTS), *(Address("GET", path, "read") for path in STREAMS)]
LOOKS = [one for one in ADDRESSES if not one.changes]


def answered(place: Place, role: Role, address: Address, task: str) -> tuple[int, str]:
    """How somebody of that role is answered, and the answer without what was asked for."""
    answer = place.client(role).as_program(address.method, address.about(task), address.content)
    return answer.status, _CHANCE.sub("", answer.text.replace(task, "TASK"))


def test_every_role_reaches_as_far_as_the_tables_say(place: Place) -> None:
    """What is not there for anybody tells a right from none, and nothing is changed by the walk."""
    for address in ADDRESSES:
        for role in ROLES:
            may = ROLES.index(role) >= ROLES.index(address.role)
            if may and address.changes and not address.names_a_task:
                continue  # it would make something
            status, _ = answered(place, role, address, NOBODYS)
            assert (status == 403) is not may, (role, address)
            assert not may or status == (404 if address.names_a_task else 200), (role, address)


def test_what_only_looks_is_for_readers_or_administrators_and_changes_need_more() -> None:
    assert {one.role for one in LOOKS} <= {"read", "admin"}
    assert {one.role for one in ADDRESSES if one.changes} <= {"operate", "approve", "admin"}


def test_nobody_sees_or_changes_what_is_not_theirs(place: Place) -> None:
    """With the highest role that is not an administrator's. A task of somebody else is as one that was never there."""
    with Rule() as rule:
        for address in ADDRESSES:
            with rule.case(address.method, address.path):
                _is_not_theirs(place, address)


def _is_not_theirs(place: Place, address: Address) -> None:
    if address.names_a_task:
        there, nowhere = (answered(place, "approve", address, task) for task in (THEIRS, NOBODYS))
        assert there == nowhere
        assert there[0] == (403 if address.role == "admin" else 404)
        return
    if address.changes or address.path in STREAMS:
        return  # see below
    status, text = answered(place, "approve", address, NOBODYS)
    assert status == (403 if address.role == "admin" else 200), text
    assert CANARY["ben"] not in text
    assert "ben-" not in text
    assert (CANARY["ann"] in text) is (address.path in _LISTS), address.path


#: Where one's own tasks are listed without being asked for; pages that name none show nothing of anybody.
_LISTS = {
    *("/", "/tasks/rows", "/approvals", "/approvals/list", "/notifications", "/notifications/list"),
    *("/api/tasks", "/api/approvals", "/api/notices", "/api/search"),
    *("/statistics", "/statistics/tools", "/api/costs"),
}


def test_an_administrator_sees_everybodys_tasks(place: Place) -> None:
    seen = {
        address.path
        for address in LOOKS
        if not address.names_a_task
        and address.path not in STREAMS
        and CANARY["ben"] in place.client("admin").as_program(address.method, address.about(""), address.content).text
    }
    assert seen >= _LISTS


def test_ones_own_task_is_shown_on_every_address_about_it(place: Place) -> None:
    reader = place.client("read")
    shown: set[str] = set()
    for address in LOOKS:
        if address.names_a_task and address.path not in STREAMS:
            answer = reader.as_program(address.method, address.about(MINE), address.content)
            assert answer.status in (200, 404), (address, answer.text)
            assert CANARY["ben"] not in answer.text
            shown |= {address.path} if CANARY["ann"] in answer.text else set()
    assert len(shown) > 15
    assert {"/tasks/{task}", "/tasks/{task}/export", "/api/tasks/{task}/messages", "/tasks/{task}/messages"} <= shown


@pytest.mark.parametrize(
    "name", ["ben-w", "@last:failed", "@last:waiting", "otter5113/otter5113-repo#1", "#1", "ben-work"]
)
def test_no_name_leads_to_what_is_not_ones_own(place: Place, name: str) -> None:
    quoted = name.replace("#", "%23").replace("/", "%2F")
    for path in (f"/api/search?query=step&task={quoted}", f"/api/notices?task={quoted}", f"/api/tasks/{quoted}"):
        answer = place.client("approve").as_program("GET", path)
        text = _CHANCE.sub("", answer.text.replace(name, ""))
        assert CANARY["ben"] not in text
        assert "ben-" not in text
    listed = place.client("approve").as_program("GET", "/tasks/rows?ids=ben-work,ben-done,ann-done").text
    assert "ann-done" in listed
    assert "ben-" not in listed


_DETOURS = (
    *("%62en-work", "ben-work%20", "ben-work.", "BEN-WORK", "//ben-work", "../tasks/ben-work", "%2e%2e/tasks/ben-work"),
    *("ann-work/../ben-work", "ann-work%2F..%2Fben-work", "ann-work/..%252fben-work", "ann-work%5c..%5cben-work"),
    *("ann-work%00ben-work", "ann-work;ben-work"),
)


def test_no_detour_leads_to_a_download_or_a_stream_of_somebody_elses(place: Place) -> None:
    """Ids written otherwise, with ways up in them, and headers that ask for a part, another address or another user."""
    client = place.client("approve")
    ends = ("/export?format=jsonl", "/export?format=html&task=ben-work", "/events?after=-1", "/folds/1")
    with Rule() as rule:
        for path in (f"/tasks/{name}{end}" for name in _DETOURS for end in ends):
            with rule.case(path):
                answer = client.as_program("GET", path)
                assert 400 <= answer.status < 500
                assert CANARY["ben"] not in answer.text
        for name, said in (("Range", "bytes=0-"), ("X-Original-URL", "/tasks/ben-work"), ("X-Forwarded-User", "ben")):
            for path, status in (("/tasks/ann-work/export?format=jsonl", 200), ("/tasks/ben-work/export", 404)):
                with rule.case(name, path):
                    headers = {"Authorization": f"Bearer {client.token}", name: said}
                    answer = client.ask("GET", path, headers=headers)
                    assert answer.status == status
                    assert CANARY["ben"] not in answer.text


def test_filters_do_not_reach_beyond_ones_own(place: Place) -> None:
    ann = place.client("approve")
    for path in ("/api/tasks?user=ben", "/api/search?query=step&user=ben"):
        assert not any(found for found in ann.as_program("GET", path).value.values() if isinstance(found, list))
    assert ann.as_program("GET", "/api/tasks?before=ben-failed").value["tasks"] == []
    assert len(ann.as_program("GET", "/api/tasks").value["tasks"]) == 4
    page = ann.as_program("GET", "/?user=ben").text
    assert "data-task=" not in page
    counts = re.findall(r'data-status="(\w+|\*)"[^>]*><b>(\d+)</b>', ann.as_program("GET", "/").text)
    assert dict(counts) == {"running": "0", "waiting": "1", "queued": "1", "failed": "1", "dead": "0", "*": "4"}


def test_figures_are_ones_own(place: Place) -> None:
    """Each has called once, with the same tokens."""
    ann, admin = place.client("read"), place.client("admin")
    for by in ("task", "user", "repository", "model", "day"):
        own, every = (one.as_program("GET", f"/api/costs?by={by}").value for one in (ann, admin))
        assert (own["total"]["calls"], every["total"]["calls"]) == (1, 2)
        assert own["total"]["input_tokens"] == 100
        assert CANARY["ben"] not in ann.as_program("GET", f"/statistics?by={by}").text
    assert "/statistics/storage" not in ann.as_program("GET", "/statistics").text
    assert "/statistics/storage" in admin.as_program("GET", "/statistics").text


# ---- links between tasks ---------------------------------------------------------------------------------------------


def test_links_to_others_tasks_are_not_followed(fresh: Place) -> None:
    """However they came about: an administrator may let a task inherit from, or be a part of, another user's."""
    with open_catalogue(fresh.base, fresh.settings) as catalogue:
        catalogue.tasks.update("ann-work", inherits_from="ben-done")
    queue = TaskQueue(fresh.base, fresh.settings)
    parts = {user: queue.enqueue(part(user), prompt=CANARY[user], parent_uuid="ann-work") for user in CANARY}
    queue.close()
    ann = fresh.client("read")
    about = "/api/tasks/ann-work"
    for path in (f"{about}/inherited", f"{about}/chain", "/tasks/ann-work?tab=chain", about, "/api/tasks"):
        answer = ann.as_program("GET", path)
        assert answer.status == 200
        text = _CHANCE.sub("", answer.text)
        assert CANARY["ben"] not in text
        assert "ben-" not in text
        assert parts["ben"] not in text
    card = ann.as_program("GET", "/api/tasks/ann-work").value
    assert card["inherited"] is None
    assert [one["uuid"] for one in card["children"]] == [parts["ann"]]
    admin = fresh.client("admin").as_program("GET", "/api/tasks/ann-work").value
    assert {one["uuid"] for one in admin["children"]} == set(parts.values())


# ---- new tasks -------------------------------------------------------------------------------------------------------


def test_new_tasks_are_their_makers(fresh: Place) -> None:
    made = fresh.client("operate").as_program("POST", "/api/tasks", {"prompt": "mine"}).value
    for role, user, status in (("operate", "ben", 400), ("approve", "ben", 400), ("operate", "ann", 200)):
        answer = fresh.client(role).as_program("POST", "/api/tasks", {"prompt": "x", "user": user})  # type: ignore[arg-type]
        assert answer.status == status, answer.text
    theirs = fresh.client("admin").as_program("POST", "/api/tasks", {"prompt": "theirs", "user": "ben"}).value
    forked = fresh.client("operate").as_program("POST", "/api/tasks/ann-done/fork", {"at": 1}).value
    with open_catalogue(fresh.base, fresh.settings) as catalogue:
        assert [catalogue.tasks.get(one["uuid"]).user for one in (made, theirs, forked)] == ["ann", "ben", "ann"]


def test_a_user_who_has_enough_tasks_gets_no_more_over_the_web(tmp_path: Path) -> None:
    base, settings = tmp_path / "contexts", load_settings({}, environ={})
    base.mkdir()
    fill(base, settings, "ann")
    token = new_grant(base, settings, user="ann", role="operate").token
    with serving(base, replace(settings, quotas=QuotaSettings(tasks=2))) as server:
        ann = Client(server, token=token)
        for path, body in (("/api/tasks", {"prompt": "one more"}), ("/api/tasks/ann-done/fork", {"at": 1})):
            answer = ann.as_program("POST", path, body)
            assert (answer.status, answer.reason) == (409, "QuotaExceeded.tasks")


# ---- streams ---------------------------------------------------------------------------------------------------------


class Stream:
    """Events as they come."""

    def __init__(self, client: Client, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=_PATIENCE)
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {client.token}"})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self.heard = ""

    def until(self, word: str) -> str:
        """Everything from here to a line that has the word, or to the end."""
        heard = ""
        while line := self._answer.readline().decode():
            heard += line
            if word in line:
                break
        self.heard += heard
        return heard

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def change(place: Place, user: str, number: int) -> None:
    """Something happens to a user's task, and people are told."""
    with open_catalogue(place.base, place.settings) as catalogue:
        catalogue.tasks.update(f"{user}-failed", error_message=f"again {CANARY[user]} {number}")
        notice = NewNotice(f"{user}-{number}", "failed", "error", f"{user}-failed", {"detail": CANARY[user]})
        catalogue.outbox.add(notice)


@pytest.mark.parametrize("path", ["/events", "/events?rows=true"])
def test_a_stream_tells_of_ones_own_tasks_alone(place: Place, path: str) -> None:
    stream = Stream(place.client("read"), path)
    try:
        assert '"counts":{"completed":1' in stream.until('"first":true')
        for number in range(2):
            change(place, "ben", number + 10 * len(path))
        change(place, "ann", 10 * len(path))
        assert "ann-failed" in stream.until("ann-failed")
    finally:
        stream.close()
    assert "ben-" not in stream.heard
    assert CANARY["ben"] not in stream.heard
    assert ("rows" in stream.heard) is path.endswith("true")


def test_a_stream_ends_when_the_grant_is_revoked(fresh: Place, no_memory: None) -> None:
    made = new_grant(fresh.base, fresh.settings, user="ann", role="read")
    client = Client(fresh.server, token=made.token)
    streams = [Stream(client, path) for path in ("/events", "/tasks/ann-failed/events")]
    for stream in streams:
        stream.until("data:")
    revoke_grant(fresh.base, fresh.settings, made.grant.id)
    change(fresh, "ann", 1)
    # To the end, or to the word that would be wrong: a stream that goes on has a sign of life for ever.
    assert "ann-failed" not in streams[0].until("ann-failed")
    streams[1].close()
    streams[0].close()


# ---- tokens and sessions ---------------------------------------------------------------------------------------------


def test_a_browser_enters_with_a_grant_and_is_out_with_it(fresh: Place, no_memory: None) -> None:
    made = new_grant(fresh.base, fresh.settings, user="ann", role="operate")
    browser = Client(fresh.server, token=made.token).log_in()
    page = browser.ask("GET", "/").text
    assert '<span class="who"' in page
    assert "<bdi>ann</bdi>" in page
    assert made.token not in page
    assert browser.change("/api/tasks/ann-failed/retry").status == 200
    assert browser.ask("GET", "/tasks/ben-work").status == 404
    assert browser.ask("GET", "/workers").status == 403
    revoke_grant(fresh.base, fresh.settings, made.grant.id)
    assert browser.ask("GET", "/").status == 401
    assert browser.change("/api/tasks/ann-failed/pause").status in (401, 403)
    assert browser.as_program("GET", "/api/tasks").status == 401
    assert fresh.client("read").as_program("GET", "/api/tasks").status == 200


def test_no_session_is_made_from_another(fresh: Place) -> None:
    """The grant's name in a cookie is signed with the rest."""
    other = new_grant(fresh.base, fresh.settings, user="ben", role="admin").grant.id
    browser = fresh.client("read").log_in()
    name, _, value = browser.cookie.partition("=")
    until, session, _, mark = value.split(".")
    for forged in (f"{until}.{session}.{other}.{mark}", f"{until}.{session}.{mark}"):
        browser.cookie = f"{name}={forged}"
        assert browser.ask("GET", "/").status == 401


def test_expired_and_erased_grants_let_nobody_in(fresh: Place, no_memory: None) -> None:
    token = PREFIX + "x" * 43
    over = Grant("0a1b2c3d", "ann", "admin", "", utc_now(), "2001-01-01T00:00:00.000000+00:00", None)
    with open_catalogue(fresh.base, fresh.settings) as catalogue:
        catalogue.grants.add(over, digest_of(token))
    for _ in range(20):  # it was good once: no guess, and no reason to keep others out
        assert Client(fresh.server, token=token).as_program("GET", "/api/tasks").status == 401
    ann = fresh.client("read")
    assert ann.as_program("GET", "/api/tasks").status == 200
    with open_catalogue(fresh.base, fresh.settings) as catalogue:
        catalogue.grants.forget_user("ann")
    assert ann.as_program("GET", "/api/tasks").status == 401


def test_guessing_shuts_the_door_to_guesses_alone(fresh: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "FAILURE_SECONDS", 3600.0)  # however long the guesses take here
    ann = fresh.client("read")
    assert ann.as_program("GET", "/api/tasks").status == 200
    guesses = [
        Client(fresh.server, token=f"{PREFIX}{number:043}").as_program("GET", "/api/tasks").status
        for number in range(11)
    ]
    assert guesses == [401] * 9 + [429] * 2
    for client in (ann, fresh.client("operate"), Client(fresh.server)):  # seen before, never seen before, the server's
        assert client.as_program("GET", "/api/tasks").status == 200


def test_a_new_token_of_the_server_ends_sessions_and_no_grants(fresh: Place) -> None:
    browser = fresh.client("read").log_in()
    with serving(fresh.base, fresh.settings, new_token=True) as again:
        browser.server = again
        browser.cookie = f"orihon_session_{again.port}={browser.cookie.partition('=')[2]}"
        assert browser.ask("GET", "/").status == 401
        assert browser.as_program("GET", "/api/tasks").status == 200


def test_without_its_catalogue_the_server_says_so_and_no_more(fresh: Place, no_memory: None) -> None:
    ann = fresh.client("read")
    assert ann.as_program("GET", "/api/tasks").status == 200
    for path in fresh.base.glob("tasks.db*"):
        path.write_bytes(b"no database" * 1000)
    answer = ann.as_program("GET", "/api/tasks")
    assert (answer.status, answer.reason) == (503, "grants")
    assert str(fresh.base) not in answer.text


# ---- what pages offer ------------------------------------------------------------------------------------------------


def test_the_navigation_leads_where_one_may_go() -> None:
    needed = {page.path: page.role for page in PAGES}
    for role in ROLES:
        visitor = Visitor("ann", role)
        shown = {address for _, address in places_for(visitor)}
        assert shown == {address for _, address in PLACES if visitor.may(needed[address])}


@pytest.mark.parametrize("role", ROLES)
def test_pages_offer_what_the_role_allows(fresh: Place, role: Role) -> None:
    reader = fresh.client(role)
    task, inbox = (reader.as_program("GET", path).text for path in ("/tasks/ann-work", "/approvals"))
    assert ("data-act=" in task) is (role != "read")
    assert (f'href="/approvals#{MINE}"' in task) is (role in ("approve", "admin"))
    assert ('<form class="answer"' in inbox) is (role in ("approve", "admin"))
    assert ('name="user"' in reader.as_program("GET", "/").text) is (role == "admin")


def test_settings_are_shown_as_they_are_for_the_reader(tmp_path: Path) -> None:
    """Neither what is the operator's, nor what is another user's."""
    base = tmp_path / "contexts"
    base.mkdir()
    config: dict[str, Any] = {
        "llm": {
            "openai": {"base_url": "http://inside.example:9/v1", "api_key": "sk-operators-own-key", "model": "m-1"}
        },
        "quotas": {"tasks": 5, "users": {"ann": {"tasks": 7}, "ben": {"tasks": 901}}},
        "notifications": {"webhook": "http://hook.example/secret"},
    }
    settings = load_settings(config, environ={})
    token = new_grant(base, settings, user="ann", role="read").token
    with serving(base, settings, config=tmp_path / "orihon.yaml") as server:
        for path in ("/settings", "/api/settings"):
            text = _CHANCE.sub("", Client(server, token=token).as_program("GET", path).text)
            assert "m-1" in text
            for hidden in ("inside.example", "sk-oper", "901", "hook.example", str(tmp_path), "orihon.yaml", "ben"):
                assert hidden not in text, (path, hidden)
            assert "inside.example" in Client(server).as_program("GET", path).text
        found = Client(server, token=token).as_program("GET", "/api/settings").value["settings"]
        assert {one["key"]: one["value"] for one in found}["quotas.tasks"] == 7
