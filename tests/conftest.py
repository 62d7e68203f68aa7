"""What all tests share: the language is English, the environment says nothing, options for longer campaigns."""

from __future__ import annotations

import gc
import importlib
import itertools
import logging
import os
import shutil
import signal
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from orihon.guard.logs import enter_task
from orihon.tasks import heartbeat
from orihon.tasks.heartbeat import Heartbeat
from orihon.texts import set_language
from tests.catalogues import KINDS, CataloguePlace
from tests.fuzzing import FEW
from tests.services import RABBITMQ, REDIS, TASKS_DATABASE, Database, empty, needed, own_schema

_Step = TypeVar("_Step")

#: Where pytest makes its folders, if the environment says so.
_TEMPORARY = "PYTEST_DEBUG_TEMPROOT"
_MEMORY = "/dev/shm"
_LEAST_MEMORY = 4 << 30

# A run of the suite has to be short, and the same each time, here and in continuous integration; a busy machine is not
# a failure. --hypothesis-profile=default looks further, at other values in each run.
settings.register_profile(
    "suite", max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None, derandomize=True
)
settings.load_profile("suite")

#: Of tasks that tests have left open. What belongs to them stays as it is, as if their threads still held it.
_STOPPED: list[Heartbeat] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=200, help="how often the stress tests kill a writer, per back end")
    parser.addoption("--undo-tasks", type=int, default=1, help="tasks whose folds test_undo.py undoes, per back end")
    parser.addoption("--local-demo", action="store_true", help="play the demo with the small local model, too")
    parser.addoption("--crash-every", type=int, default=6, help="crash tests try every so-manieth step; 1: all of them")
    parser.addoption("--worker-kills", type=int, default=4, help="how often the stress tests kill a worker")
    parser.addoption("--on-disk", action="store_true", help="the folders of tests are on the disk, not in memory")
    parser.addoption("--many-files", type=int, default=300, help="files in the folder that is imported as a large one")
    parser.addoption("--long-file", type=int, default=4, help="megabytes of the file that is imported as a long one")
    parser.addoption("--fuzz", type=int, default=FEW, help="hostile inputs that each parser gets")
    parser.addoption("--api-examples", type=int, default=4, help="requests that Schemathesis makes to each endpoint")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests are in memory where there is room. That fsync is called is tested; waiting for it is not.

    Hundreds of processes import what others have compiled, even where the environment has Python compile it each time.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # A shell starts what runs in the background deaf to Ctrl-C, and everything that is started from there with it.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    chosen = config.getoption("--on-disk") or config.getoption("basetemp") or _TEMPORARY in os.environ
    if not chosen and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _LEAST_MEMORY:
        os.environ[_TEMPORARY] = _MEMORY


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Each process of the tests collects all of them. What that costs is paid once, not four times, where it can be.

    What is collected and imported stays to the end: no search for garbage has to look at it.
    """
    gc.disable()
    # Builds forty parsers for formats that no schema of ours names, in a second, when jsonschema is imported.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _import_in_turn(session.config)
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _import_in_turn(config: pytest.Config) -> None:
    """Each process begins with files of its own: what it has compiled, the others need not compile."""
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    found = sorted(path.relative_to(config.rootpath) for path in Path(__file__).parent.rglob("test_*.py"))
    own = found[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]
    folders = sorted(path.relative_to(config.rootpath) for path in Path(__file__).parent.glob("*/conftest.py"))
    for path in (*folders, *own, *found):
        # What cannot be imported is told when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.with_suffix("").parts))


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "own-configuration"))
    # A base of its own for each test; made only where it is used.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / f"own-data-{time.monotonic_ns()}"))
    for name in list(os.environ):
        if name.startswith(
            (
                "ORIHON_",
                "CONTEXT_STORAGE_",
                "OPENAI_",
                "ANTHROPIC_",
                "OLLAMA_",
                "LMSTUDIO_",
                "GITHUB_",
                "GITLAB_",
                "USE_USER_",
                "USER_CONFIG_",
            )
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ORIHON_LANG", "en")


@pytest.fixture(autouse=True)
def _no_language_of_earlier_tests() -> Iterator[None]:
    """A base that says what it has to say in one language says so for the whole process."""
    yield
    set_language(None)


@pytest.fixture(autouse=True)
def _no_heartbeats_of_earlier_tests() -> Iterator[None]:
    """A task that a test has left open says nothing in the log of a later one, and takes nothing from it."""
    before = set(_heartbeats())
    yield
    for left in set(_heartbeats()) - before:
        _STOPPED.append(left)
        left.stop()


def _heartbeats() -> list[Heartbeat]:
    found: list[Heartbeat] = []
    for pulse in list(heartbeat._PULSES.values()):
        with pulse._changed:
            found += [one for _, _, one in pulse._due]
    return found


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Where a new base folder will be."""
    return tmp_path / "contexts"


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Whatever the test does to the log is undone; tests before it may have left a task open."""
    root = logging.getLogger("orihon")
    handlers, level = list(root.handlers), root.level
    enter_task("")
    yield
    enter_task("")
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills a stress test makes."""
    return int(request.config.getoption("--kills"))


