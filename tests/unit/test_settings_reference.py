"""The two reference pages have every setting, their examples load, and something reads every setting."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import orihon
from orihon.runtime.queue import QueueLimits
from orihon.runtime.sources.forge import Labels
from orihon.runtime.tools import ToolOptions
from orihon.settings import Settings, load_settings, schema
from orihon.settings.in_force import meaning_of
from orihon.settings.rungs import LEVELS, STRATEGIES, Rung
from orihon.texts import LANGUAGES, speaking

DOCS = Path(__file__).parents[2] / "docs"

PAGES = ("settings.md", "ja/settings.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_reference_has_every_setting_and_spelling(page: str) -> None:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    keys = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert sorted(keys) == sorted(name for row in schema().values() for name in (row.key, *row.spellings))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_setting_says_what_it_means_in_every_language(lang: str) -> None:
    with speaking(lang):
        meanings = [meaning_of(key) for key in schema()]
    assert all(meanings)
    assert (meanings == [row.doc for row in schema().values()]) is (lang == "en")


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_the_reference_loads(page: str, tmp_path: Path) -> None:
    settings, _ = _examples(page, tmp_path)
    assert settings.compression.preset == "coding-agent"
    assert settings.llm.openai.api_key is None


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_ladder_loads(page: str, tmp_path: Path) -> None:
    _, settings = _examples(page, tmp_path)
    assert settings.compression.ladder is not None
    assert [rung.usage for rung in settings.compression.ladder] == [0.6, 0.75, 0.95, None, None]
    assert dict(settings.prices["my-model"]) == {"input": 2.5, "cached": 0.25, "output": 10}


@pytest.mark.parametrize("page", PAGES)
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


#: What ``Settings`` derives from several settings, and from which.
DERIVED = {
    "model": ("model",),
    "context_length": ("context_length",),
    "reserve_output": ("reserve_output", "max_token"),
    "output_reserve": ("reserve_output", "max_token"),
}
#: Names under which the source holds a section for a few lines.
HELD_AS = {"storage": "context_storage", "_settings": "settings", "_runtime": "runtime", "_section": "active"}
HELD_AS |= {"limits": "web", "_limits": "web"}
#: Sections that the same lines read, and what they are called there.
SHARED = {"github": "service", "gitlab": "service"}
#: Sections that are taken over field by field, and by which types.
TAKEN_OVER = {"multiprocess": QueueLimits, "tools": ToolOptions, "labels": Labels}


def _read_in_the_source() -> set[str]:
    """Every setting that a line outside ``settings/`` reads, as ``section.name`` or through ``Settings``."""
    package = Path(orihon.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.parent.name != "settings"]
    found = {pair for path in sources for pair in _reads(ast.parse(path.read_text(encoding="utf-8")))}
    found |= {(section, field.name) for section, kind in TAKEN_OVER.items() for field in dataclasses.fields(kind)}
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
    section = sections[-1] if sections else "settings"
    return not found.isdisjoint({(section, name), (SHARED.get(section, section), name)})


def test_something_acts_on_every_setting() -> None:
    assert set(schema()) - _read_in_the_source() == set()
