"""Who may come in over the network, and how much one user may take."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from orihon import TaskContextManager, TaskQueue, list_grants, new_grant, revoke_grant
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.errors import InvalidInput, QuotaExceeded
from orihon.llm.scripted import Reply
from orihon.runtime.worker import WorkerProcess
from orihon.settings import Settings, load_settings
from orihon.settings.runtime_sections import QuotaSettings
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.grants import digest_of
from orihon.tasks.quotas import quota_of, tokens_spent
from orihon.transfer import fork as forking
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.helpers import lasting_day, refused
from tests.integration.agents import world
from tests.services import Database


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "contexts"
    folder.mkdir()
    return folder


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where the catalogue is."""
    if request.param == "sqlite":
        return {}
    database: Database = request.getfixturevalue("emptied_postgres")
    return {"database": database.settings}


def key(user: str) -> TaskKey:
    return TaskKey("cli", "", "", "task", new_uuid(), user)


def test_a_grant_lets_in_until_it_is_revoked_and_its_token_is_nowhere(base: Path, place: dict[str, Any]) -> None:
    settings = load_settings(place)
    made = new_grant(base, settings, user="ann", role="approve", name="inbox", days=1)
    with open_catalogue(base, settings) as catalogue:
        found = catalogue.grants.by_digest(digest_of(made.token))
        assert found == made.grant
        assert found.is_good(utc_now())
        assert not found.is_good("9999-01-01")
        assert catalogue.grants.by_digest(digest_of(made.token + "x")) is None
    assert all(made.token not in str(grant) for grant in list_grants(base, settings))
    revoked = revoke_grant(base, settings, made.grant.id)
    assert revoked.revoked_at is not None
    assert not revoked.is_good(utc_now())
    assert revoke_grant(base, settings, made.grant.id) == revoked


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"role": "boss"}, "role"),
        ({"user": " "}, "grant_user"),
        ({"days": 0}, "grant_days"),
        ({"days": 1e9}, "grant_days"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(base: Path, wrong: dict[str, Any], reason: str) -> None:
    with refused(InvalidInput, reason):
        new_grant(base, load_settings({}), **({"user": "ann", "role": "read"} | wrong))
    assert list_grants(base, load_settings({})) == []
    with refused(InvalidInput, "no_grant"):
        revoke_grant(base, load_settings({}), "nothing")


def test_a_user_has_so_many_tasks_and_no_more(base: Path, place: dict[str, Any]) -> None:
    settings = load_settings(place | {"quotas": {"tasks": 2, "users": {"ben": {"tasks": 3}}}})
    queue = TaskQueue(base, settings)
    first = TaskContextManager(base, key("ann"), settings)
    queue.enqueue(key("ann"))
    with refused(QuotaExceeded, "tasks"):
        queue.enqueue(key("ann"))
    with refused(QuotaExceeded, "tasks"):
        TaskContextManager(base, key("ann"), settings)
    for _ in range(3):
        queue.enqueue(key("ben"))
    with refused(QuotaExceeded, "tasks"):
        queue.enqueue(key("ben"))
    first.complete()
    queue.enqueue(key("ann"))
    queue.close()


def test_many_processes_at_once_do_not_get_past_the_limit(base: Path, place: dict[str, Any]) -> None:
    """Each asks for more than its share in the same moment; in the end the user has as many as allowed."""
    _race_for_ten_places(base, load_settings(place | {"quotas": {"tasks": 10}}))


def test_nor_where_the_server_shows_each_transaction_an_old_picture(base: Path, postgres: Database) -> None:
    """As an administrator may have set it for the whole server."""
    isolation = quote("-cdefault_transaction_isolation=repeatable\\ read")
    database = postgres.settings | {"url": f"{postgres.settings['url'].partition('?')[0]}?options={isolation}"}
    _race_for_ten_places(base, load_settings({"database": database, "quotas": {"tasks": 10}}))


def _race_for_ten_places(base: Path, settings: Settings) -> None:
    today = lasting_day()
    TaskQueue(base, settings).close()
    ready, go = os.pipe()
    children = [_fork_that_enqueues(base, settings, ready, go) for _ in range(8)]
    os.close(ready)
    os.close(go)  # the last writing end: all of them begin now
    got = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    with open_catalogue(base, settings) as catalogue:
        assert catalogue.statistics.quota_usage("ann", today).tasks == got == 10


def _fork_that_enqueues(base: Path, settings: Settings, ready: int, go: int) -> int:
    """Its exit code says how many of its five tasks were taken."""
    child = os.fork()
    if child:
        return child
    taken = 100  # not a number that could pass
    try:
        signal.alarm(240)  # one that hangs is a failure, and not a test that never ends
        os.close(go)
        os.read(ready, 1)
        queue = TaskQueue(base, settings)
        taken = sum(_is_taken(queue) for _ in range(5))
    finally:
        os._exit(taken)


def _is_taken(queue: TaskQueue) -> bool:
    try:
        queue.enqueue(key("ann"))
    except QuotaExceeded:
        return False
    return True


def test_a_fork_that_comes_too_late_is_refused_and_leaves_nothing(base: Path, place: dict[str, Any]) -> None:
    """Somebody else takes the last place while the fork copies."""
    settings = load_settings(place | {"quotas": {"tasks": 2}})
    task = TaskContextManager(base, key("ann"), settings)
    task.message_store.add_message("user", "hello")
    task.stop()
    queue = TaskQueue(base, settings)
    copied = forking._Fork.made

    def slowly(fork: forking._Fork) -> TaskRow:
        queue.enqueue(key("ann"))
        return copied(fork)

    new = new_uuid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forking._Fork, "made", slowly)
        with refused(QuotaExceeded, "tasks"):
            forking.fork_task(OpenBase(base, settings), task.uuid, 1, name=new)
    queue.close()
    with OpenBase(base, settings) as folder:
        folder.open_catalogue()
        assert folder.row(new) is None
        assert folder.folders.find(new) is None


