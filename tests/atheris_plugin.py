"""``pytest -p tests.atheris_plugin --atheris SECONDS``: the code is instrumented as it is imported.

A plugin, since it has to be there before any module of ours is.
"""

from __future__ import annotations

import atheris
import pytest

_instrumenting = atheris.instrument_imports(include=["orihon"])
_instrumenting.__enter__()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--atheris", type=int, default=60, help="seconds for each target")


def pytest_configure(config: pytest.Config) -> None:
    from tests import fuzzing

    fuzzing.SEARCH = config.getoption("--atheris")
