"""The history search over real tasks, in every back end: what is found, what became of it, what may go wrong."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orihon import Message, TaskContextManager, TaskKey, archive_task, restore_task, search_history
from orihon.catalogue.connect import open_catalogue
from orihon.errors import InvalidInput, TaskNotFound
from orihon.runtime.queue import QueueLimits
from orihon.runtime.tools import ToolBox
from orihon.runtime.worker import WorkerProcess
from orihon.search import SearchResults, catch_up, forget, rebuild_index
from orihon.search.index import IndexProgress
from orihon.search.maintenance import open_index
from orihon.search.query import parse_query
from orihon.search.sqlite_index import FILE, index_turn
from orihon.search.task_search import ranked_messages
from orihon.settings import Settings, load_settings
from orihon.store.record_codec import Said
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from orihon.transfer.archive.cleanup import Cleaning
from orihon.transfer.archive.work import at_work
from orihon.upkeep.doctor import examine, repair
from tests.helpers import raw_database, refused
from tests.services import own_schema

BACKENDS = ("files", "sqlite", "postgres")
HANDLER = "tests.integration.worker_handlers:PromptHandler"


@dataclass(frozen=True)
class Place:
    """A base folder, and a word that no other test uses: those in a database see each other's tasks."""

    base: Path
    settings: Settings
    word: str

    def task(self, number: str = "1", **more: Any) -> TaskContextManager:
        key = TaskKey("cli", "owner", f"repo{self.word}", "issue", number)
        return TaskContextManager(self.base, key, self.settings, **more)

    def search(self, query: str, **more: Any) -> SearchResults:
        return search_history(self.base, self.settings, f"{self.word} {query}", **more)

    def found(self, query: str, **more: Any) -> list[tuple[str, int]]:
        return sorted((hit.kind, hit.number) for hit in self.search(query, **more).hits)


@pytest.fixture(scope="module")
def schema() -> Iterator[dict[str, str]]:
    for database in own_schema():
        yield database.settings


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    config: dict[str, Any] = {"context_storage": {"backend": request.param}}
    if request.param == "postgres":
        config["database"] = request.getfixturevalue("schema")
    return Place(tmp_path / "contexts", load_settings(config, environ={}), f"w{secrets.token_hex(4)}")


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(tmp_path / "contexts", load_settings({}, environ={}), "theword")


def call(name: str, number: int, arguments: str = "{}") -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_everything_of_a_task_is_found(place: Place) -> None:
    with place.task() as task:
        store = task.message_store
        store.add_message("system", f"{place.word} You are careful.")
        store.add_message("user", f"{place.word} Mend getTankLevel in src/tank_control.py; 移行計画も。")
        store.add_message("assistant", None, tool_calls=[call("shell_run", 1, f'{{"command": "{place.word}\\nls"}}')])
        store.add_message("tool", f"{place.word} tank.py pump.py", tool_call_id="c1")
        store.add_message("assistant", f"{place.word} Done.")
        store.create_summary(2, 4, f"{place.word} the tank was looked at")
        task.tool_store.add_tool_call("shell_run", {"command": f"{place.word} ls"}, {"files": ["tank.py"]})
        task.planning_store.add_plan("initial", {"steps": [f"{place.word} look", "mend the tank"]})
        assert place.found("tank") == [("message", 2), ("message", 4), ("plan", 1), ("summary", 1), ("tool", 1)]
        assert place.found("tanklevel -pump") == []
        assert place.found("gettanklevel") == place.found("移行") == place.found("tank_control.py") == [("message", 2)]
        assert place.found("ls", kinds=["message"]) == [("message", 3)]
        assert place.found("tank", roles=["tool"]) == [("message", 4)]
        assert place.found("", tools=["shell_run"]) == [("message", 3), ("message", 4), ("tool", 1)]
        assert place.found("", tasks=[task.uuid[:13]], kinds=["plan", "summary"]) == [("plan", 1), ("summary", 1)]
        assert place.found("tank", tasks=[f"owner/repo{place.word}#1"], kinds=["plan"]) == [("plan", 1)]
        store.add_message("user", f"{place.word} and the fresh one")
        assert place.found("fresh") == [("message", 6)]
    hits = {(hit.kind, hit.number): hit for hit in place.search("").hits}
    folds = {number: hit.fold for (kind, number), hit in hits.items() if kind == "message"}
    assert folds == {1: None, 2: 1, 3: 1, 4: 1, 5: None, 6: None}
    assert hits["summary", 1].covers == (2, 4)
    told = hits["message", 4].as_dict()
    start, end = told["highlights"][0]
    assert told["text"][start:end] == place.word
    assert (told["label"], told["status"], told["tools"]) == (
        f"cli:owner/repo{place.word}#1",
        "completed",
        ["shell_run"],
    )
    assert (told["folded"], told["fold"], told["role"]) == (True, 1, "tool")


