"""A word to the workers at a broker, and brokers that do not hear it."""

from __future__ import annotations

import logging

import pytest

from orihon import load_settings
from orihon.drivers.broker import wake_workers
from tests.helpers import logged


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, []),
        ("redis://127.0.0.1:1/0", ["redis://127.0.0.1:1"]),
        ("carrier-pigeon://loft", ["carrier-pigeon"]),
    ],
)
def test_a_broker_that_does_not_hear_it_fails_nothing(
    url: str | None, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "orihon.broker"):
        wake_workers(load_settings({"queue": {"url": url}}), "some-task")
    lines = [record.getMessage() for record in logged(caplog, "orihon.broker")]
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("some-task: ")
        assert part in line
