"""The two reference pages say what the table of settings says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orihon.settings import Setting, load_settings, schema

DOCS = Path(__file__).parents[2] / "docs"

KIND_NAMES = {
    "settings.md": {
        "whole": "integer, ",
        "number": "number, ",
        "text": "text",
        "path": "path",
        "pattern_list": "list of regular expressions",
        "pattern_map": "pairs of name and regular expression",
    },
    "ja/settings.md": {
        "whole": "整数、",
        "number": "数値、",
        "text": "文字列",
        "path": "パス",
        "pattern_list": "正規表現のリスト",
        "pattern_map": "名前と正規表現の組",
    },
}


def _written(default: object) -> str:
    if default is None:
        return "—"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    if isinstance(default, tuple | Mapping):
        return "`[]`" if isinstance(default, tuple) else "`{}`"
    return f"`{default}`"


def _row(row: Setting, page: str) -> str:
    allowed = KIND_NAMES[page].get(row.kind.name, "") + row.kind.allowed
    variables = "<br>".join(f"`{name}`" for name in row.env)
    return f"| `{row.key}` | {_written(row.default)} | {allowed} | {variables} | "


@pytest.mark.parametrize("page", KIND_NAMES)
def test_the_reference_has_every_setting_variable_and_spelling(page: str) -> None:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = [_row(row, page) + (f"{row.doc} |" if page == "settings.md" else "") for row in schema().values()]
    spellings = [f"| `{name}` | `{row.key}` |" for row in schema().values() for name in row.spellings]
    assert [row for row in rows if not any(line.startswith(row) for line in lines)] == []
    assert [name for name in spellings if name not in lines] == []
    keys = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert set(keys) == set(schema()) | {name for row in schema().values() for name in row.spellings}


@pytest.mark.parametrize("page", KIND_NAMES)
def test_the_example_of_the_reference_loads(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    example = tmp_path / "config.yaml"
    example.write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    settings = load_settings(example, environ={})
    assert settings.compression.preset == "coding-agent"
    assert settings.llm.openai.api_key is None