def test_a_tool_call_is_told_once(place: Place) -> None:
    with place.task() as task:
        task.message_store.add_message("assistant", None, tool_calls=[call("shell_run", 1), call("shell_run", 2)])
        task.message_store.add_message("tool", f"{place.word} output", tool_call_id="c1")
        task.tool_store.add_tool_call("shell_run", {}, f"{place.word} output", call_id="c1")
        task.message_store.add_message("tool", "nothing", tool_call_id="c2")
        task.tool_store.add_tool_call("shell_run", {"command": place.word}, "nothing", call_id="c2")
    results = place.search("")
    assert (sorted((hit.kind, hit.number) for hit in results.hits), results.matches) == (
        [("message", 2), ("tool", 2)],
        2,
    )
    assert place.found("", kinds=["tool"]) == [("tool", 1), ("tool", 2)]


def test_a_tool_call_is_told_once_however_late_its_message_comes(local: Place) -> None:
    with local.task() as task:
        for number, record, message in ((1, 10, 40), (2, 80, 160)):  # the longer a text, the later it comes
            task.message_store.add_message("assistant", None, tool_calls=[call("run", number)])
            task.message_store.add_message("tool", local.word + " padding" * message, tool_call_id=f"c{number}")
            task.tool_store.add_tool_call("run", {}, local.word + " padding" * record, call_id=f"c{number}")
    results = local.search("", limit=3)
    assert [(hit.kind, hit.number) for hit in results.hits] == [("message", 2), ("message", 4)]
    assert results.matches == 2


def test_times_and_limits(place: Place) -> None:
    with place.task() as task:
        for number in range(5):
            task.message_store.add_message("user", f"{place.word} {number}")
    now = datetime.now(UTC)
    assert len(place.search("", since="1h").hits) == 5
    assert place.search("", until="1h").hits == ()
    assert place.search("", since=(now + timedelta(days=1)).date().isoformat()).hits == ()
    results = place.search("", limit=2)
    assert ([hit.number for hit in results.hits], results.matches, results.has_more) == ([5, 4], 5, False)
    with refused(InvalidInput, "time"):
        place.search("", since="yesterday")
    with refused(InvalidInput, "unknown_kind"):
        place.search("", kinds=["log"])
    with refused(TaskNotFound, "uuid"):
        place.search("", tasks=["feedbeef"])


def test_only_of_a_user_or_a_repository(place: Place) -> None:
    for user, repo in (("ann", "one"), ("ann", "two"), ("ben", "one")):
        key = TaskKey("cli", place.word, repo, "issue", user, user)
        with TaskContextManager(place.base, key, place.settings) as task:
            task.message_store.add_message("user", f"{place.word} apples of {user} in {repo}")
            task.stop()

    def labels(**filters: Any) -> list[str]:
        return sorted(hit.label.partition("/")[2] for hit in place.search("apples", **filters).hits)

    one, two = f"{place.word}/one", f"{place.word}/two"
    assert labels() == ["one#ann", "one#ben", "two#ann"]
    assert labels(users=["ann"]) == ["one#ann", "two#ann"]
    assert labels(repositories=[one]) == ["one#ann", "one#ben"]
    assert labels(users=["ann"], repositories=[one]) == ["one#ann"]
    assert labels(users=["ann", "ben"], repositories=[two]) == ["two#ann"]
    assert labels(users=["nobody"]) == labels(users=["ben"], repositories=[two]) == []
    theirs = next(hit.uuid for hit in place.search("apples", users=["ben"]).hits)
    assert labels(users=["ben"], tasks=[theirs]) == ["one#ben"]
    assert labels(users=["ann"], tasks=[theirs]) == []


def test_an_empty_base_folder_has_nothing(local: Place) -> None:
    local.base.mkdir()
    assert local.search("anything") == SearchResults()
    assert list(local.base.iterdir()) == []


