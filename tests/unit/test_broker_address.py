"""Which brokers can be used, and what is said about the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orihon import load_settings
from orihon.drivers.broker_address import BrokerAddress
from orihon.errors import InvalidSettings, OrihonError
from orihon.runtime.broker_queue import BrokerTaskQueue, open_queue
from orihon.runtime.worker import WorkerProcess
from tests.helpers import refused

SECRET = "pa%2Fss-w0rd"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"amqp://me:{SECRET}@host:5672/team", "amqp://host:5672/team"),
        (f"amqps://me:{SECRET}@[::1]//", "amqps://[::1]"),
        (f"redis://:{SECRET}@host:6379/0?ssl_cert_reqs={SECRET}", "redis://host:6379/0"),
        (f"rediss://me:{SECRET}@host", "rediss://host"),
        (f"redis://me:{SECRET}@host//1", "redis://host//1"),
        (f"sqs://KEY:{SECRET}@", "sqs://"),
        (f"amqp://me:{SECRET}@one:1;amqp://me:other@two:2", "amqp://one:1;amqp://two:2"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    address = BrokerAddress.of(url)
    assert address.shown == shown
    assert "w0rd" not in repr(address)
    trouble = address.trouble(ConnectionError(f"no way to {url} with pa/ss-w0rd"), "tasks")
    assert "w0rd" not in str(trouble)
    assert trouble.reason == "broker_away"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("filesystem:///tmp/messages", "broker_loses"),
        (f"sqla+postgresql://me:{SECRET}@host/db", "broker_loses"),
        (f"sqlalchemy+sqlite:///{SECRET}", "broker_loses"),
        ("memory://", "broker_memory"),
        (f"pgmq://me:{SECRET}@host", "broker_unknown"),
        (f"http://me:{SECRET}@host", "broker_unknown"),
        ("localhost:5672", "broker_address"),
        (f"amqp://me:{SECRET}@host:port", "broker_address"),
        ("amqp://me:12/s3cr3t@host", "broker_address"),
        (f"amqp://me:{SECRET}@[::1", "broker_address"),
        (f"amqp://one;redis://me:{SECRET}@two", "broker_address"),
        ("amqp://one;memory://", "broker_memory"),
        (f"redis://me:{SECRET}@host:6379/s3cr3t", "broker_database"),
        ("rediss://one/0;rediss://two/-1", "broker_database"),
    ],
)
def test_brokers_that_cannot_be_used_are_refused(url: str, reason: str, tmp_path: Path) -> None:
    with refused(InvalidSettings, reason) as caught:
        open_queue(tmp_path, {"queue": {"url": url}})
    _check_secrecy(caught.value)
    with refused(InvalidSettings, reason):
        WorkerProcess(1, {"queue": {"url": url}}, base_dir=tmp_path)


def _check_secrecy(error: OrihonError) -> None:
    assert "w0rd" not in str(error)
    assert "s3cr3t" not in str(error)
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("scheme", "missing", "extra"),
    [("amqp", "kombu", "worker"), ("redis", "redis", "redis"), ("sqs", "boto3", "sqs")],
)
def test_a_missing_package_is_named(
    scheme: str, missing: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with refused(InvalidSettings, "broker_extra") as caught:
        open_queue(tmp_path, {"queue": {"url": f"{scheme}://host"}})
    assert missing in str(caught.value)
    assert f"pip install 'orihon[{extra}]'" in str(caught.value)


def test_a_queue_with_a_broker_needs_its_address(tmp_path: Path) -> None:
    with refused(InvalidSettings, "broker_missing"):
        BrokerTaskQueue(tmp_path, load_settings({}))
