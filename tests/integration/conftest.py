"""What several integration tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.object_server import CREDENTIALS, Bucket, new_bucket, object_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Where a server of objects listens, no longer than for a module: a process with threads does not like to fork."""
    with object_server() as address:
        yield address


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new one, and the right to use it in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return new_bucket(endpoint)