# ---- keeping up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["files", "sqlite"], indirect=True)
def test_a_finished_task_is_not_opened_again(place: Place) -> None:
    with place.task() as task:
        task.message_store.add_message("user", place.word)
    assert place.found("") == [("message", 1)]
    folder = folders_of(place.base, place.settings).find(task.uuid)
    assert folder is not None
    for path in folder.folder.iterdir():
        if path.suffix in (".db", ".jsonl"):
            path.write_bytes(b"nothing that anybody can read\n")
    for _ in range(2):
        results = place.search("")
        assert results.problems == {}
        assert [hit.snippet for hit in results.hits] == [None]  # only what is shown of it is missing


def test_a_task_is_found_wherever_it_moves(place: Place) -> None:
    task = place.task()
    task.message_store.add_message("user", f"{place.word} running")
    assert place.found("running") == [("message", 1)]
    task.message_store.add_message("user", f"{place.word} paused")
    task.stop()
    assert place.found("paused") == [("message", 2)]
    with place.task(uuid=task.uuid, is_resumed=True) as again:
        again.message_store.add_message("user", f"{place.word} ended")
    assert place.found("ended") == [("message", 3)]
    assert {hit.status for hit in place.search("").hits} == {"completed"}
    task.catalogue.close()


def test_a_damaged_task_is_told_and_others_are_found(local: Place) -> None:
    with local.task("1") as damaged:
        for number in range(3):
            damaged.message_store.add_message("user", f"{local.word} {number}")
    with local.task("2") as whole:
        whole.message_store.add_message("user", f"{local.word} whole")
    log = local.base / "completed" / damaged.uuid / "messages.jsonl"
    kept = log.read_bytes()
    lines = kept.splitlines(keepends=True)
    log.write_bytes(lines[0] + b"{nonsense}\n" + lines[2])
    results = local.search("")
    assert {hit.uuid for hit in results.hits} == {damaged.uuid, whole.uuid}
    assert list(results.problems) == [damaged.uuid]
    assert list(local.search("", tasks=[whole.uuid]).problems) == []
    log.write_bytes(kept)
    with open_index(OpenBase(local.base, local.settings)) as index:
        index.note_progress("", IndexProgress("2999", utc_now()))  # nothing else is looked at
    for _ in range(2):
        results = local.search("")
        assert (len(results.hits), results.problems) == (4, {})


def test_there_may_be_no_time_to_read_everything(local: Place) -> None:
    with local.task() as task:
        for number in range(5):
            task.message_store.add_message("user", f"{local.word} {number}")
    results = local.search("", seconds=0)
    assert (results.hits, results.is_current) == ((), False)
    seen: list[tuple[int, int]] = []
    results = local.search("", progress=lambda done, of: seen.append((done, of)))
    assert (len(results.hits), results.is_current, seen) == (5, True, [(1, 1)])


def test_what_was_begun_is_gone_on_with(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with local.task("1") as task:
        said = [Said(Message("user", f"{local.word} {number}")) for number in range(120)]
        task.message_store.task_store.append(said)
    monkeypatch.setattr("orihon.search.indexer._BATCH_DOCUMENTS", 20)
    runs = 1
    while not catch_up(OpenBase(local.base, local.settings), seconds=0.001):  # no machine reads all of it in that time
        runs += 1
    assert runs > 1
    assert local.search("", seconds=0).matches == 120


def test_a_process_that_is_killed_leaves_nothing_twice(local: Place) -> None:
    for number in range(2):
        with local.task(str(number)) as task:
            task.message_store.task_store.append([Said(Message("user", local.word)) for _ in range(200)])
    program = (
        "import sys; from orihon.search import indexer, rebuild_index; from orihon.settings import load_settings;"
        "from orihon.tasks.base import OpenBase; indexer._BATCH_DOCUMENTS = 10; print('go', flush=True);"
        "rebuild_index(OpenBase(sys.argv[1], load_settings({})))"
    )
    with open_index(OpenBase(local.base, local.settings)) as index:
        command = [sys.executable, "-c", program, str(local.base)]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE)
        while not index.count() and reader.poll() is None:
            time.sleep(0.005)
        reader.kill()
        reader.communicate()
        assert index.count()
    assert local.search("").matches == 400


