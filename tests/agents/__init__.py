"""Unmodified clients at work through the proxy, with a scripted provider behind it."""

import pytest

pytest.register_assert_rewrite("tests.agents.clients", "tests.agents.doors", "tests.agents.job")
