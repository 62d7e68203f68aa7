"""Reading over HTTP, on every back end: the answers of the API are what the commands print with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orihon import Settings, TaskKey, load_settings
from orihon.cli.main import main
from orihon.errors import TaskNotFound
from orihon.system.json_shapes import definitions, schema_of, to_json
from orihon.tasks.base import OpenBase
from orihon.texts import set_language
from orihon.web.access import Visitor
from orihon.web.broadcaster import Broadcaster
from orihon.web.call import Call, Endpoint
from orihon.web.fields import PATH_FIELDS, from_texts
from orihon.web.routes import ENDPOINTS
from orihon.web.site import Site
from orihon.web.snapshots import open_topic
from tests.conformance.backends import BACKENDS
from tests.damage import KEY, settings_for, start_task
from tests.helpers import refused
from tests.integration.run_supervisor import eventually
from tests.services import own_schema
from tests.serving import Answer, Client, serving


@dataclass
class Shown:
    """Two tasks on one key, the second inheriting from the first, and a program that may read everything."""

    base: Path
    config: Path
    settings: Settings
    client: Client
    first: str
    second: str

    def get(self, path: str) -> Any:
        answer = self.asked(path)
        assert answer.status == 200, answer.text
        return answer.value

    def asked(self, path: str) -> Answer:
        return self.client.as_program("GET", path)


@pytest.fixture
def shown(kind: str, tmp_path: Path, own_logging: None) -> Iterator[Shown]:
    config = BACKENDS[kind].config()
    config["context_storage"] |= {"blob_bytes": 1024}
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    settings, base = load_settings(file), tmp_path / "contexts"
    key = TaskKey("github", "owner", tmp_path.name, "issue", "27", "user")
    done = start_task(base, settings, key=key)
    done.complete()
    done.catalogue.close()
    paused = start_task(base, settings, key=key)
    paused.stop()
    paused.catalogue.close()
    with serving(base, settings, config=file) as server:
        yield Shown(base, file, settings, Client(server), done.uuid, paused.uuid)
    set_language(None)


#: An address of the API, and the command that says the same; ``{one}`` and ``{two}`` are the tasks.
SAME = [
    ("/api/tasks?repository=owner/{repo}", "list --repository owner/{repo}"),
    ("/api/tasks?status=paused&user=user&search={repo}&since=1d&limit=5", "list --status paused --search {repo} -n 5"),
    ("/api/tasks/{two}", "show {two}"),
    ("/api/tasks/{one}", "show {one}"),
    ("/api/tasks/{two}/statistics", "stats {two}"),
    ("/api/tasks/{two}/messages", "show {two} --messages"),
    ("/api/tasks/{two}/messages?range=3-9&role=tool", "show {two} --messages --range 3-9 --role tool"),
    ("/api/tasks/{two}/messages?last=4", "show {two} --messages --last 4"),
    ("/api/tasks/{two}/summaries", "show {two} --summaries"),
    ("/api/tasks/{two}/summaries?range=2-", "show {two} --summaries --range 2-"),
    ("/api/tasks/{two}/tools", "show {two} --tools"),
    ("/api/tasks/{two}/plans", "show {two} --plans"),
    ("/api/tasks/{two}/folds", "show {two} --folds"),
    ("/api/tasks/{two}/inherited", "show {two} --inherited"),
    ("/api/tasks/{one}/inherited", "show {one} --inherited"),
    ("/api/tasks/{two}/view", "view {two}"),
    ("/api/tasks/{two}/view?at=8", "view {two} --at 8"),
    ("/api/tasks/{two}/compressions", "view {two} --folds"),
    ("/api/tasks/{two}/compressions/2", "diff {two} --compression 2"),
    ("/api/tasks/{two}/chain", "chain {two}"),
    ("/api/costs?by=model&since=2020-01-01", "costs --by model --since 2020-01-01"),
    ("/api/statistics", "stats"),
    ("/api/statistics/storage", "stats --summary"),
    ("/api/workers", "workers"),
    ("/api/notifications?since=0&task={two}", "notifications --since 0 --task {two}"),
    ("/api/search?query=steps&task={two}&kind=summary", "search steps --task {two} --kind summary"),
    ("/api/search?query=step&user=user&repository=owner/{repo}", "search step --user user --repository owner/{repo}"),
]
#: No worker has ever run here, and nobody was told anything.
MAY_BE_EMPTY = ("/api/workers", "/api/notifications")


def test_each_answer_is_what_its_command_prints(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"one": shown.first, "two": shown.second, "repo": shown.base.parent.name}
    for address, command in SAME:
        found = shown.get(address.format_map(names))
        found.pop("next", None)
        capsys.readouterr()
        words = ["--base-dir", str(shown.base), "--config", str(shown.config), *command.format_map(names).split()]
        assert main([*words, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert found == printed, address
        assert any(found.values()) or address.startswith(MAY_BE_EMPTY), address


def test_the_settings_are_those_of_the_server(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown.get("/api/settings")
    assert main(["--config", str(shown.config), "config", "show", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for one in (found, printed):  # nobody has named a base folder, and only the command looks for one
        one["settings"] = [setting for setting in one["settings"] if setting["key"] != "context_storage.base_dir"]
    assert found == printed
    assert found["file"] == str(shown.config)
    if shown.settings.database.url is not None:
        assert shown.settings.database.url not in json.dumps(found)


def test_long_lists_come_in_pages(shown: Shown) -> None:
    for what, number in (("messages", "seq"), ("summaries", "id"), ("folds", "start_seq"), ("compressions", "id")):
        path = f"/api/tasks/{shown.second}/{what}"
        whole, pages = shown.get(path)[what], []
        begin: int | None = 1
        while begin is not None:
            asked = f"first={begin}" if what == "compressions" else f"range={begin}-"
            page = shown.get(f"{path}?limit=2&{asked}")
            assert len(page[what]) <= 2
            pages += page[what]
            assert page["next"] is None or page["next"] > page[what][-1][number]
            begin = page["next"]
        assert pages == whole
        assert len(whole) >= 2
    view: list[Any] = []
    place = 1
    while place:
        page = shown.get(f"/api/tasks/{shown.second}/view?limit=3&first={place}")
        view, place = [*view, *page["view"]], page["next"] or 0
    assert view == shown.get(f"/api/tasks/{shown.second}/view")["view"]
    newest = shown.get(f"/api/tasks?repository=owner/{shown.base.parent.name}&limit=1")
    older = shown.get(f"/api/tasks?repository=owner/{shown.base.parent.name}&limit=1&before={newest['next']}")
    assert [one["tasks"][0]["uuid"] for one in (newest, older)] == [shown.second, shown.first]


# ---- what does not depend on the back end --------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Client]:
    settings, base = settings_for("files"), tmp_path / "contexts"
    start_task(base, settings, uuid="paused-1").stop()
    theirs = TaskKey("github", "owner", "other", "issue", "1", "somebody")
    start_task(base, settings, uuid="theirs-1", key=theirs).stop()
    with serving(base, settings) as server:
        yield Client(server)


def valid(endpoint: Endpoint, value: Any) -> None:
    answer = schema_of(endpoint.answer)
    schema = {**answer, "$defs": definitions(answer)}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(value)] == [], endpoint.name


@pytest.mark.parametrize("endpoint", [one for one in ENDPOINTS if one.method == "GET"], ids=lambda one: one.name)
def test_each_answer_has_the_form_that_is_promised(endpoint: Endpoint, plain: Client) -> None:
    needed = "&".join(f"{field.name}=step" for field in endpoint.query if field.required)
    path = endpoint.path.replace("{task}", "paused-1").replace("{number}", "2")
    answer = plain.as_program("GET", f"{path}?{needed}")
    assert answer.status == 200, answer.text
    valid(endpoint, answer.value)


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/api/tasks/nobody-1", 404, "TaskNotFound.uuid"),
        ("/api/tasks/paused-1/messages?range=9-3", 400, "InvalidInput.range"),
        ("/api/tasks/paused-1/messages?limit=501", 400, "InvalidInput.field"),
        ("/api/tasks/paused-1/messages?role=", 200, ""),
        ("/api/tasks/paused-1/view?at=99", 404, "NoSuchMessage.seq"),
        ("/api/tasks/paused-1/view?at=0", 400, "InvalidInput.field"),
        ("/api/tasks/paused-1/compressions/99", 409, "NothingToUndo.no_compression"),
        ("/api/tasks/paused-1/compressions/one", 400, "InvalidInput.field"),
        ("/api/tasks?status=asleep", 400, "InvalidInput.field"),
        ("/api/tasks?since=soon", 400, "InvalidInput.typed_time"),
        ("/api/tasks?colour=red", 400, "InvalidInput.field_unknown"),
        ("/api/tasks?limit=1&limit=2", 400, "InvalidInput.field_twice"),
        ("/api/nothing", 404, "no_endpoint"),
        ("/api/costs?since=never", 400, "InvalidInput.not_a_day"),
        ("/api/search", 400, "InvalidInput.field_missing"),
        ("/api/search?query=x&kind=dream", 400, "InvalidInput.field"),
        ("/api/search?query=x&task=nobody-1", 404, "TaskNotFound.uuid"),
        ("/api/notifications?since=-1", 400, "InvalidInput.field"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_cause_and_remedy(
    path: str, status: int, reason: str, plain: Client
) -> None:
    answer = plain.as_program("GET", path)
    assert answer.status == status, answer.text
    if status != 200:
        assert answer.reason == reason
        assert answer.value["error"]["cause"]
        assert answer.value["error"]["remedy"]


def test_a_user_reads_their_own_tasks_and_no_sums_over_everybodys(tmp_path: Path, plain: Client) -> None:
    base, settings = tmp_path / "contexts", settings_for("files")
    opened = OpenBase(base, settings)
    site = Site(opened, Broadcaster(partial(open_topic, opened)))

    def ask(name: str, **given: str) -> Any:
        endpoint = next(one for one in ENDPOINTS if one.name == name)
        path = {
            field: PATH_FIELDS[field].of_text(given.pop(field))
            for field in PATH_FIELDS
            if f"{{{field}}}" in endpoint.path
        }
        call = Call(site, Visitor(KEY.user, "read"), path | from_texts(endpoint.query, given.items()))
        return to_json(endpoint.act(call))

    assert [row["uuid"] for row in ask("listTasks")["tasks"]] == ["paused-1"]
    assert ask("listTasks", user="somebody")["tasks"] == []
    assert {hit["task"] for hit in ask("search", query="step")["hits"]} == {"paused-1"}
    assert ask("search", query="step", user="somebody")["hits"] == []
    with refused(TaskNotFound, "uuid"):
        ask("search", query="step", task="theirs-1")
    assert ask("listCosts")["total"]["calls"] == 0
    across = {one.name for one in ENDPOINTS if one.method == "GET" and "{task}" not in one.path and one.role == "read"}
    theirs = {"listTasks", "search", "listApprovals", "listNotices", "listCosts", "showSettings"}
    assert across == theirs | {"health", "describeApi"}
    for one in ENDPOINTS:
        if one.method == "GET" and "{task}" in one.path:
            with refused(TaskNotFound, "uuid"):
                ask(one.name, task="theirs-1", **({"number": "2"} if "{number}" in one.path else {}))


def test_a_server_keeps_its_connections_from_request_to_request(tmp_path: Path) -> None:
    import psycopg

    schemas = own_schema()
    database = next(schemas)
    config = {"database": {**database.settings, "url": f"{database.url}&application_name={database.schema}"}}
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"

    def open_sessions() -> set[int]:
        with psycopg.connect(database.url) as looking:
            return {pid for (pid,) in looking.execute(sessions, [database.schema])}

    with serving(tmp_path, load_settings(config, environ={})) as server:
        seen = []
        for _ in range(3):
            assert Client(server).as_program("GET", "/api/tasks").status == 200
            eventually(lambda: len(open_sessions()) == 1)  # one that was closed may be on its way out
            seen.append(open_sessions())
    assert seen[1:] == seen[:2]
    for _ in schemas:
        pass
