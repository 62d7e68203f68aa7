"""The connection to the catalogue's server is cut at each answer of a change: it is made once, and said to be made."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orihon import TaskContextManager
from orihon.runtime.queue import TaskQueue
from orihon.values.task import TaskKey, TaskStatus
from tests.cutting_proxy import CuttingProxy
from tests.services import Database

#: More answers than any of these changes takes.
MOST = 60


class CutsOneAnswer(CuttingProxy):
    """Cuts the connection that the n-th answer from now on would come over."""

    left = 0

    def _take_cut(self) -> bool:
        with self._lock:
            self.left -= 1
            return self.left == 0


class Cluster:
    """A queue and tasks whose catalogue is reached through the proxy, and a session that is not."""

    def __init__(self, base_dir: Path, proxy: CutsOneAnswer, database: Database) -> None:
        self.proxy, self.base_dir = proxy, base_dir
        self.config: dict[str, Any] = {
            "database": {"url": proxy.url(database.url), "schema": database.schema},
            "context_storage": {"db_timeout": 60},  # only a limit: a connection that is cut is noticed at once
        }
        self.queue = TaskQueue(base_dir, self.config)
        options = f"-c search_path={database.schema}"
        self.session = psycopg.connect(database.url, autocommit=True, options=options)
        self.cut = 0  # at which answer
        self._number = secrets.randbelow(10**9)  # other tests have used these tables

    def count_answers(self) -> None:
        """From here on."""
        self.proxy.left = self.cut

    def key(self) -> TaskKey:
        self._number += 1
        return TaskKey("cli", "o", "r", "cut", str(self._number))

    def queued(self) -> str:
        return self.queue.enqueue(self.key(), prompt="p")

    def started(self) -> TaskContextManager:
        task = TaskContextManager(self.base_dir, self.key(), self.config, inherit=False)
        task.message_store.add_message("user", "a")
        return task

    def row(self, uuid: str) -> tuple[Any, ...] | None:
        return self.session.execute(
            "SELECT status, lease_owner IS NOT NULL, attempts, epoch, total_messages, llm_call_count FROM tasks"
            " WHERE uuid = %s",
            (uuid,),
        ).fetchone()


@pytest.fixture
def cluster(catalogue_schema: Database, tmp_path: Path) -> Iterator[Cluster]:
    with CutsOneAnswer.before(catalogue_schema.url) as proxy:
        assert isinstance(proxy, CutsOneAnswer)
        cluster = Cluster(tmp_path, proxy, catalogue_schema)
        yield cluster
        cluster.queue.close()
        cluster.session.close()


def enqueued(cluster: Cluster) -> tuple[Any, ...] | None:
    key = cluster.key()
    cluster.count_answers()
    uuid = cluster.queue.enqueue(key, prompt="p")
    found = cluster.session.execute("SELECT count(*) FROM tasks WHERE task_id = %s", (key.task_id,)).fetchone()
    assert found == (1,)
    return cluster.row(uuid)


def claimed(cluster: Cluster) -> tuple[Any, ...] | None:
    uuid = cluster.queued()
    cluster.count_answers()
    claim = cluster.queue.catalogue.queue.claim(uuid, "me", 60)
    assert claim is not None
    assert claim[1].epoch == 1
    return cluster.row(uuid)


def completed(cluster: Cluster) -> tuple[Any, ...] | None:
    task = cluster.started()
    cluster.count_answers()
    task.complete()
    assert not task.is_open
    return cluster.row(task.uuid)


def counted(cluster: Cluster) -> tuple[Any, ...] | None:
    task = cluster.started()
    cluster.count_answers()
    task.update_statistics(llm_calls=3)
    task.close()
    return cluster.row(task.uuid)


def opened(cluster: Cluster) -> tuple[Any, ...] | None:
    cluster.count_answers()
    task = TaskContextManager(cluster.base_dir, cluster.key(), cluster.config, inherit=False)
    row = cluster.row(task.uuid)
    task.close()
    return row


def put_back(cluster: Cluster) -> tuple[Any, ...] | None:
    uuid = cluster.queued()
    claim = cluster.queue.catalogue.queue.claim(uuid, "me", 60)
    assert claim is not None
    cluster.count_answers()
    cluster.queue.catalogue.queue.put_back(uuid, epoch=claim[1].epoch, error_message="e", delay=0)
    cluster.queue.catalogue.queue.forgive_attempt(uuid)
    return cluster.row(uuid)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (enqueued, ("queued", False, 0, 0, 0, 0)),
        (claimed, ("running", True, 1, 1, 0, 0)),
        (put_back, ("queued", False, 0, 1, 0, 0)),
        (opened, ("running", True, 0, 1, 0, 0)),
        (counted, ("running", False, 0, 1, 0, 3)),
        (completed, ("completed", False, 0, 1, 1, 0)),
    ],
)
def test_a_change_whose_answer_is_lost_is_made_once(
    cluster: Cluster, change: Callable[[Cluster], tuple[Any, ...] | None], expected: tuple[Any, ...]
) -> None:
    for cluster.cut in range(1, MOST):
        row = change(cluster)
        assert row == expected, f"cut at answer {cluster.cut}"
        if cluster.proxy.left > 0:
            return
    pytest.fail("the cuts never came to an end")


def test_a_task_whose_end_was_not_answered_can_be_ended_again(cluster: Cluster) -> None:
    task = cluster.started()
    # Took effect, and nobody heard of it.
    task.catalogue.tasks.change_status(task.uuid, TaskStatus.COMPLETED, epoch=task.lease.epoch, keep_lease=True)
    task.complete()
    assert not task.is_open
    row = cluster.row(task.uuid)
    assert row is not None
    assert row[:2] == ("completed", False)