@pytest.fixture
def many_files(request: pytest.FixtureRequest) -> int:
    """How many files the large folder has."""
    return int(request.config.getoption("--many-files"))


@pytest.fixture
def long_file(request: pytest.FixtureRequest) -> int:
    """How many megabytes the long file has."""
    return int(request.config.getoption("--long-file"))


@pytest.fixture
def api_examples(request: pytest.FixtureRequest) -> int:
    """How many requests of each sort Schemathesis makes to an endpoint."""
    return int(request.config.getoption("--api-examples"))


@pytest.fixture
def fuzz_examples(request: pytest.FixtureRequest) -> int:
    """How many hostile inputs each parser gets."""
    return int(request.config.getoption("--fuzz"))


@pytest.fixture
def undo_tasks(request: pytest.FixtureRequest) -> int:
    """How many tasks ``test_undo.py`` lives through."""
    return int(request.config.getoption("--undo-tasks"))


@pytest.fixture
def some_steps(request: pytest.FixtureRequest) -> Callable[[Sequence[_Step]], Sequence[_Step]]:
    """Which of its steps a crash test tries; tests that differ by a parameter take different ones."""
    every = int(request.config.getoption("--crash-every"))
    first = zlib.crc32(request.node.nodeid.encode()) % every
    return lambda steps: steps[first::every]


@pytest.fixture
def step_numbers(request: pytest.FixtureRequest) -> Iterator[int]:
    """The same, from 1 on, for a test that does not know how many steps there are."""
    every = int(request.config.getoption("--crash-every"))
    return itertools.count(1 + zlib.crc32(request.node.nodeid.encode()) % every, every)


@pytest.fixture
def worker_kills(request: pytest.FixtureRequest) -> int:
    """How many workers a stress test kills."""
    return int(request.config.getoption("--worker-kills"))


@pytest.fixture
def postgres() -> Iterator[Database]:
    """A schema of its own in a running PostgreSQL."""
    yield from own_schema()


@pytest.fixture(scope="session")
def _kept_schema() -> Iterator[Database]:
    yield from own_schema()


@pytest.fixture
def emptied_postgres(_kept_schema: Database) -> Iterator[Database]:
    """The same, for tests that do not mind that its tables have been made: they have it one after the other."""
    yield _kept_schema
    empty(_kept_schema)


@pytest.fixture(scope="session")
def catalogue_schema() -> Iterator[Database]:
    """A schema for catalogues, one test after the other: making one takes longer than most tests."""
    yield from own_schema()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> CataloguePlace:
    """Where a new catalogue will be: the test runs for each database that can hold one."""
    database = request.getfixturevalue("catalogue_schema") if request.param == "postgres" else None
    place = CataloguePlace(tmp_path / "contexts", database)
    place.empty()
    return place


@pytest.fixture(scope="session")
def tasks_database() -> Iterator[None]:
    """A schema for the tasks of many tests, each with a name of its own; other processes find it in the environment."""
    for database in own_schema():
        os.environ[TASKS_DATABASE] = f"{database.url} {database.schema}"
        yield
        del os.environ[TASKS_DATABASE]


@pytest.fixture(params=["files", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of each back end in turn; for ``postgres`` there is a database."""
    if request.param == "postgres":
        request.getfixturevalue("tasks_database")
    return str(request.param)


@pytest.fixture
def rabbitmq() -> str:
    """The address of a running RabbitMQ; name queues with something random, and delete them."""
    return needed(RABBITMQ)


@pytest.fixture
def redis() -> str:
    """The address of a running Redis; name keys with something random, and delete them."""
    return needed(REDIS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test has logged about hostile text goes from one process to the other, which lone surrogates cannot."""
    report = yield
    report.sections = [(name, said.encode("utf-8", "backslashreplace").decode()) for name, said in report.sections]
    return report
