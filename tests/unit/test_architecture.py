"""The house keeps its order: rooms import only from rooms above, imports do nothing, public names are listed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orihon
from scripts.architecture import ROOMS

PACKAGE = Path(orihon.__file__).parent
#: A room may use any room above it; the plan has them in that order.
ORDER = list(ROOMS)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Rooms of ours that a module imports, those for type checking and inside functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "orihon":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("orihon."))
        else:
            yield from imports(node)


def sources() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def test_every_room_is_on_the_plan() -> None:
    assert {room_of(path) for path in sources()} == set(ROOMS)


def test_a_room_imports_only_from_rooms_above_it() -> None:
    below = [
        f"{path.relative_to(PACKAGE)} imports {room}"
        for path in sources()
        for room in imports(ast.parse(path.read_text(encoding="utf-8")))
        if ORDER.index(room) > ORDER.index(room_of(path))
    ]
    assert not below


def test_pages_and_commands_reach_the_store_through_tasks_alone() -> None:
    inside = [
        str(path.relative_to(PACKAGE))
        for path in sources()
        if room_of(path) in ("web", "mcp", "cli") and "store" in imports(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not inside


def test_public_names_are_listed_and_can_be_had() -> None:
    assert orihon.__all__ == sorted(orihon.__all__)
    assert len(orihon.__all__) <= 25
    tree = ast.parse(Path(orihon.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("orihon.")
        for alias in node.names
    }
    assert typed == orihon._HOMES, "a type checker sees what is there"
    assert set(orihon.__all__) <= orihon._HOMES.keys()
    for name in orihon._HOMES:
        assert getattr(orihon, name).__name__ == name
        assert name in dir(orihon)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        orihon.Nothing  # noqa: B018 - the access is the test


def test_importing_loads_nothing_heavy_and_writes_nothing(tmp_path: Path) -> None:
    heavy = ("apsw", "orjson", "yaml", "rich", "typer")
    program = f"import orihon, sys; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


def test_the_library_never_prints() -> None:
    for path in sources():
        if room_of(path) != "cli":
            calls = [
                node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
            ]
            assert not [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"], path
