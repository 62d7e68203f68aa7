"""What all tests share: the language is English, the environment says nothing, options for longer campaigns."""

from __future__ import annotations

import os

import pytest


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