def test_a_folder_that_moves_all_the_time_is_found(local: Place) -> None:
    with local.task("1") as task:
        task.message_store.task_store.append([Said(Message("user", local.word)) for _ in range(20)])
    places = [local.base / name / task.uuid for name in ("completed", "paused")]
    places[1].parent.mkdir(exist_ok=True)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            places[0].rename(places[1])
            places[1].rename(places[0])

    moving = threading.Thread(target=move)
    moving.start()
    try:
        counts = [rebuild_index(OpenBase(local.base, local.settings)) for _ in range(5)]
        results = local.search("")
    finally:
        stop.set()
        moving.join()
    assert (counts, results.matches, results.problems) == ([20] * 5, 20, {})


def test_another_process_that_reads_is_not_waited_for_long(local: Place) -> None:
    with local.task() as task:
        task.message_store.add_message("user", local.word)
    with index_turn(local.base, 0):
        results = local.search("", seconds=0.01)
        assert (results.hits, results.is_current) == ((), False)
        assert catch_up(OpenBase(local.base, local.settings), seconds=1)
    assert len(local.search("").hits) == 1


def test_two_processes_at_once_read_every_message_once(local: Place) -> None:
    tasks = []
    for number in range(6):
        with local.task(str(number)) as task:
            for _ in range(20):
                task.message_store.add_message("user", local.word)
        tasks.append(task.uuid)
    program = (
        "import sys; from orihon import search_history; from orihon.settings import load_settings;"
        "from orihon.search import history; history._WAIT = 120.0;"  # for the other one, however slow it is
        "print(search_history(sys.argv[1], load_settings({}), 'theword', limit=1).matches)"
    )
    command = [sys.executable, "-c", program, str(local.base)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [int(other.communicate(timeout=240)[0]) for other in others] == [120, 120]
    assert local.search("").matches == 120


def test_a_row_that_is_gone_takes_its_words_along(local: Place) -> None:
    with local.task() as task:
        task.message_store.add_message("user", local.word)
    assert len(local.search("").hits) == 1
    shutil.rmtree(local.base / "completed" / task.uuid)
    with raw_database(local.base / "tasks.db") as connection:
        connection.execute("DELETE FROM tasks")
    assert local.search("").matches == 0
    with open_index(OpenBase(local.base, local.settings)) as index:
        assert index.count() == 1  # not noticed yet
        index.compare_again()
    assert local.search("").matches == 0
    with open_index(OpenBase(local.base, local.settings)) as index:
        assert (index.count(), index.marks()) == (0, {})


def test_archived_tasks_stay_and_cleaned_ones_go(local: Place) -> None:
    with local.task() as task:
        task.message_store.add_message("user", f"{local.word} tank")
    assert len(local.search("").hits) == 1
    archive_task(local.base, task.uuid, local.settings)
    (hit,) = local.search("tank", tasks=[f"owner/repo{local.word}#1"]).hits
    assert (hit.status, hit.snippet, hit.number) == ("archived", None, 1)
    restore_task(local.base, task.uuid, local.settings)
    (hit,) = local.search("tank").hits
    assert hit.snippet is not None
    with at_work(OpenBase(local.base, local.settings), task.uuid, Cleaning) as work:
        work.clean(datetime.now(UTC) + timedelta(days=1))
    assert local.search("").hits == ()
    with open_catalogue(local.base, local.settings) as catalogue:
        assert catalogue.tasks.find(task.uuid) is not None


def test_what_is_forgotten_is_read_anew_if_it_is_still_there(place: Place) -> None:
    with place.task() as task:
        task.message_store.add_message("user", place.word)
    assert len(place.search("").hits) == 1
    forget(OpenBase(place.base, place.settings), task.uuid)
    assert place.search("", seconds=0).hits == ()
    assert len(place.search("").hits) == 1
    assert rebuild_index(OpenBase(place.base, place.settings)) >= 1
    assert len(place.search("").hits) == 1


def test_a_task_on_another_machine_is_found_without_its_text(schema: dict[str, str], tmp_path: Path) -> None:
    settings = load_settings({"database": schema, "context_storage": {"backend": "files"}}, environ={})
    word = f"w{secrets.token_hex(4)}"
    here, there = (Place(tmp_path / name, settings, word) for name in ("here", "there"))
    there.base.mkdir()
    with here.task() as task:
        task.message_store.add_message("user", f"{word} tank")
    assert there.search("tank").hits == ()  # nobody who can read it has looked
    (hit,) = here.search("tank").hits
    assert hit.snippet is not None
    (hit,) = there.search("tank").hits
    assert (hit.uuid, hit.snippet) == (task.uuid, None)


# ---- damage ----------------------------------------------------------------------------------------------------------


def _overwritten(path: Path) -> None:
    path.write_bytes(b"this was an index once " * 500)


def _torn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 64] = b"\xff" * 64
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [_overwritten, _torn], ids=["overwritten", "torn"])
def test_a_damaged_index_is_made_anew(local: Place, damage: Callable[[Path], None]) -> None:
    with local.task() as task:
        for _ in range(50):
            task.message_store.add_message("user", f"{local.word} tank")
    assert local.search("").matches == 50
    damage(local.base / FILE)
    assert [finding.kind for finding in examine(OpenBase(local.base, local.settings))] == [("search", "damaged")]
    assert local.search("tank").matches == 50
    assert examine(OpenBase(local.base, local.settings)) == []
    damage(local.base / FILE)
    assert [finding.repair for finding in repair(OpenBase(local.base, local.settings))] == ["done"]
    assert examine(OpenBase(local.base, local.settings)) == []
    assert local.search("tank", seconds=0).matches == 50


