"""A process that is stopped in the middle of a change: another takes the task over, and the sleeper is refused.

It stops itself before each call by which it changes anything, one after the other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from orihon import MessageStore, TaskContextManager, TaskKey, load_settings
from orihon.catalogue.sqlite_db import SqliteTasks
from orihon.errors import OrihonError, StorageUnavailable, TaskBusy
from orihon.store import files, sqlite
from orihon.store.take_over import take_away
from orihon.system.clock import is_stopped
from orihon.tasks import place as task_place
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify_task
from orihon.upkeep.doctor import examine, repair
from tests.helpers import refused
from tests.integration.killing import Changes, ended, killed_at

KEY = TaskKey("github", "me", "project", "issue", "27", "me")
KEPT = "outputs/result.txt"
#: So long a take-over may last on a machine that has much else to do; without an end it lasts for ever.
BOUND = 120.0
TEXTS = [*(f"message {number}" for number in range(1, 9)), "a large one " + "x" * 2000]
WARM = "of the sleeper, acknowledged"
#: Besides changes: before it lets go of a lock, and before its last look at what is under the name.
ALSO = frozenset(("flock", "stat"))


@pytest.fixture(params=["files", "sqlite"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {
        "context_storage": {"backend": request.param, "db_timeout": 0.05, "max_retries": 0, "blob_bytes": 1000},
        "llm": {"openai": {"context_length": 8000}},
    }


@pytest.fixture
def task(tmp_path: Path, config: dict[str, Any]) -> str:
    with closing(TaskContextManager(tmp_path, KEY, config)) as ctx:
        for text in TEXTS:
            ctx.message_store.add_message("user", text)
        return ctx.uuid


def append(ctx: TaskContextManager) -> None:
    ctx.message_store.add_message("user", "in between")


def append_large(ctx: TaskContextManager) -> None:
    ctx.message_store.add_message("user", "in between " + "y" * 3000)


def fold(ctx: TaskContextManager) -> None:
    ctx.message_store.create_summary(2, 5, "what was said")


def keep(ctx: TaskContextManager) -> None:
    ctx.message_store.task_store.records.keep_file(KEPT, b"of the sleeper")
    append(ctx)


def pause(ctx: TaskContextManager) -> None:
    ctx.stop()


class Sleeper:
    """A child that owns the task, acts on it, and stops before one of its changes."""

    def __init__(
        self, base: Path, uuid: str, config: dict[str, Any], act: Callable[[TaskContextManager], None]
    ) -> None:
        self._base, self._uuid, self._config, self._act = base, uuid, config, act
        self.pid = 0
        self._told = -1

    def sleep_before(self, number: int) -> bool:
        """``False`` when there are not so many changes."""
        return self._sleep(lambda: self._live(number, ALSO))

    def sleep_inside(self) -> None:
        """In the middle of a write, with its lock."""
        assert self._sleep(lambda: self._live(2, frozenset()))

    def sleep_taking(self, number: int) -> bool:
        """The same for one that sleeps while it takes the task over."""
        return self._sleep(lambda: self._take(number))

    def sleep_moving(self, place: object, name: str) -> None:
        """Before it calls a function by which the folder is moved to where its new state says."""
        assert self._sleep(lambda: self._move(place, name))

    def _sleep(self, life: Callable[[], list[str]]) -> bool:
        self._told, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _lead(life, writing)
        os.close(writing)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        assert status == 0, "the child has failed"
        os.close(self._told)
        return False

    def wake(self) -> list[str]:
        """How its change ended, and what became of everything that it tried afterwards."""
        os.kill(self.pid, signal.SIGCONT)
        with os.fdopen(self._told, "rb") as told:
            assert ended(self.pid) == 0, "the child has failed"
            answers: list[str] = json.loads(told.read())
        return answers

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        ended(self.pid)
        os.close(self._told)

    def _live(self, number: int, also: frozenset[str]) -> list[str]:
        ctx = TaskContextManager.resume(self._base, self._uuid, self._config, take_over=True)
        ctx.message_store.add_message("assistant", WARM)
        sys.setprofile(Changes(number, signal.SIGSTOP, also))
        acted = outcome(lambda: self._act(ctx))
        sys.setprofile(None)
        return [
            acted,
            outcome(lambda: ctx.message_store.add_message("user", "too late")),
            outcome(lambda: fold(ctx)),
            outcome(ctx.close),
        ]

    def _move(self, place: object, name: str) -> list[str]:
        ctx = TaskContextManager.resume(self._base, self._uuid, self._config, take_over=True)
        ctx.message_store.add_message("assistant", WARM)
        stop_before(place, name)
        return [outcome(lambda: self._act(ctx))]

    def _take(self, number: int) -> list[str]:
        watch_take_over(Changes(number, signal.SIGSTOP))
        return [outcome(lambda: take(self._base, self._uuid, self._config))]


def watch_take_over(changes: Changes) -> None:
    """Count, in a child, what is changed while the folder is taken away."""

    def watched(folder: Path, epoch: int) -> None:
        sys.setprofile(changes)
        try:
            take_away(folder, epoch)
        finally:
            sys.setprofile(None)

    for module in (files, sqlite):
        vars(module)["take_away"] = watched


def stop_before(place: object, name: str) -> None:
    """Stop, in a child, before one of our functions is called, once."""
    called = getattr(place, name)

    def stopping(*args: Any, **more: Any) -> Any:
        setattr(place, name, called)
        os.kill(os.getpid(), signal.SIGSTOP)
        return called(*args, **more)

    setattr(place, name, stopping)


def take(base: Path, uuid: str, config: dict[str, Any]) -> None:
    """The task is another's from now on."""
    ctx = TaskContextManager.resume(base, uuid, config, take_over=True)
    ctx.message_store.add_message("user", "of a taker")


