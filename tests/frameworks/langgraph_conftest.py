"""Fixtures of LangGraph's own tests, with our saver and store in the place of theirs; put over their conftest.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langgraph.cache.memory import InMemoryCache

from orihon.adapters.langgraph import OrihonSaver, OrihonStore
from orihon.base import Base

NO_DOCKER = True
BACKEND = os.environ.get("ORIHON_TEST_BACKEND", "sqlite")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def deterministic_uuids(mocker: Any) -> Any:
    numbers = (UUID(f"00000000-0000-4000-8000-{number:012}", version=4) for number in range(10000))
    return mocker.patch("uuid.uuid4", side_effect=numbers)


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def cache() -> Any:
    return InMemoryCache()


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Base]:
    with Base(tmp_path, {"context_storage": {"backend": BACKEND, "durability": "os"}}) as opened:
        yield opened


@pytest.fixture(params=["orihon"])
def sync_checkpointer(base: Base) -> Iterator[OrihonSaver]:
    with OrihonSaver(base) as saver:
        yield saver


@pytest.fixture(params=["orihon"])
def async_checkpointer(base: Base) -> Iterator[OrihonSaver]:
    with OrihonSaver(base) as saver:
        yield saver


@pytest.fixture(params=["orihon"])
def sync_store(base: Base) -> OrihonStore:
    return OrihonStore(base)


@pytest.fixture(params=["orihon"])
def async_store(base: Base) -> OrihonStore:
    return OrihonStore(base)