def test_a_user_takes_so_many_bytes_and_no_more(base: Path, place: dict[str, Any]) -> None:
    settings = load_settings(place | {"quotas": {"bytes": 5000}})
    task = TaskContextManager(base, key("ann"), settings)
    task.message_store.add_message("user", "".join(new_uuid() for _ in range(600)))  # a database makes repeats small
    task.complete()
    with refused(QuotaExceeded, "bytes"):
        TaskContextManager(base, key("ann"), settings)
    TaskContextManager(base, key("ben"), settings).stop()


def test_tokens_of_a_day_are_counted_for_their_user_alone(base: Path, place: dict[str, Any]) -> None:
    settings = load_settings(place | {"quotas": {"tokens_per_day": 100}})
    task = TaskContextManager(base, key("ann"), settings)
    with open_catalogue(base, settings) as catalogue:
        assert not tokens_spent(catalogue, settings, "ann")()
        catalogue.usage.add(task.uuid, "m", lasting_day(), input=90, output=10)
        assert tokens_spent(catalogue, settings, "ann")()
        assert not tokens_spent(catalogue, settings, "ben")()
    task.stop()


def test_a_task_pauses_when_the_tokens_of_the_day_are_spent(tmp_path: Path) -> None:
    """It is in nobody's line then, and goes on when there are tokens again."""
    steps = [Reply(calls=[("plan_record", {"plan_type": "initial", "content": "1."})]), Reply("Done.")]
    base = tmp_path / "base"
    with world(base, steps, {"quotas": {"tokens_per_day": 1}}) as made:
        uuid = made.put("Do it.")
        with open_catalogue(base, made.settings) as catalogue:
            catalogue.usage.add(uuid, "m", lasting_day(), input=5)
        WorkerProcess("1", made.settings, base_dir=base, until_empty=True).run()
        assert made.queue.catalogue.tasks.get(uuid).status is TaskStatus.PAUSED
        assert not made.model.requests
        richer = replace(made.settings, quotas=QuotaSettings(tokens_per_day=1_000_000))
        made.queue.resume(uuid)
        WorkerProcess("1", richer, base_dir=base, until_empty=True).run()
        assert made.queue.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED


def test_limits_of_single_users_come_first() -> None:
    settings: Settings = load_settings({"quotas": {"tasks": 2, "bytes": 10, "users": {"ben": {"tasks": 7}}}})
    assert quota_of(settings, "ben").tasks == 7
    assert quota_of(settings, "ben").bytes == 10
    assert quota_of(settings, "ann").tasks == 2
    assert quota_of(load_settings({}), "ann").tasks is None
