"""The adapters under the frameworks themselves, with those frameworks' own tests."""

import pytest

pytest.register_assert_rewrite("tests.frameworks.environments")
