"""The house keeps its order: rooms import only from rooms above, imports do nothing, public names are listed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orihon

PACKAGE = Path(orihon.__file__).parent

# From the top of the house to its entrances. A room may use any room above it.
ROOMS = [
    *("texts", "errors", "jsonio", "clock", "folders", "settings", "objects"),
    *("extra", "strings", "parts", "dialects", "wire", "message", "records", "prices", "counts", "tracing"),
    *("images", "tokens", "ladder", "counting", "task", "guard", "view"),
    *("database", "connections", "postgres", "store", "catalogue", "task_folders", "quotas", "task_opening"),
    *("task_naming", "base_folder"),
    *("usage_sums", "usage", "task_counts", "costs", "sizes", "write_ages", "metrics", "notifications", "audit"),
    *("grants", "search"),
    *("checkpoints", "compression", "inheritance", "chain", "heartbeat", "archive", "mirror", "logs", "view_changes"),
    *("brokers", "approvals", "asking", "task_figures", "context", "llm", "runtime"),
    *("task_reading", "view_reading", "changes_by_hand", "reports", "setting_up", "keys"),
    *("export", "forking", "backup", "retention", "scanning", "importers", "privacy"),
    *("findings", "checks", "verify", "doctor", "migration", "schemas", "web", "demo", "cli", "tools"),
]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Rooms of ours that a module really imports; imports for type checking only do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
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


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    here = ROOMS.index(room_of(path))
    below = [room for room in imports(ast.parse(path.read_text(encoding="utf-8"))) if ROOMS.index(room) > here]
    assert not below


def test_public_names_are_listed_and_can_be_had() -> None:
    assert orihon.__all__ == sorted(orihon.__all__)
    for name in orihon.__all__:
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
        if room_of(path) not in ("cli", "demo"):
            calls = [
                node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
            ]
            assert not [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"], path