def test_an_index_that_is_open_to_others_is_closed_to_them(local: Place) -> None:
    with local.task() as task:
        task.message_store.add_message("user", local.word)
    assert len(local.search("").hits) == 1
    (local.base / FILE).chmod(0o644)
    assert [finding.kind for finding in repair(OpenBase(local.base, local.settings))] == [("base", "permissions")]
    assert (local.base / FILE).stat().st_mode & 0o777 == 0o600


# ---- who else uses it ------------------------------------------------------------------------------------------------


def test_an_idle_worker_reads_what_is_new(local: Place) -> None:
    with local.task() as task:
        task.message_store.add_message("user", f"{local.word} tank")
    worker = WorkerProcess(1, {}, base_dir=local.base, handler=HANDLER, limits=QueueLimits(poll_interval=0.02))
    working = threading.Thread(target=worker.run)
    working.start()
    give_up = time.monotonic() + 120
    while not (found := local.search("tank", seconds=0).matches) and time.monotonic() < give_up:
        time.sleep(0.02)
    worker.stop()
    working.join()
    assert found == 1


@contextmanager
def _no_index(place: Place) -> Iterator[None]:
    """Something else is where the index should be."""
    if place.settings.database.url is not None:
        yield  # a server's tables cannot be taken away for a moment
        return
    (place.base / FILE).rename(place.base / "kept")
    (place.base / FILE).mkdir()
    yield
    (place.base / FILE).rmdir()
    (place.base / "kept").rename(place.base / FILE)


def test_recall_finds_the_same_with_and_without_the_index(place: Place) -> None:
    with place.task() as task:
        store = task.message_store
        for number in range(12):
            store.add_message("user", f"apple {number}" + (" pear" if number % 5 == 0 else "") + " 移行計画")
        store.add_message("assistant", None, tool_calls=[call("context_recall", 1, '{"query": "apple zebra"}')])
        store.add_message("tool", "seq 3 apple zebra", tool_call_id="c1")
        store.add_message("assistant", "bananaSplit eaten")
        box = ToolBox.from_config({}, message_store=store)
        told = box.call("context_recall", {"query": "pear apple", "limit": 4}).text.split("\n")
        assert [line.split(":")[0] for line in told] == ["seq 11 user", "seq 6 user", "seq 1 user", "seq 12 user"]
        assert box.call("context_recall", {"query": "zebra"}).text == "Nothing found."
        assert box.call("context_recall", {"query": "-bananasplit"}).text.startswith("seq 15 assistant: bananaSplit")
        for asked in ("pear apple", "移行", "banana 5", "nothing", "app* context_recall"):
            query = parse_query(asked, any_term=True)
            by_index = ranked_messages(store.task_store, place.settings, query)
            with _no_index(place):
                assert ranked_messages(store.task_store, place.settings, query) == by_index
        assert ranked_messages(store.task_store, place.settings, parse_query("pear", any_term=True)).seqs == [11, 6, 1]
