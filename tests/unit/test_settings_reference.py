"""The two reference pages say what the table of settings says."""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import orihon
from orihon.settings import Setting, Settings, load_settings, schema
from orihon.settings.rungs import LEVELS, STRATEGIES, Rung

DOCS = Path(__file__).parents[2] / "docs"

KIND_NAMES = {
    "settings.md": {
        "whole": "integer, ",
        "number": "number, ",
        "text": "text",
        "name_list": "list of texts",
        "servers": "list or pairs of servers",
        "path": "path",
        "pattern_list": "list of regular expressions",
        "pattern_map": "pairs of name and regular expression",
        "ladder": "list of rungs",
        "prices": "prices by model",
        "quotas": "limits by user",
        "roles": "list, ",
    },
    "ja/settings.md": {
        "whole": "整数、",
        "number": "数値、",
        "text": "文字列",
        "name_list": "文字列のリスト",
        "servers": "サーバーのリストまたは組",
        "path": "パス",
        "pattern_list": "正規表現のリスト",
        "pattern_map": "名前と正規表現の組",
        "ladder": "段のリスト",
        "prices": "モデルごとの価格",
        "quotas": "ユーザーごとの上限",
        "roles": "リスト、",
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
    settings, _ = _examples(page, tmp_path)
    assert settings.compression.preset == "coding-agent"
    assert settings.llm.openai.api_key is None


@pytest.mark.parametrize("page", KIND_NAMES)
def test_the_example_of_a_ladder_loads(page: str, tmp_path: Path) -> None:
    _, settings = _examples(page, tmp_path)
    assert settings.compression.ladder is not None
    assert [rung.usage for rung in settings.compression.ladder] == [0.6, 0.75, 0.95, None, None]
    assert dict(settings.prices["my-model"]) == {"input": 2.5, "cached": 0.25, "output": 10}


@pytest.mark.parametrize("page", KIND_NAMES)
def test_the_reference_has_every_field_of_a_rung(page: str) -> None:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    fields = {"strategies": STRATEGIES, "level": LEVELS, **{field.name: () for field in dataclasses.fields(Rung)}}
    for name in fields.keys() - {"usage", "messages", "event"}:
        (row,) = [line for line in lines if line.startswith(f"| {name} |")]
        assert ", ".join(fields[name]) in row


def _examples(page: str, folder: Path) -> list[Settings]:
    _, *examples = (DOCS / page).read_text(encoding="utf-8").split("```yaml\n")
    path = folder / "config.yaml"
    loaded = []
    for example in examples:
        path.write_text(example.split("```")[0], encoding="utf-8")
        loaded.append(load_settings(path, environ={}))
    return loaded


NOT_USED_YET = {"settings.md": "## Not used yet\n", "ja/settings.md": "## まだ使われない設定\n"}
#: What ``Settings`` derives from several settings, and from which.
DERIVED = {
    "model": ("model",),
    "context_length": ("context_length",),
    "reserve_output": ("reserve_output", "max_token"),
    "output_reserve": ("reserve_output", "max_token"),
}
#: Names under which the source holds a section for a few lines.
HELD_AS = {"storage": "context_storage", "_settings": "settings", "_runtime": "runtime", "_section": "active"}


def _not_used_yet(page: str) -> set[str]:
    section = (DOCS / page).read_text(encoding="utf-8").split(NOT_USED_YET[page])[1].split("\n## ")[0]
    patterns = re.findall(r"`([a-z_]+\.[a-z_.*]+)`", section)
    listed = {pattern: fnmatch.filter(schema(), pattern) for pattern in patterns}
    assert [pattern for pattern, keys in listed.items() if not keys] == [], "settings that do not exist"
    return {key for keys in listed.values() for key in keys}


@cache
def _read_in_the_source() -> set[str]:
    """Every setting that a line outside ``settings/`` reads, as ``section.name`` or through ``Settings``."""
    package = Path(orihon.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.parent.name != "settings"]
    found = {pair for path in sources for pair in _reads(ast.parse(path.read_text(encoding="utf-8")))}
    return {key for key in schema() if _is_read(key, found)}


def _reads(tree: ast.AST) -> Iterator[tuple[str, str]]:
    yield from _attributes(tree, HELD_AS)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from _attributes(node, HELD_AS | dict(_held_by(node)))


def _attributes(tree: ast.AST, held_as: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            yield held_as.get(name, name), node.attr


def _held_by(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Names that a function gives to sections, as in ``wanted = settings.compression``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target, value in zip(_parts(node.targets[0]), _parts(node.value), strict=False):
                if isinstance(target, ast.Name) and isinstance(value, ast.Attribute):
                    yield target.id, value.attr


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _is_read(key: str, found: set[tuple[str, str]]) -> bool:
    *sections, name = key.split(".")
    if sections[:1] == ["llm"] and len(sections) > 1:
        through = {derived for derived, names in DERIVED.items() if name in names}
        return ("active", name) in found or any({("settings", one), ("active", one)} & found for one in through)
    return (sections[-1] if sections else "settings", name) in found


@pytest.mark.parametrize("page", NOT_USED_YET)
def test_the_reference_says_which_settings_nothing_reads_yet(page: str) -> None:
    assert _not_used_yet(page) == set(schema()) - _read_in_the_source()
