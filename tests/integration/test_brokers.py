"""The queue with a real broker in front: RabbitMQ and Redis, everything on both."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from orihon.drivers import broker
from orihon.drivers.broker import Broker
from orihon.drivers.broker_address import BrokerAddress
from orihon.errors import InvalidSettings, StorageUnavailable, Waiting
from orihon.runtime import broker_queue
from orihon.runtime.broker_queue import BrokerTaskQueue, RabbitMQTaskQueue, open_queue
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.tasks.approvals.answers import reject
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskKey, TaskStatus
from tests.acceptance.test_cli import run
from tests.brokers import BROKERS, OwnQueue, kombu, own_queue, said
from tests.cutting_proxy import CuttingProxy
from tests.helpers import refused
from tests.integration.asking_handlers import AskingHandler
from tests.integration.killing import ended
from tests.integration.run_supervisor import eventually, put, workers

SELDOM = QueueLimits(poll_interval=3600)  # what is found before the test gives up was found by a message
Opener = Callable[..., BrokerTaskQueue]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker on a busy machine is not away."""
    monkeypatch.setattr(broker, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(broker, "CONNECT_SECONDS", 60.0)


@pytest.fixture(params=BROKERS)
def own(request: pytest.FixtureRequest) -> Iterator[OwnQueue]:
    yield from own_queue(request.getfixturevalue(request.param))


@pytest.fixture
def proxy(own: OwnQueue) -> Iterator[CuttingProxy]:
    with CuttingProxy.before(own.url) as between:
        yield between


@pytest.fixture
def opened(tmp_path: Path, own: OwnQueue) -> Iterator[Opener]:
    """Opens queues on one base folder, which have asked the catalogue once and are closed afterwards."""
    queues: list[BrokerTaskQueue] = []

    def open_one(url: str | None = None, limits: QueueLimits = SELDOM) -> BrokerTaskQueue:
        queue = open_queue(tmp_path, own.at(url or own.url), limits=limits, owner=f"worker-{len(queues)}")
        assert isinstance(queue, BrokerTaskQueue)
        queues.append(queue)
        assert queue.dequeue() is None
        return queue

    yield open_one
    for queue in queues:
        queue.close()


def key(number: int = 1, user: str = "me") -> TaskKey:
    return TaskKey("cli", "", "", "task", str(number), user)


def unannounced(tmp_path: Path, number: int, **details: Any) -> str:
    """A task in line that the broker has not heard of."""
    plain = TaskQueue(tmp_path, {})
    uuid = plain.enqueue(key(number), **details)
    plain.close()
    return uuid


# ---- messages and claims -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_command", [False, True])
def test_the_answer_of_a_person_wakes_a_worker(own: OwnQueue, opened: Opener, tmp_path: Path, is_command: bool) -> None:
    queue = opened()
    uuid = queue.enqueue(key(), prompt="ask 1")
    task = queue.dequeue()
    assert task is not None
    with pytest.raises(Waiting):
        AskingHandler(queue.settings, tmp_path).handle(task, lambda: False)
    assert queue.ack(task, stopped=True) is TaskStatus.WAITING
    assert queue.dequeue() is None
    if is_command:
        ended = run("--base-dir", tmp_path, "approve", uuid, ORIHON_QUEUE__URL=own.url, ORIHON_QUEUE__NAME=own.name)
        assert (ended.code, ended.err) == (0, "")
    else:
        assert reject(OpenBase(tmp_path, queue.settings), uuid, by="ann", reason="no").requested == "resume"
    again = queue.get(timeout=60)  # the catalogue is asked in an hour: this is the message's doing
    assert again is not None
    assert again.uuid == uuid
    AskingHandler(queue.settings, tmp_path).handle(again, lambda: False)
    assert queue.ack(again) is TaskStatus.COMPLETED
    assert own.size() == 0


def test_a_message_leads_to_a_claim_and_is_acknowledged(own: OwnQueue, opened: Opener, tmp_path: Path) -> None:
    queue, elsewhere = opened(), opened()
    uuid = elsewhere.enqueue(key(), prompt="secret plans")
    assert own.size() == 1
    # The catalogue alone would give this one first.
    urgent = unannounced(tmp_path, 2, priority=9)
    task = queue.dequeue()
    assert task is not None
    assert task.uuid == uuid
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.RUNNING
    queue.close()  # whatever is not acknowledged goes back now
    assert own.size() == 0
    assert queue.ack(task) is TaskStatus.COMPLETED
    other = elsewhere.dequeue()
    assert other is not None
    assert other.uuid == urgent


def test_a_message_is_an_id_and_nothing_else(own: OwnQueue, opened: Opener) -> None:
    uuid = opened().enqueue(key(), prompt="secret plans")
    payload, properties = own.take()
    assert payload == {"uuid": uuid}
    assert properties["delivery_mode"] == 2


def test_messages_are_in_a_durable_quorum_queue(rabbitmq: str, tmp_path: Path) -> None:
    for own in own_queue(rabbitmq):
        queue = open_queue(tmp_path, own.config)
        assert type(queue) is RabbitMQTaskQueue
        queue.enqueue(key())
        queue.close()
        with kombu.Connection(rabbitmq) as connection:
            channel = connection.channel()
            channel.queue_declare(own.name, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
            with pytest.raises(Exception, match="inequivalent arg 'x-queue-type'"):
                channel.queue_declare(own.name, durable=True, auto_delete=False, arguments={"x-queue-type": "classic"})


def test_one_of_many_deliveries_is_the_claim(own: OwnQueue, opened: Opener) -> None:
    queues = [opened() for _ in range(3)]
    uuid = queues[0].enqueue(key())
    for _ in range(4):
        own.send({"uuid": uuid})
    tasks = [queue.dequeue() for queue in (*queues, *queues)]
    assert [task.uuid for task in tasks if task is not None] == [uuid]
    assert queues[0].catalogue.tasks.get(uuid).attempts == 1
    assert own.size() == 0


def test_a_late_delivery_changes_nothing(own: OwnQueue, opened: Opener) -> None:
    queue = opened()
    uuid = queue.enqueue(key())
    task = queue.dequeue()
    assert task is not None
    queue.ack(task)
    before = queue.catalogue.tasks.get(uuid)
    own.send({"uuid": uuid})
    own.send({"uuid": "no-such-task"})
    assert queue.dequeue() is None
    assert queue.catalogue.tasks.get(uuid) == before
    assert own.size() == 0


def test_what_cannot_be_read_is_dropped_with_a_warning(
    own: OwnQueue, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened()
    queue.wait(0.1, threading.Event())  # makes the queue
    own.send([7])
    for _ in range(600):
        queue.wait(0.1, threading.Event())
        if said(caplog):
            break
    assert len(said(caplog)) == 1
    queue.close()
    own.send(b"\x80\x05K\x01.", content_type="application/x-python-serialize", content_encoding="binary")
    own.send(b"{", content_type="application/json", content_encoding="utf-8")
    own.send([1, 2])
    own.send({"uuid": 7})
    own.send({"uuid": "a", "more": "b"})
    count = 6
    if own.is_redis:
        own.push_raw(b"not an envelope")
        own.push_raw(b'{"no": "body"}')
        count = 8
    uuid = queue.enqueue(key())
    task = queue.get(60)
    assert task is not None
    assert task.uuid == uuid
    queue.close()
    assert own.size() == 0
    assert len([line for line in said(caplog) if own.name in line]) == count


def test_limits_hold_for_deliveries_too(own: OwnQueue, opened: Opener) -> None:
    queue = opened(limits=QueueLimits(poll_interval=3600, tasks_per_user=1, retry_delay=3600, max_retry_delay=3600))
    first, second = queue.enqueue(key(1)), queue.enqueue(key(2))
    task = queue.dequeue()
    assert task is not None
    assert queue.dequeue() is None  # the second task of this user has to wait
    assert own.size() == 0
    assert queue.nack(task, "not today") is TaskStatus.QUEUED
    own.send({"uuid": first})  # put off for an hour
    task = queue.dequeue()
    assert task is not None
    assert task.uuid == second


def test_resumed_retried_and_drained_tasks_are_announced(own: OwnQueue, opened: Opener) -> None:
    queue = opened()
    uuid = queue.enqueue(key())
    queue.pause(uuid)
    assert queue.dequeue() is None
    queue.resume(uuid)
    assert own.size() == 1
    task = queue.dequeue()
    assert task is not None
    queue.catalogue.queue.request(uuid, "resume", TaskStatus.RUNNING)  # as a worker does that is to end
    assert queue.ack(task, stopped=True) is TaskStatus.PAUSED
    assert own.size() == 1
    task = queue.dequeue()
    assert task is not None
    queue.nack(task, "no good", retry=False)
    assert own.size() == 0
    queue.retry(uuid)
    assert own.size() == 1


# ---- waiting -------------------------------------------------------------------------------------------------------


def test_a_message_ends_the_waiting(own: OwnQueue, opened: Opener) -> None:
    queue, elsewhere = opened(), opened()
    results: list[QueuedTask | None] = []

    def wait() -> None:
        results.append(queue.get(60))
        queue.close()

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.6)
    started = time.monotonic()
    uuid = elsewhere.enqueue(key())
    waiting.join(60)
    assert time.monotonic() - started < 40  # the catalogue is asked in an hour
    assert [task and task.uuid for task in results] == [uuid]
    assert own.size() == 0


def test_whoever_is_told_to_stop_stops_waiting(opened: Opener) -> None:
    queue, stop = opened(), threading.Event()
    queue.wait(0.1, stop)  # connects
    started = time.monotonic()
    threading.Timer(0.3, stop.set).start()
    queue.wait(60, stop)
    assert 0.2 < time.monotonic() - started < 40


def test_a_message_that_was_waited_for_is_not_kept_from_others(own: OwnQueue, opened: Opener, tmp_path: Path) -> None:
    """A worker that heard of a task and then took another one from the catalogue gives the message back."""
    queue, other = opened(), opened()
    uuid = other.enqueue(key(1))
    queue.wait(60, threading.Event())
    unannounced(tmp_path, 2, priority=9)
    queue._next_poll = 0.0  # it is time to ask the catalogue
    task = queue.dequeue()
    assert task is not None
    assert task.uuid != uuid
    eventually(lambda: own.size() == 1)
    task = other.dequeue()
    assert task is not None
    assert task.uuid == uuid
    other.close()
    assert own.size() == 0


def test_a_worker_that_is_always_due_uses_up_messages_too(own: OwnQueue, opened: Opener, tmp_path: Path) -> None:
    """As with tasks that take longer than the interval, while as many come as go."""
    queue = opened(limits=QueueLimits(poll_interval=0.0))
    urgent = unannounced(tmp_path, 100, priority=9)
    for number in range(3):
        queue.enqueue(key(number))
    found = []
    for number in range(3, 13):
        queue.enqueue(key(number))
        task = queue.dequeue()
        assert task is not None
        found.append(task.lease.uuid)
        queue.nack(task, "no good", retry=False)
    assert urgent in found[:2], "the catalogue has its turn, too"
    assert own.size() <= queue.depth() + 1
    while task := queue.dequeue():
        queue.nack(task, "no good", retry=False)
    assert own.size() == 0


# ---- consumers that die --------------------------------------------------------------------------------------------

KILLED = """
import sys, time
from orihon.drivers import broker
from orihon.drivers.broker_address import BrokerAddress
from orihon.runtime.queue import TaskQueue
base_dir, url, name, moment = sys.argv[1:]
broker.ANSWER_SECONDS = broker.CONNECT_SECONDS = 60.0
mine = broker.Broker(BrokerAddress.of(url), name)
delivery = mine.get(60)
if moment == "claimed":
    assert TaskQueue(base_dir, {}).catalogue.queue.claim(delivery.uuid)
print(delivery.uuid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("moment", ["received", "claimed"])
def test_a_consumer_killed_before_it_acknowledges_loses_nothing(
    own: OwnQueue, opened: Opener, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = opened()
    uuid = queue.enqueue(key())
    queue.close()
    command = [sys.executable, "-c", KILLED, str(tmp_path), own.url, own.name, moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline().strip() == uuid
            assert own.size() == 0
        finally:
            consumer.kill()
    # Redis waits for somebody who may yet acknowledge; RabbitMQ sees the connection end.
    monkeypatch.setattr(broker, "VISIBILITY_SECONDS", 1)
    monkeypatch.setattr(broker, "_RESTORE_SECONDS", 0.1)
    waiting = Broker(BrokerAddress.of(own.url), own.name)
    assert waiting.wait(60), "the message never came again"
    waiting.close()
    monkeypatch.setattr(queue, "_next_poll", time.monotonic() + 3600)
    task = queue.get(60)
    assert task is not None
    assert task.uuid == uuid
    assert task.attempt == (2 if moment == "claimed" else 1)
    queue.close()
    assert own.size() == 0
    if own.is_redis:
        assert own.unacknowledged() == 0


# ---- brokers that are away -----------------------------------------------------------------------------------------


def test_a_broker_that_is_away_fails_nothing_and_is_said_once(
    own: OwnQueue, proxy: CuttingProxy, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy.stop()
    queue = opened(proxy.url(own.url))
    uuids = [queue.enqueue(key(number)) for number in range(3)]
    found = [task.lease.uuid for task in iter(queue.dequeue, None)]
    assert sorted(found) == sorted(uuids)
    started, stop = time.monotonic(), threading.Event()
    queue.wait(1.2, stop)
    assert time.monotonic() - started >= 1.1
    (line,) = said(caplog)
    assert f"127.0.0.1:{proxy.port}" in line
    assert "guest" not in line
    # It comes back: found out by later calls, after a pause.
    proxy.start()
    eventually(lambda: queue.enqueue(key(9)) and "is back" in said(caplog)[-1])
    assert own.size() >= 1
    assert len(said(caplog)) == 2
    task = queue.dequeue()
    assert task is not None


def test_a_broker_that_goes_in_between_is_replaced_by_the_catalogue(
    own: OwnQueue, proxy: CuttingProxy, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(proxy.url(own.url))
    uuid = queue.enqueue(key())
    proxy.stop()
    task = queue.dequeue()
    assert task is not None
    assert task.uuid == uuid
    assert queue.ack(task) is TaskStatus.COMPLETED
    proxy.start()
    # The message comes after all, and is dropped.
    eventually(lambda: queue.dequeue() or (len(said(caplog)) > 1 and own.size() == 0))
    assert queue.catalogue.tasks.get(uuid).attempts == 1
    assert ["cannot be used" in line for line in said(caplog)] == [True, False]


def test_a_connection_that_was_cut_is_opened_again_without_a_word(
    own: OwnQueue, proxy: CuttingProxy, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    queue = opened(proxy.url(own.url))
    uuids = []
    for number, harm in enumerate((proxy.cut, proxy.cut, proxy.cut_at_next_answer)):
        uuids.append(queue.enqueue(key(number)))
        harm()
    uuids.append(queue.enqueue(key(9)))
    assert proxy.wait_for_cut_answer(0)
    proxy.cut()
    found = []
    while task := queue.dequeue():
        found.append(task.lease.uuid)
        proxy.cut()
    assert sorted(found) == sorted(uuids)
    stop = threading.Event()
    threading.Timer(0.3, proxy.cut).start()
    queue.wait(0.8, stop)
    assert said(caplog) == []


@pytest.mark.parametrize("moment", ["enqueue", "dequeue", "close"])
def test_a_broker_that_does_not_answer_holds_nobody_up(
    own: OwnQueue,
    proxy: CuttingProxy,
    opened: Opener,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    moment: str,
) -> None:
    if own.is_redis:  # a connection keeps the limit that it was made with
        monkeypatch.setattr(broker, "ANSWER_SECONDS", 4.0)
    queue = opened(proxy.url(own.url))
    connected, stalled = threading.Event(), threading.Event()
    tasks: list[QueuedTask | None] = []

    def go_on() -> None:
        queue.enqueue(key())
        connected.set()
        stalled.wait(60)
        if moment == "enqueue":
            queue.enqueue(key(2))
        if moment != "close":
            tasks.append(queue.dequeue())
        queue.close()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    assert connected.wait(60)
    monkeypatch.setattr(broker, "ANSWER_SECONDS", 1.2)
    monkeypatch.setattr(broker, "CONNECT_SECONDS", 1.2)
    proxy.stall()
    stalled.set()
    thread.join(60)
    assert not thread.is_alive(), "it waits for ever"
    assert None not in tasks
    assert len(said(caplog)) == (0 if moment == "close" else 1)


def test_a_wrong_password_is_said_once_and_clearly(
    own: OwnQueue, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address, _, place = own.url.partition("://")
    url = f"{address}://orihon:pa%2Fss-w0rd@{place.rpartition('@')[2]}"
    queue = opened(url)
    queue.enqueue(key())
    assert queue.dequeue() is not None
    (line,) = said(caplog, logging.ERROR)
    assert "refuses the user or the password" in line
    assert said(caplog) == []
    assert "w0rd" not in caplog.text
    with pytest.raises(StorageUnavailable) as caught:
        Broker(BrokerAddress.of(url), own.name).get()
    assert "w0rd" not in str(caught.value)


def test_a_queue_of_another_kind_is_said_as_an_error(
    own: OwnQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if own.is_redis:
        own._ask_redis("sadd", own.name, "something else")
    else:
        with kombu.Connection(own.url) as connection:
            kombu.Queue(own.name, durable=True)(connection.channel()).queue_declare()
    queue = open_queue(tmp_path, own.config)
    uuid = queue.enqueue(key())
    task = queue.dequeue()
    assert task is not None
    assert task.uuid == uuid
    queue.close()
    (line,) = said(caplog, logging.ERROR)
    assert own.name in line
    assert "not a queue as Orihon makes it" in line
    assert said(caplog) == []


def test_a_place_that_the_broker_does_not_have_is_said_as_an_error(
    own: OwnQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = urlsplit(own.url)._replace(path="/12345").geturl()
    queue = open_queue(tmp_path, own.at(url))
    queue.enqueue(key())
    queue.close()
    (line,) = said(caplog, logging.ERROR)
    assert "has no such virtual host or database" in line
    assert said(caplog) == []


# ---- connections ---------------------------------------------------------------------------------------------------


def test_threads_and_forks_have_connections_of_their_own(own: OwnQueue, opened: Opener) -> None:
    queue = opened()
    queue.enqueue(key(0))

    def enqueue(number: int) -> None:
        for other in range(5):
            queue.enqueue(key(10 * number + other))

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child = os.fork()
    if child == 0:
        try:
            enqueue(6)
        finally:
            os._exit(0)
    enqueue(5)
    assert ended(child) == 0
    enqueue(7)
    assert own.size() == 1 + 7 * 5
    assert queue.catalogue.queue.count_waiting()[0] == 36


def test_a_connection_that_nobody_uses_is_closed_and_opened_again(
    own: OwnQueue,
    proxy: CuttingProxy,
    opened: Opener,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = opened(proxy.url(own.url))
    uuid = queue.enqueue(key())
    task = queue.dequeue()
    assert task is not None
    before = proxy.accepted
    queue.renew(task)
    monkeypatch.setattr(broker_queue, "_IDLE_SECONDS", 0.0)
    queue.renew(task)  # a long task: the heartbeat of its lease ends the connection
    assert queue.ack(task) is TaskStatus.COMPLETED
    queue.enqueue(key(2))
    assert proxy.accepted > before
    before = proxy.accepted
    monkeypatch.setattr(broker, "STALE_SECONDS", 0.0)
    queue.enqueue(key(3))
    assert proxy.accepted > before
    assert own.size() == 2
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED
    assert said(caplog) == []


def test_queues_are_chosen_by_their_address(own: OwnQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert type(open_queue(tmp_path, {})) is TaskQueue
    if own.is_redis:
        with refused(InvalidSettings, "broker_rabbitmq"):
            RabbitMQTaskQueue(own.config)
        assert type(open_queue(None, own.config)) is BrokerTaskQueue
        return
    queue = RabbitMQTaskQueue({**own.config, "context_storage": {"base_dir": str(tmp_path / "there")}})
    assert queue.base_dir == tmp_path / "there"
    uuid = queue.enqueue(key())
    task = queue.get(timeout=60)
    assert task is not None
    assert (task.uuid, queue.nack(task, "later", retry=False)) == (uuid, TaskStatus.FAILED)
    assert queue.get(timeout=0) is None
    queue.close()


def test_sqs_carries_messages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(broker, "SQS_SECONDS", 0)
    server: Any = import_module("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        config = {"queue": {"url": f"sqs://key:secret@127.0.0.1:{port}", "name": "orihon_test"}}
        queue = open_queue(tmp_path, config, limits=SELDOM)
        assert isinstance(queue, BrokerTaskQueue)
        assert queue.dequeue() is None
        uuid = queue.enqueue(key(1))
        urgent = unannounced(tmp_path, 2, priority=9)
        assert [task.lease.uuid for task in iter(queue.dequeue, None)] == [uuid, urgent]
        queue._announce(uuid)  # late, and twice
        queue._announce(uuid)
        assert queue.dequeue() is None
        other = Broker(BrokerAddress.of(config["queue"]["url"]), "orihon_test")
        assert other.get() is None
        other.close()
        queue.close()
    finally:
        server.stop()


def test_the_command_line_announces_tasks_and_says_when_it_cannot(own: OwnQueue, tmp_path: Path) -> None:
    ready = Broker(BrokerAddress.of(own.url), own.name)
    assert ready.get() is None  # to make a queue takes longest, and a command does not wait for ever
    ready.close()
    command = ("--base-dir", tmp_path, "enqueue", "do it")
    queued = run(*command, ORIHON_QUEUE__URL=own.url, ORIHON_QUEUE__NAME=own.name)
    assert (queued.code, queued.err) == (0, "")
    assert own.take()[0] == {"uuid": queued.out.strip()}
    with CuttingProxy.before(own.url) as proxy:
        proxy.stop()
        queued = run(*command, ORIHON_QUEUE__URL=proxy.url(own.url), ORIHON_QUEUE__NAME=own.name)
    assert queued.code == 0
    assert f"127.0.0.1:{proxy.port}" in " ".join(queued.err.split())
    assert "guest" not in queued.err


# ---- workers -------------------------------------------------------------------------------------------------------


def test_workers_share_the_load_and_use_up_all_messages(own: OwnQueue, tmp_path: Path) -> None:
    queue = open_queue(tmp_path, own.config, owner="the test")
    with workers(queue, 2, config=own.config, limits={"poll_interval": 30.0}) as started:
        eventually(lambda: len(started.pids()) == 2)
        uuids = [put(queue, "meet 2" if number < 2 else "steps 4 0.05", number) for number in range(10)]
        eventually(lambda: {queue.catalogue.tasks.get(uuid).status for uuid in uuids} == {TaskStatus.COMPLETED})
        eventually(lambda: own.size() == 0)
        started.process.send_signal(signal.SIGTERM)
        assert started.wait() == 0
    processed = [row.processed for row in queue.catalogue.workers.all(silence=3600)]
    assert sum(processed) == 10
    assert min(processed) >= 1, "each has met the other"
    assert {row.attempts for row in (queue.catalogue.tasks.get(uuid) for uuid in uuids)} == {1}
    assert sorted((tmp_path / "effects").read_text().split()) == sorted(uuids)
    queue.close()


def test_workers_go_on_while_the_broker_comes_and_goes(own: OwnQueue, proxy: CuttingProxy, tmp_path: Path) -> None:
    config = own.at(proxy.url(own.url))
    queue = open_queue(tmp_path, config, owner="the test")
    with workers(queue, 2, config=config, limits={"poll_interval": 0.5}) as started:
        uuids = [put(queue, "steps 3 0.02", number) for number in range(4)]
        eventually(lambda: queue.catalogue.tasks.get(uuids[0]).status is TaskStatus.COMPLETED)
        proxy.stop()
        uuids += [put(queue, "steps 3 0.02", number) for number in range(4, 12)]
        eventually(lambda: queue.catalogue.tasks.get(uuids[5]).status is TaskStatus.COMPLETED)
        proxy.start()
        eventually(queue.is_empty)
        assert started.process.poll() is None
    assert {queue.catalogue.tasks.get(uuid).status for uuid in uuids} == {TaskStatus.COMPLETED}
    assert sorted((tmp_path / "effects").read_text().split()) == sorted(uuids)
    queue.close()
