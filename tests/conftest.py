"""What all tests share: the language is English, the environment says nothing, options for longer campaigns."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.services import RABBITMQ, REDIS, Database, needed, own_schema


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=200, help="how often the stress tests kill a writer, per back end")
    parser.addoption("--worker-kills", type=int, default=6, help="how often the stress tests kill a worker")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills a stress test makes."""
    return int(request.config.getoption("--kills"))


@pytest.fixture
def worker_kills(request: pytest.FixtureRequest) -> int:
    """How many workers a stress test kills."""
    return int(request.config.getoption("--worker-kills"))


@pytest.fixture
def postgres() -> Iterator[Database]:
    """A schema of its own in a running PostgreSQL."""
    yield from own_schema()


@pytest.fixture
def rabbitmq() -> str:
    """The address of a running RabbitMQ; name queues with something random, and delete them."""
    return needed(RABBITMQ)


@pytest.fixture
def redis() -> str:
    """The address of a running Redis; name keys with something random, and delete them."""
    return needed(REDIS)
