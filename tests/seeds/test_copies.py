"""No example of a design document is kept without a test that uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds.copies import BLOCKS, statements

_HERE = Path(__file__).parent


@pytest.mark.parametrize("document", sorted(folder.name for folder in BLOCKS.iterdir()))
def test_every_example_is_used(document: str) -> None:
    program = (_HERE / f"test_{document}.py").read_text(encoding="utf-8")
    copies = sorted(path.name for path in (BLOCKS / document).iterdir())
    assert [name for name in copies if f'"{name}"' not in program] == []


def test_a_flow_is_read_statement_by_statement() -> None:
    flow = "\n".join(
        [
            "1. 取得（task.get()）",
            "   a. first = f(1)  # 実行",
            "      running/{uuid}/を作成",
            "      second = f(",
            "          2,",
            "      )",
            "",
            "2. もし必要なら",
            "   if first:",
            "       first = 3",
            "- 成功時: g(first)",
            "   → g(5)",
        ]
    )
    assert statements(flow) == [
        "first = f(1)  # 実行",
        "second = f(\n    2,\n)",
        "if first:\n    first = 3",
        "g(first)",
    ]