def _lead(life: Callable[[], list[str]], writing: int) -> NoReturn:
    status = 1
    try:
        os.write(writing, json.dumps(life()).encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except OrihonError as error:
        return f"{type(error).__name__} {error.reason}"
    return "done"


def contents(ctx: TaskContextManager) -> list[str]:
    return [str(stored.message.content) for stored in ctx.message_store.get_messages()]


def is_sound(ctx: TaskContextManager) -> bool:
    found = verify_task(ctx.message_store.task_store, ctx.context_dir, in_use=True)
    return not [finding for finding in found if finding.severity == "error"]


def left_over(base: Path) -> list[str]:
    """Folders with a hidden name: those that were taken, and copies that are not finished."""
    return [path.name for path in base.rglob(".*") if path.is_dir()]


@pytest.mark.parametrize("act", [append, append_large, fold, keep], ids=lambda act: act.__name__)
def test_a_sleeper_is_taken_over_wherever_it_sleeps(
    tmp_path: Path,
    config: dict[str, Any],
    task: str,
    act: Callable[[TaskContextManager], None],
    step_numbers: Iterator[int],
) -> None:
    played, acknowledged = [next(step_numbers)], 0
    while (sleeper := Sleeper(tmp_path, task, config, act)).sleep_before(number := played[-1]):
        began = time.monotonic()
        with closing(TaskContextManager.resume(tmp_path, task, config, take_over=True)) as ctx:
            assert time.monotonic() - began < BOUND
            ctx.message_store.add_message("user", f"of the taker, {number}")
            ctx.message_store.task_store.records.keep_file(KEPT, b"of the taker")
            before, view = contents(ctx), ctx.message_store.get_messages_for_llm()
            acted, appended, folded, _ = sleeper.wake()
            assert {appended, folded} <= {"StaleWriter taken_over", "StaleWriter taken_away"}, number
            assert acted == "done" or acted.startswith("StaleWriter"), number
            assert (contents(ctx), ctx.message_store.get_messages_for_llm()) == (before, view), number
            assert ctx.message_store.task_store.records.kept_file(KEPT) == b"of the taker", number
            ctx.message_store.add_message("assistant", f"again, {number}")
            found = contents(ctx)
            assert ctx.message_store.folding.undo() if act is fold and acted == "done" else True
            assert is_sound(ctx), number
            assert left_over(tmp_path) == []
        acknowledged += acted == "done" and act is not fold
        written = [text for text in found if text.startswith("in between")]
        assert acknowledged <= len(written) <= len(played)
        assert [text for text in found if not text.startswith("in between")] == [
            *TEXTS,
            *(text for past in played for text in (WARM, f"of the taker, {past}", f"again, {past}")),
        ]
        played.append(next(step_numbers))
    assert number > 3, "it never slept in the middle"


@pytest.mark.parametrize(("where", "name"), [(task_place.TaskFolders, "settle"), (task_place, "move_durably")])
def test_a_sleeper_does_not_move_the_folder_of_the_next_owner(
    tmp_path: Path, config: dict[str, Any], task: str, where: object, name: str
) -> None:
    sleeper = Sleeper(tmp_path, task, config, pause)
    sleeper.sleep_moving(where, name)
    with closing(OpenBase(tmp_path, load_settings(config))) as base:
        with closing(TaskContextManager.resume(tmp_path, task, config, take_over=True)) as ctx:
            ctx.message_store.add_message("user", "of the taker")
            place = base.folders.find(task)
            assert sleeper.wake() == ["StaleWriter lease"]
            assert base.folders.places(task) == [place]
            ctx.message_store.add_message("user", "and on")
            assert contents(ctx) == [*TEXTS, WARM, "of the taker", "and on"]
        assert examine(base) == []


def test_a_lease_that_has_run_out_is_enough(tmp_path: Path, config: dict[str, Any], task: str) -> None:
    config["context_storage"]["lease_seconds"] = 1.5
    sleeper = Sleeper(tmp_path, task, config, append)
    sleeper.sleep_inside()
    give_up, ctx = time.monotonic() + BOUND, None
    while ctx is None:
        assert time.monotonic() < give_up
        with suppress(TaskBusy):
            ctx = TaskContextManager.resume(tmp_path, task, config)
    with closing(ctx):
        ctx.message_store.add_message("user", "of the taker")
        assert sleeper.wake()[0] == "StaleWriter taken_away"
        assert contents(ctx)[len(TEXTS) :] == [WARM, "of the taker"]
        assert is_sound(ctx)


def test_without_a_lease_nobody_is_taken_over_but_named(tmp_path: Path, config: dict[str, Any], task: str) -> None:
    sleeper = Sleeper(tmp_path, task, config, append)
    sleeper.sleep_inside()
    with refused(StorageUnavailable, "held_stopped") as caught:
        MessageStore(tmp_path / "running" / task, config).add_message("user", "of nobody")
    assert caught.value.fields["pid"] == sleeper.pid
    assert f"kill -CONT {sleeper.pid}" in caught.value.remedy
    assert sleeper.wake()[0] == "done"


def test_a_taker_that_is_killed_anywhere_leaves_the_task_whole(
    tmp_path: Path, config: dict[str, Any], task: str, step_numbers: Iterator[int]
) -> None:
    past: list[str] = []
    for number in step_numbers:
        sleeper = Sleeper(tmp_path, task, config, append)
        sleeper.sleep_inside()
        is_killed = killed_taking(number, lambda: take(tmp_path, task, config))
        with closing(TaskContextManager.resume(tmp_path, task, config, take_over=True)) as ctx:
            assert sleeper.wake()[0].startswith("StaleWriter"), number
            found = contents(ctx)
            assert found == [*TEXTS, *past, WARM, *(() if is_killed else ("of a taker",))]
            assert is_sound(ctx), number
            assert left_over(tmp_path) == [], number
            ctx.message_store.add_message("user", f"{number}")
        past += [WARM, f"{number}"]
        if not is_killed:
            break
    assert number > 10, "it was never killed in the middle"


@pytest.mark.parametrize("step", ["taken", "copied", "published"])
def test_the_doctor_puts_right_what_a_killed_taker_left(
    tmp_path: Path, config: dict[str, Any], task: str, step: str
) -> None:
    sleeper = Sleeper(tmp_path, task, config, append)
    sleeper.sleep_inside()
    assert killed_at(step, lambda: take(tmp_path, task, config), "orihon.store")
    sleeper.kill()
    assert left_over(tmp_path)
    settings = load_settings(config)
    with closing(OpenBase(tmp_path, settings)) as base:
        assert [finding.cause for finding in repair(base) if finding.repair != "done"] == []
        assert examine(base) == []
    assert left_over(tmp_path) == []
    with closing(TaskContextManager.resume(tmp_path, task, config)) as ctx:
        assert contents(ctx) == [*TEXTS, WARM]


def killed_taking(number: int, action: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        watch_take_over(Changes(number))
        _lead(lambda: [str(action())], os.open(os.devnull, os.O_WRONLY))
    return os.waitstatus_to_exitcode(ended(child)) == -signal.SIGKILL


#: What SQLite locks for itself, in which file: when it closes a database for the last time, and when it opens one.
EXCLUSIVELY = {"closing": ("context.db", 0x40000002, 510), "opening": ("context.db-shm", 120, 8)}


@pytest.mark.parametrize("moment", EXCLUSIVELY)
def test_one_who_sleeps_while_it_opens_or_closes_the_database_is_taken_over(tmp_path: Path, moment: str) -> None:
    """It keeps readers out, too; once, whoever wanted the task was told to wait, and never got it."""
    config = {"context_storage": {"backend": "sqlite", "db_timeout": 3.0}}
    with closing(TaskContextManager(tmp_path, KEY, config)) as ctx:
        for text in TEXTS:
            ctx.message_store.add_message("user", text)
    name, start, length = EXCLUSIVELY[moment]
    program = (
        "import apsw, fcntl, os, signal, sys\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.execute('SELECT * FROM sqlite_master').fetchall()\n"
        "file = os.open(sys.argv[2], os.O_RDWR)\n"
        "fcntl.lockf(file, fcntl.LOCK_EX, int(sys.argv[3]), int(sys.argv[4]))\n"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    )
    command = [sys.executable, "-c", program, str(ctx.context_dir / "context.db"), str(ctx.context_dir / name)]
    sleeper = subprocess.Popen([*command, str(length), str(start)])
    try:
        os.waitpid(sleeper.pid, os.WUNTRACED)
        with closing(TaskContextManager.resume(tmp_path, ctx.uuid, config)) as taker:
            taker.message_store.add_message("user", "of the taker")
            assert [stored.message.content for stored in taker.message_store.get_messages()] == [*TEXTS, "of the taker"]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_of_two_takers_the_later_one_has_the_task(
    tmp_path: Path, config: dict[str, Any], task: str, step_numbers: Iterator[int]
) -> None:
    past: list[str] = []
    for number in step_numbers:
        sleeper, taker = (Sleeper(tmp_path, task, config, append) for _ in range(2))
        sleeper.sleep_inside()
        if not taker.sleep_taking(number):
            sleeper.wake()
            break
        with closing(TaskContextManager.resume(tmp_path, task, config, take_over=True)) as ctx:
            ctx.message_store.add_message("user", f"{number}")
            assert sleeper.wake()[0].startswith("StaleWriter"), number
            assert taker.wake()[0].startswith("StaleWriter"), number
            past += [WARM, f"{number}"]
            assert contents(ctx) == [*TEXTS, *past]
            assert is_sound(ctx), number
    assert number > 10, "it never slept in the middle"


def test_one_who_is_stopped_in_the_middle_of_a_change_of_the_catalogue_holds_up_nobody(tmp_path: Path) -> None:
    """It ends that change, and stands still again until somebody lets it go on."""
    catalogue = partial(SqliteTasks, tmp_path / "tasks.db", timeout=BOUND, max_retries=0, retry_delay=0)
    child = os.fork()
    if child == 0:
        with catalogue().write():
            os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()
    try:
        _, status = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with closing(catalogue()) as other, other.write():
            assert is_stopped(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_an_owner_goes_on_in_its_folder_wherever_a_sleeper_has_moved_it(
    tmp_path: Path, config: dict[str, Any], task: str
) -> None:
    """Between the sleeper's last look and its move nobody can come: the move may hit the folder of the next owner."""
    with closing(OpenBase(tmp_path, load_settings(config))) as base:
        with closing(TaskContextManager.resume(tmp_path, task, config)) as ctx:
            (tmp_path / "paused").mkdir(0o700, exist_ok=True)
            (tmp_path / "running" / task).rename(tmp_path / "paused" / task)
            assert contents(ctx) == TEXTS, "the large one lies beside the log"
            ctx.message_store.add_message("user", "and on " + "z" * 2000)
            assert contents(ctx)[-1].startswith("and on")
        with closing(TaskContextManager.resume(tmp_path, task, config)) as ctx:
            assert len(contents(ctx)) == len(TEXTS) + 1
            assert is_sound(ctx)
        assert examine(base) == []
